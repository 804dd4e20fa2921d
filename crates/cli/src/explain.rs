//! `fairground explain`: why tasks waited.

use std::process::ExitCode;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use fairground_lab::Search;
use fairground_report::{waits_json, waits_text};

use crate::VERSION;
use crate::failures;
use crate::output::{self, FAILED, Form, Stop, UNUSABLE};
use crate::quantity::nanoseconds;
use crate::simulation::Simulation;

/// Explain why tasks waited for a CPU
///
/// For the longest waits of a run: why the task waited, which dispatch queues it was in, the tasks that ran instead on the CPUs that it may
/// use, and which of the scheduler's callbacks were called for it. The same arguments as for `compare` explain the same run.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fairground explain hogs.json -s ./mine.bpf.c
  fairground explain hogs.json -s cfs -m 'numa:2 core:4 pu:2' -d 30s --longer 50ms --most 10
  fairground explain video.json -s ./mine.bpf.c --task decoder --format json")]
pub struct Arguments {
    /// Schedulers, as for compare; may be given several times
    #[arg(short, long, value_name = "[NAME=]ID|PATH|exec:LOADER,...", required = true)]
    schedulers: Vec<String>,

    #[command(flatten)]
    simulation: Simulation,

    /// Explain waits of at least this length, such as 20ms
    #[arg(long, value_name = "TIME", value_parser = nanoseconds)]
    longer: Option<u64>,

    /// Explain only waits of this task, or of the instances NAME-0, NAME-1, ...
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    task: Option<String>,

    /// Explain this many waits of each run, the longest ones
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    most: u32,

    /// Form of the result
    #[arg(long, value_enum, default_value_t = Form::Table)]
    format: Form,
}

pub fn main(arguments: &Arguments) -> Result<ExitCode, Stop> {
    let plan = arguments.simulation.plan(&arguments.schedulers)?;
    let search = Search {
        most: arguments.most as usize,
        at_least: arguments.longer.unwrap_or(0),
        task: arguments.task.clone(),
    };
    let (runs, failures) = fairground_lab::explain(&plan, &search)?;
    output::print(&match arguments.format {
        Form::Table => waits_text(&runs),
        Form::Json => waits_json(&runs, VERSION),
    })?;
    let failed: Vec<_> = failures.iter().collect();
    failures::tell(&plan, &failed, false);
    failures::tell_details(&failed);
    Ok(match failed.as_slice() {
        [] => ExitCode::SUCCESS,
        all if runs.is_empty() && all.iter().all(|one| one.status.never_began()) => {
            ExitCode::from(UNUSABLE)
        }
        _ => ExitCode::from(FAILED),
    })
}
