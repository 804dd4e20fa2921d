//! `fairground run`: a scheduler in charge of this machine.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use fairground_bpf::{Object, Value};
use fairground_companion::Companion;
use fairground_contract::topology;
use fairground_kernel::exit::ExitReport;
use fairground_kernel::guard::{Guarded, User};
use fairground_kernel::host::KernelTypes;
use fairground_kernel::loader::{OpenScheduler, Running, Stopped};
use fairground_kernel::statistics::Counters;
use fairground_kernel::supervise::{Signal, Signals};
use fairground_kernel::{Error, host, libbpf_messages};
use fairground_lab::Accompanied;
use fairground_machine::Online;
use sd_notify::NotifyState;

use crate::output::{self, Place, Stop};
use crate::quantity::nanoseconds;
use crate::schedulers;

/// How often the loader checks that the scheduler is still in charge.
const LOOK: Duration = Duration::from_millis(100);

/// Load a scheduler into this kernel
///
/// The scheduler is in charge of all ordinary tasks of this machine until the command ends, or without a command until Ctrl-C.
/// However this program ends, the machine returns to the kernel's own scheduler: by a signal, even SIGKILL, by an error of the
/// scheduler, or because the scheduler forgets a task for too long. Needs root and a kernel with sched_ext.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sudo fairground run o1
  sudo fairground run o1 --set hz=1000 --stats -- make -j8
  sudo fairground run o1 --user root -- fairground play workload.json
  sudo fairground run ./mine.bpf.c --dump end.txt
  sudo fairground run ./mine.bpf.c --verify
  sudo fairground run scx_mine/src/bpf/main.bpf.c -I include --with mine.toml")]
pub struct Arguments {
    #[command(flatten)]
    choice: Choice,

    /// Print the scheduler's and the kernel's counters at this interval, such as 500ms
    #[arg(long = "stats", value_name = "TIME", num_args = 0..=1, default_missing_value = "1s", value_parser = interval)]
    statistics: Option<Duration>,

    /// Write the kernel's report on an unexpected end to this file instead of standard error
    #[arg(long, value_name = "FILE")]
    dump: Option<PathBuf>,

    /// Only ask the kernel's verifier: load the scheduler and say whether it is accepted, without putting it in charge
    #[arg(long, conflicts_with_all = ["statistics", "dump", "user", "command"])]
    verify: bool,

    /// Print all messages of libbpf and the kernel's verifier
    #[arg(short, long)]
    verbose: bool,

    /// User that the command runs as [default: the user that called sudo]
    #[arg(long, value_name = "NAME", requires = "command")]
    user: Option<String>,

    /// Run this command under the scheduler, end with it and return its exit code; anything it leaves running is ended as well
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// A scheduler for this kernel, with its settings.
#[derive(Debug, Args)]
pub struct Choice {
    /// Id of a scheduler (see `fairground list`), or path of a sched_ext source (.bpf.c) or object (.o)
    #[arg(value_name = "ID|PATH")]
    pub scheduler: String,

    /// Set a tunable, or something that a loader sets, by the names of docs/companions.md; may be given several times
    #[arg(long = "set", value_name = "[ID.]NAME=VALUE")]
    pub settings: Vec<String>,

    /// Companion file that describes the scheduler's loader, or `none` [default: NAME.companion.toml beside the source, or the
    /// one that comes with fairground]
    #[arg(long = "with", value_name = "COMPANION")]
    pub companion: Option<String>,

    /// Folder with headers for a source of your own; may be given several times
    #[arg(short = 'I', value_name = "FOLDER")]
    pub include: Vec<PathBuf>,

    /// Macro for a source of your own; may be given several times
    #[arg(short = 'D', value_name = "NAME[=VALUE]", value_parser = NonEmptyStringValueParser::new())]
    pub defines: Vec<String>,
}

fn interval(text: &str) -> Result<Duration, String> {
    match nanoseconds(text)? {
        0..10_000_000 => Err("shorter than 10ms".to_owned()),
        time => Ok(Duration::from_nanos(time)),
    }
}

pub fn main(arguments: &Arguments) -> Result<ExitCode, Stop> {
    libbpf_messages::set_verbose(arguments.verbose);
    Ok(ExitCode::from(run(arguments)?))
}

/// Why the loop in [`watch`] ended.
enum WatchEnd {
    /// The user or the command ended it; the code to return.
    Ended(u8),
    /// The scheduler is no longer in charge.
    Ejected,
}

fn run(arguments: &Arguments) -> Result<u8, Stop> {
    let scheduler = Scheduler::find(&arguments.choice)?;
    if arguments.verify {
        return Ok(verify(&scheduler)?);
    }
    host::check_can_load()?;
    let dump = arguments.dump.as_deref().map(Place::at).transpose()?;
    let mut signals = Signals::take()?;
    let mut command = None;
    if !arguments.command.is_empty() {
        let user = User::chosen(arguments.user.as_deref())?;
        command = Some(Guarded::prepare(&arguments.command, user.as_ref())?);
    }
    let result = keep_loaded(arguments, &scheduler, dump, &mut signals, &mut command);
    if let (Err(_), Some(command)) = (&result, &mut command)
        && command.is_running()
    {
        output::say!("fairground: the command ran under {} and is stopped", scheduler.name);
        end_command(command, &mut signals)?;
    }
    Ok(result?)
}

/// Checks that a scheduler and its settings exist, and that this kernel's verifier accepts them.
pub fn check(choice: &Choice) -> Result<(), Error> {
    host::check_can_verify()?;
    Scheduler::find(choice)?.prepare()?.verify().map(|_| ())
}

/// Asks the kernel's verifier about the scheduler.
fn verify(scheduler: &Scheduler) -> Result<u8, Error> {
    if let Err(error) = host::check_can_verify() {
        output::say!(
            "fairground: in the project's folder, `testbench/boot --shared -- fairground run {} --verify` asks a kernel in a virtual machine",
            scheduler.name
        );
        return Err(error);
    }
    let opened = scheduler.prepare()?;
    let title = opened.title().to_owned();
    let (warnings, programs) = opened.verify()?;
    for warning in warnings {
        output::say!("fairground: {warning}");
    }
    let release = host::release()?;
    let accepted =
        format!("the verifier of Linux {release} accepts {title}: {programs} programs\n");
    let printed = output::print(&accepted);
    Ok(u8::from(printed.map_err(Stop::tell).is_err()))
}

/// Loads the scheduler, and again whenever it asks for a restart, until the command or the user ends it.
fn keep_loaded(
    arguments: &Arguments,
    scheduler: &Scheduler,
    dump: Option<Place<'_>>,
    signals: &mut Signals,
    command: &mut Option<Guarded>,
) -> Result<u8, Error> {
    loop {
        let opened = scheduler.prepare()?;
        let title = opened.title().to_owned();
        let running = opened.start(&scheduler.statistics)?;
        for warning in running.warnings() {
            output::say!("fairground: {warning}");
        }
        tell(format_args!(
            "{title} now schedules this machine{}",
            if arguments.command.is_empty() { "; Ctrl-C gives it back" } else { "" }
        ));
        // The service is up from now on; anything else that started this does not listen.
        let _ = sd_notify::notify(&[NotifyState::Ready]);
        let outcome = match begin(command.as_mut(), signals)? {
            Some(end) => end,
            None => watch(&running, signals, command.as_mut(), arguments.statistics)?,
        };
        if arguments.statistics.is_some() {
            print_counters(&running.counters(), &Counters::default());
        }
        let Stopped { is_gone, report } = running.stop();
        match outcome {
            _ if !is_gone => {
                output::say!(
                    "fairground: the kernel still runs {title}; its log (dmesg) may say why, and SysRq-S removes it"
                );
                return Ok(1);
            }
            // The scheduler was ejected while the command ended.
            WatchEnd::Ended(_) if report.as_ref().is_some_and(ExitReport::is_failure) => {
                explain(&title, report, dump);
                return Ok(1);
            }
            WatchEnd::Ended(code) => {
                tell(format_args!("the kernel's own scheduler is back"));
                return Ok(code);
            }
            WatchEnd::Ejected if report.as_ref().is_some_and(ExitReport::wants_restart) => {
                let report = report.map(|report| report.to_string()).unwrap_or_default();
                output::say!("fairground: {title} ended and asks to be loaded again: {report}");
            }
            WatchEnd::Ejected => {
                explain(&title, report, dump);
                if let Some(mut command) = command.take() {
                    output::say!("fairground: the command ran under {title} and is stopped");
                    end_command(&mut command, signals)?;
                }
                return Ok(1);
            }
        }
    }
}

/// Starts the command, if there is one that does not run yet. One that was to end while the scheduler was being loaded does not begin.
fn begin(command: Option<&mut Guarded>, signals: &mut Signals) -> Result<Option<WatchEnd>, Error> {
    let Some(command) = command.filter(|command| !command.is_running()) else { return Ok(None) };
    if let Some(request) = signals.arrived()? {
        output::say!("fairground: {} came before the command was started", request.signal);
        return Ok(Some(WatchEnd::Ended(request.exit_code())));
    }
    command.start()?;
    Ok(None)
}

/// Waits until the command ends, the scheduler is ejected or the user interrupts.
fn watch(
    running: &Running,
    signals: &mut Signals,
    mut command: Option<&mut Guarded>,
    interval: Option<Duration>,
) -> Result<WatchEnd, Error> {
    let mut earlier = running.counters();
    let mut next_print = interval.map(|interval| Instant::now() + interval);
    loop {
        let until_print =
            next_print.map_or(LOOK, |next| next.saturating_duration_since(Instant::now()));
        let request = signals.wait(LOOK.min(until_print))?;
        if let Some(code) = command.as_mut().map_or(Ok(None), |command| command.poll())? {
            return Ok(WatchEnd::Ended(code));
        }
        match (&mut command, request) {
            (None, Some(_)) => return Ok(WatchEnd::Ended(0)),
            (Some(command), Some(request)) => command.heed(request),
            (_, None) => {}
        }
        if !running.is_in_charge() {
            return Ok(WatchEnd::Ejected);
        }
        if let Some(failure) = running.loader_failure() {
            return Err(failure);
        }
        if let (Some(next), Some(interval)) = (next_print, interval) {
            if Instant::now() >= next {
                let now = running.counters();
                print_counters(&now, &earlier);
                earlier = now;
                next_print = Some(next + interval);
            }
        }
    }
}

fn end_command(command: &mut Guarded, signals: &mut Signals) -> Result<(), Error> {
    command.end(Signal::SIGTERM);
    while command.poll()?.is_none() {
        signals.wait(LOOK)?;
    }
    Ok(())
}

fn print_counters(now: &Counters, earlier: &Counters) {
    let mut output = std::io::stdout().lock();
    // A closed pipe is no reason to unload the scheduler.
    let _ = output.write_all(now.table(earlier).as_bytes()).and_then(|()| output.flush());
}

/// Reports why the scheduler is no longer in charge. The kernel's report is told if it cannot be written into the file that was to have it.
fn explain(title: &str, report: Option<ExitReport>, dump: Option<Place<'_>>) {
    let Some(report) = report else {
        output::say!(
            "fairground: the kernel ejected {title}; the scheduler keeps no record of the reason, the kernel's log \
             (dmesg) may have it"
        );
        return;
    };
    output::say!("fairground: the kernel ejected {title}: {report}");
    if report.dump.is_empty() {
        return;
    }
    if let Some(place) = dump {
        let path = place.path();
        match place.write(&report.dump) {
            Ok(()) => {
                output::say!("fairground: the kernel's report is in {}", path.display());
                return;
            }
            Err(unwritten) => {
                unwritten.tell();
            }
        }
    }
    output::say!("{}", report.dump);
}

/// Prints a progress message, on terminals only.
fn tell(message: std::fmt::Arguments<'_>) {
    if std::io::stderr().is_terminal() {
        output::say!("fairground: {message}");
    }
}

/// The scheduler that the user named, with the settings.
struct Scheduler {
    name: String,
    whole: Accompanied,
    object: Arc<Object>,
    /// Names of its counters, in order.
    statistics: Vec<String>,
}

impl Scheduler {
    fn find(choice: &Choice) -> Result<Self, Error> {
        let unusable = |reason: String| Error::Usage { reason };
        let build = schedulers::build(&choice.include, &choice.defines)
            .map_err(|error| unusable(error.to_string()))?;
        let mut whole = Accompanied::open(&choice.scheduler, &build)
            .map_err(|error| unusable(error.to_string()))?;
        let entry = whole.entry();
        if !entry.warnings.is_empty() {
            output::say!("fairground: {}", entry.warnings.trim_end());
        }
        let object = entry.parse().map_err(|error| unusable(error.to_string()))?;
        let (id, title) = (entry.id().to_owned(), object.scheduler_name());
        let statistics = entry.manifest.statistics.iter();
        let statistics = statistics.map(|statistic| statistic.name.clone()).collect();
        if let Some(companion) = &choice.companion {
            let companion = companion_for(companion, &title).map_err(unusable)?;
            whole.set_companion(companion);
        }
        let object = whole.object().map_err(|error| unusable(error.to_string()))?;
        for setting in &choice.settings {
            let wrong = |reason: &dyn Display| unusable(format!("--set {setting}: {reason}"));
            let (key, value) =
                setting.split_once('=').ok_or_else(|| wrong(&"not [ID.]NAME=VALUE"))?;
            let of_this = |name: &str| key.strip_prefix(name)?.strip_prefix('.');
            let key = of_this(&id).or_else(|| of_this(&title)).unwrap_or(key);
            whole
                .set(&object, key, value, format!("--set {key}"))
                .map_err(|error| wrong(&error))?;
        }
        let found = Self { name: choice.scheduler.clone(), whole, object, statistics };
        Ok(found)
    }

    /// Opens the object and applies, before it is loaded, the user's settings and its loader's settings for this machine.
    fn prepare(&self) -> Result<OpenScheduler, Error> {
        let unusable = |error: &dyn Display| Error::Usage { reason: error.to_string() };
        // The number of changes of CPUs is read before the CPUs are, so that the kernel notices a change in between.
        let kernel = KernelTypes::read()?;
        let online = Online::host().map_err(|error| unusable(&error))?;
        let constant = |name: &str| kernel.constants.get(name).copied();
        let prepared = self.whole.prepare(&self.object, &constant, &online);
        let prepared = prepared.map_err(|error| unusable(&error))?;
        let companion = self.whole.companion().name();
        if !companion.is_empty() {
            tell(format_args!("its loader is {companion}"));
        }
        for note in &prepared.notes {
            output::say!("fairground: {note}");
        }
        let (tunables, topology) = (self.whole.variables(), topology::variables(&online));
        let topology = topology.iter().map(|variable| Value {
            section: variable.section,
            name: variable.name,
            bytes: &variable.bytes,
            chosen: false,
        });
        let tunables = Value::of_tunables(&tunables);
        let values: Vec<Value<'_>> = tunables.chain(topology).collect();
        OpenScheduler::open(
            &self.name,
            &self.whole.entry().object,
            &self.object,
            &kernel,
            &values,
            prepared.setup,
        )
    }
}

/// The companion that `--with` names, for the scheduler named `scheduler`.
fn companion_for(file: &str, scheduler: &str) -> Result<Companion, String> {
    if file == "none" {
        return Ok(Companion::empty());
    }
    let companion = Companion::read(Path::new(file)).map_err(|error| error.to_string())?;
    if companion.scheduler() != scheduler {
        return Err(format!(
            "--with {file}: it is for scheduler {}, and this one calls itself {scheduler}",
            companion.scheduler()
        ));
    }
    Ok(companion)
}
