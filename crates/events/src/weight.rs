//! The kernel's load weights.

use crate::Policy;

/// Weight of a `SCHED_IDLE` task.
const IDLE_WEIGHT: u32 = 3;

/// Weights of nice -20 to 19. Each step is a factor of about 1.25; nice 0 is 1024.
const NICE_WEIGHTS: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];

/// The load weight that the kernel gives a task of this policy and nice value (clamped to -20 to 19).
pub fn load_weight(policy: Policy, nice: i32) -> u32 {
    if policy == Policy::Idle {
        return IDLE_WEIGHT;
    }
    usize::try_from(nice.clamp(-20, 19) + 20).map_or(1024, |index| NICE_WEIGHTS[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_of_some_nice_values() {
        assert_eq!(load_weight(Policy::Normal, 0), 1024);
        assert_eq!(load_weight(Policy::Normal, -20), 88761);
        assert_eq!(load_weight(Policy::Batch, 19), 15);
        assert_eq!(load_weight(Policy::Normal, 100), 15);
        assert_eq!(load_weight(Policy::Idle, 0), 3);
    }
}
