//! Schedulers against a baseline: for the terminal, as Markdown, and in short.

use std::collections::BTreeSet;

use fairground_results::format::{difference, range, value};
use fairground_results::{Difference, Judgement, Measure, STATUS, Unit, sentence};

use crate::Comparison;
use crate::groups::{Block, ONE_RUN, blocks};
use crate::table::{figures_markdown, layout, pipes, red};
use crate::text::each_once;

/// Heading of the columns.
const HEADS: [&str; 5] = ["measure", "before", "after", "difference", "95 % interval"];

/// Id of the measure that tells whether tasks competed.
const LONGEST_WAIT: &str = "longest_wait";

/// A wait in nanoseconds that a wake-up takes on an idle CPU, whichever the scheduler.
const WAKE_UP: f64 = 20e3;

/// The differences from the baseline: a table for each workload, machine and scheduler, and a line for each scheduler in the end; empty if
/// there is no baseline. Worse values are red if there are `colours`.
pub fn differences_table(differences: &[Difference], colours: bool) -> String {
    let mut text = String::new();
    for group in groups(differences) {
        text.push_str(&format!("\n{}\n\n", heading(group)));
        let mut lines = vec![cells(HEADS.map(str::to_owned), String::new())];
        lines.extend(group.iter().map(row));
        let table = layout(&lines, 1);
        for (number, line) in table.lines().enumerate() {
            let one = number.checked_sub(1).and_then(|place| group.get(place));
            let worse = one.is_some_and(|one| one.judgement == Judgement::Worse);
            text.push_str(&format!("{}\n", red(line, colours && worse)));
        }
    }
    let tallies = tallies(differences);
    if !tallies.is_empty() {
        text.push('\n');
    }
    for (tally, worse) in tallies {
        text.push_str(&format!("{}\n", red(&tally, colours && worse)));
    }
    for line in without_waits(differences) {
        text.push_str(&format!("{line}\n"));
    }
    text
}

/// The comparison as Markdown: the runs that failed, and the differences from the baseline or, without one, the figures.
pub(crate) fn markdown(comparison: &Comparison) -> String {
    let mut text = String::new();
    for row in blocks(&comparison.runs).iter().flat_map(|block| &block.rows) {
        let labels = row.labels();
        for (status, failure, often) in row.failures() {
            text.push_str(&format!(
                "- **{status}**: {} on {} under `{}` {}{often}\n",
                labels.workload, labels.machine, labels.scheduler, failure.message
            ));
        }
    }
    if !text.is_empty() {
        text.push('\n');
    }
    for (tally, _) in tallies(&comparison.differences) {
        text.push_str(&format!("{tally}\n\n"));
    }
    for line in without_waits(&comparison.differences) {
        text.push_str(&format!("{line}\n\n"));
    }
    if comparison.differences.is_empty() {
        text.push_str(&figures_markdown(comparison));
    }
    for group in groups(&comparison.differences) {
        let mut lines = vec![cells(HEADS.map(str::to_owned), "judgement".to_owned())];
        lines.extend(group.iter().map(row));
        text.push_str(&format!("### {}\n\n{}\n", heading(group), pipes(&lines)));
    }
    let notes: BTreeSet<&str> = blocks(&comparison.runs).iter().flat_map(Block::notes).collect();
    for note in notes {
        text.push_str(&format!("\nNote: {note}\n"));
    }
    text
}

/// A line for each workload and machine where all tasks had a CPU whenever they wanted one, whichever the scheduler.
fn without_waits(differences: &[Difference]) -> Vec<String> {
    let mut lines = Vec::new();
    for group in differences.chunk_by(|a, b| (&a.workload, &a.machine) == (&b.workload, &b.machine))
    {
        let mut waits = group.iter().filter(|one| one.measure == LONGEST_WAIT).peekable();
        let is_short = |wait: Option<f64>| wait < Some(WAKE_UP);
        if waits.peek().is_some() && waits.all(|one| is_short(one.before) && is_short(one.after)) {
            let (workload, machine) = (&group[0].workload, &group[0].machine);
            lines.push(format!(
                "{workload} on {machine}: no task waited, so nothing was compared but costs; take fewer CPUs, or a load that wants more"
            ));
        }
    }
    lines
}

/// The differences of one scheduler under one workload on one machine.
fn groups(differences: &[Difference]) -> impl Iterator<Item = &[Difference]> {
    differences.chunk_by(|a, b| {
        (&a.workload, &a.machine, &a.scheduler) == (&b.workload, &b.machine, &b.scheduler)
    })
}

fn heading(group: &[Difference]) -> String {
    let one = &group[0];
    let pairs = group.iter().map(|one| one.pairs).max().unwrap_or(0);
    let pairs = match pairs {
        1 => "1 pair of runs".to_owned(),
        pairs if group.iter().any(|one| one.one_run) => {
            format!("{pairs} pairs of {ONE_RUN}")
        }
        pairs => format!("{pairs} pairs of runs with the same seeds"),
    };
    format!(
        "{} on {}: {} (after) against {} (before), {pairs}",
        one.workload, one.machine, one.scheduler, one.baseline
    )
}

fn cells(first: [String; 5], last: String) -> Vec<String> {
    first.into_iter().chain([last]).collect()
}

fn row(one: &Difference) -> Vec<String> {
    let measure = Measure::find(&one.measure);
    let unit = measure.map_or(Unit::Fraction, |measure| measure.unit);
    let title = measure.map_or("Runs that end well", Measure::title);
    let number = |number: Option<f64>| value(number, unit);
    let signed = |number: f64| match difference(number, unit) {
        text if number > 0.0 => format!("+{text}"),
        text => text,
    };
    let interval = match one.pairs {
        _ if one.measure == STATUS => String::new(),
        0 | 1 => String::new(),
        _ => range(&signed(one.low), &signed(one.high)),
    };
    let change = match one.pairs {
        0 => number(None),
        _ => signed(one.difference),
    };
    let first = [title.to_owned(), number(one.before), number(one.after), change, interval];
    cells(first, judgement(one))
}

/// The word, and for an undecided difference the number of runs that would decide it.
fn judgement(one: &Difference) -> String {
    let word = one.judgement.word();
    if one.judgement != Judgement::Undecided {
        return word.to_owned();
    }
    format!("{word}: {}", one.doubt())
}

/// For each scheduler, how often it is better, worse or neither, and where it is worse; and whether it is worse anywhere.
fn tallies(differences: &[Difference]) -> Vec<(String, bool)> {
    let mut told = Vec::new();
    for scheduler in each_once(differences.iter().map(|one| &one.scheduler)) {
        let of_it = || differences.iter().filter(|one| one.scheduler == *scheduler);
        let count = |judgement| of_it().filter(|one| one.judgement == judgement).count();
        let counts = [Judgement::Worse, Judgement::Better, Judgement::Same, Judgement::Undecided]
            .map(|judgement| format!("{} in {}", judgement.word(), count(judgement)));
        let baseline = of_it().next().map_or("", |one| one.baseline.as_str());
        let tally = format!("{scheduler} against {baseline}: {}", counts.join(", "));
        let worse = of_it().filter(|one| one.judgement == Judgement::Worse);
        told.push((tally, count(Judgement::Worse) > 0));
        told.extend(worse.map(|one| (format!("  worse: {}", sentence(one)), true)));
    }
    told
}
