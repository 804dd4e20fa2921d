//! `fairground advise`: which scheduler suits a recorded load.

use std::fmt::Write as _;
use std::num::NonZero;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use clap::Args;
use fairground_kernel::host;
use fairground_lab::{
    Advice, Contender, Goal, LATENCY_ERROR, MAKESPAN_ERROR, Measure, Question, Rank, SHARE_ERROR,
    recorded_metrics, value_of,
};
use fairground_machine::Machine;
use fairground_recording::Recording;

use crate::output::{self, FAILED, Progress, UNUSABLE};

/// Say which scheduler suits a recorded load
///
/// Replays a recording under every scheduler in the simulator and ranks them. Schedulers that are closer together than their seeds, or than replays are
/// known to be off (docs/recordings.md), share a place. Other values of the first one's tunables are tried, too.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fairground advise build.recording
  fairground advise desktop.recording --for latency:Xorg -m 'l3:2 core:4 pu:2'
  sudo fairground advise build.recording --for throughput --confirm")]
pub struct Arguments {
    /// A recording (see `fairground record`)
    #[arg(value_name = "FILE")]
    recording: PathBuf,

    /// What is wanted: latency, latency:TASK, throughput or fairness [default: throughput if the load ends, otherwise latency]
    #[arg(long = "for", value_name = "GOAL", value_parser = goal)]
    goal: Option<Goal>,

    /// Ids of schedulers, or all
    #[arg(
        short,
        long,
        value_name = "ID,...",
        value_delimiter = ',',
        default_value = "all"
    )]
    schedulers: Vec<String>,

    /// The machine, as for `fairground compare` [default: as many CPUs as were recorded]
    #[arg(short, long, value_name = "DESCRIPTION")]
    machine: Option<String>,

    /// What scheduling costs: default, zero, or a TOML file
    #[arg(long, value_name = "MODEL", default_value = "default")]
    cost: String,

    /// Seeds for each scheduler
    #[arg(long, value_name = "TIMES", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,

    /// Write the ranking and the comparison as HTML as well
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,

    /// Run the recorded command under the first two on this machine, and say whether it holds
    #[arg(long)]
    confirm: bool,

    /// Simulations at once [default: one for each CPU of this machine]
    #[arg(long)]
    threads: Option<NonZero<usize>>,
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
    let progress = Progress::new("runs".into());
    let advice = question.answer(&|done, total| progress.tell(done, total));
    progress.clear();
    let advice = advice.map_err(|error| unusable(error.to_string()))?;
    for failure in &advice.failures {
        crate::output::say!("fairground: {failure}");
    }
    let mut text = tell(&recording, &question, &advice);
    let mut held = true;
    if arguments.confirm {
        let (said, holds) = confirm(&recording, &question.goal, &advice)
            .map_err(|message| output::fail(FAILED, message))?;
        text.push_str(&said);
        held = holds;
    }
    output::print(&text)?;
    if let Some(path) = &arguments.report {
        let mut page = advice.comparison.page(&std::collections::BTreeMap::new());
        let lines = text.lines().filter(|line| !line.is_empty());
        page.answer.summary.splice(0..0, lines.map(str::to_owned));
        output::write(path, page.html())?;
    }
    Ok(if held {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FAILED)
    })
}

fn question(arguments: &Arguments, recording: &Recording) -> Result<Question, String> {
    let (workload, surroundings) =
        fairground_lab::load_recording(recording).map_err(|error| error.to_string())?;
    let machine = match &arguments.machine {
        Some(description) => description.clone(),
        None => recording.header.cpus.to_string(),
    };
    let goal = arguments.goal.clone().unwrap_or(match workload.duration {
        None => Goal::Throughput,
        Some(_) => Goal::Latency(None),
    });
    let references = crate::compare::references(&arguments.schedulers);
    Ok(Question {
        workload: Arc::new(workload),
        surroundings,
        contenders: Contender::open_all(&references, &Default::default(), arguments.threads)
            .map_err(|error| error.to_string())?,
        machine: Arc::new(Machine::parse(&machine).map_err(|error| error.to_string())?),
        cost: fairground_lab::read_cost_model(&arguments.cost)
            .map_err(|error| error.to_string())?,
        goal,
        repeats: arguments.repeat,
        threads: arguments.threads,
    })
}

/// What is measured, in words.
fn what(measure: Measure, goal: &Goal) -> String {
    match (measure, goal) {
        (Measure::Makespan, _) => "time until all tasks have ended".to_owned(),
        (Measure::Work, _) => "work done, in percent of the CPU time that there is".to_owned(),
        (Measure::Fairness, _) => "evenness of shares (Jain's index)".to_owned(),
        (Measure::Latency, Goal::Latency(Some(task))) => {
            format!("wakeup latency of {task}, 99 % of wake-ups")
        }
        (Measure::Latency, _) => "wakeup latency of all tasks, 99 % of wake-ups".to_owned(),
    }
}

fn shown(measure: Measure, value: f64) -> String {
    match measure {
        Measure::Makespan => format!("{:.3} s", value / 1e9),
        Measure::Work => format!("{:.1} %", 100.0 * value),
        Measure::Latency => format!("{:.3} ms", value / 1e6),
        Measure::Fairness => format!("{value:.4}"),
    }
}

/// The known error of replays, in words.
fn known(measure: Measure) -> String {
    match measure {
        Measure::Makespan => format!("{:.0} %", 100.0 * MAKESPAN_ERROR),
        Measure::Latency => format!(
            "{:.0} % and {:.0} ms",
            100.0 * LATENCY_ERROR.0,
            LATENCY_ERROR.1 / 1e6
        ),
        Measure::Work => format!("{:.1} points", 100.0 * SHARE_ERROR),
        Measure::Fairness => format!("{SHARE_ERROR:.3}"),
    }
}

fn tell(recording: &Recording, question: &Question, advice: &Advice) -> String {
    let measure = advice.measure;
    let mut text = format!(
        "{} on {}: {}\n\n",
        recording.name,
        question.machine.description,
        what(measure, &question.goal)
    );
    for rank in &advice.ranking {
        let Rank {
            place,
            scheduler,
            value,
            low,
            high,
        } = rank;
        let _ = writeln!(
            text,
            "  {place:2}  {scheduler:12} {:>12}   {} to {} with {} seeds",
            shown(measure, *value),
            shown(measure, *low),
            shown(measure, *high),
            question.repeats
        );
    }
    let _ = writeln!(
        text,
        "\nEqual places: closer than their seeds, or than {}, by which replays are known to be off (docs/recordings.md).",
        known(measure)
    );
    let Some(first) = advice.ranking.first() else {
        return text;
    };
    let mut settings = String::new();
    match advice.tuned.first() {
        Some(tuned) => {
            let _ = writeln!(
                text,
                "Tunables: with {}={} {} would have {}, of {} settings tried.",
                tuned.tunable,
                tuned.setting,
                first.scheduler,
                shown(measure, tuned.value),
                advice.tried
            );
            let setting = format!("{}={}", tuned.tunable, tuned.setting);
            settings = match setting.contains(' ') {
                true => format!(" --set '{setting}'"),
                false => format!(" --set {setting}"),
            };
        }
        None => {
            let _ = writeln!(
                text,
                "Tunables: none of {} settings of {} that were tried makes it better by more than that.",
                advice.tried, first.scheduler
            );
        }
    }
    for note in &question.workload.notes {
        let _ = writeln!(text, "{note}");
    }
    let command = match recording.header.command.as_slice() {
        [] => String::new(),
        command => {
            let words: Vec<String> = command.iter().map(|word| quoted(word)).collect();
            format!(" -- {}", words.join(" "))
        }
    };
    let _ = writeln!(
        text,
        "\nLoad it: sudo fairground run {}{settings}{command}",
        first.scheduler
    );
    text
}

/// A word as a shell takes it for one.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Runs the command under the first two and says what came of it; whether that is what was predicted.
fn confirm(recording: &Recording, goal: &Goal, advice: &Advice) -> Result<(String, bool), String> {
    let [first, second, ..] = advice.ranking.as_slice() else {
        return Err("--confirm: there are no two schedulers to compare".to_owned());
    };
    let folder = tempfile::TempDir::new().map_err(|error| error.to_string())?;
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut text = String::new();
    let mut values = Vec::new();
    for rank in [first, second] {
        let file = folder.path().join(format!("{}.recording", rank.scheduler));
        let status = Command::new(&program)
            .args(["run", &rank.scheduler, "--"])
            .arg(&program)
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
        let value = value_of(goal, advice.measure, &recorded_metrics(&made)).ok_or_else(|| {
            format!(
                "--confirm: under {} there was nothing to measure",
                rank.scheduler
            )
        })?;
        let _ = writeln!(
            text,
            "Here, under {}: {} (predicted {})",
            rank.scheduler,
            shown(advice.measure, value),
            shown(advice.measure, rank.value)
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
    fn words_are_quoted_where_a_shell_would_split_them() {
        assert_eq!(quoted("-j4"), "-j4");
        assert_eq!(quoted("a b | c"), "'a b | c'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }

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
