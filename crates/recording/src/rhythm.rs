//! What kind of timer a task sleeps on: one that begins when it falls asleep, points in time, or a period.

use fairground_workload::TimerMode;

use crate::record::Context;
use crate::steps::{Iter, Step, Wait, waits};

/// `nanosleep()` and `clock_nanosleep()` on x86.
const SLEEPS: [i32; 2] = [35, 230];
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
    let mut sorted = intervals.clone();
    if middle_half(&mut lengths) < middle_half(&mut sorted) {
        return Rhythm::Relative;
    }
    // Those who are also woken by others may have a period, but what they do in it is not one job.
    if lengths.len() * 100 < waits(steps.clone()).count() * 95 {
        return Rhythm::Absolute;
    }
    periodic(steps, &intervals).unwrap_or(Rhythm::Absolute)
}

/// The width of the middle half of the values.
fn middle_half(values: &mut [u64]) -> u64 {
    values.sort_unstable();
    quantile(values, 3) - quantile(values, 1)
}

/// The value at so many quarters.
fn quantile(sorted: &[u64], quarters: usize) -> u64 {
    sorted[(sorted.len() * quarters / 4).min(sorted.len() - 1)]
}

/// A period, if intervals and bursts are those of a task with one: who is late does several jobs before he sleeps again.
fn periodic(steps: Iter<'_>, intervals: &[u64]) -> Option<Rhythm> {
    let mut sorted = intervals.to_vec();
    sorted.sort_unstable();
    let period = quantile(&sorted, 2);
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
    let mut ordered = bursts.clone();
    ordered.sort_unstable();
    let job = quantile(&ordered, 2);
    if job == 0 || period == 0 {
        return None;
    }
    let fits = |burst: &&u64| {
        let jobs = **burst as f64 / job as f64;
        (jobs - jobs.round().max(1.0)).abs() < 0.12
    };
    let on_time = |interval: &&u64| interval.abs_diff(period) * 100 < 3 * period;
    let share = |count: usize, of: usize| count as f64 / of as f64;
    if share(bursts.iter().filter(fits).count(), bursts.len()) < 0.9
        || share(intervals.iter().filter(on_time).count(), intervals.len()) < 0.6
    {
        return None;
    }
    // Whether those who were late have gone on with the grid.
    let late: Vec<f64> = intervals
        .iter()
        .filter(|interval| **interval * 100 > 103 * period)
        .map(|interval| {
            let periods = *interval as f64 / period as f64;
            (periods - periods.round()).abs()
        })
        .collect();
    let off = late.iter().filter(|phase| **phase > 0.03).count();
    Some(Rhythm::Periodic {
        period,
        job,
        // Who was never late is taken for one who does not make up for what he missed: players, timerfd and rt-app's timers do not.
        mode: if late.is_empty() || off * 2 > late.len() {
            TimerMode::Relative
        } else {
            TimerMode::Absolute
        },
        shown: !late.is_empty(),
    })
}
