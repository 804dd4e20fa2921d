//! The kind of timer on which a task sleeps: relative to when it falls asleep, absolute times, or a period.

use fairground_workload::TimerMode;

use crate::record::Context;
use crate::steps::{Iter, Step, Wait, waits};

/// `nanosleep()` and `clock_nanosleep()` on x86.
const SLEEPS: [i32; 2] = [35, 230];
/// How late the timers of ordinary tasks may expire, nanoseconds.
pub(crate) const TIMER_SLACK: u64 = 50_000;
/// Fewer timers show no rhythm.
const FEW: usize = 8;

/// How a task's timers are set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rhythm {
    /// Relative to when the task falls asleep.
    Relative,
    /// At absolute times.
    Absolute,
    /// Once per period, for one job.
    Periodic {
        /// Its length.
        period: u64,
        /// CPU time of one job.
        job: u64,
        /// The treatment of a late task.
        mode: TimerMode,
        /// Whether the task ever was late: only then does `mode` show.
        shown: bool,
    },
}

/// Whether a timer ended this wait.
pub(crate) fn is_timer(wait: &Wait) -> bool {
    let sleeps = wait.call.is_some_and(|call| SLEEPS.contains(&call.number));
    wait.waker.is_none()
        && (wait.context == Context::Timer || (wait.context == Context::Device && sleeps))
}

/// The rhythm of a task with these steps.
pub(crate) fn rhythm(steps: Iter<'_>) -> Rhythm {
    let timers = || waits(steps.clone()).filter(is_timer);
    let mut lengths: Vec<u64> = timers().map(|wait| wait.length()).collect();
    if lengths.len() < FEW {
        return Rhythm::Relative;
    }
    let ends = || timers().map(|wait| wait.until);
    let intervals: Vec<u64> =
        ends().zip(ends().skip(1)).map(|(one, next)| next.saturating_sub(one)).collect();
    lengths.sort_unstable();
    let mut between = intervals.clone();
    between.sort_unstable();
    if are_of_one_length(&lengths, &between) {
        return Rhythm::Relative;
    }
    // A task that others wake as well may have a period, but its work in a period is not one job.
    let own = lengths.len() * 100 >= waits(steps.clone()).count() * 95;
    if let Some(periodic) = own.then(|| periodic(steps, &intervals)).flatten() {
        return periodic;
    }
    if middle_half(&lengths) < middle_half(&between) { Rhythm::Relative } else { Rhythm::Absolute }
}

/// Whether every sleep was set to the same length, and the intervals between the ends of sleeps merely follow from that. For a task that is
/// rarely disturbed, most lengths and most intervals are alike; the few disturbed ones show which of the two is fixed.
fn are_of_one_length(lengths: &[u64], intervals: &[u64]) -> bool {
    let others = |values: &[u64]| values.len() - alike(values).len();
    // A sleep is never shorter than requested. If many are shorter than the usual length, that is the rest that an undisturbed job leaves of a
    // period.
    let shortest = alike(lengths)[0];
    let shorter = lengths.partition_point(|length| *length < shortest);
    shorter * 10 <= lengths.len()
        && others(lengths) * 2 <= lengths.len()
        && others(lengths) < others(intervals)
}

/// The largest group of values within 1 % of each other, or within the slack of timers. Of several equally large groups, the one with the
/// smallest values: lateness makes intervals longer.
fn alike(sorted: &[u64]) -> &[u64] {
    let (mut most, mut end) = (0..0, 0);
    for (begin, value) in sorted.iter().enumerate() {
        let bound = value.saturating_add((value / 100).max(TIMER_SLACK));
        while sorted.get(end).is_some_and(|value| *value <= bound) {
            end += 1;
        }
        if end - begin > most.len() {
            most = begin..end;
        }
    }
    &sorted[most]
}

/// The interquartile range.
fn middle_half(sorted: &[u64]) -> u64 {
    quantile(sorted, 3) - quantile(sorted, 1)
}

/// The quartile with this number.
fn quantile(sorted: &[u64], quarters: usize) -> u64 {
    sorted[(sorted.len() * quarters / 4).min(sorted.len() - 1)]
}

/// A period, if intervals and bursts fit one: a task that is late does several jobs before it sleeps again.
fn periodic(steps: Iter<'_>, intervals: &[u64]) -> Option<Rhythm> {
    let mut sorted = intervals.to_vec();
    sorted.sort_unstable();
    let usual = alike(&sorted);
    let period = usual.get(usual.len() / 2).copied()?;
    let mut bursts = Vec::new();
    let mut burst = 0;
    for step in steps {
        match step {
            Step::Run(time) => burst += time,
            Step::Wait(wait) if is_timer(&wait) => bursts.push(std::mem::take(&mut burst)),
            Step::Yield => {}
            _ => return None,
        }
    }
    let job = job(&bursts)?;
    let on_time = |interval: &&u64| (interval.abs_diff(period) as f64) < 0.03 * period as f64;
    // A task that did one job between two timers was not late.
    let single: Vec<u64> = intervals
        .iter()
        .zip(bursts.iter().skip(1))
        .filter(|(_, burst)| jobs(**burst, job).round() <= 1.0)
        .map(|(interval, _)| *interval)
        .collect();
    let punctual = single.iter().filter(on_time).count();
    if period == 0 || punctual < FEW / 2 || punctual * 10 < single.len() * 6 {
        return None;
    }
    let (mode, shown) = lateness(intervals, period);
    Some(Rhythm::Periodic { period, job, mode, shown })
}

/// The treatment of a late task with these intervals, and whether it ever was late: only then does it show.
fn lateness(intervals: &[u64], period: u64) -> (TimerMode, bool) {
    let late: Vec<f64> = intervals
        .iter()
        .map(|interval| *interval as f64 / period as f64)
        .filter(|periods| *periods > 1.03)
        .map(|periods| (periods - periods.round()).abs())
        .collect();
    let off = late.iter().filter(|phase| **phase > 0.03).count();
    // A task that never was late is assumed not to catch up: players, timerfd and rt-app's timers do not.
    if late.is_empty() || off * 2 > late.len() {
        (TimerMode::Relative, !late.is_empty())
    } else {
        (TimerMode::Absolute, true)
    }
}

/// The number of jobs in a burst of CPU time.
fn jobs(burst: u64, job: u64) -> f64 {
    burst as f64 / job as f64
}

/// The CPU time of a job, if nine out of ten bursts are whole numbers of jobs. The median burst is tried, then the lower quartile.
pub(crate) fn job(bursts: &[u64]) -> Option<u64> {
    let mut ordered = bursts.to_vec();
    ordered.sort_unstable();
    let candidates = [quantile(&ordered, 2), quantile(&ordered, 1)];
    candidates.into_iter().filter(|job| *job > 0).find(|job| {
        let off = |burst: &&u64| {
            let jobs = jobs(**burst, *job);
            (jobs - jobs.round().max(1.0)).abs() >= 0.12
        };
        bursts.iter().filter(off).count() * 10 <= bursts.len()
    })
}
