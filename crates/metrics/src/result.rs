//! The metrics of one run, as plain data.
//!
//! Times are in nanoseconds. *Work* is CPU time weighted with the capacity of the CPU: one nanosecond on a CPU of capacity
//! 1024 is one nanosecond of work. A metric without samples is `None`, never 0.

use serde::{Deserialize, Serialize};

/// Everything that is measured of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunMetrics {
    /// Length of the run.
    pub duration_ns: u64,
    /// CPUs of the machine.
    pub cpus: u32,
    /// Where the CPU time went.
    pub cpu_time: CpuTime,
    /// Useful work against a work-conserving machine without overhead; `None` if no task ever wanted a CPU.
    pub throughput: Option<Throughput>,
    /// How evenly CPU time was divided; `None` if no task of a fair policy ever wanted a CPU.
    pub fairness: Option<Fairness>,
    /// From runnable to running, all tasks together.
    pub wakeup_latency: Option<Distribution>,
    /// From the nominal release of a job to its completion, all periodic tasks together.
    pub response_time: Option<Distribution>,
    /// Jobs of all periodic tasks.
    pub periods: Option<Periods>,
    /// Switches of a CPU from one task (or idling) to another.
    pub context_switches: u64,
    /// Switches away from a task that could have gone on running.
    pub preemptions: u64,
    /// Times a sleeping or new task became runnable.
    pub wakeups: u64,
    /// Moves of a task between CPUs.
    pub migrations: u64,
    /// CPU time spent in scheduling code and switching; `None` if the source of the events does not tell.
    pub overhead: Option<OverheadTime>,
    /// Longest time that a task was runnable without running, also if it still waited at the end.
    pub longest_wait_ns: Option<u64>,
    /// Time at which the last task ended; `None` if a task was still alive at the end of the run.
    pub makespan_ns: Option<u64>,
    /// Events that contradict earlier ones (a recording with lost events); 0 for a sound stream.
    pub inconsistent_events: u64,
    /// Per task, in order of creation.
    pub tasks: Vec<TaskMetrics>,
}

/// Where the CPU time of a run went.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuTime {
    /// Sum over CPUs of the time they were online.
    pub available_ns: u64,
    /// Part of it that tasks used.
    pub busy_ns: u64,
    /// Part of it that was overhead of all kinds.
    pub overhead_ns: u64,
    /// The rest.
    pub idle_ns: u64,
    /// Part of the idle time in which a waiting task was allowed on the idle CPU (0: work conserving).
    pub idle_while_runnable_ns: u64,
}

/// Useful work against a work-conserving machine without overhead.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Throughput {
    /// Work done by all tasks.
    pub work_ns: u64,
    /// Work that a work-conserving machine without overhead does with the tasks that are runnable at each moment.
    pub ideal_work_ns: u64,
    /// `work_ns / ideal_work_ns`.
    pub ratio: f64,
}

/// How evenly CPU time was divided among the tasks of fair policies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fairness {
    /// Jain's index of service over ideal service, `1/n` to 1.
    pub jain_index: f64,
    /// Extremes of lag over all tasks.
    pub lag: Lag,
    /// The window in which shares were farthest apart; `None` if the run is shorter than a window.
    pub worst_window: Option<WindowSpread>,
}

/// Extremes of lag: work received minus the work an ideal fluid processor gives.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lag {
    /// Farthest ahead of the ideal, 0 or more.
    pub ahead_ns: u64,
    /// Farthest behind the ideal, 0 or more.
    pub behind_ns: u64,
}

/// The window in which shares were farthest apart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowSpread {
    /// Length of a window.
    pub window_ns: u64,
    /// When the worst window began.
    pub start_ns: u64,
    /// Largest minus smallest deviation of a task from its ideal share in it, as a fraction of one CPU. For equal
    /// tasks that is the largest minus the smallest share.
    pub spread: f64,
}

/// A distribution of times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distribution {
    /// Number of samples, at least 1.
    pub samples: u64,
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// Half of the samples are at most this.
    pub p50_ns: u64,
    /// 99 of 100 samples are at most this.
    pub p99_ns: u64,
    /// The largest sample.
    pub max_ns: u64,
}

/// Jobs of periodic tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Periods {
    /// Jobs released.
    pub released: u64,
    /// Jobs completed.
    pub completed: u64,
    /// Completed jobs that were late: completed after the end of their period.
    pub missed: u64,
}

/// Overhead by kind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OverheadTime {
    /// Scheduler callbacks, with the helpers and locks they use.
    pub scheduling_ns: u64,
    /// Switching from one task to another.
    pub switch_ns: u64,
    /// Refilling caches after migrations.
    pub migration_ns: u64,
    /// Ticks, wake-ups and kicks.
    pub interrupt_ns: u64,
    /// All kinds.
    pub total_ns: u64,
    /// `total_ns` in percent of the available CPU time.
    pub percent: f64,
}

/// What is measured of one task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// CPU time used, weighted with capacity.
    pub work_ns: u64,
    /// Share of the machine against the ideal; `None` if it never wanted a CPU.
    pub share: Option<Share>,
    /// Extremes of lag; `None` for a task that never wanted a CPU and for real-time policies.
    pub lag: Option<Lag>,
    /// Shares of one CPU in consecutive windows; `None` if the task did not live through a whole window.
    pub windows: Option<ShareRange>,
    /// From runnable to running.
    pub wakeup_latency: Option<Distribution>,
    /// From release to completion, if periodic.
    pub response_time: Option<Distribution>,
    /// Jobs, if periodic.
    pub periods: Option<Periods>,
    /// Total time runnable without running.
    pub wait_ns: u64,
    /// Longest time runnable without running.
    pub longest_wait_ns: Option<u64>,
    /// Times it became runnable.
    pub wakeups: u64,
    /// Times it left a CPU because it slept or ended.
    pub voluntary_switches: u64,
    /// Times it left a CPU although it could have gone on.
    pub involuntary_switches: u64,
    /// Moves between CPUs.
    pub migrations: u64,
    /// When it ended, if it did.
    pub ended_ns: Option<u64>,
}

/// A task's share of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// Work of the task over all the work the online CPUs could have done, 0 to 1.
    pub actual: f64,
    /// The same for the ideal fluid processor.
    pub ideal: f64,
}

/// Shares of one CPU in consecutive windows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShareRange {
    /// Windows seen.
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
