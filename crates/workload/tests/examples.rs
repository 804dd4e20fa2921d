//! The examples of Debian's `rt-app` package read as they are, or fail for rt-app's own reason.

use std::path::{Path, PathBuf};

use fairground_workload::{Event, Workload};

const EXAMPLES: &str = "/usr/share/doc/rt-app/examples";

/// The folder of the examples; without it the test says so and checks nothing.
fn examples() -> Option<PathBuf> {
    let folder = PathBuf::from(EXAMPLES);
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("skipped: {EXAMPLES} is absent; install Debian's rt-app package to run this test");
    None
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else if path.extension().is_some_and(|suffix| suffix == "json") {
            files.push(path);
        }
    }
    files.sort();
    files
}

#[test]
fn all_examples_but_the_old_language_read() {
    let Some(folder) = examples() else { return };
    let mut read = 0;
    for path in files(&folder) {
        let parts = path.parent().is_some_and(|p| p.ends_with("merge"));
        match Workload::read(&path) {
            Ok(workload) => {
                assert!(!parts, "{} is not a workload", path.display());
                assert!(workload.task_count() > 0, "{}", path.display());
                read += 1;
            }
            Err(error) => assert!(parts, "{error}"),
        }
    }
    // 6 of applications, spreading-tasks, template, 2 of cpufreq_governor_efficiency, 8 of the tutorial.
    assert!(read >= 18, "only {read} examples were read");
}

#[test]
fn files_of_the_old_language_say_so() {
    let Some(folder) = examples() else { return };
    let message = |path: &str| Workload::read(folder.join(path)).expect_err(path).to_string();
    let error = message("merge/thread0.json");
    assert!(
        error.ends_with(
            "thread0.json:4:10: tasks.thread0.exec: belongs to the language before rt-app 1.0, which \
             rt-app no longer runs; write the events out, such as \"run\" : 1000, \
             \"timer\" : { \"ref\" : \"unique\", \"period\" : 10000 }"
        ),
        "{error}"
    );
    assert!(message("../taskset.json").contains("tasks.ThreadA.exec: belongs to the language"));
    assert!(message("merge/resources.json").contains("there is no `tasks` object"));
    assert!(message("merge/global.json").contains("there is no `tasks` object"));
}

#[test]
fn repeated_events_stay_separate_and_in_order() {
    let Some(folder) = examples() else { return };
    let workload = Workload::read(folder.join("mp3-short.json")).unwrap();
    assert_eq!(workload.duration, Some(6_000_000_000));
    let audio_out = workload.tasks.iter().find(|t| t.name == "AudioOut").unwrap();
    let condition = |name: &str| workload.conditions.iter().position(|c| c == name).unwrap();
    assert_eq!(
        audio_out.phases[0].events,
        [
            Event::Run(275_000),
            Event::Resume(condition("AudioTrack")),
            Event::Run(4_725_000),
            Event::Suspend(condition("AudioOut")),
        ]
    );
    let repeated = workload.notes.iter().find(|note| note.contains("as workgen does"));
    let repeated = repeated.expect("repeated keys are said");
    assert!(repeated.contains("mp3-short.json:24:4: tasks.AudioOut.run: "), "{repeated}");
    assert!(workload.notes.iter().any(|note| note.contains("global.frag")));
}

#[test]
fn suspend_without_a_value_takes_the_name_of_its_task() {
    let Some(folder) = examples() else { return };
    let workload = Workload::read(folder.join("video-short.json")).unwrap();
    let task = |name: &str| workload.tasks.iter().find(|t| t.name == name).unwrap();
    let suspends_on = |name: &str| {
        let mut events = task(name).phases.iter().flat_map(|one| one.events.iter());
        events.find_map(|event| match event {
            Event::Suspend(condition) => Some(workload.conditions[condition].as_str()),
            _ => None,
        })
    };
    assert_eq!(suspends_on("surfaceflinger"), Some("surfaceflinger"));
    // Both threads wait under the name they share, as in rt-app 1.0.
    for event_thread in ["EventThread1", "EventThread2"] {
        assert_eq!(suspends_on(event_thread), Some("EventThread"));
    }
    assert!(workload.notes.iter().any(|n| n.contains("without a value")));
    assert!(workload.notes.iter().any(|n| n.contains("waits under the name written")));
}

#[test]
fn repeated_phases_stay_separate() {
    let Some(folder) = examples() else { return };
    let workload = Workload::read(folder.join("spreading-tasks.json")).unwrap();
    let phases: Vec<_> =
        workload.tasks[1].phases.iter().map(|phase| (phase.name.as_str(), phase.loops)).collect();
    assert_eq!(
        phases,
        [
            ("light1", Some(900)),
            ("heavy1", Some(600)),
            ("light2", Some(300)),
            ("heavy1", Some(600)),
        ]
    );
    assert!(workload.notes.iter().any(|n| n.contains("one more phase")));
}

#[test]
fn a_phase_without_cpus_falls_back_to_the_task() {
    let Some(folder) = examples() else { return };
    let workload = Workload::read(folder.join("tutorial/example8.json")).unwrap();
    let task = &workload.tasks[0];
    assert_eq!(task.cpus_in(0), Some(&[0][..]));
    assert_eq!(task.cpus_in(1), Some(&[1][..]));
    assert_eq!(task.cpus_in(2), Some(&[2][..]));
}
