//! Comparisons as a page.

use crate::Comparison;
use crate::answer::answer;
use crate::column::Column;
use crate::format::{ABSENT, Unit};
use crate::groups::{Block, Row, blocks};
use crate::page::{Cell, Moment, Page, Plot, Scale, Section, Table};
use fairground_metrics::{Distribution, RunMetrics, TaskMetrics};
use fairground_results::{AllEvidence, Interval, Measure};

/// Maximum number of tasks whose shares are drawn.
const MOST_TASKS_DRAWN: usize = 16;
/// A share is told with its ideal if they differ by this or more.
const OFF: f64 = 0.01;
/// Maximum number of rows in the table of tasks, to keep pages small.
const MOST_TASK_ROWS: usize = 600;

/// A page that begins with the answer: workloads and machines by questions, with the best scheduler and how far the others are behind. Then a
/// section per workload and machine, with the decisive reasons and the `evidence`.
pub fn comparison_page(comparison: &Comparison, evidence: &AllEvidence) -> Page {
    let blocks = blocks(&comparison.runs);
    let names: Vec<String> = blocks.iter().map(|block| name(block, &blocks)).collect();
    let answer = answer(&blocks, &names, evidence);
    let of_block = |(number, block): (usize, &Block)| {
        let moments = evidence.get(&block.key()).map(|found| found.moments.clone());
        let findings = answer.matrix.rows[number].cells.iter().flatten();
        Section {
            id: names[number].clone(),
            title: names[number].clone(),
            findings: findings.cloned().collect(),
            ..section(block, moments.unwrap_or_default())
        }
    };
    Page {
        title: "Which scheduler, for which load, and why".to_owned(),
        schedulers: crate::answer::schedulers(&blocks),
        sections: blocks.iter().enumerate().map(of_block).collect(),
        answer,
        version: comparison.version.clone(),
        origins: origins(&blocks),
    }
}

/// The hashes of the inputs of the runs, each once; `None` if they have none.
fn origins(blocks: &[Block]) -> Option<Table> {
    let mut lines: Vec<[String; 3]> = Vec::new();
    let mut add = |kind: &str, name: &str, hash: &str| {
        let line = [kind, name, hash].map(str::to_owned);
        if !lines.contains(&line) {
            lines.push(line);
        }
    };
    for row in blocks.iter().flat_map(|block| &block.rows) {
        let labels = row.labels();
        let Some(hashes) = &labels.hashes else { continue };
        let costs = labels.cost_model.as_deref().unwrap_or_default();
        let of_scheduler = [("scheduler", &hashes.scheduler), ("companion", &hashes.companion)];
        for (kind, hash) in of_scheduler {
            if let Some(hash) = hash {
                add(kind, &labels.scheduler, hash);
            }
        }
        add("workload", &labels.workload, &hashes.workload);
        add("machine", &labels.machine, &hashes.machine);
        add("costs", costs, &hashes.costs);
    }
    lines.sort();
    (!lines.is_empty()).then(|| Table {
        caption: "Inputs of the results".to_owned(),
        heads: ["Kind", "Name", "SHA-256"].map(str::to_owned).into(),
        rows: { lines.into_iter() }.map(|line| line.map(Cell::plain).into()).collect(),
        words: 3,
    })
}

/// The workload, and the machine if it runs on several.
fn name(block: &Block, all: &[Block]) -> String {
    let labels = block.labels();
    let same = |other: &&Block| other.labels().workload == labels.workload;
    match all.iter().filter(same).count() {
        1 => labels.workload.clone(),
        _ => format!("{} on {}", labels.workload, labels.machine),
    }
}

/// The section without its name and the decisive reasons.
fn section(block: &Block, moments: Vec<Moment>) -> Section {
    let measures: Vec<&Measure> = Measure::shown()
        .filter(|measure| {
            block.rows.iter().any(|row| row.interval(|run| measure.run(run)).is_some())
        })
        .collect();
    let tasks = block.tasks();
    let mut tables: Vec<Table> = measures
        .chunk_by(|a, b| a.group == b.group)
        .map(|group| measures_table(block, group))
        .collect();
    if tasks.len() <= MOST_TASKS_DRAWN {
        tables.extend(shares_table(block, &tasks));
    }
    let latencies = percentile_plot(block, "Wakeup latency", |run| run.wakeup_latency);
    let responses = percentile_plot(block, "Response time", |run| run.response_time);
    Section {
        conditions: block.conditions("mean and 95 % interval"),
        tables,
        plots: latencies.into_iter().chain(responses).collect(),
        moments,
        details: (!tasks.is_empty())
            .then(|| tasks_table(block, &tasks))
            .into_iter()
            .chain(counters_table(block))
            .collect(),
        notes: block.notes().into_iter().map(str::to_owned).collect(),
        ..Section::default()
    }
}

fn cell(interval: Option<Interval>, column: &Column, scale: Option<Scale>) -> Cell {
    let Some(interval) = interval else { return Cell::plain(ABSENT) };
    let text = |number| column.text(Some(number));
    Cell {
        text: text(interval.mean),
        detail: crate::format::range(&text(interval.low), &text(interval.high)),
        strip: scale.map(|scale| scale.strip(interval.mean, (interval.low, interval.high), None)),
    }
}

/// Mean and 95 % interval. If no sample is a larger part than all, the interval has none either, although Student's may.
fn measured(row: &Row, measure: &Measure) -> Option<Interval> {
    let mut interval = row.interval(|run| measure.run(run))?;
    let is_part = matches!(measure.unit, Unit::Fraction | Unit::Index);
    if is_part && interval.max <= 1.0 {
        interval.high = interval.high.min(1.0);
    }
    Some(interval)
}

fn measures_table(block: &Block, measures: &[&Measure]) -> Table {
    let mut heads = vec!["Scheduler".to_owned()];
    heads.extend(measures.iter().map(|measure| measure.title().to_owned()));
    let column = |measure: &&Measure| {
        let numbers = block.rows.iter().filter_map(|row| measured(row, measure));
        let means: Vec<f64> = numbers.map(|interval| interval.mean).collect();
        let hz = block.labels().hz.unwrap_or(250).max(1);
        let least = means.iter().copied().fold(f64::INFINITY, f64::min);
        let margin = measure.margin.around(least, least, 1e9 / hz as f64);
        let scale = Scale::over(means.iter().copied(), margin);
        (Column::of(measure.unit, means.into_iter()), scale)
    };
    let columns: Vec<(Column, Option<Scale>)> = measures.iter().map(column).collect();
    for (head, (_, scale)) in heads[1..].iter_mut().zip(&columns) {
        if scale.is_some_and(|scale| scale.is_log()) {
            head.push_str(" (dots: log)");
        }
    }
    let row = |row: &Row| {
        // How the runs ended, unless all is well.
        let detail = if row.is_ok() { String::new() } else { row.status() };
        let mut cells = vec![Cell { text: row.title(), detail, strip: None }];
        let numbers = measures.iter().zip(&columns);
        cells.extend(
            numbers.map(|(measure, (column, scale))| cell(measured(row, measure), column, *scale)),
        );
        cells
    };
    Table { caption: String::new(), heads, rows: block.rows.iter().map(row).collect(), words: 1 }
}

/// A quantile, and how to get its value from a distribution.
type Quantile = (f64, fn(&Distribution) -> u64);

/// Quantiles that a distribution has.
const QUANTILES: [Quantile; 5] = [
    (0.05, |times| times.p5_ns),
    (0.5, |times| times.p50_ns),
    (0.95, |times| times.p95_ns),
    (0.99, |times| times.p99_ns),
    (0.999, |times| times.p999_ns),
];

/// The distribution of times under each scheduler; `None` if none has one.
fn percentile_plot(
    block: &Block,
    title: &str,
    of: fn(&RunMetrics) -> Option<Distribution>,
) -> Option<Plot> {
    let quantiles = |row: &Row| -> Vec<(f64, Interval)> {
        QUANTILES
            .iter()
            .filter_map(|&(quantile, at)| {
                Some((quantile, row.interval(|run| Some(at(&of(run)?) as f64))?))
            })
            .collect()
    };
    let schedulers: Vec<(String, Vec<(f64, Interval)>)> = block
        .rows
        .iter()
        .map(|row| (row.title(), quantiles(row)))
        .filter(|(_, quantiles)| !quantiles.is_empty())
        .collect();
    (!schedulers.is_empty())
        .then(|| Plot::percentiles(format!("{title}, percentiles"), &schedulers))
}

/// The share of each task under each scheduler, on one scale, with the ideal; `None` if that is not known.
fn shares_table(block: &Block, tasks: &[(&str, i32)]) -> Option<Table> {
    let has_share = |row: &&Row| tasks.iter().any(|&(name, _)| share(row, name).is_some());
    let rows: Vec<&Row> = block.rows.iter().filter(has_share).collect();
    let shares = || {
        let shares = rows.iter().flat_map(|row| tasks.iter().map(|(name, _)| share(row, name)));
        shares.flatten().map(|interval| interval.mean)
    };
    let scale = Scale::over(shares().chain([0.0]), 0.0)?;
    let column = Column::of(Unit::Fraction, shares());
    let of_task = |row: &&Row, name: &str| {
        let Some(interval) = share(row, name) else { return Cell::plain(ABSENT) };
        let ideal = ideal(row, name);
        let is_off = ideal.filter(|ideal| (interval.mean - ideal).abs() >= OFF);
        let detail = is_off.map(|ideal| format!("ideal {}", column.text(Some(ideal))));
        Cell {
            text: column.text(Some(interval.mean)),
            detail: detail.unwrap_or_default(),
            strip: Some(scale.strip(interval.mean, (interval.low, interval.high), ideal)),
        }
    };
    let line = |&(name, nice): &(&str, i32)| {
        let mut cells = [name.to_owned(), nice.to_string()].map(Cell::plain).to_vec();
        cells.extend(rows.iter().map(|row| of_task(row, name)));
        cells
    };
    let mut heads = ["Task", "Nice"].map(str::to_owned).to_vec();
    heads.extend(rows.iter().map(|row| row.title()));
    (!rows.is_empty()).then(|| Table {
        caption: "Share of the machine of each task; the mark is the ideal".to_owned(),
        heads,
        rows: tasks.iter().map(line).collect(),
        words: 2,
    })
}

fn share(row: &Row, task: &str) -> Option<Interval> {
    row.task_interval(task, |task| Some(task.share?.actual))
}

fn ideal(row: &Row, task: &str) -> Option<f64> {
    Some(row.task_interval(task, |task| Some(task.share?.ideal))?.mean)
}

/// The schedulers' own counters, one per row; `None` if there are none.
fn counters_table(block: &Block) -> Option<Table> {
    let mut rows = Vec::new();
    for row in &block.rows {
        let mut names: Vec<&String> = row.runs.iter().flat_map(|run| run.counters.keys()).collect();
        names.sort();
        names.dedup();
        rows.extend(names.into_iter().map(|name| {
            let counts = row.runs.iter().filter_map(|run| run.counters.get(name));
            let counts: Vec<f64> = counts.map(|&count| count as f64).collect();
            vec![
                Cell::plain(row.title()),
                Cell::plain(name.as_str()),
                cell(Interval::of(&counts), &Column::of(Unit::Count, counts.iter().copied()), None),
            ]
        }));
    }
    (!rows.is_empty()).then(|| Table {
        caption: "The schedulers' own counters".to_owned(),
        heads: ["Scheduler", "Counter", "Count"].map(str::to_owned).into(),
        rows,
        words: 2,
    })
}

/// A column of the table of tasks: head, unit and value.
type TaskColumn = (&'static str, Unit, fn(&TaskMetrics) -> Option<f64>);

const TASK_COLUMNS: &[TaskColumn] = &[
    ("Share", Unit::Fraction, |task| Some(task.share?.actual)),
    ("Ideal share", Unit::Fraction, |task| Some(task.share?.ideal)),
    ("CPU time", Unit::Time, |task| Some(task.cpu_time_ns as f64)),
    ("Lag, ahead", Unit::Time, |task| Some(task.lag?.ahead_ns as f64)),
    ("Lag, behind", Unit::Time, |task| Some(task.lag?.behind_ns as f64)),
    ("Wakeup latency, median", Unit::Time, |task| Some(task.wakeup_latency?.p50_ns as f64)),
    ("Wakeup latency, 99 %", Unit::Time, |task| Some(task.wakeup_latency?.p99_ns as f64)),
    ("Wakeup latency, maximum", Unit::Time, |task| Some(task.wakeup_latency?.max_ns as f64)),
    ("Longest wait", Unit::Time, |task| task.longest_wait_ns.map(|wait| wait as f64)),
    ("Missed periods", Unit::Count, |task| Some(task.periods?.missed as f64)),
    ("Migrations", Unit::Count, |task| Some(task.migrations as f64)),
];

fn tasks_table(block: &Block, tasks: &[(&str, i32)]) -> Table {
    let listed = tasks.len().min((MOST_TASK_ROWS / block.rows.len().max(1)).max(1));
    let mut heads: Vec<String> = ["Scheduler", "Task", "Nice"].map(str::to_owned).into();
    heads.extend(TASK_COLUMNS.iter().map(|(title, ..)| (*title).to_owned()));
    let lines: Vec<(&str, i32, &Row)> = { tasks[..listed].iter() }
        .flat_map(|&(name, nice)| block.rows.iter().map(move |row| (name, nice, row)))
        .collect();
    let mut rows: Vec<Vec<Cell>> = { lines.iter() }
        .map(|(name, nice, row)| {
            let words = [row.title(), (*name).to_owned(), nice.to_string()];
            words.map(Cell::plain).into()
        })
        .collect();
    for &(_, unit, of) in TASK_COLUMNS {
        let mean = |(name, _, row): &(&str, i32, &Row)| Some(row.task_interval(name, of)?.mean);
        let means: Vec<Option<f64>> = lines.iter().map(mean).collect();
        let column = Column::of(unit, means.iter().flatten().copied());
        for (cells, mean) in rows.iter_mut().zip(means) {
            cells.push(Cell::plain(column.text(mean)));
        }
    }
    Table {
        caption: if listed == tasks.len() {
            format!("All tasks ({listed})")
        } else {
            format!("The first {listed} of {} tasks; the CSV form has all", tasks.len())
        },
        heads,
        rows,
        words: 3,
    }
}
