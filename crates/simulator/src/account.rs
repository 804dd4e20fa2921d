//! The account of kernel work: what the running CPU's work costs in the current event, which locks it waits for, and whose time that is.
//!
//! Everything adds to `context.spent`, as the scheduler's code does; [`Kernel::settle`] charges it to the CPU.

use fairground_events::{CpuId, EventKind, OverheadKind};

use crate::cost::{CostModel, Lock};
use crate::dispatch_queue::DsqRef;
use crate::kernel::Kernel;
use crate::task::TaskRef;

/// The cost of so many BPF instructions that the price of a thousand for each needs more than a word.
#[cold]
fn cost_of_many(instructions: u64, price: u64) -> u64 {
    (u128::from(instructions) * u128::from(price) / 1000) as u64
}

impl Kernel<'_> {
    /// Takes `lock` on the running CPU once it is free and has arrived there, and holds it for one operation and `longer`.
    pub(crate) fn charge_lock(&mut self, lock: Lock, longer: u64) -> Lock {
        self.charge_instructions();
        let (cpu, here) = (self.context.cpu, self.local_time());
        let mut takes = lock.free_at.saturating_sub(here) + self.settings.cost.lock + longer;
        if lock.owner as usize != cpu {
            takes += self.lock_transfer(lock.owner as usize, cpu);
        }
        self.context.spent += takes;
        Lock { owner: cpu as u32, free_at: here + takes }
    }

    #[inline(never)]
    fn lock_transfer(&self, from: usize, to: usize) -> u64 {
        CostModel::by_distance(&self.settings.cost.lock_transfer, self.machine.distance(from, to))
    }

    /// Takes the lock of a dispatch queue for one operation that visits `visited` tasks.
    pub(crate) fn charge_dsq_lock(&mut self, mut dsq: DsqRef, visited: u64) {
        let scan = visited * self.settings.cost.scan;
        dsq.lock = self.charge_lock(dsq.lock, scan);
    }

    /// Takes the lock of the run queue of `cpu`, to be held until [`Kernel::unlock_run_queue`].
    pub(crate) fn lock_run_queue(&mut self, cpu: usize) {
        let mut state = self.cpu(cpu);
        state.update_clock(self.clock.now());
        state.run_queue_lock = self.charge_lock(state.run_queue_lock, 0);
    }

    /// Releases the lock of the run queue of `cpu`.
    pub(crate) fn unlock_run_queue(&mut self, cpu: usize) {
        let time = self.local_time();
        let lock = &mut self.cpus[cpu].run_queue_lock;
        lock.free_at = lock.free_at.max(time);
    }

    /// Waits until `task`, which has lost its CPU or gone to sleep, has left it (`p->on_cpu`).
    pub(crate) fn wait_until_off_cpu(&mut self, task: TaskRef) {
        self.context.spent += task.off_cpu_at.saturating_sub(self.local_time());
    }

    /// Charges the BPF instructions executed since the last charge.
    #[inline(always)]
    pub(crate) fn charge_instructions(&mut self) {
        let executed = self.context.instructions;
        if executed == self.account.instructions {
            return;
        }
        let price = self.settings.cost.kilo_instructions;
        // A 128-bit division takes longer than everything else here.
        let cost = match executed.checked_mul(price) {
            Some(product) => product / 1000,
            None => cost_of_many(executed, price),
        };
        self.context.spent += cost - self.account.cost;
        (self.account.instructions, self.account.cost) = (executed, cost);
    }

    /// Makes the running kernel function cost this many BPF instructions instead of a call: on x86-64 the verifier replaces the call with them.
    pub(crate) fn inline_call(&mut self, instructions: u64) {
        self.context.spent -= self.settings.cost.kfunc;
        self.context.instructions += instructions;
    }

    /// Makes the running function, which counted as so many BPF instructions, cost a call.
    pub(crate) fn call_after_all(&mut self, instructions: u64) {
        self.context.spent += self.settings.cost.kfunc;
        self.context.instructions -= instructions;
    }

    /// Charges the running CPU for this event's cost so far.
    #[inline(never)]
    pub(crate) fn settle(&mut self, kind: OverheadKind) {
        if self.account.in_calls > 0 {
            self.settle_calls();
        }
        let spent = std::mem::take(&mut self.context.spent);
        self.charge(kind, spent);
    }

    /// Charges for system calls, which are CPU time of the current task.
    #[inline(never)]
    fn settle_calls(&mut self) {
        let in_calls = std::mem::take(&mut self.account.in_calls);
        self.context.spent -= in_calls;
        self.occupy(in_calls);
    }

    /// Charges the running CPU for `duration` of kernel work from now on that is nobody's CPU time.
    #[inline(always)]
    pub(crate) fn charge(&mut self, kind: OverheadKind, duration: u64) {
        if duration == 0 {
            return;
        }
        let begin = self.occupy(duration);
        if self.reports.is_open() {
            self.report_overhead(begin, kind, duration);
        }
    }

    #[inline(never)]
    fn report_overhead(&mut self, begin: u64, kind: OverheadKind, duration: u64) {
        let cpu = CpuId(self.context.cpu as u32);
        self.emit_at(begin, EventKind::Overhead { cpu, kind, duration });
    }

    /// Keeps the running CPU in the kernel for `duration`, beginning when its earlier work ends; returns when that is.
    #[inline(always)]
    fn occupy(&mut self, duration: u64) -> u64 {
        let now = self.clock.now();
        let mut state = self.here;
        state.account_progress(now);
        let begin = state.clock(now);
        state.kernel_until = begin + duration;
        state.resume_at = state.resume_at.max(now) + duration;
        if state.completion_at != u64::MAX && !state.current.execution.is_timed() {
            state.completion_at += duration;
        }
        begin
    }

    /// Makes the work so far cost nothing.
    pub(crate) fn forget_costs(&mut self) {
        self.context.spent = 0;
        self.account.in_calls = 0;
    }

    /// A system call of the current task, in its own CPU time.
    pub(crate) fn system_call(&mut self) {
        let time = self.settings.cost.system_call;
        self.context.spent += time;
        self.account.in_calls += time;
    }
}
