//! Dispatch queues: their tasks in order, and the callbacks that follow when a task is moved.

use super::trace::{Kind, Record};
use super::{
    AT_HEAD, Broken, Expected, GLOBAL, Insertion, Inside, LOCAL, LOCAL_ON, PREEMPT, Place, Queue,
    Reference, call,
};

impl Reference {
    pub(super) fn queue(&mut self, queue: Queue) -> &mut Vec<(u32, u64)> {
        let found = self.queues.iter().position(|(known, _)| *known == queue);
        let at = found.unwrap_or_else(|| {
            self.queues.push((queue, Vec::new()));
            self.queues.len() - 1
        });
        &mut self.queues[at].1
    }

    pub(super) fn first_local(&mut self, cpu: usize) -> Option<u32> {
        self.queue(Queue::Local(cpu)).first().map(|(pid, _)| *pid)
    }

    pub(super) fn take_off(&mut self, pid: u32) -> Result<(), Broken> {
        let Place::On(queue) = self.task(pid)?.place else {
            return Err(format!("{pid} is on no queue, but {:?}", self.task(pid)?.place));
        };
        self.queue(queue).retain(|(other, _)| *other != pid);
        self.task_mut(pid)?.place = Place::Nowhere;
        Ok(())
    }

    /// The queue that a DSQ id names for a task, seen from a CPU.
    fn named(&self, dsq: u64, here: usize, pid: u32) -> Result<Queue, Broken> {
        Ok(match dsq {
            LOCAL => Queue::Local(here),
            GLOBAL => Queue::Global(self.world.nodes[self.task(pid)?.cpu]),
            _ if dsq & LOCAL_ON == LOCAL_ON => Queue::Local(dsq as u32 as usize),
            _ => Queue::User(dsq as usize),
        })
    }

    /// Puts a task on a queue: `order` is its virtual time if the queue is ordered.
    pub(super) fn put(
        &mut self,
        queue: Queue,
        pid: u32,
        order: u64,
        ordered: bool,
        flags: u64,
    ) -> Result<(), Broken> {
        let list = self.queue(queue);
        let at = if ordered {
            let later = |(_, other): &(u32, u64)| (other.wrapping_sub(order) as i64) > 0;
            list.iter().position(later).unwrap_or(list.len())
        } else if flags & (AT_HEAD | PREEMPT) != 0 {
            0
        } else {
            list.len()
        };
        list.insert(at, (pid, order));
        self.task_mut(pid)?.place = Place::On(queue);
        match queue {
            Queue::User(_) => self.task_mut(pid)?.custody = true,
            Queue::Global(_) => self.leave_custody(pid)?,
            Queue::Local(cpu) => {
                self.leave_custody(pid)?;
                self.preempt(cpu, flags)?;
            }
        }
        Ok(())
    }

    fn preempt(&mut self, cpu: usize, flags: u64) -> Result<(), Broken> {
        if self.cpus[cpu].in_dispatch || flags & PREEMPT == 0 {
            return Ok(());
        }
        if let Some(current) = self.cpus[cpu].current {
            self.set_slice(current, 0)?;
            self.cpus[cpu].must_pass = true;
        }
        Ok(())
    }

    /// The scheduler is told that a task is no longer its own.
    fn leave_custody(&mut self, pid: u32) -> Result<(), Broken> {
        let task = self.task_mut(pid)?;
        if std::mem::take(&mut task.custody) {
            self.calls.push(Expected { a: Some(0), ..call(Kind::Dequeue, pid) });
        }
        Ok(())
    }

    fn apply_slice(&mut self, pid: u32, slice: u64) -> Result<(), Broken> {
        let task = self.task_mut(pid)?;
        if slice != 0 {
            task.slice = slice;
        } else if task.slice == 0 {
            task.slice = 1;
        }
        Ok(())
    }

    pub(super) fn inserted(&mut self, record: &Record) -> Result<(), Broken> {
        let stay = self.task(record.pid)?.stay;
        let insertion = Insertion {
            pid: record.pid,
            dsq: record.a,
            slice: record.b,
            vtime: record.c,
            ordered: record.kind == Kind::InsertOrdered,
            flags: record.d,
            stay,
        };
        match self.inside {
            Some(Inside::SelectCpu(pid, _) | Inside::Enqueue(pid)) => {
                rule!(pid == record.pid, "{} is inserted for {pid}", record.pid);
                self.task_mut(pid)?.direct = Some(insertion);
            }
            Some(Inside::Dispatch(cpu)) => self.cpus[cpu].buffer.push(insertion),
            other => return Err(format!("an insertion inside {other:?}")),
        }
        Ok(())
    }

    /// Puts a task where a direct dispatch has sent it.
    pub(super) fn send(&mut self, pid: u32, flags: u64) -> Result<(), Broken> {
        let cpu = self.task(pid)?.cpu;
        let Some(mut insertion) = self.task_mut(pid)?.direct.take() else {
            return Err(format!("{pid} was sent nowhere"));
        };
        insertion.flags |= flags;
        let queue = self.named(insertion.dsq, cpu, pid)?;
        if matches!(queue, Queue::Local(other) if other != cpu) {
            self.task_mut(pid)?.place = Place::Travelling;
            self.cpus[cpu].travellers.push_back(insertion);
            return Ok(());
        }
        self.apply_slice(pid, insertion.slice)?;
        self.put(queue, pid, insertion.vtime, insertion.ordered, insertion.flags)
    }

    /// Tasks on their way to other CPUs arrive when the current event is done.
    pub(super) fn arrive(&mut self) -> Result<(), Broken> {
        for cpu in 0..self.cpus.len() {
            while let Some(insertion) = self.cpus[cpu].travellers.pop_front() {
                self.deliver(cpu, insertion)?;
            }
        }
        rule!(self.calls.is_empty(), "{:?} for a task on its way", self.calls);
        Ok(())
    }

    /// Carries out an insertion.
    fn deliver(&mut self, cpu: usize, insertion: Insertion) -> Result<(), Broken> {
        let pid = insertion.pid;
        let mut queue = self.named(insertion.dsq, cpu, pid)?;
        self.apply_slice(pid, insertion.slice)?;
        if let Queue::Local(target) = queue {
            rule!(self.may_use(self.task(pid)?, target), "{pid} may not use CPU {target}");
            if self.task(pid)?.cpu != target && self.cpus[target].offline {
                queue = Queue::Global(self.world.nodes[self.task(pid)?.cpu]);
            } else {
                self.bring(pid, target)?;
            }
        }
        self.put(queue, pid, insertion.vtime, insertion.ordered, insertion.flags)
    }

    /// Carries out the insertions that the scheduler made during a dispatch.
    pub(super) fn flush(&mut self, cpu: usize) -> Result<(), Broken> {
        for insertion in std::mem::take(&mut self.cpus[cpu].buffer) {
            self.cpus[cpu].dispatched += 1;
            let task = self.task(insertion.pid)?;
            if task.place == Place::Kept && task.stay == insertion.stay {
                self.deliver(cpu, insertion)?;
            }
        }
        Ok(())
    }

    /// Moves a waiting task to a CPU.
    fn bring(&mut self, pid: u32, cpu: usize) -> Result<(), Broken> {
        if self.task(pid)?.cpu != cpu {
            self.task_mut(pid)?.cpu = cpu;
            self.begin_to_wait(pid)?;
        }
        Ok(())
    }

    /// Takes the first task of a queue that may run on a CPU to its local queue.
    pub(super) fn consume(&mut self, cpu: usize, queue: Queue, flags: u64) -> Result<bool, Broken> {
        let list = self.queue(queue).clone();
        for (pid, _) in list {
            let task = self.task(pid)?;
            if task.cpu == cpu || self.may_use(task, cpu) && !self.cpus[cpu].offline {
                self.take_off(pid)?;
                self.bring(pid, cpu)?;
                self.put(Queue::Local(cpu), pid, 0, false, flags)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn consume_global(&mut self, cpu: usize) -> Result<bool, Broken> {
        let queue = Queue::Global(self.world.nodes[cpu]);
        self.consume(cpu, queue, 0)
    }

    pub(super) fn check_length(&mut self, record: &Record) -> Result<(), Broken> {
        let length = self.queue(Queue::User(record.a as usize)).len();
        rule!(length as u64 == record.b, "queue {} has {} tasks, not {length}", record.a, record.b);
        Ok(())
    }

    pub(super) fn moved_to_local(&mut self, record: &Record) -> Result<(), Broken> {
        self.flush(record.cpu)?;
        let found = self.consume(record.cpu, Queue::User(record.a as usize), record.b)?;
        self.cpus[record.cpu].dispatched += u32::from(found);
        self.calls.push(Expected {
            a: Some(record.a),
            b: Some(u64::from(found)),
            ..call(Kind::ToLocalEnd, 0)
        });
        Ok(())
    }

    pub(super) fn moved(&mut self, record: &Record) -> Result<(), Broken> {
        let (pid, cpu) = (record.pid, record.cpu);
        let source = Place::On(Queue::User(record.a as usize));
        rule!(self.task(pid)?.place == source, "{pid} is not on queue {}", record.a);
        self.take_off(pid)?;
        let target = self.named(record.b, cpu, pid)?;
        if let Queue::Local(cpu) = target {
            self.bring(pid, cpu)?;
        }
        self.put(target, pid, 0, false, record.c)?;
        self.calls.push(Expected { a: Some(1), ..call(Kind::MoveEnd, pid) });
        Ok(())
    }
}
