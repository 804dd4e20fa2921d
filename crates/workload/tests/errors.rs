//! Every kind of unusable file, with the place and the way out it is answered with.

use fairground_workload::{Error, Workload};

fn fails(text: &str) -> Error {
    match Workload::parse("w.json", text) {
        Ok(workload) => panic!("{text}\nwas accepted: {workload:#?}"),
        Err(error) => error,
    }
}

/// Checks that each text is refused at the JSON path with these words.
fn refused(cases: &[(&str, &str, &str)]) {
    for (text, path, words) in cases {
        let error = fails(text);
        assert_eq!(&error.json_path, path, "{text}: {error}");
        assert!(error.message.contains(words), "{text}: {error}");
        assert!(error.line > 0 && error.column > 0, "{text}: {error}");
    }
}

/// The same for files of one task `t`, given by its members; paths are relative to the task.
fn refused_in_task(cases: &[(&str, &str, &str)]) {
    for (members, path, words) in cases {
        let text = format!(r#"{{ "tasks": {{ "t": {{ {members} }} }} }}"#);
        refused(&[(&text, &format!("tasks.t{path}"), words)]);
    }
}

#[test]
fn an_error_is_displayed_with_place_path_and_way_out() {
    let error = fails(
        "{\n\t\"tasks\" : {\n\t\t\"thread0\" : { \"phases\" : { \"p1\" : { \"run\" : -5 } } }\n\t}\n}",
    );
    assert_eq!(
        error.to_string(),
        "w.json:3:47: tasks.thread0.phases.p1.run: -5 is not possible here; write an integer from -1 to 2147483647"
    );
    let quoted = fails(r#"{ "tasks": { "mp3.decoder": { "run": true } } }"#);
    assert_eq!(quoted.json_path, r#"tasks["mp3.decoder"].run"#);
}

#[test]
fn a_file_that_cannot_be_read() {
    let error = Workload::read("/nonexistent/w.json").unwrap_err();
    assert_eq!((error.line, error.column), (0, 0));
    assert!(error.to_string().starts_with("/nonexistent/w.json: cannot be read: "), "{error}");
    let file =
        std::env::temp_dir().join(format!("fairground-not-utf8-{}.json", std::process::id()));
    std::fs::write(&file, b"{\n \"\xff\": 1 }").unwrap();
    let error = Workload::read(&file).unwrap_err();
    std::fs::remove_file(&file).unwrap();
    assert_eq!((error.line, error.column), (2, 3));
    assert!(error.message.contains("UTF-8"), "{error}");
}

#[test]
fn the_file_as_a_whole() {
    refused(&[
        ("[]", "", "write an object"),
        ("{}", "", "no `tasks` object"),
        (r#"{ "tasks": {} }"#, "tasks", "there are no tasks"),
        (r#"{ "tasks": [] }"#, "tasks", "write an object"),
        (r#"{ "tasks": { "t": 3 } }"#, "tasks.t", "write an object"),
        (r#"{ "task": {} }"#, "", "no `tasks` object"),
        (
            r#"{ "tasks": { "t": { "run": 1 } }, "tasks": {} }"#,
            "tasks",
            "already at line 1, column 3",
        ),
        (
            r#"{ "tasks": { "t": { "run": 1 }, "t": { "run": 2 } } }"#,
            "tasks.t",
            "already at line 1, column 14",
        ),
        (
            r#"{ "fairground": { "x": 1 }, "tasks": { "t": { "run": 1 } } }"#,
            "fairground.x",
            "known here are mutexes, pipes",
        ),
        (
            r#"{ "tasks": { "t": { "run": 1, "fairground": { "process": 1 } } } }"#,
            "tasks.t.fairground.process",
            "the name of a process",
        ),
        (
            r#"{ "tasks": { "t": { "run": 1, "fairground": { "process": "" } } } }"#,
            "tasks.t.fairground.process",
            "the name of a process",
        ),
        (r#"{ "fairground": 1, "tasks": { "t": { "run": 1 } } }"#, "fairground", "write an object"),
        (r#"{ "tasks": { "t": { "instance": 0, "run": 1 } } }"#, "tasks", "nothing starts"),
        (
            r#"{ "tasks": { "a": { "instance": 60000, "run": 1 }, "b": { "instance": 60000, "run": 1 } } }"#,
            "tasks.b",
            "more than 100000 tasks",
        ),
    ]);
}

#[test]
fn global_settings() {
    for (members, path, words) in [
        (r#""duration": "5""#, "duration", "write an integer from -1"),
        (r#""duration": 1.5"#, "duration", "write an integer"),
        (r#""duration": -2"#, "duration", "write an integer from -1"),
        (r#""duration": 99999999999"#, "duration", "write an integer"),
        (r#""duration""#, "duration", "the key has no value"),
        (r#""calibration": "cpu0""#, "calibration", "CPU0"),
        (r#""calibration": -1"#, "calibration", "nanoseconds per loop"),
        (r#""default_policy": "FIFO""#, "default_policy", "one of SCHED_OTHER"),
        (r#""log_size": "none""#, "log_size", "disable"),
        (r#""ftrace": "main,foo""#, "ftrace", "main, task"),
        (r#""gnuplot": 1"#, "gnuplot", "true or false"),
        (r#""pi_enabled": "no""#, "pi_enabled", "true or false"),
        (r#""logdir": 1"#, "logdir", "write a string"),
        (r#""mem_buffer_size": 0"#, "mem_buffer_size", "from 1"),
        (r#""duration": 1, "duration": 2"#, "duration", "already"),
    ] {
        let text =
            format!(r#"{{ "global": {{ {members} }}, "tasks": {{ "t": {{ "run": 1 }} }} }}"#);
        refused(&[(&text, &format!("global.{path}"), words)]);
    }
}

#[test]
fn resources() {
    for (members, path, words) in [
        ("[]", "resources", "write an object"),
        (r#"{ "m": 1 }"#, "resources.m", "write an object"),
        (r#"{ "m": { "type": "lock" } }"#, "resources.m.type", "one of mutex"),
        (r#"{ "m": {}, "m": {} }"#, "resources.m", "already"),
    ] {
        let text = format!(r#"{{ "resources": {members}, "tasks": {{ "t": {{ "run": 1 }} }} }}"#);
        refused(&[(&text, path, words)]);
    }
}

#[test]
fn tasks_and_phases() {
    refused_in_task(&[
        ("", "", "no events"),
        (r#""phases": {}"#, ".phases", "there are no phases"),
        (r#""phases": []"#, ".phases", "write an object"),
        (r#""phases": { "p": {} }"#, ".phases.p", "no events"),
        (r#""phases": { "p": 1 }"#, ".phases.p", "write an object"),
        (r#""phases": { "p": { "run": 1 } }, "run": 1"#, ".run", "beside `phases`"),
        (
            r#""phases": { "p": { "run": 1, "fairground": {} } }"#,
            ".phases.p.fairground",
            "unknown key",
        ),
        (r#""phases": { "p": { "run": 1, "loop": 1, "loop": 2 } }"#, ".phases.p.loop", "already"),
        (r#""instance": -1, "run": 1"#, ".instance", "from 0 to 100000"),
        (r#""instance": 100001, "run": 1"#, ".instance", "from 0 to 100000"),
        (r#""delay": -1, "run": 1"#, ".delay", "from 0"),
        (r#""loop": 0, "run": 1"#, ".loop", "0 passes"),
        (r#""loop": -2, "run": 1"#, ".loop", "from -1"),
        (r#""loop": true, "run": 1"#, ".loop", "write an integer"),
        (r#""cpus": [], "run": 1"#, ".cpus", "allows nothing"),
        (r#""cpus": 0, "run": 1"#, ".cpus", "write a list of numbers"),
        (r#""cpus": [0, -1], "run": 1"#, ".cpus[1]", "from 0 to 4095"),
        (r#""cpus": [5000], "run": 1"#, ".cpus[0]", "from 0 to 4095"),
        (r#""cpus": [0.5], "run": 1"#, ".cpus[0]", "from 0 to 4095"),
        (r#""cpus": [[]], "run": 1"#, ".cpus[0]", "an array is not possible"),
        (r#""nodes_membind": ["x"], "run": 1"#, ".nodes_membind[0]", "list of numbers"),
        (r#""taskgroup": "a", "run": 1"#, ".taskgroup", "path from the root"),
        (r#""taskgroup": "/a", "policy": "SCHED_RR", "run": 1"#, "", "no taskgroups"),
        (
            r#""taskgroup": "/a", "phases": { "p": { "policy": "SCHED_FIFO", "run": 1 } }"#,
            ".phases.p",
            "the task would be in /a",
        ),
        (r#""fairground": { "a": [] }, "run": 1"#, ".fairground.a", "write a string"),
        (r#""fairground": { "a": 1, "a": 2 }, "run": 1"#, ".fairground.a", "already"),
        (r#""fairground": 1, "run": 1"#, ".fairground", "write an object"),
        (r#""exec": 5"#, ".exec", "before rt-app 1.0"),
    ]);
    let groups: Vec<_> =
        (0..33).map(|i| format!(r#""p{i}": {{ "run": 1, "taskgroup": "/{i}" }}"#)).collect();
    refused_in_task(&[(
        &format!(r#""phases": {{ {} }}"#, groups.join(", ")),
        "",
        "more than 32 taskgroups",
    )]);
}

#[test]
fn scheduling_parameters() {
    refused_in_task(&[
        (r#""policy": "SCHED_NORMAL", "run": 1"#, ".policy", "one of SCHED_OTHER"),
        (r#""policy": 1, "run": 1"#, ".policy", "write a string"),
        (r#""priority": 20, "run": 1"#, ".priority", "nice value"),
        (r#""priority": -21, "run": 1"#, ".priority", "from -20 to 99"),
        (r#""policy": "SCHED_FIFO", "priority": 0, "run": 1"#, ".priority", "real-time priority"),
        (r#""policy": "SCHED_RR", "priority": 100, "run": 1"#, ".priority", "from -20 to 99"),
        (r#""util_min": 1025, "run": 1"#, ".util_min", "from -1 to 1024"),
        (r#""policy": "SCHED_DEADLINE", "run": 1"#, "", "needs its runtime"),
        (
            r#""policy": "SCHED_DEADLINE", "dl-runtime": 5, "dl-period": 4, "run": 1"#,
            "",
            "dl-runtime <= dl-deadline <= dl-period",
        ),
        (
            r#""policy": "SCHED_DEADLINE", "dl-runtime": 1, "dl-period": 1000, "run": 1"#,
            "",
            "at least 2 us",
        ),
        (
            r#""policy": "SCHED_DEADLINE", "dl-runtime": 10, "dl-period": 99, "run": 1"#,
            "",
            "from 100 to 4194304 us, not 99",
        ),
        (
            r#""policy": "SCHED_DEADLINE", "dl-runtime": 10, "dl-period": 4194305, "run": 1"#,
            "",
            "not 4194305",
        ),
        (r#""dl-runtime": -1, "run": 1"#, ".dl-runtime", "from 0"),
        (
            r#""policy": "SCHED_FIFO", "phases": { "p": { "priority": -5, "run": 1 } }"#,
            ".phases.p.priority",
            "real-time priority",
        ),
    ]);
}

#[test]
fn events() {
    refused_in_task(&[
        (r#""run": "5""#, ".run", "write an integer"),
        (r#""run": 1.5"#, ".run", "write an integer"),
        (r#""run": null"#, ".run", "null is not possible"),
        (r#""run""#, ".run", "the key has no value"),
        (r#""sleep": -1"#, ".sleep", "from 0"),
        (r#""runtime": 3000000000"#, ".runtime", "to 2147483647"),
        (r#""timer": 5"#, ".timer", "write an object"),
        (r#""timer": { "ref": "t", "period": -1 }"#, ".timer.period", "from 0"),
        (
            r#""timer": { "ref": "t", "period": 1, "mode": "abs" }"#,
            ".timer.mode",
            "\"relative\" or",
        ),
        (
            r#""fairground1": { "timer": { "ref": "t", "perod": 1 } }"#,
            ".fairground1.timer.perod",
            "did you mean `period`?",
        ),
        (r#""timer": { "ref": "t", "ref": "u" }"#, ".timer.ref", "already"),
        (r#""timer": { "ref": 1 }"#, ".timer.ref", "a name in quotes"),
        (r#""lock": 1"#, ".lock", "a name in quotes"),
        (r#""lock": """#, ".lock", "a name in quotes"),
        (r#""lock_order": ["a"]"#, ".lock_order", "before rt-app 1.0"),
        (r#""run": 1, "unlock": "m""#, ".unlock", "nothing ever locks the mutex \"m\""),
        (r#""run": 1, "signal": "c""#, ".signal", "nothing ever waits"),
        (r#""run": 1, "broad": "c""#, ".broad", "nothing ever waits"),
        (r#""wait": "c""#, ".wait", "write an object"),
        (r#""sync": { "ref": "", "mutex": "m" }"#, ".sync.ref", "a name in quotes"),
        (r#""barrier": 1"#, ".barrier", "a name in quotes"),
        (r#""suspend": 1"#, ".suspend", "name of the task"),
        (r#""run": 1, "resume": "u""#, ".resume", "no task \"u\""),
        (r#""run": 1, "resume": 1"#, ".resume", "a name in quotes"),
        (r#""sem_post": 1"#, ".sem_post", "a name in quotes"),
    ]);
}

#[test]
fn events_of_memory_and_others() {
    refused_in_task(&[
        (r#""mem": "1k""#, ".mem", "write an integer"),
        (r#""iorun": -1"#, ".iorun", "from 0"),
        (r#""yield""#, ".yield", "the key has no value"),
        (r#""yield": {}"#, ".yield", "write \"\""),
        (r#""run": 1, "fork": "u""#, ".fork", "no task \"u\" to fork; the tasks are t"),
        (r#""memrun": { "size": 1, "count": 1 }"#, ".memrun", "`type` is missing"),
        (r#""memrun": { "type": "read", "count": 1 }"#, ".memrun", "`size` is missing"),
        (r#""memrun": { "type": "read", "size": 1 }"#, ".memrun", "`count` is missing"),
        (r#""memrun": { "type": "copy", "size": 1, "count": 1 }"#, ".memrun.type", "chase"),
        (r#""memrun": { "type": "read", "size": 0, "count": 1 }"#, ".memrun.size", "from 1"),
        (
            r#""memrun": { "type": "chase", "size": 100, "count": 1 }"#,
            ".memrun.size",
            "two strides",
        ),
        (
            r#""memrun": { "type": "chase", "size": 1024, "count": 1, "pattern": "zigzag" }"#,
            ".memrun.pattern",
            "sequential",
        ),
        (
            r#""memrun1": { "type": "read", "size": 8, "count": 1, "ref": "b" },
               "memrun2": { "type": "read", "size": 9, "count": 1, "ref": "b" }"#,
            ".memrun2.ref",
            "another size",
        ),
    ]);
}

#[test]
fn a_forked_task_cannot_use_barriers() {
    refused(&[(
        r#"{ "tasks": { "a": { "barrier": "b", "run": 1 }, "b": { "run": 1, "fork": "a", "barrier": "b" } } }"#,
        "tasks.a.barrier",
        "do not fork \"a\"",
    )]);
}

#[test]
fn endless_loops_without_time() {
    refused_in_task(&[
        (r#""yield": """#, "", "no time passes"),
        (r#""run": 0"#, "", "no time passes"),
        (r#""loop": -1, "sleep": 0"#, "", "no time passes"),
        (r#""timer": { "ref": "t", "period": 0 }"#, "", "no time passes"),
        (r#""lock": "m", "unlock": "m""#, "", "no time passes"),
        (r#""sem_post": "s", "sem_wait": "s""#, "", "no time passes"),
        (r#""barrier": "alone""#, "", "no time passes"),
        (
            r#""phases": { "p": { "run": 1 }, "q": { "loop": -1, "yield": "" } }"#,
            ".phases.q",
            "no time passes",
        ),
        (
            r#""phases": { "p": { "yield": "" }, "q": { "loop": 9, "mem": 0 } }"#,
            "",
            "no time passes",
        ),
    ]);
}

#[test]
fn characters_that_cannot_be_shown() {
    for escape in ["0000", "001b", "0085"] {
        let text = format!(r#"{{"tasks": {{"a\u{escape}": {{"run": 1}}}}}}"#);
        let error = Workload::parse("w.json", &text).expect_err(escape);
        assert!(error.to_string().contains("a control character"), "{error}");
    }
}

/// How long this thread has had a processor.
fn seconds_of_this_thread() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    let nanoseconds = text.split(' ').next().expect("its first number");
    nanoseconds.parse::<f64>().expect("its first number") / 1e9
}

#[test]
fn many_tasks_take_no_time() {
    let tasks: Vec<String> =
        (0..100_000).map(|number| format!(r#""task {number}": {{"run": 1, "loop": 1}}"#)).collect();
    let text = format!(r#"{{"tasks": {{{}}}}}"#, tasks.join(","));
    let before = seconds_of_this_thread();
    // Whether so many are allowed is not the question.
    let _ = Workload::parse("w.json", &text);
    // Seconds, where one look at all others for each took minutes.
    let took = seconds_of_this_thread() - before;
    assert!(took < 20.0, "{took} s");
}
