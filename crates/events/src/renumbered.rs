//! A stream with other numbers for CPUs.

use crate::{
    CpuId, Event, EventKind, GroupId, GroupInfo, Nanoseconds, Queue, Sink, TaskId, TaskInfo,
};

/// Forwards a stream to a sink, with the numbers that a machine gives its CPUs, which may have gaps.
pub struct Renumbered<'a> {
    numbers: &'a [u32],
    sink: &'a mut dyn Sink,
}

impl<'a> Renumbered<'a> {
    /// `numbers` are those of all CPUs, in order.
    pub fn new(numbers: &'a [u32], sink: &'a mut dyn Sink) -> Self {
        Self { numbers, sink }
    }

    fn number(&self, cpu: CpuId) -> CpuId {
        let number = self.numbers.get(cpu.0 as usize);
        number.map_or(cpu, |number| CpuId(*number))
    }

    fn queue(&self, queue: Queue) -> Queue {
        match queue {
            Queue::Local(cpu) => Queue::Local(self.number(cpu)),
            other => other,
        }
    }

    fn kind(&self, mut kind: EventKind) -> EventKind {
        match &mut kind {
            EventKind::Wake { cpu, .. }
            | EventKind::Switch { cpu, .. }
            | EventKind::Overhead { cpu, .. }
            | EventKind::Pass { cpu, .. }
            | EventKind::CpuOnline { cpu, .. }
            | EventKind::Energy { cpu, .. }
            | EventKind::Outside { cpu, .. } => *cpu = self.number(*cpu),
            EventKind::Migrate { from, to, .. } => {
                *from = self.number(*from);
                *to = self.number(*to);
            }
            EventKind::Callback { cpu, chosen, .. } => {
                *cpu = self.number(*cpu);
                *chosen = chosen.map(|cpu| self.number(cpu));
            }
            EventKind::Insert { queue, .. } | EventKind::Remove { queue, .. } => {
                *queue = self.queue(*queue);
            }
            EventKind::Sleep { .. }
            | EventKind::Exit { .. }
            | EventKind::JobRelease { .. }
            | EventKind::JobComplete { .. }
            | EventKind::JobSkip { .. }
            | EventKind::Lap { .. }
            | EventKind::Throttle { .. }
            | EventKind::QuotaUse { .. }
            | EventKind::Condition { .. } => {}
        }
        kind
    }
}

impl Sink for Renumbered<'_> {
    fn task(&mut self, time: Nanoseconds, task: TaskId, info: &TaskInfo) {
        let allowed = info.allowed.iter().map(|cpu| self.number(*cpu)).collect();
        let info = TaskInfo { allowed, ..info.clone() };
        self.sink.task(time, task, &info);
    }

    fn group(&mut self, time: Nanoseconds, group: GroupId, info: &GroupInfo) {
        self.sink.group(time, group, info);
    }

    fn event(&mut self, event: &Event) {
        let kind = self.kind(event.kind);
        self.sink.event(&Event { kind, ..*event });
    }

    fn finish(&mut self, end: Nanoseconds) {
        self.sink.finish(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Kept(Vec<EventKind>, Vec<CpuId>);

    impl Sink for Kept {
        fn task(&mut self, _: Nanoseconds, _: TaskId, info: &TaskInfo) {
            self.1.clone_from(&info.allowed);
        }
        fn event(&mut self, event: &Event) {
            self.0.push(event.kind);
        }
        fn finish(&mut self, _: Nanoseconds) {}
    }

    #[test]
    fn cpus_have_the_machines_numbers() {
        let mut kept = Kept::default();
        let mut renumbered = Renumbered::new(&[0, 1, 8, 9], &mut kept);
        let (task, time) = (TaskId(0), 5);
        renumbered.task(time, task, &TaskInfo { allowed: vec![CpuId(2)], ..TaskInfo::named("a") });
        let (from, to) = (CpuId(0), CpuId(3));
        for kind in [
            EventKind::Migrate { task, from, to },
            EventKind::Remove { task, queue: Queue::Local(CpuId(2)) },
            EventKind::Sleep { task },
        ] {
            renumbered.event(&Event { time, kind });
        }
        let to = CpuId(9);
        let queue = Queue::Local(CpuId(8));
        assert_eq!(
            kept.0,
            [
                EventKind::Migrate { task, from, to },
                EventKind::Remove { task, queue },
                EventKind::Sleep { task }
            ]
        );
        assert_eq!(kept.1, [CpuId(8)]);
    }
}
