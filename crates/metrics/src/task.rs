//! The data that the collector keeps about one task.

use crate::cpu_sets::SetId;
use crate::distribution::Samples;
use crate::records::Records;
use crate::result::{
    IdleBeside, JobRecord, LONG_WAIT, Lag, LapRecord, LongWait, Periods, Share, ShareRange,
    WindowRecord, WindowShare,
};
use fairground_events::{GroupId, Nanoseconds, Policy, TaskInfo};
use std::collections::VecDeque;

/// State of a task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum State {
    /// New, or asleep.
    Sleeping,
    /// Runnable but not on a CPU.
    Waiting,
    /// The same, but held back because a control group has used its quota.
    Throttled,
    /// On a CPU; if `leaving`, it has gone to sleep or ended and is about to be switched out.
    Running { cpu: usize, leaving: bool },
    /// Gone.
    Ended,
}

/// Sums over one task.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) name: String,
    pub(crate) nice: i32,
    pub(crate) weight: u32,
    pub(crate) policy: Policy,
    /// Whether its policy divides CPU time by weight.
    pub(crate) fair: bool,
    /// Whether the run does not wait for it.
    pub(crate) daemon: bool,
    pub(crate) set: SetId,
    /// The control group that it is in, and its CPU time before it was.
    pub(crate) group: Option<GroupId>,
    pub(crate) cpu_time_before_group: u64,
    pub(crate) state: State,
    /// Whether it is held back, or will be as soon as it leaves its CPU; since when, and for how long before.
    pub(crate) is_throttled: bool,
    pub(crate) throttled_since: Nanoseconds,
    pub(crate) throttled: u64,
    /// When the current wait began.
    pub(crate) waiting_since: Nanoseconds,
    /// Since when it has been allowed to use its CPUs in this wait.
    pub(crate) allowed_since: Nanoseconds,
    /// The service that the ideal processor had given it by then.
    pub(crate) ideal_at_wait: f64,
    /// When it was woken, if it has not run since.
    pub(crate) woken: Option<Nanoseconds>,
    /// CPU time when it was last woken.
    pub(crate) cpu_time_at_wake: u64,
    /// CPU time in nanoseconds.
    pub(crate) cpu_time: u64,
    /// CPU time times the speed of the CPU.
    pub(crate) work: f64,
    /// When it first became runnable.
    pub(crate) born: Option<Nanoseconds>,
    pub(crate) ended: Option<Nanoseconds>,
    pub(crate) lag: LagExtremes,
    pub(crate) window: WindowState,
    pub(crate) wakeup_latency: Samples,
    pub(crate) response_time: Samples,
    pub(crate) periods: Option<Periods>,
    /// The job not yet complete.
    pub(crate) job: Option<JobRecord>,
    pub(crate) laps: Samples,
    /// When the current lap began.
    pub(crate) lap: Option<Nanoseconds>,
    /// When it was last switched in.
    pub(crate) switched_in: Nanoseconds,
    pub(crate) records: Option<Box<Records>>,
    pub(crate) wait: u64,
    /// The longest wait that has ended.
    pub(crate) longest_wait: Option<LongWait>,
    /// The long wait that has ended in which it was entitled to most.
    pub(crate) worst_wait: Option<LongWait>,
    pub(crate) idle_beside: Option<IdleBeside>,
    /// Whether it has wanted a CPU since the window began, or since it was born.
    pub(crate) wants_all_along: bool,
    pub(crate) worst_share: Option<WindowShare>,
    pub(crate) wakeups: u64,
    pub(crate) voluntary_switches: u64,
    pub(crate) involuntary_switches: u64,
    pub(crate) migrations: u64,
}

impl Task {
    pub(crate) fn new(info: &TaskInfo, set: SetId, records: bool) -> Self {
        Self {
            name: info.name.clone(),
            nice: info.nice,
            weight: info.weight,
            policy: info.policy,
            fair: is_fair(info.policy),
            daemon: info.daemon,
            set,
            group: info.group,
            cpu_time_before_group: 0,
            state: State::Sleeping,
            is_throttled: false,
            throttled_since: 0,
            throttled: 0,
            waiting_since: 0,
            allowed_since: 0,
            ideal_at_wait: 0.0,
            woken: None,
            cpu_time_at_wake: 0,
            cpu_time: 0,
            work: 0.0,
            born: None,
            ended: None,
            lag: LagExtremes::default(),
            window: WindowState::default(),
            wakeup_latency: Samples::default(),
            response_time: Samples::default(),
            periods: None,
            job: None,
            laps: Samples::default(),
            lap: None,
            switched_in: 0,
            records: records.then(Box::default),
            wait: 0,
            longest_wait: None,
            worst_wait: None,
            idle_beside: None,
            wants_all_along: false,
            worst_share: None,
            wakeups: 0,
            voluntary_switches: 0,
            involuntary_switches: 0,
            migrations: 0,
        }
    }

    /// Accounts the wait that lasted until `now`, by when the ideal processor has given the task `ideal` in all.
    pub(crate) fn end_long_wait(&mut self, now: Nanoseconds, ideal: f64) {
        let wait = self.wait_until(now, ideal, true);
        self.longest_wait = longer(self.longest_wait, Some(wait));
        if wait.length_ns >= LONG_WAIT {
            self.worst_wait = worse(self.worst_wait, Some(wait));
        }
    }

    /// The wait that lasts until `now`, by when the ideal processor has given the task `ideal` in all.
    pub(crate) fn wait_until(&self, now: Nanoseconds, ideal: f64, ended: bool) -> LongWait {
        LongWait {
            from_ns: self.waiting_since,
            length_ns: now - self.waiting_since,
            entitled_ns: (ideal - self.ideal_at_wait).round() as u64,
            ended,
        }
    }

    /// The run ends: a task that was woken and still waits has waited at least this long, which counts as its latency, and the response to a
    /// job that is overdue has taken at least as long as it has up to now.
    pub(crate) fn leave_waiting(&mut self, end: Nanoseconds) {
        if let (State::Waiting | State::Throttled, Some(woken)) = (self.state, self.woken) {
            self.add_latency(end - woken);
        }
        if let Some(job) = self.open_job(end).filter(|job| end > job.deadline_ns) {
            self.add_response(end - job.due_ns);
        }
    }

    /// How long it has been held back up to `now`.
    pub(crate) fn throttled_until(&self, now: Nanoseconds) -> u64 {
        match self.state {
            State::Throttled => self.throttled + now - self.throttled_since,
            _ => self.throttled,
        }
    }

    /// Adds a sample of the time from a wake-up.
    pub(crate) fn add_latency(&mut self, latency: u64) {
        self.wakeup_latency.add(latency);
        if let Some(records) = &mut self.records {
            records.wakeup_latency.add(latency);
        }
    }

    /// Adds a sample of the time from the release of a job.
    fn add_response(&mut self, response: u64) {
        self.response_time.add(response);
        if let Some(records) = &mut self.records {
            records.response_time.add(response);
        }
    }

    /// Whether it is runnable.
    pub(crate) fn wants_cpu(&self) -> bool {
        matches!(
            self.state,
            State::Waiting | State::Throttled | State::Running { leaving: false, .. }
        )
    }

    /// A window of this length ends, through all of which the task lived.
    pub(crate) fn end_window(&mut self, window: WindowRecord, window_ns: Nanoseconds) {
        if let Some(records) = &mut self.records {
            records.windows.push(window);
        }
        if self.fair && self.wants_all_along && window.ideal > 0.0 {
            let share = WindowShare {
                window_ns,
                start_ns: window.start_ns,
                actual: window.actual,
                ideal: window.ideal,
            };
            let is_closer = |worst: &WindowShare| worst.error() < share.error();
            if self.worst_share.as_ref().is_none_or(is_closer) {
                self.worst_share = Some(share);
            }
        }
    }

    /// The counts of jobs, created for the first one.
    pub(crate) fn periods(&mut self) -> &mut Periods {
        self.periods.get_or_insert_default()
    }

    /// The job not yet complete, if its release is in the past; one that has ended has none.
    pub(crate) fn open_job(&self, now: Nanoseconds) -> Option<JobRecord> {
        self.job.filter(|job| job.due_ns < now && self.ended.is_none())
    }

    /// The counts of jobs up to now. A job not yet due does not count; one that is not complete counts as missed if its period is over, and so do
    /// the periods that have begun and ended since.
    pub(crate) fn periods_until(&self, now: Nanoseconds) -> Option<Periods> {
        let mut periods = self.periods?;
        match self.open_job(now) {
            Some(job) if now > job.deadline_ns => {
                let period = job.deadline_ns - job.due_ns;
                let begun = 1 + (now - job.deadline_ns - 1).checked_div(period).unwrap_or(0);
                periods.released += begun;
                periods.missed += begun;
            }
            Some(_) => {}
            None => periods.released -= u64::from(self.job.is_some()),
        }
        (periods.released > 0).then_some(periods)
    }

    /// Releases a job.
    pub(crate) fn release(&mut self, due: Nanoseconds, deadline: Nanoseconds, now: Nanoseconds) {
        let runs = matches!(self.state, State::Running { leaving: false, .. });
        self.periods().released += 1;
        self.job = Some(JobRecord {
            due_ns: due,
            first_run_ns: (runs && due <= now).then_some(now),
            completed_ns: None,
            deadline_ns: deadline,
            skipped: false,
        });
    }

    /// Completes the job released last; returns whether there is one.
    #[must_use]
    pub(crate) fn complete(&mut self, deadline: Nanoseconds, now: Nanoseconds) -> bool {
        let Some(mut job) = self.job.take() else {
            return false;
        };
        let periods = self.periods();
        periods.completed += 1;
        periods.missed += u64::from(now > deadline);
        job.deadline_ns = deadline;
        job.completed_ns = Some(now);
        // It was already on its CPU when the job was due.
        job.first_run_ns.get_or_insert(job.due_ns.min(now));
        if let Some(records) = &mut self.records {
            records.jobs.push(job);
        }
        self.add_response(now.saturating_sub(job.due_ns));
        true
    }

    /// Skips `count` periods, the first of which began at `due`.
    pub(crate) fn skip(&mut self, due: Nanoseconds, period: Nanoseconds, count: u64) {
        let periods = self.periods();
        periods.released += count;
        periods.missed += count;
        periods.skipped += count;
        if let Some(records) = &mut self.records {
            records.skip(due, period, count);
        }
    }

    /// Starts or stops the task's stopwatch.
    pub(crate) fn lap(&mut self, at: Nanoseconds, begins: bool) {
        if begins {
            self.lap = Some(at);
            return;
        }
        let Some(begin_ns) = self.lap.take() else {
            return;
        };
        let length_ns = at.saturating_sub(begin_ns);
        self.laps.add(length_ns);
        if let Some(records) = &mut self.records {
            records.laps.push(LapRecord { begin_ns, length_ns });
        }
    }

    /// The task gets a CPU.
    pub(crate) fn switch_in(&mut self, now: Nanoseconds) {
        self.switched_in = now;
        if let Some(job) = &mut self.job
            && job.due_ns <= now
        {
            job.first_run_ns.get_or_insert(now);
        }
    }

    /// The task leaves its CPU, or the run ends.
    pub(crate) fn switch_out(&mut self, now: Nanoseconds) {
        if let Some(records) = &mut self.records {
            records.stretches.add(now - self.switched_in);
        }
    }
}

/// The longer one; the earlier one of equals.
pub(crate) fn longer(one: Option<LongWait>, other: Option<LongWait>) -> Option<LongWait> {
    match (one, other) {
        (Some(one), Some(other)) if other.length_ns > one.length_ns => Some(other),
        (one, other) => one.or(other),
    }
}

/// The one in which the task was entitled to more; the earlier one of equals.
pub(crate) fn worse(one: Option<LongWait>, other: Option<LongWait>) -> Option<LongWait> {
    match (one, other) {
        (Some(one), Some(other)) if other.entitled_ns > one.entitled_ns => Some(other),
        (one, other) => one.or(other),
    }
}

/// Whether tasks of this policy divide CPU time by weight. All others take precedence over them.
pub(crate) fn is_fair(policy: Policy) -> bool {
    match policy {
        Policy::Normal | Policy::Batch | Policy::Idle | Policy::Ext => true,
        Policy::Fifo | Policy::RoundRobin | Policy::Deadline => false,
    }
}

/// Samples of one job that are kept. Of more, every second one goes, and lag is too small by at most what the task received between two
/// that stay.
const MOST_LOWS: usize = 256;

/// Extremes of one task's lag.
///
/// Lag is extreme when a task starts or stops running, so it is sampled there. How much the ideal processor may give to a job is
/// certain only when the job ends, which has received its demand then: the lag of each sample is
///
/// ```text
/// min(ideal service, demand) - received service
/// ```
///
/// Until then, the samples that may turn out to be the worst are kept aside: each at which the task was further behind the uncapped ideal
/// than at any before. All others are no worse than one of these, whatever the demand.
#[derive(Clone, Debug, Default)]
pub(crate) struct LagExtremes {
    ahead: f64,
    behind: f64,
    /// In the order of both ideal service and lag.
    lows: VecDeque<Low>,
    /// The lag of the last one, 0 if the job was never behind.
    lowest: f64,
}

#[derive(Clone, Copy, Debug)]
struct Low {
    received: f64,
    ideal: f64,
}

impl Low {
    /// How far the task was behind, if its job's demand is this.
    fn behind_if(&self, demand: f64) -> f64 {
        self.ideal.min(demand) - self.received
    }
}

impl LagExtremes {
    /// The task has `received` this much service, and the ideal processor has given it `ideal`.
    #[inline]
    pub(crate) fn sample(&mut self, received: f64, ideal: f64) {
        let lag = received - ideal;
        if lag > self.ahead {
            self.ahead = lag;
        }
        if lag < self.lowest {
            self.lowest = lag;
            self.keep(Low { received, ideal });
        }
    }

    /// Keeps a sample, and settles those whose ideal service the job has received meanwhile: its demand is no less.
    #[inline(never)]
    fn keep(&mut self, low: Low) {
        while let Some(first) = self.lows.front()
            && first.ideal <= low.received
        {
            self.behind = self.behind.max(first.behind_if(f64::INFINITY));
            self.lows.pop_front();
        }
        if self.lows.len() == MOST_LOWS {
            // The first stays: it is the worst if the demand is small.
            let mut place = 0;
            self.lows.retain(|_| {
                place += 1;
                place % 2 == 1
            });
        }
        self.lows.push_back(low);
    }

    /// The task's demand is met, with `received` service in all.
    pub(crate) fn demand_met(&mut self, received: f64) {
        self.behind = self.behind_if(received);
        self.lows.clear();
        self.lowest = 0.0;
    }

    /// The extremes so far; a job not yet complete may demand any amount.
    pub(crate) fn extremes(&self) -> Lag {
        Lag {
            ahead_ns: self.ahead.round() as u64,
            behind_ns: self.behind_if(f64::INFINITY).round() as u64,
        }
    }

    fn behind_if(&self, demand: f64) -> f64 {
        self.lows.iter().map(|low| low.behind_if(demand)).fold(self.behind, f64::max)
    }
}

/// Shares of one task in consecutive windows, with mean and variance by Welford's method.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WindowState {
    work_at_start: f64,
    ideal_at_start: f64,
    windows: u64,
    min: f64,
    max: f64,
    mean: f64,
    squares: f64,
}

impl WindowState {
    /// Begins the task's first window.
    pub(crate) fn start(&mut self, work: f64, ideal: f64) {
        self.work_at_start = work;
        self.ideal_at_start = ideal;
    }

    /// Ends a window of this `length`, through all of which the task lived, and begins the next. Returns the task's shares of one CPU.
    pub(crate) fn roll(&mut self, work: f64, ideal: f64, length: u64) -> Share {
        let length = length as f64;
        let share = (work - self.work_at_start) / length;
        let ideal_share = (ideal - self.ideal_at_start) / length;
        self.start(work, ideal);
        self.windows += 1;
        if self.windows == 1 {
            self.min = share;
            self.max = share;
        } else {
            self.min = self.min.min(share);
            self.max = self.max.max(share);
        }
        let from_old_mean = share - self.mean;
        self.mean += from_old_mean / self.windows as f64;
        self.squares += from_old_mean * (share - self.mean);
        Share { actual: share, ideal: ideal_share }
    }

    /// The range of shares; `None` until the first window has ended.
    pub(crate) fn range(&self) -> Option<ShareRange> {
        (self.windows > 0).then(|| ShareRange {
            windows: self.windows,
            min: self.min,
            max: self.max,
            mean: self.mean,
            standard_deviation: (self.squares / self.windows as f64).sqrt(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Jobs, each a list of what is received and what the ideal gives between two samples.
        #[test]
        fn lag_is_that_of_the_worst_sample(
            jobs in prop::collection::vec(
                prop::collection::vec((0.0..10.0_f64, 0.0..20.0_f64), 1..40),
                1..5,
            ),
        ) {
            let mut extremes = LagExtremes::default();
            let (mut received, mut expected) = (0.0, 0.0_f64);
            for job in jobs {
                // After a job, the ideal has given the demand.
                let mut ideal = received;
                let mut samples = Vec::new();
                for (more, more_ideal) in job {
                    received += more;
                    ideal += more_ideal;
                    samples.push((received, ideal));
                    extremes.sample(received, ideal);
                }
                let behind = samples.iter().map(|(then, ideal)| ideal.min(received) - then);
                expected = behind.fold(expected, f64::max);
                extremes.demand_met(received);
            }
            prop_assert_eq!(extremes.extremes().behind_ns, expected.round() as u64);
        }
    }

    #[test]
    fn of_a_long_job_only_some_samples_are_kept() {
        let mut extremes = LagExtremes::default();
        for number in 0..10_000 {
            let received = f64::from(number);
            extremes.sample(received, 1e6 + 2.0 * received);
        }
        assert!(extremes.lows.len() <= MOST_LOWS);
        assert_eq!(extremes.extremes().behind_ns, 1_009_999);
        // Of the demand, 9,999, the first sample lacks all.
        extremes.demand_met(9999.0);
        assert_eq!(extremes.extremes().behind_ns, 9999);
    }
}
