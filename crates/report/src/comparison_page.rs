//! Comparisons as a page.

use crate::Comparison;
use crate::answer::answer;
use crate::column::Column;
use crate::format::{ABSENT, Unit, value};
use crate::groups::{Block, Row, blocks};
use crate::page::{Axis, Category, Cell, Kind, Moment, Page, Plot, Point, Section, Series, Table};
use fairground_metrics::{Distribution, RunMetrics, TaskMetrics};
use fairground_results::{Interval, Measure, Moments};

/// Maximum number of tasks whose shares are plotted.
const MOST_TASKS_DRAWN: usize = 16;
/// Maximum number of schedulers in a plot of the tasks' shares; more get a plot each.
const MOST_TOGETHER: usize = 4;
/// Maximum number of rows in the table of tasks, to keep pages small.
const MOST_TASK_ROWS: usize = 600;
/// If times differ by more than this factor, their axis is logarithmic.
const WIDE: f64 = 30.0;

/// A page with a section per workload and machine, with its `moments`.
pub(crate) fn page(comparison: &Comparison, moments: &Moments) -> Page {
    let blocks = blocks(&comparison.runs);
    let names: Vec<String> = blocks.iter().map(|block| name(block, &blocks)).collect();
    let answer = answer(&blocks, &names);
    let of_block = |(number, block): (usize, &Block)| {
        let labels = block.labels();
        let moments = moments.get(&(labels.workload.clone(), labels.machine.clone()));
        let findings = answer.matrix.rows[number].cells.iter().flatten();
        Section {
            id: names[number].clone(),
            title: names[number].clone(),
            findings: findings.cloned().collect(),
            ..section(block, moments.cloned().unwrap_or_default())
        }
    };
    Page {
        title: "Which scheduler, for which load, and why".to_owned(),
        sections: blocks.iter().enumerate().map(of_block).collect(),
        answer,
    }
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

/// The section without its name and what decided.
fn section(block: &Block, moments: Vec<Moment>) -> Section {
    let measures: Vec<&Measure> = Measure::shown()
        .filter(|measure| {
            block
                .rows
                .iter()
                .any(|row| row.interval(|run| measure.run(run)).is_some())
        })
        .collect();
    let tasks = block.tasks();
    let mut plots: Vec<Plot> = measures
        .iter()
        .filter(|measure| differs(block, measure))
        .map(|measure| measure_plot(block, measure))
        .collect();
    plots.extend(percentile_plot(block, "Wakeup latency", |run| {
        run.wakeup_latency
    }));
    plots.extend(percentile_plot(block, "Response time", |run| {
        run.response_time
    }));
    if tasks.len() <= MOST_TASKS_DRAWN {
        plots.extend(share_plots(block, &tasks));
    }
    Section {
        conditions: block.conditions("mean and 95 % interval"),
        tables: measures
            .chunk_by(|a, b| a.group == b.group)
            .map(|group| measures_table(block, group))
            .collect(),
        plots,
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

fn cell(interval: Option<Interval>, column: &Column) -> Cell {
    let Some(interval) = interval else {
        return Cell::plain(ABSENT);
    };
    let text = |number| column.text(Some(number));
    Cell {
        text: text(interval.mean),
        detail: crate::format::range(&text(interval.low), &text(interval.high)),
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
        Column::of(measure.unit, numbers.map(|interval| interval.mean))
    };
    let columns: Vec<Column> = measures.iter().map(column).collect();
    let row = |row: &Row| {
        // How the runs ended, unless all is well.
        let detail = match row.is_ok() {
            true => String::new(),
            false => row.status(),
        };
        let mut cells = vec![Cell {
            text: row.title(),
            detail,
        }];
        let numbers = measures.iter().zip(&columns);
        cells.extend(numbers.map(|(measure, column)| cell(measured(row, measure), column)));
        cells
    };
    Table {
        caption: String::new(),
        heads,
        rows: block.rows.iter().map(row).collect(),
        words: 1,
    }
}

/// If all schedulers have the same value, there is nothing to show.
fn differs(block: &Block, measure: &Measure) -> bool {
    let mut texts: Vec<String> = block
        .rows
        .iter()
        .filter_map(|row| {
            Some(value(
                Some(row.interval(|run| measure.run(run))?.mean),
                measure.unit,
            ))
        })
        .collect();
    texts.sort();
    texts.dedup();
    texts.len() > 1
}

fn measure_plot(block: &Block, measure: &Measure) -> Plot {
    let series: Vec<Series> = block
        .rows
        .iter()
        .filter_map(|row| {
            Some(Series {
                name: row.title(),
                scheduler: row.title(),
                printed: false,
                points: vec![Point::interval(0.0, measured(row, measure)?)],
            })
        })
        .collect();
    let values = || series.iter().flat_map(|series| &series.points);
    let least = values().map(|point| point.y).fold(f64::INFINITY, f64::min);
    let most = values().map(|point| point.y).fold(0.0, f64::max);
    let log = measure.unit != Unit::Fraction && least > 0.0 && most / least > WIDE;
    Plot {
        title: measure.title().to_owned(),
        text: String::new(),
        kind: Kind::Dots,
        x: Axis::default(),
        y: Axis {
            label: if log {
                "logarithmic".to_owned()
            } else {
                String::new()
            },
            unit: measure.unit,
            log,
        },
        categories: Vec::new(),
        series,
    }
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

/// What each task got, compared with the ideal: one plot, or one per scheduler if there are many.
fn share_plots(block: &Block, tasks: &[(&str, i32)]) -> Vec<Plot> {
    let has_share = |row: &Row| tasks.iter().any(|&(name, _)| share(row, name).is_some());
    let rows: Vec<&Row> = block.rows.iter().filter(|row| has_share(row)).collect();
    if rows.is_empty() {
        Vec::new()
    } else if rows.len() <= MOST_TOGETHER && agree_on_ideals(&rows, tasks) {
        vec![share_plot(
            "Share of the machine of each task".to_owned(),
            &rows,
            tasks,
        )]
    } else {
        let title = |row: &Row| format!("Share of the machine of each task under {}", row.title());
        rows.iter()
            .map(|row| share_plot(title(row), &[row], tasks))
            .collect()
    }
}

fn share(row: &Row, task: &str) -> Option<Interval> {
    row.task_interval(task, |task| Some(task.share?.actual))
}

fn ideal(row: &Row, task: &str) -> Option<f64> {
    Some(
        row.task_interval(task, |task| Some(task.share?.ideal))?
            .mean,
    )
}

/// Whether the ideal processor gives every task the same under all schedulers. It need not: it serves the tasks' demand, which depends on when they run.
fn agree_on_ideals(rows: &[&Row], tasks: &[(&str, i32)]) -> bool {
    const POINT: f64 = 0.01;
    tasks.iter().all(|&(name, _)| {
        let ideals = || rows.iter().filter_map(|row| ideal(row, name));
        let least = ideals().fold(f64::INFINITY, f64::min);
        let most = ideals().fold(0.0, f64::max);
        most - least < POINT
    })
}

fn share_plot(title: String, rows: &[&Row], tasks: &[(&str, i32)]) -> Plot {
    let series = |row: &&Row| Series {
        name: row.title(),
        scheduler: row.title(),
        printed: false,
        points: tasks
            .iter()
            .enumerate()
            .filter_map(|(place, &(name, _))| {
                Some(Point::interval(place as f64, share(row, name)?))
            })
            .collect(),
    };
    Plot {
        title,
        text: String::new(),
        kind: Kind::Dots,
        x: Axis::default(),
        y: Axis {
            label: String::new(),
            unit: Unit::Fraction,
            log: false,
        },
        categories: tasks
            .iter()
            .map(|&(name, _)| Category {
                name: name.to_owned(),
                ideal: rows.iter().find_map(|row| ideal(row, name)),
            })
            .collect(),
        series: rows.iter().map(series).collect(),
    }
}

/// The schedulers' own counters, one per row; `None` if there are none.
fn counters_table(block: &Block) -> Option<Table> {
    let mut rows = Vec::new();
    for row in &block.rows {
        let mut names: Vec<&String> = row
            .runs
            .iter()
            .flat_map(|run| run.counters.keys())
            .collect();
        names.sort();
        names.dedup();
        rows.extend(names.into_iter().map(|name| {
            let counts = row.runs.iter().filter_map(|run| run.counters.get(name));
            let counts: Vec<f64> = counts.map(|&count| count as f64).collect();
            vec![
                Cell::plain(row.title()),
                Cell::plain(name.as_str()),
                cell(
                    Interval::of(&counts),
                    &Column::of(Unit::Count, counts.iter().copied()),
                ),
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

/// What a row of the table of tasks shows.
type TaskColumn = (&'static str, Unit, fn(&TaskMetrics) -> Option<f64>);

const TASK_COLUMNS: &[TaskColumn] = &[
    ("Share", Unit::Fraction, |task| Some(task.share?.actual)),
    ("Ideal share", Unit::Fraction, |task| {
        Some(task.share?.ideal)
    }),
    ("CPU time", Unit::Time, |task| Some(task.cpu_time_ns as f64)),
    ("Lag, ahead", Unit::Time, |task| {
        Some(task.lag?.ahead_ns as f64)
    }),
    ("Lag, behind", Unit::Time, |task| {
        Some(task.lag?.behind_ns as f64)
    }),
    ("Wakeup latency, median", Unit::Time, |task| {
        Some(task.wakeup_latency?.p50_ns as f64)
    }),
    ("Wakeup latency, 99 %", Unit::Time, |task| {
        Some(task.wakeup_latency?.p99_ns as f64)
    }),
    ("Wakeup latency, maximum", Unit::Time, |task| {
        Some(task.wakeup_latency?.max_ns as f64)
    }),
    ("Longest wait", Unit::Time, |task| {
        task.longest_wait_ns.map(|wait| wait as f64)
    }),
    ("Missed periods", Unit::Count, |task| {
        Some(task.periods?.missed as f64)
    }),
    ("Migrations", Unit::Count, |task| {
        Some(task.migrations as f64)
    }),
];

fn tasks_table(block: &Block, tasks: &[(&str, i32)]) -> Table {
    let listed = tasks
        .len()
        .min((MOST_TASK_ROWS / block.rows.len().max(1)).max(1));
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
            format!(
                "The first {listed} of {} tasks; the CSV form has all",
                tasks.len()
            )
        },
        heads,
        rows,
        words: 3,
    }
}
