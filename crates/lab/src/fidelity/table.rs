//! The comparison of kernel and simulator as text.

use comfy_table::{Cell, CellAlignment, Table, presets};

use super::verdict::Verdict;
use super::worlds::{Agreement, Both, GroupMeasure, GroupPair, Pair, Rejection, TaskPair};

/// Stands for values that were not measured.
const ABSENT: &str = "-";
/// Number of spaces between two columns of a table.
const GAP: u16 = 2;
/// Number of columns with names, which are left-aligned.
const NAMES: usize = 3;

impl Agreement {
    /// A table per workload and number of CPUs, followed by the disagreements.
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

    /// How many figures have which verdict: a line for each number of CPUs and kind of figure.
    fn nearness(&self) -> String {
        let mut text = String::new();
        for runs in self.runs.chunk_by(|a, b| a.key.cpus == b.key.cpus) {
            let cpus = match runs[0].key.cpus {
                1 => "1 CPU".to_owned(),
                cpus => format!("{cpus} CPUs"),
            };
            let times =
                runs.iter().flat_map(|run| run.tasks.iter().map(|task| run.cpu_time_verdict(task)));
            let times = counts("CPU times", Verdict::count(times));
            text.push_str(&format!("{cpus}: {times}\n"));
            let groups =
                runs.iter().flat_map(|run| run.groups.iter().map(|group| run.group_verdict(group)));
            let groups = Verdict::count(groups);
            if groups != [0; 4] {
                let groups = counts("figures of control groups", groups);
                text.push_str(&format!("{cpus}: {groups}\n"));
            }
            let latencies = Verdict::count(runs.iter().filter_map(Pair::latency_verdict));
            if latencies != [0; 4] {
                let latencies = counts("99th percentiles of wakeup latency", latencies);
                text.push_str(&format!("{cpus}: {latencies}\n"));
            }
        }
        text + "\n"
    }

    /// A line for everything that disagrees, and a closing line.
    fn verdict(&self) -> String {
        let mut text = String::new();
        for failure in &self.failures {
            text.push_str(&format!(
                "disagree: {} under {} failed in the simulator {}\n",
                failure.workload, failure.scheduler, failure.message
            ));
        }
        for run in &self.runs {
            text.push_str(&disagreements(run));
        }
        for disorder in &self.disorders {
            text.push_str(&format!(
                "disagree: {}: p99 wakeup latency is shorter under {} than under {} on the kernel, not so in the simulator\n",
                disorder.workload, disorder.shorter, disorder.longer
            ));
        }
        for (control, rejection) in &self.controls {
            let name = control.name();
            text.push_str(&match rejection {
                Rejection::Rejected(lost) => format!("rejected: {name} ({lost} figures)\n"),
                Rejection::Missed => {
                    format!(
                        "not rejected: {name}: these recordings would not show such a mistake\n"
                    )
                }
                Rejection::NotApplicable => format!("not applicable: {name}\n"),
            });
        }
        text.push_str(match self.holds() {
            true => "the worlds agree\n",
            false => "the worlds do not agree\n",
        });
        text
    }
}

/// The disagreements in a run.
fn disagreements(run: &Pair) -> String {
    let name = format!(
        "{}, {}, {}",
        run.key.workload,
        run.key.scheduler_with_tunables(),
        run.key.player.name()
    );
    let mut text = String::new();
    for task in &run.tasks {
        if run.cpu_time_verdict(task) == Verdict::Disagree {
            text.push_str(&format!(
                "disagree: {name}, {}: CPU times are {} % of the run apart, more than {} %\n",
                task.name,
                percent(task.cpu_time.error().abs()),
                100.0 * run.tolerance()
            ));
        }
    }
    for group in &run.groups {
        if run.group_verdict(group) == Verdict::Disagree {
            let (measure, is) = match group.measure {
                GroupMeasure::CpuTime => (group.measure.name(), "is"),
                other => (other.name(), "are"),
            };
            let [kernel, simulator] = [group.figure.kernel, group.figure.simulator]
                .map(|value| group_value(group.measure, value));
            text.push_str(&format!(
                "disagree: {name}, {}: {measure} {is} {kernel} on the kernel and {simulator} in the simulator\n",
                group.path
            ));
        }
    }
    if run.latency_verdict() == Some(Verdict::Disagree) {
        let [kernel, simulator] = both(run.latency);
        text.push_str(&format!(
            "disagree: {name}: p99 wakeup latency is {kernel} ms on the kernel and {simulator} ms in the simulator\n"
        ));
    }
    text
}

/// How many figures of a kind there are, and with which verdicts.
fn counts(what: &str, counts: [usize; 4]) -> String {
    let told = Verdict::ALL
        .iter()
        .zip(counts)
        .filter(|(_, count)| *count > 0)
        .map(|(verdict, count)| format!("{count} {}", verdict.word()));
    let told: Vec<String> = told.collect();
    let all: usize = counts.iter().sum();
    format!("{all} {what}: {}", told.join(", "))
}

fn heading(run: &Pair) -> String {
    format!(
        "{} ({} CPU{}, {} s; times in ms, difference in % of the run's length, tolerance {})",
        run.key.workload,
        run.key.cpus,
        if run.key.cpus == 1 { "" } else { "s" },
        run.duration_ns as f64 / 1e9,
        100.0 * run.tolerance()
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
        "its recordings",
        "CPU simulator",
        "difference",
        "p99 kernel",
        "its recordings",
        "p99 simulator",
        "",
    ];
    table.set_header(cells(titles.map(str::to_owned)));
    for run in runs {
        for task in &run.tasks {
            table.add_row(cells(task_row(run, task)));
        }
        for group in &run.groups {
            table.add_row(cells(group_row(run, group)));
        }
        let latency = both(run.latency);
        if run.latency.kernel.is_some() {
            let [kernel, simulator] = latency;
            let spread = run.latency_spread.map_or(String::new(), |[low, high]| {
                format!("{:.3} to {:.3}", low / 1e6, high / 1e6)
            });
            let verdict = run.latency_verdict().map_or("", mark);
            let row = ["all", "", "", "", "", &kernel, &spread, &simulator, verdict];
            let row = row.map(str::to_owned);
            table.add_row(cells(labels(run).into_iter().chain(row)));
        }
    }
    for (number, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if number == 0 { 0 } else { GAP }, 0));
    }
    let text: Vec<String> = table.lines().map(|line| line.trim_end().to_owned() + "\n").collect();
    text.concat()
}

fn task_row(run: &Pair, task: &TaskPair) -> impl Iterator<Item = String> {
    let [kernel, simulator] = both(task.latency);
    let scale = run.duration_ns as f64 / 1e6;
    let [low, high] = task.cpu_time.spread;
    labels(run).into_iter().chain([
        task.name.clone(),
        format!("{:.1}", task.cpu_time.kernel * scale),
        format!("{:.1} to {:.1}", low * scale, high * scale),
        format!("{:.1}", task.cpu_time.simulator * scale),
        percent(task.cpu_time.error()),
        kernel,
        String::new(),
        simulator,
        mark(run.cpu_time_verdict(task)).to_owned(),
    ])
}

/// A figure of a control group, in the columns of the CPU times.
fn group_row(run: &Pair, group: &GroupPair) -> impl Iterator<Item = String> {
    let value = |value| match group.measure {
        GroupMeasure::CpuTime => format!("{:.1}", value * run.duration_ns as f64 / 1e6),
        GroupMeasure::Periods | GroupMeasure::Throttled => group_value(group.measure, value),
    };
    let figure = &group.figure;
    let [low, high] = figure.spread.map(value);
    let difference = match group.measure {
        GroupMeasure::CpuTime => percent(figure.error()),
        GroupMeasure::Periods | GroupMeasure::Throttled => String::new(),
    };
    labels(run).into_iter().chain([
        format!("{} {}", group.path, group.measure.name()),
        value(figure.kernel),
        format!("{low} to {high}"),
        value(figure.simulator),
        difference,
        String::new(),
        String::new(),
        String::new(),
        mark(run.group_verdict(group)).to_owned(),
    ])
}

/// A figure of a control group, with its unit.
fn group_value(measure: GroupMeasure, value: f64) -> String {
    match measure {
        GroupMeasure::CpuTime => format!("{} % of the run", percent(value)),
        GroupMeasure::Periods | GroupMeasure::Throttled => format!("{value:.0}"),
    }
}

/// The mark at the end of a row: nothing if the worlds agree.
fn mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Agree => "",
        other => other.word(),
    }
}

fn labels(run: &Pair) -> [String; 2] {
    [run.key.scheduler_with_tunables(), run.key.player.name().to_owned()]
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
