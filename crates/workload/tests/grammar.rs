//! Every rule of the language, with the workload that it is read as.

use fairground_workload::{Barrier, Event, Policy, Task, Timer, TimerMode, Workload};

fn read(text: &str) -> Workload {
    Workload::parse("folder/rule.json", text).unwrap_or_else(|error| panic!("{error}"))
}

/// Reads a file of one task, given by its members.
fn task(members: &str) -> Task {
    read(&format!(r#"{{ "tasks": {{ "t": {{ {members} }} }} }}"#)).tasks.remove(0)
}

fn noted(workload: &Workload, words: &str) -> bool {
    workload.notes.iter().any(|note| note.contains(words))
}

#[test]
fn a_plain_workload_needs_no_notes() {
    let workload =
        read(r#"{ "tasks": { "t": { "run": 20, "sleep": 30 } }, "global": { "duration": 2 } }"#);
    assert_eq!(workload.name, "rule");
    assert_eq!(workload.duration, Some(2_000_000_000));
    assert_eq!(workload.notes, [""; 0]);
    let task = &workload.tasks[0];
    assert_eq!((task.instances, task.delay, task.loops), (1, 0, None));
    assert_eq!(task.policy, Policy::Other { nice: 0, slice: None });
    assert_eq!(task.phases.len(), 1);
    assert_eq!(task.phases[0].loops, Some(1));
    assert_eq!(task.phases[0].events, [Event::Run(20_000), Event::Sleep(30_000)]);
}

#[test]
fn unknown_keys_are_ignored_as_rt_app_does_at_every_level() {
    let workload = read(
        r#"{ "_comment": "what it is about",
             "global": { "duration": 1, "logsize": 4, "spacing": 100 },
             "resources": { "m": { "kind": "mutex" } },
             "tasks": {
               "a": { "_why": "so", "exec_time": 5, "instances": 2, "run": 1, "sleep": 1 },
               "b": { "_why": "so", "phases": { "p": { "delay": 5, "slep": 5, "run": 1,
                 "timer": { "ref": "t", "perod": 5, "period": 1000 } } } } } }"#,
    );
    assert_eq!(workload.tasks[0].instances, 1);
    assert_eq!(workload.tasks[0].phases[0].events.len(), 2);
    assert_eq!(workload.tasks[1].phases[0].events.len(), 2);
    for note in [
        "rule.json:1:3: _comment: an unknown key, ignored as rt-app does",
        "global.logsize: an unknown key, ignored as rt-app does; did you mean `log_size`?",
        "global.spacing: an unknown key, ignored as rt-app does",
        "resources.m.kind: an unknown key, ignored as rt-app does",
        "tasks.a._why: an unknown key, ignored as rt-app does (2 places, this is the first)",
        "tasks.a.exec_time: an unknown key, ignored as rt-app does; did you mean `run`?",
        "tasks.a.instances: an unknown key, ignored as rt-app does; did you mean `instance`?",
        "tasks.b.phases.p.delay: belongs to the task, whose start it delays",
        "tasks.b.phases.p.slep: an unknown key, ignored as rt-app does; did you mean `sleep`?",
        "tasks.b.phases.p.timer.perod: an unknown key, ignored as rt-app does; did you mean `period`?",
    ] {
        assert!(noted(&workload, note), "{note}: {:#?}", workload.notes);
    }
}

#[test]
fn a_run_without_end() {
    let workload = read(r#"{ "tasks": { "t": { "loop": 1, "run": -1 } } }"#);
    let task = &workload.tasks[0];
    assert_eq!(task.phases[0].events, [Event::Run(Event::ENDLESS)]);
    assert!(noted(&workload, "tasks.t.run: -1, read as a run that does not end"));
}

#[test]
fn global_settings() {
    let workload = read(
        r#"{ "global": { "duration": -1, "calibration": 17, "default_policy": "SCHED_FIFO",
             "pi_enabled": true, "lock_pages": false, "logdir": "./", "log_basename": "x",
             "log_size": "Auto", "ftrace": "main,task", "gnuplot": true, "io_device": "/dev/null",
             "mem_buffer_size": 4096, "cumulative_slack": true },
           "tasks": { "t": { "run": 1 } } }"#,
    );
    assert_eq!(workload.duration, None);
    assert_eq!(workload.tasks[0].policy, Policy::Fifo { priority: 10 });
    assert!(noted(&workload, "rule.json:2:28: global.pi_enabled: priority inheritance"));
    let other = read(
        r#"{ "global": { "duration": 0, "calibration": "CPU3", "log_size": 2, "ftrace": true },
           "tasks": { "t": { "run": 1 } } }"#,
    );
    assert_eq!(other.duration, None);
    assert!(noted(&other, "global.duration: 0 means until all tasks end"));
}

#[test]
fn instances_delay_and_loops() {
    let with_phases =
        task(r#""instance": 3, "delay": 7, "loop": 2, "phases": { "p": { "loop": 5, "run": 1 } }"#);
    assert_eq!((with_phases.instances, with_phases.delay), (3, 7_000));
    assert_eq!((with_phases.loops, with_phases.phases[0].loops), (Some(2), Some(5)));
    let endless_phase = task(r#""phases": { "p": { "loop": -1, "run": 1 } }"#);
    assert_eq!((endless_phase.loops, endless_phase.phases[0].loops), (None, None));
    // Without phases, a loop that is given counts the only phase, and the task ends after it.
    let counted = task(r#""loop": 4, "run": 1"#);
    assert_eq!((counted.loops, counted.phases[0].loops), (Some(1), Some(4)));
    let endless = task(r#""loop": -1, "run": 1"#);
    assert_eq!((endless.loops, endless.phases[0].loops), (Some(1), None));
    let workload = read(r#"{ "tasks": { "t": { "loop": 4, "run": 1 } } }"#);
    assert!(noted(&workload, "rt-app 1.0 ends it only"));
}

#[test]
fn a_phase_after_an_endless_one_is_noted() {
    let workload = read(
        r#"{ "tasks": { "t": { "phases": { "a": { "loop": -1, "run": 1 }, "b": { "run": 1 } } } } }"#,
    );
    assert!(noted(&workload, "tasks.t.phases.b: is never reached"));
}

#[test]
fn policies_and_priorities() {
    for (members, policy) in [
        (r#""priority": -20"#, Policy::Other { nice: -20, slice: None }),
        (r#""policy": "SCHED_OTHER", "priority": 19"#, Policy::Other { nice: 19, slice: None }),
        (r#""policy": "SCHED_BATCH", "priority": 5"#, Policy::Batch { nice: 5, slice: None }),
        (r#""policy": "SCHED_BATCH""#, Policy::Batch { nice: 0, slice: None }),
        (r#""policy": "SCHED_IDLE""#, Policy::Idle),
        (r#""policy": "SCHED_EXT", "priority": 5"#, Policy::Ext { nice: 5 }),
        (r#""policy": "SCHED_FIFO", "priority": 99"#, Policy::Fifo { priority: 99 }),
        (r#""policy": "SCHED_FIFO""#, Policy::Fifo { priority: 10 }),
        (r#""policy": "SCHED_RR", "priority": 1"#, Policy::RoundRobin { priority: 1 }),
        (
            r#""policy": "SCHED_DEADLINE", "dl-runtime": 200, "dl-deadline": 300, "dl-period": 400"#,
            Policy::Deadline { runtime: 200_000, period: 400_000, deadline: 300_000 },
        ),
        (
            r#""policy": "SCHED_DEADLINE", "dl-runtime": 200"#,
            Policy::Deadline { runtime: 200_000, period: 200_000, deadline: 200_000 },
        ),
        (
            r#""policy": "SCHED_DEADLINE", "dl-runtime": 2, "period": 900"#,
            Policy::Deadline { runtime: 2_000, period: 900_000, deadline: 900_000 },
        ),
    ] {
        assert_eq!(task(&format!("{members}, \"run\": 1")).policy, policy, "{members}");
    }
}

#[test]
fn the_old_name_of_the_deadline_runtime() {
    let deadline = Policy::Deadline { runtime: 500_000, period: 800_000, deadline: 600_000 };
    let members = r#""policy": "SCHED_DEADLINE", "runtime": 500, "deadline": 600, "period": 800"#;
    let phased = task(&format!(r#"{members}, "phases": {{ "p": {{ "run": 1 }} }}"#));
    assert_eq!(phased.policy, deadline);
    // Without phases it is the event as well, as in rt-app.
    let plain = task(members);
    assert_eq!(plain.policy, deadline);
    assert_eq!(plain.phases[0].events, [Event::Runtime(500_000)]);
}

#[test]
fn phases_change_policy_priority_and_group() {
    let task = task(
        r#""taskgroup": "/a", "phases": {
             "same": { "run": 1 },
             "nicer": { "priority": 5, "run": 1 },
             "batch": { "policy": "SCHED_BATCH", "taskgroup": "/b", "run": 1 },
             "kept": { "priority": -3, "run": 1, "taskgroup": "" } }"#,
    );
    let policies: Vec<_> = task.phases.iter().map(|phase| phase.policy).collect();
    assert_eq!(
        policies,
        [
            None,
            Some(Policy::Other { nice: 5, slice: None }),
            Some(Policy::Batch { nice: 0, slice: None }),
            // A priority alone keeps the policy of the phase before.
            Some(Policy::Batch { nice: -3, slice: None }),
        ]
    );
    assert_eq!(task.taskgroup.as_deref(), Some("/a"));
    let groups: Vec<_> = task.phases.iter().map(|p| p.taskgroup.as_deref()).collect();
    assert_eq!(groups, [None, None, Some("/b"), None]);
}

#[test]
fn cpus_of_phases_come_before_those_of_the_task() {
    let task = task(
        r#""cpus": [2, 0, "1"], "phases": { "a": { "cpus": [3], "run": 1 }, "b": { "run": 1 } }"#,
    );
    assert_eq!(task.cpus, Some(vec![0, 1, 2]));
    assert_eq!(task.cpus_in(0), Some(&[3][..]));
    assert_eq!(task.cpus_in(1), Some(&[0, 1, 2][..]));
    let free = self::task(r#""run": 1"#);
    assert_eq!(free.cpus_in(0), None);
}

#[test]
fn events_are_recognised_by_the_beginning_of_their_key() {
    let workload = read(
        r#"{ "tasks": {
             "a": { "run_first": 1, "runtime2": 2, "sleep_x": 3, "lock0": "m", "unlock0": "m",
                    "wait1": { "ref": "c", "mutex": "m" }, "signal1": "c", "broadcast": "c",
                    "sync9": { "ref": "c", "mutex": "m" }, "barrier1": "b", "suspend1": "a",
                    "resume1": "a", "sem_post1": "s", "sem_wait1": "s", "mem1": 4,
                    "memrun1": { "type": "chase", "size": 4096, "count": 9, "stride": 32,
                                 "pattern": "sequential", "ref": "r" },
                    "iorun1": 5, "yield1": "", "fork1": "child",
                    "timer1": { "ref": "tick", "period": 6 } },
             "child": { "instance": 0, "run": 1 },
             "other": { "barrier": "b" } } }"#,
    );
    assert_eq!(
        workload.tasks[0].phases[0].events,
        [
            Event::Run(1_000),
            Event::Runtime(2_000),
            Event::Sleep(3_000),
            Event::Lock(0),
            Event::Unlock(0),
            Event::Wait { condition: 0, mutex: 0 },
            Event::Signal(0),
            Event::Broadcast(0),
            Event::Sync { condition: 0, mutex: 0 },
            Event::Barrier(0),
            Event::Suspend(1),
            Event::Resume(1),
            Event::SemPost(0),
            Event::SemWait(0),
            Event::Mem(4),
            Event::MemRun { accesses: 9, size: 4096 },
            Event::IoRun(5),
            Event::Yield,
            Event::Fork(1),
            Event::Timer { timer: 0, period: 6_000, mode: TimerMode::Relative },
        ]
    );
    assert_eq!(workload.mutexes[0].name, "m");
    assert_eq!(workload.conditions, ["c", "a"]);
    assert_eq!(workload.semaphores, ["s"]);
    for approximated in ["mem is only", "memrun is only", "iorun is only"] {
        assert!(noted(&workload, approximated), "{approximated}");
    }
}

#[test]
fn barriers_count_instances_times_references() {
    let workload = read(
        r#"{ "tasks": { "a": { "instance": 3, "barrier": "b", "run": 1 },
                        "b": { "phases": { "p": { "barrier1": "b", "run": 1 },
                                           "q": { "barrier1": "b", "barrier2": "alone", "run": 1 } } } } }"#,
    );
    let barrier = |name: &str, parties| Barrier { name: name.into(), parties, spin: 0 };
    assert_eq!(workload.barriers, [barrier("b", 5), barrier("alone", 1)]);
    assert!(noted(&workload, "only use of this barrier"));
}

#[test]
fn unique_timers_belong_to_their_task_and_absolute_is_for_all_uses() {
    let workload = read(
        r#"{ "tasks": {
             "a": { "timer1": { "ref": "unique", "period": 1 }, "timer2": { "ref": "unique", "period": 2 },
                    "timer3": { "ref": "tick", "period": 3, "mode": "relative" } },
             "b": { "timer1": { "ref": "unique", "period": 4, "mode": "absolute" },
                    "timer2": { "ref": "tick", "period": 5, "mode": "absolute" } } } }"#,
    );
    let timer = |name: &str, unique| Timer { name: name.into(), unique };
    assert_eq!(
        workload.timers,
        [timer("unique", true), timer("tick", false), timer("unique", true)]
    );
    let event = |timer, period, mode| Event::Timer { timer, period, mode };
    assert_eq!(
        workload.tasks[0].phases[0].events,
        [
            event(0, 1_000, TimerMode::Relative),
            event(0, 2_000, TimerMode::Relative),
            event(1, 3_000, TimerMode::Absolute),
        ]
    );
    assert_eq!(
        workload.tasks[1].phases[0].events,
        [event(2, 4_000, TimerMode::Absolute), event(1, 5_000, TimerMode::Absolute)]
    );
}

#[test]
fn suspend_names() {
    let workload = read(
        r#"{ "tasks": { "a": { "suspend" }, "b": { "suspend": "" }, "c": { "suspend": "c" },
                        "d": { "suspend": "a" }, "w": { "run": 1, "resume1": "a", "resume2": "b", "resume3": "c" } } }"#,
    );
    let suspends_on = |task: &Task| {
        let mut events = task.phases.iter().flat_map(|phase| phase.events.iter());
        events.find_map(|event| match event {
            Event::Suspend(condition) => Some(workload.conditions[condition].as_str()),
            _ => None,
        })
    };
    let conditions: Vec<_> = workload.tasks.iter().map(suspends_on).collect();
    assert_eq!(conditions, [Some("a"), Some("b"), Some("c"), Some("a"), None]);
    assert!(noted(&workload, "tasks.d.suspend: waits under the name written"));
}

#[test]
fn a_task_may_name_its_process() {
    let named = task(r#""run": 1, "fairground": { "process": "editor", "shares": 10 }"#);
    assert_eq!(named.process.as_deref(), Some("editor"));
    assert_eq!(named.attributes, [("shares".to_owned(), "10".to_owned())]);
    assert_eq!(task(r#""run": 1"#).process, None);
}

#[test]
fn attributes_are_kept_as_written() {
    let task =
        task(r#""run": 1, "fairground": { "shares": 512, "cap": "30%", "iso": true, "x": 1.50 }"#);
    let expected = [("shares", "512"), ("cap", "30%"), ("iso", "true"), ("x", "1.50")];
    let attributes: Vec<_> =
        task.attributes.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(attributes, expected);
    assert!(read(r#"{ "fairground": {}, "tasks": { "t": { "run": 1 } } }"#).notes.is_empty());
}

#[test]
fn what_rt_app_tolerates_is_read_and_said() {
    let workload = read(
        "{ // a comment\n 'tasks': { \"t\": { \"run\": 1, \"run\": 2, \"cpus\": null, \"loop\": -1, }, }, \
         \"global\": { \"gnuplot\": False } }",
    );
    assert_eq!(workload.tasks[0].phases[0].events, [Event::Run(1_000), Event::Run(2_000)]);
    for (place, words) in [
        ("1:3: ", "a comment"),
        ("2:2: ", "single quotes"),
        ("2:30: tasks.t.run: ", "one more event"),
        ("2:48: tasks.t.cpus: ", "null"),
        ("2:64: ", "a comma after the last entry"),
        ("", "in capitals"),
    ] {
        let note = format!("folder/rule.json:{place}");
        assert!(
            workload.notes.iter().any(|n| n.starts_with(&note) && n.contains(words)),
            "{place}{words}: {:#?}",
            workload.notes
        );
    }
    assert!(noted(&workload, "(2 places, this is the first)"));
}

#[test]
fn what_is_said_of_many_tasks_is_said_once() {
    let task = |name: u32| {
        format!(r#""t{name}": {{ "run": 1, "loop": 2, "policy": "SCHED_IDLE", "priority": 3 }}"#)
    };
    let tasks: Vec<String> = (0..10).map(task).collect();
    let workload = read(&format!(r#"{{ "tasks": {{ {} }} }}"#, tasks.join(", ")));
    let notes = &workload.notes;
    assert_eq!(notes.len(), 2, "{notes:#?}");
    for (note, key) in notes.iter().zip(["loop", "priority"]) {
        let is_one = note.contains(&format!(": tasks.t0.{key}: "))
            && note.ends_with("(10 places, this is the first)");
        assert!(is_one, "{notes:#?}");
    }
}

#[test]
fn what_is_only_approximated_is_said() {
    let workload = read(
        r#"{ "tasks": {
             "a": { "run": 1, "util_min": 10, "util_max": -1, "nodes_membind": [0, 1] },
             "b": { "run": 1, "dl-runtime": 100 },
             "c": { "run": 1, "policy": "SCHED_DEADLINE", "dl-runtime": 100 },
             "d": { "run": 1, "dl-period": 100 },
             "e": { "run": 1, "policy": "SCHED_IDLE", "priority": 3 } } }"#,
    );
    for words in [
        "tasks.a.util_min: utilization clamps",
        "tasks.a.nodes_membind: binding memory",
        "tasks.b.dl-runtime: a slice of the task's own",
        "tasks.d.dl-period: has no effect without SCHED_DEADLINE",
        "tasks.e.priority: has no effect with SCHED_IDLE",
    ] {
        assert!(noted(&workload, words), "{words}: {:#?}", workload.notes);
    }
    assert_eq!(workload.notes.len(), 5, "{:#?}", workload.notes);
}

#[test]
fn references_that_lead_nowhere_but_harm_nothing_are_noted() {
    let workload = read(
        r#"{ "tasks": {
             "a": { "run": 1, "lock": "m", "sem_wait": "never", "wait": { "ref": "c", "mutex": "m" } },
             "b": { "run": 1, "sem_post": "nobody", "resume": "a" },
             "c": { "instance": 0, "run": 1 },
             "d": { "run": 1, "timer": {}, "wait": {} } } }"#,
    );
    for words in [
        "tasks.a.lock: nothing ever unlocks",
        "tasks.a.sem_wait: nothing ever posts",
        "tasks.a.wait: nothing ever wakes",
        "tasks.b.sem_post: has no effect",
        "tasks.b.resume: has no effect",
        "tasks.c: never starts",
        "tasks.d.timer: `ref` is missing and read as \"unknown\"",
        "tasks.d.timer: `period` is missing and read as 0",
        "tasks.d.wait: `mutex` is missing",
    ] {
        assert!(noted(&workload, words), "{words}: {:#?}", workload.notes);
    }
}

#[test]
fn the_old_resources_object_is_checked_and_not_needed() {
    let workload = read(
        r#"{ "resources": { "m": { "type": "mutex" }, "s": { "type": "signal", "target": "w" } },
             "tasks": { "t": { "run": 1 } } }"#,
    );
    assert!(noted(&workload, "resources: is not needed"));
    assert!(workload.mutexes.is_empty());
}

#[test]
fn loops_in_which_time_passes_are_accepted() {
    for events in [
        r#""run": 1"#,
        r#""timer": { "ref": "unique", "period": 1 }"#,
        r#""sem_wait1": "s", "sem_wait2": "s", "sem_post": "s""#,
        r#""suspend": """#,
        r#""mem": 1"#,
    ] {
        task(&format!(r#""phases": {{ "p": {{ "loop": -1, {events} }} }}"#));
    }
    // A phase that takes no time is fine if another one does.
    task(r#""phases": { "p": { "resume": "t" }, "q": { "suspend": "" } }"#);
    // So is a limited loop.
    task(r#""loop": 5, "yield": """#);
}

#[test]
fn a_slice_of_the_tasks_own_goes_with_its_policy() {
    let task = task(
        r#""policy": "SCHED_BATCH", "priority": 2, "dl-runtime": 300,
           "phases": { "same": { "run": 1 }, "shorter": { "dl-runtime": 100, "run": 1 },
                       "none": { "priority": 3, "run": 1 } }"#,
    );
    let batch = |nice, slice| Policy::Batch { nice, slice };
    assert_eq!(task.policy, batch(2, Some(300_000)));
    let policies: Vec<_> = task.phases.iter().map(|phase| phase.policy).collect();
    assert_eq!(policies, [None, Some(batch(2, Some(100_000))), Some(batch(3, None))]);
}
