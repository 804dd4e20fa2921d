//! The project's own workloads.

use std::path::PathBuf;

use fairground_workload::{Event, Workload};

fn workloads() -> Vec<Workload> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|suffix| suffix == "json"))
        .collect();
    files.sort();
    files
        .iter()
        .map(|file| Workload::read(file).unwrap_or_else(|error| panic!("{error}")))
        .collect()
}

#[test]
fn they_read_without_notes_and_end() {
    let workloads = workloads();
    let names: Vec<_> = workloads.iter().map(|w| w.name.as_str()).collect();
    for needed in [
        "hogs-five",
        "hogs-five-top",
        "hogs-nice",
        "hogs-three",
        "lock-contention",
        "mix-two",
        "periodic-hogs",
        "wakeup-chain",
    ] {
        assert!(names.contains(&needed), "{needed} is not among {names:?}");
    }
    for workload in &workloads {
        assert_eq!(workload.notes, [""; 0], "{}", workload.name);
        assert_eq!(workload.duration, Some(10_000_000_000), "{}", workload.name);
    }
}

#[test]
fn they_keep_to_what_rt_app_1_0_executes() {
    for workload in workloads() {
        for task in &workload.tasks {
            assert!(task.taskgroup.is_none(), "{}: {}", workload.name, task.name);
            for event in task.phases.iter().flat_map(|phase| phase.events.iter()) {
                let newer = matches!(
                    event,
                    Event::Fork(_) | Event::SemPost(_) | Event::SemWait(_) | Event::MemRun { .. }
                );
                assert!(!newer, "{}: {}: {event:?}", workload.name, task.name);
            }
        }
        // rt-app 1.0 counts barriers by references alone.
        for task in workload.tasks.iter().filter(|task| task.instances > 1) {
            let mut events = task.phases.iter().flat_map(|phase| phase.events.iter());
            assert!(!events.any(|event| matches!(event, Event::Barrier(_))), "{}", workload.name);
        }
    }
}

#[test]
fn the_chain_starts_together() {
    let workloads = workloads();
    let chain = workloads.iter().find(|w| w.name == "wakeup-chain").unwrap();
    assert_eq!(chain.barriers.len(), 1);
    assert_eq!(chain.barriers[0].parties, 4);
    assert_eq!(chain.task_count(), 5);
}

#[test]
fn the_examples_of_the_readme_are_workloads() {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads/README.md");
    let text = std::fs::read_to_string(readme).unwrap();
    let mut seen = 0;
    for block in text.split("```json\n").skip(1) {
        let (example, _) = block.split_once("```").unwrap();
        let workload =
            Workload::parse("example", example).unwrap_or_else(|error| panic!("{error}"));
        assert!(workload.notes.is_empty(), "{:?}", workload.notes);
        seen += 1;
    }
    assert!(seen >= 2);
}
