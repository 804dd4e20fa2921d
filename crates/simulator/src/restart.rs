//! Schedulers that ask their loader to load them again (`SCX_ECODE_ACT_RESTART`), as those without callbacks for CPUs that come and go do when
//! one comes or goes. Until the loader has done it, all tasks run in the kernel's own class.

use std::sync::Arc;

use fairground_bpf::{Context, Setup};
use fairground_events::{Nanoseconds, OverheadKind};
use fairground_machine::Online;

use crate::clock::Due;
use crate::constants::*;
use crate::exit::ExitRecord;
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
    /// How long it took until it was loaded again; `None` if it was not.
    pub pause: Option<Nanoseconds>,
}

/// The restarts of a run.
#[derive(Default)]
pub struct Restarts {
    /// Those so far.
    pub all: Vec<Restart>,
    /// The tasks that the scheduler knew when it was unloaded.
    known: Vec<TaskRef>,
    /// The exit that a loader beside the simulation has not answered yet by loading the scheduler again.
    pub unanswered: Option<ExitRecord>,
    /// The thread of a loader beside the simulation that waits until the scheduler is attached.
    pub attaches: Option<TaskRef>,
}

impl Restarts {
    /// Whether the scheduler is loaded: every time that it was unloaded it was loaded again.
    pub fn are_over(&self) -> bool {
        self.all.last().is_none_or(|last| last.pause.is_some())
    }

    /// The scheduler is loaded again.
    fn note_end(&mut self, now: Nanoseconds) {
        self.unanswered = None;
        if let Some(restart) = self.all.last_mut() {
            restart.pause = Some(now.saturating_sub(restart.at));
        }
    }
}

fn state(task: TaskRef) -> u32 {
    task.seen.scx.flags & SCX_TASK_STATE_MASK
}

impl Kernel<'_> {
    /// Unloads a scheduler that asks to be loaded again. `false` if it is to stay unloaded, or runs still.
    pub(crate) fn unload_for_restart(&mut self) -> bool {
        let code = self.exit.as_ref().map_or(0, |exit| exit.code.cast_unsigned());
        let Some(pause) = self.settings.restart_after else {
            return false;
        };
        if code & SCX_ECODE_ACT_RESTART == 0 {
            return false;
        }
        let mut known = self.all_tasks();
        // One that was ejected while it was loaded may not know them all yet.
        known.retain(|task| state(*task) != SCX_TASK_NONE || self.restarts.known.contains(task));
        self.restarts.known = known;
        let record = self.take_down(|kernel, task| {
            if task.class == Class::Ext {
                let flags = DEQUEUE_SAVE | DEQUEUE_MOVE;
                kernel.with_change(task, flags, Class::Fair, |_, _| {});
            }
        });
        self.exit = None;
        self.restarts.all.push(Restart {
            at: record.time.saturating_sub(self.origin),
            message: record.message.clone(),
            pause: None,
        });
        // No callback, and new tasks go to the fair class.
        self.operations.entries.fill(None);
        self.operations.flags = SCX_OPS_SWITCH_PARTIAL;
        self.initialised = false;
        self.tracing = Tracing::default();
        self.timers.forget(0..u64::MAX);
        if self.leave_to_loader() {
            self.restarts.unanswered = Some(record);
        } else {
            self.clock.at(self.clock.now() + pause, Due::Reload);
        }
        self.answer_attaching();
        self.reschedule_all();
        true
    }

    /// Gives a scheduler that a loader beside the simulation loads again its memory, with the loader's settings and entries.
    pub(crate) fn load_again(&mut self, setup: Arc<Setup>) {
        self.settings.setup = setup;
        match self.renew_memory() {
            Ok(()) => _ = self.write_entries(),
            Err(error) => self.programs.failure = Some(error.to_string()),
        }
    }

    /// Attaches the scheduler again; the loader is one beside the simulation, or has just loaded it.
    pub(crate) fn reload(&mut self) {
        if let Some(thread) = self.restarts.attaches
            && thread.seen.__state != TASK_INTERRUPTIBLE
        {
            // It is still on its way to sleep.
            self.clock.at(self.clock.now() + 1000, Due::Reload);
            return;
        }
        match self.prepare_reload() {
            Ok(true) => self.restarts.note_end(self.clock.now() - self.origin),
            Ok(false) => return,
            Err(error) => {
                self.programs.failure = Some(error.to_string());
                return;
            }
        }
        let mut tasks = self.all_tasks();
        let known = &self.restarts.known;
        tasks.retain(|task| task.seen.__state != TASK_DEAD);
        tasks.retain(|task| known.contains(task) || state(*task) != SCX_TASK_NONE);
        for task in &tasks {
            if let Err(error) = self.as_loader(|kernel| kernel.init_task(*task, false)) {
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
        self.restarts.known.clear();
        self.tell_of_idle_cpus();
        self.begin_loader();
        self.answer_attaching();
        self.reschedule_all();
    }

    /// Loads the scheduler, unless a loader beside the simulation has done so, and initialises it. `false` if its loader gives up or it is ejected.
    fn prepare_reload(&mut self) -> Result<bool, LoadError> {
        if self.companion.is_some() {
            self.forget_scheduler()?;
            return Ok(self.as_loader(Self::initialise));
        }
        self.settings.setup = self.settings.setup_without(&self.offline())?;
        self.renew_memory()?;
        self.forget_scheduler()?;
        Ok(self.as_loader(Self::attach))
    }

    /// The CPUs that are offline.
    pub(crate) fn offline(&self) -> Vec<usize> {
        let cpus = 0..self.cpus.len();
        cpus.filter(|cpu| !self.cpus[*cpu].online).collect()
    }

    /// Sets up anew the memory of a scheduler. Its loader looks at the CPUs that are online now.
    fn renew_memory(&mut self) -> Result<(), LoadError> {
        let online = Online::without(&self.machine, &self.offline());
        let scheduler = self.first_loaded.loaded_again(&self.settings, &online)?;
        self.scheduler = scheduler.clone();
        let (prepared, _) = scheduler.prepare(&self.settings, &online)?;
        let loader = self.companion.as_mut();
        self.memory = Memory::new(&scheduler, &prepared, online.id_count, loader)?;
        self.context = Context {
            instructions: self.context.instructions,
            cpu: self.context.cpu,
            spent: self.context.spent,
            null_accesses: self.context.null_accesses,
            null_access_place: self.context.null_access_place,
            ..self.memory.context(self.cpus.len(), &self.settings.cost)
        };
        self.made = Default::default();
        self.calls = Default::default();
        Ok(())
    }

    /// Sets up anew everything else that belongs to one attached scheduler.
    fn forget_scheduler(&mut self) -> Result<(), LoadError> {
        let nodes = self.topology.nodes.len();
        let online = Online::without(&self.machine, &self.offline());
        (_, self.operations) = self.scheduler.prepare(&self.settings, &online)?;
        self.dsqs.begin(self.cpus.len(), nodes);
        self.idle = self.operations.idle_state(nodes);
        self.tracing = Tracing::new(&self.scheduler.object, &self.scheduler.code);
        for number in 0..self.cpus.len() {
            let cpu = &mut self.cpus[number];
            cpu.local = self.dsqs.local(number);
            cpu.global = self.dsqs.global(self.topology.node_of[number]);
            cpu.buffer.clear();
            cpu.deferred_locals.clear();
            cpu.deferred_reenqueue = None;
            cpu.deferred_user_reenqueue.clear();
            cpu.deferred_of.clear();
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
