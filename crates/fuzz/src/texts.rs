//! Files that people write.

use std::str::from_utf8;

use fairground_catalog::Manifest;
use fairground_lab::Experiments;
use fairground_machine::Machine;
use fairground_simulator::CostModel;
use fairground_workload::Workload;

use crate::check_message;

/// rt-app files.
pub fn workload(bytes: &[u8]) {
    let Ok(text) = from_utf8(bytes) else { return };
    match Workload::parse("fuzz.json", text) {
        Ok(workload) => workload.notes.iter().for_each(|note| check_message(note)),
        Err(error) => check_message(&error.to_string()),
    }
}

/// Numbers of CPUs and hwloc's synthetic descriptions.
pub fn machine(bytes: &[u8]) {
    let Ok(text) = from_utf8(bytes) else { return };
    let name = text.trim().to_ascii_lowercase();
    if name == "host" || name.ends_with(".xml") || name.ends_with(".toml") {
        return;
    }
    check_machine(Machine::parse(text));
}

/// hwloc's XML files.
pub fn hwloc(bytes: &[u8]) {
    let Ok(text) = from_utf8(bytes) else { return };
    check_machine(Machine::parse_xml("fuzz.xml", text));
}

/// Machines as TOML files.
pub fn machine_file(bytes: &[u8]) {
    let Ok(text) = from_utf8(bytes) else { return };
    check_machine(Machine::parse_toml("fuzz.toml", text));
}

fn check_machine(parsed: Result<Machine, fairground_machine::Error>) {
    let machine = match parsed {
        Ok(machine) => machine,
        Err(error) => return check_message(&error.to_string()),
    };
    let count = machine.cpu_count();
    assert!((1..=Machine::CPUS_MAX).contains(&count), "{count} CPUs");
    check_message(&machine.to_string());
    let nodes = machine.nodes();
    assert_eq!(machine.node_distances.len(), nodes.len() * nodes.len());
    assert_eq!(machine.numbers.len(), count);
    assert!(machine.numbers.is_sorted_by(|one, next| one < next));
    for (number, cpu) in machine.cpus.iter().enumerate() {
        assert!(machine.siblings(number).any(|one| one == number));
        assert!(
            (1..=1024).contains(&cpu.capacity),
            "CPU {number} has a capacity of {}",
            cpu.capacity
        );
    }
}

/// Cost models.
pub fn cost(bytes: &[u8]) {
    let Ok(text) = from_utf8(bytes) else { return };
    match CostModel::parse("fuzz", text) {
        Ok(model) => {
            let written = model.to_toml();
            let again = CostModel::parse("fuzz", &written);
            let again = again.unwrap_or_else(|error| panic!("{error:?} in {written}"));
            assert_eq!(again.to_toml(), written);
        }
        Err(error) => check_message(&error.message),
    }
}

/// Manifests of schedulers.
pub fn manifest(bytes: &[u8]) {
    let Ok(text) = from_utf8(bytes) else { return };
    if let Err(error) = Manifest::parse(text, "scheduler.toml") {
        check_message(&error.to_string());
    }
}

/// Descriptions of experiments.
pub fn experiment(bytes: &[u8]) {
    open_experiment(bytes, b"");
}

/// Descriptions of machines, with the additional costs of an experiment.
pub fn description(bytes: &[u8]) {
    const EXPERIMENT: &str = "title = 'a'\ndocument = 'b'\nsection = 'c'\nmachine = 'fuzz'\nworkload = 'd'\ncost = { tick = 5 }\n\
        [[column]]\nscheduler = 'o1'\n[[measure]]\nname = 'e'\ntitle = 'f'\nvalue = '1.0'\n";
    open_experiment(EXPERIMENT.as_bytes(), bytes);
}

fn open_experiment(experiment: &[u8], machine: &[u8]) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let (path, machines) = (folder.path().join("fuzz"), folder.path().join("machines"));
    std::fs::create_dir(&path).expect("a folder can be made in it");
    std::fs::create_dir(&machines).expect("another, too");
    std::fs::write(path.join("experiment.toml"), experiment).expect("a file can be written there");
    std::fs::write(machines.join("fuzz.toml"), machine).expect("another, too");
    let opened = Experiments::open(&path.to_string_lossy());
    if let Err(error) = opened.and_then(|experiment| experiment.check_machines()) {
        check_message(&error.to_string());
    }
}
