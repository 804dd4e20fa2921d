//! All workloads and machines of a comparison in a table that fits a screen.

use fairground_results::format::ABSENT;
use fairground_results::{CellName, Comparison, Measure, Overall, Overview, Tally};

use crate::groups::{blocks, told_one_run};
use crate::table::{heading, layout, pipes, red};

/// The remark on single runs.
const SINGLE_RUNS: &str = "One run of each: differences may be chance.";

/// All workloads and machines in one table: in how many a scheduler is better or worse than the baseline or, without one, than the best of each,
/// after the failures; of a single one only the part that does not follow from its table. Failures are red if there are `colours`.
pub fn overall_table(comparison: &Comparison, colours: bool) -> String {
    let overall = Overall::of(comparison);
    if overall.cells < 2 {
        let remedy = match comparison.differences.is_empty() {
            true => "--baseline ID repeats them and tells which are not.",
            false => "--repeat 10 tells which are not.",
        };
        let remark = overall.single_runs.then(|| format!("\n{SINGLE_RUNS} {remedy}\n"));
        return remark.unwrap_or_default();
    }
    let mut text = format!("\n{}\n\n", title(&overall));
    let failed: Vec<String> =
        { overall.schedulers.iter() }.filter_map(|one| failures(one, overall.cells)).collect();
    for line in &failed {
        text.push_str(&format!("{}\n", red(line, colours)));
    }
    let ranked = ranked(&overall);
    if ranked.is_empty() {
        return text;
    }
    if !failed.is_empty() {
        text.push('\n');
    }
    let heads = [0, 1].map(|line| {
        let names = measures(&overall);
        let first = ["", "scheduler"][line].to_owned();
        let heads = names.map(|measure| heading(measure)[line].to_owned());
        [first].into_iter().chain(heads).collect()
    });
    let lines: Vec<Vec<String>> = heads.into_iter().chain(ranked).collect();
    text.push_str(&layout(&lines, 1));
    text.push_str(&format!("\n{}\n", legend(&overall, comparison).join("\n")));
    text
}

/// The summary in Markdown; empty if a single table says it all.
pub(crate) fn markdown(comparison: &Comparison) -> String {
    let overall = Overall::of(comparison);
    if overall.cells < 2 {
        return String::new();
    }
    let mut text = format!("### {}\n\n", title(&overall));
    for one in &overall.schedulers {
        if let Some(line) = failures(one, overall.cells) {
            text.push_str(&format!("- **{line}**\n"));
        }
    }
    let ranked = ranked(&overall);
    if ranked.is_empty() {
        return text;
    }
    if !text.ends_with("\n\n") {
        text.push('\n');
    }
    let names = measures(&overall);
    let heads = names.map(|measure| measure.title().to_owned());
    let heads = ["scheduler".to_owned()].into_iter().chain(heads).collect();
    let lines: Vec<Vec<String>> = [heads].into_iter().chain(ranked).collect();
    text.push_str(&format!("{}\n{}\n", pipes(&lines), legend(&overall, comparison).join(" ")));
    text
}

fn measures(overall: &Overall) -> impl Iterator<Item = &'static Measure> {
    overall.measures.iter().filter_map(|one| Measure::find(one.measure))
}

fn title(overall: &Overall) -> String {
    let cells = format!("All {} cells (workload and machine)", overall.cells);
    match &overall.baseline {
        Some(baseline) => format!("{cells}: against {baseline}"),
        None => format!("{cells}: against the best of each"),
    }
}

/// How often and how a scheduler failed; `None` if it never did.
fn failures(one: &Overview, cells: usize) -> Option<String> {
    let CellName { workload, machine } = one.first_failed.as_ref()?;
    let ways = one.failed.iter();
    let ways: Vec<String> = ways.map(|(status, count)| format!("{status} in {count}")).collect();
    let name = &one.scheduler;
    Some(format!("{name}: {} of {cells} cells, first {workload} on {machine}", ways.join(", ")))
}

/// The cells without a difference, then a row for each scheduler that was compared; empty if none was.
fn ranked(overall: &Overall) -> Vec<Vec<String>> {
    let compared = overall.schedulers.iter().filter(|one| {
        let mut tallies = one.tallies.iter();
        tallies.any(|tally| *tally != Tally::default())
    });
    let mut rows: Vec<Vec<String>> = compared
        .map(|one| {
            let tallies = one.tallies.iter().map(tally);
            [one.scheduler.clone()].into_iter().chain(tallies).collect()
        })
        .collect();
    if !rows.is_empty() {
        let alike = overall.measures.iter().map(|one| format!("{}/{}", one.same, one.cells));
        rows.insert(0, ["all same in".to_owned()].into_iter().chain(alike).collect());
    }
    rows
}

/// The differences, or a word if there are none.
fn tally(tally: &Tally) -> String {
    let parts: Vec<String> = [('+', tally.better), ('-', tally.worse), ('?', tally.undecided)]
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(sign, count)| format!("{sign}{count}"))
        .collect();
    match (parts.is_empty(), tally.same) {
        (false, _) => parts.join(" "),
        (true, 0) => ABSENT.to_owned(),
        (true, _) => "same".to_owned(),
    }
}

/// The meanings of the signs.
fn legend(overall: &Overall, comparison: &Comparison) -> Vec<String> {
    let (better, worse) = match overall.baseline {
        Some(_) => ("better", "worse"),
        None => ("better than all others", "worse than the best"),
    };
    let mut lines = vec![format!(
        "Number of cells: + {better}, - {worse}, ? undecided; in all others the same: no difference that matters."
    )];
    if overall.single_runs {
        lines.push(format!("{SINGLE_RUNS} With --repeat 10 the summary tells which are not."));
    }
    let one = blocks(&comparison.runs).iter().filter(|block| block.is_one_run()).count();
    lines.extend(told_one_run(one, overall.cells));
    lines
}
