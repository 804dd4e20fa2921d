//! Tables for a terminal of 100 columns.

use crate::Comparison;
use crate::format::{ABSENT, Unit, percent, value};
use crate::groups::{Block, Row, Summary, blocks};
use crate::measures::{MEASURES, Measure};
use comfy_table::{Cell, CellAlignment, Table, presets};
use fairground_metrics::TaskMetrics;

/// Width of the terminal, in columns.
const WIDTH: usize = 100;
/// Number of spaces between two columns of a table.
const GAP: usize = 2;
/// Maximum number of tasks whose shares are shown by default.
const FEW_TASKS: usize = 8;

/// When tables of the tasks' shares are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskTables {
    /// For workloads with few tasks.
    #[default]
    WhenFew,
    /// For all workloads.
    Always,
}

impl Comparison {
    /// One block per workload: a row per scheduler, then the shares of the tasks. Lines have at most 100 columns unless a name is longer.
    pub fn table(&self, tasks: TaskTables) -> String {
        blocks(&self.runs)
            .iter()
            .map(|block| block_text(block, tasks))
            .collect::<Vec<_>>()
            .join("\n")
    }
}

fn block_text(block: &Block, tasks: TaskTables) -> String {
    let mut text = format!(
        "{} ({})\n\n",
        block.labels().workload,
        block.conditions("median")
    );
    text.push_str(&measures_tables(block));
    let names = block.tasks();
    if !names.is_empty() && (tasks == TaskTables::Always || names.len() <= FEW_TASKS) {
        text.push_str("\nShares of the machine (in brackets: ideal)\n\n");
        text.push_str(&shares_tables(block, &names));
    }
    for note in block.notes() {
        text.push_str(&format!("\nNote: {note}\n"));
    }
    text
}

/// A row per scheduler, a column per measure; if that is too wide, a table for each group of measures.
fn measures_tables(block: &Block) -> String {
    let measures: Vec<&Measure> = MEASURES
        .iter()
        .filter(|measure| {
            measure.always
                || block
                    .rows
                    .iter()
                    .any(|row| row.summary(|run| (measure.of)(&run.metrics)).is_some())
        })
        .collect();
    let text = measures_text(block, &measures);
    if width(&text) <= WIDTH {
        return text;
    }
    measures
        .chunk_by(|a, b| a.group == b.group)
        .map(|group| measures_text(block, group))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Width of the widest line.
fn width(text: &str) -> usize {
    text.lines()
        .map(|line| line.chars().count())
        .max()
        .unwrap_or(0)
}

fn measures_text(block: &Block, measures: &[&Measure]) -> String {
    let mut lines = vec![
        headings(measures, 0, ""),
        headings(measures, 1, "scheduler"),
    ];
    for row in &block.rows {
        let summaries: Vec<Option<Summary>> = measures
            .iter()
            .map(|measure| row.summary(|run| (measure.of)(&run.metrics)))
            .collect();
        lines.push(
            std::iter::once(row.name())
                .chain(summaries.iter().zip(measures).map(|(summary, measure)| {
                    value(summary.map(|summary| summary.median), measure.unit)
                }))
                .collect(),
        );
        if row.runs.len() > 1 {
            lines.push(
                std::iter::once(" spread".to_owned())
                    .chain(
                        summaries
                            .iter()
                            .zip(measures)
                            .map(|(summary, measure)| spread(*summary, measure.unit)),
                    )
                    .collect(),
            );
        }
    }
    layout(&lines, 1)
}

fn spread(summary: Option<Summary>, unit: Unit) -> String {
    value(summary.map(|summary| summary.spread()), unit)
}

fn headings(measures: &[&Measure], line: usize, first: &str) -> Vec<String> {
    std::iter::once(first.to_owned())
        .chain(
            measures
                .iter()
                .map(|measure| measure.heading[line].to_owned()),
        )
        .collect()
}

/// A row per task, a column per scheduler; several tables if there are too many schedulers for one.
fn shares_tables(block: &Block, names: &[(&str, i32)]) -> String {
    let mut text = String::new();
    let mut rest = block.rows.as_slice();
    while !rest.is_empty() {
        let mut count = rest.len();
        let table = loop {
            let table = shares_text(&rest[..count], names);
            if width(&table) <= WIDTH || count == 1 {
                break table;
            }
            count -= 1;
        };
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&table);
        rest = &rest[count..];
    }
    text
}

fn shares_text(rows: &[Row], names: &[(&str, i32)]) -> String {
    let mut lines = vec![
        ["task".to_owned(), "nice".to_owned()]
            .into_iter()
            .chain(rows.iter().map(Row::name))
            .collect::<Vec<_>>(),
    ];
    for &(name, nice) in names {
        lines.push(
            [name.to_owned(), nice.to_string()]
                .into_iter()
                .chain(rows.iter().map(|row| share(row, name)))
                .collect(),
        );
    }
    layout(&lines, 1)
}

fn share(row: &Row, name: &str) -> String {
    let part = |of: fn(&TaskMetrics) -> Option<f64>| {
        row.task_summary(name, of)
            .map(|summary| percent(summary.median))
    };
    match (
        part(|task| Some(task.share?.actual)),
        part(|task| Some(task.share?.ideal)),
    ) {
        (Some(actual), Some(ideal)) => format!("{actual} ({ideal})"),
        _ => ABSENT.to_owned(),
    }
}

/// Lays out cells: the first `left` columns are left-aligned, the others right-aligned.
fn layout(lines: &[Vec<String>], left: usize) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    for line in lines {
        table.add_row(line.iter().enumerate().map(|(column, text)| {
            Cell::new(text).set_alignment(if column < left {
                CellAlignment::Left
            } else {
                CellAlignment::Right
            })
        }));
    }
    for (number, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if number == 0 { 0 } else { GAP as u16 }, 0));
    }
    let mut text = table.trim_fmt();
    text.push('\n');
    text
}
