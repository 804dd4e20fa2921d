//! Schedulers under real-time tasks: nobody is left behind one while another CPU is idle.

mod support;

use fairground_simulator::Options;
use support::{SECOND, run};

/// The schedulers whose originals would not leave a task behind a real-time one.
const SCHEDULERS: [&str; 5] = ["cfs", "dwrr", "ebs", "eevdf", "o1"];

/// Asserts that the task `hog` gets nearly all of a CPU after the first second, whichever CPU of two the real-time task has.
fn hog_has_the_other_cpu(what: &str, json: &str) {
    for id in SCHEDULERS {
        let (history, _) = run(id, "2", json, 20, &[]);
        let hog = history.percent("hog", SECOND, 20 * SECOND);
        assert!(hog > 97.0, "{what}: under {id} the hog has {hog:.1} %");
    }
}

#[test]
fn who_starts_beside_a_real_time_task_takes_the_other_cpu() {
    hog_has_the_other_cpu(
        "from the start",
        r#"{ "tasks": {
            "fifo": { "policy": "SCHED_FIFO", "priority": 10, "cpus": [0], "run": 1000000 },
            "hog": { "run": 1000 } },
        "global": { "duration": 1000 } }"#,
    );
}

#[test]
fn who_is_displaced_by_a_real_time_task_takes_the_other_cpu() {
    hog_has_the_other_cpu(
        "displaced",
        r#"{ "tasks": {
            "fifo": { "policy": "SCHED_FIFO", "priority": 10, "cpus": [0], "delay": 500000, "run": 1000000 },
            "hog": { "phases": {
                "placed": { "loop": 1, "cpus": [0], "run": 100000 },
                "free": { "loop": -1, "cpus": [0, 1], "run": 1000 } } } },
        "global": { "duration": 1000 } }"#,
    );
}

#[test]
fn who_becomes_free_behind_a_real_time_task_takes_the_other_cpu() {
    // Another task keeps CPU 1 busy until the hog waits on CPU 0
    hog_has_the_other_cpu(
        "waiting",
        r#"{ "tasks": {
            "fifo": { "policy": "SCHED_FIFO", "priority": 10, "cpus": [0], "delay": 200000, "run": 1000000 },
            "hog": { "phases": {
                "placed": { "loop": 1, "cpus": [0], "run": 100000 },
                "free": { "loop": -1, "cpus": [0, 1], "run": 1000 } } },
            "other": { "cpus": [1], "run": 400000, "loop": 1 } },
        "global": { "duration": 1000 } }"#,
    );
}

/// The schedulers that charge whom the tick finds running, and their ticks per second.
const SAMPLERS: [(&str, u64); 7] = [
    ("linux12", 100),
    ("linux22", 100),
    ("linux24", 100),
    ("bmqs", 100),
    ("o1", 250),
    ("bsd4", 127),
    ("ule", 127),
];

/// The smaller part of a CPU, in percent, that one of two hogs has for a second beside a real-time task that runs three times in a tick of
/// this rate, for 0.4 of its period each time, beginning `delay` periods after a tick, and a little earlier at each further tick.
fn smaller_part(id: &str, rate: u64, delay: f64) -> f64 {
    let period = 1_000_000 / rate / 3;
    let part = |parts: f64| (period as f64 * parts) as u64;
    // The kernel has been up for some of the ticks when the run begins.
    let (uptime, tick) = (Options::UPTIME, SECOND / rate);
    let first_tick = (uptime.next_multiple_of(tick) - uptime) / 1000;
    let json = format!(
        r#"{{ "tasks": {{
            "fifo": {{ "policy": "SCHED_FIFO", "priority": 60, "delay": {}, "run": {}, "timer": {{ "ref": "unique", "period": {period} }} }},
            "hog": {{ "instance": 2, "loop": -1, "run": 100000 }} }} }}"#,
        first_tick + part(delay),
        part(0.4),
    );
    let (history, _) = run(id, "1", &json, 1, &[]);
    let part = |hog: &str| history.percent(hog, SECOND / 20, SECOND);
    part("hog-0").min(part("hog-1"))
}

#[test]
fn sampling_schedulers_charge_nobody_for_ticks_that_find_a_real_time_task() {
    for (id, rate) in SAMPLERS {
        let met = smaller_part(id, rate, 0.0);
        assert!(met < 1.0, "under {id} a hog is charged: {met:.1} %");
        let beside = smaller_part(id, rate, 0.4);
        assert!(beside > 15.0, "under {id} a hog has {beside:.1} %");
    }
    // Whose clock is exact cannot be deceived.
    for id in ["bfs", "cfs", "dwrr", "ebs", "eevdf", "fbfs"] {
        for rate in [100, 127, 250, 1000] {
            let met = smaller_part(id, rate, 0.0);
            assert!(met > 15.0, "under {id} a hog has {met:.1} % at {rate} Hz");
        }
    }
}

#[test]
fn who_wakes_beside_a_real_time_task_takes_the_other_cpu() {
    let json = r#"{ "tasks": {
            "fifo": { "policy": "SCHED_FIFO", "priority": 10, "cpus": [0], "delay": 200000, "run": 1000000 },
            "sleeper": { "phases": {
                "placed": { "loop": 1, "cpus": [0], "run": 100000 },
                "free": { "loop": -1, "cpus": [0, 1], "run": 1000, "sleep": 1000 } } } },
        "global": { "duration": 1000 } }"#;
    for id in SCHEDULERS {
        let (history, _) = run(id, "2", json, 10, &[]);
        let share = history.percent("sleeper", SECOND, 10 * SECOND);
        assert!(share > 48.0, "under {id} the sleeper has {share:.1} %");
    }
}
