//! The language beyond rt-app's: events and settings under keys that begin with `fairground`. Their faults are in `refused.txt`.

use std::collections::BTreeMap;

use fairground_workload::{
    Drive, Elevator, Event, Factor, Mutex, Pipe, PipeKind, Place, Source, TimerMode, Variation,
    Workload,
};

fn read(text: &str) -> Workload {
    Workload::parse("w.json", text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

/// The only event of a task whose key is `fairground1`.
fn event(text: &str) -> (Workload, Event) {
    let text = format!(r#"{{ "tasks": {{ "t": {{ "run": 1, "fairground1": {text} }} }} }}"#);
    let workload = read(&text);
    let event = workload.tasks[0].phases[0].events.get(1).expect("there are two");
    (workload, event)
}

#[test]
fn events_are_read_in_order_with_those_of_rt_app() {
    let workload = read(
        r#"{ "tasks": { "t": { "phases": { "p": {
            "fairground0": { "pipe_read": { "pipe": "ring", "bytes": 4 } }, "run": 2,
            "fairground_out": { "pipe_write": { "pipe": "back", "bytes": 8192 } } } } } } }"#,
    );
    assert_eq!(
        workload.tasks[0].phases[0].events,
        [
            Event::PipeRead { pipe: 0, bytes: 4 },
            Event::Run(2_000),
            Event::PipeWrite { pipe: 1, bytes: 8192 },
        ]
    );
    let capacity = Pipe::CAPACITY;
    let pipes =
        ["ring", "back"].map(|name| Pipe { name: name.into(), kind: PipeKind::Paged { capacity } });
    assert_eq!(workload.pipes, pipes);
    assert_eq!(workload.notes.len(), 2, "{:?}", workload.notes);
}

#[test]
fn laps_disks_and_memory() {
    let laps = read(
        r#"{ "tasks": { "t": { "fairground1": { "lap": "begin" }, "run": 1, "fairground2": { "lap": "end" } } } }"#,
    );
    let events = &laps.tasks[0].phases[0].events;
    assert_eq!(events.get(0), Some(Event::Lap { begins: true }));
    assert_eq!(events.get(2), Some(Event::Lap { begins: false }));
    assert!(laps.notes.is_empty());

    let pinned = read(
        r#"{ "tasks": { "t": { "fairground1": { "migration": "disable" }, "run": 1, "fairground2": { "migration": "enable" } } } }"#,
    );
    let events = &pinned.tasks[0].phases[0].events;
    assert_eq!(events.get(0), Some(Event::Migration { enable: false }));
    assert_eq!(events.get(2), Some(Event::Migration { enable: true }));
    assert!(pinned.notes.is_empty());

    let (workload, plain) = event(r#"{ "disk": 8000 }"#);
    assert_eq!(plain, Event::Disk { disk: 0, service: 8_000_000 });
    assert_eq!(workload.disks, ["disk"]);
    let (workload, named) = event(r#"{ "disk": { "disk": "sda", "service": 3 } }"#);
    assert_eq!(named, Event::Disk { disk: 0, service: 3_000 });
    assert_eq!(workload.disks, ["sda"]);

    let (_, evict) = event(r#"{ "evict": { "memory": "ram" } }"#);
    assert_eq!(evict, Event::Evict { memory: 0, pages: 1 });
    let (workload, fault) =
        event(r#"{ "fault": { "memory": "ram", "service": 8000, "most": 3 } }"#);
    let expected =
        Event::Fault { memory: 0, source: Source::Disk { disk: 0, service: 8_000_000 }, most: 3 };
    assert_eq!(fault, expected);
    assert_eq!(workload.memories, ["ram"]);
    assert!(workload.notes[0].contains("nothing ever evicts"), "{:?}", workload.notes);
}

#[test]
fn timers_have_one_mode_more() {
    let (workload, timer) =
        event(r#"{ "timer": { "ref": "unique", "period": 16666, "mode": "skip" } }"#);
    let expected = Event::Timer { timer: 0, period: 16_666_000, mode: TimerMode::Skip };
    assert_eq!(timer, expected);
    assert!(workload.timers[0].unique);
}

#[test]
fn pipes_whose_names_begin_alike_have_one_setting() {
    let workload = read(
        r#"{ "fairground": { "pipes": { "to*": { "socket": 1 }, "top": { "release": "2.6" }, "back": { "socket": 0 } } },
            "tasks": { "t": { "instance": 2, "phases": { "p": { "run": 1,
                "fairground1": { "pipe_write": { "pipe": "to%i", "bytes": 1 } },
                "fairground2": { "pipe_read": { "pipe": "to%i", "bytes": 1 } },
                "fairground3": { "pipe_write": { "pipe": "back", "bytes": 1 } },
                "fairground4": { "pipe_read": { "pipe": "back", "bytes": 1 } },
                "fairground5": { "pipe_write": { "pipe": "top", "bytes": 1 } },
                "fairground6": { "pipe_read": { "pipe": "top", "bytes": 1 } } } } } } }"#,
    );
    let pipes = workload.pipes.iter();
    let mut kinds: Vec<(&str, PipeKind)> = pipes.map(|pipe| (&*pipe.name, pipe.kind)).collect();
    kinds.sort_by_key(|(name, _)| *name);
    let capacity = Pipe::CAPACITY;
    let expected = [
        ("back", PipeKind::Paged { capacity }),
        ("to0", PipeKind::Socket),
        ("to1", PipeKind::Socket),
        ("top", PipeKind::Early),
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn settings_of_mutexes_and_pipes() {
    let workload = read(
        r#"{ "fairground": { "mutexes": { "m": { "spin": 2 } }, "pipes": { "p": { "capacity": 4096 } } },
            "tasks": { "t": { "lock": "m", "lock2": "n", "unlock": "m", "unlock2": "n",
                "fairground1": { "pipe_write": { "pipe": "p", "bytes": 1 } } },
                "r": { "fairground1": { "pipe_read": { "pipe": "p", "bytes": 1 } } } } }"#,
    );
    let mutex = |name: &str, spin| Mutex { name: name.into(), spin };
    assert_eq!(workload.mutexes, [mutex("m", 2_000), mutex("n", 0)]);
    let kind = PipeKind::Paged { capacity: 4096 };
    assert_eq!(workload.pipes[0].kind, kind);
}

#[test]
fn drives_have_settings() {
    let workload = read(
        r#"{ "fairground": { "drives": { "sda": { "positioning": 9, "rate": 0.5, "read_ahead": 8192, "memory": 1048576, "elevator": "deadline" } } },
            "tasks": { "t": { "fairground1": { "read": { "drive": "sda", "bytes": 4096 } },
                "fairground2": { "write": { "bytes": 1, "place": "new" } },
                "fairground3": { "evict": { "memory": "ram" } },
                "fairground4": { "fault": { "memory": "ram", "bytes": 2, "drive": "sda" } } } } }"#,
    );
    assert_eq!(
        workload.tasks[0].phases[0].events,
        [
            Event::Read { drive: 0, bytes: 4096, place: Place::Next },
            Event::Write { drive: 1, bytes: 1, place: Place::New },
            Event::Evict { memory: 0, pages: 1 },
            Event::Fault { memory: 0, source: Source::Drive { drive: 0, bytes: 2 }, most: 1 },
        ]
    );
    let set = Drive {
        name: "sda".into(),
        positioning: 9_000,
        rate: 500_000,
        read_ahead: 8192,
        memory: 1 << 20,
        elevator: Elevator::Deadline,
    };
    assert_eq!(workload.drives[0], set);
    assert_eq!(workload.drives[1].elevator, Elevator::Anticipatory);
    assert!(workload.notes.is_empty(), "{:?}", workload.notes);
}

#[test]
fn variations_belong_to_events() {
    let workload = read(
        r#"{ "tasks": { "t": {
            "fairground": { "process": "p", "vary": { "run": { "uniform": [0.5, 1.5] }, "run_job": { "lognormal": 0.8 },
                "fairground_disk": { "exponential": 1, "chance": 0.25 }, "sleep_pipe": { "chance": 5e-2 } } },
            "phases": { "a": { "run": 1, "run_job": 2 }, "b": { "run2": 1, "run": 3, "sleep_pipe": 4, "fairground_disk": { "disk": 5 } } } } } }"#,
    );
    let varied = |phase: usize| workload.tasks[0].phases[phase].variations.clone();
    let factor = |factor| Variation { factor: Some(factor), chance: None };
    let uniform = factor(Factor::Uniform(0.5, 1.5));
    let first = BTreeMap::from([(0, uniform), (1, factor(Factor::LogNormal(0.8)))]);
    assert_eq!(varied(0), first);
    let chance = |factor, chance| Variation { factor, chance: Some(chance) };
    let second = BTreeMap::from([
        (1, uniform),
        (2, chance(None, 0.05)),
        (3, chance(Some(Factor::Exponential(1.0)), 0.25)),
    ]);
    assert_eq!(varied(1), second);
}

#[test]
fn who_only_reads_waits_for_others() {
    read(
        r#"{ "tasks": { "t": { "fairground2": { "pipe_read": { "pipe": "p", "bytes": 4 } } } } }"#,
    );
}

#[test]
fn the_next_timer_is_found_round_the_program() {
    let workload = read(
        r#"{ "tasks": { "t": { "phases": {
            "a": { "run": 1, "timer": { "ref": "unique", "period": 10 } },
            "b": { "loop": 2, "run": 1, "timer": { "ref": "unique", "period": 20 }, "run2": 1 },
            "c": { "run": 1 } } },
            "none": { "run": 1 } } }"#,
    );
    let task = &workload.tasks[0];
    let next = |phase, event| task.next_period(phase, event);
    assert_eq!(next(0, 0), Some(10_000));
    assert_eq!(next(0, 2), Some(20_000));
    // It may go through its phase again, or to the end and begin anew; a loop promises the former.
    assert_eq!(next(1, 2), Some(20_000));
    assert_eq!(next(2, 0), Some(10_000));
    assert_eq!(workload.tasks[1].next_period(0, 0), None);
}

#[test]
fn requests_have_services_and_may_come_from_outside() {
    let workload = read(
        r#"{
        "fairground": {
            "arrivals": { "front": { "rate": 2000, "exponential": 1, "burst": 4, "cpus": [1] } },
            "barriers": { "b": { "spin": 30 } }
        },
        "tasks": {
            "asker": { "run": 1, "fairground1": { "ask": "back" } },
            "front": { "fairground1": { "take": "front" }, "fairground2": { "pass": "back" } },
            "back": { "fairground1": { "take": ["front", "back"] }, "fairground2": { "answer": "" } },
            "pair": { "instance": 2, "fairground": { "daemon": true }, "run": 1, "barrier": "b" }
        } }"#,
    );
    assert_eq!(workload.services, ["back", "front"]);
    assert_eq!(workload.choices, [vec![1], vec![1, 0]]);
    let events = |task: usize| workload.tasks[task].phases[0].events.clone();
    assert_eq!(events(0), [Event::Run(1000), Event::Ask(0)]);
    assert_eq!(events(1), [Event::Take(0), Event::Pass(0)]);
    assert_eq!(events(2), [Event::Take(1), Event::Answer]);
    let arrivals = &workload.arrivals[0];
    assert_eq!((arrivals.service, arrivals.interval, arrivals.burst), (1, 2_000_000, 4));
    assert_eq!(arrivals.factor, Some(Factor::Exponential(1.0)));
    assert_eq!(arrivals.cpus, Some(vec![1]));
    assert_eq!((workload.barriers[0].spin, workload.barriers[0].parties), (30_000, 2));
    let daemons: Vec<bool> = workload.tasks.iter().map(|task| task.daemon).collect();
    assert_eq!(daemons, [false, false, false, true]);
    assert!(workload.notes.is_empty(), "{:?}", workload.notes);
}
