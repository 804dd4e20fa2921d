//! One number for each scheduler with its settings.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use fairground_lab::Error;
use fairground_report::Run;
use fairground_results::{Better, Summary};

use super::counted;
use super::file::{Over, Score};
use super::plan::{Planned, RowKey, Scheduler, Sweep};
use super::results::tell_left;
use crate::output::{self, Stop};

/// Print one number for each scheduler and setting, the best first
///
/// A [[score]] of the sweep's file defines the number. With each seed it is the mean over workloads, machines and conditions, which is said; those of
/// several seeds become one by the score's over_seeds. Where a run failed or is missing, it is inf, or -inf if more is better. Behind the scheduler
/// come its place, which it shares with those whose spread over the seeds reaches its own, and the lowest and highest number with one seed.
///
/// If there is one scheduler with one setting, nothing but the number is printed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fairground sweep score S fast_p99")]
pub struct Arguments {
    /// The folder of the sweep
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,

    /// The name of the score; not needed if there is one
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

pub fn main(arguments: &Arguments) -> Result<ExitCode, Stop> {
    let sweep = Sweep::open(&arguments.folder)?;
    let score = find(&sweep, arguments.name.as_deref())?;
    let better = score.better()?;
    let mut scored = scores(&sweep, score, better)?;
    scored.sort_by(|one, other| better.order(one.number, other.number));
    let text: String = match scored.as_slice() {
        [one] => format!("{}\n", one.number),
        _ => lines(&scored, better, sweep.planned.seeds),
    };
    if let Some(doubt) = doubt(&sweep, &scored) {
        output::say!("fairground: {doubt}");
    }
    let (workloads, machines) = (sweep.planned.workloads.len(), sweep.planned.machines.len());
    let conditions = sweep.planned.conditions.len();
    if workloads * machines * conditions > 1 {
        output::say!(
            "fairground: each number is a mean over {}, {} and {}, in which large values weigh most; \
             fairground sweep table FOLDER --by scheduler,workload,machine tells them apart",
            counted(workloads, "workload"),
            counted(machines, "machine"),
            counted(conditions, "condition")
        );
    }
    output::finish(&text)
}

/// The score of a scheduler with its settings.
struct Scored {
    title: String,
    number: f64,
    /// The lowest and the highest number with one seed, of its means over workloads, machines and conditions.
    range: (f64, f64),
}

fn lines(scored: &[Scored], better: Better, seeds: u32) -> String {
    let (mut text, mut place, mut leader) = (String::new(), 0, None::<&Scored>);
    for (index, one) in scored.iter().enumerate() {
        let reaches = |leader: &Scored| match better {
            Better::Lower => one.range.0 <= leader.range.1,
            Better::Higher => one.range.1 >= leader.range.0,
        };
        if !leader.is_some_and(reaches) {
            (place, leader) = (index + 1, Some(one));
        }
        let (low, high) = one.range;
        text.push_str(&format!(
            "{}\t{}\tplace {place}, {low} to {high} with {}\n",
            one.number,
            one.title,
            counted(seeds as usize, "seed")
        ));
    }
    text
}

/// Why the seeds do not tell which places are chance; `None` if they do, or there are no places.
fn doubt(sweep: &Sweep, scored: &[Scored]) -> Option<String> {
    let Planned { seeds, options, .. } = &sweep.planned;
    if scored.len() < 2 {
        return None;
    }
    if *seeds == 1 {
        let message = "places from one seed may be chance; seeds = 10 in the sweep's file tells which are not";
        return Some(message.to_owned());
    }
    let is_one = |one: &Scored| one.number.is_finite() && one.range.0 == one.range.1;
    let is_quiet = options.iter().any(|(name, value)| name == "noise" && value == "none");
    let remedy = match is_quiet {
        true => "; without noise = \"none\" in the sweep's file they differ as real runs do",
        false => "",
    };
    scored.iter().all(is_one).then(|| {
        format!("the {seeds} seeds are one: none of them changes any number, so nothing is known of chance{remedy}")
    })
}

fn find<'a>(sweep: &'a Sweep, name: Option<&str>) -> Result<&'a Score, Error> {
    let scores = &sweep.planned.scores;
    let names: Vec<&str> = scores.iter().map(|score| score.name.as_str()).collect();
    let found = match name {
        None if scores.len() == 1 => scores.first(),
        None => None,
        Some(name) => scores.iter().find(|score| score.name == name),
    };
    found.ok_or_else(|| {
        Error::Plan(match (name, names.as_slice()) {
            (_, []) => "the sweep's file has no [[score]]; add one and plan again".to_owned(),
            (None, names) => format!("which score? name one of {}", names.join(", ")),
            (Some(name), names) => format!("there is no score {name}, but {}", names.join(", ")),
        })
    })
}

/// The schedulers with their settings, in words, and their numbers.
fn scores(sweep: &Sweep, score: &Score, better: Better) -> Result<Vec<Scored>, Error> {
    let worst = match better {
        Better::Lower => f64::INFINITY,
        Better::Higher => f64::NEG_INFINITY,
    };
    let conditions = sweep.planned.conditions.len();
    let variant = |row: &RowKey| (row.part / conditions, row.variant);
    // Those without any result have a number, too.
    let variants = sweep.planned.schedulers.iter().enumerate().flat_map(|(number, one)| {
        (0..one.variants).map(move |variant| ((number, variant), planned(one, variant)))
    });
    let mut titles: BTreeMap<(usize, usize), String> = variants.collect();
    let mut numbers: BTreeMap<(usize, usize), BTreeMap<Option<u64>, Vec<f64>>> = BTreeMap::new();
    let mut absent = Vec::new();
    let (mut is_measured, mut lacking, mut few, mut found) = (false, 0, 0, 0);
    let least = score.measure.measure().least_samples;
    // A share of a run falls when the same work takes longer.
    let per_work = score.measure.measure().instead().filter(|_| score.measure.task().is_none());
    let mut with_amount = 0;
    sweep.runs(score.measure.task().is_some(), |cell, run| {
        let row = sweep.row(cell);
        let measured = run.measured().filter(|_| run.is_ok());
        let number = measured.and_then(|measured| score.measure.value(measured, better));
        is_measured |= number.is_some();
        lacking += usize::from(measured.is_some() && number.is_none());
        let samples = measured.filter(|_| number.is_some());
        let samples = samples.and_then(|measured| score.measure.samples(measured));
        few += usize::from(samples.is_some_and(|samples| samples < least));
        let of_work = per_work.and_then(|measure| measured?.number(measure));
        with_amount += usize::from(of_work.is_some());
        if let (false, Some(measured)) = (is_measured, measured) {
            absent = score.measure.absent_from(&[measured]).into_iter().collect();
        }
        let of_seeds = numbers.entry(variant(&row)).or_insert_with(|| {
            titles.insert(variant(&row), title(&run));
            BTreeMap::new()
        });
        of_seeds.entry(run.labels.seed).or_default().push(number.unwrap_or(worst));
        found += 1;
    })?;
    tell_left(sweep, found);
    if let (false, Some(absent)) = (is_measured, absent.first()) {
        return Err(Error::Plan(format!("score {}: {absent}", score.name)));
    }
    if lacking > 0 {
        output::say!(
            "fairground: {lacking} runs came to their end without a {}, and count as {worst}",
            score.measure
        );
    }
    if few > 0 {
        output::say!(
            "fairground: {few} of {found} runs have fewer samples than the {least} that {} needs; longer runs have more",
            score.measure
        );
    }
    if let Some(per_work) = per_work.filter(|_| with_amount > 0) {
        output::say!(
            "fairground: {with_amount} of {found} runs have an amount of work, of which {} is a share of their length; {} is per work",
            score.measure,
            per_work.id
        );
    }
    let rows = sweep.planned.workloads.len() * sweep.planned.machines.len() * conditions;
    let mean = |numbers: &Vec<f64>| match numbers.len() == rows {
        true => numbers.iter().sum::<f64>() / rows as f64,
        false => worst,
    };
    let scored = titles.into_iter().map(|(variant, title)| {
        let of_seeds = numbers.remove(&variant).unwrap_or_default();
        let mut seeds: Vec<f64> = of_seeds.values().map(mean).collect();
        seeds.resize(sweep.planned.seeds as usize, worst);
        let range = Summary::of(seeds.clone());
        Scored {
            title,
            number: over(score.over_seeds, seeds).unwrap_or(worst),
            range: range.map_or((worst, worst), |seeds| (seeds.min, seeds.max)),
        }
    });
    Ok(scored.collect())
}

/// A scheduler of the plan with the settings of one of its variants. Of several settings the last changes first.
fn planned(scheduler: &Scheduler, variant: usize) -> String {
    let mut left = variant;
    let values = scheduler.set.iter().rev().map(|(key, values)| {
        let value = &values[left % values.len()];
        left /= values.len();
        format!(" {key}={value}")
    });
    let mut values: Vec<String> = values.collect();
    values.reverse();
    format!("{}{}", scheduler.name, values.concat())
}

/// The scheduler of a run, with its settings.
fn title(run: &Run) -> String {
    let mut title = run.labels.scheduler.clone();
    for (name, value) in &run.labels.tunables {
        title.push_str(&format!(" {name}={value}"));
    }
    title
}

fn over(over: Over, numbers: Vec<f64>) -> Option<f64> {
    match over {
        Over::Median => Summary::of(numbers).map(|summary| summary.median),
        Over::Mean => Some(numbers.iter().sum::<f64>() / numbers.len() as f64),
        Over::Min => numbers.into_iter().reduce(f64::min),
        Over::Max => numbers.into_iter().reduce(f64::max),
    }
}
