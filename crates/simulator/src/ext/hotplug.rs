//! CPUs that come and go.

use fairground_events::{EventKind, OverheadKind};

use crate::constants::*;
use crate::kernel::Kernel;
use crate::operations::Op;
use crate::task::{Class, TaskRef};

impl Kernel<'_> {
    /// Takes a CPU offline or online with what goes with it (`sched_cpu_deactivate`, `sched_cpu_activate`).
    pub(crate) fn set_online(&mut self, cpu: usize, online: bool) {
        let others = (0..self.cpus.len()).filter(|&other| other != cpu);
        let is_last = !online && !{ others }.any(|other| self.cpus[other].online);
        if self.cpus[cpu].online == online || is_last {
            return;
        }
        self.enter(cpu);
        self.emit(EventKind::CpuOnline {
            cpu: fairground_events::CpuId(cpu as u32),
            online,
        });
        if online {
            self.tell_of_hotplug(cpu, true);
            self.mark_online(cpu, true);
            // What was asked of the CPU while it was away is void.
            self.cpus[cpu].need_resched = false;
            self.resched(cpu);
        } else {
            self.finish_wakeups(cpu);
            self.mark_online(cpu, false);
            self.idle.forget(cpu, &self.topology);
            self.requeue_locally(cpu);
            self.tell_of_hotplug(cpu, false);
            for task in self.tasks_queued_on(cpu) {
                self.push_off(task);
            }
        }
        self.leave(OverheadKind::Scheduling);
    }

    pub(crate) fn mark_online(&mut self, cpu: usize, online: bool) {
        self.cpus[cpu].online = online;
        self.cpus[cpu].rq.online = i32::from(online);
        self.online.assign(cpu, online);
    }

    /// `handle_hotplug`: a scheduler that does not want to know is unloaded.
    fn tell_of_hotplug(&mut self, cpu: usize, online: bool) {
        self.online.assign(cpu, online);
        self.write_online_cids();
        let (op, direction) = match online {
            true => (Op::CpuOnline, "online"),
            false => (Op::CpuOffline, "offline"),
        };
        if self.operations.has(op) {
            self.call(op, &[self.cpu_argument(cpu)]);
            return;
        }
        let code = SCX_ECODE_ACT_RESTART | SCX_ECODE_RSN_HOTPLUG;
        let message = format!("cpu {cpu} going {direction}, exiting scheduler");
        let kind = ExitKind::UnregisteredKernel;
        self.exit_with(kind, code as i64, cpu as i32, message);
    }

    /// The tasks on the run queue of `cpu`.
    fn tasks_queued_on(&self, cpu: usize) -> Vec<TaskRef> {
        let tasks = self.tasks.iter().copied();
        tasks
            .filter(|task| task.cpu() == cpu && task.seen.on_rq != 0 && task.class != Class::Idle)
            .collect()
    }

    /// Puts the waiting tasks of a CPU that goes offline on its local queue, where the kernel fetches them (`rq_offline_scx`): taken off
    /// and put back, they fall there since the CPU is gone.
    fn requeue_locally(&mut self, cpu: usize) {
        let local = self.cpus[cpu].local;
        for task in self.tasks_queued_on(cpu) {
            if task.class == Class::Ext && task.on_runnable_list && task.dsq != Some(local) {
                let flags = DEQUEUE_SAVE | DEQUEUE_MOVE | DEQUEUE_NOCLOCK;
                self.ext_dequeue(cpu, task, flags);
                let flags = ENQUEUE_RESTORE | ENQUEUE_MOVE | ENQUEUE_NOCLOCK;
                self.ext_enqueue(cpu, task, flags);
            }
        }
    }
}
