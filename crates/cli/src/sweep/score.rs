//! One number for each scheduler with its settings.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use fairground_lab::Error;
use fairground_report::Run;
use fairground_results::{Measure, Summary};

use super::file::{Goal, Over, Score};
use super::open;
use super::plan::Sweep;
use crate::output;

/// Print one number for each scheduler and setting, the best first
///
/// A [[score]] of the sweep's file defines the number. The numbers of several seeds become one by its over_seeds; those of several workloads,
/// machines and conditions their mean. Where a run failed or is missing, it is inf, or -inf if more is better.
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

/// Runs the subcommand.
///
/// # Errors
///
/// If there is no sweep or no such score, or results cannot be read.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Error> {
    let sweep = open(&arguments.folder)?;
    let score = find(&sweep, arguments.name.as_deref())?;
    let (measure, goal) = score.measure()?;
    let mut scored = scores(&sweep, score, measure, goal)?;
    scored.sort_by(|(_, one), (_, other)| match goal {
        Goal::Min => one.total_cmp(other),
        Goal::Max => other.total_cmp(one),
    });
    let text: String = match scored.as_slice() {
        [(_, number)] => format!("{number}\n"),
        _ => { scored.iter() }.map(|(title, number)| format!("{number}\t{title}\n")).collect(),
    };
    Ok(output::print(&text).err().unwrap_or(ExitCode::SUCCESS))
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

/// The number of a run, if it has one.
fn number(run: &Run, score: &Score, measure: &Measure) -> Option<f64> {
    let metrics = run.metrics.as_ref().filter(|_| run.is_ok())?;
    match &score.task {
        None => measure.run(metrics),
        Some(name) => measure.task(metrics.tasks.iter().find(|task| task.name == *name)?),
    }
}

/// The schedulers with their settings, in words, and their numbers.
fn scores(
    sweep: &Sweep,
    score: &Score,
    measure: &Measure,
    goal: Goal,
) -> Result<Vec<(String, f64)>, Error> {
    let worst = match goal {
        Goal::Min => f64::INFINITY,
        Goal::Max => f64::NEG_INFINITY,
    };
    let conditions = sweep.planned.conditions.len();
    let mut of_rows: BTreeMap<_, Vec<f64>> = BTreeMap::new();
    let mut titles: BTreeMap<(usize, usize), String> = BTreeMap::new();
    let mut tasks: BTreeSet<String> = BTreeSet::new();
    sweep.runs(score.task.is_some(), |cell, run| {
        let row = sweep.row(cell);
        for task in run.metrics.iter().flat_map(|metrics| &metrics.tasks) {
            if !tasks.contains(&task.name) {
                tasks.insert(task.name.clone());
            }
        }
        let number = number(&run, score, measure).unwrap_or(worst);
        of_rows.entry(row).or_default().push(number);
        let variant = (row.part / conditions, row.variant);
        titles.entry(variant).or_insert_with(|| title(&run));
    })?;
    if let Some(task) = &score.task
        && !tasks.is_empty()
        && !tasks.contains(task)
    {
        let tasks: Vec<String> = tasks.into_iter().collect();
        let (name, tasks) = (&score.name, tasks.join(", "));
        let message = format!("score {name}: no run has a task {task}, but {tasks}");
        return Err(Error::Plan(message));
    }
    let mut of_variants: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
    for (row, numbers) in of_rows {
        let is_whole = numbers.len() == sweep.planned.seeds as usize;
        let number = match is_whole {
            true => over(score.over_seeds, numbers).unwrap_or(worst),
            false => worst,
        };
        let variant = (row.part / conditions, row.variant);
        of_variants.entry(variant).or_default().push(number);
    }
    let rows = sweep.planned.workloads.len() * sweep.planned.machines.len() * conditions;
    let mean = |numbers: Vec<f64>| match numbers.len() == rows {
        true => numbers.iter().sum::<f64>() / rows as f64,
        false => worst,
    };
    let of_variants = of_variants.into_iter();
    Ok(of_variants.map(|(variant, numbers)| (titles[&variant].clone(), mean(numbers))).collect())
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
