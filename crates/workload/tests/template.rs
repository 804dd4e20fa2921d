//! Files with parameters, and parts that are written once for every instance.

use fairground_workload::{Arguments, Event, Template, Workload};

const RING: &str = r#"{
	"fairground": {
		"doc": "Messages go round in a ring.",
		"parameters": {
			"tasks": { "default": "%(2 * cpus)", "from": 2, "to": 100, "doc": "members of the ring" },
			"work": { "default": 50, "from": 0, "to": 1000000, "unit": "us", "doc": "CPU time for each message" }
		}
	},
	"tasks": {
		"member": {
			"instance": "%(tasks)",
			"fairground": { "vary": { "run": { "exponential": 1 } } },
			"phases": { "pass": {
				"fairground1": { "pipe_read": { "pipe": "p%i", "bytes": 1 } },
				"fairground2": { "repeat": { "times": 2, "events": { "run": "%(work * (j + 1))", "sem_post": "done%j" } } },
				"fairground3": { "pipe_write": { "pipe": "p%((i + 1) % n)", "bytes": 1 } }
			} }
		},
		"counter": { "phases": { "p": { "sem_wait1": "done0", "sem_wait2": "done1" } } },
		"hog": { "instance": "%(cpus - 1)", "run": 1000 }
	}
}"#;

fn arguments(cpus: Option<u32>, values: &[(&str, &str)]) -> Arguments {
    let values = values.iter();
    Arguments {
        cpus,
        values: values.map(|(name, value)| ((*name).into(), (*value).into())).collect(),
    }
}

fn workload(text: &str, arguments: &Arguments) -> Workload {
    let template = Template::parse("dir/ring.json", text).unwrap();
    template.workload(arguments).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(text: &str, arguments: &Arguments) -> String {
    let template = Template::parse("ring.json", text);
    match template.and_then(|template| template.workload(arguments)) {
        Ok(workload) => panic!("accepted: {workload:#?}"),
        Err(error) => error.to_string(),
    }
}

/// A file with one task and these settings.
fn file(settings: &str, task: &str) -> String {
    format!("{{ \"fairground\": {settings}, \"tasks\": {{ \"t\": {task} }} }}")
}

#[test]
fn every_instance_has_names_of_its_own() {
    let ring = workload(RING, &arguments(Some(2), &[]));
    let names: Vec<&str> = ring.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["member-0", "member-1", "member-2", "member-3", "counter", "hog"]);
    let pipes: Vec<&str> = ring.pipes.iter().map(|pipe| pipe.name.as_str()).collect();
    assert_eq!(pipes, ["p0", "p1", "p2", "p3"]);
    let last = &ring.tasks[3].phases[0];
    assert_eq!(
        last.events,
        [
            Event::PipeRead { pipe: 3, bytes: 1 },
            Event::Run(50_000),
            Event::SemPost(0),
            Event::Run(100_000),
            Event::SemPost(1),
            Event::PipeWrite { pipe: 0, bytes: 1 },
        ]
    );
    let varied: Vec<usize> = last.variations.keys().copied().collect();
    assert_eq!(varied, [1, 3], "repeated events vary as the one that was written");
    assert!(ring.notes.is_empty(), "{:?}", ring.notes);
}

#[test]
fn parameters_are_part_of_the_name_and_may_have_units() {
    let given = arguments(Some(1), &[("tasks", "3"), ("work", "2ms")]);
    let ring = workload(RING, &given);
    assert_eq!(ring.name, "ring:tasks=3,work=2ms");
    // A task of which there are to be none is left out.
    assert_eq!(ring.tasks.len(), 4);
    assert_eq!(ring.tasks[0].phases[0].events.get(1), Some(Event::Run(2_000_000)));
    let ring = workload(RING, &arguments(Some(1), &[("cpus", "5")]));
    assert_eq!(ring.tasks.len(), 10 + 2);
    assert_eq!(ring.tasks.last().map(|task| task.instances), Some(4));
}

#[test]
fn a_filled_file_is_a_plain_one() {
    let template = Template::parse("ring.json", RING).unwrap();
    assert_eq!(template.doc(), Some("Messages go round in a ring."));
    let names: Vec<&str> = { template.parameters().iter() }.map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["tasks", "work"]);
    assert_eq!(template.parameters()[0].default_text(), "2 * cpus");
    assert_eq!(template.parameters()[1].range(), "0 to 1000000 us");
    let given = arguments(Some(2), &[]);
    let text = template.fill(&given).unwrap().text();
    assert!(!text.contains('%') && !text.contains("parameters"), "{text}");
    let plain = Workload::parse("ring.json", &text).unwrap();
    assert_eq!(plain, template.workload(&given).unwrap());
}

#[test]
fn a_repeat_may_hold_another() {
    let text = file(
        "{}",
        r#"{ "loop": 1, "fairground": { "vary": { "run": { "lognormal": 1 } } }, "phases": { "p": {
            "fairground1": { "repeat": { "times": 2, "events": {
                "sleep": "%(j + 1)",
                "fairground2": { "repeat": { "times": 3, "events": { "run": "%(j + 10)" } } },
                "sleep2": "%(j + 1)" } } } } } }"#,
    );
    let workload = workload(&text, &Arguments::default());
    let phase = &workload.tasks[0].phases[0];
    let times: Vec<u64> =
        phase.events.iter().filter_map(|event| Some(event.duration()? / 1000)).collect();
    assert_eq!(times, [1, 10, 11, 12, 1, 2, 10, 11, 12, 2]);
    assert_eq!(phase.variations.len(), 6);
}

#[test]
fn wrong_arguments_are_refused_with_a_way_out() {
    for (name, value, message) in [
        ("taks", "3", "ring.json: there is no parameter `taks`; did you mean `tasks`?"),
        ("x", "3", "ring.json: there is no parameter `x`; it has tasks, work, cpus"),
        ("tasks", "1", "ring.json: tasks=1 is not possible; write a number from 2 to 100"),
        ("tasks", "many", "ring.json: tasks=many is not possible; write a number from 2 to 100"),
        (
            "work",
            "5h",
            "ring.json: work=5h is not possible; write a time of 0 to 1000000 us, such as 5ms or 100us",
        ),
        ("cpus", "0.5", "ring.json: cpus=0.5 is not possible; write a number from 1 to 4096"),
    ] {
        assert_eq!(refused(RING, &arguments(Some(2), &[(name, value)])), message);
    }
    // Three halves of a member are no number of instances.
    let message = refused(RING, &arguments(Some(2), &[("tasks", "2.5")]));
    assert!(
        message.contains(
            "tasks.member: uses the number of the instance, so it needs a whole number of instances"
        ),
        "{message}"
    );
    let message = refused(RING, &Arguments::default());
    assert!(
        message.starts_with(
            "ring.json:5:4: fairground.parameters.tasks: %(2 * cpus) cannot be computed"
        ),
        "{message}"
    );
}

#[test]
fn wrong_files_are_refused_with_their_place() {
    let run = r#"{ "run": 1 }"#;
    for (settings, task, words) in [
        (
            r#"{ "parameters": { "n": {} } }"#,
            run,
            "fairground.parameters.n: a parameter cannot be called so",
        ),
        (r#"{ "parameters": { "use": {} } }"#, run, "no word of programming languages"),
        (r#"{ "parameters": { "2x": {} } }"#, run, "cannot be called so"),
        (
            r#"{ "parameters": { "a": { "from": 0, "to": 1, "doc": "" } } }"#,
            run,
            "`default` is missing",
        ),
        (
            r#"{ "parameters": { "a": { "default": 2, "from": 0, "to": 1, "doc": "" } } }"#,
            run,
            "the default is 2; make it a number from 0 to 1",
        ),
        (
            r#"{ "parameters": { "a": { "default": 2, "from": 3, "to": 1, "doc": "" } } }"#,
            run,
            "`from` is above `to`",
        ),
        (r#"{ "parameters": { "a": { "defualt": 2 } } }"#, run, "did you mean `default`?"),
        ("{}", r#"{ "run": "%(works)" }"#, "tasks.t.run: %(works) cannot be computed: "),
        ("{}", r#"{ "run": "%(1" }"#, "close it"),
        ("{}", r#"{ "run": "%(3 / 2.0)" }"#, "tasks.t.run: 1.5 is not possible here"),
        (
            "{}",
            r#"{ "instance": 0, "sem_post": "s%i", "run": 1 }"#,
            "uses the number of the instance, so it needs a whole number of instances from 1 to 100000",
        ),
        (
            "{}",
            r#"{ "run": 1, "fairground1": { "repeat": { "times": 2 } } }"#,
            "write { \"repeat\" : { \"times\" : NUMBER, \"events\" : { ... } } }",
        ),
        (
            "{}",
            r#"{ "run": 1, "fairground1": { "repeat": { "times": 1000000, "events": { "run": 1 } } } }"#,
            "more than 1000000 values",
        ),
    ] {
        let message = refused(&file(settings, task), &Arguments::default());
        assert!(message.starts_with("ring.json:1:") && message.contains(words), "{message}");
    }
}
