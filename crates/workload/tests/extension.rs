//! The language beyond rt-app's: events and settings under keys that begin with `fairground`, and their faults.

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
    let event = workload.tasks[0].phases[0].events.get(1);
    let event = event.expect("there are two");
    (workload, event)
}

/// The error of a file.
fn refused(text: &str) -> String {
    match Workload::parse("w.json", text) {
        Ok(workload) => panic!("{text}\nwas accepted: {workload:#?}"),
        Err(error) => error.to_string(),
    }
}

/// Checks that the value of `fairground1` of a task is refused with these words, which begin after the path of the task.
fn refused_event(text: &str, words: &str) {
    let file = format!(r#"{{ "tasks": {{ "t": {{ "run": 1, "fairground1": {text} }} }} }}"#);
    let error = refused(&file);
    assert!(error.contains(words), "{text}: {error}");
}

/// The same for the value of `vary` of a task with a run, a sleep, a lock and its unlock.
fn refused_variation(text: &str, words: &str) {
    let file = format!(
        r#"{{ "tasks": {{ "t": {{ "run": 1, "sleep": 1, "lock": "m", "unlock": "m",
            "fairground": {{ "vary": {text} }} }} }} }}"#
    );
    let error = refused(&file);
    assert!(error.contains(words), "{text}: {error}");
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
    let error = refused(
        r#"{ "tasks": { "t": { "run": 1, "timer": { "ref": "u", "period": 1, "mode": "skip" } } } }"#,
    );
    assert!(error.contains("write \"relative\" or \"absolute\""), "{error}");
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
    for (settings, words) in [
        (r#"{ "mutexes": { "x": {} } }"#, "no event uses a mutex of this name"),
        (r#"{ "pipes": { "x": {} } }"#, "no event uses a pipe of this name"),
        (
            r#"{ "pipes": { "p": { "release": "2.4" } } }"#,
            "the pipes of this release are not known",
        ),
        (
            r#"{ "pipes": { "p": { "release": "2.6", "capacity": 1 } } }"#,
            "a pipe of 2.6 holds 4096 bytes",
        ),
        (
            r#"{ "pipes": { "p": { "socket": 1, "capacity": 1 } } }"#,
            "a socket holds what fits into 212992 bytes",
        ),
        (
            r#"{ "pipes": { "p": { "socket": 1, "release": "2.6" } } }"#,
            "sockets are those of today",
        ),
        (r#"{ "pipes": { "q*": { "socket": 1 } } }"#, "no event uses a pipe of this name"),
        (r#"{ "mutexes": { "m": { "spin": -1 } } }"#, "an integer from 0"),
        (r#"{ "mutexes": { "m": { "sping": 1 } } }"#, "did you mean `spin`"),
        (r#"{ "mutex": {} }"#, "did you mean `mutexes`"),
    ] {
        let error = refused(&format!(
            r#"{{ "fairground": {settings}, "tasks": {{ "t": {{ "lock": "m", "run": 1, "unlock": "m",
                "fairground1": {{ "pipe_write": {{ "pipe": "p", "bytes": 1 }} }} }},
                "r": {{ "fairground1": {{ "pipe_read": {{ "pipe": "p", "bytes": 1 }} }} }} }} }}"#
        ));
        assert!(error.starts_with("w.json:1:") && error.contains(words), "{error}");
    }
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
    for (settings, words) in [
        (r#"{ "sdb": {} }"#, "no event uses a drive of this name"),
        (r#"{ "sda": { "elevator": "cfq" } }"#, "write \"anticipatory\" or \"deadline\""),
        (r#"{ "sda": { "rate": 0 } }"#, "megabytes per second"),
        (r#"{ "sda": { "seek": 1 } }"#, "unknown key"),
    ] {
        let error = refused(&format!(
            r#"{{ "fairground": {{ "drives": {settings} }}, "tasks": {{ "t": {{ "fairground1": {{ "read": {{ "drive": "sda", "bytes": 1 }} }} }} }} }}"#
        ));
        assert!(error.contains(words), "{error}");
    }
    refused_event(r#"{ "read": 4096 }"#, "an object");
    refused_event(r#"{ "read": { "drive": "d" } }"#, "`bytes` is missing");
    refused_event(r#"{ "write": { "bytes": 1, "place": "far" } }"#, "write \"next\" or \"new\"");
    refused_event(r#"{ "fault": { "memory": "ram", "bytes": 1, "service": 1 } }"#, "unknown key");
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
fn wrong_events_are_named_with_their_place() {
    let error = refused("{ \"tasks\": { \"t\": {\n  \"fairground1\": { \"lap\": \"start\" } } } }");
    assert_eq!(
        error,
        "w.json:2:27: tasks.t.fairground1.lap: \"start\" is not possible here; write \"begin\" or \"end\""
    );
    refused_event(r#"{}"#, "w.json:1:46: tasks.t.fairground1: write exactly one event here");
    refused_event(r#"{ "disk": 1, "lap": "end" }"#, "write exactly one event here");
    refused_event(r#"{ "pipe_red": {} }"#, "did you mean `pipe_read`");
    refused_event(r#"5"#, "an object");
    refused_event(r#"{ "lap": "end" }"#, "begins no lap");
    refused_event(r#"{ "migration": "off" }"#, "\"disable\" or \"enable\"");
    refused_event(r#"{ "migration": "disable" }"#, "does not end a section without migration");
    refused_event(
        r#"{ "migration": "enable" }"#,
        "ends a section without migration that has not begun",
    );
    let twice = r#"{ "tasks": { "t": { "fairground1": { "migration": "disable" }, "run": 1, "fairground2": { "migration": "disable" } } } }"#;
    assert!(refused(twice).contains("inside another one"));
    refused_event(r#"{ "pipe_read": { "bytes": 4 } }"#, "`pipe` is missing");
    refused_event(r#"{ "pipe_read": { "pipe": "p" } }"#, "`bytes` is missing");
    refused_event(r#"{ "pipe_read": { "pipe": "p", "bytes": 0 } }"#, "from 1 to");
    refused_event(r#"{ "pipe_write": { "pipe": "p", "bytes": 1, "capacity": 1 } }"#, "unknown key");
    refused_event(r#"{ "disk": -1 }"#, "from 0 to");
    refused_event(r#"{ "disk": {} }"#, "`service` is missing");
    refused_event(r#"{ "fault": { "memory": "m" } }"#, "`service` is missing");
    refused_event(r#"{ "fault": { "service": 1 } }"#, "`memory` is missing");
    refused_event(r#"{ "evict": { "memory": "m", "pages": 0 } }"#, "from 1 to");
    refused_event(r#"{ "timer": { "ref": "u", "period": 1, "mode": "skipped" } }"#, "or \"skip\"");
}

#[test]
fn wrong_variations_are_named_with_their_place() {
    refused_variation(
        r#"{ "run": { "uniform": [1.5, 0.5] } }"#,
        "tasks.t.fairground.vary.run.uniform: ",
    );
    refused_variation(r#"{ "run": { "uniform": [0, 0] } }"#, "such as [0.5, 1.5]");
    refused_variation(r#"{ "run": { "uniform": 1 } }"#, "such as [0.5, 1.5]");
    refused_variation(r#"{ "run": { "lognormal": 0 } }"#, "a shape above 0");
    refused_variation(r#"{ "run": { "exponential": -1 } }"#, "a mean above 0");
    refused_variation(r#"{ "run": { "chance": 1.5 } }"#, "a probability");
    refused_variation(r#"{ "run": { "chance": 0 } }"#, "a probability");
    refused_variation(r#"{ "run": {} }"#, "nothing varies");
    refused_variation(r#"{ "run": { "exponential": 1, "lognormal": 1 } }"#, "one factor");
    refused_variation(r#"{ "run": { "normal": 1 } }"#, "unknown key");
    refused_variation(r#"{ "run9": { "chance": 0.5 } }"#, "no event with the key \"run9\"");
    refused_variation(r#"{ "lock": { "lognormal": 1 } }"#, "no duration to vary");
    refused_variation(r#"{ "unlock": { "chance": 0.5 } }"#, "cannot be left to chance");
    refused_variation(
        r#"{ "run": { "chance": 0.5 }, "run": { "chance": 0.5 } }"#,
        "already at line",
    );
}

#[test]
fn endless_loops_without_time_are_refused() {
    let error = refused(
        r#"{ "tasks": { "t": { "fairground1": { "pipe_write": { "pipe": "p", "bytes": 4 } },
            "fairground2": { "pipe_read": { "pipe": "p", "bytes": 4 } } } } }"#,
    );
    assert!(error.contains("no time passes"), "{error}");
    // Others have to write what it reads.
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

#[test]
fn wrong_requests_are_refused() {
    let file = |settings: &str, task: &str| {
        format!(r#"{{ "fairground": {settings}, "tasks": {{ "t": {{ "run": 1, {task} }} }} }}"#)
    };
    let serve = r#""fairground1": { "take": "s" }, "fairground2": { "answer": "" }"#;
    for (settings, task, words) in [
        (
            "{}",
            r#""fairground1": { "ask": "s" }"#,
            "nothing ever takes requests from the service \"s\"",
        ),
        (
            "{}",
            r#""fairground1": { "answer": "" }"#,
            "the task takes no request that it could answer or pass on",
        ),
        (
            "{}",
            r#""fairground1": { "take": "s" }"#,
            "the task neither answers requests nor passes them on",
        ),
        (
            "{}",
            r#""fairground1": { "take": [] }"#,
            "an array is not possible here; write the name of a service, or a list",
        ),
        ("{}", r#""fairground1": { "take": [1] }"#, "write the name of a service, or a list"),
        ("{}", r#""fairground": { "daemon": 1 }"#, "1 is not possible here; write true or false"),
        ("{}", r#""fairground": { "daemon": true }"#, "every task is a daemon"),
        (
            r#"{ "arrivals": { "x": { "rate": 1 } } }"#,
            serve,
            "no event takes requests from a service of this name",
        ),
        (r#"{ "arrivals": { "s": {} } }"#, serve, "`rate` is missing"),
        (
            r#"{ "arrivals": { "s": { "rate": 0 } } }"#,
            serve,
            "0 is not possible here; write a number of requests per second",
        ),
        (
            r#"{ "arrivals": { "s": { "rate": 1, "exponential": 1, "lognormal": 1 } } }"#,
            serve,
            "a duration has one factor",
        ),
        (r#"{ "arrivals": { "s": { "rate": 1, "brust": 1 } } }"#, serve, "did you mean `burst`?"),
        (
            r#"{ "barriers": { "b": { "spin": 1 } } }"#,
            serve,
            "no event uses a barrier of this name",
        ),
    ] {
        let error = refused(&file(settings, task));
        assert!(error.contains(words), "{settings} {task}: {error}");
    }
    let varied = r#"{ "tasks": { "t": { "run": 1, "fairground": { "vary": { "fairground1": { "chance": 0.5 } } },
        "fairground1": { "take": "s" }, "fairground2": { "answer": "" } } } }"#;
    assert!(refused(varied).contains("cannot be left to chance"));
}
