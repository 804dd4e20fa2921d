//! `fairground task`: attributes of a live task that no policy of the kernel can carry.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use fairground_contract::attributes::{Attributes, Fraction, Realtime};
use fairground_kernel::attributes::{AttributeMap, threads};
use fairground_kernel::in_charge::InCharge;
use fairground_kernel::task_statistics::TaskStatistics;
use fairground_kernel::{Error, host};

use crate::output::{self, Stop};

/// Read or set a live task's attributes
///
/// These are attributes that the kernel's policies cannot express; the scheduler in charge keeps them as long as it is loaded. Each
/// scheduler accepts the attributes of its document and refuses others. Without an option, the attributes are printed, and the statistics
/// of the task that the scheduler publishes, as EBS does. Nice values
/// and the policies SCHED_FIFO, RR, BATCH and IDLE are set with nice, renice and chrt as usual. Needs root.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sudo fairground task 4711
  sudo fairground task 4711 --shares 60 --cap 1/4!
  sudo fairground task 4711 --rt global --priority 10
  sudo fairground task 4711 --clear")]
pub struct Arguments {
    /// Id of a process, for all of its threads, or of one thread
    pid: u32,

    /// Only the thread with this id, not the whole process
    #[arg(long)]
    thread: bool,

    /// Shares of EBS, 1 to 420; the nice value follows
    #[arg(long, value_name = "N")]
    shares: Option<String>,

    /// Largest part of one CPU, such as 1/4; soft (it may use more if a CPU would idle) unless it ends with !
    #[arg(long = "cap", value_name = "FRACTION[!]")]
    caps: Vec<String>,

    /// Isochronous, of BFS
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    isochronous: Option<String>,

    /// Run only when nothing else would
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    background: Option<String>,

    /// Real-time task of BMQS
    #[arg(long = "rt", value_enum, value_name = "KIND")]
    realtime: Option<RealTimeKind>,

    /// Priority among real-time tasks, 1 to 99
    #[arg(long, value_name = "N", requires = "realtime")]
    priority: Option<String>,

    /// Forget all attributes first
    #[arg(long)]
    clear: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RealTimeKind {
    /// Not real-time
    None,
    /// Stays on its CPU
    Local,
    /// Runs on any CPU
    Global,
}

impl RealTimeKind {
    fn text(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Local => "local",
            Self::Global => "global",
        }
    }
}

pub fn main(arguments: &Arguments) -> Result<ExitCode, Stop> {
    output::finish(&task(arguments)?)
}

/// Carries out the options; returns the text to print.
fn task(arguments: &Arguments) -> Result<String, Error> {
    let changes = arguments.changes();
    // Wrong options are reported even if no scheduler is loaded to take them.
    let mut asked = Attributes::default();
    apply(&mut asked, &changes)?;
    let mut threads = threads(arguments.pid)?;
    if arguments.thread {
        threads = vec![arguments.pid];
    }
    let scheduler = InCharge::find("reading and setting task attributes")?;
    let scheduler = scheduler.ok_or_else(|| Error::Usage {
        reason: "no scheduler is loaded; attributes belong to one: see `fairground run`".to_owned(),
    })?;
    let map = AttributeMap::find(&scheduler)?;
    let name = scheduler.name();
    let reads_none = || Error::Usage {
        reason: format!("the scheduler in charge, {name}, reads no task attributes"),
    };
    if changes.is_empty() && !arguments.clear {
        let statistics = TaskStatistics::find(&scheduler)?;
        if map.is_none() && statistics.is_none() {
            return Err(reads_none());
        }
        return known_of(map.as_ref(), statistics.as_ref(), &threads);
    }
    let map = map.ok_or_else(reads_none)?;
    check_understood(name, &asked)?;
    for &thread in &threads {
        let mut attributes = if arguments.clear {
            Attributes::default()
        } else {
            map.get(thread)?.unwrap_or_default()
        };
        apply(&mut attributes, &changes)?;
        match map.set(thread, &attributes) {
            // With several threads, any of them may have ended.
            Err(_) if threads.len() > 1 && host::thread_is_gone(thread) => {}
            result => result?,
        }
    }
    Ok(String::new())
}

/// Refuses attributes that the scheduler in charge does not read. For a scheduler outside the catalogue that is unknown.
fn check_understood(scheduler: &str, asked: &Attributes) -> Result<(), Error> {
    let Ok(known) = fairground_catalog::find(scheduler) else { return Ok(()) };
    let reads = &known.manifest.attributes;
    let unknown = asked.names().into_iter().find(|name| !reads.iter().any(|read| read == name));
    match unknown {
        None => Ok(()),
        Some(name) => Err(Error::Usage {
            reason: format!(
                "the scheduler in charge, {scheduler}, does not read {name}; it reads {}",
                reads.join(", ")
            ),
        }),
    }
}

/// Attributes and statistics of each thread, a line each; with several threads, a line begins with the thread's number.
fn known_of(
    map: Option<&AttributeMap>,
    statistics: Option<&TaskStatistics>,
    threads: &[u32],
) -> Result<String, Error> {
    let of_thread = |thread| -> Result<String, Error> {
        let attributes = map.map(|map| map.get(thread)).transpose()?.flatten();
        let mut text = describe(&attributes.unwrap_or_default());
        let numbers = statistics.map(|statistics| statistics.of(thread));
        for (name, value) in numbers.transpose()?.unwrap_or_default() {
            text += &format!("{name} {value}\n");
        }
        Ok(text)
    };
    let mut text = String::new();
    for &thread in threads {
        let of_thread = match of_thread(thread) {
            // With several threads, any of them may have ended.
            Err(_) if threads.len() > 1 && host::thread_is_gone(thread) => continue,
            of_thread => of_thread?,
        };
        for line in of_thread.lines() {
            text += &match threads {
                [_] => format!("{line}\n"),
                _ => format!("{thread}: {line}\n"),
            };
        }
    }
    Ok(text)
}

impl Arguments {
    /// The options as attribute settings, as in workload files.
    fn changes(&self) -> Vec<(&'static str, &str)> {
        let mut changes: Vec<(&'static str, &str)> = Vec::new();
        changes.extend(self.shares.as_deref().map(|value| ("shares", value)));
        changes.extend(self.caps.iter().map(|value| ("cap", value.as_str())));
        changes.extend(self.isochronous.as_deref().map(|value| ("isochronous", value)));
        changes.extend(self.background.as_deref().map(|value| ("background", value)));
        changes.extend(self.realtime.map(|kind| ("realtime", kind.text())));
        changes.extend(self.priority.as_deref().map(|value| ("realtime_priority", value)));
        changes
    }
}

fn apply(attributes: &mut Attributes, changes: &[(&'static str, &str)]) -> Result<(), Error> {
    for (name, value) in changes {
        attributes.set(name, value).map_err(|reason| Error::Usage { reason })?;
    }
    Ok(())
}

/// One line for each attribute that is set.
fn describe(attributes: &Attributes) -> String {
    let fraction = |cap: Fraction| format!("{}/{}", cap.numerator, cap.denominator);
    let lines = [
        ("shares", attributes.shares.map(|shares| shares.to_string())),
        ("hard_cap", attributes.hard_cap.map(fraction)),
        ("soft_cap", attributes.soft_cap.map(fraction)),
        ("isochronous", attributes.isochronous.map(|set| set.to_string())),
        ("background", attributes.background.map(|set| set.to_string())),
        (
            "realtime",
            attributes.realtime.map(|kind| match kind {
                Realtime::Local => "local".to_owned(),
                Realtime::Global => "global".to_owned(),
            }),
        ),
        ("realtime_priority", attributes.realtime_priority.map(|priority| priority.to_string())),
    ];
    lines.into_iter().filter_map(|(name, value)| Some(format!("{name} {}\n", value?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn changed(line: &[&str]) -> String {
        let words = ["task", "1"].iter().chain(line);
        let arguments = Cli::try_parse_from(words).expect("the options are right").arguments;
        let mut attributes = Attributes::default();
        apply(&mut attributes, &arguments.changes()).expect("the values are right");
        describe(&attributes)
    }

    #[test]
    fn a_scheduler_that_reads_none_refuses_all() {
        let asked = |line: &[(&'static str, &str)]| {
            let mut attributes = Attributes::default();
            apply(&mut attributes, line).expect("the values are right");
            attributes
        };
        let error =
            check_understood("linux24", &asked(&[("shares", "60")])).expect_err("no shares");
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("does not read shares"), "{error}");
        assert!(check_understood("linux24", &asked(&[])).is_ok());
        assert!(check_understood("somebody's own", &asked(&[("shares", "60")])).is_ok());
    }

    #[test]
    fn options_become_attributes() {
        assert_eq!(changed(&["--shares", "60", "--cap", "1/4!"]), "shares 60\nhard_cap 1/4\n");
        assert_eq!(changed(&["--cap", "1/2", "--isochronous"]), "soft_cap 1/2\nisochronous true\n");
        assert_eq!(
            changed(&["--rt", "global", "--priority", "7", "--background", "false"]),
            "background false\nrealtime global\nrealtime_priority 7\n"
        );
        assert_eq!(changed(&["--rt", "none"]), "");
    }
}
