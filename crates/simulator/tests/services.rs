//! Requests at services, requests from outside, daemons, barriers that spin, and many forks.

mod common;

use common::{Log, free, scheduler};
use fairground_events::{Event, EventKind, Nanoseconds, Sink, TaskId, TaskInfo};
use fairground_simulator::{Options, Outcome, simulate};

const MS: u64 = 1_000_000;

/// The facts about a task that tests check.
#[derive(Default)]
struct Seen {
    name: String,
    begun: Option<u64>,
    laps: Vec<u64>,
    on_since: Option<u64>,
    cpu_time: u64,
    ended: Option<u64>,
}

/// The history of the tasks, without overhead.
#[derive(Default)]
struct Tasks {
    list: Vec<Seen>,
    end: u64,
}

impl Sink for Tasks {
    fn task(&mut self, _: Nanoseconds, task: TaskId, info: &TaskInfo) {
        let number = task.0 as usize;
        self.list.resize_with(self.list.len().max(number + 1), Seen::default);
        self.list[number].name.clone_from(&info.name);
    }

    fn event(&mut self, event: &Event) {
        match event.kind {
            EventKind::Lap { task, at, begins } => {
                let task = &mut self.list[task.0 as usize];
                match begins {
                    true => task.begun = Some(at),
                    false => task.laps.push(at - task.begun.take().expect("a lap has begun")),
                }
            }
            EventKind::Switch { prev, next, .. } => {
                if let Some(prev) = prev {
                    let prev = &mut self.list[prev.0 as usize];
                    prev.cpu_time += event.time - prev.on_since.take().unwrap_or(event.time);
                }
                if let Some(next) = next {
                    self.list[next.0 as usize].on_since = Some(event.time);
                }
            }
            EventKind::Exit { task } => self.list[task.0 as usize].ended = Some(event.time),
            _ => {}
        }
    }

    fn finish(&mut self, end: Nanoseconds) {
        self.end = end;
        for task in &mut self.list {
            task.cpu_time += end - task.on_since.take().unwrap_or(end);
        }
    }
}

impl Tasks {
    fn find(&self, name: &str) -> &Seen {
        let mut tasks = self.list.iter();
        tasks.find(|task| task.name == name).expect("there is such a task")
    }
}

fn run(options: &Options) -> (Outcome, Tasks, Vec<String>) {
    let (mut tasks, mut log) = (Tasks::default(), Log::default());
    let sinks: Vec<&mut dyn Sink> = vec![&mut tasks, &mut log];
    let outcome = simulate(&scheduler("bare", &[]), options, sinks).unwrap();
    (outcome, tasks, log.0)
}

/// A run on this machine without costs.
fn measured(machine: &str, text: &str) -> Tasks {
    let (outcome, tasks, _) = run(&free(machine, text));
    assert_eq!(outcome.failure, None);
    tasks
}

#[test]
fn an_answer_goes_to_the_task_that_asked() {
    // The slow server gets the first request, the fast one the second; each asker waits for its own.
    let tasks = measured(
        "4",
        r#"{"tasks": {
            "first": {"loop": 1, "phases": {"p": {"sleep": 1000, "fairground1": {"ask": "s"}}}},
            "second": {"loop": 1, "phases": {"p": {"sleep": 2000, "fairground1": {"ask": "s"}}}},
            "slow": {"loop": 1, "phases": {"p": {"fairground1": {"take": "s"}, "run": 9000, "fairground2": {"answer": ""}}}},
            "fast": {"loop": 1, "phases": {"p": {"run1": 500, "fairground1": {"take": "s"}, "run2": 3000, "fairground2": {"answer": ""}}}}}}"#,
    );
    assert_eq!(tasks.find("first").laps, [9 * MS; 1]);
    assert_eq!(tasks.find("second").laps, [3 * MS; 1]);
    assert!(tasks.find("slow").laps.is_empty());
    assert_eq!(tasks.end, 10 * MS);
}

#[test]
fn a_request_keeps_its_origin_when_it_is_passed_on() {
    let tasks = measured(
        "2",
        r#"{"tasks": {
            "asker": {"loop": 1, "phases": {"p": {"loop": 3, "fairground1": {"ask": "front"}}}},
            "front": {"loop": 1, "phases": {"p": {"loop": 3, "fairground1": {"take": "front"}, "run": 1000, "fairground2": {"pass": "back"}}}},
            "back": {"loop": 1, "phases": {"p": {"loop": 3, "fairground1": {"take": "back"}, "run": 2000, "fairground2": {"answer": ""}}}}}}"#,
    );
    assert_eq!(tasks.find("asker").laps, [3 * MS; 3]);
}

#[test]
fn one_task_waits_for_several_services_and_takes_the_oldest_request() {
    let text = r#"{"tasks": {
        "a": {"loop": 1, "phases": {"p": {"sleep": 2000, "fairground1": {"ask": "a"}}}},
        "b": {"loop": 1, "phases": {"p": {"sleep": 1000, "fairground1": {"ask": "b"}}}},
        "late": {"loop": 1, "phases": {"p": {"sleep": 50000, "fairground1": {"ask": "a"}}}},
        "server": {"loop": 1, "phases": {"p": {"loop": 3, "fairground1": {"take": ["a", "b"]}, "run": 10000, "fairground2": {"answer": ""}}}}}}"#;
    let tasks = measured("4", text);
    assert_eq!(tasks.find("b").laps, [10 * MS; 1]);
    assert_eq!(tasks.find("a").laps, [19 * MS; 1]);
    assert_eq!(tasks.find("late").laps, [10 * MS; 1]);
}

#[test]
fn tasks_with_a_stopwatch_have_only_laps_of_their_own() {
    let tasks = measured(
        "2",
        r#"{"tasks": {
            "asker": {"loop": 1, "phases": {"p": {"fairground0": {"lap": "begin"}, "fairground1": {"ask": "s"}, "fairground2": {"ask": "s"},
                "fairground3": {"lap": "end"}}}},
            "server": {"loop": 1, "phases": {"p": {"loop": 2, "fairground1": {"take": "s"}, "run": 1000, "fairground2": {"answer": ""}}}}}}"#,
    );
    assert_eq!(tasks.find("asker").laps, [2 * MS; 1]);
}

#[test]
fn requests_from_outside_come_on_time_and_wait_from_their_arrival() {
    // A request each 10 ms that takes 15 ms: each waits 5 ms longer than the one before.
    let text = r#"{"fairground": {"arrivals": {"s": {"rate": 100}}},
        "tasks": {"server": {"phases": {"p": {"fairground1": {"take": "s"}, "run": 15000, "fairground2": {"answer": ""}}}}},
        "global": {"duration": 1}}"#;
    let tasks = measured("1", text);
    // From 10 ms on, without a pause.
    let server = tasks.find("server");
    let expected: Vec<u64> = (0..66).map(|number| (15 + number * 5) * MS).collect();
    assert_eq!(server.laps, expected);
    assert_eq!(server.cpu_time, 990 * MS);
}

#[test]
fn arrivals_vary_with_the_seed_alone() {
    let text = |kind: &str| {
        format!(
            r#"{{"fairground": {{"arrivals": {{"s": {{"rate": 1000, {kind} "burst": 2}}}}}},
            "tasks": {{"server": {{"phases": {{"p": {{"fairground1": {{"take": "s"}}, "run": 1, "fairground2": {{"answer": ""}}}}}}}}}},
            "global": {{"duration": 2}}}}"#
        )
    };
    let times = |cpus: &str, kind: &str, seed: u64| {
        let mut options = free(cpus, &text(kind));
        options.seed = seed;
        let (outcome, tasks, log) = run(&options);
        assert_eq!(outcome.failure, None);
        let begins = log.into_iter().filter(|line| line.contains("begins: true"));
        let begins = begins.map(|line| line.split("Lap").nth(1).unwrap().to_owned());
        (tasks.find("server").laps.len(), begins.collect::<Vec<_>>())
    };
    let (samples, one) = times("1", r#""exponential": 1,"#, 7);
    assert!((1800..2200).contains(&samples), "{samples}");
    assert_eq!(
        times("4", r#""exponential": 1,"#, 7).1,
        one,
        "other machines get the same requests"
    );
    assert_ne!(times("1", r#""exponential": 1,"#, 8).1, one);
    // Without a factor, two at a time each 2 ms.
    let (samples, regular) = times("1", "", 7);
    assert_eq!(samples, 2000 - 2);
    assert!(
        regular[0].contains("at: 2000000,") && regular[3].contains("at: 4000000,"),
        "{regular:?}"
    );
}

#[test]
fn interrupts_of_requests_reach_the_cpus_that_are_named() {
    let text = |cpus: &str| {
        format!(
            r#"{{"fairground": {{"arrivals": {{"s": {{"rate": 1000{cpus}}}}}}},
            "tasks": {{"server": {{"phases": {{"p": {{"fairground1": {{"take": "s"}}, "run": 1, "fairground2": {{"answer": ""}}}}}}}}}},
            "global": {{"duration": 1}}}}"#
        )
    };
    let interrupted = |cpus: &str| {
        let mut options = free("3", &text(cpus));
        options.cost.timer = 777;
        let (_, _, log) = run(&options);
        let of = |cpu: u32| {
            let words = format!("Overhead {{ cpu: CpuId({cpu}), kind: Interrupt, duration: 777 }}");
            log.iter().filter(|line| line.contains(&words)).count()
        };
        [of(0), of(1), of(2)]
    };
    let one = interrupted(r#", "cpus": [2]"#);
    assert!(one[2] >= 999 && one[0] + one[1] == 0, "{one:?}");
    let all = interrupted("");
    assert!(all.iter().all(|count| *count >= 333), "{all:?}");
}

#[test]
fn misused_requests_end_the_run_with_the_reason() {
    for (program, words) in [
        (
            r#""fairground1": {"take": "s"}, "fairground2": {"take": "s"}, "fairground3": {"answer": ""}"#,
            "server takes a request before it has answered or passed on the one before; correct the workload",
        ),
        (
            r#""fairground1": {"take": "s"}, "fairground2": {"answer": ""}, "fairground3": {"answer": ""}"#,
            "server answers a request, but has taken none",
        ),
        (
            r#""fairground1": {"take": "s"}, "fairground2": {"answer": ""}, "fairground3": {"pass": "s"}"#,
            "server passes on a request, but has taken none",
        ),
    ] {
        let text = format!(
            r#"{{"fairground": {{"arrivals": {{"s": {{"rate": 1000}}}}}}, "tasks": {{"server": {{"phases": {{"p": {{{program}, "run": 1}}}}}}}}}}"#
        );
        let (outcome, ..) = run(&free("1", &text));
        let failure = format!("{:?}", outcome.failure);
        assert!(failure.contains(words), "{failure}");
    }
}

#[test]
fn tasks_that_wait_for_answers_of_each_other_are_a_deadlock() {
    let text = r#"{"tasks": {
        "a": {"phases": {"p": {"fairground1": {"ask": "b"}, "fairground2": {"take": "a"}, "fairground3": {"answer": ""}}}},
        "b": {"phases": {"p": {"fairground1": {"ask": "a"}, "fairground2": {"take": "b"}, "fairground3": {"answer": ""}}}}}}"#;
    let (outcome, ..) = run(&free("2", text));
    let told = format!("{outcome:?}");
    assert!(
        told.contains("a waits for an answer of service b; b waits for an answer of service a"),
        "{told}"
    );
}

#[test]
fn a_run_does_not_wait_for_daemons() {
    let text = |daemon: bool| {
        format!(
            r#"{{"tasks": {{"work": {{"instance": 2, "loop": 1, "phases": {{"p": {{"run": 5000}}}}}},
            "daemon": {{"fairground": {{"daemon": {daemon}}}, "run": 100, "sleep": 100}}}}, "global": {{"duration": 1}}}}"#
        )
    };
    assert_eq!(measured("3", &text(true)).end, 5 * MS);
    assert_eq!(measured("3", &text(false)).end, 1000 * MS);
}

#[test]
fn a_barrier_that_spins_uses_its_cpus_until_it_opens_or_the_time_is_over() {
    let cpu_times = |spin: u64| {
        let tasks = measured(
            "2",
            &format!(
                r#"{{"fairground": {{"barriers": {{"b": {{"spin": {spin}}}}}}}, "tasks": {{
                "early": {{"loop": 1, "phases": {{"p": {{"run": 1000, "barrier": "b", "run2": 500}}}}}},
                "late": {{"loop": 1, "phases": {{"p": {{"run": 5000, "barrier": "b", "run2": 500}}}}}}}}}}"#
            ),
        );
        assert_eq!(tasks.end, 5_500_000);
        [tasks.find("early").cpu_time, tasks.find("late").cpu_time]
    };
    assert_eq!(cpu_times(0), [1_500_000, 5_500_000]);
    assert_eq!(cpu_times(3000), [4_500_000, 5_500_000]);
    assert_eq!(cpu_times(100_000), [5_500_000, 5_500_000]);
}

#[test]
fn a_barrier_that_spins_opens_for_tasks_that_do_not_run() {
    // Both on one CPU: the early one spins until it is preempted, and goes on when it runs again.
    let tasks = measured(
        "1",
        r#"{"fairground": {"barriers": {"b": {"spin": 10000000}}}, "tasks": {
            "t": {"instance": 2, "loop": 1, "phases": {"p": {"loop": 3, "run": 1000, "barrier": "b"}}}}}"#,
    );
    assert!(tasks.list.iter().all(|task| task.ended.is_some()));
}

#[test]
fn more_tasks_may_be_forked_than_rt_app_allows() {
    let tasks = measured(
        "2",
        r#"{"tasks": {"parent": {"loop": 1, "phases": {"p": {"loop": 3000, "fork": "child", "run": 10}}},
            "child": {"instance": 0, "loop": 1, "phases": {"p": {"run": 5}}}}}"#,
    );
    assert_eq!(tasks.list.len(), 3001);
    assert!(tasks.list.iter().all(|task| task.ended.is_some()));
}
