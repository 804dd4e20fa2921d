//! Properties of every schedule, however bad: random schedulers on random machines.

use crate::by_list::{MS, Run, assert_close};
use fairground_events::{CpuId, EventKind, Outsider};
use fairground_metrics::{MachineFacts, Options, RunMetrics};
use proptest::prelude::*;

/// A step of a random schedule: which task wakes, sleeps or is put on which CPU.
#[derive(Clone, Copy, Debug)]
enum Step {
    Wake(usize),
    Sleep(usize),
    Place(usize, usize),
    Idle(usize),
    Overhead(usize, u64),
    /// Another program gets an idle CPU, or leaves it.
    Outside(usize),
}

/// A random schedule, written down with its own simple book-keeping.
struct Schedule {
    cpus: Vec<Option<usize>>,
    runnable: Vec<bool>,
    /// Milliseconds that each task ran, less overhead.
    ran: Vec<u64>,
    /// Milliseconds of these on each CPU.
    busy: Vec<u64>,
    idle_while_runnable: u64,
    overhead: u64,
    /// Which CPUs other programs have, and for how many milliseconds they had any.
    outside: Vec<bool>,
    others: u64,
    /// Milliseconds of overhead that each CPU still has.
    overhead_left: Vec<u64>,
}

impl Schedule {
    fn waiting(&self) -> usize {
        let running = self.cpus.iter().flatten().count();
        self.runnable.iter().filter(|&&runnable| runnable).count() - running
    }

    /// A millisecond at a time, so that overhead is easy to follow.
    fn pass(&mut self, milliseconds: u64) {
        for _ in 0..milliseconds {
            let idle = (0..self.cpus.len()).filter(|&cpu| {
                self.cpus[cpu].is_none() && !self.outside[cpu] && self.overhead_left[cpu] == 0
            });
            self.idle_while_runnable += self.waiting().min(idle.count()) as u64;
            let cpus = self.cpus.iter().zip(&mut self.busy).zip(&self.outside);
            for (((task, busy), outside), overhead) in cpus.zip(&mut self.overhead_left) {
                if *overhead > 0 {
                    *overhead -= 1;
                    self.overhead += 1;
                } else if *outside {
                    self.others += 1;
                } else if let Some(task) = task {
                    self.ran[*task] += 1;
                    *busy += 1;
                }
            }
        }
    }
}

fn play(cpus: usize, weights: &[u32], steps: &[(u64, Step)]) -> (RunMetrics, Schedule) {
    let options = Options { window: 7 * MS, ..Options::default() };
    let mut run = Run::with(MachineFacts::equal(cpus), options);
    run.tasks(weights);
    let tasks = weights.len();
    let mut schedule = Schedule {
        cpus: vec![None; cpus],
        runnable: vec![false; tasks],
        ran: vec![0; tasks],
        busy: vec![0; cpus],
        idle_while_runnable: 0,
        overhead: 0,
        outside: vec![false; cpus],
        others: 0,
        overhead_left: vec![0; cpus],
    };
    let mut now = 0;
    for &(span, step) in steps {
        schedule.pass(span);
        now += span;
        run.at(now);
        match step {
            Step::Wake(task) => {
                let task = task % tasks;
                if !schedule.runnable[task] {
                    schedule.runnable[task] = true;
                    run.wake(task as u32);
                }
            }
            Step::Sleep(task) => {
                let task = task % tasks;
                if schedule.runnable[task] {
                    schedule.runnable[task] = false;
                    run.sleep(task as u32);
                    if let Some(cpu) = schedule.cpus.iter().position(|&on| on == Some(task)) {
                        schedule.cpus[cpu] = None;
                        run.switch(cpu as u32, task as u32, None);
                    }
                }
            }
            Step::Place(cpu, task) => {
                let (cpu, task) = (cpu % cpus, task % tasks);
                let is_free = !schedule.outside[cpu] && !schedule.cpus.contains(&Some(task));
                if schedule.runnable[task] && is_free {
                    let prev = schedule.cpus[cpu].replace(task);
                    run.switch(cpu as u32, prev.map(|prev| prev as u32), task as u32);
                }
            }
            Step::Idle(cpu) => {
                let cpu = cpu % cpus;
                if let Some(prev) = schedule.cpus[cpu].take() {
                    run.switch(cpu as u32, prev as u32, None);
                }
            }
            Step::Outside(cpu) => {
                let cpu = cpu % cpus;
                if schedule.cpus[cpu].is_none() {
                    let has_it = &mut schedule.outside[cpu];
                    *has_it = !*has_it;
                    let who = has_it.then_some(Outsider::Other);
                    run.event(EventKind::Outside { cpu: CpuId(cpu as u32), who });
                }
            }
            Step::Overhead(cpu, duration) => {
                let cpu = cpu % cpus;
                schedule.overhead_left[cpu] += duration;
                run.play(&format!("switch{cpu}+{duration}"));
            }
        }
    }
    (run.end(now), schedule)
}

fn step(overhead: bool) -> impl Strategy<Value = Step> {
    let kinds = if overhead { 9 } else { 6 };
    (0..kinds, 0_usize..8, 0_usize..8).prop_map(|(kind, a, b)| match kind {
        0 | 1 => Step::Wake(a),
        2 => Step::Sleep(a),
        3 | 4 => Step::Place(a, b),
        5 => Step::Idle(a),
        6 | 7 => Step::Outside(a),
        _ => Step::Overhead(a, b as u64),
    })
}

fn steps(overhead: bool) -> impl Strategy<Value = Vec<(u64, Step)>> {
    prop::collection::vec((0_u64..20, step(overhead)), 1..200)
}

proptest! {
    #[test]
    fn time_is_neither_lost_nor_made(
        cpus in 1_usize..5,
        weights in prop::collection::vec(1_u32..5000, 1..8),
        steps in steps(true),
    ) {
        let (result, schedule) = play(cpus, &weights, &steps);
        let time = result.cpu_time;
        prop_assert_eq!(result.inconsistent_events, 0);
        prop_assert_eq!(time.available_ns, cpus as u64 * result.duration_ns);
        let others = time.others_ns.unwrap_or(0);
        prop_assert_eq!(time.busy_ns + time.overhead_ns + others + time.idle_ns, time.available_ns);
        prop_assert_eq!(others, schedule.others * MS);
        prop_assert!(time.idle_while_runnable_ns <= time.idle_ns);
        prop_assert_eq!(time.overhead_ns, schedule.overhead * MS);
        let busy: Vec<u64> = schedule.busy.iter().map(|busy| busy * MS).collect();
        prop_assert_eq!(&result.busy_cpus_ns, &busy);
        prop_assert_eq!(time.idle_while_runnable_ns, schedule.idle_while_runnable * MS);
        for (task, ran) in result.tasks.iter().zip(&schedule.ran) {
            prop_assert_eq!(task.cpu_time_ns, ran * MS);
        }
        if time.available_ns > 0 {
            let shares: f64 = result.tasks.iter().filter_map(|task| task.share).map(|share| share.actual).sum();
            assert_close(shares, time.busy_ns as f64 / time.available_ns as f64);
        }
    }

    #[test]
    fn the_ideal_is_possible_and_not_worse_than_the_schedule(
        cpus in 1_usize..5,
        weights in prop::collection::vec(1_u32..5000, 1..8),
        steps in steps(true),
    ) {
        let (result, _) = play(cpus, &weights, &steps);
        if let Some(throughput) = result.throughput {
            prop_assert!(throughput.ideal_work_ns <= result.cpu_time.available_ns + 1);
            prop_assert!(throughput.ratio <= 1.0 + 1e-6, "{:?}", throughput);
        }
        if let Some(fairness) = result.fairness {
            let n = weights.len() as f64;
            prop_assert!(fairness.jain_index <= 1.0 + 1e-9 && fairness.jain_index >= 1.0 / n - 1e-9);
        }
        for task in &result.tasks {
            if let Some(windows) = task.windows {
                prop_assert!(windows.min <= windows.mean + 1e-9 && windows.mean <= windows.max + 1e-9);
                prop_assert!(windows.max <= 1.0 + 1e-9);
            }
        }
    }

    /// With tasks that always want a CPU, the ideal does not depend on the scheduler's decisions.
    #[test]
    fn the_ideal_of_hogs_depends_on_weights_only(
        cpus in 1_usize..5,
        weights in prop::collection::vec(1_u32..5000, 1..8),
        places in prop::collection::vec((1_u64..20, (0_usize..8, 0_usize..8)), 1..100),
    ) {
        let wakes = (0..weights.len()).map(|task| (0, Step::Wake(task)));
        let steps: Vec<_> = wakes
            .chain(places.iter().map(|&(span, (cpu, task))| (span, Step::Place(cpu, task))))
            .collect();
        let (result, _) = play(cpus, &weights, &steps);
        // Water filling, one task at a time from the heaviest: it gets its part of the rest, at most one CPU.
        let mut order: Vec<usize> = (0..weights.len()).collect();
        order.sort_by_key(|&task| std::cmp::Reverse(weights[task]));
        let mut left = cpus as f64;
        let mut weight_left: f64 = weights.iter().map(|&weight| f64::from(weight)).sum();
        for task in order {
            let weight = f64::from(weights[task]);
            let rate = (left * weight / weight_left).min(1.0);
            left -= rate;
            weight_left -= weight;
            assert_close(result.tasks[task].share.unwrap().ideal, rate / cpus as f64);
        }
    }

    /// On one CPU every work-conserving schedule without overhead does all the work that the ideal does, in any order.
    #[test]
    fn on_one_cpu_work_conserving_is_ideal_throughput(
        weights in prop::collection::vec(1_u32..5000, 1..8),
        steps in steps(false),
    ) {
        let (result, schedule) = play(1, &weights, &greedy(weights.len(), &steps));
        prop_assert_eq!(schedule.idle_while_runnable, 0);
        prop_assert_eq!(result.cpu_time.idle_while_runnable_ns, 0);
        if let Some(throughput) = result.throughput {
            assert_close(throughput.ratio, 1.0);
        }
    }
}

/// The steps on one CPU, with the first waiting task put on it whenever it would be idle.
fn greedy(tasks: usize, steps: &[(u64, Step)]) -> Vec<(u64, Step)> {
    let mut greedy = Vec::new();
    let mut on = None;
    let mut runnable = vec![false; tasks];
    for &(span, step) in steps {
        let step = match step {
            Step::Wake(task) => {
                runnable[task % tasks] = true;
                step
            }
            Step::Sleep(task) => {
                runnable[task % tasks] = false;
                on = on.filter(|&running| running != task % tasks);
                step
            }
            Step::Place(_, task) => {
                if runnable[task % tasks] {
                    on = Some(task % tasks);
                }
                step
            }
            // Instead of idling, any other waiting task.
            Step::Idle(task) | Step::Overhead(task, _) | Step::Outside(task) => {
                Step::Place(0, task)
            }
        };
        greedy.push((span, step));
        if let Step::Place(_, task) = step {
            if runnable[task % tasks] {
                on = Some(task % tasks);
            }
        }
        if on.is_none() {
            if let Some(task) = (0..tasks).find(|&task| runnable[task]) {
                on = Some(task);
                greedy.push((0, Step::Place(0, task)));
            }
        }
    }
    greedy
}
