//! `fairground advise`: which scheduler suits a recorded load.

use fairground_report::Forms as _;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use clap::Args;
use fairground_kernel::host;
use fairground_lab::{
    Advice, Contender, Difference, Goal, KERNEL, LATENCY_ERROR, MAKESPAN_ERROR, Measure, Price,
    Question, Rank, Recommendation, SHARE_ERROR, Verdict, recorded_metrics,
};
use fairground_machine::Machine;
use fairground_recording::Recording;
use fairground_report::page::{Cell, Page, Section, Table};
use serde::Serialize;

use crate::output::{self, FAILED, Form, Place, Progress, UNUSABLE};
use crate::schedulers::{self, Wanted};
use crate::simulation::{Sources, quoted};

/// Width of the output, in columns.
const WIDTH: usize = 100;
/// Version of the JSON format. It changes when a program that reads the old format could misread the new one.
const JSON_VERSION: u32 = 1;

/// Say which scheduler suits a recorded load
///
/// Replays a recording several times under every scheduler in the simulator, each time a little different, as another recording would be,
/// and ranks them beside the kernel's own. Schedulers share a place unless the difference, seed by seed, is certainly larger than the
/// known error of replays (docs/recordings.md). Only a scheduler that is better than the kernel's own by more than that is recommended,
/// with what it costs in every other respect; other values of its tunables are tried as well.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fairground advise build.recording
  fairground advise desktop.recording --for latency:Xorg -m 'l3:2 core:4 pu:2'
  fairground advise build.recording -s cfs,./mine.bpf.c --set cfs.sched_latency=12ms --format json
  sudo fairground advise build.recording --for throughput --confirm")]
pub struct Arguments {
    /// A recording (see `fairground record`)
    #[arg(value_name = "FILE")]
    recording: PathBuf,

    /// The goal: latency, latency:TASK, throughput or fairness [default: throughput if the load ends, otherwise latency]
    #[arg(long = "for", value_name = "GOAL", value_parser = goal)]
    goal: Option<Goal>,

    /// Schedulers, as for compare; may be given several times. The kernel's own is always ranked too
    #[arg(
        short,
        long,
        value_name = "[NAME=]ID|PATH|exec:LOADER,...",
        default_value = "all"
    )]
    schedulers: Vec<String>,

    /// The machine, as for `fairground compare` [default: as many CPUs as were recorded]
    #[arg(short, long, value_name = "DESCRIPTION")]
    machine: Option<String>,

    /// What scheduling costs: default, zero, or a TOML file
    #[arg(long, value_name = "MODEL", default_value = "default")]
    cost: String,

    /// Replays under each scheduler
    #[arg(long, value_name = "TIMES", default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=1000))]
    repeat: u32,

    #[command(flatten)]
    sources: Sources,

    /// Also write the ranking and the comparison as HTML
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,

    /// Form of the advice
    #[arg(long, value_enum, default_value_t = Form::Table)]
    format: Form,

    /// Run the recorded command under the first two on this machine, and say whether the ranking holds
    #[arg(long)]
    confirm: bool,
}

fn goal(text: &str) -> Result<Goal, String> {
    match text.split_once(':') {
        None if text == "latency" => Ok(Goal::Latency(None)),
        None if text == "throughput" => Ok(Goal::Throughput),
        None if text == "fairness" => Ok(Goal::Fairness),
        Some(("latency", task)) if !task.is_empty() => Ok(Goal::Latency(Some(task.to_owned()))),
        _ => Err("not latency, latency:TASK, throughput or fairness".to_owned()),
    }
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> ExitCode {
    advise(arguments).unwrap_or_else(|code| code)
}

fn advise(arguments: &Arguments) -> Result<ExitCode, ExitCode> {
    let unusable = |message: String| output::fail(UNUSABLE, message);
    let recording =
        Recording::read(&arguments.recording).map_err(|error| unusable(error.to_string()))?;
    if arguments.confirm {
        if recording.header.command.is_empty() {
            return Err(unusable(format!(
                "--confirm: {} is not the recording of a command, so there is nothing to run",
                recording.file
            )));
        }
        host::check_can_load().map_err(|error| unusable(format!("--confirm: {error}")))?;
    }
    let question = question(arguments, &recording).map_err(unusable)?;
    let place = arguments.report.as_deref().map(Place::at).transpose()?;
    let progress = Progress::new("runs".into());
    let advice = question.answer(&|done, total| progress.tell(done, total));
    progress.clear();
    let advice = advice.map_err(|error| unusable(error.to_string()))?;
    for failure in &advice.failures {
        crate::output::say!("fairground: {failure}");
    }
    let told = tell(&recording, &question, &advice);
    let is_text = arguments.format == Form::Table;
    output::print(&match arguments.format {
        Form::Table => text(&told, &advice),
        Form::Json => output::json(&document(&recording, &question, &told, &advice)),
    })?;
    let (mut confirmed, mut held) = (String::new(), true);
    if arguments.confirm {
        (confirmed, held) =
            confirm(&recording, &advice).map_err(|message| output::fail(FAILED, message))?;
    }
    match is_text {
        true => output::print(&confirmed)?,
        // Standard output is one document.
        false if confirmed.is_empty() => {}
        false => crate::output::say!("{}", confirmed.trim_end()),
    }
    if let Some(place) = place {
        place.write(page(&told, &advice, &confirmed).html())?;
    }
    Ok(if held {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FAILED)
    })
}

fn question(arguments: &Arguments, recording: &Recording) -> Result<Question, String> {
    let cost =
        fairground_lab::read_cost_model(&arguments.cost).map_err(|error| error.to_string())?;
    let (workload, replay) =
        fairground_lab::load_recording(recording, &cost).map_err(|error| error.to_string())?;
    let machine = match &arguments.machine {
        Some(description) => description.clone(),
        None => recording.header.cpus.to_string(),
    };
    let machine = Machine::parse(&machine).map_err(|error| error.to_string())?;
    let goal = arguments.goal.clone().unwrap_or(match workload.duration {
        None => Goal::Throughput,
        Some(_) => Goal::Latency(None),
    });
    let unusable = |error: fairground_lab::Error| error.to_string();
    let mut wanted = schedulers::parse(&arguments.schedulers).map_err(unusable)?;
    if !wanted.iter().any(|one| one.reference == KERNEL) {
        wanted.insert(0, Wanted::plain(KERNEL));
    }
    let opened = arguments.sources.contenders(&wanted, &[&machine]);
    let mut contenders = opened.map_err(unusable)?.concat();
    // Those that differ in their settings alone are ranked as different ones.
    let titles: Vec<String> = { contenders.iter() }.map(Contender::title).collect();
    let names: Vec<String> = { contenders.iter() }
        .map(|one| one.name().to_owned())
        .collect();
    for (contender, title) in contenders.iter_mut().zip(titles) {
        if names
            .iter()
            .filter(|name| *name == contender.name())
            .count()
            > 1
        {
            contender.set_name(title);
        }
    }
    Ok(Question {
        workload: Arc::new(workload),
        replay: Arc::new(replay),
        contenders,
        machine: Arc::new(machine),
        cost,
        goal,
        repeats: arguments.repeat,
        threads: arguments.sources.threads,
    })
}

/// What is measured, in words.
fn what(measure: &Measure) -> String {
    match measure {
        Measure::Makespan => "time until all tasks have ended".to_owned(),
        Measure::Work => "work done, in percent of the CPU time that there is".to_owned(),
        Measure::Fairness => "evenness of shares (Jain's index)".to_owned(),
        Measure::LongestWait => "longest wait for a CPU".to_owned(),
        Measure::Latency(Some(task)) => format!("wakeup latency of {task}, 99 % of wake-ups"),
        Measure::Latency(None) => "wakeup latency of all tasks, 99 % of wake-ups".to_owned(),
    }
}

fn shown(measure: &Measure, value: f64) -> String {
    match measure {
        Measure::Makespan => format!("{:.3} s", value / 1e9),
        Measure::Work => format!("{:.1} %", 100.0 * value),
        Measure::Latency(_) | Measure::LongestWait => format!("{:.3} ms", value / 1e6),
        Measure::Fairness => format!("{value:.4}"),
    }
}

/// A difference with its interval, in words.
fn told_difference(measure: &Measure, difference: &Difference) -> String {
    let number = |value: f64| match measure {
        Measure::Makespan => format!("{:+.3}", value / 1e9),
        Measure::Work => format!("{:+.1}", 100.0 * value),
        Measure::Latency(_) | Measure::LongestWait => format!("{:+.3}", value / 1e6),
        Measure::Fairness => format!("{value:+.4}"),
    };
    let (low, high) = (number(difference.low), number(difference.high));
    format!("{} [{low}, {high}]", number(difference.mean))
}

fn told_verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Same => "same",
        Verdict::Worse => "WORSE",
        Verdict::Undecided => "undecided",
    }
}

/// The known error of replays, in words.
fn known(measure: &Measure) -> String {
    match measure {
        Measure::Makespan => format!("{:.0} %", 100.0 * MAKESPAN_ERROR),
        Measure::Latency(_) | Measure::LongestWait => format!(
            "{:.0} % and {:.0} ms",
            100.0 * LATENCY_ERROR.0,
            LATENCY_ERROR.1 / 1e6
        ),
        Measure::Work => format!("{:.1} points", 100.0 * SHARE_ERROR),
        Measure::Fairness => format!("{SHARE_ERROR:.3}"),
    }
}

/// The answer in words, except for the tables.
struct Told {
    /// What was measured, for which workload.
    heading: String,
    /// Who is first, and how certain that is.
    verdict: String,
    /// Remarks on the ranking.
    remarks: Vec<String>,
    /// The command that loads the recommended one.
    command: Option<String>,
}

fn tell(recording: &Recording, question: &Question, advice: &Advice) -> Told {
    let measure = &advice.measure;
    let machine = match question.machine.description.as_str() {
        "1" => "1 CPU".to_owned(),
        cpus if cpus.parse::<u32>().is_ok() => format!("{cpus} CPUs"),
        other => other.to_owned(),
    };
    let mut remarks = vec![format!(
        "{} replays under each scheduler, varied as another recording would be. Equal places, and \"same\": with the same seeds the 95 % \
         interval of the difference is not beyond {}, by which replays are known to be off (docs/recordings.md).",
        question.repeats,
        known(measure)
    )];
    if let Some(recommended) = &advice.recommended {
        remarks.extend(tuned(measure, recommended));
    }
    remarks.extend(question.workload.notes.iter().cloned());
    remarks.extend(advice.assumptions.iter().cloned());
    Told {
        heading: format!("{} on {machine}: {}", recording.name, what(measure)),
        verdict: verdict(advice),
        remarks,
        command: advice
            .recommended
            .as_ref()
            .map(|one| command(recording, one)),
    }
}

/// Who is first, and how certain that is.
fn verdict(advice: &Advice) -> String {
    let leaders = advice.leaders();
    match leaders.as_slice() {
        [one] => format!("{one} is first: all others are worse by more than replays are off."),
        several => format!(
            "No clear winner: {} cannot be told apart.",
            several.join(", ")
        ),
    }
}

fn tuned(measure: &Measure, recommended: &Recommendation) -> Option<String> {
    let scheduler = &recommended.scheduler;
    match &recommended.setting {
        Some(setting) => Some(format!(
            "Tunables: with {}={} {scheduler} has {}; the best of {} settings tried.",
            setting.tunable,
            setting.value,
            shown(measure, recommended.median),
            recommended.tried
        )),
        None if recommended.tried == 0 => None,
        None => Some(format!(
            "Tunables: none of {} settings of {scheduler} that were tried makes it better by more than replays are off.",
            recommended.tried
        )),
    }
}

/// The command that loads what is recommended, for the recorded command.
fn command(recording: &Recording, recommended: &Recommendation) -> String {
    let mut words = ["sudo", "fairground", "run"].map(str::to_owned).to_vec();
    words.push(quoted(&recommended.scheduler));
    if let Some(setting) = &recommended.setting {
        words.push("--set".to_owned());
        words.push(quoted(&format!("{}={}", setting.tunable, setting.value)));
    }
    if !recording.header.command.is_empty() {
        words.push("--".to_owned());
        words.extend(recording.header.command.iter().map(|word| quoted(word)));
    }
    words.join(" ")
}

/// The values over all seeds: a single one, or the lowest and the highest.
fn range(measure: &Measure, rank: &Rank) -> String {
    let (low, high) = (shown(measure, rank.low), shown(measure, rank.high));
    if low == high {
        String::new()
    } else {
        format!("{low} to {high}")
    }
}

fn texts<const COUNT: usize>(cells: [&str; COUNT]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

/// The ranking as rows of cells, with heads.
fn ranking(advice: &Advice) -> Vec<Vec<String>> {
    let measure = &advice.measure;
    let mut rows = vec![texts([
        "place",
        "scheduler",
        "median",
        "lowest to highest",
        "beside the kernel's own",
        "",
    ])];
    rows.extend(advice.ranking.iter().map(|rank| {
        let difference = rank.difference.as_ref();
        vec![
            rank.place.to_string(),
            rank.scheduler.clone(),
            shown(measure, rank.median),
            range(measure, rank),
            difference.map_or(String::new(), |one| told_difference(measure, one)),
            difference.map_or(String::new(), |one| told_verdict(one.verdict).to_owned()),
        ]
    }));
    rows
}

/// What the recommended scheduler gives and costs, as rows of cells, with heads.
fn prices(recommended: &Recommendation) -> Vec<Vec<String>> {
    let mut rows = vec![texts([
        "",
        "kernel",
        &recommended.scheduler,
        "difference",
        "",
    ])];
    rows.extend(recommended.prices.iter().map(|price| {
        let measure = &price.measure;
        vec![
            what(measure),
            shown(measure, price.kernel),
            shown(measure, price.value),
            told_difference(measure, &price.difference),
            told_verdict(price.difference.verdict).to_owned(),
        ]
    }));
    rows
}

/// The answer for a terminal.
fn text(told: &Told, advice: &Advice) -> String {
    let mut text = format!("{}\n\n", told.heading);
    text.push_str(&output::columns(&ranking(advice), 2));
    let _ = writeln!(text, "\n{}", told.verdict);
    if let Some(recommended) = &advice.recommended {
        let _ = writeln!(text, "\n{}\n", priced(recommended));
        text.push_str(&output::columns(&prices(recommended), 1));
    }
    text.push('\n');
    for remark in &told.remarks {
        text.push_str(&output::wrap(remark, WIDTH, 0));
    }
    let _ = writeln!(text, "\n{}", what_to_do(told));
    text
}

/// Whether the recommended scheduler costs anything.
fn priced(recommended: &Recommendation) -> String {
    let worse = |price: &&Price| price.difference.verdict == Verdict::Worse;
    let costs: Vec<String> = recommended
        .prices
        .iter()
        .filter(worse)
        .map(|price| what(&price.measure))
        .collect();
    let scheduler = &recommended.scheduler;
    match costs.as_slice() {
        [] => format!("{scheduler} is not known to cost anything beside the kernel's own:"),
        [..] => format!(
            "{scheduler} has a price beside the kernel's own: {}.",
            costs.join("; ")
        ),
    }
}

/// What follows from the ranking.
fn what_to_do(told: &Told) -> String {
    match &told.command {
        Some(command) => format!("Load it: {command}"),
        None => "Load nothing: no other is known to be better than the kernel's own".to_owned(),
    }
}

/// The answer for programs.
#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    recording: &'a str,
    machine: &'a str,
    measure: &'a Measure,
    less_is_better: bool,
    replays: u32,
    ranking: &'a [Rank],
    /// Whether a single scheduler is first.
    clear_winner: bool,
    recommended: Option<&'a Recommendation>,
    /// The command that loads it.
    command: Option<&'a str>,
    notes: &'a [String],
    failures: &'a [String],
}

fn document<'a>(
    recording: &'a Recording,
    question: &'a Question,
    told: &'a Told,
    advice: &'a Advice,
) -> Document<'a> {
    Document {
        version: JSON_VERSION,
        recording: &recording.name,
        machine: &question.machine.description,
        measure: &advice.measure,
        less_is_better: advice.measure.less_is_better(),
        replays: question.repeats,
        ranking: &advice.ranking,
        clear_winner: advice.leaders().len() == 1,
        recommended: advice.recommended.as_ref(),
        command: told.command.as_deref(),
        notes: &told.remarks,
        failures: &advice.failures,
    }
}

/// A table of a page. The first row has the heads, the first `words` columns are words.
fn page_table(rows: Vec<Vec<String>>, words: usize) -> Table {
    let mut rows = rows.into_iter();
    Table {
        caption: String::new(),
        heads: rows.next().unwrap_or_default(),
        rows: rows
            .map(|row| row.into_iter().map(Cell::plain).collect())
            .collect(),
        words,
    }
}

/// The answer as a page: the ranking and the price, then the comparison behind it.
fn page(told: &Told, advice: &Advice, confirmed: &str) -> Page {
    let mut page = advice.comparison.page(&std::collections::BTreeMap::new());
    let mut summary = vec![told.heading.clone() + ".", told.verdict.clone()];
    summary.extend(advice.recommended.as_ref().map(priced));
    summary.push(what_to_do(told));
    summary.extend(confirmed.lines().map(str::to_owned));
    page.answer.summary.splice(0..0, summary);
    page.answer.certainty.push_str(
        " The ranking allows for the known error of replays as well, which these numbers do not.",
    );
    let mut tables = vec![page_table(ranking(advice), 2)];
    tables.extend(
        advice
            .recommended
            .as_ref()
            .map(|recommended| page_table(prices(recommended), 1)),
    );
    let section = Section {
        id: "ranking".to_owned(),
        title: "Ranking".to_owned(),
        conditions: told.heading.clone(),
        tables,
        notes: told.remarks.clone(),
        ..Section::default()
    };
    page.sections.insert(0, section);
    page
}

/// Runs the command under the first two and describes the result; also returns whether the prediction holds.
fn confirm(recording: &Recording, advice: &Advice) -> Result<(String, bool), String> {
    let [first, second, ..] = advice.ranking.as_slice() else {
        return Err("--confirm: there are no two schedulers to compare".to_owned());
    };
    let folder = tempfile::TempDir::new().map_err(|error| error.to_string())?;
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut text = String::new();
    let mut values = Vec::new();
    for rank in [first, second] {
        let file = folder.path().join(format!("{}.recording", rank.scheduler));
        let mut command = Command::new(&program);
        if rank.scheduler != KERNEL {
            // The recorder needs root, but runs the command as the right user.
            command
                .args(["run", &rank.scheduler, "--user", "root", "--"])
                .arg(&program);
        }
        let status = command
            .args(["record", "-o"])
            .arg(&file)
            .arg("--")
            .args(&recording.header.command)
            .stdout(Stdio::null())
            .status()
            .map_err(|error| format!("--confirm: {error}"))?;
        if !status.success() {
            return Err(format!(
                "--confirm: {} ended with {status} under {}",
                recording.header.command.join(" "),
                rank.scheduler
            ));
        }
        let made = Recording::read(&file).map_err(|error| error.to_string())?;
        let value = advice
            .measure
            .value_of(&recorded_metrics(&made))
            .ok_or_else(|| {
                format!(
                    "--confirm: under {} there was nothing to measure",
                    rank.scheduler
                )
            })?;
        let _ = writeln!(
            text,
            "Here, under {}: {} (predicted {})",
            rank.scheduler,
            shown(&advice.measure, value),
            shown(&advice.measure, rank.median)
        );
        values.push(value);
    }
    let apart = (values[0] - values[1]).abs() > advice.measure.error(values[0].max(values[1]));
    let better = match advice.measure.less_is_better() {
        true => values[0] <= values[1],
        false => values[0] >= values[1],
    };
    let equal = first.place == second.place;
    let holds = if equal { !apart } else { better };
    let _ = writeln!(
        text,
        "The prediction {}: {} {}.",
        if holds { "held" } else { "did NOT hold" },
        first.scheduler,
        match (apart, better) {
            (false, _) => format!("and {} are equal here", second.scheduler),
            (true, true) => format!("is better than {} here", second.scheduler),
            (true, false) => format!("is worse than {} here", second.scheduler),
        }
    );
    Ok((text, holds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_read() {
        assert_eq!(goal("throughput"), Ok(Goal::Throughput));
        assert_eq!(
            goal("latency:Xorg"),
            Ok(Goal::Latency(Some("Xorg".to_owned())))
        );
        assert_eq!(goal("latency"), Ok(Goal::Latency(None)));
        assert!(goal("latency:").is_err());
        assert!(goal("speed").is_err());
    }
}
