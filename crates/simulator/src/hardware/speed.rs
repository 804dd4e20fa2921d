//! How fast a CPU computes.

/// Work that a CPU does in a time, in parts of that of the fastest CPU at its full speed.
///
/// The unit is so small that capacities, which are parts of 1024, and throughputs of shared cores, which are parts of 1000, are exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed(u64);

impl Speed {
    /// The speed of the fastest CPU of a machine.
    pub const FULL: Speed = Speed(1024 * 1_000_000);

    /// The full speed of a CPU of this capacity, of 1024.
    pub fn of_capacity(capacity: u64) -> Speed {
        Speed(Self::FULL.0 / 1024 * capacity)
    }

    /// This part of the speed, but not nothing.
    #[must_use]
    pub fn part(self, part: u64, whole: u64) -> Speed {
        let speed = u128::from(self.0) * u128::from(part) / u128::from(whole);
        Speed((speed as u64).max(1))
    }

    /// The work done in `duration`, in nanoseconds at full speed, and the rest of it below a nanosecond, if `remainder` was left before.
    #[inline]
    pub fn work(self, duration: u64, remainder: u64) -> (u64, u64) {
        if self == Self::FULL { (duration, remainder) } else { self.slow_work(duration, remainder) }
    }

    #[inline(never)]
    fn slow_work(self, duration: u64, remainder: u64) -> (u64, u64) {
        let work = u128::from(duration) * u128::from(self.0) + u128::from(remainder);
        let whole = u128::from(Self::FULL.0);
        ((work / whole) as u64, (work % whole) as u64)
    }

    /// How long `work` takes, in nanoseconds, if `remainder` of it is done.
    #[inline]
    pub fn time_for(self, work: u64, remainder: u64) -> u64 {
        if self == Self::FULL { work } else { self.slow_time_for(work, remainder) }
    }

    #[inline(never)]
    fn slow_time_for(self, work: u64, remainder: u64) -> u64 {
        let work = u128::from(work) * u128::from(Self::FULL.0);
        let time = work.saturating_sub(remainder.into()).div_ceil(self.0.into());
        time.try_into().unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_cpus_take_longer() {
        assert_eq!(Speed::FULL.time_for(1_000_000, 0), 1_000_000);
        assert_eq!(Speed::of_capacity(512).time_for(1_000_000, 0), 2_000_000);
        let shared = Speed::of_capacity(1024).part(1150, 2 * 1000);
        assert_eq!(shared.time_for(5_750_000, 0), 10_000_000);
        assert_eq!(shared.work(10_000_000, 0), (5_750_000, 0));
    }

    #[test]
    fn no_work_is_lost_by_rounding() {
        let third = Speed::FULL.part(1, 3);
        let mut left = 0;
        let mut done = 0;
        for _ in 0..3_000 {
            let (work, remainder) = third.work(1, left);
            (done, left) = (done + work, remainder);
        }
        // The speed itself is rounded down by less than a part in 10^9.
        assert_eq!(done, 999);
        assert_eq!(third.time_for(1000 - done, left), 1);
    }
}
