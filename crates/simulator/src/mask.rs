//! Operations on CPU masks.

use crate::structures::{CPU_MASK_WORDS, CpuMask};

impl CpuMask {
    /// The mask of CPUs `0..count`.
    pub fn first_cpus(count: usize) -> CpuMask {
        let mut mask = CpuMask::default();
        for cpu in 0..count {
            mask.set(cpu);
        }
        mask
    }

    /// The mask of one CPU.
    pub fn only(cpu: usize) -> CpuMask {
        let mut mask = CpuMask::default();
        mask.set(cpu);
        mask
    }

    /// Whether `cpu` is in it.
    pub fn test(&self, cpu: usize) -> bool {
        cpu < CPU_MASK_WORDS * 64 && self.bits[cpu / 64] >> (cpu % 64) & 1 != 0
    }

    /// Adds `cpu`.
    pub fn set(&mut self, cpu: usize) {
        self.bits[cpu / 64] |= 1 << (cpu % 64);
    }

    /// Removes `cpu`.
    pub fn clear(&mut self, cpu: usize) {
        self.bits[cpu / 64] &= !(1 << (cpu % 64));
    }

    /// Adds or removes `cpu`.
    pub fn assign(&mut self, cpu: usize, value: bool) {
        if value { self.set(cpu) } else { self.clear(cpu) }
    }

    /// Number of CPUs in it.
    pub fn weight(&self) -> u32 {
        self.bits.iter().map(|word| word.count_ones()).sum()
    }

    /// The lowest CPU in it.
    pub fn first(&self) -> Option<usize> {
        self.next_from(0)
    }

    /// The CPUs that are also in `other`.
    pub fn common(&self, other: &CpuMask) -> CpuMask {
        CpuMask { bits: std::array::from_fn(|word| self.bits[word] & other.bits[word]) }
    }

    /// The lowest CPU that is also in `other`.
    pub fn first_common(&self, other: &CpuMask) -> Option<usize> {
        self.common(other).first()
    }

    /// The lowest CPU in it that is at least `from`.
    pub fn next_from(&self, from: usize) -> Option<usize> {
        let mut word = from / 64;
        if word >= CPU_MASK_WORDS {
            return None;
        }
        let mut bits = self.bits[word] & (u64::MAX << (from % 64));
        loop {
            if bits != 0 {
                return Some(word * 64 + bits.trailing_zeros() as usize);
            }
            word += 1;
            if word == CPU_MASK_WORDS {
                return None;
            }
            bits = self.bits[word];
        }
    }

    /// The CPUs in it, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(self.first(), |cpu| self.next_from(cpu + 1))
    }
}

/// The first `count` CPUs of a mask as the kernel prints one (`%*pb`): hexadecimal, 32 CPUs per group, the last group first.
pub fn hexadecimal(mask: &CpuMask, count: usize) -> String {
    let group = |group: usize| {
        let digits = (count - group * 32).min(32).div_ceil(4);
        let bits = mask.bits[group / 2] >> (group % 2 * 32) & 0xffff_ffff;
        format!("{bits:0digits$x}")
    };
    let groups: Vec<String> = (0..count.div_ceil(32)).rev().map(group).collect();
    groups.join(",")
}

/// Finds the first CPU of `a & b` at or after `start`, wrapping around (`cpumask_any_and_distribute`).
pub fn first_common_from(a: &CpuMask, b: &CpuMask, start: usize, words: usize) -> Option<usize> {
    // A division takes longer than all else here.
    let start_word = if start < words * 64 { start / 64 } else { start / 64 % words };
    let start_bit = start % 64;
    for step in 0..=words {
        let word = start_word + step;
        let word = if word < words { word } else { word - words };
        let mut bits = a.bits[word] & b.bits[word];
        if step == 0 {
            bits &= u64::MAX << start_bit;
        } else if step == words {
            bits &= !(u64::MAX << start_bit);
        }
        if bits != 0 {
            return Some(word * 64 + bits.trailing_zeros() as usize);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_printed_as_the_kernel_does() {
        let mut mask = CpuMask::first_cpus(3);
        assert_eq!(hexadecimal(&mask, 4), "7");
        assert_eq!(hexadecimal(&mask, 10), "007");
        mask.set(35);
        assert_eq!(hexadecimal(&mask, 36), "8,00000007");
    }
}
