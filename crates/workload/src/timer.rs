//! When timers expire.

use crate::events::TimerMode;

/// The state of a timer when a task comes to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// The nominal end of the period that the task worked in, nanoseconds.
    pub due: u64,
    /// Whether that time has already passed: then the task does not sleep.
    pub late: bool,
    /// Number of whole periods that are skipped, starting at `due`.
    pub skipped: u64,
    /// The time from which the new job counts.
    pub release: u64,
}

impl TimerMode {
    /// When a timer expires next. `last` is its last expiry (the start of the task's events if the timer is used for the first time), and is
    /// advanced.
    pub fn expire(self, last: &mut u64, period: u64, now: u64) -> Expiry {
        let due = *last + period;
        let late = now >= due;
        let skipped = match self {
            TimerMode::Skip if late => (now - due).checked_div(period).unwrap_or(0),
            _ => 0,
        };
        *last = match self {
            TimerMode::Relative if late => now,
            _ => due + skipped * period,
        };
        Expiry { due, late, skipped, release: *last }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A timer of 50 ns that expired at 150, reached by a task at this time.
    fn at(mode: TimerMode, now: u64) -> (Expiry, u64) {
        let mut last = 150;
        let expiry = mode.expire(&mut last, 50, now);
        (expiry, last)
    }

    fn expiry(late: bool, skipped: u64, release: u64) -> (Expiry, u64) {
        let due = 200;
        (Expiry { due, late, skipped, release }, release)
    }

    #[test]
    fn who_is_early_sleeps_in_every_mode() {
        for mode in [TimerMode::Relative, TimerMode::Absolute, TimerMode::Skip] {
            assert_eq!(at(mode, 199), expiry(false, 0, 200));
        }
    }

    #[test]
    fn a_late_timer_restarts_keeps_its_grid_or_leaves_periods_out() {
        assert_eq!(at(TimerMode::Relative, 230), expiry(true, 0, 230));
        assert_eq!(at(TimerMode::Absolute, 330), expiry(true, 0, 200));
        assert_eq!(at(TimerMode::Skip, 249), expiry(true, 0, 200));
        assert_eq!(at(TimerMode::Skip, 250), expiry(true, 1, 250));
        assert_eq!(at(TimerMode::Skip, 330), expiry(true, 2, 300));
    }

    #[test]
    fn a_timer_without_a_period_skips_nothing() {
        let mut last = 10;
        assert_eq!(TimerMode::Skip.expire(&mut last, 0, 100).skipped, 0);
    }
}
