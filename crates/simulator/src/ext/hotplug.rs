//! CPUs that come online and go offline.

use fairground_events::{EventKind, OverheadKind};

use crate::constants::*;
use crate::kernel::Kernel;
use crate::operations::Op;
use crate::task::TaskRef;

impl Kernel<'_> {
    /// Takes a CPU offline or online, with all that this entails (`sched_cpu_deactivate`, `sched_cpu_activate`).
    pub(crate) fn set_online(&mut self, cpu: usize, online: bool) {
        let others = (0..self.cpus.len()).filter(|&other| other != cpu);
        let is_last = !online && !{ others }.any(|other| self.cpus[other].online);
        if self.cpus[cpu].online == online || is_last {
            return;
        }
        if !online && !self.bandwidth_suffices_without(cpu) {
            self.say(format!(
                "CPU {cpu} stays online (EBUSY): without it, the SCHED_DEADLINE tasks could not have their runtimes"
            ));
            return;
        }
        let is_held = |task: &TaskRef| task.cpu() == cpu && task.seen.migration_disabled != 0;
        if !online && self.tasks.workload().iter().any(is_held) {
            // `balance_hotplug_wait`. A kernel has told the scheduler by now, and moves the others before it waits.
            self.cpus[cpu].goes_offline = true;
            return;
        }
        self.cpus[cpu].goes_offline = false;
        self.enter(cpu);
        self.emit(EventKind::CpuOnline { cpu: fairground_events::CpuId(cpu as u32), online });
        if online {
            self.tell_of_hotplug(cpu, true);
            self.mark_online(cpu, true);
            // Requests to the CPU from the time when it was offline are void.
            self.cpus[cpu].need_resched = false;
            self.resched(cpu);
        } else {
            self.finish_wakeups(cpu);
            self.mark_online(cpu, false);
            self.idle.forget(cpu, &self.topology);
            self.requeue_locally(cpu);
            self.tell_of_hotplug(cpu, false);
            for task in self.tasks_to_push(cpu) {
                self.push_off(task, None);
            }
        }
        self.tell_loader_of_cpus();
        self.leave(OverheadKind::Scheduling);
    }

    pub(crate) fn mark_online(&mut self, cpu: usize, online: bool) {
        self.cpus[cpu].online = online;
        self.cpus[cpu].rq.online = i32::from(online);
        self.online.assign(cpu, online);
    }

    /// Ejects a scheduler whose loader looked at the machine before a CPU came or went (`check_hotplug_seq`); `false` if it did.
    pub(crate) fn is_as_the_loader_saw_it(&mut self) -> bool {
        let (seen, now) = (self.operations.hotplug_seq, self.hotplug_changes);
        if seen == 0 || seen == now {
            return true;
        }
        let code = SCX_ECODE_ACT_RESTART | SCX_ECODE_RSN_HOTPLUG;
        let message = format!("expected hotplug seq {seen} did not match actual {now}");
        let cpu = self.context.cpu as i32;
        self.exit_with(ExitKind::UnregisteredKernel, code as i64, cpu, message);
        false
    }

    /// `handle_hotplug`: a scheduler without a callback for this is unloaded. While none is loaded there is nobody to tell.
    fn tell_of_hotplug(&mut self, cpu: usize, online: bool) {
        self.online.assign(cpu, online);
        self.hotplug_changes += 1;
        self.write_online_cids();
        if !self.restarts.are_over() {
            return;
        }
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

    /// The tasks of an offline CPU, in the order in which it would run them, which is when each is pushed off (`balance_push`).
    fn tasks_to_push(&self, cpu: usize) -> Vec<TaskRef> {
        let state = &self.cpus[cpu];
        let current = (state.current != state.idle).then_some(state.current);
        let waiting = |task: &TaskRef| Some(*task) != current;
        let real_time = state.deadline.tasks().iter().chain(state.real_time.tasks()).copied();
        let real_time = real_time.filter(waiting);
        let local = std::iter::successors(state.local.first(), |task| task.dsq_next);
        let tasks = current.into_iter().chain(real_time);
        tasks.chain(local).chain(state.fair.clone()).collect()
    }

    /// Puts the waiting tasks of a CPU that goes offline on its local queue, where the kernel fetches them (`rq_offline_scx`): dequeued and
    /// enqueued again, they end up there because the CPU is offline. The last to arrive come first.
    fn requeue_locally(&mut self, cpu: usize) {
        let local = self.cpus[cpu].local;
        for task in self.runnable_list(cpu).into_iter().rev() {
            if task.dsq != Some(local) {
                let flags = DEQUEUE_SAVE | DEQUEUE_MOVE | DEQUEUE_NOCLOCK;
                self.ext_dequeue(cpu, task, flags);
                let flags = ENQUEUE_RESTORE | ENQUEUE_MOVE | ENQUEUE_NOCLOCK;
                self.ext_enqueue(cpu, task, flags);
            }
        }
    }
}
