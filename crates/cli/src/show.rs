//! `fairground show`: one scheduler, or one recording.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use fairground_catalog::Scheduler;
use fairground_recording::{Recording, rt_app};
use serde_json::{Number, Value, json};

use crate::output::{self, Form, UNUSABLE, wrap};
use crate::recording;

/// Width of the output, in columns.
const WIDTH: usize = 100;

/// Show a scheduler's history, algorithm and tunables, or the contents of a recording
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fairground show o1
  fairground show o1 --source | less
  fairground show o1 --source=o1_priority.h | less
  fairground show cfs --format json
  fairground show build.recording
  fairground show build.recording --rt-app > build.json")]
pub struct Arguments {
    /// Id of a scheduler (see `fairground list`), or file of a recording (see `fairground record`)
    #[arg(value_name = "ID|FILE")]
    scheduler: String,

    /// Print its C source instead, or a header that it includes
    #[arg(
        long,
        value_name = "HEADER",
        num_args = 0..=1,
        require_equals = true,
        conflicts_with = "readme"
    )]
    source: Option<Option<String>>,

    /// Print its README instead, which maps the source document to the code
    #[arg(long)]
    readme: bool,

    /// Print a recording's workload instead, as an rt-app file
    #[arg(long, conflicts_with_all = ["source", "readme"])]
    rt_app: bool,

    /// List all tasks of a recording, not only those that used the most CPU time
    #[arg(long, conflicts_with_all = ["source", "readme", "rt_app"])]
    tasks: bool,

    /// Form of the description
    #[arg(long, value_enum, default_value_t = Form::Table, conflicts_with_all = ["source", "readme", "rt_app"])]
    format: Form,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> ExitCode {
    let path = Path::new(&arguments.scheduler);
    let found = fairground_catalog::find(&arguments.scheduler);
    if arguments.tasks && found.is_ok() && !path.exists() {
        let message = "--tasks is for recordings, and this is a scheduler";
        return output::fail(UNUSABLE, format!("{}: {message}", path.display()));
    }
    if arguments.rt_app && found.is_ok() && !path.exists() {
        let message = "--rt-app is for recordings, and this is a scheduler";
        return output::fail(UNUSABLE, format!("{}: {message}", path.display()));
    }
    if arguments.rt_app || found.is_err() && path.exists() {
        if arguments.source.is_some() || arguments.readme {
            let message = "--source and --readme are for schedulers, and this is a file";
            return output::fail(UNUSABLE, format!("{}: {message}", path.display()));
        }
        let text = if arguments.rt_app {
            as_rt_app(path)
        } else {
            recording::describe(path).map(|description| match arguments.format {
                Form::Table => description.text(arguments.tasks),
                Form::Json => output::json(&description),
            })
        };
        return match text {
            Ok(text) => output::print(&text).err().unwrap_or(ExitCode::SUCCESS),
            Err(message) => output::fail(UNUSABLE, message),
        };
    }
    let scheduler = match found {
        Ok(scheduler) => scheduler,
        Err(error) => return output::fail(UNUSABLE, error),
    };
    let printed = if let Some(header) = &arguments.source {
        match source_of(scheduler, header.as_deref()) {
            Ok(text) => output::print(text),
            Err(message) => return output::fail(UNUSABLE, message),
        }
    } else if arguments.readme {
        output::print(&scheduler.readme)
    } else {
        output::print(&match arguments.format {
            Form::Table => describe(scheduler),
            Form::Json => document(scheduler),
        })
    };
    printed.err().unwrap_or(ExitCode::SUCCESS)
}

/// The text of a scheduler's source, or of the `header` that is named.
fn source_of<'s>(scheduler: &'s Scheduler, header: Option<&str>) -> Result<&'s str, String> {
    let Some(name) = header else {
        return Ok(&scheduler.source);
    };
    match fairground_catalog::header(name) {
        Some((_, text)) => Ok(text),
        None => Err(format!(
            "--source={name}: no such header; the lines that begin with #include in {} and its headers name them",
            scheduler.source_file.display()
        )),
    }
}

fn as_rt_app(path: &Path) -> Result<String, String> {
    let load = Recording::read(path).and_then(|recording| recording.load());
    rt_app(&load.map_err(|error| error.to_string())?.workload)
}

/// A scheduler's description for programs: values of tunables are in their units.
fn document(scheduler: &Scheduler) -> String {
    let manifest = &scheduler.manifest;
    let number = |value: i128| Number::from_i128(value).map(Value::Number);
    let tunables = manifest.tunables.iter().map(|tunable| {
        json!({
            "name": tunable.name,
            "type": tunable.integer_type.name(),
            "unit": tunable.unit.suffix(),
            "default": number(tunable.default),
            "minimum": number(tunable.minimum),
            "maximum": number(tunable.maximum),
            "choices": tunable.choices,
            "doc": tunable.doc,
        })
    });
    let counters = manifest.statistics.iter();
    let counters = counters.map(|counter| json!({ "name": counter.name, "doc": counter.doc }));
    let document = json!({
        "version": 1,
        "id": manifest.id,
        "title": manifest.title,
        "year": manifest.year,
        "lineage": manifest.lineage,
        "source_document": manifest.source_document,
        "history": manifest.history,
        "algorithm": manifest.algorithm,
        "attributes": manifest.attributes,
        "tunables": tunables.collect::<Vec<_>>(),
        "counters": counters.collect::<Vec<_>>(),
    });
    format!("{document:#}\n")
}

fn describe(scheduler: &Scheduler) -> String {
    let manifest = &scheduler.manifest;
    let mut text = format!("{}: {} ({})\n", manifest.id, manifest.title, manifest.year);
    let mut section = |heading: &str, body: &str| {
        text.push_str(&format!("\n{heading}\n"));
        text.push_str(body);
    };
    section("Lineage", &wrap(&manifest.lineage, WIDTH, 2));
    section(
        "Source document",
        &wrap(&manifest.source_document, WIDTH, 2),
    );
    section("History", &wrap(&manifest.history, WIDTH, 2));
    section("Algorithm", &wrap(&manifest.algorithm, WIDTH, 2));
    let mut tunables = String::new();
    for tunable in &manifest.tunables {
        tunables.push_str(&format!(
            "  {} = {} ({})\n",
            tunable.name,
            tunable.format_value(tunable.default),
            tunable.format_range()
        ));
        tunables.push_str(&wrap(&tunable.doc, WIDTH, 6));
    }
    if tunables.is_empty() {
        tunables.push_str("  none\n");
    }
    section(
        &format!("Tunables (--set {}.NAME=VALUE)", manifest.id),
        &tunables,
    );
    if !manifest.attributes.is_empty() {
        section(
            "Task attributes (`fairground` key of a workload, fairground task)",
            &wrap(&manifest.attributes.join(", "), WIDTH, 2),
        );
    }
    let mut statistics = String::new();
    for statistic in &manifest.statistics {
        statistics.push_str(&format!("  {}\n", statistic.name));
        statistics.push_str(&wrap(&statistic.doc, WIDTH, 6));
    }
    if !statistics.is_empty() {
        section("Counters", &statistics);
    }
    let mut source = format!(
        "  {} ({} lines; --source prints it, --readme explains it)\n",
        scheduler.source_file.display(),
        scheduler.source.lines().count()
    );
    for (name, header) in scheduler.headers {
        source.push_str(&format!(
            "  {} ({} lines; --source={name})\n",
            scheduler.source_file.with_file_name(name).display(),
            header.lines().count()
        ));
    }
    section("Source", &source);
    text
}
