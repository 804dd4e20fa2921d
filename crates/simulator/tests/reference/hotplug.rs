//! CPUs that go offline and come online.

use super::trace::{Kind, Record};
use super::{
    AT_HEAD, Broken, CHANGE, DEFAULT_SLICE, Expected, FOR_CPUS, FOR_OFFLINE, MIGRATED, Place,
    Queue, Reference, Task, call,
};

impl Reference {
    /// The place of a task that begins to wait now.
    pub(super) fn begin_to_wait(&mut self, pid: u32) -> Result<(), Broken> {
        self.waits += 1;
        self.task_mut(pid)?.waits = self.waits;
        Ok(())
    }

    /// The CPU for a task that cannot stay on `from`: the first that it may use of the same node, else of all; `None` if there is none.
    pub(super) fn fallback(&self, task: &Task, from: usize) -> Option<usize> {
        let nodes = &self.world.nodes;
        let usable = |cpu: &usize| self.may_use(task, *cpu) && !self.cpus[*cpu].offline;
        let near = (0..nodes.len()).filter(|cpu| nodes[*cpu] == nodes[from]);
        let first = { near }.find(usable);
        first.or_else(|| (0..nodes.len()).find(usable))
    }

    /// Whether the record is the first from a CPU that goes offline.
    pub(super) fn begins_offline(&self, record: &Record) -> bool {
        let first = match record.kind {
            // A task that changes itself runs, and has just stopped for that.
            Kind::Dequeue | Kind::Quiescent => {
                let leaving = self.cpus[record.cpu].leaving;
                record.a == FOR_OFFLINE | CHANGE && leaving != Some(record.pid)
            }
            kind => kind == Kind::Offline,
        };
        first && !self.cpus[record.cpu].offline
    }

    fn check_change(&self, cpu: usize, online: bool) -> Result<(), Broken> {
        let now = self.now;
        let mut changes = self.world.hotplug.iter();
        rule!(
            changes.any(|change| (change.1, change.2) == (cpu, online)
                && (change.0 == now || !self.world.exact && change.0 <= now)),
            "CPU {cpu} comes or goes, and should not"
        );
        Ok(())
    }

    /// The CPU puts its waiting tasks on its local queue, the latest first, and then calls `ops.cpu_offline()`.
    pub(super) fn goes_offline(&mut self, record: &Record) -> Result<(), Broken> {
        let cpu = record.cpu;
        self.check_change(cpu, false)?;
        let others = self.cpus.iter().filter(|other| !other.offline);
        rule!(others.count() > 1, "the last CPU goes offline");
        rule!(
            self.expected.is_empty(),
            "CPU {cpu} goes offline, and {:?} has to come",
            self.expected
        );
        self.cpus[cpu].offline = true;
        let waiting = self.tasks.iter().filter(|task| {
            task.waits > 0 && task.cpu == cpu && task.place != Place::On(Queue::Local(cpu))
        });
        let mut waiting: Vec<(u64, u32)> = waiting.map(|task| (task.waits, task.pid)).collect();
        waiting.sort_unstable();
        for (_, pid) in waiting.into_iter().rev() {
            if let Place::On(_) = self.task(pid)?.place {
                self.take_off(pid)?;
            }
            let task = self.task_mut(pid)?;
            task.place = Place::Nowhere;
            if std::mem::take(&mut task.custody) {
                self.expect(Kind::Dequeue, pid, FOR_OFFLINE | CHANGE);
            }
            self.expect(Kind::Quiescent, pid, FOR_OFFLINE | CHANGE);
            self.expect(Kind::Runnable, pid, FOR_OFFLINE);
        }
        self.expect(Kind::Offline, 0, cpu as u64);
        Ok(())
    }

    fn expect(&mut self, kind: Kind, pid: u32, a: u64) {
        self.expected.push_back(Expected { a: Some(a), ..call(kind, pid) });
    }

    /// A task is put on the local queue of a CPU that is offline.
    pub(super) fn put_offline(&mut self, record: &Record, expected: bool) -> Result<(), Broken> {
        let (pid, cpu) = (record.pid, record.task_cpu());
        rule!(expected, "{pid} is put back, and nothing calls for it");
        self.check_slice(record)?;
        self.begin_to_wait(pid)?;
        let task = self.task_mut(pid)?;
        task.runnable = true;
        task.slice = DEFAULT_SLICE;
        self.put(Queue::Local(cpu), pid, 0, false, 0)
    }

    pub(super) fn is_offline(&mut self, record: &Record, expected: bool) -> Result<(), Broken> {
        rule!(expected, "a CPU goes offline of itself");
        let cpu = record.cpu;
        if let Some(higher) = self.cpus[cpu].higher {
            self.calls.push(call(Kind::Left, higher));
        }
        let current = self.cpus[cpu].current;
        let waiting = self.queue(Queue::Local(cpu)).clone();
        let waiting = waiting.into_iter().map(|(pid, _)| pid);
        self.leavers = current.into_iter().chain(waiting).collect();
        Ok(())
    }

    pub(super) fn is_online(&mut self, record: &Record) -> Result<(), Broken> {
        let cpu = record.a as usize;
        self.check_change(cpu, true)?;
        let state = &mut self.cpus[cpu];
        rule!(state.offline, "CPU {cpu} comes, and was there");
        state.offline = false;
        state.stopped = false;
        state.must_pass = false;
        Ok(())
    }

    /// The next task leaves a CPU that went offline, once the one before has arrived elsewhere.
    pub(super) fn next_leaver(&mut self) -> Result<(), Broken> {
        while self.expected.is_empty()
            && let Some(pid) = self.leavers.pop_front()
        {
            self.leaver = Some(pid);
            if let Place::Running(_) = self.task(pid)?.place {
                self.expect(Kind::Stopping, pid, 1);
            } else {
                self.leave(pid)?;
                self.expected.extend(self.calls.drain(..));
                if self.expected.is_empty() {
                    self.arrive()?;
                }
            }
        }
        Ok(())
    }

    /// It stops running, and is on the local queue until it leaves.
    pub(super) fn leaver_stops(&mut self, record: &Record) -> Result<(), Broken> {
        let (pid, cpu) = (record.pid, record.cpu);
        let task = self.give_way_to_stopper(record, false)?;
        let flags = if task.slice > 0 { AT_HEAD } else { 0 };
        if task.slice == 0 {
            task.slice = DEFAULT_SLICE;
        }
        self.put(Queue::Local(cpu), pid, 0, false, flags)?;
        self.leave(pid)
    }

    /// It moves to a CPU that it may use, or is first allowed to use all.
    fn leave(&mut self, pid: u32) -> Result<(), Broken> {
        let task = self.task(pid)?;
        let Some(target) = self.fallback(task, task.cpu) else {
            self.take_off(pid)?;
            for (kind, flags) in [
                (Kind::Quiescent, Some(FOR_CPUS | CHANGE)),
                (Kind::SetCpumask, None),
                (Kind::Runnable, Some(FOR_CPUS)),
            ] {
                self.calls.push(Expected { a: flags, ..call(kind, pid) });
            }
            return Ok(());
        };
        self.leave_for(pid, target)
    }

    fn leave_for(&mut self, pid: u32, target: usize) -> Result<(), Broken> {
        self.leaver = None;
        self.take_off(pid)?;
        self.task_mut(pid)?.cpu = target;
        self.begin_to_wait(pid)?;
        self.enqueue(pid, MIGRATED)
    }

    /// It is back after it was allowed to use all CPUs, and moves to the first that is online, on any node.
    pub(super) fn leaver_is_back(&mut self, record: &Record, expected: bool) -> Result<(), Broken> {
        self.put_offline(record, expected)?;
        let first = self.cpus.iter().position(|cpu| !cpu.offline);
        self.leave_for(record.pid, first.unwrap_or(0))
    }
}
