//! `fairground advise`: which scheduler suits a recorded load.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use clap::Args;
use fairground_kernel::host;
use fairground_kernel::supervise::Signals;
use fairground_lab::{Contender, Goal, KERNEL, Question, recorded_metrics};
use fairground_machine::Machine;
use fairground_recording::Recording;
use fairground_report::{advice_json, advice_page, advice_text, confirmation_text};
use fairground_results::{Advice, Confirmation, Measure, Quantity, Setting};

use crate::VERSION;
use crate::failures;
use crate::on_kernel;
use crate::output::{self, FAILED, Form, Place, Progress, Stop, UNUSABLE};
use crate::schedulers::{self, Wanted};
use crate::simulation::{Sources, quoted};

/// Say which scheduler suits a recorded load
///
/// Replays a recording several times under every scheduler in the simulator, each time a little different, as another recording would be,
/// and ranks them beside the kernel's own. Schedulers share a place unless the difference, seed by seed, is certainly larger than the
/// known error of replays (docs/recordings.md). Only a scheduler that is better than the kernel's own by more than that is recommended,
/// with its costs in every other respect; other values of its tunables are tried as well.
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

    /// The goal: latency, latency:TASK, throughput, fairness, or a measure whose error in replays is known, such as 'longest_wait of TASK' [default:
    /// throughput if the load ends, otherwise latency]
    #[arg(long = "for", value_name = "GOAL", value_parser = goal)]
    goal: Option<Goal>,

    /// Schedulers, as for compare; may be given several times. The kernel's own is always ranked too
    #[arg(short, long, value_name = "[NAME=]ID|PATH|exec:LOADER,...", default_value = "all")]
    schedulers: Vec<String>,

    /// The machine, as for `fairground compare` [default: as many CPUs as were recorded]
    #[arg(short, long, value_name = "DESCRIPTION")]
    machine: Option<String>,

    /// Costs of scheduling: default, zero, or a TOML file
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

    /// Run the recorded command under the first two on this machine, and say whether the ranking's prediction holds for them
    #[arg(long)]
    confirm: bool,
}

fn goal(text: &str) -> Result<Goal, String> {
    let quantity = match text {
        "throughput" => return Ok(Goal::Throughput),
        "latency" => "wakeup_p99".to_owned(),
        "fairness" => "jain_index".to_owned(),
        _ => match text.split_once(':') {
            Some(("latency", task)) if !task.is_empty() => format!("wakeup_p99 of {task}"),
            _ => text.to_owned(),
        },
    };
    let known: Vec<&str> = Measure::foreseen().map(|measure| measure.id).collect();
    match quantity.parse::<Quantity>() {
        Ok(quantity) if known.contains(&quantity.measure().id) => Ok(Goal::Quantity(quantity)),
        _ => Err(format!(
            "not latency, latency:TASK, throughput or fairness, nor a measure, perhaps 'of TASK', of which the error of replays is known: {}",
            known.join(", ")
        )),
    }
}

pub fn main(arguments: &Arguments) -> Result<ExitCode, Stop> {
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
    let mut advice = advice.map_err(|error| unusable(error.to_string()))?;
    VERSION.clone_into(&mut advice.comparison.version);
    let loading = |scheduler: &str, setting: Option<&Setting>| {
        loading(&question, &arguments.sources, scheduler, setting)
    };
    advice.command = { advice.recommended.as_ref() }
        .map(|one| command(&recording, &loading(&one.scheduler, one.setting.as_ref())));
    if !failures::is_said(arguments.format == Form::Table) {
        for failure in advice.failures.iter().collect::<BTreeSet<_>>() {
            output::say!("fairground: {failure}");
        }
    }
    // Results that take minutes come after the answer; but for programs there is one document.
    if arguments.format == Form::Table {
        output::print(&advice_text(&advice))?;
    }
    if arguments.confirm {
        let confirmed = confirm(&recording, &advice, &|scheduler| loading(scheduler, None));
        advice.confirmation = confirmed.map_err(|message| output::fail(FAILED, message))?;
    }
    let confirmation = advice.confirmation.as_ref();
    match (arguments.format, confirmation) {
        (Form::Json, _) => output::print(&advice_json(&advice, VERSION))?,
        (Form::Table, None) => {}
        (Form::Table, Some(one)) => output::print(&confirmation_text(&advice.aim, one))?,
    }
    if let Some(place) = place {
        place.write(advice_page(&advice).html())?;
    }
    let is_contradicted = confirmation.is_some_and(Confirmation::contradicts);
    Ok(match is_contradicted || !advice.failures.is_empty() {
        true => ExitCode::from(FAILED),
        false => ExitCode::SUCCESS,
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
        Some(_) => Goal::Quantity(Quantity::of("wakeup_p99")),
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
    let names: Vec<String> = { contenders.iter() }.map(|one| one.name().to_owned()).collect();
    for (contender, title) in contenders.iter_mut().zip(titles) {
        if names.iter().filter(|name| *name == contender.name()).count() > 1 {
            contender.set_name(title);
        }
    }
    Ok(Question {
        workload: Arc::new(workload),
        replay: Arc::new(replay),
        contenders,
        machine: Arc::new(machine),
        cost,
        release: arguments.sources.kernel,
        goal,
        repeats: arguments.repeat,
        threads: arguments.sources.threads,
    })
}

/// The words behind `fairground run` that load the scheduler with this name, perhaps with another setting.
fn loading(
    question: &Question,
    sources: &Sources,
    scheduler: &str,
    setting: Option<&Setting>,
) -> Vec<String> {
    let Some(contender) = question.contenders.iter().find(|one| one.name() == scheduler) else {
        return vec![scheduler.to_owned()];
    };
    let mut options = sources.options_of(contender);
    if let Some(Setting { tunable, value }) = setting {
        let is_same = |value: &str| value.starts_with(&format!("{tunable}="));
        options.retain(|(option, value)| *option != "--set" || !is_same(value));
        options.push(("--set", format!("{tunable}={value}")));
    }
    let options = options.into_iter().flat_map(|(option, value)| [option.to_owned(), value]);
    [contender.reference().to_owned()].into_iter().chain(options).collect()
}

/// The command that loads the recommended scheduler, for the recorded command.
fn command(recording: &Recording, loading: &[String]) -> String {
    let mut words = ["sudo", "fairground", "run"].map(str::to_owned).to_vec();
    words.extend(loading.iter().map(|word| quoted(word)));
    if !recording.header.command.is_empty() {
        words.push("--".to_owned());
        words.extend(recording.header.command.iter().map(|word| quoted(word)));
    }
    words.join(" ")
}

/// Runs the recorded command under the first two on this machine. A request to end this process ends the command, too, and its scheduler.
fn confirm(
    recording: &Recording,
    advice: &Advice,
    loading: &dyn Fn(&str) -> Vec<String>,
) -> Result<Option<Confirmation>, String> {
    let [first, second, ..] = advice.ranking.as_slice() else {
        return Err("--confirm: there are no two schedulers to compare".to_owned());
    };
    let folder = tempfile::TempDir::new().map_err(|error| error.to_string())?;
    let mut signals = Signals::take().map_err(|error| error.to_string())?;
    let mut here = [0.0; 2];
    for (value, rank) in here.iter_mut().zip([first, second]) {
        let scheduler = rank.scheduler.as_str();
        let file = folder.path().join("again.recording");
        let command = again(recording, scheduler, &loading(scheduler), &file)
            .map_err(|error| format!("--confirm: {error}"))?;
        let ended = match on_kernel::wait(command, &mut signals) {
            Ok(Ok(0)) => Ok(()),
            Ok(Ok(code)) => {
                let words = recording.header.command.join(" ");
                Err(format!("{words} ended with exit status {code} under {scheduler}"))
            }
            Ok(Err(signal)) => Err(format!("stopped by {signal}")),
            Err(error) => Err(error.to_string()),
        };
        ended.map_err(|message| format!("--confirm: {message}"))?;
        let made = Recording::read(&file).map_err(|error| error.to_string())?;
        let measured = advice.aim.value(&recorded_metrics(&made), advice.aim.better());
        *value = measured
            .ok_or_else(|| format!("--confirm: under {scheduler} there was nothing to measure"))?;
    }
    Ok(Confirmation::of(advice, here))
}

/// What runs the recorded command under a scheduler and records it into `file`.
fn again(
    recording: &Recording,
    scheduler: &str,
    loading: &[String],
    file: &Path,
) -> std::io::Result<Command> {
    let program = std::env::current_exe()?;
    let mut command = Command::new(&program);
    if scheduler != KERNEL {
        // The recorder needs root, but runs the command as the right user.
        command.arg("run").args(loading).args(["--user", "root", "--"]).arg(&program);
    }
    command.args(["record", "-o"]).arg(file).arg("--").args(&recording.header.command);
    // It is not in the terminal's foreground, so it cannot read from there.
    command.stdin(Stdio::null()).stdout(Stdio::null());
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_read() {
        assert_eq!(goal("throughput"), Ok(Goal::Throughput));
        let quantity = |text: &str| Ok(Goal::Quantity(text.parse().unwrap()));
        assert_eq!(goal("latency:Xorg"), quantity("wakeup_p99 of Xorg"));
        assert_eq!(goal("latency"), quantity("wakeup_p99"));
        assert_eq!(goal("longest_wait of Xorg"), quantity("longest_wait of Xorg"));
        assert!(goal("migrations").is_err());
        assert!(goal("latency:").is_err());
        assert!(goal("speed").is_err());
    }

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    /// What is loaded is what was simulated, whatever it was called.
    #[test]
    fn the_command_loads_the_scheduler_with_its_settings() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let file = folder.join("../../workloads/build.recording").display().to_string();
        let words = ["advise", &file, "-s", "fast=cfs{sched_latency=2ms}"];
        let Line { arguments } = clap::Parser::parse_from(words);
        let recording = Recording::read(&arguments.recording).unwrap();
        let question = question(&arguments, &recording).unwrap();
        let loading = |setting: Option<&Setting>| {
            loading(&question, &arguments.sources, "fast", setting).join(" ")
        };
        assert_eq!(loading(None), "cfs --set sched_latency=2 ms");
        let tunable = "sched_latency".to_owned();
        let setting = Setting { tunable, value: "3 ms".to_owned() };
        assert_eq!(loading(Some(&setting)), "cfs --set sched_latency=3 ms");
    }
}
