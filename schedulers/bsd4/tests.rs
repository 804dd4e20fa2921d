//! 4BSD shows the features by which it is recognised: decayed CPU use, slices of the statistics clock, kernel priorities of sleepers, one queue
//! for all CPUs, and a pass over all threads once a second.

use crate::support::{
    History, MS, Run, SECOND, assert_idle_gets_leftovers, assert_kernel_threads_come_first,
    assert_near, assert_shares, assert_the_displaced_move, hogs, outcome_at, run, statistic,
    two_hogs,
};
use fairground_events::Nanoseconds;

const ID: &str = "bsd4";

/// Length of a tick of the statistics clock, 1/127 s.
const STAT_TICK: f64 = 1000.0 / 127.0;

/// Average of a sum that is taken at every tick, over the 20 ms before `end`.
fn average(
    machine: &str,
    json: &str,
    end: Nanoseconds,
    settings: &[(&str, &str)],
    sum: &str,
) -> f64 {
    let before = outcome_at(ID, machine, json, end - 20 * MS, settings);
    let after = outcome_at(ID, machine, json, end, settings);
    let difference =
        |name| statistic(ID, &after, name) as f64 - statistic(ID, &before, name) as f64;
    difference(sum) / difference("ticks")
}

#[test]
fn a_hog_sinks_by_36_steps_and_rises_by_12_once_a_second() {
    let priority = |end| average("1", &hogs(1), end, &[("initial_load", "100")], "priorities");
    // estcpu decays to 2/3 when the load is 1: 127, 85 + 127, 141 + 127, and then it is at its limit. (Without decay it would be
    // there after 2.3 s.)
    assert_near(priority(100 * MS), 140.0, 2.0, "at the start");
    assert_near(priority(2950 * MS), 173.0, 1.5, "after 3 s");
    let samples: Vec<f64> = (0..16).map(|step| priority(5 * SECOND + step * 125 * MS)).collect();
    let worst = samples.iter().copied().fold(0.0, f64::max);
    let best = samples.iter().copied().fold(f64::MAX, f64::min);
    assert_near(worst, 176.0, 0.1, "at the limit");
    assert_near(best, 164.5, 1.5, "after the decay");
    // The second period is like the first.
    for (first, second) in samples.iter().zip(&samples[8..]) {
        assert_near(*second, *first, 1.1, "a second later");
    }
}

#[test]
fn two_hogs_switch_every_twelve_ticks() {
    let (history, _) = run(ID, "1", &two_hogs(0, 0), 22, &[("initial_load", "200")]);
    let (from, to) = (2 * SECOND, 22 * SECOND);
    let mut slices = 0;
    for task in ["first", "second"] {
        assert_near(history.percent(task, from, to), 50.0, 2.0, task);
        slices += history.runs_of(task, from, to).len();
    }
    assert_near(slices as f64 / 20.0, 10.6, 0.6, "switches a second");
    let whole = history
        .runs_of("first", from, to)
        .into_iter()
        .filter(|run| (run.milliseconds() - 12.0 * STAT_TICK).abs() <= 1.1)
        .count();
    assert!(whole > 70, "{whole} runs of a slice");
}

#[test]
fn nice_pairs_get_the_shares_of_the_simulated_rules() {
    for (pair, expected) in
        [((0, 1), 53.0), ((0, 5), 57.0), ((0, 10), 62.0), ((0, 19), 73.0), ((-20, 0), 74.0)]
    {
        let (history, _) = run(ID, "1", &two_hogs(pair.0, pair.1), 300, &[("initial_load", "200")]);
        let share = history.percent("first", 20 * SECOND, 300 * SECOND);
        assert_near(share, expected, 5.0, &format!("{pair:?}"));
    }
}

/// A task that spins for three seconds, rests for some more and then forks; and others that never sleep.
fn rest_and_fork(others: u32, rest: &str) -> String {
    format!(
        r#"{{ "tasks": {{
            "parent": {{ "phases": {{
                "spin": {{ "run": 3000000, "loop": 1 }},
                "rest": {{ {rest} }},
                "forking": {{ "fork": "child", "loop": 1 }},
                "end": {{ "sleep": 1000000, "loop": -1 }} }} }},
            "child": {{ "instance": 0, "run": 100, "loop": 1 }},
            "other": {{ "instance": {others}, "priority": 19, "run": 1000 }} }} }}"#
    )
}

/// The rest of the parent's estcpu when it forks.
fn left_after(others: u32, rest: &str, load: &str) -> u64 {
    let json = rest_and_fork(others, rest);
    let (_, outcome) = run(ID, "1", &json, 60, &[("initial_load", load)]);
    statistic(ID, &outcome, "inherited")
}

#[test]
fn estcpu_is_forgotten_in_five_loads_seconds() {
    // A tenth of 295 or less is left after 5.7 passes at load 1, and after 19.6 at load 4 (integers lose a little more).
    let naps = |seconds: u32| format!(r#""sleep": 249900, "run": 100, "loop": {}"#, seconds * 4);
    let left: Vec<u64> = (1..9).map(|s| left_after(1, &naps(s), "100")).collect();
    assert!(left[0] >= 125, "{left:?}");
    let forgotten = left.iter().position(|estcpu| *estcpu <= 29).map(|s| s + 1);
    assert!(matches!(forgotten, Some(5..=7)), "{left:?}");

    // Four others share the CPU, so the spinning lasts five times as long.
    let left: Vec<u64> = (10..25).map(|s| left_after(4, &naps(s), "400")).collect();
    let forgotten = left.iter().position(|estcpu| *estcpu <= 29).map(|s| s + 10);
    assert!(matches!(forgotten, Some(16..=21)), "{left:?}");
}

#[test]
fn a_long_sleep_decays_as_much_as_naps_at_the_wake_up() {
    let naps = left_after(1, r#""sleep": 249900, "run": 100, "loop": 16"#, "100");
    let sleep = left_after(1, r#""sleep": 4000000, "loop": 1"#, "100");
    // The wake-up makes up for all passes but one or two.
    assert!(naps > 30 && sleep >= naps && sleep <= naps * 9 / 4, "{naps} {sleep}");
    let json = rest_and_fork(1, r#""sleep": 4000000, "loop": 1"#);
    let (_, outcome) = run(ID, "1", &json, 60, &[("initial_load", "100")]);
    assert!(statistic(ID, &outcome, "updated") > 0);
}

#[test]
fn a_child_starts_with_what_its_parent_has_used() {
    let json = r#"{ "tasks": {
        "parent": { "phases": {
            "spin": { "run": 9900000, "loop": 1 },
            "forking": { "fork": "child", "loop": 1 },
            "spin more": { "run": 1000, "loop": -1 } } },
        "child": { "instance": 0, "run": 1000 } } }"#;
    let (history, outcome) = run(ID, "1", json, 12, &[("initial_load", "100")]);
    let inherited = statistic(ID, &outcome, "inherited");
    assert!((200..=295).contains(&inherited), "{inherited}");
    // And with a slice of one tick.
    let child = history.child();
    assert!(child.milliseconds() <= STAT_TICK + 1.1, "{child:?}");
}

#[test]
fn a_process_inherits_from_its_dead_threads() {
    let json = r#"{ "tasks": {
        "parent": { "phases": {
            "forking": { "fork": "child", "loop": 1 },
            "wait": { "sleep": 10000000, "loop": -1 } } },
        "child": { "instance": 0, "run": 1500000, "loop": 1 } } }"#;
    let (_, outcome) = run(ID, "1", json, 5, &[("initial_load", "100")]);
    // 127 ticks, decayed to 85 when the first second is over, and 63 more.
    let returned = statistic(ID, &outcome, "returned");
    assert_near(returned as f64, 148.0, 20.0, "returned");
}

#[test]
fn decay_makes_a_fresh_task_catch_up() {
    let json = r#"{ "tasks": {
        "old": { "run": 1000 },
        "fresh": { "delay": 10000000, "run": 1000 } } }"#;
    let (history, _) = run(ID, "1", json, 60, &[("initial_load", "100")]);
    let share = |from: u64, to: u64| history.percent("fresh", from * SECOND, to * SECOND);
    // At 140 it is better than 164 to 176: it has the CPU for itself until it has used nearly as much.
    assert!(share(10, 11) > 90.0, "{}", share(10, 11));
    assert!(share(10, 13) > 65.0, "{}", share(10, 13));
    // From then on both are at the limit, and equal.
    assert_near(share(20, 60), 50.0, 3.0, "in the long run");
}

#[test]
fn a_sleeper_preempts_every_hog_whatever_it_has_used() {
    // Of a weaker nice value against a stronger one.
    let json = r#"{ "tasks": {
        "hog": { "priority": -5, "run": 1000 },
        "sleeper": { "priority": 10, "run": 5000, "sleep": 10000 } } }"#;
    let (history, outcome) = run(ID, "1", json, 10, &[("initial_load", "100")]);
    let runs = history.runs_of("sleeper", SECOND, 10 * SECOND);
    let mut latest: f64 = 0.0;
    let mut bursts = 0;
    for pair in runs.windows(2) {
        // A run that ends a burst is followed by a sleep.
        if pair[0].length() == 5 * MS {
            let gap = (pair[1].start - pair[0].end) as f64 / MS as f64;
            latest = latest.max(gap - 10.0);
            bursts += 1;
        }
    }
    assert!(bursts > 400, "{bursts}");
    assert!(latest < 1.0, "{latest} ms late");
    assert!(statistic(ID, &outcome, "reschedules") > 500);
    assert_eq!(statistic(ID, &outcome, "preemptions"), 0);
}

#[test]
fn a_wait_for_a_pipe_beats_a_better_nice_value_and_one_for_a_lock_does_not() {
    let turns = |wake: &str, wait: &str| {
        let json = format!(
            r#"{{ "tasks": {{
                "hog": {{ "priority": -20, "run": 1000 }},
                "waker": {{ "priority": -20, "sleep": 99000, "run": 10, {wake} }},
                "woken": {{ "priority": 19, {wait}, "run": 1000 }} }} }}"#
        );
        let (history, _) = run(ID, "1", &json, 10, &[("initial_load", "100")]);
        history.runs_of("woken", 5 * SECOND, 10 * SECOND).len()
    };
    // A pipe passes PRIBIO, so it runs ten times a second, whenever it is woken.
    let by_pipe = turns(
        r#""fairground0": { "pipe_write": { "pipe": "go", "bytes": 1 } }"#,
        r#""fairground0": { "pipe_read": { "pipe": "go", "bytes": 1 } }"#,
    );
    assert!(by_pipe > 45, "{by_pipe}");
    // A lock passes none: it waits until the hog has sunk far enough, and then makes up for all the times that it was woken.
    let by_lock = turns(r#""sem_post": "go""#, r#""sem_wait": "go""#);
    assert!(by_lock < 25, "{by_lock}");
}

#[test]
fn three_hogs_wander_over_two_cpus() {
    let (history, _) = run(ID, "2", &hogs(3), 12, &[]);
    assert_shares(&history, 3, 2 * SECOND, 12 * SECOND, 66.7, 3.0);
    let moves = history.migrations.iter().filter(|(time, _)| *time >= 2 * SECOND).count();
    assert!(moves >= 100, "{moves} migrations in 10 s");
}

#[test]
fn waiting_threads_change_their_lists_together_once_a_second() {
    let json = hogs(3);
    let settings = [("initial_load", "100")];
    let samples: Vec<(u64, u64, u64)> = (100..145)
        .map(|step| {
            let end = step * 50 * MS;
            let outcome = outcome_at(ID, "1", &json, end, &settings);
            let requeued = statistic(ID, &outcome, "requeued");
            (end, requeued, statistic(ID, &outcome, "passes"))
        })
        .collect();
    let mut changes = Vec::new();
    for pair in samples.windows(2) {
        if pair[1].1 > pair[0].1 {
            assert_eq!(pair[1].2, pair[0].2 + 1, "without a pass: {pair:?}");
            assert!(pair[1].1 - pair[0].1 >= 2, "not together: {pair:?}");
            changes.push(pair[1].0);
        }
    }
    assert!(changes.len() >= 2, "{changes:?}");
    for pair in changes.windows(2) {
        let apart = (pair[1] - pair[0]) as f64 / SECOND as f64;
        assert_near(apart, 1.0, 0.06, "seconds between changes");
    }
}

#[test]
fn a_pass_visits_every_thread_asleep_or_not() {
    let json = r#"{ "tasks": {
        "sleeper": { "instance": 98, "sleep": 1000000000 },
        "hog": { "instance": 2, "run": 1000 } } }"#;
    let (_, outcome) = run(ID, "1", json, 10, &[]);
    let passes = statistic(ID, &outcome, "passes");
    assert_near(passes as f64, 10.0, 1.0, "passes in 10 s");
    let visited = statistic(ID, &outcome, "visited") as f64 / passes as f64;
    assert_near(visited, 101.0, 1.0, "threads visited by a pass");
    // Those that sleep are left alone after the first second.
    let decayed = statistic(ID, &outcome, "decayed");
    assert!(decayed < 3 * passes + 210, "{decayed} decayed");
}

#[test]
fn a_wake_up_interrupts_all_idle_cpus_and_one_takes_the_thread() {
    let json = r#"{ "tasks": {
        "waker": { "priority": -20, "cpus": [0], "run": 9000, "sem_post": "work", "run0": 1000 },
        "worker": { "sem_wait": "work", "run": 1000 } } }"#;
    let (history, outcome) = run(ID, "4", json, 5, &[]);
    let wakeups = statistic(ID, &outcome, "forward_wakeups");
    let woken = statistic(ID, &outcome, "idle_cpus_woken");
    assert!(wakeups > 450, "{wakeups}");
    assert_near(woken as f64 / wakeups as f64, 3.0, 0.05, "interrupts for each");
    let runs = history.runs_of("worker", 0, 5 * SECOND).len();
    assert_near(runs as f64, wakeups as f64, 3.0, "dispatches");
}

#[test]
fn a_thread_that_runs_between_the_ticks_is_charged_nothing() {
    // A clock of 100 Hz, and bursts of 3 ms that begin at a fixed time within each of its periods.
    let ticks = |delay: u32| {
        let json = format!(
            r#"{{ "tasks": {{ "periodic": {{ "delay": {delay}, "run": 3000,
                "timer": {{ "ref": "t", "period": 10000 }} }} }} }}"#
        );
        let (history, outcome) = run(ID, "1", &json, 10, &[("stathz", "100")]);
        assert_near(history.percent("periodic", SECOND, 10 * SECOND), 30.0, 1.0, "its share");
        statistic(ID, &outcome, "ticks")
    };
    let seen: Vec<u64> = (0..5).map(|step| ticks(100_000 + step * 2000)).collect();
    assert!(seen.iter().any(|ticks| *ticks <= 2), "{seen:?}");
    assert!(seen.iter().any(|ticks| *ticks >= 900), "{seen:?}");
}

#[test]
fn many_cpus_make_cpu_use_count_little() {
    let priority =
        |machine| average(machine, &hogs(1), 2 * SECOND, &[("initial_load", "100")], "priorities");
    assert!(priority("1") > 160.0, "{}", priority("1"));
    // 128 ticks for a step.
    assert_near(priority("16"), 141.5, 1.0, "on 16 CPUs");
}

#[test]
fn the_better_of_two_nice_values_holds_the_cpu_for_seconds() {
    let (history, _) = run(ID, "1", &two_hogs(-20, 19), 4, &[("initial_load", "200")]);
    let first = history.runs_of("second", 0, 4 * SECOND);
    assert!(first.first().is_none_or(|run| run.start > 2 * SECOND), "{first:?}");
}

#[test]
fn a_yielder_runs_again_before_another_one() {
    let json = r#"{ "tasks": { "yielder": { "instance": 2, "run": 1000, "yield": "" } } }"#;
    let (history, outcome) = run(ID, "1", json, 5, &[]);
    assert!(statistic(ID, &outcome, "yields") > 2000);
    let runs = history.runs_of("yielder-0", SECOND, 5 * SECOND);
    let longest = runs.iter().map(|run| run.length()).max().unwrap();
    // At the head of its list, so that only the end of its slice helps the other.
    assert!(longest > 50 * MS);
}

#[test]
fn a_yielder_gives_way_to_every_hog() {
    let json = r#"{ "tasks": {
        "hog": { "run": 1000 },
        "yielder": { "run": 1000, "yield": "" } } }"#;
    let (history, _) = run(ID, "1", json, 12, &[]);
    let share = history.percent("yielder", 2 * SECOND, 12 * SECOND);
    // Only the pass of the next second gives it its own priority back.
    assert!(share < 10.0, "{share}");
}

#[test]
fn a_hog_that_sinks_below_others_keeps_its_slice() {
    // Priorities change every 8 ticks; only slice ends and the pass of each second take the CPU away.
    let (history, outcome) = run(ID, "1", &hogs(4), 20, &[("initial_load", "400")]);
    let switches = history.runs.len() as u64;
    let ends = statistic(ID, &outcome, "slice_ends");
    assert!(switches <= ends + 20 + 4, "{switches} runs, {ends} slice ends");
    assert!(ends > 190, "{ends}");
}

#[test]
fn limited_threads_wait_in_the_queue_of_their_cpu() {
    let json = r#"{ "tasks": {
        "pinned": { "instance": 2, "cpus": [1], "run": 1000 },
        "free": { "instance": 2, "run": 1000 } } }"#;
    let (history, outcome) = run(ID, "2", json, 22, &[]);
    assert!(statistic(ID, &outcome, "private") > 50);
    assert!(history.runs.iter().all(|run| !run.task.starts_with("pinned") || run.cpu == 1));
    let total: f64 = ["pinned-0", "pinned-1", "free-0", "free-1"]
        .iter()
        .map(|task| {
            let share = history.percent(task, 2 * SECOND, 22 * SECOND);
            assert!(share > 20.0, "{task} got {share} %");
            share
        })
        .sum();
    assert_near(total, 200.0, 0.5, "all together");
}

#[test]
fn who_would_starve_is_put_in_front() {
    // On eight CPUs, 64 ticks make one step of priority: the hog never sinks to the other one.
    let json = r#"{ "tasks": {
        "hog": { "priority": -20, "cpus": [0], "run": 1000 },
        "weak": { "priority": 19, "cpus": [0], "run": 1000 } } }"#;
    let (history, outcome) = run(ID, "8", json, 100, &[]);
    let wait = history.longest_wait("weak", 0, 100 * SECOND);
    assert!(wait > 14 * SECOND && wait < 17 * SECOND, "{wait} ns");
    assert_near(statistic(ID, &outcome, "rescues") as f64, 6.0, 1.0, "rescues");
    let (history, _) = run(ID, "8", json, 25, &[("starvation_limit", "0")]);
    assert_eq!(history.cpu_time("weak", SECOND, 25 * SECOND), 0);
}

#[test]
fn a_bound_thread_waits_for_a_better_one_that_could_go_elsewhere() {
    let bound = |nice: i32| {
        format!(
            r#"{{ "tasks": {{
                "free": {{ "phases": {{
                    "home": {{ "cpus": [0], "run": 100000, "loop": 1 }},
                    "work": {{ "cpus": [0, 1, 2, 3, 4, 5, 6, 7], "run": 1000, "loop": -1 }} }} }},
                "bound": {{ "cpus": [0], "priority": {nice}, "run": 1000 }} }} }}"#
        )
    };
    let (history, outcome) = run(ID, "8", &bound(5), 18, &[]);
    assert_eq!(history.cpu_time("bound", 0, 15 * SECOND), 0);
    assert!(history.cpu_time("bound", 15 * SECOND, 18 * SECOND) > 0);
    assert!(statistic(ID, &outcome, "rescues") > 0);
    // An equal one waits for the end of a slice, after which the other one goes elsewhere
    let (history, _) = run(ID, "8", &bound(0), 3, &[]);
    for task in ["free", "bound"] {
        assert!(history.cpu_time(task, SECOND, 3 * SECOND) > 1900 * MS, "{task}");
    }
}

/// When a thread first ran.
fn first_run(history: &History, task: &str) -> Nanoseconds {
    let runs = history.runs.iter().filter(|run| run.task.starts_with(task));
    runs.map(|run| run.start).min().unwrap()
}

#[test]
fn four_priorities_share_a_list_and_the_next_four_another() {
    // Nice -4 has 136 and nice 0 has 140; their parent leaves them waiting.
    let json = r#"{ "tasks": {
        "parent": { "priority": -20, "phases": {
            "forking": { "loop": 1, "run": 1000, "fork0": "worse", "fork1": "better", "run1": 20000 },
            "resting": { "loop": 1, "sleep": 3000000 } } },
        "worse": { "instance": 0, "loop": 1, "run": 30000 },
        "better": { "instance": 0, "priority": -4, "loop": 1, "run": 30000 } } }"#;
    let (history, _) = run(ID, "1", json, 1, &[]);
    assert!(first_run(&history, "better") < first_run(&history, "worse"));
}

#[test]
fn of_equal_heads_that_of_the_global_queue_goes_first() {
    // The bound one has waited for longer, but in the queue of its CPU.
    let json = r#"{ "tasks": {
        "busy": { "cpus": [1], "priority": -20, "run": 1000 },
        "parent": { "cpus": [0], "priority": -20, "phases": {
            "forking": { "loop": 1, "run": 1000, "fork0": "bound", "fork1": "free", "run1": 20000 },
            "resting": { "loop": 1, "sleep": 3000000 } } },
        "bound": { "instance": 0, "cpus": [0], "loop": 1, "run": 30000 },
        "free": { "instance": 0, "loop": 1, "run": 30000 } } }"#;
    let (history, _) = run(ID, "2", json, 1, &[]);
    assert!(first_run(&history, "free") < first_run(&history, "bound"));
}

#[test]
fn a_thread_with_two_cpus_waits_where_fewer_do() {
    let json = r#"{ "tasks": {
        "crowd": { "instance": 3, "cpus": [0], "run": 1000 },
        "alone": { "cpus": [1], "run": 1000 },
        "limited": { "cpus": [0, 1], "run": 1000 } } }"#;
    let (history, _) = run(ID, "3", json, 12, &[]);
    let share = history.percent("limited", 2 * SECOND, 12 * SECOND);
    assert!(share > 40.0, "{share}");
}

#[test]
fn who_is_preempted_goes_on_before_all_others() {
    let json = r#"{ "tasks": { "hog": { "instance": 2, "run": 1000 },
        "interactive": { "run": 500, "timer": { "ref": "t", "period": 17000 } } } }"#;
    let (history, _) = run(ID, "1", json, 20, &[]);
    let mut times: Vec<_> = history.runs.iter().collect();
    times.sort_by_key(|run| run.start);
    let turns: Vec<_> = times.windows(3).filter(|three| three[1].task == "interactive").collect();
    let same = turns.iter().filter(|three| three[0].task == three[2].task);
    let same = same.count() as f64 / turns.len() as f64;
    assert!(turns.len() > 500 && same > 0.8, "{same} of {}", turns.len());
}

#[test]
fn a_parent_pays_for_what_its_child_has_used() {
    let json = r#"{ "tasks": {
        "parent": { "phases": {
            "forking": { "loop": 1, "run": 1000, "fork": "child", "sleep": 690000 },
            "spinning": { "loop": -1, "run": 1000 } } },
        "child": { "instance": 0, "loop": 1, "run": 600000, "fairground": { "process": "child" } } } }"#;
    let estcpu = average("1", json, 740 * MS, &[("initial_load", "100")], "estcpu");
    assert_near(estcpu, 600.0 / STAT_TICK + 4.0, 4.0, "estcpu");
}

#[test]
fn renice_counts_before_cpu_use_reaches_the_next_step() {
    let json = r#"{ "tasks": { "hog": { "phases": {
        "before": { "priority": 0, "loop": 1, "run": 260000 },
        "after": { "priority": 19, "loop": -1, "run": 1000 } } } } }"#;
    let priority = average("1", json, 300 * MS, &[], "priorities");
    assert_near(priority, 163.0, 0.5, "nice 19, 32 ticks");
}

#[test]
fn who_is_better_after_the_pass_runs_at_once() {
    // Nice -10 has used more, forgets more, and does not wait for the slice of the other to end. Later, passes and slices are in step.
    let (history, _) = run(ID, "1", &two_hogs(-10, 0), 8, &[("initial_load", "200")]);
    let cut_short = history
        .runs_of("second", SECOND, 8 * SECOND)
        .into_iter()
        .filter(|run| run.milliseconds() < 11.5 * STAT_TICK);
    let at_passes = cut_short.filter(|run| run.end % SECOND < 2 * MS).count();
    assert!(at_passes >= 2, "{at_passes} runs end with the pass");
}

/// How often two hogs take turns in two seconds, while a third task runs for 1 ms after each sleep of 19 ms.
fn turns_beside_a_sleeper(settings: &[(&str, &str)]) -> usize {
    let json = r#"{ "tasks": {
        "hog": { "instance": 2, "run": 1000 },
        "sleeper": { "run": 1000, "sleep": 19000 } } }"#;
    let (history, _) = run(ID, "1", json, 3, settings);
    let of = |hog| history.runs_of(hog, SECOND, 3 * SECOND);
    let mut runs = [of("hog-0"), of("hog-1")].concat();
    runs.sort_by_key(|run| run.start);
    runs.windows(2).filter(|pair| pair[0].task != pair[1].task).count()
}

#[test]
fn in_release_8_who_gives_way_on_its_way_to_user_mode_waits_behind_its_equals() {
    let turns = |release, clock_thread| {
        turns_beside_a_sleeper(&[("release", release), ("clock_thread", clock_thread)])
    };
    assert!(turns("8.0", "false") > 90, "{}", turns("8.0", "false"));
    // The clock's thread preempts inside the kernel.
    assert!(turns("8.0", "true") < 30, "{}", turns("8.0", "true"));
    assert!(turns("9.3", "false") < 30, "{}", turns("9.3", "false"));
}

#[test]
fn in_release_8_a_slice_is_a_tenth_of_a_second_since_the_last_switch() {
    let (history, _) = run(ID, "1", &two_hogs(0, 0), 5, &[("release", "8.0")]);
    let runs = history.runs_of("first", 0, 5 * SECOND);
    let whole = |run: &&&Run| (run.milliseconds() - 13.0 * STAT_TICK).abs() <= 1.1;
    let whole = runs.iter().filter(whole).count();
    assert!(whole > 15, "{whole} of {}", runs.len());
}

#[test]
fn in_release_8_nice_and_cpu_use_share_64_priorities() {
    let json = r#"{ "tasks": { "hog": { "priority": 19, "run": 1000 } } }"#;
    let settings = |release| [("initial_load", "100"), ("release", release)];
    let priority = |release| average("1", json, 2950 * MS, &settings(release), "priorities");
    assert_near(priority("8.0"), 223.0, 0.1, "at the limit");
    assert_near(priority("9.3"), 173.0 + 19.0, 1.5, "below it");
}

shows! {
    a_task_displaced_by_real_time_goes_on_at_an_idle_cpu: assert_the_displaced_move(ID, 20);
    an_idle_thread_gets_what_nobody_else_wants: assert_idle_gets_leftovers(ID);
    kernel_threads_come_first: assert_kernel_threads_come_first(ID);
    decides_as_its_original: crate::originals::assert_decides_as_original(ID);
}
