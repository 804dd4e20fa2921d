//! Which scheduler is best at what under a workload, how certain that is, and what makes the difference.

use crate::format::{Unit, value};
use crate::groups::{Block, Row};
use crate::page::{Answer, Candidate, Finding};
use fairground_metrics::{RunMetrics, TaskMetrics};
use fairground_results::{Interval, Measure};

/// Something that a user may want from a scheduler.
struct Goal {
    /// The measure that decides.
    measure: &'static str,
    name: &'static str,
    /// Why the last is worse than the first.
    why: fn(first: &Row, last: &Row) -> Option<String>,
}

/// The tick rate of runs of which it is not known.
const USUAL_HZ: u64 = 250;

const GOALS: &[Goal] = &[
    Goal {
        measure: "throughput",
        name: "Throughput, of what is possible",
        why: lost_time,
    },
    Goal {
        measure: "makespan",
        name: "All tasks done after",
        why: lost_time,
    },
    Goal {
        measure: "jain_index",
        name: "Fair shares over the run (Jain's index)",
        why: unfair_shares,
    },
    Goal {
        measure: "window_spread",
        name: "Fair shares in every window (spread in the worst)",
        why: worst_window,
    },
    Goal {
        measure: "wakeup_p99",
        name: "Short waits (wakeup latency, 99\u{a0}%)",
        why: long_waits,
    },
    Goal {
        measure: "missed_periods",
        name: "Deadlines (missed periods)",
        why: missed_periods,
    },
];

/// The answer that a comparison gives.
pub(crate) fn answer(blocks: &[Block]) -> Answer {
    let findings: Vec<Finding> = blocks
        .iter()
        .flat_map(|block| GOALS.iter().filter_map(|goal| finding(block, goal)))
        .collect();
    Answer {
        failures: blocks.iter().flat_map(failures).collect(),
        summary: summary(&findings).into_iter().collect(),
        certainty: certainty(blocks),
        findings,
    }
}

/// What went wrong under a workload; such schedulers have no place in the answer.
fn failures(block: &Block) -> Vec<String> {
    let labels = block.labels();
    let of_row = |row: &Row| {
        let title = row.title();
        let told = row.failures().into_iter().map(move |(failure, count)| {
            let often = match row.runs.len() {
                1 => String::new(),
                all => format!(" ({count} of {all} runs)"),
            };
            format!(
                "{} on {}: {title} {}{often}",
                labels.workload, labels.machine, failure.message
            )
        });
        told.collect::<Vec<_>>()
    };
    block.rows.iter().flat_map(of_row).collect()
}

/// How often each scheduler is the best or as good as the best.
fn summary(findings: &[Finding]) -> Option<String> {
    let decided: Vec<&Finding> = findings
        .iter()
        .filter(|finding| !finding.best.is_empty())
        .collect();
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for candidate in decided.iter().flat_map(|finding| &finding.best) {
        match counts
            .iter_mut()
            .find(|(name, _)| *name == candidate.scheduler)
        {
            Some((_, count)) => *count += 1,
            None => counts.push((&candidate.scheduler, 1)),
        }
    }
    counts.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    let all = decided.len();
    let counts: Vec<String> = counts
        .iter()
        .map(|(name, count)| format!("{name} in {count}"))
        .collect();
    if all == 0 {
        return None;
    }
    let questions = if all == 1 { "question" } else { "questions" };
    Some(format!(
        "Best, or as good as the best, of the {all} {questions} that tell schedulers apart: {}.",
        counts.join(", ")
    ))
}

fn certainty(blocks: &[Block]) -> String {
    let rows = || blocks.iter().flat_map(|block| &block.rows);
    let least = rows().map(|row| row.runs.len()).min().unwrap_or(0);
    let most = rows().map(|row| row.runs.len()).max().unwrap_or(0);
    if least < 2 {
        return "One run of each: differences may be chance. With --repeat 20 the page tells which are.".to_owned();
    }
    let runs = if least == most {
        least.to_string()
    } else {
        format!("{least} to {most}")
    };
    format!(
        "Means of {runs} runs of each, with 95 % intervals (Student's) where the runs differ. Schedulers differ where their intervals do \
         not overlap and they are farther apart than what matters in practice (docs/metrics.md)."
    )
}

fn finding(block: &Block, goal: &Goal) -> Option<Finding> {
    let measure = Measure::find(goal.measure)?;
    let better = measure.better?;
    let numbers: Vec<(String, Interval)> = block
        .rows
        .iter()
        .filter(|row| row.is_ok())
        .filter_map(|row| Some((row.title(), row.interval(|run| measure.run(run))?)))
        .collect();
    if numbers.len() < 2 {
        return None;
    }
    let has_enough = |row: &Row| row.metrics().all(|run| measure.has_enough(run));
    let judged = block.rows.iter().filter(|row| row.is_ok()).all(has_enough);
    let tick = 1e9 / block.labels().hz.unwrap_or(USUAL_HZ).max(1) as f64;
    let margin = |best: f64| match judged {
        true => measure.margin.around(best, tick),
        // From too few samples nothing follows.
        false => f64::INFINITY,
    };
    let ranked = Finding::ranked(&numbers, better, margin, |number| {
        value(Some(number), measure.unit)
    });
    let row = |candidate: &Candidate| {
        let mut rows = block.rows.iter();
        rows.find(|row| row.title() == candidate.scheduler)
    };
    let first = ranked.best.first().and_then(row);
    let last = ranked.rest.last().and_then(row);
    let why = first
        .zip(last)
        .and_then(|(first, last)| (goal.why)(first, last));
    let workload = &block.labels().workload;
    Some(Finding {
        load: workload.clone(),
        section: workload.clone(),
        goal: goal.name.to_owned(),
        why: why.unwrap_or_default(),
        ..ranked
    })
}

fn fraction(number: f64) -> String {
    unbroken(value(Some(number), Unit::Fraction))
}

fn time(number: f64) -> String {
    unbroken(value(Some(number), Unit::Time))
}

/// Keeps a number and its unit on the same line.
fn unbroken(number: String) -> String {
    number.replace(' ', "\u{a0}")
}

fn mean(row: &Row, of: impl Fn(&RunMetrics) -> Option<f64>) -> Option<f64> {
    Some(row.interval(of)?.mean)
}

/// Time that no task could use: idle CPUs while tasks wait, and overhead.
fn lost_time(first: &Row, last: &Row) -> Option<String> {
    let of_time = |part: u64, run: &RunMetrics| {
        let all = run.cpu_time.available_ns;
        (all > 0).then(|| part as f64 / all as f64)
    };
    let idle = |row: &Row| mean(row, |run| of_time(run.cpu_time.idle_while_runnable_ns, run));
    let overhead = |row: &Row| mean(row, |run| of_time(run.cpu_time.overhead_ns, run));
    Some(format!(
        "{} leaves CPUs idle beside waiting tasks for {} of the time and spends {} on overhead; {} {} and {}.",
        last.title(),
        fraction(idle(last)?),
        fraction(overhead(last)?),
        first.title(),
        fraction(idle(first)?),
        fraction(overhead(first)?)
    ))
}

/// The task with the largest `of` on average over the repeats, and this value.
fn extreme(row: &Row, of: impl Fn(&TaskMetrics) -> Option<f64>) -> Option<(String, f64)> {
    let first = row.metrics().next()?;
    first
        .tasks
        .iter()
        .filter_map(|task| Some((task.name.clone(), row.task_interval(&task.name, &of)?.mean)))
        .max_by(|a, b| a.1.total_cmp(&b.1))
}

fn unfair_shares(_first: &Row, last: &Row) -> Option<String> {
    let excess = |task: &TaskMetrics| {
        let share = task.share?;
        Some(share.actual - share.ideal)
    };
    let shares = |name: &str| {
        let part = |of: fn(&TaskMetrics) -> Option<f64>| Some(last.task_interval(name, of)?.mean);
        let actual = part(|task| Some(task.share?.actual))?;
        let ideal = part(|task| Some(task.share?.ideal))?;
        Some(format!(
            "{} of the machine instead of {}",
            fraction(actual),
            fraction(ideal)
        ))
    };
    let (most, _) = extreme(last, excess)?;
    let (least, _) = extreme(last, |task| excess(task).map(|excess| -excess))?;
    Some(format!(
        "Under {} {most} gets {}, {least} {}.",
        last.title(),
        shares(&most)?,
        shares(&least)?
    ))
}

fn worst_window(_first: &Row, last: &Row) -> Option<String> {
    let windows = last
        .metrics()
        .filter_map(|metrics| metrics.fairness?.worst_window);
    let worst = windows.max_by(|a, b| a.spread.total_cmp(&b.spread))?;
    Some(format!(
        "Under {} shares of a CPU are {} points apart in the {} from {} on.",
        last.title(),
        value(Some((worst.spread * 1000.0).round() / 10.0), Unit::Plain),
        time(worst.window_ns as f64),
        time(worst.start_ns as f64)
    ))
}

fn long_waits(first: &Row, last: &Row) -> Option<String> {
    let (task, wait) = extreme(last, |task| task.longest_wait_ns.map(|wait| wait as f64))?;
    let switches = |row: &Row| {
        let mean = mean(row, |run| Some(run.context_switches as f64))?;
        Some(value(Some(mean.round()), Unit::Count))
    };
    Some(format!(
        "Under {} {task} waits up to {}. {} switches {} times, {} {} times.",
        last.title(),
        time(wait),
        last.title(),
        switches(last)?,
        first.title(),
        switches(first)?
    ))
}

fn missed_periods(_first: &Row, last: &Row) -> Option<String> {
    let missed = |task: &TaskMetrics| {
        let periods = task.periods?;
        (periods.completed > 0).then(|| periods.missed as f64 / periods.completed as f64)
    };
    let (task, part) = extreme(last, missed)?;
    Some(format!(
        "Under {} {task} is late in {} of its periods.",
        last.title(),
        fraction(part)
    ))
}
