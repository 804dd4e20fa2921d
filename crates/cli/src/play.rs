//! `fairground play`: a workload with real threads on this kernel.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use fairground_kernel::Error;
use fairground_kernel::play::{self, Report};
use fairground_kernel::supervise::Signals;
use fairground_report::{Comparison, Labels, Run, TaskTables};
use fairground_workload::Workload;

/// Run a workload with real threads on this kernel
///
/// The tasks of an rt-app file run as threads under whatever scheduler is in charge: the kernel's own, or one that
/// `fairground run` has loaded. With root, the kernel's scheduler events are recorded and the metrics are those of
/// `fairground compare`; without, CPU times and what the threads measure themselves.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fairground play workload.json
  sudo fairground run o1 -- fairground play workload.json --duration 10s --format json")]
pub struct Arguments {
    /// An rt-app file
    workload: PathBuf,

    /// End after this time, such as 500ms or 10s, instead of the file's own duration
    #[arg(short, long, value_parser = duration)]
    duration: Option<Duration>,

    /// Form of the result
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// For people
    Table,
    /// Everything, for programs
    Json,
    /// One line for each task
    Csv,
}

fn duration(text: &str) -> Result<Duration, String> {
    let number_end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(number_end);
    let scale = match unit.trim() {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" | "" => 1.0,
        _ => return Err("the unit must be ns, us, ms or s".to_owned()),
    };
    number
        .parse::<f64>()
        .ok()
        .and_then(|number| Duration::try_from_secs_f64(number * scale).ok())
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| "not a time, such as 500ms or 10s".to_owned())
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> ExitCode {
    match play(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fairground: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

fn play(arguments: &Arguments) -> Result<(), Error> {
    let workload = Workload::read(&arguments.workload).map_err(|error| Error::Usage {
        reason: error.to_string(),
    })?;
    let duration = arguments
        .duration
        .map(|duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    let mut signals = Signals::take()?;
    let report = play::play(&workload, duration, &mut signals)?;
    let text = match arguments.format {
        Format::Table => table(&report),
        Format::Csv => report.csv(),
        Format::Json => {
            serde_json::to_string_pretty(&report).map_err(|error| Error::Play {
                reason: error.to_string(),
            })? + "\n"
        }
    };
    if !matches!(arguments.format, Format::Json) {
        for note in &report.notes {
            eprintln!("fairground: {note}");
        }
    }
    std::io::stdout()
        .write_all(text.as_bytes())
        .map_err(|source| Error::System {
            what: "cannot write the result".to_owned(),
            source,
        })
}

/// What the threads measured, and below it the metrics as `fairground compare` prints them.
fn table(report: &Report) -> String {
    let mut text = report.table();
    if let Some(metrics) = &report.metrics {
        let comparison = Comparison {
            runs: vec![Run {
                labels: Labels {
                    workload: report.workload.clone(),
                    scheduler: report.scheduler_name().to_owned(),
                    machine: "host".to_owned(),
                    cost_model: None,
                    seed: None,
                    repeat: 0,
                    tunables: BTreeMap::new(),
                    duration_ns: Some(report.duration_ns),
                },
                metrics: metrics.clone(),
                notes: Vec::new(),
            }],
        };
        text.push('\n');
        text.push_str(&comparison.table(TaskTables::WhenFew));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_carry_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5 s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("10"), Ok(Duration::from_secs(10)));
        for wrong in ["", "s", "0s", "-1s", "3h", "1e99s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
