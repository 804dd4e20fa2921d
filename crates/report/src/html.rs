//! Comparisons as one HTML file that needs nothing else.

use crate::Comparison;
use crate::chart::{Bar, bars};
use crate::format::{Unit, value};
use crate::groups::{Block, Row, Summary, blocks};
use crate::measures::{MEASURES, Measure};
use fairground_metrics::TaskMetrics;
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("style.css");

/// Up to this many tasks, their shares are drawn.
const MOST_TASKS_DRAWN: usize = 16;

/// Up to this many tasks are in the table of tasks, so that browsers can still show the page.
const MOST_TASKS_LISTED: usize = 500;

impl Comparison {
    /// A complete HTML page: tables, bar charts and the conditions of every run, readable in light and dark, without
    /// scripts or anything from outside.
    pub fn html(&self) -> String {
        let blocks = blocks(&self.runs);
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width";
                    title { "Comparison of schedulers" }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    h1 { "Comparison of schedulers" }
                    @for block in &blocks { (section(block)) }
                }
            }
        }
        .into_string()
    }
}

fn section(block: &Block) -> Markup {
    let measures: Vec<&Measure> = MEASURES
        .iter()
        .filter(|measure| {
            block
                .rows
                .iter()
                .any(|row| row.summary(|run| (measure.of)(&run.metrics)).is_some())
        })
        .collect();
    let tasks = block.tasks();
    html! {
        section {
            h2 { (block.labels().workload) }
            p.conditions { (block.conditions()) }
            @for note in block.notes() { p.conditions { "Note: " (note) } }
            @for group in measures.chunk_by(|a, b| a.group == b.group) { (measures_table(block, group)) }
            div.charts {
                @for measure in measures.iter().filter(|measure| is_worth_drawing(block, measure)) {
                    (measure_chart(block, measure))
                }
            }
            @if !tasks.is_empty() && tasks.len() <= MOST_TASKS_DRAWN {
                h3 { "Share of the machine of each task" }
                p.key { "Bar: what the task got. Mark: what the ideal processor gives it." }
                div.charts {
                    @for row in &block.rows { (shares_chart(row, &tasks)) }
                }
            }
            @if !tasks.is_empty() {
                details {
                    @if tasks.len() <= MOST_TASKS_LISTED {
                        summary { "All tasks (" (tasks.len()) ")" }
                    } @else {
                        summary { "The first " (MOST_TASKS_LISTED) " of " (tasks.len()) " tasks; the CSV form has all" }
                    }
                    (tasks_table(block, &tasks[..tasks.len().min(MOST_TASKS_LISTED)]))
                }
            }
        }
    }
}

fn measures_table(block: &Block, measures: &[&Measure]) -> Markup {
    html! {
        div.scroll {
            table {
                thead {
                    tr {
                        th { "Scheduler" }
                        @for measure in measures { th { (measure.title) } }
                    }
                }
                tbody {
                    @for row in &block.rows {
                        tr {
                            td { (row.name()) }
                            @for measure in measures { (measure_cell(row, measure)) }
                        }
                    }
                }
            }
        }
    }
}

fn measure_cell(row: &Row, measure: &Measure) -> Markup {
    let summary = row.summary(|run| (measure.of)(&run.metrics));
    let text = |part: fn(Summary) -> f64| value(summary.map(part), measure.unit);
    let (min, max) = (text(|summary| summary.min), text(|summary| summary.max));
    html! {
        td {
            (text(|summary| summary.median))
            @if min != max { small { (min) " to " (max) } }
        }
    }
}

/// Where all values are 0 or absent, bars show nothing.
fn is_worth_drawing(block: &Block, measure: &Measure) -> bool {
    block
        .rows
        .iter()
        .filter_map(|row| row.summary(|run| (measure.of)(&run.metrics)))
        .any(|summary| summary.max > 0.0)
}

fn measure_chart(block: &Block, measure: &Measure) -> Markup {
    let rows: Vec<Bar> = block
        .rows
        .iter()
        .map(|row| Bar {
            name: one_line(&row.name()),
            value: row.summary(|run| (measure.of)(&run.metrics)),
            target: None,
        })
        .collect();
    bars(measure.title, measure.unit, &rows)
}

fn shares_chart(row: &Row, tasks: &[(&str, i32)]) -> Markup {
    let shares: Vec<Bar> = tasks
        .iter()
        .map(|&(name, _)| Bar {
            name: name.to_owned(),
            value: row.task_summary(name, |task| Some(task.share?.actual)),
            target: row
                .task_summary(name, |task| Some(task.share?.ideal))
                .map(|ideal| ideal.median),
        })
        .collect();
    bars(&one_line(&row.name()), Unit::Fraction, &shares)
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

fn tasks_table(block: &Block, tasks: &[(&str, i32)]) -> Markup {
    html! {
        div.scroll {
            table {
                thead {
                    tr {
                        th { "Task" }
                        th { "Nice" }
                        th { "Scheduler" }
                        @for (title, _, _) in TASK_COLUMNS { th { (title) } }
                    }
                }
                tbody {
                    @for &(name, nice) in tasks {
                        @for row in &block.rows {
                            tr {
                                td { (name) }
                                td { (nice) }
                                td { (one_line(&row.name())) }
                                @for &(_, unit, of) in TASK_COLUMNS {
                                    td {
                                        (value(
                                            row.task_summary(name, of).map(|summary| summary.median),
                                            unit,
                                        ))
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn one_line(name: &str) -> String {
    name.replace('\n', "")
}
