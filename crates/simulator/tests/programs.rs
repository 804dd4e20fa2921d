//! The programs of tasks beyond rt-app's events: laps, varied times, pipes, disks, memory, spinning, skipping timers.

mod common;

use common::{Log, built_in, free, run, scheduler};
use fairground_simulator::{Options, Outcome, simulate};

const MS: u64 = 1_000_000;

/// A run with a log, in which only lines that contain one of the words are kept, from the word on.
fn logged(options: &Options, words: &[&str]) -> (Outcome, Vec<String>) {
    let mut log = Log::default();
    let outcome = simulate(&scheduler("bare", &[]), options, vec![&mut log]).unwrap();
    assert_eq!(outcome.failure, None);
    let wanted = log.0.into_iter().filter(|line| words.iter().any(|word| line.contains(word)));
    (outcome, wanted.collect())
}

/// The number that follows a word in a line of a log.
fn number(line: &str, word: &str) -> u64 {
    let (_, rest) = line.split_once(word).unwrap_or_else(|| panic!("no {word} in {line}"));
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().unwrap()
}

/// Times of the laps of task 0.
fn laps(lines: &[String]) -> Vec<u64> {
    let at: Vec<u64> = lines.iter().map(|line| number(line, "at: ")).collect();
    at.chunks_exact(2).map(|lap| lap[1] - lap[0]).collect()
}

#[test]
fn a_lap_is_the_time_that_the_task_sees_pass() {
    let text = r#"{"tasks": {"t": {"loop": 2, "phases": {"p": {
        "sleep": 5000, "fairground0": {"lap": "begin"}, "run": 3000, "sleep1": 1000, "fairground1": {"lap": "end"}}}}}}"#;
    let (_, lines) = logged(&free("1", text), &["Lap"]);
    assert_eq!(laps(&lines), [4 * MS, 4 * MS]);
    assert_eq!(number(&lines[0], "at: "), 5 * MS);
    // With costs, an end sees the time that its own CPU has spent since.
    let mut options = free("1", text);
    options.cost.system_call = 1000;
    let (_, lines) = logged(&options, &["Lap"]);
    assert_eq!(laps(&lines), [4 * MS + 1000; 2]);
}

#[test]
fn a_mutex_that_nobody_wants_takes_no_system_call() {
    let text = r#"{"tasks": {"t": {"loop": 2, "phases": {"p": {
        "fairground0": {"lap": "begin"}, "lock": "m", "run": 3000, "unlock": "m", "fairground1": {"lap": "end"}}}}}}"#;
    let mut options = free("1", text);
    options.cost.system_call = 1000;
    let (_, lines) = logged(&options, &["Lap"]);
    assert_eq!(laps(&lines), [3 * MS; 2]);
    // A task that has to wait for the lock makes a system call; so does the one that then releases it.
    let text = r#"{"tasks": {
        "owner": {"loop": 1, "phases": {"p": {"lock": "m", "sleep": 3000, "fairground0": {"lap": "begin"}, "unlock": "m",
            "fairground1": {"lap": "end"}}}},
        "waiter": {"loop": 1, "phases": {"p": {"sleep": 1000, "lock": "m", "unlock": "m"}}}}}"#;
    let mut options = free("1", text);
    options.cost.system_call = 1000;
    let (_, lines) = logged(&options, &["Lap"]);
    assert_eq!(laps(&lines), [1000]);
}

const VARIED: &str = r#"{"tasks": {"t": {"instance": 3, "loop": 20, "fairground": {"vary": {"run": {"lognormal": 0.8}}},
    "phases": {"p": {"run": 5000, "sleep": 1000}}}}}"#;

#[test]
fn schedulers_see_the_same_service_times() {
    let times = |id: &str, machine: &str, seed: u64| {
        let mut options = free(machine, VARIED);
        options.seed = seed;
        let outcome = run(&built_in(id), &options);
        outcome.tasks.iter().map(|task| task.cpu_time).collect::<Vec<_>>()
    };
    let under_o1 = times("o1", "1", 1);
    assert_eq!(under_o1, times("cfs", "1", 1));
    assert_eq!(under_o1, times("cfs", "2", 1));
    assert_ne!(under_o1, times("o1", "1", 2), "another seed");
    assert_ne!(under_o1[0], under_o1[1], "instances have numbers of their own");
}

#[test]
fn who_kicks_its_own_cpu_by_a_wake_up_is_preempted_before_its_next_event() {
    // The kick takes effect when the first semaphore is posted, not when the waker waits for the second.
    let text = r#"{"tasks": {
        "woken": {"loop": -1, "phases": {"p": {"sem_wait": "go", "run": 10, "sem_post": "done"}}},
        "waker": {"loop": -1, "phases": {"p": {"run": 20, "sem_post": "go", "sem_wait": "done"}}}}, "global": {"duration": 1}}"#;
    let mut log = Log::default();
    simulate(&scheduler("kicks", &[]), &free("1", text), vec![&mut log]).unwrap();
    let count = |word: &str| log.0.iter().filter(|line| line.contains(word)).count();
    let (waker, woken) = ("Sleep { task: TaskId(0)", "Sleep { task: TaskId(1)");
    assert!(count(woken) > 30_000);
    assert_eq!(count(waker), 0, "the other is done before it looks");
}

#[test]
fn an_event_may_happen_now_and_then() {
    let text = r#"{"tasks": {"t": {"loop": 1000, "fairground": {"vary": {"sleep": {"chance": 0.25}}},
        "phases": {"p": {"run": 10, "sleep": 100}}}}}"#;
    let (_, lines) = logged(&free("1", text), &["Sleep"]);
    assert!((200..300).contains(&lines.len()), "{}", lines.len());
}

#[test]
fn a_pipe_wakes_its_reader_synchronously() {
    let text = r#"{"tasks": {
        "reader": {"loop": 1, "phases": {"p": {"fairground1": {"pipe_read": {"pipe": "p", "bytes": 4}}}}},
        "writer": {"loop": 1, "phases": {"p": {"run": 1000, "fairground1": {"pipe_write": {"pipe": "p", "bytes": 4}}}}},
        "waiter": {"loop": 1, "phases": {"p": {"sem_wait": "s"}}},
        "poster": {"loop": 1, "phases": {"p": {"run": 2000, "sem_post": "s"}}}}}"#;
    let outcome = run(&scheduler("waits", &[]), &free("2", text));
    assert_eq!(outcome.failure, None);
    let seen = |line: &str| outcome.messages.iter().any(|message| message == line);
    // SCX_WAKE_TTWU with and without SCX_WAKE_SYNC: a futex knows no synchronous wake-up.
    assert!(seen("reader woken with 0x18"), "{:?}", outcome.messages);
    assert!(seen("waiter woken with 0x8"), "{:?}", outcome.messages);
    assert!(seen("reader sleeps in state 1, for a disk 0, in call 0"), "{:?}", outcome.messages);
}

#[test]
fn a_pipe_of_2_6_wakes_synchronously_in_the_middle_of_a_transfer_only() {
    // The writer's first page is the middle of its transfer, and its second the end.
    let text = r#"{"fairground": {"pipes": {"p": {"release": "2.6"}}}, "tasks": {
        "reader": {"loop": 1, "phases": {"p": {"fairground1": {"pipe_read": {"pipe": "p", "bytes": 8192}}}}},
        "writer": {"loop": 1, "phases": {"p": {"run": 1000, "fairground1": {"pipe_write": {"pipe": "p", "bytes": 8192}}}}}}}"#;
    let outcome = run(&scheduler("waits", &[]), &free("2", text));
    assert_eq!(outcome.failure, None);
    // SCX_WAKE_TTWU with and without SCX_WAKE_SYNC, not SCX_WAKE_FORK. The reader waits for the rest, since a writer does, and says so.
    let is_woken = |line: &&String| line.contains("woken") && !line.ends_with("0x4");
    let woken = outcome.messages.iter().filter(is_woken);
    let expected = ["reader woken with 0x18", "writer woken with 0x18", "reader woken with 0x8"];
    assert_eq!(woken.collect::<Vec<_>>(), expected);
}

#[test]
fn a_socket_wakes_all_that_wait_the_last_one_first() {
    // 278 messages of 100 bytes fill a socket; with the 209th that is read, three quarters of its memory are free.
    let text = r#"{"fairground": {"pipes": {"s": {"socket": 1}}}, "tasks": {
        "filler": {"loop": 1, "cpus": [0], "phases": {"p": {"loop": 278, "fairground1": {"pipe_write": {"pipe": "s", "bytes": 100}}}}},
        "first": {"loop": 1, "cpus": [1], "phases": {"p": {"run": 1000, "fairground1": {"pipe_write": {"pipe": "s", "bytes": 100}}}}},
        "second": {"loop": 1, "cpus": [2], "phases": {"p": {"run": 2000, "fairground1": {"pipe_write": {"pipe": "s", "bytes": 100}}}}},
        "reader": {"loop": 1, "cpus": [3], "phases": {
            "p": {"sleep": 5000, "loop": 1, "fairground1": {"pipe_read": {"pipe": "s", "bytes": 20800}}},
            "q": {"sleep": 5000, "loop": 1, "fairground1": {"pipe_read": {"pipe": "s", "bytes": 100}}},
            "r": {"sleep": 5000, "loop": 1, "fairground1": {"pipe_read": {"pipe": "s", "bytes": 7100}}}}}}}"#;
    let (outcome, lines) = logged(&free("4", text), &["Wake {"]);
    assert_eq!(outcome.end, 15 * MS);
    let woken = lines.iter().map(|line| number(line, "task: TaskId("));
    // After the starts of all four come the ends of the reader's sleeps, at 5, 10 and 15 ms.
    assert_eq!(woken.skip(4).collect::<Vec<_>>(), [3, 3, 2, 1, 3]);
}

#[test]
fn a_socket_wakes_synchronously() {
    let text = r#"{"fairground": {"pipes": {"s": {"socket": 1}}}, "tasks": {
        "reader": {"loop": 1, "phases": {"p": {"fairground1": {"pipe_read": {"pipe": "s", "bytes": 40000}}}}},
        "writer": {"loop": 1, "phases": {"p": {"run": 1000, "fairground1": {"pipe_write": {"pipe": "s", "bytes": 40000}}}}}}}"#;
    let outcome = run(&scheduler("waits", &[]), &free("2", text));
    assert_eq!(outcome.failure, None);
    let is_woken = |line: &&String| line.contains("woken") && !line.ends_with("0x4");
    let woken = outcome.messages.iter().filter(is_woken);
    assert_eq!(woken.collect::<Vec<_>>(), ["reader woken with 0x18"]);
}

#[test]
fn a_sleeper_is_seen_in_its_system_call() {
    let text = r#"{"fairground": {"pipes": {"full": {"capacity": 4096}}}, "tasks": {
        "writer": {"loop": 1, "phases": {"p": {"fairground1": {"pipe_write": {"pipe": "full", "bytes": 8192}}}}},
        "reader": {"loop": 1, "phases": {"p": {"sleep": 9000, "fairground1": {"pipe_read": {"pipe": "full", "bytes": 8192}}}}},
        "locker": {"loop": 1, "phases": {"p": {"sem_wait": "s"}}},
        "asker": {"loop": 1, "phases": {"p": {"fairground1": {"ask": "web"}}}},
        "server": {"loop": 1, "phases": {"p": {"run": 2000, "fairground1": {"take": ["web", "mail"]}, "fairground2": {"answer": ""},
            "sem_post": "s", "fairground3": {"take": ["web", "mail"]}}}},
        "late": {"loop": 1, "phases": {"p": {"run": 30000, "fairground1": {"ask": "mail"}}}},
        "last": {"loop": 1, "phases": {"p": {"fairground1": {"take": "mail"}, "fairground2": {"answer": ""}}}}},
        "global": {"duration": 1}}"#;
    let outcome = run(&scheduler("waits", &[]), &free("8", text));
    let in_call = |task: &str, call: u32| {
        let expected = format!("{task} sleeps in state 1, for a disk 0, in call {call}");
        assert!(outcome.messages.contains(&expected), "{expected}: {:?}", outcome.messages);
    };
    in_call("writer", 1);
    in_call("reader", 230);
    in_call("locker", 202);
    in_call("asker", 45);
    in_call("last", 45);
    in_call("server", 232);
}

#[test]
fn a_token_goes_round_a_ring_of_pipes() {
    let text = r#"{"tasks": {
        "a": {"loop": 100, "phases": {"p": {"fairground0": {"pipe_write": {"pipe": "ab", "bytes": 4}}, "run": 2,
            "fairground1": {"pipe_read": {"pipe": "ca", "bytes": 4}}}}},
        "b": {"loop": 100, "phases": {"p": {"fairground0": {"pipe_read": {"pipe": "ab", "bytes": 4}}, "run": 2,
            "fairground1": {"pipe_write": {"pipe": "bc", "bytes": 4}}}}},
        "c": {"loop": 100, "phases": {"p": {"fairground0": {"pipe_read": {"pipe": "bc", "bytes": 4}}, "run": 2,
            "fairground1": {"pipe_write": {"pipe": "ca", "bytes": 4}}}}}}}"#;
    let outcome = run(&scheduler("bare", &[]), &free("1", text));
    assert_eq!((outcome.failure, outcome.end), (None, 600_000));
}

#[test]
fn a_full_pipe_holds_its_writer_up() {
    let text = r#"{"fairground": {"pipes": {"p": {"capacity": 4096}}}, "tasks": {
        "writer": {"loop": 2, "phases": {"p": {"fairground1": {"pipe_write": {"pipe": "p", "bytes": 8192}}}}},
        "reader": {"loop": 2, "phases": {"p": {"sleep": 1000, "fairground1": {"pipe_read": {"pipe": "p", "bytes": 8192}}}}}}}"#;
    let (outcome, lines) = logged(&free("1", text), &["Sleep { task: TaskId(0)"]);
    // A record takes two fills, and the second record waits for the second sleep of the reader.
    assert_eq!(outcome.end, 2 * MS);
    assert_eq!(lines.len(), 3, "{lines:?}");
}

/// When task 1 locks the mutex that task 0 has held for `held` microseconds, and how often it slept meanwhile.
fn spinning(held: u64, spin: u64) -> (u64, usize) {
    let text = format!(
        r#"{{"fairground": {{"mutexes": {{"m": {{"spin": {spin}}}}}}}, "tasks": {{
            "owner": {{"loop": 1, "cpus": [0], "phases": {{"p": {{"lock": "m", "run": {held}, "unlock": "m", "run1": 100}}}}}},
            "waiter": {{"loop": 1, "cpus": [1], "phases": {{"p": {{"run": 1, "lock": "m", "fairground0": {{"lap": "begin"}},
                "unlock": "m", "fairground1": {{"lap": "end"}}}}}}}}}}}}"#
    );
    let (_, lines) = logged(&free("2", &text), &["Lap", "Sleep { task: TaskId(1)"]);
    let lap = lines.iter().find(|line| line.contains("Lap")).unwrap();
    let sleeps = lines.iter().filter(|line| line.contains("Sleep")).count();
    (number(lap, "at: "), sleeps)
}

#[test]
fn a_waiter_spins_before_it_sleeps() {
    assert_eq!(spinning(10, 20), (10_000, 0));
    assert_eq!(spinning(10, 5), (10_000, 1));
    assert_eq!(spinning(10, 0), (10_000, 1));
}

#[test]
fn who_spins_and_is_not_first_goes_on_spinning() {
    // One of three gets it after the other; each holds it for 10 us, and 25 us of spinning are enough for two turns.
    let text = r#"{"fairground": {"mutexes": {"m": {"spin": 25}}}, "tasks": {
        "t": {"instance": 4, "loop": 1, "phases": {"p": {"lock": "m", "run": 10, "unlock": "m"}}}}}"#;
    let (outcome, lines) = logged(&free("4", text), &["Sleep"]);
    assert_eq!(outcome.end, 40_000);
    // The last has waited for 25 us by the time the third begins its last 5.
    assert_eq!(lines.len(), 1, "{lines:?}");
}

#[test]
fn an_unlocker_that_yields_in_between_keeps_the_mutex() {
    // As in sysbench's threads test: the thread that unlocks takes the mutex again before the woken waiter runs.
    let text = r#"{"tasks": {"t": {"instance": 2, "loop": 100, "phases": {"p": {
        "lock": "m", "run": 2, "yield": "", "unlock": "m"}}}}}"#;
    let (outcome, lines) = logged(&free("1", text), &["Sleep { task: TaskId(1)"]);
    assert_eq!(outcome.end, 400_000);
    // Every yield lets the other try, find the mutex held and sleep again.
    assert!(lines.len() > 50, "{}", lines.len());
}

#[test]
fn a_disk_serves_one_after_the_other() {
    let text = r#"{"tasks": {
        "first": {"loop": 2, "phases": {"p": {"fairground1": {"disk": 8000}}}},
        "second": {"loop": 1, "phases": {"p": {"run": 1000, "fairground1": {"disk": 3000}}}},
        "other": {"loop": 1, "phases": {"p": {"fairground1": {"disk": {"disk": "sdb", "service": 2000}}}}}}}"#;
    let (outcome, lines) = logged(&free("1", text), &["Wake"]);
    let woken = lines.iter().skip(3).map(|line| (number(line, "TaskId("), number(line, "time: ")));
    let expected = [(2, 3 * MS), (0, 8 * MS), (1, 11 * MS), (0, 19 * MS)];
    assert_eq!(woken.collect::<Vec<_>>(), expected);
    assert!(lines.iter().skip(3).all(|line| line.contains("waker: None")));
    assert_eq!(outcome.end, 19 * MS);
    let outcome = run(&scheduler("waits", &[]), &free("2", text));
    let seen = outcome
        .messages
        .iter()
        .any(|line| line == "first sleeps in state 2, for a disk 1, in call 0");
    assert!(seen, "{:?}", outcome.messages);
}

#[test]
fn pages_that_one_task_takes_away_others_read_back() {
    // Seven pages are taken in all; the reader takes at most two of them at a time.
    let text = r#"{"tasks": {
        "taker": {"loop": 7, "phases": {"p": {"run": 10, "fairground1": {"evict": {"memory": "ram"}}}}},
        "reader": {"loop": 10, "phases": {"p": {"run": 1000,
            "fairground1": {"fault": {"memory": "ram", "service": 8000, "most": 2}}}}}}}"#;
    let (outcome, lines) = logged(&free("2", text), &["Sleep { task: TaskId(1)"]);
    assert_eq!(lines.len(), 7, "{lines:?}");
    assert_eq!(outcome.end, 10 * MS + 7 * 8 * MS);
}

#[test]
fn a_skipping_timer_leaves_whole_periods_out() {
    let text = r#"{"tasks": {"t": {"loop": 1, "phases": {"late": {"run": 35000, "fairground1":
        {"timer": {"ref": "unique", "period": 10000, "mode": "skip"}}}, "early": {"loop": 2, "run": 6000, "fairground1":
        {"timer": {"ref": "unique", "period": 10000, "mode": "skip"}}}}}}}"#;
    let (_, lines) = logged(&free("1", text), &["Job"]);
    let short = |line: &String| {
        let (_, kind) = line.split_once("kind: ").unwrap();
        kind.trim_end_matches(" }").replace("task: TaskId(0), ", "").replace("0000000", "0 ms")
    };
    assert_eq!(
        lines.iter().map(short).collect::<Vec<_>>(),
        [
            "JobRelease { due: 0, deadline: 10 ms",
            "JobComplete { deadline: 10 ms",
            "JobSkip { due: 10 ms, period: 10 ms, count: 2",
            "JobRelease { due: 30 ms, deadline: 40 ms",
            // It begins 5 ms late and is done at 41 ms, which is too late but within the next period.
            "JobComplete { deadline: 40 ms",
            "JobRelease { due: 40 ms, deadline: 50 ms",
            // At the end of its last pass there is no further job.
            "JobComplete { deadline: 50 ms",
        ]
    );
}

#[test]
fn the_first_job_counts_from_the_start() {
    // The hog has the CPU for its slice of 20 ms before the periodic task runs for the first time.
    let text = r#"{"tasks": {"hog": {"loop": 1, "run": 15000},
        "late": {"loop": 1, "phases": {"p": {"run": 1000, "timer": {"ref": "unique", "period": 10000}}}}}}"#;
    let (_, lines) = logged(&free("1", text), &["Job"]);
    assert!(
        lines[0]
            .contains("time: 0, kind: JobRelease { task: TaskId(1), due: 0, deadline: 10000000"),
        "{lines:?}"
    );
    assert!(lines[1].contains("time: 16000000, kind: JobComplete"), "{lines:?}");
}

#[test]
fn a_run_with_a_duration_is_idle_when_everybody_waits() {
    let text = r#"{"tasks": {"a": {"loop": -1, "run": 1000, "sem_wait": "never"},
        "b": {"loop": -1, "run": 500, "fairground1": {"pipe_read": {"pipe": "empty", "bytes": 1}}}},
        "global": {"duration": 2}}"#;
    let outcome = run(&scheduler("bare", &[]), &free("1", text));
    assert_eq!((outcome.failure, outcome.end), (None, 2000 * MS));
    let stuck = outcome.stuck.unwrap();
    assert_eq!(stuck, "a waits for semaphore never; b waits for data in pipe empty");
}

#[test]
fn semaphores_hold_back_a_make_with_two_jobs_in_flight() {
    let text = r#"{"tasks": {
        "make": {"loop": 1, "phases": {
            "slots": {"loop": 2, "sem_post": "slot"},
            "jobs": {"loop": 5, "sem_wait": "slot", "run": 1000, "fork": "job"},
            "rest": {"loop": 2, "sem_wait": "slot"}}},
        "job": {"instance": 0, "loop": 1, "phases": {"p": {"run": 10000, "sem_post": "slot"}}}}}"#;
    let (outcome, lines) = logged(&free("8", text), &["Wake", "Exit"]);
    assert_eq!(outcome.tasks.len(), 6);
    let mut alive: u32 = 0;
    for line in lines.iter().filter(|line| !line.contains("task: TaskId(0)")) {
        alive = if line.contains("Exit") { alive - 1 } else { alive + 1 };
        assert!(alive <= 2, "{lines:#?}");
    }
    // Jobs begin at 1, 2, 12, 13 and 23 ms.
    assert_eq!(outcome.end, 33 * MS);
}
