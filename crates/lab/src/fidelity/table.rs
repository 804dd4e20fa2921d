//! The comparison of kernel and simulator as text.

use comfy_table::{Cell, CellAlignment, Table, presets};

use super::worlds::{Agreement, Both, Pair, TaskPair};

/// Stands for values that were not measured.
const ABSENT: &str = "-";
/// Number of spaces between two columns of a table.
const GAP: u16 = 2;
/// Number of columns with names, which are left-aligned.
const NAMES: usize = 3;

impl Agreement {
    /// A table per workload and number of CPUs, followed by what is out of bounds.
    pub fn table(&self) -> String {
        let mut text = String::new();
        for runs in self
            .runs
            .chunk_by(|a, b| (a.key.cpus, &a.key.workload) == (b.key.cpus, &b.key.workload))
        {
            text.push_str(&format!("{}\n\n{}\n", heading(&runs[0]), block(runs)));
        }
        text + self.nearness().as_str() + self.verdict().as_str()
    }

    /// How many figures are how close: a line for each number of CPUs and kind of figure.
    fn nearness(&self) -> String {
        let mut text = String::new();
        for runs in self.runs.chunk_by(|a, b| a.key.cpus == b.key.cpus) {
            let cpus = match runs[0].key.cpus {
                1 => "1 CPU".to_owned(),
                cpus => format!("{cpus} CPUs"),
            };
            let times = runs.iter().flat_map(|run| &run.tasks);
            let times: Vec<f64> = times.map(|task| task.difference().abs()).collect();
            text.push_str(&format!(
                "{cpus}: {}\n",
                within("CPU times", &times, [0.03, 0.10])
            ));
            let latencies: Vec<f64> = runs
                .iter()
                .filter_map(|run| Some((run.latency.kernel?, run.latency.simulator?)))
                .map(|(kernel, simulator)| (simulator / kernel.max(1.0) - 1.0).abs())
                .collect();
            if !latencies.is_empty() {
                text.push_str(&format!(
                    "{cpus}: {}\n",
                    within(
                        "99th percentiles of wakeup latency",
                        &latencies,
                        [0.10, 0.25]
                    )
                ));
            }
        }
        text + "\n"
    }

    /// A line for everything that is out of bounds, and a closing line.
    fn verdict(&self) -> String {
        let mut text = String::new();
        for failure in &self.failures {
            text.push_str(&format!(
                "out of bounds: {} under {} failed in the simulator {}\n",
                failure.workload, failure.scheduler, failure.message
            ));
        }
        let mut compared = 0;
        for run in &self.runs {
            compared += run.tasks.len();
            for task in run.tasks.iter().filter(|task| run.exceeds(task)) {
                text.push_str(&format!(
                    "out of bounds: {}, {}, {}, {}: CPU times are {} % of the run apart, more than {} %\n",
                    run.key.workload,
                    run.key.scheduler_with_tunables(),
                    run.key.player.name(),
                    task.name,
                    percent(task.difference().abs()),
                    100.0 * run.bound()
                ));
            }
        }
        for disorder in &self.disorders {
            text.push_str(&format!(
                "out of bounds: {}: p99 wakeup latency is shorter under {} than under {} on the kernel, not so in the simulator\n",
                disorder.workload, disorder.shorter, disorder.longer
            ));
        }
        if self.holds() {
            text.push_str(&format!(
                "all {compared} CPU times, and the order of schedulers by latency, are within bounds\n"
            ));
        }
        text
    }
}

/// How many differences are within each of the bounds.
fn within(what: &str, differences: &[f64], bounds: [f64; 2]) -> String {
    let near = bounds.map(|bound| {
        let count = differences.iter().filter(|one| **one <= bound).count();
        format!("{count} within {:.0} %", 100.0 * bound)
    });
    format!("{} {what}, {}, {}", differences.len(), near[0], near[1])
}

fn heading(run: &Pair) -> String {
    format!(
        "{} ({} CPU{}, {} s; times in ms, difference in % of the run's length, at most {})",
        run.key.workload,
        run.key.cpus,
        if run.key.cpus == 1 { "" } else { "s" },
        run.duration_ns as f64 / 1e9,
        100.0 * run.bound()
    )
}

/// The tasks of all runs of a workload; each run ends with a row for the latency of all its tasks.
fn block(runs: &[Pair]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    let titles = [
        "scheduler",
        "player",
        "task",
        "CPU kernel",
        "CPU simulator",
        "difference",
        "p99 kernel",
        "p99 simulator",
        "",
    ];
    table.set_header(cells(titles.map(str::to_owned)));
    for run in runs {
        for task in &run.tasks {
            table.add_row(cells(task_row(run, task)));
        }
        let latency = both(run.latency);
        if run.latency.kernel.is_some() {
            let [kernel, simulator] = latency;
            let row = ["all", "", "", "", &kernel, &simulator, ""].map(str::to_owned);
            table.add_row(cells(labels(run).into_iter().chain(row)));
        }
    }
    for (number, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if number == 0 { 0 } else { GAP }, 0));
    }
    let text: Vec<String> = table
        .lines()
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect();
    text.concat()
}

fn task_row(run: &Pair, task: &TaskPair) -> impl Iterator<Item = String> {
    let milliseconds = |fraction: f64| format!("{:.1}", fraction * run.duration_ns as f64 / 1e6);
    let [kernel, simulator] = both(task.latency);
    let mark = if run.exceeds(task) { "!" } else { "" };
    labels(run).into_iter().chain([
        task.name.clone(),
        milliseconds(task.cpu_time.kernel),
        milliseconds(task.cpu_time.simulator),
        percent(task.difference()),
        kernel,
        simulator,
        mark.to_owned(),
    ])
}

fn labels(run: &Pair) -> [String; 2] {
    [
        run.key.scheduler_with_tunables(),
        run.key.player.name().to_owned(),
    ]
}

/// Latencies in milliseconds.
fn both(latency: Both<Option<f64>>) -> [String; 2] {
    [latency.kernel, latency.simulator].map(|time| match time {
        Some(nanoseconds) => format!("{:.3}", nanoseconds / 1e6),
        None => ABSENT.to_owned(),
    })
}

/// A fraction as a percentage with two decimals, and without a sign if it is zero.
fn percent(fraction: f64) -> String {
    format!("{:.2}", (fraction * 1e4).round() / 1e2 + 0.0)
}

fn cells(row: impl IntoIterator<Item = String>) -> Vec<Cell> {
    row.into_iter()
        .enumerate()
        .map(|(number, text)| {
            Cell::new(text).set_alignment(if number < NAMES {
                CellAlignment::Left
            } else {
                CellAlignment::Right
            })
        })
        .collect()
}
