//! Tasks: fork, wake-up, slices, sleep.

use super::trace::{Kind, Record};
use super::{
    Attributes, Broken, CHANGE, CPU_SELECTED, DEFAULT_SLICE, Expected, FOR_OFFLINE, INITIAL,
    Insertion, Inside, KICK_PREEMPT, LOCAL, MIGRATED, Place, Queue, Reference, SLEEP, Task,
    WAKE_SYNC, WAKEUP, call,
};
use std::collections::VecDeque;

/// A task of which nothing is known.
const ORDINARY: Attributes = Attributes { allowed: Vec::new(), priority: 120, weight: 100 };

impl Reference {
    pub(super) fn task(&self, pid: u32) -> Result<&Task, Broken> {
        let found = self.tasks.iter().find(|task| task.pid == pid);
        found.ok_or_else(|| format!("{pid} has not been born"))
    }

    pub(super) fn task_mut(&mut self, pid: u32) -> Result<&mut Task, Broken> {
        let found = self.tasks.iter_mut().find(|task| task.pid == pid);
        found.ok_or_else(|| format!("{pid} has not been born"))
    }

    pub(super) fn may_use(&self, task: &Task, cpu: usize) -> bool {
        task.is.allowed.is_empty() || task.is.allowed.contains(&cpu)
    }

    pub(super) fn born(&mut self, record: &Record) {
        let mut later = VecDeque::new();
        // Tasks that existed before the run have no number in the event stream and never run.
        if record.a != 0 {
            later = self.world.attributes.get(self.births).cloned().unwrap_or_default();
            self.births += 1;
        }
        self.tasks.push(Task {
            pid: record.pid,
            is: later.pop_front().unwrap_or(ORDINARY),
            later,
            forced: false,
            pushed: false,
            unsettled: false,
            enabled: false,
            cpu: record.task_cpu(),
            runnable: false,
            waits: 0,
            place: Place::Nowhere,
            custody: false,
            stay: 0,
            young: true,
            slice: record.slice(),
            since: 0,
            direct: None,
            selected: None,
        });
    }

    /// The rest of a task's slice now.
    pub(super) fn slice_of(&self, pid: u32) -> Result<u64, Broken> {
        let task = self.task(pid)?;
        Ok(match task.place {
            Place::Running(_) if task.slice != u64::MAX => {
                task.slice.saturating_sub(self.now.saturating_sub(task.since))
            }
            _ => task.slice,
        })
    }

    /// Compares a task's slice with the one that it should have.
    pub(super) fn compare_slice(&mut self, pid: u32, seen: u64) -> Result<(), Broken> {
        let due = self.slice_of(pid)?;
        let now = self.now;
        let running = match self.task(pid)?.place {
            Place::Running(cpu) => Some(cpu),
            _ => None,
        };
        let hurried = running.is_some_and(|cpu| self.cpus[cpu].hurried);
        // Overhead moves the instants at which a task is charged.
        let about = !self.world.exact && running.is_some();
        rule!(
            seen == due || hurried && seen == 0 || about && seen <= self.task(pid)?.slice,
            "{pid} has a slice of {seen}, where {due} is due"
        );
        let task = self.task_mut(pid)?;
        task.slice = seen;
        task.since = now;
        Ok(())
    }

    pub(super) fn check_slice(&mut self, record: &Record) -> Result<(), Broken> {
        self.compare_slice(record.pid, record.slice())
    }

    pub(super) fn set_slice(&mut self, pid: u32, slice: u64) -> Result<(), Broken> {
        let now = self.now;
        let task = self.task_mut(pid)?;
        task.slice = slice;
        task.since = now;
        Ok(())
    }

    /// Checks a callback that is about the current task of the CPU on which it runs.
    pub(super) fn check_running(&mut self, record: &Record) -> Result<(), Broken> {
        let current = self.cpus[record.cpu].current;
        rule!(
            current == Some(record.pid),
            "{} does not run on {}, but {current:?}",
            record.pid,
            record.cpu
        );
        rule!(record.task_cpu() == record.cpu, "{} is said to be on another CPU", record.pid);
        self.check_slice(record)
    }

    pub(super) fn select_begins(&mut self, record: &Record) -> Result<(), Broken> {
        let task = self.task(record.pid)?;
        rule!(task.enabled && !task.runnable, "select_cpu for {task:?}");
        rule!(
            record.a as usize == task.cpu,
            "{} was on {} before, not {}",
            task.pid,
            task.cpu,
            record.a
        );
        rule!(task.is.allowed.len() != 1, "select_cpu for {}, which has one CPU only", task.pid);
        self.inside = Some(Inside::SelectCpu(record.pid, record.b));
        Ok(())
    }

    pub(super) fn check_default(&self, record: &Record) -> Result<(), Broken> {
        let Some(Inside::SelectCpu(pid, flags)) = self.inside else {
            return Err("a choice outside select_cpu".into());
        };
        let cpu = record.a as usize;
        rule!(self.may_use(self.task(pid)?, cpu) || record.b == 0, "{pid} may not use CPU {cpu}");
        rule!(
            record.b == 0 || !self.cpus[cpu].offline,
            "CPU {cpu} is chosen as idle and is not there"
        );
        if record.b != 0 && flags & WAKE_SYNC == 0 {
            let current = self.cpus[cpu].current.or(self.cpus[cpu].higher);
            rule!(current.is_none(), "CPU {cpu} is chosen as idle and runs {current:?}");
        }
        Ok(())
    }

    pub(super) fn runnable(&mut self, record: &Record, expected: bool) -> Result<(), Broken> {
        let flags = record.a;
        if { self.cpus[record.cpu].changed }.is_some_and(|(pid, _)| pid == record.pid) {
            return self.restored(record);
        }
        if self.leaver == Some(record.pid) {
            return self.leaver_is_back(record, expected);
        }
        if flags == FOR_OFFLINE {
            return self.put_offline(record, expected);
        }
        let task = self.task(record.pid)?;
        rule!(task.enabled && !task.runnable && task.place == Place::Nowhere, "runnable: {task:?}");
        let kind = flags & !(CPU_SELECTED | MIGRATED);
        rule!(kind == WAKEUP || kind == INITIAL, "{} becomes runnable with {flags:#x}", task.pid);
        // Where a CPU was chosen before the task was allowed to use all, it was chosen for one that may use several.
        let chosen = (task.is.allowed.len() != 1 && !task.forced || task.selected.is_some())
            && self.world.nodes.len() > 1;
        rule!(
            (flags & CPU_SELECTED != 0) == (chosen && kind == WAKEUP),
            "{}: {flags:#x}, where a CPU was chosen: {chosen}",
            task.pid
        );
        let cpu = record.task_cpu();
        let comes = kind == WAKEUP && task.cpu != cpu;
        rule!((flags & MIGRATED != 0) == comes, "{}: {flags:#x} from {}", task.pid, task.cpu);
        rule!(
            self.may_use(task, cpu) && !self.cpus[cpu].offline,
            "{} is queued on CPU {cpu}",
            task.pid
        );
        if task.forced {
            let first = self.cpus.iter().position(|cpu| !cpu.offline);
            rule!(first == Some(cpu), "{} is on {cpu}, not {first:?}", task.pid);
        } else if let Some(selected) = task.selected
            && let Some(due) = match self.may_use(task, selected) && !self.cpus[selected].offline {
                true => Some(selected),
                false => self.fallback(task, selected),
            }
        {
            rule!(cpu == due, "{} is on {cpu}, and {selected} was selected", task.pid);
        }
        self.check_slice(record)?;
        let now = self.now;
        let task = self.task_mut(record.pid)?;
        task.runnable = true;
        task.young = false;
        task.forced = false;
        task.cpu = cpu;
        task.selected = None;
        self.begin_to_wait(record.pid)?;
        self.wakes.push((record.pid, now));
        if chosen && !self.world.has_select_cpu {
            self.choose_by_default(record.pid, cpu)?;
        }
        self.enqueue(record.pid, flags)
    }

    /// The kernel's default selection sends a task directly to an idle CPU.
    fn choose_by_default(&mut self, pid: u32, cpu: usize) -> Result<(), Broken> {
        let state = &mut self.cpus[cpu];
        if state.current.is_some() || state.higher.is_some() || state.claimed {
            return Ok(());
        }
        state.claimed = true;
        let stay = self.task(pid)?.stay;
        self.task_mut(pid)?.direct = Some(Insertion {
            pid,
            dsq: LOCAL,
            slice: DEFAULT_SLICE,
            vtime: 0,
            ordered: false,
            flags: 0,
            stay,
        });
        Ok(())
    }

    /// Passes a task to the scheduler, or puts it where `ops.select_cpu()` has sent it.
    pub(super) fn enqueue(&mut self, pid: u32, flags: u64) -> Result<(), Broken> {
        if self.task(pid)?.direct.is_some() {
            return self.send(pid, flags);
        }
        if !self.world.has_enqueue {
            let task = self.task_mut(pid)?;
            task.slice = DEFAULT_SLICE;
            let queue = Queue::Global(self.world.nodes[self.task(pid)?.cpu]);
            return self.put(queue, pid, 0, false, flags);
        }
        self.calls.push(Expected { a: Some(flags), ..call(Kind::EnqueueBegin, pid) });
        Ok(())
    }

    pub(super) fn enqueued(&mut self, pid: u32, flags: u64) -> Result<(), Broken> {
        if self.task(pid)?.direct.is_some() {
            self.send(pid, flags)?;
        } else {
            let task = self.task_mut(pid)?;
            task.custody = true;
            task.place = Place::Kept;
        }
        self.arrive_pushed(pid)
    }

    pub(super) fn tick_begins(&mut self, record: &Record) -> Result<(), Broken> {
        self.check_running(record)?;
        rule!(
            !self.world.exact || record.time.is_multiple_of(self.world.tick),
            "a tick at {}",
            record.time
        );
        self.inside = Some(Inside::Tick(record.pid));
        Ok(())
    }

    pub(super) fn tick_ends(&mut self, record: &Record) -> Result<(), Broken> {
        self.inside = None;
        self.check_slice(record)?;
        self.cpus[record.cpu].must_pass |= record.slice() == 0;
        Ok(())
    }

    pub(super) fn kicked(&mut self, record: &Record) {
        if record.b & KICK_PREEMPT != 0 {
            self.cpus[record.a as usize].hurried = true;
        }
    }

    pub(super) fn quiescent(&mut self, record: &Record, expected: bool) -> Result<(), Broken> {
        rule!(expected, "quiescent without stopping");
        let cpu = record.cpu;
        let leaves = self.cpus[cpu].leaving == Some(record.pid);
        let taker = self.taker;
        let task = self.task_mut(record.pid)?;
        task.runnable = false;
        task.waits = 0;
        if !leaves {
            return Ok(());
        }
        if record.a & CHANGE != 0 {
            return self.changes(record);
        }
        rule!(record.a == SLEEP, "quiescent with {:#x}", record.a);
        if let Some(taker) = taker {
            self.calls.push(call(Kind::Taken, taker));
            return Ok(());
        }
        self.look(cpu)
    }

    /// The stopper preempts the running task; `must_pass` says whether the CPU has to look for another task after that.
    pub(super) fn give_way_to_stopper(
        &mut self,
        record: &Record,
        must_pass: bool,
    ) -> Result<&mut Task, Broken> {
        let state = &mut self.cpus[record.cpu];
        state.current = None;
        state.must_pass = must_pass;
        state.stopped = true;
        self.note_idle(record.cpu);
        let task = self.task_mut(record.pid)?;
        task.place = Place::Nowhere;
        Ok(task)
    }
}
