//! Disks, which serve one request at a time, and memory that has to be read back in from them.

use fairground_events::OverheadKind;
use fairground_workload::Waiting;

use super::Action;
use crate::clock::Due;
use crate::constants::*;
use crate::kernel::Kernel;
use crate::task::TaskRef;

impl Kernel<'_> {
    /// Makes `task` wait until the disk has served a request of this length, after all earlier requests.
    pub(super) fn wait_for_disk(&mut self, mut task: TaskRef, disk: usize, service: u64) -> Action {
        let now = self.program_time();
        let free_at = &mut self.programs.disks[disk];
        *free_at = (*free_at).max(now) + service;
        let done = *free_at;
        task.execution.sleeps_on = task.cpu();
        task.execution.waiting = Waiting::Disk;
        self.clock.at(done, Due::Disk { task: task.id.0 });
        Action::BlockOnDisk
    }

    /// Reads back in one more page that others have evicted, if there is one and the event needs more.
    pub(super) fn fault(
        &mut self,
        mut task: TaskRef,
        memory: usize,
        disk: usize,
        (service, most): (u64, u64),
    ) -> Option<Action> {
        let evicted = &mut self.programs.evicted[memory];
        if *evicted == 0 || task.execution.moved == most {
            task.execution.moved = 0;
            return None;
        }
        *evicted -= 1;
        task.execution.moved += 1;
        self.block_in_event(task, Waiting::Disk);
        Some(self.wait_for_disk(task, disk, service))
    }

    /// This CPU or, if it is offline, the first one that is online.
    pub(super) fn online_cpu_near(&self, home: usize) -> usize {
        let online = |cpu: &usize| self.cpus[*cpu].online;
        let cpu = std::iter::once(home).chain(0..self.cpus.len()).find(online);
        cpu.unwrap_or(home)
    }

    /// The interrupt with which a disk reports that it has served a request. It goes to the CPU that made the request.
    pub(crate) fn handle_disk(&mut self, number: u32, due: Due) {
        let task = self.tasks.workload()[number as usize];
        let cpu = self.online_cpu_near(task.execution.sleeps_on);
        if self.postponed(cpu, due) {
            return;
        }
        self.interrupt(cpu);
        // Like a timer interrupt, it wakes a task and does little else.
        self.context.spent += self.settings.cost.timer;
        self.settle(OverheadKind::Interrupt);
        self.cpus[cpu].preempt_count = HARDIRQ_OFFSET;
        self.wake(task, None, false);
        self.cpus[cpu].preempt_count = 0;
        self.leave(OverheadKind::Scheduling);
    }
}
