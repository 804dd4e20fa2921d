//! Reproductions of the documents' experiments as text, JSON and CSV.

use crate::csv_format::csv_of;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};
use fairground_results::{
    Claim, Figure, Interval, Level, Reproduction, Standing, Subject, Verdict, Where,
};
use serde::Serialize;

/// Width of a claim in a table of verdicts.
const CLAIM_WIDTH: u16 = 56;
/// Width of the numbers next to it.
const NUMBERS_WIDTH: u16 = 40;

/// The reproductions for the terminal: figures next to the document's numbers, verdicts, fitted values, notes; with `brief` only the
/// verdicts. The totals come last.
pub fn reproductions_table(reproductions: &[&Reproduction], brief: bool) -> String {
    let mut text = String::new();
    for reproduction in reproductions {
        text.push_str(&heading(reproduction));
        if !brief {
            for figure in &reproduction.figures {
                text.push_str(&figure_table(reproduction, figure));
            }
        }
        text.push_str(&verdict_table(&reproduction.verdicts));
        if !brief {
            text.push_str(&remarks(reproduction));
        }
        text.push('\n');
    }
    text + &summary(reproductions)
}

fn heading(reproduction: &Reproduction) -> String {
    let repeats = match reproduction.world {
        Where::Simulator => format!("{} seeds", reproduction.repeats),
        Where::Kernel => format!("{} runs on a kernel", reproduction.repeats),
    };
    format!(
        "{}: {}\n{}, {}\n{}; {repeats}\n\n",
        reproduction.id,
        reproduction.title,
        reproduction.document,
        reproduction.section,
        reproduction.machine
    )
}

fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table
}

/// A measure: a row for each point and, for each column, the document's value and the one measured here.
fn figure_table(reproduction: &Reproduction, figure: &Figure) -> String {
    let prints: Vec<bool> = (0..reproduction.columns.len())
        .map(|column| figure.document.iter().any(|row| row[column].is_some()))
        .collect();
    let mut table = plain_table();
    let mut heads = vec![reproduction.axis.clone()];
    for (column, name) in reproduction.columns.iter().enumerate() {
        if prints[column] {
            heads.push(format!("{name} (document)"));
        }
        heads.push(name.clone());
    }
    table.set_header(heads);
    for (point, name) in reproduction.points.iter().enumerate() {
        if !figure.is_of(point) {
            continue;
        }
        let mut row = vec![name.clone()];
        for (column, prints) in prints.iter().enumerate() {
            if *prints {
                let number = figure.document[point][column];
                row.push(
                    number.map_or_else(
                        || "-".into(),
                        |number| format!("{number:.*}", figure.decimals),
                    ),
                );
            }
            row.push(interval(
                figure.here[point][column].as_ref(),
                figure.decimals,
                reproduction.repeats,
            ));
        }
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let unit = match figure.unit.as_str() {
        "" => String::new(),
        unit => format!(" ({unit})"),
    };
    format!("{}{unit}\n{}\n\n", figure.title, trimmed(&table))
}

/// An interval as `mean ±half`, few runs as `mean (least to most)`, with the number of runs where it is not `repeats`.
fn interval(interval: Option<&Interval>, decimals: usize, repeats: u32) -> String {
    let Some(one) = interval else { return "-".into() };
    let mut text = format!("{:.decimals$}", one.mean);
    let (low, high, is_interval) = one.shown();
    if is_interval {
        text.push_str(&format!(" ±{:.decimals$}", high - one.mean));
    } else if low < high {
        text.push_str(&format!(" ({low:.decimals$} to {high:.decimals$})"));
    }
    match fewer_runs(one, repeats) {
        Some(runs) => format!("{text} ({runs})"),
        None => text,
    }
}

/// The number of runs of a number in words, if it has fewer than the others.
pub(crate) fn fewer_runs(interval: &Interval, repeats: u32) -> Option<String> {
    let runs = interval.samples as u32;
    (runs < repeats).then(|| runs_of(runs))
}

fn runs_of(number: u32) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} run{plural}")
}

/// The word for a verdict.
pub(crate) fn word(holds: &Claim) -> String {
    match holds {
        Claim::Holds => "holds".to_owned(),
        Claim::NotShown(runs) => not_shown(*runs),
        Claim::Fails => "does not hold".to_owned(),
        Claim::NotMeasured(_) => "not measured".to_owned(),
    }
}

fn not_shown(runs: u32) -> String {
    format!("not shown with {}", runs_of(runs))
}

/// The word for an experiment.
pub(crate) fn standing_word(standing: Standing) -> String {
    match standing {
        Standing::Holds => "yes".to_owned(),
        Standing::Partly => "partly".to_owned(),
        Standing::NotShown(runs) => not_shown(runs),
        Standing::Fails => "no".to_owned(),
        Standing::NotMeasured => "not measured".to_owned(),
    }
}

/// The word for an experiment, with the cause of the first stated line that is open, those of the headline before others.
pub(crate) fn standing_with_cause(reproduction: &Reproduction) -> String {
    let headline = reproduction.headline.iter().flat_map(|one| &one.lines);
    let named = headline.filter_map(|id| reproduction.verdicts.iter().find(|one| one.id == *id));
    let mut all = named.chain(&reproduction.verdicts).filter(|one| one.level == Level::S);
    let word = standing_word(reproduction.standing());
    match all.find_map(|one| one.cause.as_ref().filter(|_| one.is_open())) {
        Some(cause) => format!("{word}: {cause}"),
        None => word,
    }
}

fn verdict_table(verdicts: &[Verdict]) -> String {
    let mut table = plain_table();
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(140);
    table.set_header(["", "", "claim", "here", ""]);
    for verdict in verdicts {
        let mut claim = verdict.claim.clone();
        if let Some(reason) = &verdict.reason {
            claim = format!("{claim}\n  because: {reason}");
        }
        let (numbers, word) = outcome(verdict);
        table.add_row([verdict.id.clone(), format!("{:?}", verdict.level), claim, numbers, word]);
    }
    for (number, width) in [(2, CLAIM_WIDTH), (3, NUMBERS_WIDTH)] {
        if let Some(column) = table.column_mut(number) {
            column.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(width)));
        }
    }
    trimmed(&table) + "\n"
}

/// The numbers that decide, and the word for the verdict: those of the simulator and of a kernel, the kernel's first if the two contradict one
/// another.
fn outcome(verdict: &Verdict) -> (String, String) {
    let numbers = match &verdict.holds {
        Claim::NotMeasured(what) => what.clone(),
        _ => verdict.shows.clone(),
    };
    let here = [numbers, word(&verdict.holds)];
    let Some(kernel) = &verdict.on_kernel else { return here.into() };
    let there =
        [kernel.shows.clone(), word(&kernel.holds)].map(|one| format!("on a kernel: {one}"));
    let lines = match verdict.is_contradicted() {
        true => (there, here.map(|one| format!("in the simulator: {one}"))),
        false => (here, there),
    };
    let ([first, first_word], [second, second_word]) = lines;
    (format!("{first}\n{second}"), format!("{first_word}\n{second_word}"))
}

/// A table without trailing blanks.
fn trimmed(table: &Table) -> String {
    table.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

fn remarks(reproduction: &Reproduction) -> String {
    let mut text = String::new();
    for fit in &reproduction.fits {
        text.push_str(&format!("\nfitted: {} = {} {} ({})", fit.name, fit.value, fit.unit, fit.to));
    }
    for note in &reproduction.notes {
        text.push_str(&format!("\nnote: {note}"));
    }
    if let Some(kernel) = &reproduction.kernel {
        text.push_str(&format!("\non a kernel: {kernel}"));
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

/// How many lines of each level hold.
fn summary(reproductions: &[&Reproduction]) -> String {
    let part = |name: &str, count: Count| {
        let not_shown = match count.not_shown {
            0 => String::new(),
            number => format!(" ({number} not shown)"),
        };
        format!("{} of {} {name}{not_shown}", count.hold, count.all)
    };
    let parts: Vec<String> = { counts(reproductions) }
        .map(|(kind, level, count)| match (level, kind) {
            (Level::S, Subject::Rules) => part("stated rules", count),
            (Level::S, Subject::Results) => part("stated results", count),
            _ => part(level.word(), count),
        })
        .collect();
    format!("lines that hold: {}\n", parts.join(", "))
}

/// Lines of a level.
struct Count {
    hold: usize,
    not_shown: usize,
    fail: usize,
    all: usize,
}

impl Count {
    /// Counts the lines of a level, of experiments of one kind if there is one.
    fn of(reproductions: &[&Reproduction], kind: Option<Subject>, level: Level) -> Self {
        let verdicts = || {
            let those = reproductions.iter().filter(|one| kind.is_none_or(|kind| one.kind == kind));
            let all = those.flat_map(|one| &one.verdicts);
            all.filter(|verdict| verdict.level == level)
        };
        let count = |is: fn(&Claim) -> bool| verdicts().filter(|one| is(&one.holds)).count();
        Self {
            hold: count(|holds| *holds == Claim::Holds),
            not_shown: count(|holds| matches!(holds, Claim::NotShown(_))),
            fail: count(|holds| *holds == Claim::Fails),
            all: verdicts().count(),
        }
    }
}

/// The levels that lines have, the stated ones by what they are about.
fn counts(reproductions: &[&Reproduction]) -> impl Iterator<Item = (Subject, Level, Count)> {
    let stated = Subject::ALL.map(|kind| (kind, Level::S)).into_iter();
    let others = Level::ALL.into_iter().filter(|level| *level != Level::S);
    let all = stated.chain(others.map(|level| (Subject::Results, level)));
    let counted = all.map(|(kind, level)| {
        let kinds = (level == Level::S).then_some(kind);
        (kind, level, Count::of(reproductions, kinds, level))
    });
    counted.filter(|(_, _, count)| count.all > 0)
}

/// The reproductions that have a headline as Markdown: how many lines hold, and for each document a table with a row per experiment. Those
/// whose ids are in `linked` link to their folder, for a page in `experiments`.
pub fn reproductions_markdown(reproductions: &[&Reproduction], linked: &[String]) -> String {
    let mut text = format!("{} {}\n", runs(reproductions), counted(reproductions));
    for (document, those) in by_document(reproductions) {
        text.push_str(&format!(
            "\n{document}:\n\n| experiment | the document says | document | here | holds |\n\
             | --- | --- | --- | --- | --- |\n"
        ));
        for one in those {
            let Some(headline) = &one.headline else { continue };
            let title = if linked.contains(&one.id) {
                format!("[`{0}`]({0}): {1}", one.id, one.title)
            } else {
                one.title.clone()
            };
            let holds = standing_with_cause(one);
            let cells: [&str; 5] =
                [&title, &headline.says, &headline.document, &headline.here, &holds];
            text.push_str(&format!("| {} |\n", cells.map(escaped).join(" | ")));
        }
    }
    text.push_str(&open_lines(reproductions));
    text.push_str(&recount(reproductions));
    if let Some(kernels) = kernels(reproductions) {
        text.push_str(&format!("\n{kernels}\n"));
    }
    text
}

/// A row for each stated line that does not hold or is not shown.
fn open_lines(reproductions: &[&Reproduction]) -> String {
    let all = reproductions.iter().flat_map(|one| {
        let stated = one.verdicts.iter().filter(|line| line.level == Level::S && line.is_open());
        stated.map(move |line| (one, line))
    });
    let rows = all.map(|(one, line)| {
        let cause = line.cause.as_deref().unwrap_or("unknown");
        let here = word(&line.holds);
        let cells: [&str; 5] = [&one.id, &line.id, &line.claim, &here, cause];
        format!("| {} |\n", cells.map(escaped).join(" | "))
    });
    let rows: String = rows.collect();
    match rows.as_str() {
        "" => rows,
        _ => format!(
            "\nStated, but not so here:\n\n| experiment | line | claim | here | cause |\n| --- | --- | --- | --- | --- |\n{rows}"
        ),
    }
}

/// All lines by level, kind and verdict.
fn recount(reproductions: &[&Reproduction]) -> String {
    let mut text = "\nAll lines:\n\n| level | of experiments on | lines | hold | not shown | do not hold | not measured |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n"
        .to_owned();
    for level in Level::ALL {
        for kind in Subject::ALL {
            let Count { hold, not_shown, fail, all } = Count::of(reproductions, Some(kind), level);
            if all > 0 {
                let about = if kind == Subject::Rules { "rules" } else { "results" };
                let unmeasured = all - hold - not_shown - fail;
                text.push_str(&format!(
                    "| {level:?}, {} | {about} | {all} | {hold} | {not_shown} | {fail} | {unmeasured} |\n",
                    level.word()
                ));
            }
        }
    }
    text
}

/// How many lines were also judged on a kernel, and in which of them it contradicts the simulator; `None` if there are none.
pub(crate) fn kernels(reproductions: &[&Reproduction]) -> Option<String> {
    let all =
        reproductions.iter().flat_map(|one| one.verdicts.iter().map(move |verdict| (one, verdict)));
    let judged: Vec<_> = { all }.filter(|(_, verdict)| verdict.on_kernel.is_some()).collect();
    let contradicted = judged.iter().filter(|(_, verdict)| verdict.is_contradicted());
    let contradicted: Vec<String> =
        contradicted.map(|(one, verdict)| format!("{} of {}", verdict.id, one.id)).collect();
    if judged.is_empty() {
        return None;
    }
    Some(format!(
        "{} of the lines were also judged by runs on a real kernel, {}.",
        judged.len(),
        match contradicted.as_slice() {
            [] => "which contradict the simulator in none".to_owned(),
            some => format!("which contradict the simulator in {}", some.join(", ")),
        }
    ))
}

fn escaped(cell: &str) -> String {
    cell.replace('|', "\\|").replace('\n', " ")
}

/// The reproductions by document, in the order in which the documents first appear.
fn by_document<'a>(reproductions: &[&'a Reproduction]) -> Vec<(&'a str, Vec<&'a Reproduction>)> {
    let mut groups: Vec<(&str, Vec<&Reproduction>)> = Vec::new();
    for one in reproductions {
        match groups.iter_mut().find(|(document, _)| *document == one.document) {
            Some((_, those)) => those.push(one),
            None => groups.push((&one.document, vec![one])),
        }
    }
    groups
}

/// Whether some numbers are of fewer runs than the others of their experiment.
pub(crate) fn has_fewer_runs(reproductions: &[&Reproduction]) -> bool {
    reproductions.iter().any(|one| {
        let figures = one.figures.iter().flat_map(|figure| &figure.here);
        let mut numbers = figures.flatten().flatten();
        numbers.any(|number| fewer_runs(number, one.repeats).is_some())
    })
}

/// How many runs there were.
fn runs(reproductions: &[&Reproduction]) -> String {
    let repeats = || reproductions.iter().map(|one| one.repeats);
    let (least, most) = (repeats().min().unwrap_or(0), repeats().max().unwrap_or(0));
    let runs = if least == most { format!("{least}") } else { format!("{least} to {most}") };
    let fewer = if has_fewer_runs(reproductions) { ", fewer of some" } else { "" };
    format!("From {runs} runs of each scheduler at each point{fewer}:")
}

/// How many lines of each level hold, in sentences.
pub(crate) fn counted(reproductions: &[&Reproduction]) -> String {
    let stated = |kind| Count::of(reproductions, Some(kind), Level::S);
    let count = |level| Count::of(reproductions, None, level);
    let (rules, results) = (stated(Subject::Rules), stated(Subject::Results));
    let (derived, expected) = (count(Level::D), count(Level::X));
    let with_open = |count: &Count| match count.not_shown {
        0 => format!("{} hold", count.hold),
        open => format!("{} hold and {open} are not shown", count.hold),
    };
    let mut text = format!(
        "of {} rules and mechanisms that the documents state, {}; of {} results that they report from machines, {}; \
         of {} lines that follow from their numbers, {}; of {} that the algorithms let expect, {}.",
        rules.all,
        with_open(&rules),
        results.all,
        with_open(&results),
        derived.all,
        derived.hold,
        expected.all,
        expected.hold
    );
    let (fitted, forced) = (count(Level::F), count(Level::C));
    if fitted.all + forced.all > 0 {
        text.push_str(&format!(
            " Not counted are {} that compare fitted values and {} that hold by construction.",
            fitted.all, forced.all
        ));
    }
    text
}

/// A measured figure of a column at a point, beside the document's.
#[derive(Serialize)]
struct Number<'a> {
    experiment: &'a str,
    measure: &'a str,
    unit: &'a str,
    point: &'a str,
    column: &'a str,
    document: Option<f64>,
    mean: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    samples: usize,
}

/// The figures as CSV: a row for each measure, point and column.
pub fn reproductions_csv(reproductions: &[&Reproduction]) -> String {
    let mut numbers = Vec::new();
    for one in reproductions {
        for figure in &one.figures {
            for (point, name) in one.points.iter().enumerate() {
                for (column, scheduler) in one.columns.iter().enumerate() {
                    let here = figure.here[point][column].as_ref();
                    numbers.push(Number {
                        experiment: &one.id,
                        measure: &figure.measure,
                        unit: &figure.unit,
                        point: name,
                        column: scheduler,
                        document: figure.document[point][column],
                        mean: here.map(|here| here.mean),
                        low: here.map(|here| here.low),
                        high: here.map(|here| here.high),
                        min: here.map(|here| here.min),
                        max: here.map(|here| here.max),
                        samples: here.map_or(0, |here| here.samples),
                    });
                }
            }
        }
    }
    csv_of(numbers)
}

/// A plain table of strings.
pub fn list_table<const N: usize>(heads: &[&str; N], rows: &[[String; N]]) -> String {
    let mut table = plain_table();
    table.set_header(heads.to_vec());
    for row in rows {
        table.add_row(row.to_vec());
    }
    trimmed(&table) + "\n"
}
