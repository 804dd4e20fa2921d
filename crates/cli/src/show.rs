//! `fairground show`: a scheduler, or the content of a file.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use fairground_catalog::{Manifest, Scheduler, Tunable};
use fairground_lab::Contender;
use fairground_recording::{Recording, is_recording, rt_app};
use fairground_report::Document;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Number;

use crate::output::{self, Form, Stop, UNUSABLE, WIDTH, wrap};
use crate::{VERSION, contents, loads, recording, schedulers};

/// Describe a scheduler, workload, recording, machine, cost model or companion
///
/// Every file that another command takes is read as by that command, and its contents are told in words: a scheduler's history,
/// algorithm and tunables, the tasks of a workload, the CPUs of a machine, and so on.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fairground show o1
  fairground show o1 --source | less
  fairground show o1 --source=o1_priority.h | less
  fairground show cfs --format json
  fairground show ./mine.bpf.c -I scx/scheds/include
  fairground show ./mine.bpf.c --format json
  fairground show workloads/mix-two.json
  fairground show 'numa:2 l3:2 core:4 pu:2'
  fairground show build.recording
  fairground show mix-two --rt-app > mix.json
  fairground show build.recording --rt-app > build.json")]
pub struct Arguments {
    /// Id of a scheduler or load (see `fairground list`), path of a scheduler of your own, rt-app file, recording, machine (description or
    /// hwloc XML file), cost model or companion; NAME:PARAMETER=VALUE,... sets the parameters of a load or file
    #[arg(value_name = "ID|FILE|MACHINE")]
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

    /// Print a recording's workload, or a load with its parameters filled in, as an rt-app file
    #[arg(long, conflicts_with_all = ["source", "readme"])]
    rt_app: bool,

    /// Folder with headers for a source of your own; may be given several times
    #[arg(short = 'I', value_name = "FOLDER")]
    include: Vec<PathBuf>,

    /// Macro for a source of your own; may be given several times
    #[arg(short = 'D', value_name = "NAME[=VALUE]", value_parser = NonEmptyStringValueParser::new())]
    defines: Vec<String>,

    /// List all tasks of a recording, not only those that used the most CPU time
    #[arg(long, conflicts_with_all = ["source", "readme", "rt_app"])]
    tasks: bool,

    /// Form of the description of a scheduler or a recording
    #[arg(long, value_enum, default_value_t = Form::Table, conflicts_with_all = ["source", "readme", "rt_app"])]
    format: Form,
}

pub fn main(arguments: &Arguments) -> Result<ExitCode, Stop> {
    output::finish(&text(arguments).map_err(|message| output::fail(UNUSABLE, message))?)
}

fn text(arguments: &Arguments) -> Result<String, String> {
    let name = &arguments.scheduler;
    let path = Path::new(name);
    let found = fairground_catalog::find(name);
    let is_file = found.is_err() && path.exists();
    let is_own = match is_file {
        true => path.is_dir() || (path.is_file() && contents::is_source(path)),
        // Sources joined by '+', or one table of an object.
        false => found.is_err() && (name.contains(".bpf.c") || name.contains(".o#")),
    };
    let is_built = !(arguments.include.is_empty() && arguments.defines.is_empty());
    if is_built && (!is_own || schedulers::is_compiled(name)) {
        return Err(format!("{name}: -I and -D are for sources of your own, and this is none"));
    }
    if let Some(text) = load(arguments)? {
        check_asked(arguments, "load")?;
        return Ok(text);
    }
    let as_json = arguments.format == Form::Json && found.is_err() && !is_own;
    for (is_given, option, what) in [
        (as_json, "--format", "schedulers and recordings"),
        (arguments.rt_app, "--rt-app", "recordings and loads"),
        (arguments.tasks, "--tasks", "recordings"),
    ] {
        // Whether a pipe holds a recording shows when it is read.
        if is_given && !(is_file && (!path.is_file() || is_recording(path))) {
            let is = match found {
                _ if is_file => "this is none",
                Ok(_) => "this is a scheduler",
                Err(_) => "there is no such file",
            };
            return Err(format!("{name}: {option} is for {what}, and {is}"));
        }
    }
    if is_file {
        check_asked(arguments, "file")?;
    }
    if arguments.rt_app {
        return as_rt_app(path);
    }
    if let (Ok(scheduler), Some(header)) = (&found, &arguments.source) {
        return source_of(scheduler, header.as_deref()).map(str::to_owned);
    }
    match found {
        Ok(scheduler) if arguments.readme => Ok(scheduler.readme.to_string()),
        Ok(scheduler) if arguments.format == Form::Json => {
            Ok(Shown::of(&scheduler.manifest).text())
        }
        Ok(scheduler) => Ok(describe(scheduler)),
        Err(_) if is_own => own(arguments),
        // Of files that come through a pipe, only recordings are shown.
        Err(_) if is_file && (!path.is_file() || is_recording(path)) => {
            let description = recording::describe(path)?;
            Ok(match arguments.format {
                Form::Table => description.table_text(arguments.tasks),
                Form::Json => description.text(),
            })
        }
        Err(_) if is_file => contents::of(path),
        Err(error) => match contents::machine(name) {
            Ok(text) => check_asked(arguments, "machine").map(|()| text),
            // A machine is described by levels and numbers.
            Err(message) if name.contains([':', ' ']) || name.parse::<f64>().is_ok() => {
                Err(message)
            }
            Err(_) => Err(error.to_string()),
        },
    }
}

/// Checks that nothing is asked of something else that only schedulers have.
fn check_asked(arguments: &Arguments, what: &str) -> Result<(), String> {
    let name = &arguments.scheduler;
    match arguments.source.is_some() || arguments.readme {
        true => Err(format!(
            "{name}: --source and --readme are for schedulers with an id, and this is a {what}"
        )),
        false => Ok(()),
    }
}

/// A load with a name, a file with parameters, or an rt-app file that is to be printed; `None` if it is none of these.
fn load(arguments: &Arguments) -> Result<Option<String>, String> {
    let path = Path::new(&arguments.scheduler);
    let wanted = loads::Wanted::parse(path)?;
    let is_rt_app = wanted.path.extension().is_some_and(|ending| ending == "json");
    let is_file = is_rt_app && wanted.path.is_file();
    let is_plain = arguments.rt_app || arguments.format != Form::Json;
    if arguments.tasks || !is_plain || (wanted.named().is_none() && !is_file) {
        return Ok(None);
    }
    let template = wanted.template().map_err(|error| error.to_string())?;
    let filled = wanted.arguments(contents::LOAD_CPUS);
    let text = match arguments.rt_app {
        true => template.fill(&filled).map(|draft| draft.text()),
        false => contents::load(&template, &filled),
    };
    text.map(Some).map_err(|error| error.to_string())
}

/// Describes a scheduler of the user's own.
fn own(arguments: &Arguments) -> Result<String, String> {
    let build = schedulers::build(&arguments.include, &arguments.defines);
    let build = build.map_err(|error| error.to_string())?;
    let contender = Contender::open(&arguments.scheduler, &build);
    let contender = contender.map_err(|error| error.to_string())?;
    let entry = contender.entry().ok_or("there is no scheduler")?;
    match arguments.format {
        Form::Json => Ok(Shown::of(&entry.manifest).text()),
        Form::Table => contents::scheduler(&contender, entry),
    }
}

/// The text of a scheduler's source, or of the `header` that is named.
fn source_of<'s>(scheduler: &'s Scheduler, header: Option<&str>) -> Result<&'s str, String> {
    let Some(name) = header else { return Ok(&scheduler.source) };
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
    let load = load.map_err(|error| error.to_string())?;
    let text = rt_app(&load.workload)?;
    let turns = load.others.iter().flat_map(|thread| &thread.turns);
    let used: u64 = turns.map(|turn| turn.cpu_time).sum();
    if used > 0 {
        output::say!(
            "fairground: {}: the file leaves out the {} other threads that were recorded, which used {:.3} s of CPU time; the recording itself has them",
            path.display(),
            load.others.len(),
            used as f64 / 1e9
        );
    }
    Ok(text)
}

/// The document that `fairground show ID|SOURCE --format json` prints. Of a scheduler of your own only the id and the tunables are known, unless there
/// is a `scheduler.toml` beside it; everything else is then empty.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Scheduler")]
pub struct Shown<'a> {
    /// Version of this form.
    version: u32,
    /// Version of fairground, with its commit.
    fairground: &'static str,
    /// Its id.
    id: &'a str,
    /// Its description.
    title: &'a str,
    /// Year it appeared; 0 if that is not known.
    year: u32,
    /// Family it belongs to.
    lineage: &'a str,
    /// The document it was written from.
    source_document: &'a str,
    /// Where it came from.
    history: &'a str,
    /// How it works.
    algorithm: &'a str,
    /// Task attributes that it reads.
    attributes: &'a [String],
    /// The values that may be set before it is loaded.
    tunables: Vec<ShownTunable<'a>>,
    /// Its counters.
    counters: Vec<ShownCounter<'a>>,
}

/// A tunable. Values are in its unit.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ShownTunable<'a> {
    /// Its name.
    name: &'a str,
    /// Its type in C.
    r#type: &'static str,
    /// Its unit; empty for a plain number.
    unit: &'a str,
    /// Its value if it is not set.
    default: Option<Number>,
    /// Its smallest value; `null` for a variable of which no manifest says that.
    minimum: Option<Number>,
    /// Its largest value, likewise.
    maximum: Option<Number>,
    /// The names of the values from the smallest on, if they have names.
    choices: &'a [String],
    /// Its effect.
    doc: &'a str,
}

/// A counter.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ShownCounter<'a> {
    /// Its name.
    name: &'a str,
    /// The thing that it counts.
    doc: &'a str,
}

impl Document for Shown<'_> {
    const COMMAND: &'static str = "show-scheduler";
    const VERSION: u32 = 1;
}

impl<'a> Shown<'a> {
    fn of(manifest: &'a Manifest) -> Self {
        let tunables = manifest.tunables.iter();
        let counters = manifest.statistics.iter();
        Self {
            version: Self::VERSION,
            fairground: VERSION,
            id: &manifest.id,
            title: &manifest.title,
            year: manifest.year,
            lineage: &manifest.lineage,
            source_document: &manifest.source_document,
            history: &manifest.history,
            algorithm: &manifest.algorithm,
            attributes: &manifest.attributes,
            tunables: tunables.map(ShownTunable::of).collect(),
            counters: counters
                .map(|counter| ShownCounter { name: &counter.name, doc: &counter.doc })
                .collect(),
        }
    }
}

impl<'a> ShownTunable<'a> {
    fn of(tunable: &'a Tunable) -> Self {
        // Every manifest has a text for each of its tunables.
        let is_described = !tunable.doc.is_empty();
        let limit = |value| Some(value).filter(|_| is_described).and_then(Number::from_i128);
        Self {
            name: &tunable.name,
            r#type: tunable.integer_type.name(),
            unit: tunable.unit.suffix(),
            default: Number::from_i128(tunable.default),
            minimum: limit(tunable.minimum),
            maximum: limit(tunable.maximum),
            choices: &tunable.choices,
            doc: &tunable.doc,
        }
    }
}

fn describe(scheduler: &Scheduler) -> String {
    let manifest = &scheduler.manifest;
    let mut text = format!("{}: {} ({})\n", manifest.id, manifest.title, manifest.year);
    let mut section = |heading: &str, body: &str| {
        text.push_str(&format!("\n{heading}\n"));
        text.push_str(body);
    };
    section("Lineage", &wrap(&manifest.lineage, WIDTH, 2));
    section("Source document", &wrap(&manifest.source_document, WIDTH, 2));
    section("History", &wrap(&manifest.history, WIDTH, 2));
    section("Algorithm", &wrap(&manifest.algorithm, WIDTH, 2));
    let tunables = contents::tunables(manifest);
    section(&format!("Tunables (--set {}.NAME=VALUE)", manifest.id), &tunables);
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
    let headers = scheduler.headers.iter().copied();
    for (name, header) in headers.filter_map(fairground_catalog::header) {
        source.push_str(&format!(
            "  {} ({} lines; --source={name})\n",
            scheduler.source_file.with_file_name(name).display(),
            header.lines().count()
        ));
    }
    section("Source", &source);
    text
}
