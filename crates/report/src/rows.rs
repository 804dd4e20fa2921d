//! Comparisons as rows of typed fields, for CSV and Parquet.

use std::fmt::{self, Display, Formatter};

use crate::Run;
use fairground_metrics::{Distribution, Lag, Periods, RunMetrics, Share, TaskMetrics};

/// Columns, in order. Times are in nanoseconds; a metric without samples is an empty field.
pub(crate) const COLUMNS: &[&str] = &[
    "workload",
    "scheduler",
    "machine",
    "cost_model",
    "seed",
    "repeat",
    "tunables",
    "status",
    "kind",
    "message",
    "failed_at_ns",
    "counters",
    "task",
    "nice",
    "weight",
    "duration_ns",
    "cpus",
    "available_ns",
    "busy_ns",
    "overhead_ns",
    "idle_ns",
    "idle_while_runnable_ns",
    "work_ns",
    "ideal_work_ns",
    "throughput",
    "share",
    "ideal_share",
    "jain_index",
    "lag_ahead_ns",
    "lag_behind_ns",
    "window_spread",
    "window_share_min",
    "window_share_max",
    "window_share_mean",
    "window_share_standard_deviation",
    "wakeup_latency_samples",
    "wakeup_latency_mean_ns",
    "wakeup_latency_p50_ns",
    "wakeup_latency_p99_ns",
    "wakeup_latency_max_ns",
    "response_time_samples",
    "response_time_mean_ns",
    "response_time_p50_ns",
    "response_time_p99_ns",
    "response_time_max_ns",
    "periods_released",
    "periods_completed",
    "periods_missed",
    "scheduler_pass_samples",
    "scheduler_pass_mean_ns",
    "scheduler_pass_p50_ns",
    "scheduler_pass_p99_ns",
    "scheduler_pass_max_ns",
    "context_switches",
    "preemptions",
    "wakeups",
    "migrations",
    "wait_ns",
    "longest_wait_ns",
    "ended_ns",
];

/// A field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Integer(i64),
    Real(f64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Integer(number.into())
    }
}

impl From<i32> for Value {
    fn from(number: i32) -> Self {
        Self::Integer(number.into())
    }
}

impl Display for Value {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => formatter.write_str(text),
            Self::Integer(number) => number.fmt(formatter),
            Self::Real(number) => number.fmt(formatter),
        }
    }
}

/// A row: fields by column name, so that no field can end up in the wrong column.
#[derive(Debug, Default)]
pub(crate) struct Row {
    fields: Vec<(&'static str, Value)>,
}

impl Row {
    pub(crate) fn set(&mut self, column: &'static str, value: impl Into<Value>) {
        self.fields.push((column, value.into()));
    }

    pub(crate) fn set_some(&mut self, column: &'static str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.set(column, value);
        }
    }

    /// The field of a column; `None` if the column does not apply to the row.
    pub(crate) fn get(&self, column: &str) -> Option<&Value> {
        let mut fields = self.fields.iter();
        fields
            .find(|(name, _)| *name == column)
            .map(|(_, value)| value)
    }
}

fn labels(run: &Run) -> Row {
    let mut row = Row::default();
    let labels = &run.labels;
    row.set("workload", labels.workload.as_str());
    row.set("scheduler", labels.scheduler.as_str());
    row.set("machine", labels.machine.as_str());
    row.set_some("cost_model", labels.cost_model.as_deref());
    row.set_some("seed", labels.seed);
    row.set("repeat", labels.repeat);
    let tunables: Vec<String> = labels
        .tunables
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    row.set("tunables", tunables.join(" "));
    row.set("status", run.status.name());
    if let Some(failure) = &run.failure {
        row.set("kind", failure.kind.as_str());
        row.set("message", failure.message.as_str());
        row.set_some("failed_at_ns", failure.at_ns);
    }
    let metrics = run.metrics.as_ref();
    row.set_some("duration_ns", metrics.map(|metrics| metrics.duration_ns));
    row
}

pub(crate) fn run_row(run: &Run) -> Row {
    let mut row = labels(run);
    let counters: Vec<String> = run
        .counters
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    row.set("counters", counters.join(" "));
    if let Some(metrics) = &run.metrics {
        measured(&mut row, metrics);
    }
    row
}

fn measured(row: &mut Row, metrics: &RunMetrics) {
    row.set("cpus", metrics.cpus);
    row.set("available_ns", metrics.cpu_time.available_ns);
    row.set("busy_ns", metrics.cpu_time.busy_ns);
    row.set_some(
        "overhead_ns",
        metrics.overhead.map(|overhead| overhead.total_ns),
    );
    row.set("idle_ns", metrics.cpu_time.idle_ns);
    row.set(
        "idle_while_runnable_ns",
        metrics.cpu_time.idle_while_runnable_ns,
    );
    if let Some(throughput) = metrics.throughput {
        row.set("work_ns", throughput.work_ns);
        row.set("ideal_work_ns", throughput.ideal_work_ns);
        row.set("throughput", throughput.ratio);
    }
    if let Some(fairness) = metrics.fairness {
        row.set("jain_index", fairness.jain_index);
        lag(row, Some(fairness.lag));
        row.set_some(
            "window_spread",
            fairness.worst_window.map(|window| window.spread),
        );
    }
    latencies(row, metrics.wakeup_latency, metrics.response_time);
    periods(row, metrics.periods);
    if let Some(pass) = metrics.scheduler_pass {
        row.set("scheduler_pass_samples", pass.samples);
        row.set("scheduler_pass_mean_ns", pass.mean_ns);
        row.set("scheduler_pass_p50_ns", pass.p50_ns);
        row.set("scheduler_pass_p99_ns", pass.p99_ns);
        row.set("scheduler_pass_max_ns", pass.max_ns);
    }
    row.set("context_switches", metrics.context_switches);
    row.set("preemptions", metrics.preemptions);
    row.set("wakeups", metrics.wakeups);
    row.set("migrations", metrics.migrations);
    row.set_some("longest_wait_ns", metrics.longest_wait_ns);
    row.set_some("ended_ns", metrics.makespan_ns);
}

pub(crate) fn task_row(run: &Run, task: &TaskMetrics) -> Row {
    let mut row = labels(run);
    row.set("task", task.name.as_str());
    row.set("nice", task.nice);
    row.set("weight", task.weight);
    row.set("busy_ns", task.cpu_time_ns);
    row.set("work_ns", task.work_ns);
    if let Some(Share { actual, ideal }) = task.share {
        row.set("share", actual);
        row.set("ideal_share", ideal);
    }
    lag(&mut row, task.lag);
    if let Some(windows) = task.windows {
        row.set("window_share_min", windows.min);
        row.set("window_share_max", windows.max);
        row.set("window_share_mean", windows.mean);
        row.set(
            "window_share_standard_deviation",
            windows.standard_deviation,
        );
    }
    latencies(&mut row, task.wakeup_latency, task.response_time);
    periods(&mut row, task.periods);
    row.set(
        "context_switches",
        task.voluntary_switches + task.involuntary_switches,
    );
    row.set("preemptions", task.involuntary_switches);
    row.set("wakeups", task.wakeups);
    row.set("migrations", task.migrations);
    row.set("wait_ns", task.wait_ns);
    row.set_some("longest_wait_ns", task.longest_wait_ns);
    row.set_some("ended_ns", task.ended_ns);
    row
}

fn lag(row: &mut Row, lag: Option<Lag>) {
    if let Some(lag) = lag {
        row.set("lag_ahead_ns", lag.ahead_ns);
        row.set("lag_behind_ns", lag.behind_ns);
    }
}

fn latencies(row: &mut Row, wakeup: Option<Distribution>, response: Option<Distribution>) {
    if let Some(wakeup) = wakeup {
        row.set("wakeup_latency_samples", wakeup.samples);
        row.set("wakeup_latency_mean_ns", wakeup.mean_ns);
        row.set("wakeup_latency_p50_ns", wakeup.p50_ns);
        row.set("wakeup_latency_p99_ns", wakeup.p99_ns);
        row.set("wakeup_latency_max_ns", wakeup.max_ns);
    }
    if let Some(response) = response {
        row.set("response_time_samples", response.samples);
        row.set("response_time_mean_ns", response.mean_ns);
        row.set("response_time_p50_ns", response.p50_ns);
        row.set("response_time_p99_ns", response.p99_ns);
        row.set("response_time_max_ns", response.max_ns);
    }
}

fn periods(row: &mut Row, periods: Option<Periods>) {
    if let Some(periods) = periods {
        row.set("periods_released", periods.released);
        row.set("periods_completed", periods.completed);
        row.set("periods_missed", periods.missed);
    }
}
