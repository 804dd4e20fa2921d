//! Changes of a task's CPUs, nice value and policy, which it makes while it runs, and how it leaves a CPU that it may no longer use.

use super::trace::{Kind, Record};
use super::{
    AT_HEAD, Attributes, Broken, CHANGE, CLASS, Expected, FIRST_ORDINARY, MIGRATED, MOVE, NOCLOCK,
    Place, Queue, Reference, SAVE, call,
};

impl Attributes {
    fn is_real_time(&self) -> bool {
        self.priority < FIRST_ORDINARY
    }
}

impl Reference {
    /// The mask of CPUs that a task may use.
    fn mask(&self, allowed: &[usize]) -> u64 {
        let all = (1 << self.world.nodes.len()) - 1;
        let named = allowed.iter().fold(0, |mask, cpu| mask | 1 << cpu);
        if allowed.is_empty() { all } else { named }
    }

    fn call_for(&mut self, kind: Kind, pid: u32, a: u64) {
        self.calls.push(Expected { a: Some(a), ..call(kind, pid) });
    }

    /// A running task has been taken off for a change; it is told of, and the task is put back, unless it is a real-time task now.
    pub(super) fn changes(&mut self, record: &Record) -> Result<(), Broken> {
        let (pid, cpu) = (record.pid, record.cpu);
        let Some(next) = self.task_mut(pid)?.later.pop_front() else {
            rule!(!self.world.exact, "{pid} changes, and nothing tells of it");
            self.untold = Some((pid, cpu));
            return Ok(());
        };
        let was = std::mem::replace(&mut self.task_mut(pid)?.is, next.clone());
        let mut flags = SAVE | NOCLOCK;
        if next.priority != was.priority {
            flags |= MOVE;
        }
        if next.is_real_time() {
            flags |= CLASS;
        }
        rule!(
            record.a == flags | CHANGE,
            "{pid} is taken off with {:#x} to become {next:?}, and was {was:?}",
            record.a
        );
        if next.is_real_time() {
            self.calls.push(call(Kind::Disable, pid));
            return Ok(());
        }
        if next.allowed != was.allowed {
            let mask = self.mask(&next.allowed);
            self.call_for(Kind::SetCpumask, pid, mask);
        } else {
            self.call_for(Kind::SetWeight, pid, next.weight);
        }
        self.expect_back(pid, cpu, flags, was.priority);
        Ok(())
    }

    /// A task that was taken off its CPU for a change comes back to it.
    fn expect_back(&mut self, pid: u32, cpu: usize, flags: u64, was: i32) {
        let falls = self.task(pid).is_ok_and(|task| was < task.is.priority);
        self.cpus[cpu].leaving = None;
        self.cpus[cpu].changed = Some((pid, flags & CLASS != 0));
        self.call_for(Kind::Runnable, pid, flags | if falls { AT_HEAD } else { 0 });
        self.calls.push(call(Kind::Running, pid));
    }

    /// Back after a change, a running task comes to its CPU by way of the queue, and no other task comes in between.
    pub(super) fn restored(&mut self, record: &Record) -> Result<(), Broken> {
        let cpu = record.cpu;
        rule!(record.task_cpu() == cpu, "{} is restored on CPU {cpu}", record.pid);
        self.check_slice(record)?;
        self.task_mut(record.pid)?.runnable = true;
        self.begin_to_wait(record.pid)?;
        self.put(Queue::Local(cpu), record.pid, 0, false, AT_HEAD)
    }

    /// The running task is a real-time task now. The scheduler hears that it is gone before anything about the task says so.
    pub(super) fn becomes_real_time(&mut self, record: &Record) -> Result<(), Broken> {
        let is_real_time = matches!(record.a, 1 | 2);
        rule!(!is_real_time, "{} is of its new class already", record.pid);
        let state = &mut self.cpus[record.cpu];
        state.leaving = None;
        state.must_pass = false;
        state.higher = Some(record.pid);
        self.set_slice(record.pid, 0)
    }

    /// A task begins to belong to the scheduler: a new one, or a running one that was a real-time task.
    pub(super) fn enabled(&mut self, record: &Record) -> Result<(), Broken> {
        let (pid, cpu) = (record.pid, record.cpu);
        let task = self.task_mut(pid)?;
        rule!(!task.enabled, "{pid} is enabled again");
        task.enabled = true;
        let mut was = task.is.clone();
        if !was.is_real_time() {
            let weight = was.weight;
            self.call_for(Kind::SetWeight, pid, weight);
            return Ok(());
        }
        // Its changes meanwhile were nothing to the scheduler.
        while let Some(next) = task.later.pop_front() {
            was = std::mem::replace(&mut task.is, next);
            if !task.is.is_real_time() {
                break;
            }
        }
        if task.is.is_real_time() {
            rule!(!self.world.exact, "{pid} is enabled, and nothing tells of it");
            self.untold = Some((pid, cpu));
            return Ok(());
        }
        let (weight, allowed) = (task.is.weight, task.is.allowed.clone());
        let mask = self.mask(&allowed);
        let state = &mut self.cpus[cpu];
        rule!(
            state.higher.take() == Some(pid),
            "{pid} leaves its class and does not run on CPU {cpu}"
        );
        self.call_for(Kind::SetWeight, pid, weight);
        self.call_for(Kind::SetCpumask, pid, mask);
        self.task_mut(pid)?.cpu = cpu;
        self.expect_back(pid, cpu, SAVE | MOVE | NOCLOCK | CLASS, was.priority);
        Ok(())
    }

    /// The CPUs of a task change because it says so, or because it could be nowhere else.
    pub(super) fn mask_changes(&mut self, record: &Record, expected: bool) -> Result<(), Broken> {
        let pid = record.pid;
        if expected && self.leaver != Some(pid) {
            return Ok(());
        }
        let task = self.task(pid)?;
        rule!(
            self.fallback(task, task.cpu).is_none(),
            "{pid} may use other CPUs, and its own are there"
        );
        let task = self.task_mut(pid)?;
        let next = task.later.pop_front();
        let allowed = next.map(|next| next.allowed);
        rule!(
            allowed.as_ref().is_some_and(Vec::is_empty),
            "{pid} may not use all CPUs, but {allowed:?}"
        );
        // For a new task that was to leave its parent's CPU, a CPU is chosen after that.
        task.forced = !expected && (!task.young || task.is.allowed.contains(&task.cpu));
        task.is.allowed.clear();
        let mask = self.mask(&[]);
        rule!(record.a == mask, "{pid} is told to use {:#x}", record.a);
        Ok(())
    }

    /// A real-time task leaves its CPU: another has come already, or the stopper takes it away.
    pub(super) fn left(&mut self, record: &Record, expected: bool) -> Result<(), Broken> {
        let (pid, cpu) = (record.pid, record.cpu);
        let may_stay = record.b != 0;
        let state = &mut self.cpus[cpu];
        if may_stay && !expected {
            let higher = state.higher;
            rule!(higher.is_none(), "{pid} leaves, and {higher:?} stays");
            return Ok(());
        }
        rule!(
            state.higher.take() == Some(pid),
            "{pid} is pushed off CPU {cpu} and does not run there"
        );
        state.must_pass = !expected;
        state.stopped = true;
        self.note_idle(cpu);
        Ok(())
    }

    /// A task that may no longer run where it does gives way to the stopper, which takes it to a CPU that it may use.
    pub(super) fn pushed_off(&mut self, record: &Record) -> Result<(), Broken> {
        let pid = record.pid;
        let task = self.give_way_to_stopper(record, true)?;
        task.pushed = true;
        self.begin_to_wait(pid)?;
        if record.slice() == 0 {
            self.enqueue(pid, 0)?;
            if !self.calls.is_empty() {
                return Ok(());
            }
        }
        self.arrive_pushed(pid)
    }

    /// A task that was pushed off leaves where it was queued meanwhile and arrives.
    pub(super) fn arrive_pushed(&mut self, pid: u32) -> Result<(), Broken> {
        if !std::mem::take(&mut self.task_mut(pid)?.pushed) {
            return Ok(());
        }
        match self.task(pid)?.place {
            Place::On(_) => self.take_off(pid)?,
            Place::Travelling => {
                let from = self.task(pid)?.cpu;
                self.cpus[from].travellers.retain(|one| one.pid != pid);
            }
            _ => {}
        }
        let task = self.task_mut(pid)?;
        task.place = Place::Nowhere;
        let custody = std::mem::take(&mut task.custody);
        self.begin_to_wait(pid)?;
        if custody {
            self.calls.push(Expected { a: Some(CHANGE | NOCLOCK), ..call(Kind::Dequeue, pid) });
        }
        let there = |cpu: &usize| !self.cpus[*cpu].offline;
        let targets: Vec<usize> =
            self.task(pid)?.is.allowed.iter().copied().filter(there).collect();
        match targets[..] {
            [target] => self.task_mut(pid)?.cpu = target,
            _ => self.task_mut(pid)?.unsettled = true,
        }
        self.enqueue(pid, MIGRATED)
    }

    /// Where an enqueue finds a task.
    pub(super) fn settle(&mut self, record: &Record) -> Result<(), Broken> {
        let (pid, cpu) = (record.pid, record.task_cpu());
        let task = self.task(pid)?;
        let usable = self.may_use(task, cpu) && !self.cpus[cpu].offline;
        rule!(
            if task.unsettled { usable } else { task.cpu == cpu },
            "{pid} is enqueued on CPU {cpu}"
        );
        let task = self.task_mut(pid)?;
        task.unsettled = false;
        task.cpu = cpu;
        Ok(())
    }
}
