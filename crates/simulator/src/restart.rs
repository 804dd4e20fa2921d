//! Schedulers that ask their loader to load them again (`SCX_ECODE_ACT_RESTART`), as those without callbacks for CPUs that come and go do when
//! one comes or goes. Until the loader has done it, all tasks run in the kernel's own class.

use fairground_bpf::Context;
use fairground_events::{Nanoseconds, OverheadKind};
use fairground_machine::Online;

use crate::clock::Due;
use crate::constants::*;
use crate::dispatch_queue::DispatchQueues;
use crate::kernel::Kernel;
use crate::memory::Memory;
use crate::scheduler::LoadError;
use crate::task::{Class, TaskRef};
use crate::tracing::Tracing;

/// A time at which a scheduler was unloaded in order to be loaded again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restart {
    /// When, since the beginning of the run.
    pub at: Nanoseconds,
    /// The reason, as the kernel tells the loader.
    pub message: String,
}

/// The restarts of a run.
#[derive(Default)]
pub struct Restarts {
    /// Those so far.
    pub all: Vec<Restart>,
    /// The tasks that the scheduler knew when it was unloaded.
    known: Vec<TaskRef>,
}

fn state(task: TaskRef) -> u32 {
    task.seen.scx.flags & SCX_TASK_STATE_MASK
}

impl Kernel<'_> {
    /// Unloads a scheduler that asks to be loaded again. `false` if it is to stay unloaded, or runs still.
    pub(crate) fn unload_for_restart(&mut self) -> bool {
        let code = self
            .exit
            .as_ref()
            .map_or(0, |exit| exit.code.cast_unsigned());
        let Some(pause) = self.settings.restart_after else {
            return false;
        };
        if code & SCX_ECODE_ACT_RESTART == 0 || self.companion.is_some() {
            return false;
        }
        self.restarts.known = self.all_tasks();
        self.restarts
            .known
            .retain(|task| state(*task) != SCX_TASK_NONE);
        let record = self.take_down(|kernel, task| {
            if task.class == Class::Ext {
                let flags = DEQUEUE_SAVE | DEQUEUE_MOVE;
                kernel.with_change(task, flags, Class::Fair, |_, _| {});
            }
        });
        self.exit = None;
        self.restarts.all.push(Restart {
            at: record.time.saturating_sub(self.origin),
            message: record.message,
        });
        // No callback, and new tasks go to the fair class.
        self.operations.entries.fill(None);
        self.operations.flags = SCX_OPS_SWITCH_PARTIAL;
        self.initialised = false;
        self.tracing = Tracing::default();
        self.timers.forget(0..u64::MAX);
        self.clock.at(self.clock.now() + pause, Due::Reload);
        self.reschedule_all();
        true
    }

    /// Loads the scheduler again.
    pub(crate) fn reload(&mut self) {
        if let Err(error) = self.forget_scheduler() {
            self.programs.failure = Some(error.to_string());
            return;
        }
        if !self.attach() {
            return;
        }
        let mut tasks = self.all_tasks();
        let known = std::mem::take(&mut self.restarts.known);
        tasks.retain(|task| task.seen.__state != TASK_DEAD);
        tasks.retain(|task| known.contains(task) || state(*task) != SCX_TASK_NONE);
        for task in &tasks {
            if let Err(error) = self.init_task(*task, false) {
                self.fail_to_init(error, &task.label());
                return;
            }
        }
        let partially = self.operations.flags & SCX_OPS_SWITCH_PARTIAL != 0;
        for task in tasks {
            if task.class == Class::Fair && (task.seen.policy == SCHED_EXT || !partially) {
                let flags = DEQUEUE_SAVE | DEQUEUE_MOVE;
                self.with_change(task, flags, Class::Ext, |_, _| {});
            }
        }
        self.tell_of_idle_cpus();
        self.begin_loader();
        self.reschedule_all();
    }

    /// Sets up anew everything that belongs to one loaded scheduler. Its loader looks at the CPUs that are online now.
    fn forget_scheduler(&mut self) -> Result<(), LoadError> {
        let cpus = self.cpus.len();
        let offline: Vec<usize> = (0..cpus).filter(|cpu| !self.cpus[*cpu].online).collect();
        let online = Online::without(&self.machine, &offline);
        self.settings.setup = self.settings.setup_without(&offline)?;
        let scheduler = self.scheduler.loaded_again(&self.settings, &online)?;
        self.scheduler = scheduler.clone();
        self.operations = scheduler.operations_with(&self.settings.setup)?;
        self.memory = Memory::new(&scheduler, &self.settings, &online, None)?;
        *self.context = Context {
            instructions: self.context.instructions,
            null_accesses: self.context.null_accesses,
            null_access_place: self.context.null_access_place,
            ..self.memory.context()
        };
        self.dsqs = DispatchQueues::new(cpus, self.topology.nodes.len());
        self.idle = self.operations.idle_state(self.topology.nodes.len());
        self.tracing = Tracing::new(&scheduler.object, &scheduler.code);
        self.objects = Default::default();
        self.allocations = Default::default();
        self.iterations = Default::default();
        self.holdings = Default::default();
        self.spin_locks.clear();
        self.probed.clear();
        for cpu in &mut self.cpus {
            cpu.buffer.clear();
            cpu.deferred_locals.clear();
            cpu.deferred_reenqueue = None;
            cpu.deferred_user_reenqueue.clear();
        }
        Ok(())
    }

    /// Lets every CPU go through the scheduler; one that is offline gives up its task.
    fn reschedule_all(&mut self) {
        for cpu in 0..self.cpus.len() {
            self.cpus[cpu].need_resched = true;
            if self.cpus[cpu].online {
                let cpu = cpu as u32;
                self.clock.at(self.clock.now(), Due::Reschedule { cpu });
            } else {
                self.enter(cpu);
                self.leave(OverheadKind::Scheduling);
            }
        }
    }
}
