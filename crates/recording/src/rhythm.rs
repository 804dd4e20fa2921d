//! What kind of timer a task sleeps on: one that begins when it falls asleep, points in time, or a period.

use fairground_workload::TimerMode;

use crate::record::Context;
use crate::steps::{Iter, Step, Wait, waits};

/// `nanosleep()` and `clock_nanosleep()` on x86.
const SLEEPS: [i32; 2] = [35, 230];
/// How late the timers of ordinary tasks may be, nanoseconds.
const TIMER_SLACK: u64 = 50_000;
/// Fewer timers have no rhythm.
const FEW: usize = 8;

/// How a task's timers are set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rhythm {
    /// From falling asleep on.
    Relative,
    /// At points in time.
    Absolute,
    /// Once in each period, for a job.
    Periodic {
        /// Its length.
        period: u64,
        /// CPU time of a job.
        job: u64,
        /// What lateness does.
        mode: TimerMode,
        /// Whether the task was ever late, which is when that shows.
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
    let intervals: Vec<u64> = ends()
        .zip(ends().skip(1))
        .map(|(one, next)| next.saturating_sub(one))
        .collect();
    lengths.sort_unstable();
    let mut between = intervals.clone();
    between.sort_unstable();
    if are_of_one_length(&lengths, &between) {
        return Rhythm::Relative;
    }
    // Those who are also woken by others may have a period, but what they do in it is not one job.
    let own = lengths.len() * 100 >= waits(steps.clone()).count() * 95;
    if let Some(periodic) = own.then(|| periodic(steps, &intervals)).flatten() {
        return periodic;
    }
    if middle_half(&lengths) < middle_half(&between) {
        Rhythm::Relative
    } else {
        Rhythm::Absolute
    }
}

/// Whether the lengths of sleeps are those of one sleep, of which the times between their ends are the shadow. Most of both may be alike, of a task that
/// nobody disturbs; it is those few that were disturbed which tell.
fn are_of_one_length(lengths: &[u64], intervals: &[u64]) -> bool {
    let others = |values: &[u64]| values.len() - alike(values).len();
    // No sleep is shorter than what it was to be: if many are, those that are alike are what an undisturbed job leaves of a period.
    let shortest = alike(lengths)[0];
    let shorter = lengths.partition_point(|length| *length < shortest);
    shorter * 10 <= lengths.len()
        && others(lengths) * 2 <= lengths.len()
        && others(lengths) < others(intervals)
}

/// The most of these values that are within 1 % of each other, or within what timers may be late; of several such, the least: who is late has longer
/// intervals.
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

/// The width of the middle half of the values.
fn middle_half(sorted: &[u64]) -> u64 {
    quantile(sorted, 3) - quantile(sorted, 1)
}

/// The value at so many quarters.
fn quantile(sorted: &[u64], quarters: usize) -> u64 {
    sorted[(sorted.len() * quarters / 4).min(sorted.len() - 1)]
}

/// A period, if intervals and bursts are those of a task with one: who is late does several jobs before he sleeps again.
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
    // Who did one job between two timers was not late.
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
    Some(Rhythm::Periodic {
        period,
        job,
        mode,
        shown,
    })
}

/// What lateness does to a task with these intervals, and whether it was ever late, which is when that shows.
fn lateness(intervals: &[u64], period: u64) -> (TimerMode, bool) {
    let late: Vec<f64> = intervals
        .iter()
        .map(|interval| *interval as f64 / period as f64)
        .filter(|periods| *periods > 1.03)
        .map(|periods| (periods - periods.round()).abs())
        .collect();
    let off = late.iter().filter(|phase| **phase > 0.03).count();
    // Who was never late is taken for one who does not make up for what he missed: players, timerfd and rt-app's timers do not.
    if late.is_empty() || off * 2 > late.len() {
        (TimerMode::Relative, !late.is_empty())
    } else {
        (TimerMode::Absolute, true)
    }
}

/// How many jobs a burst of CPU time is.
fn jobs(burst: u64, job: u64) -> f64 {
    burst as f64 / job as f64
}

/// The CPU time of a job, if nine of ten bursts are one or several of them: half of the bursts are single jobs, or a quarter.
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
