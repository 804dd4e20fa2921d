//! How a CPU picks its next task.

use super::trace::{Kind, Record};
use super::{
    AT_HEAD, Broken, DEFAULT_SLICE, Expected, Inside, LAST, LOOPS, Place, Queue, Reference, call,
};

impl Reference {
    /// The invariants whenever time advances.
    pub(super) fn check_instant(&mut self) -> Result<(), Broken> {
        if !self.world.exact {
            return Ok(());
        }
        rule!(self.expected.is_empty(), "time goes on, and {:?} has to come", self.expected);
        for cpu in 0..self.cpus.len() {
            let first = self.first_local(cpu);
            let state = &mut self.cpus[cpu];
            rule!(
                state.current.is_some() || state.higher.is_some() || first.is_none(),
                "CPU {cpu} is idle and {first:?} waits for it"
            );
            state.hurried = false;
            rule!(
                !std::mem::take(&mut state.must_pass),
                "CPU {cpu} goes on with {:?}, whose time is up",
                state.current
            );
        }
        Ok(())
    }

    /// Without `ops.dispatch()` nothing shows that a task has used up its slice and continues with a new one since no other waits.
    pub(super) fn pass_unseen(&mut self, record: &Record) -> Result<(), Broken> {
        for cpu in 0..self.cpus.len() {
            if !self.cpus[cpu].must_pass {
                continue;
            }
            if let Some((_, Some(_))) = self.coming[cpu].front() {
                self.cpus[cpu].must_pass = false;
                continue;
            }
            // It is preempted, or changes once more, before it gets a new one.
            let state = &self.cpus[cpu];
            let is_stopped = (record.kind, record.cpu, record.slice()) == (Kind::Stopping, cpu, 0);
            if is_stopped && (self.taker.is_some() || state.came_back)
                || state.leaving.is_some()
                || state.changed.is_some()
                || self.first_local(cpu).is_some()
                || self.consume_global(cpu)?
            {
                continue;
            }
            self.cpus[cpu].must_pass = false;
            self.cpus[cpu].came_back = false;
            if let Some(current) = self.cpus[cpu].current {
                self.set_slice(current, DEFAULT_SLICE)?;
            }
        }
        Ok(())
    }

    /// A CPU takes a task that waits for it, or asks the scheduler for one.
    pub(super) fn look(&mut self, cpu: usize) -> Result<(), Broken> {
        self.cpus[cpu].rounds = 0;
        self.cpus[cpu].must_pass = false;
        if self.first_local(cpu).is_some() || self.consume_global(cpu)? {
            return self.take(cpu);
        }
        if self.world.has_dispatch {
            self.expect_dispatch(cpu);
            return Ok(());
        }
        self.find_nothing(cpu)
    }

    fn expect_dispatch(&mut self, cpu: usize) {
        let previous = self.cpus[cpu].leaving.or(self.cpus[cpu].current);
        self.calls.push(Expected {
            a: Some(cpu as u64),
            ..call(Kind::DispatchBegin, previous.unwrap_or(0))
        });
    }

    pub(super) fn dispatch_begins(
        &mut self,
        record: &Record,
        expected: bool,
    ) -> Result<(), Broken> {
        let cpu = record.a as usize;
        rule!(record.cpu == cpu, "a dispatch for CPU {cpu} on {}", record.cpu);
        let current = self.cpus[cpu].current;
        if !expected {
            rule!(self.first_local(cpu).is_none(), "a dispatch while a task is on the local queue");
            rule!(
                !self.consume_global(cpu)?,
                "a dispatch while the global queue has a task for CPU {cpu}"
            );
            rule!(
                current.unwrap_or(0) == record.pid,
                "{} is said to run on {cpu}, and {current:?} does",
                record.pid
            );
            self.cpus[cpu].rounds = 0;
        }
        if let Some(pid) = current {
            self.compare_slice(pid, record.b)?;
            rule!(record.b == 0, "a dispatch while {pid} has {} of its slice", record.b);
        }
        let state = &mut self.cpus[cpu];
        state.must_pass = false;
        state.came_back = false;
        state.in_dispatch = true;
        state.dispatched = 0;
        self.inside = Some(Inside::Dispatch(cpu));
        Ok(())
    }

    pub(super) fn dispatch_ends(&mut self, record: &Record) -> Result<(), Broken> {
        let cpu = record.a as usize;
        self.inside = None;
        self.flush(cpu)?;
        if self.first_local(cpu).is_some() || self.consume_global(cpu)? {
            return self.take(cpu);
        }
        let state = &mut self.cpus[cpu];
        state.rounds += 1;
        if state.rounds < LOOPS && state.dispatched > 0 {
            self.expect_dispatch(cpu);
            return Ok(());
        }
        self.find_nothing(cpu)
    }

    /// The first task of the local queue runs next.
    fn take(&mut self, cpu: usize) -> Result<(), Broken> {
        self.cpus[cpu].in_dispatch = false;
        let Some(next) = self.first_local(cpu) else {
            return Err(format!("CPU {cpu} has nothing to take"));
        };
        let task = self.task_mut(next)?;
        if task.slice == 0 {
            task.slice = DEFAULT_SLICE;
        }
        let leaving = self.was_left(cpu);
        if let Some(current) = self.cpus[cpu].current {
            self.calls.push(Expected { a: Some(1), ..call(Kind::Stopping, current) });
        } else if !leaving && self.world.has_update_idle {
            self.expect_idle(cpu, false);
        }
        self.calls.push(call(Kind::Running, next));
        Ok(())
    }

    fn expect_idle(&mut self, cpu: usize, idle: bool) {
        self.calls.push(Expected {
            a: Some(cpu as u64),
            b: Some(u64::from(idle)),
            ..call(Kind::Idle, 0)
        });
    }

    /// There is no other task: the current one continues, or the CPU becomes idle.
    fn find_nothing(&mut self, cpu: usize) -> Result<(), Broken> {
        self.cpus[cpu].in_dispatch = false;
        let leaving = self.was_left(cpu);
        match self.cpus[cpu].current {
            Some(current) if self.world.has_enq_last => {
                self.calls.push(Expected { a: Some(1), ..call(Kind::Stopping, current) })
            }
            Some(current) => return self.set_slice(current, DEFAULT_SLICE),
            None if !leaving => return Ok(()),
            None => {}
        }
        self.note_idle(cpu);
        if self.world.has_update_idle {
            self.expect_idle(cpu, true);
        }
        Ok(())
    }

    /// Whether a task has just left the CPU: it went to sleep, was taken away, or was a real-time task.
    fn was_left(&mut self, cpu: usize) -> bool {
        let state = &mut self.cpus[cpu];
        let sleeps = state.leaving.take().is_some();
        let was_taken = state.higher.take().is_some();
        std::mem::take(&mut state.stopped) || sleeps || was_taken
    }

    /// Notes that the CPU is idle, unless that has been noted: it looks for a task once more after the stopper.
    pub(super) fn note_idle(&mut self, cpu: usize) {
        let known = self.switches[cpu].last();
        if known.is_none_or(|(_, task)| task.is_some()) {
            self.switches[cpu].push((self.now, None));
        }
    }

    pub(super) fn stopping(&mut self, record: &Record, expected: bool) -> Result<(), Broken> {
        self.check_running(record)?;
        let (pid, cpu) = (record.pid, record.cpu);
        if record.a == 0 {
            rule!(!expected, "{pid} sleeps where another was to take its CPU");
            let state = &mut self.cpus[cpu];
            state.current = None;
            state.claimed = false;
            state.leaving = Some(pid);
            self.task_mut(pid)?.place = Place::Nowhere;
            self.calls.push(call(Kind::Quiescent, pid));
            return Ok(());
        }
        if self.leaver == Some(pid) {
            self.begin_to_wait(pid)?;
            return self.leaver_stops(record);
        }
        if !self.may_use(self.task(pid)?, cpu) {
            return self.pushed_off(record);
        }
        if let Some(taker) = self.taker {
            return self.preempted(record, taker);
        }
        let mut comes = Vec::new();
        if !expected {
            rule!(record.slice() == 0, "{pid} is stopped with {} of its slice", record.slice());
            rule!(
                self.first_local(cpu).is_some() || self.consume_global(cpu)?,
                "{pid} is stopped for nobody"
            );
            self.take(cpu)?;
            comes = self.calls.split_off(0);
            comes.remove(0);
        }
        let state = &mut self.cpus[cpu];
        state.current = None;
        state.must_pass = false;
        self.task_mut(pid)?.place = Place::Nowhere;
        self.begin_to_wait(pid)?;
        let next_is_idle = self.expected.front().is_none_or(|call| call.kind != Kind::Running);
        let flags = if comes.is_empty() && next_is_idle { LAST } else { 0 };
        self.enqueue(pid, flags)?;
        self.calls.extend(comes);
        Ok(())
    }

    /// A task that a real-time task preempts is the first to get the CPU back if some of its slice is left.
    fn preempted(&mut self, record: &Record, taker: u32) -> Result<(), Broken> {
        let (pid, cpu) = (record.pid, record.cpu);
        self.cpus[cpu].current = None;
        self.cpus[cpu].must_pass = false;
        self.cpus[cpu].came_back = false;
        self.task_mut(pid)?.place = Place::Nowhere;
        self.begin_to_wait(pid)?;
        if record.slice() > 0 {
            self.put(Queue::Local(cpu), pid, 0, false, AT_HEAD)?;
        } else {
            self.enqueue(pid, 0)?;
        }
        self.calls.push(call(Kind::Taken, taker));
        Ok(())
    }

    /// A real-time task runs on a CPU that is idle or that another task has just left.
    pub(super) fn taken(&mut self, record: &Record, expected: bool) -> Result<(), Broken> {
        let unseen = !self.world.has_update_idle;
        let state = &mut self.cpus[record.cpu];
        rule!(state.current.is_none(), "{} runs beside {:?}", record.pid, state.current);
        rule!(
            expected || unseen || state.higher.is_some() || state.stopped,
            "{} takes a CPU that is idle, and nothing said so",
            record.pid
        );
        state.higher = Some(record.pid);
        state.leaving = None;
        state.stopped = false;
        state.claimed = false;
        state.must_pass = false;
        self.switches[record.cpu].push((self.now, Some(record.pid)));
        Ok(())
    }

    pub(super) fn idle(&mut self, record: &Record, expected: bool) -> Result<(), Broken> {
        if expected {
            return Ok(());
        }
        let cpu = record.a as usize;
        if record.b == 0
            && let Some(taker) = self.taker
        {
            rule!(self.cpus[cpu].current.is_none(), "CPU {cpu} was not idle");
            self.calls.push(call(Kind::Taken, taker));
            return Ok(());
        }
        if record.b == 1 && !self.world.has_dispatch && self.cpus[cpu].higher.take().is_some() {
            self.note_idle(cpu);
            return Ok(());
        }
        // When the scheduler is loaded, every CPU is told to be idle.
        if record.b == 1 {
            let pushed_off = std::mem::take(&mut self.cpus[cpu].stopped);
            rule!(
                self.wakes.is_empty()
                    || pushed_off && (!self.world.has_dispatch || self.cpus[cpu].offline),
                "CPU {cpu} becomes idle out of nothing"
            );
            return Ok(());
        }
        rule!(self.cpus[cpu].current.is_none(), "CPU {cpu} was not idle");
        rule!(
            self.first_local(cpu).is_some() || self.consume_global(cpu)?,
            "CPU {cpu} stops being idle for nobody"
        );
        self.take(cpu)?;
        self.calls.remove(0);
        Ok(())
    }

    pub(super) fn running(&mut self, record: &Record, expected: bool) -> Result<(), Broken> {
        let (pid, cpu) = (record.pid, record.cpu);
        if !expected {
            rule!(
                !self.world.has_update_idle
                    || self.cpus[cpu].stopped
                    || self.cpus[cpu].higher.is_some(),
                "{pid} runs where nothing said so"
            );
            rule!(self.cpus[cpu].current.is_none(), "{pid} runs beside another");
            rule!(
                self.first_local(cpu).is_some() || self.consume_global(cpu)?,
                "{pid} runs and was not on the queue of CPU {cpu}"
            );
            rule!(
                self.first_local(cpu) == Some(pid),
                "{pid} runs before {:?}",
                self.first_local(cpu)
            );
            self.take(cpu)?;
            self.calls.clear();
        }
        let place = self.task(pid)?.place;
        rule!(place == Place::On(Queue::Local(cpu)), "{pid} runs on CPU {cpu} from {place:?}");
        rule!(record.task_cpu() == cpu, "{pid} is said to be on another CPU");
        self.check_slice(record)?;
        self.take_off(pid)?;
        let now = self.now;
        let task = self.task_mut(pid)?;
        task.place = Place::Running(cpu);
        task.since = now;
        task.waits = 0;
        rule!(task.runnable && !task.custody, "{task:?} runs");
        let state = &mut self.cpus[cpu];
        state.current = Some(pid);
        if let Some((_, of_class)) = state.changed.take() {
            // A task that has left sched_ext and comes back has no slice.
            state.came_back |= of_class;
            state.came_back &= record.slice() == 0;
            state.must_pass |= state.came_back;
            return Ok(());
        }
        state.claimed = false;
        state.must_pass = false;
        state.came_back = false;
        self.switches[cpu].push((now, Some(pid)));
        Ok(())
    }
}
