//! Sleeps and timers.

use fairground_events::{EventKind, OverheadKind, TaskId};
use fairground_workload::{TimerMode, Waiting};

use super::Action;
use crate::clock::Due;
use crate::constants::*;
use crate::kernel::Kernel;
use crate::surroundings::Errand;
use crate::task::{Class, TaskRef};

/// A sleep that a high-resolution timer ends.
#[derive(Clone, Copy, Debug)]
pub struct Sleep {
    /// When it may end.
    earliest: u64,
    /// When it has to end, later by the timer slack; the kernel sorts timers by this, and sets them for it.
    latest: u64,
    task: TaskId,
    /// Number of the task's sleep.
    generation: u32,
}

impl Kernel<'_> {
    pub(crate) fn sleep_until(&mut self, task: TaskRef, until: u64) -> Action {
        let slack = match task.class {
            Class::RealTime | Class::Deadline => 0,
            _ => self.settings.cost.timer_slack,
        };
        let latest = until + slack;
        self.wake_at(task, latest);
        let sleep =
            Sleep { earliest: until, latest, task: task.id, generation: task.execution.sleep };
        let sleeps = &mut self.cpus[task.cpu()].sleeps;
        if sleeps.back().is_none_or(|last| last.latest <= sleep.latest) {
            sleeps.push_back(sleep);
        } else {
            let place = sleeps.partition_point(|other| other.latest <= sleep.latest);
            sleeps.insert(place, sleep);
        }
        Action::Block
    }

    /// When the first sleep must end that a timer of `cpu` ends.
    pub(crate) fn next_sleep_end(&self, cpu: usize) -> Option<u64> {
        let lasts = |sleep: &&Sleep| {
            let task = self.tasks.any(sleep.task);
            task.execution.sleeps_until_timeout(sleep.generation)
        };
        let next = self.cpus[cpu].sleeps.iter().find(lasts);
        next.map(|sleep| sleep.latest)
    }

    /// Sets the timer that ends the sleep of `task`, which is about to begin, at `time`.
    pub(crate) fn wake_at(&mut self, mut task: TaskRef, time: u64) {
        task.execution.sleep = task.execution.sleep.wrapping_add(1);
        task.execution.sleeps_on = task.cpu();
        task.execution.waiting = Waiting::Time;
        self.clock.at(time, Due::Timeout { task: task.id.0, generation: task.execution.sleep });
    }

    /// Releases the first job of `task`, if it has timers: at the time from which its events count.
    pub(crate) fn release_first_job(&mut self, task: TaskRef) {
        if task.execution.periodic && self.observed {
            let workload = self.programs.workload.clone();
            let delay = workload.tasks[task.execution.definition].delay;
            self.release_job(task, task.execution.start + delay);
        }
    }

    /// Releases a job that is due at this time.
    fn release_job(&mut self, task: TaskRef, due: u64) {
        let workload = self.programs.workload.clone();
        let execution = &task.execution;
        let definition = &workload.tasks[execution.definition];
        let period = definition.next_period(execution.phase, execution.event);
        let due = due - self.origin;
        self.emit(EventKind::JobRelease {
            task: task.id,
            due,
            deadline: due + period.unwrap_or(0),
        });
    }

    /// Completes the current job, releases the next one and sleeps until the timer expires; no action if it has already expired.
    pub(super) fn wait_for_timer(
        &mut self,
        mut task: TaskRef,
        timer: usize,
        period: u64,
        mode: TimerMode,
    ) -> Option<Action> {
        let workload = self.programs.workload.clone();
        let definition = &workload.tasks[task.execution.definition];
        let first = task.execution.start + definition.delay;
        let now = self.program_time();
        let last = if workload.timers[timer].unique {
            &mut task.execution.timers[timer]
        } else {
            &mut self.programs.shared_timers[timer]
        };
        let expiry = mode.expire(last.get_or_insert(first), period, now);
        self.emit(EventKind::JobComplete { task: task.id, deadline: expiry.due - self.origin });
        if expiry.skipped > 0 {
            self.emit(EventKind::JobSkip {
                task: task.id,
                due: expiry.due - self.origin,
                period,
                count: expiry.skipped,
            });
        }
        // A task that ends here has no further job.
        let at = &task.execution;
        let ends = definition.ends_at(at.passes, at.phase, at.phase_passes, at.event);
        task.execution.deadline = None;
        if !ends {
            self.release_job(task, expiry.release);
            task.execution.deadline = Some(expiry.release + period - self.origin);
        }
        (!expiry.late).then(|| self.sleep_until(task, expiry.due))
    }

    /// The interrupt of a timer that ends a sleep: on the CPU where the task went to sleep, at the end of the slack, for which the kernel sets it
    /// (`hrtimer_set_expires_range_ns()`).
    pub(crate) fn handle_timeout(&mut self, number: u32, generation: u32, due: Due) {
        let task = self.tasks.any(TaskId(number));
        if !task.execution.sleeps_until_timeout(generation) {
            return;
        }
        let home = task.execution.sleeps_on;
        let mut cpu = home;
        if !self.cpus[cpu].online {
            cpu = (0..self.cpus.len()).find(|&cpu| self.cpus[cpu].online).unwrap_or(cpu);
        }
        if self.postponed(cpu, due) {
            return;
        }
        self.interrupt(cpu);
        self.context.spent += self.settings.cost.timer;
        self.settle(OverheadKind::Interrupt);
        if matches!(task.execution.errand, Errand::Serve { .. }) {
            // User programs sleep on high-resolution timers, kernel threads on the timer wheel.
            let is_kernel_thread = task.seen.flags & PF_KTHREAD != 0;
            self.cpus[cpu].preempt_count =
                if is_kernel_thread { SOFTIRQ_OFFSET } else { HARDIRQ_OFFSET };
            self.wake(task, None, false);
            self.cpus[cpu].preempt_count = 0;
        } else {
            self.end_sleeps(cpu, home, self.clock.now() + 1);
        }
        self.leave(OverheadKind::Scheduling);
    }

    /// hrtimer_interrupt(), part of every timer interrupt and every tick of `cpu`: ends all sleeps on `home`'s timers that may end before this
    /// time, not just the one that the interrupt was for. So sleeps that end at almost the same time end together.
    pub(crate) fn end_sleeps(&mut self, cpu: usize, home: usize, time: u64) {
        self.cpus[cpu].preempt_count = HARDIRQ_OFFSET;
        let mut home = self.cpu(home);
        while let Some(sleep) = home.sleeps.pop_front_if(|sleep| sleep.earliest < time) {
            let mut task = self.tasks.any(sleep.task);
            if task.execution.sleeps_until_timeout(sleep.generation) {
                task.execution.waiting = Waiting::Nothing;
                self.wake(task, None, false);
            }
        }
        self.cpus[cpu].preempt_count = 0;
    }
}
