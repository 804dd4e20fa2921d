//! The clocks in use, in nanoseconds.

use nix::time::{ClockId, clock_gettime};

/// Time since boot without suspend, `CLOCK_MONOTONIC`. The kernel's records use the same clock.
pub fn monotonic() -> u64 {
    read(ClockId::CLOCK_MONOTONIC)
}

/// Time since boot including suspend, `CLOCK_BOOTTIME`. The kernel uses it for the start time of a process.
pub fn since_boot() -> u64 {
    read(ClockId::CLOCK_BOOTTIME)
}

/// CPU time of the calling thread.
pub fn thread_cpu_time() -> u64 {
    read(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock).expect("Linux has these clocks");
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    part(time.tv_sec()) * 1_000_000_000 + part(time.tv_nsec())
}

/// How far the clock that schedulers see (`scx_bpf_now()`) is ahead of `CLOCK_MONOTONIC`, in nanoseconds; `None` without root, or if debugfs is not mounted.
pub fn scheduler_ahead() -> Option<i64> {
    let text = std::fs::read_to_string("/sys/kernel/debug/sched/debug").ok()?;
    parse_ahead(&text)
}

/// The difference between two lines at the beginning of that file; both clocks are read at the same time, in milliseconds with six decimals.
fn parse_ahead(text: &str) -> Option<i64> {
    let clock = |name: &str| -> Option<i64> {
        let line = text.lines().find(|line| line.starts_with(name))?;
        let (_, value) = line.split_once(':')?;
        value.trim().replace('.', "").parse().ok()
    };
    Some(clock("cpu_clk ")? - clock("ktime ")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_schedulers_is_behind() {
        let text = "Sched Debug Version: v0.11, 7.3.4\nktime                                   : 38485.699200\n\
            sched_clk                               : 38242.870996\ncpu_clk                                 : 38474.642456\n";
        assert_eq!(parse_ahead(text), Some(-11_056_744));
        assert_eq!(parse_ahead("Sched Debug Version: v0.11\n"), None);
    }
}
