//! Frequencies by utilization and placement by energy on the machine `phone`: four CPUs of capacity 160, two of 498 and two of 1024. Tasks and
//! tolerances of placement are those of LISA's tests of energy-aware scheduling (`eas_behaviour.py`): a period of 16 ms, small tasks with half the
//! capacity of a small CPU, big ones that only the largest CPUs hold, and 5 % more energy than at best, 20 % for three small tasks.

use super::ID;
use crate::support::{History, MS, Run, SECOND, assert_near, run};
use fairground_machine::Machine;

const PHONE: &str = "phone";
const PERIOD: u64 = 16_000;

/// Tasks that use so many thousandths of the largest CPU, with further members.
fn periodic(name: &str, number: usize, permille: u64, more: &str) -> String {
    let work = permille * PERIOD / 1000;
    format!(
        r#""{name}": {{ "instance": {number}, {more} "loop": -1, "run": {work},
            "timer": {{ "ref": "unique", "period": {PERIOD} }} }}"#
    )
}

fn history(tasks: &[String], seconds: u64, settings: &[(&str, &str)]) -> History {
    let json = format!(r#"{{ "tasks": {{ {} }} }}"#, tasks.join(", "));
    run(ID, PHONE, &json, seconds, settings).0
}

/// How long each activation of a task takes after two seconds, milliseconds.
fn activations(history: &History, task: &str) -> Vec<f64> {
    let bursts = history.bursts(task, 2 * SECOND, 4 * SECOND);
    bursts.iter().map(|(start, end)| (end - start) as f64 / MS as f64).collect()
}

#[test]
fn the_frequency_is_that_of_the_utilization_and_a_quarter() {
    // CPU, thousandths, frequency of the highest one: PELT peaks at (1 - y^run) / (1 - y^16) of 1024 (345, 216, 114, 36), and the frequency is the
    // first one with a capacity of 1.25 times that.
    for (cpu, permille, step, highest) in
        [(6, 300, 1277, 2802), (6, 190, 851, 2802), (4, 100, 696, 2253), (0, 30, 574, 1803)]
    {
        let pinned = format!(r#""cpus": [{cpu}],"#);
        let history = history(&[periodic("task", 1, permille, &pinned)], 4, &[]);
        let capacity = [160, 160, 160, 160, 498, 498, 1024, 1024][cpu] as f64 / 1024.0;
        let work = permille as f64 * 0.016;
        let expected = work / capacity * f64::from(highest) / f64::from(step);
        let mut times = activations(&history, "task");
        times.sort_by(f64::total_cmp);
        let median = times[times.len() / 2];
        assert_near(median, expected, 0.01 * expected, &format!("{work} ms on CPU {cpu}"));
    }
}

#[test]
fn low_frequencies_save_energy() {
    // At the highest frequency it would be 30 % of four seconds at 2.03 W.
    let history = history(&[periodic("task", 1, 300, r#""cpus": [6],"#)], 4, &[]);
    let joules = history.energy as f64 / 1e9;
    assert!((0.8..1.0).contains(&joules), "{joules} J, not those of 10.5 of 16 ms at 331 mW");
}

/// The energy that the kernel's model estimates, in any unit, if the CPUs are used like this.
fn estimate(machine: &Machine, used: &[f64]) -> f64 {
    let clocks = machine.hardware.clocks.iter();
    let of_clock = clocks.map(|clock| {
        let capacity = f64::from(machine.cpus[clock.cpus[0]].capacity);
        let uses = || clock.cpus.iter().map(|cpu| used[*cpu]);
        let highest = clock.steps.last().unwrap();
        let wanted = 1.25 * uses().fold(0.0, f64::max);
        let performance = |khz: u64| capacity * khz as f64 / highest.frequency as f64;
        let mut enough = clock.steps.iter().filter(|step| performance(step.frequency) >= wanted);
        let step = enough.next().unwrap_or(highest);
        step.power.unwrap() as f64 / performance(step.frequency) * uses().sum::<f64>()
    });
    of_clock.sum()
}

/// The least estimate of all placements of tasks that leave each CPU a fifth to spare.
fn optimum(machine: &Machine, tasks: &[f64], used: &mut [f64]) -> f64 {
    let Some((first, rest)) = tasks.split_first() else { return estimate(machine, used) };
    let mut best = f64::INFINITY;
    for cpu in 0..used.len() {
        if (used[cpu] + first) * 1.25 < f64::from(machine.cpus[cpu].capacity) {
            used[cpu] += first;
            best = best.min(optimum(machine, rest, used));
            used[cpu] -= first;
        }
    }
    best
}

/// The highest utilization by PELT of a task that runs so many thousandths of the largest CPU's time in each period.
fn peak(permille: u64) -> f64 {
    let swing = |time: f64| 1.0 - 0.5_f64.powf(time / 32.0);
    1024.0 * swing(permille as f64 * 0.016) / swing(16.0)
}

/// Adds a task's utilization to the CPUs on which it ran, to each by the time that it had there.
fn add_use(used: &mut [f64], utilization: f64, runs: &[&Run]) {
    let total: u64 = runs.iter().map(|run| run.length()).sum();
    for run in runs {
        used[run.cpu as usize] += utilization * run.length() as f64 / total as f64;
    }
}

#[test]
fn tasks_run_where_they_cost_least() {
    let machine = Machine::parse(PHONE).unwrap();
    let small = |number| ("small", number, 78);
    let big = |number| ("big", number, 600);
    for (what, tasks, tolerance) in [
        ("one small task", vec![small(1)], 1.05),
        ("three small tasks", vec![small(3)], 1.2),
        ("two big tasks", vec![big(2)], 1.05),
        ("two big and three small tasks", vec![big(2), small(3)], 1.05),
        ("two tasks of a fifth of a small CPU", vec![("low", 2, 31)], 1.05),
    ] {
        let lines: Vec<String> =
            tasks.iter().map(|(name, number, part)| periodic(name, *number, *part, "")).collect();
        let history = history(&lines, 4, &[]);
        let (mut uses, mut used) = (Vec::new(), vec![0.0; 8]);
        for (name, number, permille) in tasks {
            for index in 0..number {
                let name = if number == 1 { name.to_owned() } else { format!("{name}-{index}") };
                let peak = peak(permille);
                uses.push(peak);
                add_use(&mut used, peak, &history.runs_of(&name, 2 * SECOND, 4 * SECOND));
                // LISA lets 15 % of the activations be late.
                let late = activations(&history, &name).iter().filter(|one| **one > 16.0).count();
                assert!(late < 20, "{what}: {name} was late {late} times of 125");
            }
        }
        let (found, best) = (estimate(&machine, &used), optimum(&machine, &uses, &mut [0.0; 8]));
        assert!(found <= tolerance * best, "{what}: {found:.0}, {best:.0} at best, {used:.0?}");
    }
}

#[test]
fn a_task_that_grows_and_shrinks_moves_to_big_cpus_and_back() {
    // LISA's EnergyModelWakeMigration: two seconds of a fifth of a small CPU, two of a big task.
    let json = format!(
        r#"{{ "tasks": {{ "task": {{ "loop": 2, "phases": {{
            "low": {{ "loop": 125, "run": 500, "timer": {{ "ref": "unique", "period": {PERIOD} }} }},
            "high": {{ "loop": 125, "run": 9600, "timer": {{ "ref": "unique", "period": {PERIOD} }} }} }} }} }} }}"#
    );
    let (history, _) = run(ID, PHONE, &json, 8, &[]);
    let on = |cpus: std::ops::Range<u32>, from: u64, to: u64| {
        let runs = history.runs_of("task", from * SECOND, to * SECOND);
        let there = runs.iter().filter(|run| cpus.contains(&run.cpu)).count();
        there as f64 / runs.len() as f64
    };
    assert!(on(0..4, 1, 2) > 0.99, "{}", on(0..4, 1, 2));
    assert!(on(6..8, 3, 4) > 0.99, "{}", on(6..8, 3, 4));
    assert!(on(0..4, 5, 6) > 0.99, "{}", on(0..4, 5, 6));
}

#[test]
fn a_task_that_ramps_up_or_down_runs_where_it_costs_least() {
    // LISA's RampUp and RampDown, which allow 15 % for the time that moves take: steps of two seconds and a twentieth of the largest CPU.
    let machine = Machine::parse(PHONE).unwrap();
    let rising: Vec<u64> = (1..=14).map(|step| step * 50).collect();
    let falling = rising.iter().rev().copied().collect();
    for (what, steps) in [("up", rising), ("down", falling)] {
        let phase = |(at, permille): (usize, &u64)| {
            let run = permille * PERIOD / 1000;
            format!(
                r#""step{at}": {{ "loop": 125, "run": {run}, "timer": {{ "ref": "unique", "period": {PERIOD} }} }}"#
            )
        };
        let phases: Vec<String> = steps.iter().enumerate().map(phase).collect();
        let json = format!(
            r#"{{ "tasks": {{ "task": {{ "loop": 1, "phases": {{ {} }} }} }} }}"#,
            phases.join(", ")
        );
        let (history, _) = run(ID, PHONE, &json, 28, &[]);
        let (mut found, mut best) = (0.0, 0.0);
        for (at, &permille) in (0..).zip(&steps) {
            let mut used = [0.0; 8];
            let runs = history.runs_of("task", 2 * at * SECOND, 2 * (at + 1) * SECOND);
            add_use(&mut used, peak(permille), &runs);
            found += estimate(&machine, &used);
            best += optimum(&machine, &[peak(permille)], &mut [0.0; 8]);
        }
        assert!(found <= 1.15 * best, "{what}: {found:.0}, {best:.0} at best");
    }
}

#[test]
fn where_cpus_are_overutilized_load_counts() {
    let history = history(&[r#""hog": { "instance": 8, "run": 1000 }"#.to_owned()], 4, &[]);
    let all = history.percents(8, 2 * SECOND, 4 * SECOND);
    assert!(all.iter().all(|share| *share > 70.0), "{all:?}");
    let busy = history.runs.iter().map(|run| run.cpu).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(busy.len(), 8);
}

#[test]
fn load_is_not_balanced_while_no_cpu_is_overutilized() {
    // All wake at once. CPUs with short tasks become idle after 0.96 ms, while long ones still wait for others.
    let tasks = [periodic("short", 4, 3, ""), periodic("long", 6, 8, "")];
    let history = history(&tasks, 4, &[]);
    let waits = |task| history.latencies(&format!("long-{task}"), SECOND, 4 * SECOND);
    let longest = (0..6).flat_map(waits).max();
    assert!(longest > Some(MS / 10), "{longest:?}");
    let is_balanced = |at: u64| at > SECOND && at % (PERIOD * 1000) > 9 * MS / 10;
    let late: Vec<_> = history.migrations.iter().filter(|(at, _)| is_balanced(*at)).collect();
    assert!(late.is_empty(), "{late:?}");
}

#[test]
fn idle_cpus_look_for_no_tasks_while_no_cpu_is_overutilized() {
    // Two of the small CPUs have two tasks each, which others could take: to wake those for it in vain costs a third more.
    let tasks = [periodic("low", 6, 10, "")];
    let of = |aware| history(&tasks, 4, &[("sched_energy_aware", aware)]);
    let placed = of("true");
    let waits = |task| placed.latencies(&format!("low-{task}"), SECOND, 4 * SECOND);
    let longest = (0..6).flat_map(waits).max();
    assert!(longest > Some(MS / 10), "{longest:?}");
    assert_eq!(placed.migrations.iter().find(|(at, _)| *at > SECOND), None);
    let (placed, spread) = (placed.energy as f64, of("false").energy as f64);
    assert!(placed < 1.1 * spread, "{placed} nJ where each task costs least, {spread} spread");
}

#[test]
fn tasks_that_wait_for_each_other_raise_the_frequency() {
    // Both want a tenth of the CPU at the same time. For the fifth alone, 851 MHz would do, and they would take 65 % of the time.
    let history = history(&[periodic("task", 2, 100, r#""cpus": [6],"#)], 4, &[]);
    let percent = |task| history.percent(task, 2 * SECOND, 4 * SECOND);
    let both = percent("task-0") + percent("task-1");
    assert!((25.0..50.0).contains(&both), "{both} %");
}

#[test]
fn who_waits_for_disks_gets_a_higher_frequency() {
    // 100 us in every 2.1 ms use 5 % of the CPU, for which its lowest frequency suffices, 500 of 2802 MHz.
    let slow = 0.1 * 2802.0 / 500.0;
    let median = |wait: &str| {
        let task = format!(r#""task": {{ "cpus": [6], "loop": -1, "run": 100, {wait} }}"#);
        let mut times = activations(&history(&[task], 4, &[]), "task");
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    assert_near(median(r#""sleep": 2000"#), slow, 0.01, "after sleeps, ms");
    let boosted = median(r#""fairground1": { "disk": 2000 }"#);
    assert!(boosted < 0.5 * slow, "{boosted} ms after waits for a disk");
    // Waits that come less than once a tick do not add up.
    let rare = median(r#""fairground1": { "disk": 20000 }"#);
    assert_near(rare, slow, 0.01, "after rare waits for a disk, ms");
}
