//! Describes in words the contents of files: schedulers of the user's own, workloads, machines, cost models, companions.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;

use fairground_catalog::{Manifest, Scheduler};
use fairground_companion::Companion;
use fairground_lab::{Contender, costs_of, length_of};
use fairground_machine::Machine;
use fairground_recording::counted;
use fairground_workload::{Arguments, Error, Task, Template, Workload};

use crate::output::{WIDTH, columns, wrap};
use crate::simulation::USUAL_MACHINE;

/// CPUs of the machine on which loads are shown, unless the user says `cpus=N`: as many as a simulation has without `--machine`.
pub const LOAD_CPUS: u32 = 4;
/// Machines with more CPUs than this are only counted.
const MOST_CPUS: usize = 64;

/// Whether a file is a scheduler's source or object.
pub fn is_source(path: &Path) -> bool {
    let name = path.to_string_lossy();
    let mut first = [0; 4];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut first));
    name.ends_with(".c") || (read.is_ok() && first == *b"\x7fELF")
}

/// The content of a file that is neither a scheduler nor a recording. Its ending says how it is read.
pub fn of(path: &Path) -> Result<String, String> {
    let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
    match ending.as_deref().and_then(|ending| ending.to_str()) {
        Some("xml") => machine(&path.display().to_string()),
        Some("toml") => settings(path),
        _ => {
            let mut first = [0; 8];
            let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut first));
            if read.is_ok() && first == *b"PERFILE2" {
                return Err(format!(
                    "{}: a file of perf; `fairground import` makes a recording of it",
                    path.display()
                ));
            }
            workload(path).map_err(|error| {
                format!(
                    "{}: no recording, no source or object of a scheduler, and its name ends in none of .json (workload), .xml (machine) \
                     and .toml (machine, cost model, companion); read as a workload: {error}",
                    path.display()
                )
            })
        }
    }
}

/// A scheduler of the user's own, with its loader's actions.
pub fn scheduler(contender: &Contender, entry: &Scheduler) -> Result<String, String> {
    let mut text = format!(
        "{}: a scheduler of your own, {} for the kernel\n",
        entry.id(),
        contender.kernel_name()
    );
    if !entry.warnings.trim().is_empty() {
        let _ = writeln!(text, "\nWarnings of the compiler\n{}", entry.warnings.trim_end());
    }
    let _ =
        write!(text, "\nTunables (--set {}.NAME=VALUE)\n{}", entry.id(), tunables(&entry.manifest));
    text.push_str("\nCompanion\n");
    match contender.companion() {
        Some(companion) if !companion.scheduler().is_empty() => {
            text.push_str(&companion_text(companion));
        }
        _ => text.push_str("  none: nothing is known about what its loader sets\n"),
    }
    let _ = write!(text, "\nKernels\n{}", kernels(contender)?);
    let _ = writeln!(text, "\nSource\n  {}", entry.source_file.display());
    Ok(text)
}

/// Which releases of Linux load a scheduler, and the obstacles under the others.
fn kernels(contender: &Contender) -> Result<String, String> {
    let usual = Machine::parse(USUAL_MACHINE).map_err(|error| error.to_string())?;
    let verdicts = match contender.examine(&usual) {
        Ok(verdicts) => verdicts,
        Err(error) => return Ok(wrap(&format!("not known: {error}"), WIDTH, 2)),
    };
    let mut text = String::new();
    let mut rest = &verdicts[..];
    while let [(first, verdict), ..] = rest {
        let alike = rest.iter().take_while(|(_, other)| other == verdict);
        let (alike, after) = rest.split_at(alike.count());
        let releases = match alike {
            [_] => first.to_string(),
            [.., (last, _)] => format!("{first} to {last}"),
            [] => String::new(),
        };
        let says = match (&verdict.obstacles[..], &verdict.unknown[..]) {
            ([], []) => format!("Linux {releases}: loads"),
            ([], unknown) => {
                format!("Linux {releases}: loads, as far as is known: {}", unknown.join("; "))
            }
            (obstacles, _) => format!("Linux {releases}: does not load: {}", obstacles.join("; ")),
        };
        text.push_str(&wrap(&says, WIDTH, 2));
        rest = after;
    }
    Ok(text)
}

fn workload(path: &Path) -> Result<String, String> {
    let arguments = Arguments { cpus: Some(LOAD_CPUS), ..Arguments::default() };
    let template = Template::read(path).and_then(|template| load(&template, &arguments));
    template.map_err(|error| error.to_string())
}

/// A load: its description of itself, its parameters, and its tasks as they are with these arguments.
pub fn load(template: &Template, arguments: &Arguments) -> Result<String, Error> {
    let workload = template.workload(arguments)?;
    let mut text = workload_text(&workload);
    if let Some(doc) = template.doc() {
        let head = text.find('\n').unwrap_or(text.len());
        text.insert_str(head, &format!("\n\n{}", wrap(doc, WIDTH, 2).trim_end()));
    }
    if template.parameters().is_empty() {
        return Ok(text);
    }
    text.push_str("\nParameters (NAME:PARAMETER=VALUE,...)\n");
    let rows = { template.parameters().iter() }.map(|parameter| {
        vec![
            format!("  {} = {}", parameter.name, parameter.default_text()),
            parameter.range(),
            parameter.doc.clone(),
        ]
    });
    text.push_str(&columns(&rows.collect::<Vec<_>>(), 3));
    Ok(text)
}

/// A workload: its tasks, and remarks about it.
fn workload_text(workload: &Workload) -> String {
    let seconds = |time: u64| format!("{} s", time as f64 / 1e9);
    let length = match (workload.duration, length_of(workload, None)) {
        (Some(duration), _) => seconds(duration),
        (None, Some(usual)) => format!("without an end, so {} if -d says no other", seconds(usual)),
        (None, None) => "until its tasks end".to_owned(),
    };
    let instances = workload.tasks.iter().map(|task| u64::from(task.instances));
    let mut text = format!(
        "{}: a workload, {length}, {} at its start\n\n",
        workload.name,
        counted(instances.sum(), "task", "tasks")
    );
    let mut rows = vec![vec![
        "task".to_owned(),
        "policy".to_owned(),
        "CPUs".to_owned(),
        "instances".to_owned(),
        "phases".to_owned(),
        "events".to_owned(),
    ]];
    rows.extend(workload.tasks.iter().map(task_row));
    text.push_str(&columns(&rows, 3));
    for note in &workload.notes {
        let _ = write!(text, "\n{}", wrap(&format!("Note: {note}"), WIDTH, 0));
    }
    text
}

fn task_row(task: &Task) -> Vec<String> {
    let cpus = task.cpus.as_ref().map(|cpus| {
        let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
        cpus.join(",")
    });
    let events: usize = task.phases.iter().map(|phase| phase.events.len()).sum();
    vec![
        task.name.clone(),
        task.policy.to_string(),
        cpus.unwrap_or_else(|| "all".to_owned()),
        task.instances.to_string(),
        task.phases.len().to_string(),
        events.to_string(),
    ]
}

/// A machine: a description, or a file of hwloc.
pub fn machine(description: &str) -> Result<String, String> {
    let machine = Machine::parse(description).map_err(|error| error.to_string())?;
    let mut text = format!("{description}: a machine\n\n  {machine}\n");
    if machine.cpu_count() <= MOST_CPUS {
        let heads = ["CPU", "core", "cache", "node", "package", "capacity"];
        let mut rows = vec![heads.map(str::to_owned).to_vec()];
        rows.extend(machine.cpus.iter().zip(&machine.numbers).map(|(cpu, number)| {
            let cells = [*number, cpu.core, cpu.llc, cpu.node, cpu.package, cpu.capacity];
            cells.map(|cell| cell.to_string()).to_vec()
        }));
        let _ = write!(text, "\n{}", columns(&rows, 0));
    }
    if machine.nodes().len() > 1 {
        text.push_str("\nDistances between nodes\n");
        let rows: Vec<Vec<String>> = machine
            .nodes()
            .map(|from| {
                let distance = |to| machine.node_distance(from, to).to_string();
                machine.nodes().map(distance).collect()
            })
            .collect();
        text.push_str(&columns(&rows, 0));
    }
    if !machine.origins.is_empty() {
        text.push_str("\nOrigins\n");
    }
    for (what, origin) in &machine.origins {
        let _ = write!(text, "{}", wrap(&format!("{what}: {origin}"), WIDTH, 2));
    }
    for note in &machine.notes {
        let _ = write!(text, "\n{}", wrap(&format!("Note: {note}"), WIDTH, 0));
    }
    Ok(text)
}

/// A machine, a companion or a cost model: only a machine has a topology, and only a companion names its scheduler.
fn settings(path: &Path) -> Result<String, String> {
    let name = path.display().to_string();
    let text = fairground_files::read_text(path)
        .map_err(|cause| format!("{name}: cannot be read: {cause}"))?;
    let names_scheduler = |line: &str| {
        let rest = line.trim_start().strip_prefix("scheduler");
        rest.is_some_and(|rest| rest.trim_start().starts_with('='))
    };
    if text.lines().any(|line| line.trim() == "[topology]") {
        return machine(&name);
    }
    if text.lines().any(names_scheduler) {
        let companion = Companion::read(path).map_err(|error| error.to_string())?;
        let head = format!("{name}: a companion, of the scheduler {}\n\n", companion.scheduler());
        return Ok(head + companion_text(&companion).as_str());
    }
    let rows = costs_of(&name).map_err(|error| error.to_string())?;
    let head = format!(
        "{name}: a cost model, in nanoseconds

"
    );
    Ok(head + columns(&rows, 3).as_str())
}

fn companion_text(companion: &Companion) -> String {
    let mut text = String::new();
    if !companion.from().is_empty() {
        text.push_str(&wrap(&format!("Made from {}", companion.from()), WIDTH, 2));
    }
    let rows: Vec<Vec<String>> = companion
        .options()
        .map(|(name, value)| {
            let value = match value.contains('\n') {
                true => "(computed)",
                false => value.trim_matches('"'),
            };
            vec![name.to_owned(), value.to_owned()]
        })
        .collect();
    if !rows.is_empty() {
        text.push_str("  Options of the loader, with their defaults:\n");
        text.push_str(&columns(&rows, 2));
    }
    for missing in companion.missing() {
        text.push_str(&wrap(&format!("Left out: {missing}"), WIDTH, 2));
    }
    text
}

/// The tunables, each with its default, range and meaning.
pub fn tunables(manifest: &Manifest) -> String {
    let mut tunables = String::new();
    for tunable in &manifest.tunables {
        tunables.push_str(&format!(
            "  {} = {} ({})\n",
            tunable.name,
            tunable.format_value(tunable.default),
            tunable.format_range()
        ));
        if !tunable.doc.is_empty() {
            tunables.push_str(&wrap(&tunable.doc, WIDTH, 6));
        }
    }
    if tunables.is_empty() {
        tunables.push_str("  none\n");
    }
    tunables
}
