//! The report of a run with real threads.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use fairground_metrics::{Distribution, LapRecord, Periods, RunMetrics};
use fairground_results::{Creator, OtherThread};
use schemars::JsonSchema;
use serde::Serialize;

use super::run::Ended;

/// The report of a run with real threads.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Report {
    /// Name of the workload.
    pub workload: String,
    /// Kernel release.
    pub kernel: String,
    /// The sched_ext scheduler in charge at the start; `None` for the kernel's own.
    pub scheduler: Option<String>,
    /// Its tunables that were not at their defaults, with values as people write them; `None` if unknown.
    pub tunables: Option<BTreeMap<String, String>>,
    /// CPUs of the machine.
    pub cpus: usize,
    /// Common start of the threads, `CLOCK_MONOTONIC`: the kernel's ticks are at multiples of their length.
    pub start_ns: u64,
    /// The same on the clock that schedulers see; `None` if the kernel does not tell.
    pub scheduler_start_ns: Option<u64>,
    /// From the common start to the end.
    pub duration_ns: u64,
    /// The process's past when it created the threads.
    pub creator: Creator,
    /// The activities of threads outside the run meanwhile, if requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherThread>,
    /// Per task, in order of creation.
    pub tasks: Vec<TaskReport>,
    /// The metrics of the recording; `None` without root.
    pub metrics: Option<RunMetrics>,
    /// Records that were lost; `None` without root.
    pub lost_records: Option<u64>,
    /// Further remarks, a sentence each.
    pub notes: Vec<String>,
    /// Whether CPUs went offline or came online meanwhile, as a note tells: the metrics count those of the start.
    #[serde(skip)]
    pub cpus_changed: bool,
}

/// A task's measurements by its own thread.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskReport {
    /// Name as in the workload, with an instance suffix where there are several.
    pub name: String,
    /// CPU time used.
    pub cpu_time_ns: u64,
    /// CPU time over that of the whole machine, 0 to 1.
    pub share: f64,
    /// Times it left a CPU because it waited.
    pub voluntary_switches: u64,
    /// Times it left a CPU although it was still runnable.
    pub involuntary_switches: u64,
    /// From the nominal end of a timer sleep to running.
    pub timer_latency: Option<Distribution>,
    /// From release to completion of jobs.
    pub response_time: Option<Distribution>,
    /// Jobs, if it has a timer.
    pub periods: Option<Periods>,
    /// Laps by its own watch.
    pub laps: Option<Distribution>,
    /// The same laps one by one, if requested; times since the start.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lap_records: Vec<LapRecord>,
    /// When its program ended, since the start; `None` if the end of the run ended it.
    pub ended_ns: Option<u64>,
}

/// The contents of a report.
pub(super) struct Facts {
    pub(super) workload: String,
    pub(super) kernel: String,
    pub(super) scheduler: Option<String>,
    pub(super) tunables: Option<BTreeMap<String, String>>,
    pub(super) cpus: usize,
    /// `CLOCK_MONOTONIC`.
    pub(super) start: u64,
    pub(super) scheduler_start: Option<u64>,
    /// `CLOCK_MONOTONIC`.
    pub(super) stop: u64,
    pub(super) tasks: Vec<Ended>,
    /// CPU time of each task at `stop`.
    pub(super) cpu_times: Vec<u64>,
    pub(super) creator: Creator,
    pub(super) others: Vec<OtherThread>,
    pub(super) metrics: Option<RunMetrics>,
    pub(super) lost: Option<u64>,
    pub(super) notes: Vec<String>,
    pub(super) cpus_changed: bool,
}

impl Report {
    pub(super) fn new(facts: Facts) -> Self {
        let duration_ns = facts.stop.saturating_sub(facts.start);
        #[expect(clippy::cast_precision_loss, reason = "times of a run are far from 2^52 ns")]
        let machine = (duration_ns.max(1) * facts.cpus as u64) as f64;
        // A task that was forked at the very end has no CPU time yet.
        let cpu_times = facts.cpu_times.into_iter().chain(std::iter::repeat(0));
        let tasks = facts.tasks.into_iter().zip(cpu_times).map(|(task, cpu_time_ns)| TaskReport {
            name: task.name,
            cpu_time_ns,
            #[expect(clippy::cast_precision_loss, reason = "as above")]
            share: cpu_time_ns as f64 / machine,
            voluntary_switches: task.outcome.voluntary_switches,
            involuntary_switches: task.outcome.involuntary_switches,
            timer_latency: task.outcome.timer_latency.distribution(),
            response_time: task.outcome.response_time.distribution(),
            periods: task.outcome.periods,
            laps: task.outcome.laps.distribution(),
            lap_records: task
                .outcome
                .lap_records
                .into_iter()
                .map(|lap| LapRecord { begin_ns: lap.begin_ns.saturating_sub(facts.start), ..lap })
                .collect(),
            ended_ns: task.outcome.ended.map(|time| time.saturating_sub(facts.start)),
        });
        Self {
            workload: facts.workload,
            kernel: facts.kernel,
            scheduler: facts.scheduler,
            tunables: facts.tunables,
            cpus: facts.cpus,
            start_ns: facts.start,
            scheduler_start_ns: facts.scheduler_start,
            duration_ns,
            creator: facts.creator,
            others: facts.others,
            tasks: tasks.collect(),
            metrics: facts.metrics,
            lost_records: facts.lost,
            notes: facts.notes,
            cpus_changed: facts.cpus_changed,
        }
    }

    /// The scheduler in charge, for people.
    pub fn scheduler_name(&self) -> &str {
        self.scheduler.as_deref().unwrap_or("the kernel's own")
    }

    /// The tunables that are known not to be at their defaults, each as `NAME=VALUE`.
    pub fn settings(&self) -> Vec<String> {
        self.tunables.iter().flatten().map(|(name, value)| format!("{name}={value}")).collect()
    }

    /// A table of the threads' own measurements.
    pub fn table(&self) -> String {
        let width = self.tasks.iter().map(|task| task.name.len()).max().unwrap_or(0).max(4);
        let settings = match self.settings()[..] {
            [] => String::new(),
            ref settings => format!(" ({})", settings.join(", ")),
        };
        let mut table = format!(
            "{} under {}{settings}, {:.1} s on {} CPU{}\n{:<width$} {:>10} {:>7} {:>9} {:>9} {:>10} {:>10} {:>11}\n",
            self.workload,
            self.scheduler_name(),
            seconds(self.duration_ns),
            self.cpus,
            if self.cpus == 1 { "" } else { "s" },
            "task",
            "CPU time s",
            "share %",
            "waited",
            "preempted",
            "late p50us",
            "late max",
            "missed jobs"
        );
        for task in &self.tasks {
            let latency = |get: fn(&Distribution) -> u64| {
                task.timer_latency
                    .map_or_else(|| "-".to_owned(), |latency| (get(&latency) / 1000).to_string())
            };
            let missed = task.periods.map_or_else(
                || "-".to_owned(),
                |periods| format!("{}/{}", periods.missed, periods.released),
            );
            // Writing to a string cannot fail.
            let _ = writeln!(
                table,
                "{:<width$} {:>10.3} {:>7.2} {:>9} {:>9} {:>10} {:>10} {missed:>11}",
                task.name,
                seconds(task.cpu_time_ns),
                task.share * 100.0,
                task.voluntary_switches,
                task.involuntary_switches,
                latency(|distribution| distribution.p50_ns),
                latency(|distribution| distribution.max_ns),
            );
        }
        table
    }
}

#[expect(clippy::cast_precision_loss, reason = "for people, with three digits")]
fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}
