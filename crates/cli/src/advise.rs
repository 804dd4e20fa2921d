//! `fairground advise`: which scheduler suits a recorded load.

use std::fmt::Write as _;
use std::num::NonZero;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use clap::Args;
use fairground_kernel::host;
use fairground_lab::{
    Advice, Contender, Goal, KERNEL, LATENCY_ERROR, MAKESPAN_ERROR, Measure, Question, Rank,
    SHARE_ERROR, recorded_metrics, value_of,
};
use fairground_machine::Machine;
use fairground_recording::Recording;
use fairground_report::page::{Cell, Page, Section, Table};

use crate::output::{self, FAILED, Place, Progress, UNUSABLE};

/// Say which scheduler suits a recorded load
///
/// Replays a recording under every scheduler in the simulator and ranks them. Schedulers share a place if they differ by less than
/// their seeds do, or by less than the known error of replays (docs/recordings.md). Other values of the winner's tunables are tried
/// as well.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fairground advise build.recording
  fairground advise desktop.recording --for latency:Xorg -m 'l3:2 core:4 pu:2'
  sudo fairground advise build.recording --for throughput --confirm")]
pub struct Arguments {
    /// A recording (see `fairground record`)
    #[arg(value_name = "FILE")]
    recording: PathBuf,

    /// The goal: latency, latency:TASK, throughput or fairness [default: throughput if the load ends, otherwise latency]
    #[arg(long = "for", value_name = "GOAL", value_parser = goal)]
    goal: Option<Goal>,

    /// Ids of schedulers, all of them, and kernel for the kernel's own
    #[arg(
        short,
        long,
        value_name = "ID,...",
        value_delimiter = ',',
        default_value = "kernel,all"
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

    /// Also write the ranking and the comparison as HTML
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,

    /// Run the recorded command under the first two on this machine, and say whether the ranking holds
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
    let place = arguments.report.as_deref().map(Place::at).transpose()?;
    let progress = Progress::new("runs".into());
    let advice = question.answer(&|done, total| progress.tell(done, total));
    progress.clear();
    let advice = advice.map_err(|error| unusable(error.to_string()))?;
    for failure in &advice.failures {
        crate::output::say!("fairground: {failure}");
    }
    let told = tell(&recording, &question, &advice);
    output::print(&text(&told, &advice))?;
    let (mut confirmed, mut held) = (String::new(), true);
    if arguments.confirm {
        (confirmed, held) = confirm(&recording, &question.goal, &advice)
            .map_err(|message| output::fail(FAILED, message))?;
    }
    output::print(&confirmed)?;
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
    let (workload, surroundings) =
        fairground_lab::load_recording(recording, &cost).map_err(|error| error.to_string())?;
    let machine = match &arguments.machine {
        Some(description) => description.clone(),
        None => recording.header.cpus.to_string(),
    };
    let goal = arguments.goal.clone().unwrap_or(match workload.duration {
        None => Goal::Throughput,
        Some(_) => Goal::Latency(None),
    });
    let references = crate::simulation::references(&arguments.schedulers);
    Ok(Question {
        workload: Arc::new(workload),
        surroundings,
        contenders: Contender::open_all(&references, &Default::default(), arguments.threads)
            .map_err(|error| error.to_string())?,
        machine: Arc::new(Machine::parse(&machine).map_err(|error| error.to_string())?),
        cost,
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

/// The answer in words, except for the ranking.
struct Told {
    /// What was measured, for which workload.
    heading: String,
    /// Remarks on the ranking.
    remarks: Vec<String>,
    /// The command that loads the first one; `None` if there is no first one, or the kernel's own shares its place.
    command: Option<String>,
}

fn tell(recording: &Recording, question: &Question, advice: &Advice) -> Told {
    let measure = advice.measure;
    let machine = match question.machine.description.as_str() {
        "1" => "1 CPU".to_owned(),
        cpus if cpus.parse::<u32>().is_ok() => format!("{cpus} CPUs"),
        other => other.to_owned(),
    };
    let mut told = Told {
        heading: format!(
            "{} on {machine}: {}",
            recording.name,
            what(measure, &question.goal)
        ),
        remarks: vec![format!(
            "Equal places: closer than their {} seeds, or than {}, by which replays are known to be off (docs/recordings.md).",
            question.repeats,
            known(measure)
        )],
        command: None,
    };
    let Some(first) = advice.ranking.first() else {
        return told;
    };
    let mut settings = String::new();
    match advice.tuned.first() {
        Some(tuned) => {
            told.remarks.push(format!(
                "Tunables: with {}={} {} would have {}, of {} settings tried.",
                tuned.tunable,
                tuned.setting,
                first.scheduler,
                shown(measure, tuned.value),
                advice.tried
            ));
            let setting = format!("{}={}", tuned.tunable, tuned.setting);
            settings = match setting.contains(' ') {
                true => format!(" --set '{setting}'"),
                false => format!(" --set {setting}"),
            };
        }
        None if advice.tried == 0 => {}
        None => told.remarks.push(format!(
            "Tunables: none of {} settings of {} that were tried makes it better by more than that.",
            advice.tried, first.scheduler
        )),
    }
    told.remarks.extend(question.workload.notes.iter().cloned());
    told.remarks.extend(advice.assumptions.iter().cloned());
    let words = recording.header.command.iter().map(|word| quoted(word));
    let command = words.collect::<Vec<String>>().join(" ");
    let command = match command.as_str() {
        "" => command,
        _ => format!(" -- {command}"),
    };
    // A scheduler other than the kernel's own is recommended only if it is known to be better.
    let leaders = advice.ranking.iter().filter(|rank| rank.place == 1);
    let has_it = leaders.into_iter().any(|rank| rank.scheduler == KERNEL);
    told.command = (!has_it || !advice.tuned.is_empty())
        .then(|| format!("sudo fairground run {}{settings}{command}", first.scheduler));
    told
}

/// The values over all seeds: a single one, or the lowest and the highest.
fn range(measure: Measure, rank: &Rank) -> String {
    let (low, high) = (shown(measure, rank.low), shown(measure, rank.high));
    if low == high {
        String::new()
    } else {
        format!("{low} to {high}")
    }
}

/// The answer for a terminal.
fn text(told: &Told, advice: &Advice) -> String {
    let mut text = format!("{}\n\n", told.heading);
    for rank in &advice.ranking {
        let line = format!(
            "  {:2}  {:12} {:>12}   {}",
            rank.place,
            rank.scheduler,
            shown(advice.measure, rank.value),
            range(advice.measure, rank)
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text.push('\n');
    for remark in &told.remarks {
        let _ = writeln!(text, "{remark}");
    }
    let _ = writeln!(text, "\n{}", what_to_do(told));
    text
}

/// What follows from the ranking.
fn what_to_do(told: &Told) -> String {
    match &told.command {
        Some(command) => format!("Load it: {command}"),
        None => "Load nothing: no other is known to be better than the kernel's own".to_owned(),
    }
}

/// The answer as a page: the ranking, then the comparison behind it.
fn page(told: &Told, advice: &Advice, confirmed: &str) -> Page {
    let row = |rank: &Rank| {
        let value = Cell {
            text: shown(advice.measure, rank.value),
            detail: range(advice.measure, rank),
        };
        vec![
            Cell::plain(rank.place.to_string()),
            Cell::plain(rank.scheduler.clone()),
            value,
        ]
    };
    let heads = ["place", "scheduler", "median of seeds"];
    let ranking = Table {
        caption: String::new(),
        heads: heads.map(str::to_owned).to_vec(),
        rows: advice.ranking.iter().map(row).collect(),
        words: 2,
    };
    let mut page = advice.comparison.page(&std::collections::BTreeMap::new());
    let mut summary = vec![sentence(told, advice)];
    summary.push(what_to_do(told));
    summary.extend(confirmed.lines().map(str::to_owned));
    page.answer.summary.splice(0..0, summary);
    page.answer.certainty.push_str(
        " The ranking allows for the known error of replays as well, which these numbers do not.",
    );
    let section = Section {
        id: "ranking".to_owned(),
        title: "Ranking".to_owned(),
        conditions: told.heading.clone(),
        tables: vec![ranking],
        notes: told.remarks.clone(),
        ..Section::default()
    };
    page.sections.insert(0, section);
    page
}

/// The winner, in one sentence.
fn sentence(told: &Told, advice: &Advice) -> String {
    let first: Vec<&str> = advice
        .ranking
        .iter()
        .filter(|rank| rank.place == 1)
        .map(|rank| rank.scheduler.as_str())
        .collect();
    let value = advice.ranking.first().map(|rank| rank.value);
    format!(
        "{}. First: {} ({}).",
        told.heading,
        first.join(", "),
        value.map_or(String::new(), |value| shown(advice.measure, value))
    )
}

/// Quotes a word for a shell if needed.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Runs the command under the first two and describes the result; also returns whether the prediction holds.
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
