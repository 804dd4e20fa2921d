//! Which scheduler is best under a workload and in which measures, how certain that is, and where the difference comes from.
//!
//! Schedulers are compared run by run with the same seeds ([`Decision`]): a difference counts if it is certain and matters in practice.

use crate::explanation::why;
use crate::format::{self, Unit, range, value};
use crate::groups::{Block, Row, told_one_run};
use crate::page::{Answer, Candidate, Finding, Matrix, MatrixRow};
use crate::text::each_once;
use fairground_metrics::{OverheadTime, RunMetrics, TaskMetrics};
use fairground_results::{AllEvidence, Decision, Difference, Judgement, Measure, Reason, Run};

/// The reason in the numbers why `last` is worse than `first` in a measure.
fn in_numbers(measure: &str, first: &Row, last: &Row) -> Option<String> {
    match measure {
        "throughput" | "makespan" => lost_time(first, last),
        "jain_index" => unfair_shares(last),
        "window_spread" => worst_window(last),
        "longest_wait" => longest_wait(last),
        "missed_periods" => missed_periods(last),
        _ => None,
    }
}

/// The answer that a comparison gives. `anchors` are the ids of the blocks' sections.
pub(crate) fn answer(blocks: &[Block], anchors: &[String], evidence: &AllEvidence) -> Answer {
    let of_block = |block: &Block| {
        let found = evidence.get(&block.key());
        findings(block, found.map_or(&[], |found| &found.reasons))
    };
    let found: Vec<Vec<Option<Finding>>> = blocks.iter().map(of_block).collect();
    let questions: Vec<&Measure> = Measure::in_summaries().collect();
    let asked = |place: usize| found.iter().any(|cells| cells[place].is_some());
    let asked: Vec<usize> = (0..questions.len()).filter(|&place| asked(place)).collect();
    let rows = blocks.iter().zip(anchors).zip(&found);
    let rows = rows.map(|((block, anchor), cells)| MatrixRow {
        load: block.labels().workload.clone(),
        machine: block.labels().machine.clone(),
        section: anchor.clone(),
        failed: { block.rows.iter() }
            .filter(|row| !row.is_ok())
            .map(|row| (row.title(), row.status()))
            .collect(),
        cells: asked.iter().map(|&place| cells[place].clone()).collect(),
    });
    let matrix = Matrix {
        questions: asked.iter().map(|&place| questions[place].title().to_owned()).collect(),
        rows: rows.collect(),
    };
    Answer {
        failures: blocks.iter().flat_map(failures).collect(),
        failed: failed(blocks),
        summary: summary(blocks, &matrix).into_iter().collect(),
        certainty: certainty(blocks),
        matrix,
    }
}

/// Which schedulers have no place in the answer, in a sentence for each.
fn failed(blocks: &[Block]) -> Vec<String> {
    let all = blocks.len();
    let tell = |name: String| {
        let here = |row: &&Row| row.title() == name;
        let rows = blocks.iter().flat_map(|block| block.rows.iter().filter(here));
        let bad: Vec<String> = rows.filter(|row| !row.is_ok()).map(Row::status).collect();
        let mut words = bad.clone();
        words.sort();
        words.dedup();
        let words = words.join(", ");
        (!bad.is_empty()).then(|| match all {
            1 => format!("{name} has no place in the answer: {words}."),
            _ => format!("{name} has no place in {} of the {all} rows: {words}.", bad.len()),
        })
    };
    schedulers(blocks).into_iter().filter_map(tell).collect()
}

/// All schedulers, in order of first appearance.
pub(crate) fn schedulers(blocks: &[Block]) -> Vec<String> {
    each_once(blocks.iter().flat_map(|block| block.rows.iter().map(Row::title)))
}

/// Failures under a workload; such schedulers have no place in the answer.
fn failures(block: &Block) -> Vec<String> {
    let labels = block.labels();
    let of_row = |row: &Row| {
        let title = row.title();
        let told = row.failures().into_iter().map(move |(_, failure, often)| {
            format!("{} on {}: {title} {}{often}", labels.workload, labels.machine, failure.message)
        });
        told.collect::<Vec<_>>()
    };
    block.rows.iter().flat_map(of_row).collect()
}

/// The answer in a few sentences; `None` if there is nothing to compare.
fn summary(blocks: &[Block], matrix: &Matrix) -> Option<String> {
    let all = matrix.findings().count();
    let apart = matrix.findings().filter(|one| !one.rest.is_empty()).count();
    let same = matrix.findings().filter(|one| one.is_same()).count();
    let questions = match all {
        0 => return None,
        1 => "the question".to_owned(),
        all => format!("all {all} questions"),
    };
    if same == all {
        return Some(format!("No difference that matters in {questions}."));
    }
    if same + apart == 0 {
        return Some(format!("Undecided in {questions}."));
    }
    let counts = format!(
        "Of {all} answers {same} are no difference that matters, {apart} tell schedulers apart, and {} are undecided.",
        all - same - apart
    );
    let least = least_often_worse(blocks, matrix).filter(|_| apart > 0);
    Some(match least {
        Some(least) => format!("{least} {counts}"),
        None => counts,
    })
}

/// Which schedulers are least often worse than the best, of those that are well under all workloads, and how often the others are; `None` if
/// that tells none apart.
fn least_often_worse(blocks: &[Block], matrix: &Matrix) -> Option<String> {
    let is_well = |name: &String| {
        let well = |row: &Row| row.title() == *name && row.is_ok();
        blocks.iter().all(|block| block.rows.iter().any(well))
    };
    let count = |name: &str, of: fn(&Finding) -> &Vec<Candidate>| {
        let has = |one: &&Finding| of(one).iter().any(|one| one.scheduler == name);
        matrix.findings().filter(has).count()
    };
    let mut worse: Vec<(usize, String)> = { schedulers(blocks).into_iter() }
        .filter(is_well)
        .map(|name| (count(&name, |one| &one.rest), name))
        .collect();
    worse.sort_by_key(|(count, _)| *count);
    let least = worse.first()?.0;
    let (first, others) = worse.split_at(worse.partition_point(|(count, _)| *count == least));
    if others.is_empty() {
        return None;
    }
    let names: Vec<&str> = first.iter().map(|(_, name)| name.as_str()).collect();
    let verb = if names.len() == 1 { "is" } else { "are" };
    let often = match least {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        least => format!("{least} times"),
    };
    let open = match names.as_slice() {
        [one] => count(one, |one| &one.undecided),
        _ => 0,
    };
    let open = match open {
        0 => String::new(),
        open => format!(", though undecided in {open}"),
    };
    let others: Vec<String> =
        { others.iter() }.map(|(count, name)| format!("{name} {count}")).collect();
    Some(format!(
        "{} {verb} {often} worse than the best by a margin that matters{open}; how often the others are: {}.",
        and(&names),
        others.join(", ")
    ))
}

/// Names as words of a sentence.
fn and(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn certainty(blocks: &[Block]) -> String {
    let rows = || blocks.iter().flat_map(|block| &block.rows);
    let least = rows().map(|row| row.runs.len()).min().unwrap_or(0);
    let most = rows().map(|row| row.runs.len()).max().unwrap_or(0);
    if least < 2 {
        return "One run of each: differences may be chance. With --repeat 10 the page tells which are.".to_owned();
    }
    let runs = if least == most { least.to_string() } else { format!("{least} to {most}") };
    let one = blocks.iter().filter(|block| block.is_one_run()).count();
    let one = told_one_run(one, blocks.len()).map_or(String::new(), |told| format!(" {told}"));
    format!(
        "{runs} runs of each, compared in pairs with the same seeds. Schedulers differ where the 95 % interval (Student's) of their differences \
         leaves out 0 and their mean is more than what matters in practice; nothing is judged from fewer samples than it needs \
         (docs/metrics.md).{one}"
    )
}

/// The answers under a workload, one for each measure of which summaries tell.
fn findings(block: &Block, reasons: &[Reason]) -> Vec<Option<Finding>> {
    let runs: Vec<&[&Run]> = block.rows.iter().map(|row| row.runs.as_slice()).collect();
    let answer = |measure: &'static Measure| {
        let decision = Decision::of(&runs, measure)?;
        let reason = reasons.iter().find(|one| one.measure == measure.id);
        Some(finding(block, measure, &decision, reason))
    };
    Measure::in_summaries().map(answer).collect()
}

/// The best scheduler, those that differ from it and by how much, and why.
fn finding(
    block: &Block,
    measure: &Measure,
    decision: &Decision,
    reason: Option<&Reason>,
) -> Finding {
    let unit = measure.unit;
    let best = &block.rows[decision.best];
    let mut found = Finding {
        goal: measure.title().to_owned(),
        best: vec![Candidate {
            scheduler: best.title(),
            value: value(Some(decision.mean), unit),
            ..Candidate::default()
        }],
        ..Finding::default()
    };
    let mut open = Vec::new();
    for (other, difference) in &decision.others {
        let candidate = candidate(&block.rows[*other], difference, unit);
        match difference.judgement {
            Judgement::Same => found.best.push(candidate),
            Judgement::Worse => {
                found.rest.push(candidate);
                found.margins = difference.difference.abs() / difference.margin;
            }
            Judgement::Better | Judgement::Undecided => {
                open.push(difference);
                found.undecided.push(candidate);
            }
        }
    }
    found.open = what_would_decide(&open);
    if let Some(last) = decision.last().map(|last| &block.rows[last]) {
        let cause = reason.map(|reason| because(last, reason));
        let numbers = in_numbers(measure.id, best, last);
        // The wait itself says how long it is.
        let numbers = numbers.filter(|_| measure.id != "longest_wait" || cause.is_none());
        found.why = [numbers, cause].into_iter().flatten().collect();
    }
    found
}

/// The course of the decisive wait, in a sentence.
fn because(last: &Row, Reason { wait, seed, .. }: &Reason) -> String {
    format!(
        "Under {}, with seed {seed}, {} waits for {} from {} on: {}.",
        last.title(),
        wait.task,
        time((wait.to_ns - wait.from_ns) as f64),
        time(wait.from_ns as f64),
        why(wait)
    )
}

fn candidate(row: &Row, difference: &Difference, unit: Unit) -> Candidate {
    let (low, high) = (distance(difference.low, unit), distance(difference.high, unit));
    Candidate {
        scheduler: row.title(),
        value: value(difference.after, unit),
        difference: match difference.pairs {
            0 => value(None, unit),
            _ => distance(difference.difference, unit),
        },
        interval: match difference.pairs {
            0 | 1 => String::new(),
            _ => range(&low, &high),
        },
    }
}

/// A difference with its sign; of percentages, in points.
pub(crate) fn distance(difference: f64, unit: Unit) -> String {
    let text = format::difference(difference, unit);
    match text.strip_prefix('-') {
        Some(size) => format!("\u{2212}{size}"),
        None if text.starts_with('0') && !text.starts_with("0.") => text,
        None => format!("+{text}"),
    }
}

/// The number of runs that would decide all undecided differences.
fn what_would_decide(open: &[&Difference]) -> String {
    if let Some(lacking) = open.iter().find(|one| one.halves > 0) {
        return lacking.doubt();
    }
    let needed = open.iter().map(|one| one.pairs_needed);
    match needed.max().flatten() {
        _ if open.is_empty() => String::new(),
        _ if open.iter().any(|one| one.too_few_samples) => "too few samples".to_owned(),
        _ if open.iter().any(|one| one.pairs < 2) => "one run".to_owned(),
        Some(runs) if open.iter().all(|one| one.pairs_needed.is_some()) => {
            format!("{runs} runs would tell")
        }
        _ => "more runs might tell".to_owned(),
    }
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
    let text = format!(
        "{} leaves CPUs idle beside waiting tasks for {} of the time and spends {} on overhead; {} {} and {}.",
        last.title(),
        fraction(idle(last)?),
        fraction(overhead(last)?),
        first.title(),
        fraction(idle(first)?),
        fraction(overhead(first)?)
    );
    let has_more_overhead = overhead(last)? - overhead(first)? > idle(last)? - idle(first)?;
    let most = most_overhead(last).filter(|_| has_more_overhead);
    Some(match most {
        Some(most) => format!("{text} {most}"),
        None => text,
    })
}

/// A kind of overhead: its name in words, its time, and how often it arose, if that is counted.
type OverheadKind = (&'static str, fn(&OverheadTime) -> u64, fn(&RunMetrics) -> Option<u64>);

const OVERHEAD: [OverheadKind; 4] = [
    ("in its callbacks", |one| one.scheduling_ns, |_| None),
    ("switching between tasks", |one| one.switch_ns, |run| Some(run.context_switches)),
    ("refilling caches after migrations", |one| one.migration_ns, |run| Some(run.migrations)),
    ("in ticks, wakeups and kicks", |one| one.interrupt_ns, |_| None),
];

/// The kinds of overhead that take most of a scheduler's time.
fn most_overhead(row: &Row) -> Option<String> {
    let kinds = OVERHEAD.iter().filter_map(|(what, of, count)| {
        let part = |run: &RunMetrics| {
            let overhead = run.overhead.as_ref()?;
            (overhead.total_ns > 0).then(|| of(overhead) as f64 / overhead.total_ns as f64)
        };
        let counted = mean(row, |run| count(run).map(|count| count as f64));
        Some((mean(row, part)?, *what, counted))
    });
    let (part, what, counted) = kinds.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let often = counted.map(|count| format!(", {} times", value(Some(count), Unit::Count)));
    Some(format!(
        "{} of the overhead of {} arises {what}{}.",
        fraction(part),
        row.title(),
        often.unwrap_or_default()
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

fn unfair_shares(last: &Row) -> Option<String> {
    let excess = |task: &TaskMetrics| {
        let share = task.share?;
        Some(share.actual - share.ideal)
    };
    let shares = |name: &str| {
        let part = |of: fn(&TaskMetrics) -> Option<f64>| Some(last.task_interval(name, of)?.mean);
        let actual = part(|task| Some(task.share?.actual))?;
        let ideal = part(|task| Some(task.share?.ideal))?;
        let (actual, ideal) = (fraction(actual), fraction(ideal));
        (actual != ideal).then(|| format!("{actual} of the machine instead of {ideal}"))
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

fn worst_window(last: &Row) -> Option<String> {
    let windows = last.metrics().filter_map(|metrics| metrics.fairness?.worst_window);
    let worst = windows.max_by(|a, b| a.spread.total_cmp(&b.spread))?;
    Some(format!(
        "Under {} shares of a CPU are {} points apart in the {} from {} on.",
        last.title(),
        value(Some((worst.spread * 1000.0).round() / 10.0), Unit::Plain),
        time(worst.window_ns as f64),
        time(worst.start_ns as f64)
    ))
}

fn longest_wait(last: &Row) -> Option<String> {
    let (task, wait) = extreme(last, |task| task.longest_wait_ns.map(|wait| wait as f64))?;
    Some(format!("Under {} {task} waits up to {}.", last.title(), time(wait)))
}

fn missed_periods(last: &Row) -> Option<String> {
    let (task, part) = extreme(last, |task| task.periods?.missed_part())?;
    Some(format!("Under {} {task} is late in {} of its periods.", last.title(), fraction(part)))
}
