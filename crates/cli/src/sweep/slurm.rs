//! The script with which Slurm runs a sweep.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::plan::Sweep;
use crate::output::{self, Stop};
use crate::simulation::quoted;

/// Print the script of a Slurm job array, with a shard for each task
///
/// Submitted again, it does the rest.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fairground sweep slurm S --tasks 64 --cpus 4 --time 1:00:00 | sbatch
  fairground sweep slurm S --tasks 64 --time 2:00:00 -- --partition=short --mem=2G > S.sbatch")]
pub struct Arguments {
    /// The folder of the sweep, on a file system that all nodes have
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,

    /// Number of tasks of the array; Slurm allows 1001 unless a site has set another limit
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    tasks: u32,

    /// CPUs for each task
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    cpus: u32,

    /// Longest time of a task, as sbatch takes it
    #[arg(long, value_name = "TIME", value_parser = NonEmptyStringValueParser::new())]
    time: String,

    /// Further options of sbatch
    #[arg(last = true, value_name = "OPTION")]
    options: Vec<String>,
}

pub fn main(arguments: &Arguments) -> Result<ExitCode, Stop> {
    let sweep = Sweep::open(&arguments.folder)?;
    output::finish(&script(arguments, &sweep.planned.name))
}

fn script(arguments: &Arguments, name: &str) -> String {
    let folder = std::fs::canonicalize(&arguments.folder);
    let folder = folder.unwrap_or_else(|_| arguments.folder.clone());
    let program = std::env::current_exe();
    let program =
        program.map_or_else(|_| "fairground".to_owned(), |path| path.display().to_string());
    let mut lines = vec![
        "#!/bin/sh".to_owned(),
        format!("#SBATCH --job-name={}", quoted(name)),
        format!("#SBATCH --array=0-{}", arguments.tasks - 1),
        format!("#SBATCH --cpus-per-task={}", arguments.cpus),
        format!("#SBATCH --time={}", arguments.time),
        "#SBATCH --signal=B:TERM@60".to_owned(),
        "#SBATCH --requeue --open-mode=append".to_owned(),
    ];
    lines.extend(arguments.options.iter().map(|option| format!("#SBATCH {option}")));
    let command = format!(
        "{} sweep run {} --shard \"$SLURM_ARRAY_TASK_ID/{}\" --threads \"$SLURM_CPUS_PER_TASK\"",
        quoted(&program),
        quoted(&folder.display().to_string()),
        arguments.tasks
    );
    lines.push(format!("exec {command}"));
    lines.join("\n") + "\n"
}
