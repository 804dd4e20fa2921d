//! Tables for a terminal of 100 columns.

use crate::Comparison;
use crate::format::{ABSENT, Unit, percent, value};
use crate::groups::{Block, Row, blocks};
use comfy_table::{Cell, CellAlignment, Table, presets};
use fairground_results::{Measure, Shown, Summary};

/// Width of the terminal, in columns.
pub(crate) const WIDTH: usize = 100;
/// Number of spaces between two columns of a table.
const GAP: usize = 2;
/// Cells of a table in Markdown, the first line as its head.
pub(crate) fn pipes(lines: &[Vec<String>]) -> String {
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        let escaped = line.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " "));
        let cells: Vec<String> = escaped.collect();
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
        if number == 0 {
            let rules = line.iter().enumerate().map(|(column, _)| match column {
                0 => "---",
                _ => "---:",
            });
            text.push_str(&format!("| {} |\n", rules.collect::<Vec<_>>().join(" | ")));
        }
    }
    text
}

/// Maximum number of tasks whose shares are shown by default.
pub const FEW_TASKS: usize = 8;

/// When tables of the tasks' shares are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskTables {
    /// For workloads with few tasks.
    #[default]
    WhenFew,
    /// For all workloads.
    Always,
}

/// How a table looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// When tables of the tasks' shares are shown.
    pub tasks: TaskTables,
    /// Whether failures are red, by the escape sequences of terminals.
    pub colours: bool,
}

/// The figures of each workload as tables in Markdown.
pub(crate) fn figures_markdown(comparison: &Comparison) -> String {
    let of_block = |block: &Block| {
        let has_any = |measure: &&Measure| {
            let mut rows = block.rows.iter();
            rows.any(|row| row.summary(measure).is_some())
        };
        let measures: Vec<&Measure> = Measure::shown().filter(has_any).collect();
        let (mut lines, _) = figures(block, &measures);
        let second = lines.remove(1);
        for (first, second) in lines[0].iter_mut().zip(second) {
            let joined = format!("{first} {second}").replace("- ", "");
            joined.trim().clone_into(first);
        }
        let heading = format!("{} ({})", block.labels().workload, block.conditions("median"));
        let notes = notes_on_medians(block).join("\n\n");
        let gap = if notes.is_empty() { "" } else { "\n" };
        format!("### {}\n\n{}{gap}{notes}{gap}", heading, pipes(&lines))
    };
    blocks(&comparison.runs).iter().map(of_block).collect::<Vec<_>>().join("\n")
}

/// One block per workload: failures, a row per scheduler, then the shares of the tasks. Lines have at most 100 columns unless a name is
/// longer or something failed.
pub fn comparison_table(comparison: &Comparison, style: Style) -> String {
    blocks(&comparison.runs)
        .iter()
        .map(|block| block_text(block, style))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Begins and ends red text on a terminal.
const RED: [&str; 2] = ["\u{1b}[31m", "\u{1b}[0m"];

/// The lines of a text in red, if there are colours.
pub(crate) fn red(text: &str, colours: bool) -> String {
    let [begin, end] = RED;
    if colours { format!("{begin}{text}{end}") } else { text.to_owned() }
}

/// The failures, each with the command that shows why.
fn failures_text(block: &Block, colours: bool) -> String {
    let mut text = String::new();
    for row in &block.rows {
        for (_, failure, often) in row.failures() {
            let told = format!("{} {}{often}", row.title(), failure.message);
            text.push_str(&red(&told, colours));
            text.push('\n');
            if let Some(command) = &failure.explain {
                text.push_str(&format!("  {command}\n"));
            }
        }
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

fn block_text(block: &Block, style: Style) -> String {
    let tasks = style.tasks;
    let mut text = format!("{} ({})\n\n", block.labels().workload, block.conditions("median"));
    text.push_str(&failures_text(block, style.colours));
    text.push_str(&measures_tables(block, style.colours));
    let names = block.tasks();
    if !names.is_empty() && (tasks == TaskTables::Always || names.len() <= FEW_TASKS) {
        text.push_str("\nShares of the machine (in brackets: ideal)\n\n");
        text.push_str(&shares_tables(block, &names));
    }
    for note in block.notes() {
        text.push_str(&format!("\nNote: {note}\n"));
    }
    for note in notes_on_medians(block) {
        text.push_str(&format!("\nNote: {note}\n"));
    }
    text
}

/// That a median is not one of all runs.
fn notes_on_medians(block: &Block) -> Vec<String> {
    let of_row = |row: &Row| {
        let title = row.title();
        let note = |(measure, [count, all]): (&Measure, [usize; 2])| {
            let name = measure.title();
            format!("{title}: {name} is of the {count} of {all} runs that have it")
        };
        row.partly_measured().map(note).collect::<Vec<_>>()
    };
    block.rows.iter().flat_map(of_row).collect()
}

/// A row per scheduler, a column per measure; if that is too wide, a table for each group of measures.
fn measures_tables(block: &Block, colours: bool) -> String {
    let has_any = |measure: &Measure| {
        let mut rows = block.rows.iter();
        rows.any(|row| row.summary(measure).is_some())
    };
    let measures: Vec<&Measure> = Measure::shown()
        .filter(|measure| measure.shown.is_some_and(|shown| shown.always) || has_any(measure))
        .collect();
    let text = measures_text(block, &measures);
    if width(&text) <= WIDTH {
        return coloured(block, text, colours);
    }
    measures
        .chunk_by(|a, b| a.group == b.group)
        .map(|group| coloured(block, measures_text(block, group), colours))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The rows of schedulers that failed in red.
fn coloured(block: &Block, text: String, colours: bool) -> String {
    if !colours {
        return text;
    }
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut place = 2;
    for row in &block.rows {
        let height = row.name().lines().count();
        for line in lines.iter_mut().skip(place).take(height) {
            if !row.is_ok() {
                *line = red(line, true);
            }
        }
        place += height + usize::from(row.measured() > 1);
    }
    lines.join("\n") + "\n"
}

/// Width of the widest line.
fn width(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

fn measures_text(block: &Block, measures: &[&Measure]) -> String {
    let (lines, all_ok) = figures(block, measures);
    layout(&lines, if all_ok { 1 } else { 2 })
}

fn spread(summary: Option<Summary>, unit: Unit) -> String {
    value(summary.map(|summary| summary.spread()), unit)
}

/// Headings and figures as lines of cells, and whether there is a column for the status.
fn figures(block: &Block, measures: &[&Measure]) -> (Vec<Vec<String>>, bool) {
    let all_ok = block.rows.iter().all(Row::is_ok);
    // A column that only says ok would say nothing.
    let named = |name: &str, status: String| match all_ok {
        true => vec![name.to_owned()],
        false => vec![name.to_owned(), status],
    };
    let mut lines = vec![
        headings(measures, 0, named("", String::new())),
        headings(measures, 1, named("scheduler", "status".to_owned())),
    ];
    for row in &block.rows {
        let summaries: Vec<Option<Summary>> =
            measures.iter().map(|measure| row.summary(measure)).collect();
        lines.push(
            named(&row.name(), row.status())
                .into_iter()
                .chain(summaries.iter().zip(measures).map(|(summary, measure)| {
                    value(summary.map(|summary| summary.median), measure.unit)
                }))
                .collect(),
        );
        if row.measured() > 1 {
            lines.push(
                named(" spread", String::new())
                    .into_iter()
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
    (lines, all_ok)
}

fn headings(measures: &[&Measure], line: usize, first: Vec<String>) -> Vec<String> {
    first
        .into_iter()
        .chain(measures.iter().map(|measure| heading(measure)[line].to_owned()))
        .collect()
}

pub(crate) fn heading(measure: &Measure) -> [&'static str; 2] {
    let in_one = ["", measure.id];
    measure.shown.map_or(in_one, |Shown { heading, .. }| heading)
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
    match row.share_summaries(name) {
        Some((actual, ideal)) => {
            let (actual, ideal) = (percent(actual.median), percent(ideal.median));
            format!("{actual} ({ideal})")
        }
        None => ABSENT.to_owned(),
    }
}

/// Lays out cells: the first `left` columns are left-aligned, the others right-aligned.
pub(crate) fn layout(lines: &[Vec<String>], left: usize) -> String {
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
