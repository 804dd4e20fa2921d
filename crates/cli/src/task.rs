//! `fairground task`: attributes of a live task that no policy of the kernel can carry.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use fairground_catalog::attributes::{Attributes, Fraction, Realtime};
use fairground_kernel::attributes::AttributeMap;
use fairground_kernel::{Error, host};

/// Read or set a live task's attributes
///
/// Attributes that the kernel's policies cannot carry, kept by the scheduler in charge as long as it is loaded. Each scheduler
/// reads those that its document knows. Without an option, the attributes are printed. Nice and SCHED_FIFO, RR,
/// BATCH and IDLE are set with nice, renice and chrt as ever. Needs root.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sudo fairground task 4711
  sudo fairground task 4711 --shares 60 --cap 1/4!
  sudo fairground task 4711 --rt global --priority 10
  sudo fairground task 4711 --clear")]
pub struct Arguments {
    /// Number of a thread; for a process, that of its first thread
    pid: u32,

    /// Shares of EBS, 1 to 420
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
    realtime: Option<Kind>,

    /// Priority among real-time tasks, 1 to 99
    #[arg(long, value_name = "N", requires = "realtime")]
    priority: Option<String>,

    /// Forget all attributes first
    #[arg(long)]
    clear: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// Not real-time
    None,
    /// Stays on its CPU
    Local,
    /// Runs on any CPU
    Global,
}

impl Kind {
    fn text(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Local => "local",
            Self::Global => "global",
        }
    }
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> ExitCode {
    match task(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fairground: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

fn task(arguments: &Arguments) -> Result<(), Error> {
    let changes = arguments.changes();
    // What is wrong with the options is said whether or not a scheduler is there to take them.
    apply(&mut Attributes::default(), &changes)?;
    let map = AttributeMap::find()?.ok_or_else(|| Error::Usage {
        reason: match host::loaded_scheduler() {
            Some(name) => format!("the scheduler in charge, {name}, knows no attributes of tasks"),
            None => {
                "no scheduler is loaded; attributes belong to one: see `fairground run`".to_owned()
            }
        },
    })?;
    let mut attributes = if arguments.clear {
        Attributes::default()
    } else {
        map.get(arguments.pid)?.unwrap_or_default()
    };
    if changes.is_empty() && !arguments.clear {
        print!("{}", describe(&attributes));
        return Ok(());
    }
    apply(&mut attributes, &changes)?;
    map.set(arguments.pid, &attributes)
}

impl Arguments {
    /// The options as attributes are written in workload files.
    fn changes(&self) -> Vec<(&'static str, &str)> {
        let mut changes: Vec<(&'static str, &str)> = Vec::new();
        changes.extend(self.shares.as_deref().map(|value| ("shares", value)));
        changes.extend(self.caps.iter().map(|value| ("cap", value.as_str())));
        changes.extend(
            self.isochronous
                .as_deref()
                .map(|value| ("isochronous", value)),
        );
        changes.extend(
            self.background
                .as_deref()
                .map(|value| ("background", value)),
        );
        changes.extend(self.realtime.map(|kind| ("realtime", kind.text())));
        changes.extend(
            self.priority
                .as_deref()
                .map(|value| ("realtime_priority", value)),
        );
        changes
    }
}

fn apply(attributes: &mut Attributes, changes: &[(&'static str, &str)]) -> Result<(), Error> {
    for (name, value) in changes {
        attributes
            .set(name, value)
            .map_err(|reason| Error::Usage { reason })?;
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
        (
            "isochronous",
            attributes.isochronous.map(|set| set.to_string()),
        ),
        (
            "background",
            attributes.background.map(|set| set.to_string()),
        ),
        (
            "realtime",
            attributes.realtime.map(|kind| match kind {
                Realtime::Local => "local".to_owned(),
                Realtime::Global => "global".to_owned(),
            }),
        ),
        (
            "realtime_priority",
            attributes
                .realtime_priority
                .map(|priority| priority.to_string()),
        ),
    ];
    lines
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name} {}\n", value?)))
        .collect()
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
        let arguments = Cli::try_parse_from(words)
            .expect("the options are right")
            .arguments;
        let mut attributes = Attributes::default();
        apply(&mut attributes, &arguments.changes()).expect("the values are right");
        describe(&attributes)
    }

    #[test]
    fn options_become_attributes() {
        assert_eq!(
            changed(&["--shares", "60", "--cap", "1/4!"]),
            "shares 60\nhard_cap 1/4\n"
        );
        assert_eq!(
            changed(&["--cap", "1/2", "--isochronous"]),
            "soft_cap 1/2\nisochronous true\n"
        );
        assert_eq!(
            changed(&["--rt", "global", "--priority", "7", "--background", "false"]),
            "background false\nrealtime global\nrealtime_priority 7\n"
        );
        assert_eq!(changed(&["--rt", "none"]), "");
    }
}
