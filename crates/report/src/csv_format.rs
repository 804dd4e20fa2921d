//! Comparisons as CSV: a row per run and a row per task of each run, told apart by the column `task`.

use crate::{Comparison, Run};
use fairground_metrics::{Distribution, Lag, Periods, Share, TaskMetrics};

/// Columns, in order. Times are in nanoseconds; a metric without samples is an empty field.
const COLUMNS: &[&str] = &[
    "workload",
    "scheduler",
    "machine",
    "cost_model",
    "seed",
    "repeat",
    "tunables",
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

/// One row: fields by column name, so that no field can land in the wrong column.
#[derive(Default)]
struct Row {
    fields: Vec<(&'static str, String)>,
}

impl Row {
    fn set(&mut self, column: &'static str, value: impl ToString) {
        debug_assert!(COLUMNS.contains(&column), "no column {column}");
        self.fields.push((column, value.to_string()));
    }

    fn set_some(&mut self, column: &'static str, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.set(column, value);
        }
    }

    fn record(&self) -> impl Iterator<Item = &str> {
        COLUMNS.iter().map(|column| {
            self.fields
                .iter()
                .find(|(name, _)| name == column)
                .map_or("", |(_, value)| value)
        })
    }
}

impl Comparison {
    /// A heading, then for each run a row of its own (column `task` empty) and one for each task. Columns that do not apply to
    /// a row, and metrics without samples, are empty.
    pub fn csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let mut write = |record: Vec<&str>| {
            writer
                .write_record(record)
                .expect("a vector grows as needed, and all records have the same length");
        };
        write(COLUMNS.to_vec());
        for run in &self.runs {
            write(run_row(run).record().collect());
            for task in &run.metrics.tasks {
                write(task_row(run, task).record().collect());
            }
        }
        let bytes = writer
            .into_inner()
            .expect("a vector takes everything that is flushed");
        String::from_utf8(bytes).expect("all fields are UTF-8")
    }
}

fn labels(run: &Run) -> Row {
    let mut row = Row::default();
    let labels = &run.labels;
    row.set("workload", &labels.workload);
    row.set("scheduler", &labels.scheduler);
    row.set("machine", &labels.machine);
    row.set_some("cost_model", labels.cost_model.as_ref());
    row.set_some("seed", labels.seed);
    row.set("repeat", labels.repeat);
    let tunables: Vec<String> = labels
        .tunables
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    row.set("tunables", tunables.join(" "));
    row.set("duration_ns", run.metrics.duration_ns);
    row
}

fn run_row(run: &Run) -> Row {
    let mut row = labels(run);
    let metrics = &run.metrics;
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
        lag(&mut row, Some(fairness.lag));
        row.set_some(
            "window_spread",
            fairness.worst_window.map(|window| window.spread),
        );
    }
    latencies(&mut row, metrics.wakeup_latency, metrics.response_time);
    periods(&mut row, metrics.periods);
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
    row
}

fn task_row(run: &Run, task: &TaskMetrics) -> Row {
    let mut row = labels(run);
    row.set("task", &task.name);
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
