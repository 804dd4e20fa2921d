//! BMQS shows the features by which it is recognised: a list for each CPU, idle CPUs that wait as long as the other is far before they take a
//! task, no search for an idle CPU, slices handed out to those that run, and real-time tasks of two kinds.

use crate::support::{
    History, MS, Run, SECOND, assert_near, assert_the_displaced_move, gaps, outcome_storage, run,
    run_with, statistic,
};
use fairground_events::Nanoseconds;
use fairground_simulator::{Creator, Outcome};

const ID: &str = "bmqs";

/// One tick of 100 Hz.
const TICK: Nanoseconds = 10 * MS;

fn workload(tasks: &[String]) -> String {
    format!(r#"{{ "tasks": {{ {} }} }}"#, tasks.join(", "))
}

/// Tasks that belong to CPU `home`, sleep for `sleep` milliseconds and then do `work` on that CPU or on CPU `other`.
fn at_home(name: &str, number: u32, home: u32, other: u32, sleep: u32, work: &str) -> String {
    format!(
        r#""{name}": {{ "instance": {number}, "phases": {{
            "home": {{ "cpus": [{home}], "run": 1, "loop": 1 }},
            "rest": {{ "cpus": [{home}, {other}], "sleep": {sleep}000, "loop": 1 }},
            "work": {{ "cpus": [{home}, {other}], {work} }} }} }}"#
    )
}

const ALWAYS: &str = r#""run": 1000, "loop": -1"#;

/// `number` tasks that never sleep, of this nice value, on these CPUs.
fn hogs(name: &str, number: u32, nice: i32, cpus: &str) -> String {
    format!(
        r#""{name}": {{ "instance": {number}, "priority": {nice}, "cpus": {cpus}, "run": 1000 }}"#
    )
}

fn steps_per_walk(outcome: &Outcome) -> f64 {
    statistic(ID, outcome, "list_steps") as f64 / statistic(ID, outcome, "schedules") as f64
}

/// When a task first ran at or after `from`.
fn first_run<'a>(history: &'a History, task: &str, from: Nanoseconds) -> &'a Run {
    let found = history
        .runs
        .iter()
        .filter(|run| run.task == task && run.start >= from)
        .min_by_key(|run| run.start);
    found.unwrap_or_else(|| panic!("{task} never ran"))
}

/// The moves between CPUs from `from` on.
fn moves(history: &History, from: Nanoseconds) -> Vec<(Nanoseconds, &str)> {
    history
        .migrations
        .iter()
        .filter(|(time, _)| *time >= from)
        .map(|(time, name)| (*time, name.as_str()))
        .collect()
}

// ---- Idle CPUs -----------------------------------------------------------------------------------------------------

#[test]
fn an_idle_cpu_takes_a_task_after_as_many_ticks_as_it_is_distant() {
    for distance in [0, 1, 2, 3, 5, 10, 20] {
        let msi = format!("{} ms", 10 * distance);
        let json = workload(&[at_home("hog", 3, 0, 1, 1000, ALWAYS)]);
        let (history, _) = run(ID, "2", &json, 3, &[("msi_cache", &msi)]);
        let moves = moves(&history, SECOND);
        assert_eq!(moves.len(), 1, "{distance} ticks: {moves:?}");
        // Overloaded since just after 1 s, seen first at the next tick, and that is the first hit.
        let expected = SECOND + TICK * distance.max(1);
        assert_eq!(moves[0].0 / MS, expected / MS, "{distance} ticks");
    }
}

#[test]
fn a_distance_has_at_most_255_ticks() {
    let json = workload(&[at_home("hog", 3, 0, 1, 1000, ALWAYS)]);
    let settings = [("msi_cache", "4000 ms"), ("max_move_cost", "10000")];
    let (history, _) = run(ID, "2", &json, 5, &settings);
    let times: Vec<_> = moves(&history, SECOND).iter().map(|(time, _)| *time).collect();
    assert_eq!(times.len(), 1, "{times:?}");
    assert_eq!(times[0] / MS, (SECOND + 255 * TICK) / MS);
}

/// A hog that may move and a local real-time task that keeps CPU 0 to itself for 40 of every 50 ms: the queue is overloaded
/// at four ticks and not at the fifth.
fn peaks_of_four_ticks(distance: u32) -> (usize, u64) {
    let peak = r#""peak": { "cpus": [0], "delay": 5000, "fairground": { "realtime": "local", "realtime_priority": 9 },
        "phases": { "p": { "run": 40000, "sleep": 10000, "loop": -1 } } }"#;
    let json = workload(&[at_home("hog", 1, 0, 1, 1, ALWAYS), peak.to_owned()]);
    let msi = format!("{} ms", 10 * distance);
    let (history, outcome) = run(ID, "2", &json, 10, &[("msi_cache", &msi)]);
    (moves(&history, 0).len(), statistic(ID, &outcome, "idle_passes"))
}

#[test]
fn load_peaks_shorter_than_the_distance_move_nothing() {
    for distance in [5, 6, 10] {
        let (moves, looks) = peaks_of_four_ticks(distance);
        assert_eq!(moves, 0, "{distance} ticks");
        // One of two CPUs idles all the time and looks at every tick.
        assert!(looks >= 990, "{looks} looks");
    }
    // As long as the distance they are seen.
    assert_eq!(peaks_of_four_ticks(4).0, 1);
}

#[test]
fn between_two_thefts_the_counting_begins_anew() {
    // A real-time task holds CPU 0, so that none of the others runs unless CPU 1 takes it; there it runs for 1 ms and leaves.
    let boss = r#""boss": { "cpus": [0], "delay": 990000, "fairground": { "realtime": "local", "realtime_priority": 9 },
        "phases": { "p": { "run": 900000, "loop": 1 }, "q": { "sleep": 100000000, "loop": -1 } } }"#;
    for distance in [3, 5, 8] {
        let json = workload(&[
            boss.to_owned(),
            at_home("guest", 6, 0, 1, 1000, r#""run": 1000, "sleep": 100000000, "loop": -1"#),
        ]);
        let msi = format!("{} ms", 10 * distance);
        let (history, _) = run(ID, "2", &json, 2, &[("msi_cache", &msi)]);
        let times: Vec<_> = moves(&history, SECOND).iter().map(|(time, _)| *time).collect();
        assert_eq!(times.len(), 6, "{times:?}");
        assert_eq!(times[0] / MS, (SECOND + TICK * distance) / MS);
        for pair in times.windows(2) {
            // The look when the stolen task has left is the first of `distance`, the others are at ticks.
            assert_eq!((pair[1] - pair[0]) / MS, TICK * (distance - 1) / MS, "{times:?}");
        }
    }
}

/// Which of two overloaded CPUs is relieved first by CPU 0: CPU 1 on its own node, with `near` tasks, or CPU 2 on the other one.
fn first_relieved(near: u32, far: u32, mvtsk_cost: &str) -> String {
    let json = workload(&[
        at_home("near", near, 1, 0, 1000, ALWAYS),
        at_home("far", far, 2, 0, 1000, ALWAYS),
    ]);
    // Distances 0 and 1, so that both are candidates when CPU 0 first looks.
    let settings = [("msi_cache", "0 ms"), ("msi_remote", "10 ms"), ("mvtsk_cost", mvtsk_cost)];
    let (history, _) = run(ID, "numa:2 core:2", &json, 2, &settings);
    let moves = moves(&history, SECOND);
    assert_eq!(moves[0].0 / MS, 1010, "{moves:?}");
    moves[0].1.split('-').next().unwrap().to_owned()
}

#[test]
fn the_nearer_cpu_is_relieved_first_until_the_farther_one_is_that_much_longer() {
    // One tick is 16 units, one task 6.4: 2.5 tasks make up for it.
    assert_eq!(first_relieved(2, 2, "4 ms"), "near");
    assert_eq!(first_relieved(2, 4, "4 ms"), "near");
    assert_eq!(first_relieved(2, 5, "4 ms"), "far");
    assert_eq!(first_relieved(4, 6, "4 ms"), "near");
    assert_eq!(first_relieved(4, 7, "4 ms"), "far");
    // One task 3.2: 2 * 3.2 = 6 and 7 * 3.2 - 16 = 6 are equal in whole units, and the first CPU wins.
    assert_eq!(first_relieved(2, 7, "2 ms"), "near");
    assert_eq!(first_relieved(2, 8, "2 ms"), "far");
    // One task 38.4
    assert_eq!(first_relieved(2, 3, "24 ms"), "far");
    // Without a weight only the distance counts.
    assert_eq!(first_relieved(2, 9, "0 ms"), "near");
}

#[test]
fn the_nearer_cpu_comes_first_by_its_shorter_wait() {
    // 5 and 10 ticks; five tasks there would cost less than two here, but CPU 0 has helped itself before they count.
    let json =
        workload(&[at_home("near", 2, 1, 0, 1000, ALWAYS), at_home("far", 5, 2, 0, 1000, ALWAYS)]);
    let (history, _) = run(ID, "numa:2 core:2", &json, 2, &[]);
    let moves = moves(&history, SECOND);
    assert_eq!(moves[0].0 / MS, 1050, "{moves:?}");
    assert!(moves[0].1.starts_with("near"), "{moves:?}");
}

#[test]
fn distances_follow_the_machine() {
    // When CPU 0 takes a task from each other CPU, by levels: sibling 2 ticks, cache 5, node 7, remote 10, twice as far 20.
    let machine = "numa:2 l3:2 core:2 pu:2";
    let settings = [("msi_node", "70 ms")];
    for (home, ticks) in [(1, 2), (2, 5), (4, 7), (8, 10)] {
        let json = workload(&[at_home("hog", 2, home, 0, 1000, ALWAYS)]);
        let (history, _) = run(ID, machine, &json, 2, &settings);
        let moves = moves(&history, SECOND);
        assert_eq!(moves[0].0 / MS, (SECOND + ticks * TICK) / MS, "CPU {home}");
    }
}

#[test]
fn a_cpu_that_costs_a_thousand_or_more_is_left_alone() {
    // 67 * 16 - 2 * 38.4 = 996, 68 * 16 - 2 * 38.4 = 1012
    for (msi, steals) in [("670 ms", 1), ("680 ms", 0)] {
        let json = workload(&[at_home("hog", 2, 0, 1, 1000, ALWAYS)]);
        let (_, outcome) = run(ID, "2", &json, 6, &[("msi_cache", msi)]);
        assert_eq!(statistic(ID, &outcome, "steals"), steals, "{msi}");
    }
}

#[test]
fn the_task_that_has_not_run_for_longest_is_taken() {
    for (distance, msi) in [(4, "40 ms"), (8, "80 ms"), (17, "170 ms")] {
        let json = workload(&[at_home("hog", 4, 0, 1, 1000, ALWAYS)]);
        let (history, _) = run(ID, "2", &json, 3, &[("msi_cache", msi)]);
        let (time, stolen) = moves(&history, SECOND)[0];
        let last_ran = |task: &str| {
            let runs = history.runs.iter().filter(|run| run.task == task);
            runs.filter(|run| run.end <= time).map(|run| run.end / TICK).max()
        };
        let waiting: Vec<String> = (0..4)
            .map(|index| format!("hog-{index}"))
            .filter(|name| {
                let mut runs = history.runs.iter().filter(|run| run.task == *name);
                !runs.any(|run| run.cpu == 0 && run.start < time && run.end > time)
            })
            .collect();
        assert_eq!(waiting.len(), 3, "{distance} ticks");
        for other in &waiting {
            assert!(last_ran(stolen) <= last_ran(other), "{stolen}, {other}");
        }
    }
}

/// Of four tasks on CPU 0, which one CPU 1 steals first. The address space loaded there is that of one of them, which ran last
/// `later` milliseconds after the others.
fn stolen_beside_kin(later: u32, bonus: &str) -> String {
    let of_kin = |name: &str, task: &str| {
        let start = format!(r#""{name}": {{"#);
        let attributes =
            format!(r#"{start} "delay": {later}000, "fairground": {{ "process": "kin" }},"#);
        task.replacen(&start, &attributes, 1)
    };
    let json = workload(&[
        at_home("hog", 3, 0, 1, 1000, ALWAYS),
        of_kin("kin", &at_home("kin", 1, 0, 1, 1000, ALWAYS)),
        of_kin("visitor", r#""visitor": { "cpus": [1], "run": 500000, "loop": 1 }"#),
    ]);
    let settings = [("msi_cache", "40 ms"), ("move_mm_bonus", bonus)];
    let (history, _) = run(ID, "2", &json, 3, &settings);
    moves(&history, SECOND)[0].1.to_owned()
}

#[test]
fn a_task_whose_address_space_is_loaded_there_is_moved_before_one_that_waits_for_20_ms_more() {
    assert_eq!(stolen_beside_kin(15, "20 ms"), "kin");
    for (later, bonus) in [(15, "0"), (35, "20 ms")] {
        let stolen = stolen_beside_kin(later, bonus);
        assert!(stolen.starts_with("hog"), "{later}, {bonus}: {stolen}");
    }
    assert_eq!(stolen_beside_kin(35, "40 ms"), "kin");
}

#[test]
fn a_stolen_task_keeps_what_it_has_left_of_its_slice() {
    // The guest has used two ticks of six when a real-time task displaces it, and is stolen at the fifth tick after that.
    let after = |name: &str, priority: i32, sleep: u32, cpu: u32| {
        format!(
            r#""{name}": {{ "cpus": [{cpu}], "priority": {priority}, "phases": {{
                "rest": {{ "sleep": {sleep}, "loop": 1 }}, "work": {{ "run": 1000, "loop": -1 }} }} }}"#
        )
    };
    let json = workload(&[
        at_home("guest", 1, 0, 1, 1000, ALWAYS)
            .replace(r#""phases""#, r#""priority": -20, "phases""#),
        after("boss", 0, 1_025_000, 0).replace(
            r#""phases""#,
            r#""fairground": { "realtime": "local", "realtime_priority": 9 }, "phases""#,
        ),
        after("resident", 19, 1_075_000, 1),
    ]);
    let (history, _) = run(ID, "2", &json, 2, &[("msi_cache", "50 ms")]);
    assert_eq!(moves(&history, SECOND)[0].0 / MS, 1070);
    // The weaker task that it meets there waits for the four ticks that are left.
    let waited_until = first_run(&history, "resident", SECOND).start;
    assert_eq!(waited_until / MS, 1110);
}

#[test]
fn a_task_wakes_on_its_cpu_though_another_idles() {
    let json = workload(&[
        hogs("hog", 1, -20, "[0]"),
        at_home("sleeper", 1, 0, 1, 100, r#""run": 1000, "sleep": 50000, "loop": 100"#),
    ]);
    let settings = [("msi_cache", "100 ms"), ("max_dynprio", "0")];
    let (history, outcome) = run(ID, "2", &json, 20, &settings);
    assert_eq!(moves(&history, 0), []);
    assert_eq!(statistic(ID, &outcome, "steals"), 0);
    // It does wait: for the rest of the hog's six ticks.
    let runs = history.runs_of("sleeper", 200 * MS, 20 * SECOND);
    assert!(runs.len() >= 99, "{} runs", runs.len());
    let late = runs.windows(2).filter(|pair| pair[1].start - pair[0].end > 55 * MS);
    assert!(late.count() > 50);
}

// ---- Placement of new tasks ----------------------------------------------------------------------------------------

/// Whether the child of a task on CPU 0, where `number` tasks are, its parent among them, goes to the empty CPU 1.
fn child_goes(number: u32, msi: &str) -> bool {
    let json = workload(&[
        hogs("hog", number - 1, 0, "[0]"),
        r#""parent": { "cpus": [0], "phases": {
            "first": { "run": 1000, "loop": 1 },
            "forking": { "fork": "child", "loop": 1 },
            "last": { "run": 1000, "loop": -1 } } },
        "child": { "instance": 0, "cpus": [0, 1], "run": 1000 }"#
            .to_owned(),
    ]);
    let (history, outcome) = run(ID, "2", &json, 2, &[("msi_cache", msi)]);
    let child = history.child();
    let elsewhere = statistic(ID, &outcome, "forks_placed_elsewhere");
    if elsewhere == 1 {
        assert_eq!(child.cpu, 1);
    }
    elsewhere == 1
}

#[test]
fn a_child_goes_where_distance_and_load_together_are_least() {
    // 10 ticks are 160 units; four tasks weigh 153 and five 192.
    assert!(!child_goes(4, "100 ms"));
    assert!(child_goes(5, "100 ms"));
    // 5 ticks are 80; two weigh 76 and three 115.
    assert!(!child_goes(2, "50 ms"));
    assert!(child_goes(3, "50 ms"));
    assert!(child_goes(1, "0 ms"));
}

#[test]
fn a_child_goes_to_the_nearest_of_the_emptiest_cpus() {
    // Two cores of two threads each; to the sibling, CPU 1, it is 2 ticks or 32 units, to the other core 5 or 80. A task weighs 38.
    let child_of_three = |hogs_on_the_sibling: u32| {
        let json = workload(&[
            hogs("hog", 2, 0, "[0]"),
            hogs("sibling", hogs_on_the_sibling, 0, "[1]"),
            r#""parent": { "cpus": [0], "phases": {
                "first": { "run": 1000, "loop": 1 },
                "forking": { "fork": "child", "loop": 1 },
                "last": { "run": 1000, "loop": -1 } } },
            "child": { "instance": 0, "run": 1000 }"#
                .to_owned(),
        ]);
        let (history, _) = run(ID, "core:2 pu:2", &json, 2, &[]);
        history.child().cpu
    };
    assert_eq!(child_of_three(1), 1);
    assert_eq!(child_of_three(2), 2);
}

// ---- Time slices ---------------------------------------------------------------------------------------------------

/// Share of the first of two hogs on one CPU, percent of the time of both.
fn share(first: i32, second: i32, settings: &[(&str, &str)]) -> f64 {
    let json = workload(&[hogs("first", 1, first, "[0]"), hogs("second", 1, second, "[0]")]);
    let (history, _) = run(ID, "1", &json, 22, settings);
    let first = history.cpu_time("first", 2 * SECOND, 22 * SECOND) as f64;
    let second = history.cpu_time("second", 2 * SECOND, 22 * SECOND) as f64;
    100.0 * first / (first + second)
}

#[test]
fn shares_are_those_of_the_slices() {
    let longer = [("max_nice_tslice", "90 ms")];
    assert_near(share(0, 19, &[]), 75.0, 1.0, "3 to 1 ticks");
    assert_near(share(0, 19, &longer), 80.0, 1.0, "4 to 1 ticks");
    assert_near(share(0, 19, &[("hz", "1000")]), 78.3, 1.0, "36 to 10 ticks");
    assert_near(share(-20, 0, &[]), 66.7, 1.0, "6 to 3 ticks");
    assert_near(share(-10, 0, &[]), 62.5, 1.0, "5 to 3 ticks");
    assert_near(share(0, 10, &[]), 60.0, 1.0, "3 to 2 ticks");
    assert_near(share(-20, 0, &longer), 66.7, 1.0, "8 to 4 ticks");
}

#[test]
fn shares_are_the_same_whatever_rate_the_kernel_ticks_at() {
    for rate in [100, 250, 300, 1000] {
        let json = workload(&[hogs("first", 1, 0, "[0]"), hogs("second", 1, 19, "[0]")]);
        let (history, _) = run_with(ID, "1", &json, 22, &[], |options| options.hz = rate);
        let first = history.percent("first", 2 * SECOND, 22 * SECOND);
        assert_near(first, 75.0, 1.0, &format!("3 to 1 ticks at {rate} Hz"));
    }
}

#[test]
fn slices_end_at_ticks_and_the_longest_wait_is_all_of_the_others() {
    let json = workload(&[hogs("hog", 10, 0, "[0]")]);
    let (history, _) = run(ID, "1", &json, 20, &[]);
    for index in 0..10 {
        let runs = history.runs_of(&format!("hog-{index}"), 2 * SECOND, 20 * SECOND);
        assert!(runs.len() > 30, "{} runs", runs.len());
        for wait in gaps(&runs) {
            assert!(wait <= 2 * 270 * MS, "{wait}");
        }
        let share = history.percent(&format!("hog-{index}"), 2 * SECOND, 20 * SECOND);
        assert_near(share, 10.0, 0.5, "share");
    }
    for run in history.runs.iter().filter(|run| run.start > 2 * SECOND) {
        assert!(run.end == 20 * SECOND || run.length() % (30 * MS) == 0, "{run:?}");
    }
}

#[test]
fn only_runnable_tasks_of_the_queue_get_new_slices() {
    let json = workload(&[
        r#""sleeper": { "instance": 1000, "cpus": [0], "sleep": 100000000 }"#.to_owned(),
        hogs("hog", 2, 0, "[0]"),
    ]);
    let (_, outcome) = run(ID, "1", &json, 20, &[]);
    let recalculations = statistic(ID, &outcome, "recalculations");
    assert!(recalculations > 300, "{recalculations}");
    let tasks = statistic(ID, &outcome, "recalculated_tasks") as f64 / recalculations as f64;
    assert_near(tasks, 2.0, 0.01, "tasks for each recalculation");
}

#[test]
fn the_walk_is_as_long_as_the_list_of_one_cpu() {
    for hogs_here in [5, 20] {
        let json =
            workload(&[hogs("here", hogs_here, 0, "[0]"), hogs("there", hogs_here, 0, "[1]")]);
        let (_, outcome) = run(ID, "2", &json, 20, &[]);
        assert_near(steps_per_walk(&outcome), f64::from(hogs_here), 0.5, "steps of a walk");
    }
}

/// Points that a task sleeping for `milliseconds` collects while two hogs need 60 ms for a recalculation.
fn points(milliseconds: u32) -> u64 {
    let json = workload(&[
        format!(
            r#""sleeper": {{ "cpus": [0], "phases": {{
                "rest": {{ "sleep": {milliseconds}000, "loop": 1 }},
                "again": {{ "run": 1, "sleep": 100000000, "loop": -1 }} }} }}"#
        ),
        hogs("hog", 2, 0, "[0]"),
    ]);
    let (_, outcome) = run(ID, "1", &json, 10, &[]);
    statistic(ID, &outcome, "dyn_prio_gained")
}

#[test]
fn a_sleeper_gets_a_point_for_each_recalculation_it_misses() {
    // It falls asleep after the hogs' first slices, when the first recalculation is due.
    assert_eq!(points(7 * 60 - 30), 7);
    assert_eq!(points(20 * 60 - 30), 20);
    assert_eq!(points(60 * 60 - 30), 40);
}

// ---- Yielding ------------------------------------------------------------------------------------------------------

/// How many hogs run before a yielder in each round of recalculations, after it has woken with ten points against hogs whose
/// goodness is 9, 6 and 3 better than that of a task without any.
fn hogs_before_yielder(settings: &[(&str, &str)]) -> Vec<usize> {
    let json = workload(&[
        hogs("a", 1, -9, "[0]"),
        hogs("b", 1, -6, "[0]"),
        hogs("c", 1, -3, "[0]"),
        r#""yielder": { "cpus": [0], "phases": {
            "rest": { "sleep": 3000000, "loop": 1 },
            "work": { "run": 100, "yield": "", "loop": -1 } } }"#
            .to_owned(),
    ]);
    let mut all = vec![("max_dynprio", "10")];
    all.extend(settings);
    let (history, outcome) = run(ID, "1", &json, 6, &all);
    assert!(statistic(ID, &outcome, "yields") > 10);
    let mut runs: Vec<&Run> = history.runs.iter().collect();
    runs.sort_by_key(|run| run.start);
    let woken = runs.iter().position(|run| run.task == "yielder" && run.start > 2 * SECOND);
    // A round ends when a hog runs again.
    let mut hogs_seen: Vec<&str> = Vec::new();
    let mut before = Vec::new();
    for run in &runs[woken.unwrap()..] {
        if run.task == "yielder" {
            before.push(hogs_seen.len());
        } else {
            if hogs_seen.contains(&run.task.as_str()) || hogs_seen.len() == 3 {
                hogs_seen.clear();
            }
            hogs_seen.push(&run.task);
        }
    }
    before
}

/// Points of dynamic priority that a task has at the end, by the scheduler's record of it.
fn points_left(outcome: &Outcome, task: &str) -> i32 {
    let bytes = outcome_storage(outcome, task, "task_ctx_map");
    i32::from_ne_bytes(bytes[16..20].try_into().unwrap())
}

#[test]
fn the_tick_that_ends_a_slice_takes_a_point() {
    let sleeper = |seconds| {
        let json = workload(&[
            hogs("hog", 1, 0, "[0]"),
            r#""sleeper": { "phases": { "rest": { "sleep": 900000, "loop": 1 }, "work": { "run": 1000, "loop": -1 } } }"#
                .to_owned(),
        ]);
        let settings = [("max_dynprio", "40")];
        let (_, outcome) = run(ID, "1", &json, seconds, &settings);
        points_left(&outcome, "sleeper")
    };
    let (before, after) = (sleeper(1), sleeper(2));
    assert!(before > 15, "{before}");
    assert!((10..=20).contains(&(before - after)), "{before} and {after}");
}

#[test]
fn a_sleeper_gets_points_for_those_recalculations_alone_that_gave_it_no_slice() {
    let json = workload(&[
        hogs("hog", 1, 0, "[0]"),
        r#""napper": { "cpus": [0], "run": 1000, "sleep": 100 }"#.to_owned(),
    ]);
    let (_, outcome) = run(ID, "1", &json, 10, &[]);
    let counted = |name| statistic(ID, &outcome, name);
    // The hog gets one at each of them.
    let missed = 2 * counted("recalculations") - counted("recalculated_tasks");
    assert!(missed > 50 && counted("recalculated_tasks") > 200);
    assert!(counted("dyn_prio_gained").abs_diff(missed) <= 1, "{missed}");
}

#[test]
fn a_yielder_sinks_step_by_step() {
    let before = hogs_before_yielder(&[]);
    // Points 10: it preempts. 9: after the round it has interrupted, before the hog of 9. 8 to 6: behind that one. 5 to 3: behind
    // two. Less: behind all.
    assert_eq!(before[..9], [0, 3, 1, 1, 1, 2, 2, 2, 3]);
    assert!(before.len() > 20);
    assert!(before[9..].iter().all(|number| *number == 3), "{before:?}");
}

#[test]
fn the_old_yield_goes_to_the_end_and_keeps_slice_and_rank() {
    let json = workload(&[
        r#""yielder": { "instance": 4, "cpus": [0], "run": 1000, "yield": "" }"#.to_owned(),
    ]);
    let (history, outcome) = run(ID, "1", &json, 10, &[("yield_rule", "old")]);
    let mut runs: Vec<&Run> = history.runs.iter().collect();
    runs.sort_by_key(|run| run.start);
    // Before the first tick all have as much left.
    let first: Vec<&str> =
        runs.iter().filter(|run| run.end < TICK).map(|run| run.task.as_str()).collect();
    for four in first.windows(4) {
        assert!((1..4).all(|other| four[0] != four[other]), "{first:?}");
    }
    // Those that have something left of their slices take turns, a millisecond each.
    let later = &runs[100..8000];
    let in_turn = later.windows(2).filter(|two| two[0].task != two[1].task);
    assert!(in_turn.count() > 7000);
    // A round of slices takes 120 ms, less if the last one that has some of it left yields; a round of yields takes 4 ms.
    let recalculations = statistic(ID, &outcome, "recalculations");
    assert!((83..=130).contains(&recalculations), "{recalculations}");
    assert_eq!(statistic(ID, &outcome, "yield_points_lost"), 0);
}

#[test]
fn two_yielders_need_a_recalculation_for_each_round() {
    let json = workload(&[
        r#""yielder": { "instance": 2, "cpus": [0], "run": 1000, "yield": "" }"#.to_owned(),
    ]);
    let (_, outcome) = run(ID, "1", &json, 10, &[]);
    let yields = statistic(ID, &outcome, "yields") as f64;
    let recalculations = statistic(ID, &outcome, "recalculations") as f64;
    assert!(yields > 9000.0, "{yields}");
    assert_near(recalculations / yields, 0.5, 0.01, "recalculations for a yield");
}

#[test]
fn yield_without_another_task_does_nothing() {
    let json = workload(&[r#""yielder": { "run": 1000, "yield": "" }"#.to_owned()]);
    let (_, outcome) = run(ID, "1", &json, 2, &[]);
    assert_eq!(statistic(ID, &outcome, "yields"), 0);
}

// ---- Fork ----------------------------------------------------------------------------------------------------------

#[test]
fn fork_shares_the_slice() {
    let json = workload(&[r#""parent": { "phases": {
            "forking": { "run": 2000, "fork": "child", "loop": 1 },
            "running": { "run": 1000, "loop": -1 } } },
        "child": { "instance": 0, "run": 1000 }"#
        .to_owned()]);
    let (history, _) = run(ID, "1", &json, 1, &[]);
    let mut runs: Vec<&Run> = history.runs.iter().collect();
    runs.sort_by_key(|run| run.start);
    let lengths: Vec<u64> = runs.iter().map(|run| run.length() / MS).collect();
    // Three ticks: the parent keeps one, the child gets two and then, first in the list, three new ones.
    assert_eq!(lengths[..4], [10, 50, 30, 30]);
}

/// Ticks that the process of `number` tasks has inherited when they have ended, each after a millisecond of its slice of 30 ms.
fn inherited(number: u32, settings: &[(&str, &str)]) -> u64 {
    let json = workload(&[
        hogs("hog", 1, 0, "[0]"),
        format!(r#""short": {{ "instance": {number}, "run": 1000, "loop": 1 }}"#),
    ]);
    let (_, outcome) = run_with(ID, "1", &json, 3, settings, |options| {
        options.surroundings.creator = Some(Creator {
            age: 300 * MS,
            cpu_time: 200 * MS,
            waits: 0,
            preparation: MS / 10,
            begin: None,
        });
    });
    statistic(ID, &outcome, "inherited")
}

#[test]
fn a_parent_inherits_what_its_dead_children_have_left_up_to_a_limit() {
    assert_eq!(inherited(0, &[]), 0);
    // The rest of the child's part of the process's three ticks.
    let one = inherited(1, &[]);
    assert!((1..=3).contains(&one), "{one}");
    // At most 20, three of which it has had before.
    assert_eq!(inherited(50, &[]), 17);
    assert_eq!(inherited(50, &[("max_tslice", "400 ms")]), 37);
}

// ---- Real-time tasks -----------------------------------------------------------------------------------------------

/// A real-time task that belongs to CPU `home`, may run on 0 and 1, rests for `rest` ms and then runs for `work` ms.
fn realtime(name: &str, kind: &str, priority: u32, home: u32, rest: u32, work: u32) -> String {
    format!(
        r#""{name}": {{ "fairground": {{ "realtime": "{kind}", "realtime_priority": {priority} }}, "phases": {{
            "home": {{ "cpus": [{home}], "run": 1, "loop": 1 }},
            "rest": {{ "cpus": [0, 1], "sleep": {rest}000, "loop": 1 }},
            "work": {{ "cpus": [0, 1], "run": {work}000, "loop": 1 }},
            "end": {{ "cpus": [0, 1], "sleep": 100000000, "loop": -1 }} }} }}"#
    )
}

#[test]
fn a_local_real_time_task_waits_where_a_global_one_goes_elsewhere() {
    for (kind, start, cpu) in [("local", 550, 0), ("global", 100, 1)] {
        let json = workload(&[
            realtime("boss", "local", 50, 0, 50, 500),
            realtime("other", kind, 10, 0, 100, 20),
        ]);
        let (history, outcome) = run(ID, "2", &json, 2, &[]);
        let other = first_run(&history, "other", 50 * MS);
        assert_eq!((other.start / MS, other.cpu), (start, cpu), "{kind}");
        if kind == "global" {
            assert_eq!(statistic(ID, &outcome, "rt_on_other_cpu"), 1);
        }
    }
}

#[test]
fn a_global_real_time_task_takes_the_cpu_it_ran_on_last_before_an_idle_one() {
    let json =
        workload(&[hogs("hog", 1, -20, "[0]"), realtime("global", "global", 10, 0, 105, 20)]);
    let (history, outcome) = run(ID, "2", &json, 1, &[]);
    let global = first_run(&history, "global", 50 * MS);
    assert_eq!((global.start / MS, global.cpu), (105, 0));
    assert_eq!(global.length() / MS, 20);
    assert_eq!(statistic(ID, &outcome, "rt_on_other_cpu"), 0);
}

#[test]
fn a_global_real_time_task_preempts_a_remote_cpu_when_its_own_runs_another() {
    let json = workload(&[
        realtime("boss", "local", 50, 0, 50, 500),
        hogs("hog", 1, -20, "[1]"),
        realtime("global", "global", 10, 0, 105, 20),
    ]);
    let (history, outcome) = run(ID, "2", &json, 1, &[]);
    let global = first_run(&history, "global", 50 * MS);
    assert_eq!((global.start / MS, global.cpu), (105, 1));
    assert_eq!(global.length() / MS, 20);
    assert_eq!(statistic(ID, &outcome, "rt_on_other_cpu"), 1);
    assert_eq!(statistic(ID, &outcome, "rt_on_weakest"), 0);
    // The hog has lost 20 ms and no more.
    assert_eq!(history.cpu_time("hog", 50 * MS, SECOND) / MS, 930);
}

#[test]
fn where_all_cpus_run_real_time_tasks_the_weakest_makes_way() {
    for (priority, weakest) in [(25, 1), (20, 0), (10, 0)] {
        let json = workload(&[
            realtime("strong", "local", 30, 0, 50, 400),
            realtime("weak", "local", 20, 1, 50, 400),
            realtime("global", "global", priority, 0, 105, 20),
        ]);
        let settings = [("realtime_policy", "fifo")];
        let (history, outcome) = run(ID, "2", &json, 1, &settings);
        let what = format!("priority {priority}");
        assert_eq!(statistic(ID, &outcome, "rt_on_weakest"), weakest, "{what}");
        assert_eq!(statistic(ID, &outcome, "rt_on_other_cpu"), 0, "{what}");
        let global = first_run(&history, "global", 50 * MS);
        if weakest == 1 {
            assert_eq!((global.start / MS, global.cpu), (105, 1), "{what}");
        } else {
            // It is not interrupted for, but the next schedule() looks into the list of global tasks first: at the tick that
            // ends the slices, three after 50 ms.
            assert_eq!(global.start / MS, 110, "{what}");
        }
    }
}

#[test]
fn a_cpu_looks_once_for_a_global_real_time_task_that_another_one_runs() {
    let json = workload(&[
        hogs("hog", 3, 0, "[1]"),
        r#""global": { "cpus": [0], "fairground": { "realtime": "global", "realtime_priority": 10 },
            "phases": { "p": { "run": 400000, "sleep": 601000, "loop": -1 } } }"#
            .to_owned(),
    ]);
    let (_, outcome) = run(ID, "2", &json, 10, &[]);
    let wakeups = statistic(ID, &outcome, "rt_wakeups");
    assert_eq!(wakeups, 10);
    // CPU 1 walks its list more than 30 times a second, and CPU 0 has nothing but this task.
    assert!(statistic(ID, &outcome, "schedules") > 300);
    let checkpoints = statistic(ID, &outcome, "rt_checkpoints");
    assert!((9..=10).contains(&checkpoints), "{checkpoints}");
}

#[test]
fn a_displaced_global_real_time_task_is_looked_for_again_after_a_while() {
    // From 1 s on the kernel's own real-time class has CPU 0, for less than the time after which the deadline server steps in. CPU 1,
    // which runs a hog, has passed the checkpoint of the global task's only wake-up.
    for (recheck, expected) in [("600 ms", 1600), ("300 ms", 1300), ("10000 ms", 1900)] {
        let json = workload(&[
            r#""boss": { "policy": "SCHED_FIFO", "priority": 50, "cpus": [0], "phases": {
                "rest": { "sleep": 1000000, "loop": 1 },
                "work": { "run": 900000, "loop": 1 } } }"#
                .to_owned(),
            hogs("hog", 2, 0, "[1]"),
            realtime("global", "global", 10, 0, 500, 3000),
        ]);
        let (history, outcome) = run(ID, "2", &json, 6, &[("rt_recheck", recheck)]);
        let before = first_run(&history, "global", 400 * MS);
        assert_eq!((before.cpu, before.end / MS), (0, 1000), "{recheck}");
        let after = first_run(&history, "global", 1001 * MS);
        let start = (after.start / TICK * TICK) / MS;
        assert_near(start as f64, f64::from(expected), 20.0, recheck);
        assert_eq!(after.cpu, u32::from(expected < 1900), "{recheck}");
        let rechecks = statistic(ID, &outcome, "rt_rechecks");
        assert_eq!(rechecks, u64::from(expected < 1900), "{recheck}");
    }
}

#[test]
fn equal_real_time_tasks_take_turns_or_do_not() {
    for (policy, least) in [("rr", 45.0), ("fifo", 0.0)] {
        let task = |name: &str| {
            format!(
                r#""{name}": {{ "cpus": [0], "fairground": {{ "realtime": "local", "realtime_priority": 10 }}, "run": 1000 }}"#
            )
        };
        let json = workload(&[task("first"), task("second")]);
        let (history, _) = run(ID, "1", &json, 4, &[("realtime_policy", policy)]);
        let shares = ["first", "second"].map(|name| history.percent(name, SECOND, 4 * SECOND));
        let smaller = shares[0].min(shares[1]);
        assert!(smaller >= least && smaller <= least + 6.0, "{policy}: {shares:?}");
    }
}

#[test]
fn real_time_is_strict_as_long_as_nobody_starves() {
    let rt = |name: &str, priority: u32, work: &str| {
        format!(
            r#""{name}": {{ "cpus": [0], "fairground": {{ "realtime": "local", "realtime_priority": {priority} }}, {work} }}"#
        )
    };
    let json = workload(&[
        rt("urgent", 99, r#""run": 1000, "sleep": 9000"#),
        rt("strong", 50, r#""run": 1000"#),
        rt("weak", 5, r#""run": 1000"#),
        hogs("hog", 4, 0, "[0]"),
    ]);
    let (history, outcome) = run(ID, "1", &json, 60, &[]);
    // Nobody stands in the way of the most urgent task before a task has starved, and then for a tick.
    assert!(history.longest_wait("urgent", 0, 15 * SECOND) <= 9 * MS + 10_000);
    assert!(history.longest_wait("urgent", 0, 60 * SECOND) <= 9 * MS + TICK);
    for task in ["weak", "hog-0", "hog-1", "hog-2", "hog-3"] {
        assert_eq!(history.cpu_time(task, 100 * MS, 15 * SECOND), 0, "{task}");
        let wait = history.longest_wait(task, 0, 60 * SECOND);
        assert!(wait > 14 * SECOND && wait < 16 * SECOND, "{task}: {wait}");
    }
    assert_eq!(statistic(ID, &outcome, "rescues"), 15);
    // Without the limit they wait for ever.
    let never = [("starvation_limit", "0")];
    let (history, _) = run(ID, "1", &json, 25, &never);
    assert_eq!(history.cpu_time("hog-0", 100 * MS, 25 * SECOND), 0);
}

#[test]
fn children_of_real_time_tasks_are_real_time_tasks() {
    let json = workload(&[
        r#""parent": { "cpus": [0], "fairground": { "realtime": "local", "realtime_priority": 50 }, "phases": {
            "forking": { "run": 1000, "fork": "child", "loop": 1 },
            "rest": { "sleep": 100000000, "loop": -1 } } },
        "child": { "instance": 0, "cpus": [0], "run": 1000 }"#
            .to_owned(),
        hogs("hog", 2, -20, "[0]"),
    ]);
    let (history, _) = run(ID, "1", &json, 3, &[]);
    let child = history.child();
    let name = child.task.clone();
    let share = history.percent(&name, SECOND, 3 * SECOND);
    assert!(share > 99.9, "{share}");
}

// ---- Dual queue ----------------------------------------------------------------------------------------------------

/// Many hogs and a task that sleeps most of the time.
fn crowd(dual_queue: &str) -> (History, Outcome) {
    let json = workload(&[
        hogs("hog", 30, 0, "[0]"),
        r#""sleeper": { "cpus": [0], "run": 1000, "sleep": 100000 }"#.to_owned(),
    ]);
    run(ID, "1", &json, 40, &[("dual_queue", dual_queue)])
}

#[test]
fn a_fifo_of_cpu_bound_tasks_is_not_walked_and_is_as_fair() {
    let (_, one_list) = crowd("off");
    let (_, two_lists) = crowd("goodness");
    let (history, fifo) = crowd("fifo");
    assert!(steps_per_walk(&one_list) > 25.0, "{}", steps_per_walk(&one_list));
    // I/O-bound walks are short: the sleeper's.
    assert!(steps_per_walk(&two_lists) < steps_per_walk(&one_list));
    assert!(steps_per_walk(&fifo) < 3.0, "{}", steps_per_walk(&fifo));
    let mut shares = Vec::new();
    for index in 0..30 {
        shares.push(history.percent(&format!("hog-{index}"), 2 * SECOND, 40 * SECOND));
    }
    let mean = shares.iter().sum::<f64>() / 30.0;
    for share in shares {
        assert_near(share, mean, 0.25, "share of a hog");
    }
}

/// How long a task waits at most that sleeps for 50 ms again and again, among two hogs of nice -20.
fn longest_wait(dual_queue: &str) -> Nanoseconds {
    let json = workload(&[
        hogs("hog", 2, -20, "[0]"),
        r#""sleeper": { "cpus": [0], "run": 100, "sleep": 50000 }"#.to_owned(),
    ]);
    // Six ticks make a hog of nice -20 CPU-bound, and its goodness is beyond that of ten points.
    let settings =
        [("dual_queue", dual_queue), ("dual_queue_threshold", "6"), ("max_dynprio", "10")];
    let (history, _) = run(ID, "1", &json, 10, &settings);
    let runs = history.runs_of("sleeper", 3 * SECOND, 10 * SECOND);
    runs.windows(2).map(|pair| pair[1].start - pair[0].end - 50 * MS).max().unwrap()
}

#[test]
fn with_two_lists_a_sleeper_waits_for_one_slice_only() {
    let one_list = longest_wait("off");
    assert!(one_list > 65 * MS && one_list <= 120 * MS, "{one_list}");
    for kind in ["fifo", "goodness"] {
        let wait = longest_wait(kind);
        assert!(wait <= 60 * MS, "{kind}: {wait}");
    }
}

shows! {
    a_task_displaced_by_real_time_goes_on_at_an_idle_cpu: assert_the_displaced_move(ID, 60);
}
