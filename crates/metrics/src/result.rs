//! The metrics of one run, as plain data.
//!
//! Times are in nanoseconds. *Work* is CPU time weighted by the capacity of the CPU: one nanosecond on a CPU of capacity
//! 1024 is one nanosecond of work. A metric without samples is `None`, never 0.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// All measurements of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunMetrics {
    /// Length of the run.
    pub duration_ns: u64,
    /// CPUs of the machine.
    pub cpus: u32,
    /// Where the CPU time went.
    pub cpu_time: CpuTime,
    /// Part of the time of each CPU that tasks used, in the order of their numbers; empty if only the sum is known, as from a data set.
    pub busy_cpus_ns: Vec<u64>,
    /// Useful work compared with a work-conserving machine without overhead; `None` if no task ever wanted a CPU.
    pub throughput: Option<Throughput>,
    /// How evenly CPU time was divided; `None` if no task of a fair policy ever wanted a CPU.
    pub fairness: Option<Fairness>,
    /// From runnable to running, over all tasks.
    pub wakeup_latency: Option<Distribution>,
    /// From the nominal release of a job to its completion, over all periodic tasks.
    pub response_time: Option<Distribution>,
    /// Jobs of all periodic tasks.
    pub periods: Option<Periods>,
    /// Laps by the stopwatches of all tasks, and requests.
    pub laps: Option<Distribution>,
    /// Mean of the slowest hundredth of all laps, of at least one.
    pub slowest_laps_ns: Option<f64>,
    /// Switches of a CPU from one task (or idling) to another.
    pub context_switches: u64,
    /// Switches away from a task that could have gone on running.
    pub preemptions: u64,
    /// Times a sleeping or new task became runnable.
    pub wakeups: u64,
    /// Moves of a task between CPUs.
    pub migrations: u64,
    /// CPU time lost to overhead of all kinds; `None` if the source of the events does not report it.
    pub overhead: Option<OverheadTime>,
    /// Passes through the scheduler, from the entry until the next task is chosen, including waits for locks; `None` if the source of
    /// the events does not report them.
    pub scheduler_pass: Option<Distribution>,
    /// Longest time of at least [`LONG_IDLE`] in which one CPU was idle while tasks of fair policies waited that may use the same CPUs, among
    /// them this one.
    pub idle_beside: Option<IdleCpu>,
    /// Longest time that a task was runnable without running, even if it still waited at the end.
    pub longest_wait_ns: Option<u64>,
    /// When the last task ended; `None` if a task was still alive at the end of the run. Daemons do not matter.
    pub makespan_ns: Option<u64>,
    /// The energy that the CPUs consumed; `None` unless the machine's power is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy: Option<Energy>,
    /// Events that contradict earlier ones, as in a recording that lost events; 0 for a sound stream.
    pub inconsistent_events: u64,
    /// Per task, in order of creation.
    pub tasks: Vec<TaskMetrics>,
    /// Per control group below the root, in order of creation.
    pub groups: Vec<GroupMetrics>,
}

/// The energy that the CPUs of a machine consumed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Energy {
    /// All together, in joules.
    pub joules: f64,
    /// Each, in joules, in the order of their numbers.
    pub cpus: Vec<f64>,
}

/// Measurements of one control group with those in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupMetrics {
    /// Its path from the root group.
    pub path: String,
    /// CPU time of tasks while they were in it or in a group below.
    pub cpu_time_ns: u64,
    /// Periods of its quota (`cpu.max`) in which it used CPU time; `None` without a quota, and under a scheduler that does not count them, as in
    /// the next two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nr_periods: Option<u64>,
    /// Those in which it was throttled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nr_throttled: Option<u64>,
    /// For how long it was throttled, summed over CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_ns: Option<u64>,
}

impl RunMetrics {
    /// Gives all CPUs the numbers that the machine has for them.
    pub fn number_cpus(&mut self, numbers: &[u32]) {
        let beside = self.tasks.iter_mut().filter_map(|task| task.idle_beside.as_mut());
        let of_tasks = beside.map(|one| &mut one.cpu);
        for cpu in of_tasks.chain(self.idle_beside.as_mut().map(|one| &mut one.cpu)) {
            *cpu = numbers.get(*cpu as usize).copied().unwrap_or(*cpu);
        }
    }
}

/// Where the CPU time of a run went.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CpuTime {
    /// Time that CPUs were online, summed over all CPUs.
    pub available_ns: u64,
    /// Part of it that tasks used.
    pub busy_ns: u64,
    /// Part of that of the tasks whose work has an amount: those that the run waited for, if it came to its end, or those with laps; absent if there
    /// are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_ns: Option<u64>,
    /// Part of it that was overhead of all kinds.
    pub overhead_ns: u64,
    /// Part of it that other programs and the kernel's own threads had; absent if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_ns: Option<u64>,
    /// What these did in it, in time on a CPU of full speed, if that is known: in simulations with recorded or made surroundings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_work_ns: Option<u64>,
    /// What these wanted to do until the end, in the same unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_wanted_ns: Option<u64>,
    /// The rest.
    pub idle_ns: u64,
    /// Part of the idle time that waiting tasks could have used; 0 if the scheduler was work conserving.
    pub idle_while_runnable_ns: u64,
}

/// Useful work compared with a work-conserving machine without overhead.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Throughput {
    /// Work done by all tasks.
    pub work_ns: u64,
    /// Work that a work-conserving machine without overhead would have done with the tasks runnable at each moment.
    pub ideal_work_ns: u64,
    /// `work_ns / ideal_work_ns`.
    pub ratio: f64,
}

/// How evenly CPU time was divided among the tasks of fair policies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fairness {
    /// Jain's index of service over ideal service, `1/n` to 1.
    pub jain_index: f64,
    /// Extremes of lag over all tasks.
    pub lag: Lag,
    /// The window in which shares were farthest apart; `None` if the run is shorter than a window.
    pub worst_window: Option<WindowSpread>,
}

/// Extremes of lag: work received minus the work that the ideal fluid processor would have given.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lag {
    /// Farthest ahead of the ideal, 0 or more.
    pub ahead_ns: u64,
    /// Farthest behind the ideal, 0 or more.
    pub behind_ns: u64,
}

/// The window in which shares were farthest apart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WindowSpread {
    /// Length of a window.
    pub window_ns: u64,
    /// When the worst window began.
    pub start_ns: u64,
    /// Largest minus smallest deviation of a task from its ideal share in that window, as a fraction of one CPU. For equal
    /// tasks, this is the largest minus the smallest share.
    pub spread: f64,
}

/// A distribution of times. The nth percentile is the smallest value that at least n % of the samples do not exceed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Distribution {
    /// Number of samples, at least 1.
    pub samples: u64,
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// 1 % of the samples are at most this.
    pub p1_ns: u64,
    /// 5 % of the samples are at most this.
    pub p5_ns: u64,
    /// Half of the samples are at most this.
    pub p50_ns: u64,
    /// 95 % of the samples are at most this.
    pub p95_ns: u64,
    /// 99 % of the samples are at most this.
    pub p99_ns: u64,
    /// 99.9 % of the samples are at most this.
    pub p999_ns: u64,
    /// The largest sample.
    pub max_ns: u64,
}

impl Distribution {
    /// The distribution of samples in any order; sorts them. `None` without samples.
    pub fn of(samples: &mut [u64]) -> Option<Self> {
        samples.sort_unstable();
        let max_ns = *samples.last()?;
        let sum: u128 = samples.iter().map(|sample| u128::from(*sample)).sum();
        let count = samples.len();
        let mean_ns = sum as f64 / count as f64;
        Some(Self::with(count as u64, mean_ns, max_ns, |quantile| {
            // All quantiles are whole multiples of 1/1000, so this product is whole but for rounding errors.
            let rank = (count as f64 * quantile * 1000.0).round() as usize;
            samples[rank.div_ceil(1000).max(1) - 1]
        }))
    }

    /// A distribution whose percentiles come from `at`, a function of the quantile, 0 to 1.
    pub(crate) fn with(samples: u64, mean_ns: f64, max_ns: u64, at: impl Fn(f64) -> u64) -> Self {
        Self {
            samples,
            mean_ns,
            p1_ns: at(0.01),
            p5_ns: at(0.05),
            p50_ns: at(0.5),
            p95_ns: at(0.95),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns,
        }
    }
}

/// Jobs of periodic tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Periods {
    /// Periods that began, including skipped ones.
    pub released: u64,
    /// Jobs completed.
    pub completed: u64,
    /// Jobs not complete at the end of their period, including those of skipped periods.
    pub missed: u64,
    /// Periods that the task skipped because it was late.
    pub skipped: u64,
}

impl Periods {
    /// The missed periods, of those that began; `None` if none did.
    #[must_use]
    pub fn missed_part(&self) -> Option<f64> {
        (self.released > 0).then(|| self.missed as f64 / self.released as f64)
    }
}

/// Overhead by kind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OverheadTime {
    /// Scheduler callbacks, including their kfuncs and locks.
    pub scheduling_ns: u64,
    /// Switching from one task to another.
    pub switch_ns: u64,
    /// Refilling caches after migrations.
    pub migration_ns: u64,
    /// Ticks, wake-ups and kicks.
    pub interrupt_ns: u64,
    /// All kinds.
    pub total_ns: u64,
    /// `total_ns` as a percentage of the available CPU time.
    pub percent: f64,
}

/// Measurements of one task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskMetrics {
    /// Name as in the workload.
    pub name: String,
    /// Nice value at the end.
    pub nice: i32,
    /// Weight at the end, 1024 for nice 0.
    pub weight: u32,
    /// CPU time used.
    pub cpu_time_ns: u64,
    /// CPU time used, weighted by capacity.
    pub work_ns: u64,
    /// Share of the machine, and the ideal one; `None` if it never wanted a CPU.
    pub share: Option<Share>,
    /// Extremes of lag; `None` for a task that never wanted a CPU and for real-time policies.
    pub lag: Option<Lag>,
    /// Shares of one CPU in consecutive windows; `None` if the task did not live through a whole window.
    pub windows: Option<ShareRange>,
    /// From runnable to running.
    pub wakeup_latency: Option<Distribution>,
    /// From release to completion, if periodic. Data of few tasks is kept apart, because comparisons keep many tasks.
    pub response_time: Option<Box<Distribution>>,
    /// Jobs, if periodic.
    pub periods: Option<Periods>,
    /// Laps by the task's own stopwatch.
    pub laps: Option<Box<Distribution>>,
    /// Total time runnable without running, but for the next.
    pub wait_ns: u64,
    /// Total time that it was held back because a control group had used its quota. This is not part of any wait, but of latencies.
    pub throttled_ns: u64,
    /// Longest time runnable without running.
    pub longest_wait_ns: Option<u64>,
    /// The wait that took that long, the first of equals.
    pub longest_wait: Option<LongWait>,
    /// Among its waits of at least [`LONG_WAIT`], the one in which it was entitled to most.
    pub worst_wait: Option<LongWait>,
    /// Its longest wait beside an idle CPU, of those of at least [`LONG_IDLE`]; `None` for real-time policies.
    pub idle_beside: Option<IdleBeside>,
    /// Among the windows in which it wanted a CPU all the time, the one whose share differs most from the ideal, relative to that; `None` for
    /// real-time policies.
    pub worst_share: Option<WindowShare>,
    /// If it waits at the end, for more than [`LASTING_WAIT`]: the longest wait of all its equals; `None` if it does not, or has none. Equals have the same
    /// policy, weight and allowed CPUs, live to the end, were not woken more than twice as often, and have been runnable for at least half as long as that wait took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_wait_of_equals_ns: Option<u64>,
    /// Times it became runnable.
    pub wakeups: u64,
    /// Times it left a CPU because it went to sleep or ended.
    pub voluntary_switches: u64,
    /// Times it left a CPU although it could have gone on running.
    pub involuntary_switches: u64,
    /// Moves between CPUs.
    pub migrations: u64,
    /// When it ended, if it did.
    pub ended_ns: Option<u64>,
    /// Records of its laps, jobs, windows and so on, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<Box<TaskRecords>>,
}

/// Shorter waits, in nanoseconds, are not considered for [`TaskMetrics::worst_wait`].
pub const LONG_WAIT: u64 = 50_000_000;

/// Shorter waits, in nanoseconds, are not considered for [`TaskMetrics::longest_wait_of_equals_ns`].
pub const LASTING_WAIT: u64 = 1_000_000_000;

/// Shorter times, in nanoseconds, are not considered for [`RunMetrics::idle_beside`] and [`TaskMetrics::idle_beside`].
pub const LONG_IDLE: u64 = 1_000_000;

/// A time in which one CPU was idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IdleCpu {
    /// The CPU.
    pub cpu: u32,
    /// When it began.
    pub from_ns: u64,
    /// How long it took, or has taken by the end of the run.
    pub length_ns: u64,
}

/// A time in which a task waited while one CPU that it was allowed to use was idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IdleBeside {
    /// The CPU.
    pub cpu: u32,
    /// When it began.
    pub from_ns: u64,
    /// How long it took, or has taken by the end of the run.
    pub length_ns: u64,
    /// When the wait began of which it is a part.
    pub wait_from_ns: u64,
}

/// A time in which a task was runnable without running, and the service that it was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LongWait {
    /// When it began.
    pub from_ns: u64,
    /// How long it took, or has taken by the end of the run.
    pub length_ns: u64,
    /// The service that the ideal fluid processor gave the task meanwhile.
    pub entitled_ns: u64,
    /// Whether the task ran, slept or ended afterwards; false if it still waited at the end of the run.
    pub ended: bool,
}

/// Records of one task, in order of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskRecords {
    /// Laps that ended.
    pub laps: Vec<LapRecord>,
    /// Jobs of a periodic task, including those that were skipped or not complete at the end.
    pub jobs: Vec<JobRecord>,
    /// Shares of one CPU in the windows that the task lived through.
    pub windows: Vec<WindowRecord>,
    /// Times on a CPU without interruption, from switch to switch.
    pub stretches: Option<Distribution>,
    /// Coarse histogram of wake-up latencies.
    pub wakeup_latency_histogram: Vec<Bucket>,
    /// Coarse histogram of response times.
    pub response_time_histogram: Vec<Bucket>,
}

/// A lap by a task's own stopwatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LapRecord {
    /// When it began.
    pub begin_ns: u64,
    /// How long it took.
    pub length_ns: u64,
}

/// A job of a periodic task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobRecord {
    /// Nominal release.
    pub due_ns: u64,
    /// When the task was first on a CPU at or after the release; `None` if never.
    pub first_run_ns: Option<u64>,
    /// When it was complete; `None` if it was skipped or the run ended first.
    pub completed_ns: Option<u64>,
    /// Nominal end of the period.
    pub deadline_ns: u64,
    /// Whether the task skipped this period because it was late.
    pub skipped: bool,
}

/// A task's share of one CPU in a window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WindowRecord {
    /// When the window began.
    pub start_ns: u64,
    /// The task's share, 0 to 1 on CPUs of capacity 1024.
    pub actual: f64,
    /// The same for the ideal fluid processor.
    pub ideal: f64,
}

/// A task's share of one CPU in a window, as in [`WindowRecord`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WindowShare {
    /// Length of the window.
    pub window_ns: u64,
    /// When it began.
    pub start_ns: u64,
    /// The task's share.
    pub actual: f64,
    /// Its share on the ideal fluid processor, more than 0.
    pub ideal: f64,
}

impl WindowShare {
    /// How far the share is from the ideal, as a fraction of that.
    #[must_use]
    pub fn error(&self) -> f64 {
        (self.actual / self.ideal - 1.0).abs()
    }
}

/// A bucket of a histogram: samples above the next smaller bound, up to and including this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bucket {
    /// Upper bound: 10, 15, 20, 30, 50 or 70 times a power of ten.
    pub up_to_ns: u64,
    /// Samples in it, at least 1.
    pub samples: u64,
}

/// A task's share of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// Work of the task divided by all the work that the online CPUs could have done, 0 to 1.
    pub actual: f64,
    /// The same for the ideal fluid processor.
    pub ideal: f64,
}

/// Shares of one CPU in consecutive windows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShareRange {
    /// Number of windows.
    pub windows: u64,
    /// Smallest share.
    pub min: f64,
    /// Largest share.
    pub max: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation over the windows.
    pub standard_deviation: f64,
}
