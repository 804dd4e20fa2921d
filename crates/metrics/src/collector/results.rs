//! Computes the metrics from the collected data.

use super::Metrics;
use super::machine::Available;
use crate::distribution::Samples;
use crate::result::{
    CpuTime, Energy, Fairness, GroupMetrics, LASTING_WAIT, LONG_WAIT, Lag, LongWait, OverheadTime,
    Periods, RunMetrics, Share, TaskMetrics, Throughput,
};
use crate::task::{State, Task, longer, worse};
use fairground_events::GroupId;

impl Metrics {
    /// The metrics up to the last event; complete after [`Sink::finish`](fairground_events::Sink::finish).
    pub fn result(&self) -> RunMetrics {
        let available = self.machine.available_until_now();
        let capacity = self.machine.capacity_until_now();
        let tasks: Vec<TaskMetrics> =
            (0..self.tasks.len()).filter_map(|task| self.task_result(task, &available)).collect();
        let busy_cpus_ns: Vec<u64> = self.machine.cpus.iter().map(|cpu| cpu.busy).collect();
        let busy_ns = busy_cpus_ns.iter().sum();
        let used_ns = busy_ns + self.machine.overhead_booked + self.machine.others.unwrap_or(0);
        let awaited = || self.tasks.iter().flatten().filter(|task| !task.daemon);
        let alive = awaited().any(|task| task.ended.is_none());
        RunMetrics {
            duration_ns: self.machine.now,
            cpus: self.machine.cpus.len() as u32,
            cpu_time: CpuTime {
                available_ns: available.time,
                busy_ns,
                counted_ns: self.counted_ns(alive),
                overhead_ns: self.machine.overhead_booked,
                others_ns: self.machine.others,
                others_work_ns: None,
                others_wanted_ns: None,
                idle_ns: available.time.saturating_sub(used_ns),
                idle_while_runnable_ns: capacity.idle_while_runnable,
            },
            busy_cpus_ns,
            throughput: self.throughput(capacity.possible_work),
            fairness: self.fairness(),
            wakeup_latency: Samples::distribution_of_all(
                self.tasks.iter().flatten().map(|task| &task.wakeup_latency),
            ),
            response_time: Samples::distribution_of_all(
                self.tasks.iter().flatten().map(|task| &task.response_time),
            ),
            periods: tasks.iter().filter_map(|task| task.periods).reduce(|a, b| Periods {
                released: a.released + b.released,
                completed: a.completed + b.completed,
                missed: a.missed + b.missed,
                skipped: a.skipped + b.skipped,
            }),
            laps: Samples::distribution_of_all(self.tasks.iter().flatten().map(|task| &task.laps)),
            slowest_laps_ns: Samples::slowest_of_all(
                self.tasks.iter().flatten().map(|task| &task.laps),
            ),
            context_switches: self.context_switches,
            preemptions: self.preemptions,
            wakeups: self.wakeups,
            migrations: self.migrations,
            overhead: self.overhead_time(&available),
            scheduler_pass: self.scheduler_pass.distribution(),
            idle_beside: self.machine.idle_beside,
            longest_wait_ns: tasks.iter().filter_map(|task| task.longest_wait_ns).max(),
            makespan_ns: if alive { None } else { awaited().filter_map(|task| task.ended).max() },
            energy: self.energy(),
            inconsistent_events: self.inconsistent,
            tasks,
            groups: self.group_results(),
        }
    }

    /// CPU time of the tasks whose work has an amount.
    fn counted_ns(&self, alive: bool) -> Option<u64> {
        let is_counted = |task: &&Task| match alive {
            false => !task.daemon,
            true => task.laps.distribution().is_some(),
        };
        let counted = self.tasks.iter().flatten().filter(is_counted);
        counted.map(|task| task.cpu_time).reduce(|a, b| a + b)
    }

    /// The energy that the CPUs have consumed, if that is known.
    fn energy(&self) -> Option<Energy> {
        let joules = |nanojoules: u64| nanojoules as f64 / 1e9;
        let cpus = self.energy.values().map(|used| joules(*used)).collect();
        (!self.energy.is_empty())
            .then(|| Energy { joules: joules(self.energy.values().sum()), cpus })
    }

    /// CPU time by control group; that of a group is also that of the group that it is in.
    fn group_results(&self) -> Vec<GroupMetrics> {
        let groups = self.machine.ideal.groups();
        let mut times = self.left_groups.clone();
        times.resize(groups.count(), 0);
        for task in self.tasks.iter().flatten() {
            if let Some(group) = task.group {
                times[group.0 as usize] += task.cpu_time - task.cpu_time_before_group;
            }
        }
        for group in (0..groups.count()).rev() {
            if let Some(parent) = groups.parent(group) {
                times[parent] += times[group];
            }
        }
        let result = |(group, time): (usize, &u64)| {
            let used = self.quotas_used.get(&GroupId(group as u32));
            GroupMetrics {
                path: groups.path(group).to_owned(),
                cpu_time_ns: *time,
                nr_periods: used.map(|used| used.periods),
                nr_throttled: used.map(|used| used.throttled_periods),
                throttled_ns: used.map(|used| used.throttled),
            }
        };
        times.iter().enumerate().map(result).collect()
    }

    fn overhead_time(&self, available: &Available) -> Option<OverheadTime> {
        let kinds = self.machine.overhead?;
        let total_ns: u64 = kinds.iter().sum();
        let [scheduling_ns, switch_ns, migration_ns, interrupt_ns] = kinds;
        // In a run that is shorter than its first switches, most of them comes after the end.
        (total_ns <= available.time).then(|| OverheadTime {
            scheduling_ns,
            switch_ns,
            migration_ns,
            interrupt_ns,
            total_ns,
            percent: 100.0 * total_ns as f64 / available.time.max(1) as f64,
        })
    }

    fn throughput(&self, ideal: f64) -> Option<Throughput> {
        let work: f64 = self.tasks.iter().flatten().map(|task| task.work).sum();
        (ideal > 0.0).then(|| Throughput {
            work_ns: work.round() as u64,
            ideal_work_ns: ideal.round() as u64,
            ratio: work / ideal,
        })
    }

    fn fairness(&self) -> Option<Fairness> {
        let (mut tasks, mut sum, mut squares) = (0.0, 0.0, 0.0);
        let mut lag = Lag { ahead_ns: 0, behind_ns: 0 };
        for (number, task) in self.tasks.iter().enumerate() {
            let Some(task) = task else { continue };
            let ideal = self.machine.ideal.service(number);
            if !task.fair || ideal <= 0.0 {
                continue;
            }
            let normalised = task.work / ideal;
            tasks += 1.0;
            sum += normalised;
            squares += normalised * normalised;
            let own = task.lag.extremes();
            lag.ahead_ns = lag.ahead_ns.max(own.ahead_ns);
            lag.behind_ns = lag.behind_ns.max(own.behind_ns);
        }
        (tasks > 0.0).then(|| Fairness {
            // If no task got any service, all were treated alike.
            jain_index: if squares > 0.0 { sum * sum / (tasks * squares) } else { 1.0 },
            lag,
            worst_window: self.worst_window,
        })
    }

    fn task_result(&self, number: usize, available: &Available) -> Option<TaskMetrics> {
        let task = self.tasks[number].as_ref()?;
        let ideal = self.machine.ideal.service(number);
        let open = self.open_wait(number, task);
        let longest = longer(task.longest_wait, open);
        Some(TaskMetrics {
            name: task.name.clone(),
            nice: task.nice,
            weight: task.weight,
            cpu_time_ns: task.cpu_time,
            work_ns: task.work.round() as u64,
            share: (task.born.is_some() && available.work > 0.0).then(|| Share {
                actual: task.work / available.work,
                ideal: ideal / available.work,
            }),
            lag: (task.fair && task.born.is_some()).then(|| task.lag.extremes()),
            windows: task.window.range(),
            wakeup_latency: task.wakeup_latency.distribution(),
            response_time: task.response_time.distribution().map(Box::new),
            periods: task.periods_until(self.machine.now),
            laps: task.laps.distribution().map(Box::new),
            wait_ns: task.wait + open.map_or(0, |wait| wait.length_ns),
            throttled_ns: task.throttled_until(self.machine.now),
            longest_wait_ns: longest.map(|wait| wait.length_ns),
            longest_wait: longest,
            worst_wait: worse(task.worst_wait, open.filter(|wait| wait.length_ns >= LONG_WAIT)),
            idle_beside: task.idle_beside,
            worst_share: task.worst_share,
            longest_wait_of_equals_ns: self.longest_wait_of_equals(number, longest),
            wakeups: task.wakeups,
            voluntary_switches: task.voluntary_switches,
            involuntary_switches: task.involuntary_switches,
            migrations: task.migrations,
            ended_ns: task.ended,
            records: task
                .records
                .as_ref()
                .map(|records| Box::new(records.result(task.open_job(self.machine.now)))),
        })
    }

    /// The longest wait of the equals of a task whose longest wait is this one.
    fn longest_wait_of_equals(&self, number: usize, longest: Option<LongWait>) -> Option<u64> {
        let task = self.tasks[number].as_ref()?;
        let lasting =
            longest.filter(|wait| !wait.ended && wait.length_ns > LASTING_WAIT && task.fair)?;
        let waits = { self.tasks.iter().enumerate() }.filter_map(|(other_number, other)| {
            let other = other.as_ref().filter(|_| other_number != number)?;
            let open = self.open_wait(other_number, other);
            let runnable = other.cpu_time + other.wait + open.map_or(0, |wait| wait.length_ns);
            // Of a task that sleeps, as at a barrier, a short wait tells nothing.
            let is_equal = (other.policy, other.weight, other.set)
                == (task.policy, task.weight, task.set)
                && other.ended.is_none()
                && other.wakeups <= 2 * task.wakeups + 1
                && runnable >= lasting.length_ns / 2;
            is_equal.then(|| longer(other.longest_wait, open).map(|wait| wait.length_ns))?
        });
        waits.max()
    }

    /// The wait of a waiting task.
    fn open_wait(&self, number: usize, task: &Task) -> Option<LongWait> {
        let ideal = self.machine.ideal.service(number);
        (task.state == State::Waiting).then(|| task.wait_until(self.machine.now, ideal, false))
    }
}
