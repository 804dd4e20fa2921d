//! Advice on a recorded load, as text, as JSON and as a page.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use fairground_results::{
    Advice, Better, Confirmation, Distance, Fate, Judgement, LeftToOthers, Price, Quantity, Rank,
    Recommendation, Unit,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::answer::distance;
use crate::comparison_page;
use crate::format::{range, value};
use crate::json::Document;
use crate::page::{Page, Section, Table};
use crate::table::WIDTH;
use crate::text::{columns, wrap};

/// Other programs with more than this part of the CPU time deserve a remark.
const MANY_OTHERS: f64 = 0.1;

/// The measured quantity, in words.
fn what(aim: &Quantity) -> String {
    match aim.task() {
        Some(task) => format!("{}, of {task}", aim.measure().title()),
        None => aim.measure().title().to_owned(),
    }
}

/// A value in the unit of the measured quantity.
pub fn advised_value(aim: &Quantity, number: f64) -> String {
    value(Some(number), aim.measure().unit)
}

/// A difference with its interval, in words.
fn told_difference(aim: &Quantity, difference: &Distance) -> String {
    let number = |value: f64| distance(value, aim.measure().unit);
    let (low, high) = (number(difference.low), number(difference.high));
    format!("{} [{low}, {high}]", number(difference.mean))
}

fn told_judgement(difference: &Distance) -> String {
    match difference.judgement {
        Judgement::Worse => "WORSE".to_owned(),
        other if difference.too_few_samples => format!("{}: too few samples", other.word()),
        other => other.word().to_owned(),
    }
}

/// The measured quantity and the workload.
fn heading(advice: &Advice) -> String {
    let machine = match advice.machine.as_str() {
        "1" => "1 CPU".to_owned(),
        cpus if cpus.parse::<u32>().is_ok() => format!("{cpus} CPUs"),
        other => other.to_owned(),
    };
    format!("{} on {machine}: {}", advice.recording, what(&advice.aim))
}

/// Remarks on the ranking.
fn remarks(advice: &Advice) -> Vec<String> {
    let aim = &advice.aim;
    let mut remarks = vec![format!(
        "{} replays under each scheduler, varied as another recording would be. Equal places, and \"same\": with the same seeds the 95 % \
         interval of the difference is not beyond {}, by which replays are known to be off (docs/recordings.md).",
        advice.replays,
        aim.measure().replay_error.unwrap_or_default().words(aim.measure().unit)
    )];
    remarks.extend({ advice.recommended.as_ref() }.and_then(|one| tuned(aim, one)));
    remarks.extend(advice.part_of_others.filter(|part| *part > MANY_OTHERS).map(|part| {
        format!(
            "Other programs had {} of the CPU time under the kernel's own. Their threads compete here as they were recorded, and \"others got\" says how \
             much of what they wanted they had; a scheduler that leaves them less than the kernel's own is not recommended.",
            value(Some(part), Unit::Fraction)
        )
    }));
    remarks.extend(advice.notes.iter().cloned());
    remarks
}

/// Which is first, and how certain that is.
fn verdict(advice: &Advice) -> String {
    let leaders = advice.leaders();
    match (leaders.as_slice(), &advice.recommended) {
        ([one], _) if advice.ranking.len() == 1 => {
            format!("{one} alone has a result, so nothing was compared.")
        }
        ([one], _) => format!("{one} is first: all others are worse by more than replays are off."),
        (several, None) => {
            format!("No clear winner: {} cannot be told apart.", several.join(", "))
        }
        (several, Some(one)) => format!(
            "{} cannot be told apart; of those that are better than the kernel's own, {} is worse than it in the fewest other respects.",
            several.join(", "),
            one.scheduler
        ),
    }
}

/// The schedulers that would be recommended if they did not take CPU time from other programs.
fn takers(advice: &Advice) -> Vec<&str> {
    let better = |rank: &&Rank| {
        let judgement = rank.difference.map(|difference| difference.judgement);
        rank.place == 1 && judgement == Some(Judgement::Better) && rank.takes_from_others()
    };
    advice.ranking.iter().filter(better).map(|rank| rank.scheduler.as_str()).collect()
}

fn tuned(aim: &Quantity, recommended: &Recommendation) -> Option<String> {
    let scheduler = &recommended.scheduler;
    match &recommended.setting {
        Some(setting) => Some(format!(
            "Tunables: with {}={} {scheduler} has {}; the best of {} settings tried.",
            setting.tunable,
            setting.value,
            advised_value(aim, recommended.median),
            recommended.tried
        )),
        None if recommended.tried == 0 => None,
        None => Some(format!(
            "Tunables: none of {} settings of {scheduler} that were tried makes it better by more than replays are off.",
            recommended.tried
        )),
    }
}

/// The values over all seeds: the lowest and the highest, unless they look alike.
fn spread(aim: &Quantity, rank: &Rank) -> String {
    let (low, high) = (rank.summary.min, rank.summary.max);
    range(&advised_value(aim, low), &advised_value(aim, high))
}

fn texts<const COUNT: usize>(cells: [&str; COUNT]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

/// The ranking as rows of cells, with heads.
fn ranking(advice: &Advice) -> Vec<Vec<String>> {
    let aim = &advice.aim;
    let mut rows = vec![texts([
        "place",
        "scheduler",
        "median",
        "lowest to highest",
        "beside the kernel's own",
        "",
    ])];
    let has_others = advice.ranking.iter().any(|rank| rank.others.is_some());
    rows[0].extend(has_others.then(|| "others got".to_owned()));
    rows.extend(advice.ranking.iter().map(|rank| {
        let difference = rank.difference.as_ref();
        let mut row = vec![
            rank.place.to_string(),
            rank.scheduler.clone(),
            advised_value(aim, rank.summary.median),
            spread(aim, rank),
            difference.map_or(String::new(), |one| told_difference(aim, one)),
            difference.map_or(String::new(), told_judgement),
        ];
        let served = |others: LeftToOthers| value(Some(others.served), Unit::Fraction);
        row.extend(has_others.then(|| rank.others.map_or_else(String::new, served)));
        row
    }));
    rows
}

/// Gains and costs of the recommended scheduler, as rows of cells, with heads.
fn prices(recommended: &Recommendation) -> Vec<Vec<String>> {
    let mut rows = vec![texts(["", "kernel", &recommended.scheduler, "difference", ""])];
    rows.extend(recommended.prices.iter().map(|price| {
        let aim = &price.aim;
        vec![
            what(aim),
            advised_value(aim, price.kernel),
            advised_value(aim, price.value),
            told_difference(aim, &price.difference),
            told_judgement(&price.difference),
        ]
    }));
    rows
}

/// Whether the recommended scheduler costs anything.
fn priced(recommended: &Recommendation) -> String {
    let worse = |price: &&Price| price.difference.judgement == Judgement::Worse;
    let costs = recommended.prices.iter().filter(worse);
    let costs: Vec<String> = costs.map(|price| what(&price.aim)).collect();
    let scheduler = &recommended.scheduler;
    match costs.as_slice() {
        [] => format!("{scheduler} is not known to cost anything beside the kernel's own:"),
        [..] => format!("{scheduler} has a price beside the kernel's own: {}.", costs.join("; ")),
    }
}

/// The conclusion from the ranking.
fn what_to_do(advice: &Advice) -> String {
    match &advice.command {
        Some(command) => format!("Load it: {command}"),
        None if !takers(advice).is_empty() => format!(
            "Load nothing: {} better only for this load, with CPU time that other programs lose",
            match takers(advice).as_slice() {
                [one] => format!("{one} is"),
                several => format!("{} are", several.join(", ")),
            }
        ),
        None if advice.ranking.iter().all(|rank| rank.difference.is_none()) => {
            "Load nothing: nothing was compared with the kernel's own".to_owned()
        }
        None => "Load nothing: no other is known to be better than the kernel's own".to_owned(),
    }
}

/// Who failed, and so is not ranked, each with its first failure.
fn unranked(advice: &Advice) -> Vec<String> {
    let mut told: BTreeMap<&str, &String> = BTreeMap::new();
    for run in &advice.comparison.runs {
        if let Some(failure) = &run.failure {
            told.entry(&run.labels.scheduler).or_insert(&failure.message);
        }
    }
    let told = told.into_iter();
    told.map(|(scheduler, message)| format!("{scheduler} is not ranked: it {message}")).collect()
}

/// The answer for a terminal.
pub fn advice_text(advice: &Advice) -> String {
    let mut text = format!("{}\n\n", heading(advice));
    for failure in unranked(advice) {
        let _ = writeln!(text, "{}", wrap(&failure, WIDTH, 0));
    }
    text.push_str(&columns(&ranking(advice), 2));
    let _ = writeln!(text, "\n{}", verdict(advice));
    if let Some(recommended) = &advice.recommended {
        let _ = writeln!(text, "\n{}\n", priced(recommended));
        text.push_str(&columns(&prices(recommended), 1));
    }
    text.push('\n');
    for remark in &remarks(advice) {
        text.push_str(&wrap(remark, WIDTH, 0));
    }
    let _ = writeln!(text, "\n{}", what_to_do(advice));
    text
}

/// The confirmation of the advice by runs on a real machine, for a terminal.
pub fn confirmation_text(aim: &Quantity, confirmation: &Confirmation) -> String {
    let mut text = String::new();
    for trial in &confirmation.trials {
        let (here, predicted) = (trial.here, trial.predicted);
        let _ = writeln!(
            text,
            "Here, under {}: {} (predicted {})",
            trial.scheduler,
            advised_value(aim, here),
            advised_value(aim, predicted)
        );
    }
    let [first, second] = [0, 1].map(|place| confirmation.trials[place].scheduler.as_str());
    let found = match &confirmation.better {
        None => format!("{first} and {second} are equal here, as far as replays can tell"),
        Some(better) if better == first => format!("{first} is better than {second} here"),
        Some(_) => format!("{first} is worse than {second} here"),
    };
    let outcome = match confirmation.outcome {
        Fate::NothingPredicted => {
            format!("Nothing was predicted, because replays cannot tell {first} and {second} apart")
        }
        Fate::Held => "The prediction held".to_owned(),
        Fate::Equal | Fate::Reversed => "The prediction did NOT hold".to_owned(),
    };
    let _ = writeln!(text, "{outcome}: {found}.");
    text
}

/// The document that `fairground advise --format json` prints. Values are in the unit of their measure, times in nanoseconds.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Advice on a recorded load")]
pub(crate) struct AdviceDocument<'a> {
    /// Version of this form.
    version: u32,
    /// Version of fairground, with its commit.
    fairground: &'a str,
    /// Name of the recording.
    recording: &'a str,
    /// Description of the machine.
    machine: &'a str,
    /// The measure by which the schedulers are ranked.
    aim: &'a Quantity,
    /// Whether less of it is better.
    less_is_better: bool,
    /// Replays under each scheduler.
    replays: u32,
    /// All schedulers whose runs finished, the best first.
    ranking: &'a [Rank],
    /// Whether a single one of several schedulers is first.
    clear_winner: bool,
    /// The scheduler to load; null if no scheduler is known to be better than the kernel's own.
    recommended: Option<&'a Recommendation>,
    /// The command that loads it.
    command: Option<&'a str>,
    /// Remarks for the reader, one sentence each.
    notes: Vec<String>,
    /// Failures, in words.
    failures: &'a [String],
    /// The confirmation of the first two by runs on a real machine; null without --confirm.
    confirmation: Option<&'a Confirmation>,
}

impl Document for AdviceDocument<'_> {
    const COMMAND: &'static str = "advise";
    const VERSION: u32 = 2;
}

/// The answer as indented JSON, with a trailing newline; `fairground` is its version.
pub fn advice_json(advice: &Advice, fairground: &str) -> String {
    let document = AdviceDocument {
        version: AdviceDocument::VERSION,
        fairground,
        recording: &advice.recording,
        machine: &advice.machine,
        aim: &advice.aim,
        less_is_better: advice.aim.better() == Better::Lower,
        replays: advice.replays,
        ranking: &advice.ranking,
        clear_winner: advice.ranking.len() > 1 && advice.leaders().len() == 1,
        recommended: advice.recommended.as_ref(),
        command: advice.command.as_deref(),
        notes: remarks(advice),
        failures: &advice.failures,
        confirmation: advice.confirmation.as_ref(),
    };
    document.text()
}

/// The answer as a page: the ranking and the price, then the comparison behind it.
pub fn advice_page(advice: &Advice) -> Page {
    let mut page = comparison_page(&advice.comparison, &BTreeMap::new());
    let mut summary = vec![heading(advice) + ".", verdict(advice)];
    summary.extend(unranked(advice));
    summary.extend(advice.recommended.as_ref().map(priced));
    summary.push(what_to_do(advice));
    if let Some(confirmation) = &advice.confirmation {
        let confirmed = confirmation_text(&advice.aim, confirmation);
        summary.extend(confirmed.lines().map(str::to_owned));
    }
    page.answer.summary.splice(0..0, summary);
    page.answer.certainty.push_str(
        " The ranking allows for the known error of replays as well, which these numbers do not.",
    );
    let mut tables = vec![Table::plain(ranking(advice), 2)];
    let recommended = advice.recommended.as_ref();
    tables.extend(recommended.map(|recommended| Table::plain(prices(recommended), 1)));
    let section = Section {
        id: "ranking".to_owned(),
        title: "Ranking".to_owned(),
        conditions: heading(advice),
        tables,
        notes: remarks(advice),
        ..Section::default()
    };
    page.sections.insert(0, section);
    page
}
