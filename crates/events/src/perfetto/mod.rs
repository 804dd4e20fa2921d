//! Export to Perfetto.
//!
//! CPUs and threads appear as the kernel's own scheduling events (`sched_switch`, `sched_waking`, `sched_migrate_task`), from which
//! the Perfetto UI and its SQL engine derive per-CPU slices, thread states and wake-up latencies. Data for which the kernel has no event
//! becomes slices: overhead on a track per CPU, the jobs of a periodic task on its thread, laps on a track below the thread.

mod messages;

use crate::{
    CpuId, Event, EventKind, Nanoseconds, Outsider, OverheadKind, Policy, Sink, TaskId, TaskInfo,
};
use messages::{
    FtraceEvent, FtraceEventBundle, INSTANT, PACKET_FIELD, Process, ProcessTree, SEQUENCE_STARTS,
    SLICE_BEGIN, SLICE_END, SchedMigrateTask, SchedSwitch, SchedWaking, SystemInfo, Thread,
    ThreadDescriptor, TracePacket, TrackDescriptor, TrackEvent, Utsname,
};
use prost::Message;
use std::io::{self, Write};

/// Number of scheduling events of a CPU that share a packet.
const BUNDLE: usize = 256;

/// Process whose threads all tasks are. Thread numbers follow its number; the first ones are known as the kernel's own, 2 as its kthreadd.
const PROCESS: i32 = 1000;

/// Sequence of the packets; Perfetto requires a number other than 0.
const SEQUENCE: u32 = 1;

/// Parent of the CPU tracks, which follow it; then come the tracks of tasks and of laps.
const MACHINE_TRACK: u64 = 1;
const FIRST_CPU_TRACK: u64 = 2;
const FIRST_TASK_TRACK: u64 = 1 << 32;
const FIRST_LAP_TRACK: u64 = 1 << 33;

/// `prev_state` of `sched_switch` as reported since Linux 4.14.
const STATE_SLEEPING: i64 = 0x1;
const STATE_DEAD: i64 = 0x10;
const STATE_PREEMPTED: i64 = 0x100;
const STATE_IDLE_THREAD: i64 = 0;

/// Kernel release named in the trace, so that readers decode `prev_state` as above.
const RELEASE: &str = "6.18.0";

/// Kernel priority of the idle thread.
const IDLE_PRIORITY: i32 = 120;

/// A sink that writes a Perfetto trace.
///
/// Packets are written as they fill up, so memory does not grow with the run. Sinks cannot fail, so after the first error nothing
/// more is written, and [`PerfettoWriter::close`] returns the error.
pub struct PerfettoWriter<W: Write> {
    output: W,
    error: Option<io::Error>,
    packet: Vec<u8>,
    cpus: Vec<Cpu>,
    tasks: Vec<Option<Task>>,
    sequence_started: bool,
    machine_track: bool,
}

#[derive(Default)]
struct Cpu {
    bundle: Vec<FtraceEvent>,
    has_track: bool,
    overhead_until: Nanoseconds,
    /// Which thread outside the run has it, and since when.
    outsider: Option<(Outsider, Nanoseconds)>,
}

struct Task {
    name: String,
    priority: i32,
    /// State to report when it leaves its CPU.
    leaves_as: i64,
    cpu: Option<u32>,
    has_track: bool,
    job: Job,
    has_lap_track: bool,
    /// When the current lap began.
    lap: Option<Nanoseconds>,
}

#[derive(Clone, Copy, Default)]
struct Job {
    /// Nominal release of the job not yet complete.
    due: Option<Nanoseconds>,
    /// When the previous job was complete; slices on a track must not overlap.
    previous_end: Nanoseconds,
}

impl<W: Write> PerfettoWriter<W> {
    /// Starts a trace of the workload of this name, on a machine with this many CPUs.
    pub fn new(output: W, workload: &str, cpus: usize) -> Self {
        let mut writer = Self {
            output,
            error: None,
            packet: Vec::new(),
            cpus: Vec::new(),
            tasks: Vec::new(),
            sequence_started: false,
            machine_track: false,
        };
        writer.cpus.resize_with(cpus, Cpu::default);
        writer.write(TracePacket {
            system_info: Some(SystemInfo {
                utsname: Some(Utsname {
                    sysname: Some("Linux".into()),
                    release: Some(RELEASE.into()),
                }),
                num_cpus: u32::try_from(cpus).ok(),
            }),
            ..TracePacket::default()
        });
        writer.write(TracePacket {
            timestamp: Some(0),
            process_tree: Some(ProcessTree {
                processes: vec![Process { pid: Some(PROCESS), cmdline: vec![workload.to_owned()] }],
                threads: Vec::new(),
            }),
            ..TracePacket::default()
        });
        writer
    }

    /// Writes the remaining data and gives the output back.
    pub fn close(mut self) -> io::Result<W> {
        self.flush();
        self.error.map_or(Ok(self.output), Err)
    }

    fn flush(&mut self) {
        for cpu in 0..self.cpus.len() {
            self.write_bundle(cpu);
        }
        if self.error.is_none() {
            self.error = self.output.flush().err();
        }
    }

    fn write(&mut self, packet: TracePacket) {
        if self.error.is_some() {
            return;
        }
        self.packet.clear();
        self.packet.push(PACKET_FIELD);
        packet.encode_length_delimited(&mut self.packet).expect("a vector grows as needed");
        self.error = self.output.write_all(&self.packet).err();
    }

    fn write_bundle(&mut self, cpu: usize) {
        let event = std::mem::take(&mut self.cpus[cpu].bundle);
        if !event.is_empty() {
            self.write(TracePacket {
                trusted_packet_sequence_id: Some(SEQUENCE),
                ftrace_events: Some(FtraceEventBundle { cpu: Some(cpu as u32), event }),
                ..TracePacket::default()
            });
        }
    }

    /// Adds a scheduling event on `cpu`, which was running `running`.
    fn scheduling_event(&mut self, cpu: CpuId, running: Option<TaskId>, event: FtraceEvent) {
        let cpu = cpu.0 as usize;
        if cpu >= self.cpus.len() {
            self.cpus.resize_with(cpu + 1, Cpu::default);
        }
        let bundle = &mut self.cpus[cpu].bundle;
        bundle.push(FtraceEvent {
            pid: Some(running.map_or(0, |task| thread(task) as u32)),
            ..event
        });
        if bundle.len() >= BUNDLE {
            self.write_bundle(cpu);
        }
    }

    fn task_mut(&mut self, task: TaskId) -> Option<&mut Task> {
        self.tasks.get_mut(task.0 as usize)?.as_mut()
    }

    /// Name, thread number and kernel priority of a task, or of the idle thread of `cpu`.
    fn identity(&self, task: Option<TaskId>, cpu: CpuId) -> (String, i32, i32) {
        match task {
            None => (format!("swapper/{}", cpu.0), 0, IDLE_PRIORITY),
            Some(id) => match self.tasks.get(id.0 as usize).and_then(Option::as_ref) {
                Some(task) => (task.name.clone(), thread(id), task.priority),
                None => (format!("task {}", id.0), thread(id), IDLE_PRIORITY),
            },
        }
    }

    fn switch(
        &mut self,
        time: Nanoseconds,
        cpu: CpuId,
        prev: Option<TaskId>,
        next: Option<TaskId>,
    ) {
        let (prev_comm, prev_pid, prev_prio) = self.identity(prev, cpu);
        let (next_comm, next_pid, next_prio) = self.identity(next, cpu);
        let mut prev_state = STATE_IDLE_THREAD;
        if let Some(task) = prev.and_then(|task| self.task_mut(task)) {
            prev_state = std::mem::replace(&mut task.leaves_as, STATE_PREEMPTED);
            task.cpu = None;
        }
        if let Some(task) = next.and_then(|task| self.task_mut(task)) {
            task.cpu = Some(cpu.0);
        }
        self.scheduling_event(
            cpu,
            prev,
            FtraceEvent {
                timestamp: Some(time),
                sched_switch: Some(SchedSwitch {
                    prev_comm: Some(prev_comm),
                    prev_pid: Some(prev_pid),
                    prev_prio: Some(prev_prio),
                    prev_state: Some(prev_state),
                    next_comm: Some(next_comm),
                    next_pid: Some(next_pid),
                    next_prio: Some(next_prio),
                }),
                ..FtraceEvent::default()
            },
        );
    }

    fn wake(&mut self, time: Nanoseconds, task: TaskId, cpu: CpuId, waker: Option<TaskId>) {
        if let Some(task) = self.task_mut(task) {
            task.leaves_as = STATE_PREEMPTED;
        }
        // The kernel records the event on the CPU of the waker.
        let on = waker.and_then(|waker| self.task_mut(waker)?.cpu).map_or(cpu, CpuId);
        let (comm, pid, prio) = self.identity(Some(task), cpu);
        self.scheduling_event(
            on,
            waker,
            FtraceEvent {
                timestamp: Some(time),
                sched_waking: Some(SchedWaking {
                    comm: Some(comm),
                    pid: Some(pid),
                    prio: Some(prio),
                    target_cpu: Some(cpu.0 as i32),
                }),
                ..FtraceEvent::default()
            },
        );
    }

    fn migrate(&mut self, time: Nanoseconds, task: TaskId, from: CpuId, to: CpuId) {
        let (comm, pid, prio) = self.identity(Some(task), to);
        self.scheduling_event(
            to,
            None,
            FtraceEvent {
                timestamp: Some(time),
                sched_migrate_task: Some(SchedMigrateTask {
                    comm: Some(comm),
                    pid: Some(pid),
                    prio: Some(prio),
                    orig_cpu: Some(from.0 as i32),
                    dest_cpu: Some(to.0 as i32),
                }),
                ..FtraceEvent::default()
            },
        );
    }

    fn track_event(&mut self, time: Nanoseconds, track: u64, kind: i32, name: Option<&str>) {
        let sequence_flags = (!self.sequence_started).then_some(SEQUENCE_STARTS);
        self.sequence_started = true;
        self.write(TracePacket {
            timestamp: Some(time),
            trusted_packet_sequence_id: Some(SEQUENCE),
            sequence_flags,
            track_event: Some(TrackEvent {
                kind: Some(kind),
                track_uuid: Some(track),
                name: name.map(str::to_owned),
            }),
            ..TracePacket::default()
        });
    }

    fn describe_track(&mut self, descriptor: TrackDescriptor) {
        self.write(TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE),
            track_descriptor: Some(descriptor),
            ..TracePacket::default()
        });
    }

    fn slice(&mut self, begin: Nanoseconds, end: Nanoseconds, track: u64, name: &str) {
        self.track_event(begin, track, SLICE_BEGIN, Some(name));
        self.track_event(end, track, SLICE_END, None);
    }

    /// The track of a CPU, described on first use.
    fn cpu_track(&mut self, cpu: CpuId) -> u64 {
        let number = cpu.0 as usize;
        if number >= self.cpus.len() {
            self.cpus.resize_with(number + 1, Cpu::default);
        }
        let track = FIRST_CPU_TRACK + u64::from(cpu.0);
        if !self.machine_track {
            self.machine_track = true;
            self.describe_track(TrackDescriptor {
                uuid: Some(MACHINE_TRACK),
                name: Some("scheduler overhead".into()),
                ..TrackDescriptor::default()
            });
        }
        if !self.cpus[number].has_track {
            self.cpus[number].has_track = true;
            self.describe_track(TrackDescriptor {
                uuid: Some(track),
                name: Some(format!("CPU {number}")),
                parent_uuid: Some(MACHINE_TRACK),
                ..TrackDescriptor::default()
            });
        }
        track
    }

    /// The track of a task's thread, described on first use.
    fn task_track(&mut self, task: TaskId) -> u64 {
        let track = FIRST_TASK_TRACK + u64::from(task.0);
        let described =
            self.task_mut(task).is_some_and(|task| std::mem::replace(&mut task.has_track, true));
        if !described {
            self.describe_track(TrackDescriptor {
                uuid: Some(track),
                thread: Some(ThreadDescriptor { pid: Some(PROCESS), tid: Some(thread(task)) }),
                ..TrackDescriptor::default()
            });
        }
        track
    }

    fn lap(&mut self, task: TaskId, at: Nanoseconds, begins: bool) {
        let Some(known) = self.task_mut(task) else { return };
        if begins {
            known.lap = Some(at);
            return;
        }
        let Some(begin) = known.lap.take() else { return };
        let described = std::mem::replace(&mut known.has_lap_track, true);
        let track = FIRST_LAP_TRACK + u64::from(task.0);
        if !described {
            let parent = self.task_track(task);
            self.describe_track(TrackDescriptor {
                uuid: Some(track),
                name: Some("laps".into()),
                parent_uuid: Some(parent),
                ..TrackDescriptor::default()
            });
        }
        self.slice(begin, at, track, "lap");
    }

    fn complete_job(&mut self, time: Nanoseconds, task: TaskId, deadline: Nanoseconds) {
        let Some(known) = self.task_mut(task) else { return };
        let Some(due) = known.job.due.take() else { return };
        let begin = due.max(known.job.previous_end).min(time);
        known.job.previous_end = time;
        let track = self.task_track(task);
        let name = if time > deadline { "late job" } else { "job" };
        self.slice(begin, time, track, name);
    }
}

impl<W: Write> Sink for PerfettoWriter<W> {
    fn task(&mut self, time: Nanoseconds, task: TaskId, info: &TaskInfo) {
        let number = task.0 as usize;
        if number >= self.tasks.len() {
            self.tasks.resize_with(number + 1, || None);
        }
        let priority = kernel_priority(info);
        match &mut self.tasks[number] {
            Some(known) => {
                known.priority = priority;
                if known.name == info.name {
                    return;
                }
                known.name.clone_from(&info.name);
            }
            empty => {
                *empty = Some(Task {
                    name: info.name.clone(),
                    priority,
                    leaves_as: STATE_PREEMPTED,
                    cpu: None,
                    has_track: false,
                    job: Job::default(),
                    has_lap_track: false,
                    lap: None,
                });
            }
        }
        self.write(TracePacket {
            timestamp: Some(time),
            process_tree: Some(ProcessTree {
                processes: Vec::new(),
                threads: vec![Thread {
                    tid: Some(thread(task)),
                    name: Some(info.name.clone()),
                    tgid: Some(PROCESS),
                }],
            }),
            ..TracePacket::default()
        });
    }

    fn event(&mut self, event: &Event) {
        let time = event.time;
        match event.kind {
            EventKind::Wake { task, cpu, waker } => self.wake(time, task, cpu, waker),
            EventKind::Sleep { task } => {
                if let Some(task) = self.task_mut(task) {
                    task.leaves_as = STATE_SLEEPING;
                }
            }
            EventKind::Exit { task } => {
                if let Some(task) = self.task_mut(task) {
                    task.leaves_as = STATE_DEAD;
                }
            }
            EventKind::Switch { cpu, prev, next } => {
                if prev != next {
                    self.switch(time, cpu, prev, next);
                }
            }
            EventKind::Migrate { task, from, to } => self.migrate(time, task, from, to),
            EventKind::JobRelease { task, due, .. } => {
                if let Some(task) = self.task_mut(task) {
                    task.job.due = Some(due);
                }
            }
            EventKind::JobComplete { task, deadline } => self.complete_job(time, task, deadline),
            // Shows as a gap.
            EventKind::JobSkip { .. } => {}
            EventKind::Throttle { task, begins } => {
                let track = self.task_track(task);
                let name = if begins { "throttled" } else { "unthrottled" };
                self.track_event(time, track, INSTANT, Some(name));
            }
            // Figures for results, not for a time.
            EventKind::QuotaUse { .. } | EventKind::Energy { .. } => {}
            EventKind::Lap { task, at, begins } => self.lap(task, at, begins),
            EventKind::Overhead { cpu, kind, duration } => {
                if duration > 0 {
                    let track = self.cpu_track(cpu);
                    let until = &mut self.cpus[cpu.0 as usize].overhead_until;
                    let begin = time.max(*until);
                    let end = begin.saturating_add(duration);
                    *until = end;
                    self.slice(begin, end, track, overhead_name(kind));
                }
            }
            // Already shown as overhead.
            EventKind::Pass { .. } => {}
            // Already shown as overhead, and absent from streams made for viewing.
            EventKind::Callback { .. }
            | EventKind::Insert { .. }
            | EventKind::Remove { .. }
            | EventKind::Condition { .. } => {}
            EventKind::Outside { cpu, who } => {
                let outsider = &mut self.cpus[cpu.0 as usize].outsider;
                let before = std::mem::replace(outsider, who.map(|who| (who, time)));
                if let Some((who, since)) = before {
                    let track = self.cpu_track(cpu);
                    self.slice(since, time, track, outsider_name(who));
                }
            }
            EventKind::CpuOnline { cpu, online } => {
                let track = self.cpu_track(cpu);
                let name = if online { "online" } else { "offline" };
                self.track_event(time, track, INSTANT, Some(name));
            }
        }
    }

    fn finish(&mut self, end: Nanoseconds) {
        // All CPUs end idle, so that the last slices have an end.
        for number in 0..self.tasks.len() {
            let task = TaskId(number as u32);
            if let Some(cpu) = self.task_mut(task).and_then(|task| task.cpu) {
                self.switch(end, CpuId(cpu), Some(task), None);
            }
        }
        self.flush();
    }
}

/// Thread number of a task in the trace.
fn thread(task: TaskId) -> i32 {
    PROCESS + 1 + task.0 as i32
}

/// Priority as the kernel's events report it: lower is more urgent.
fn kernel_priority(info: &TaskInfo) -> i32 {
    match info.policy {
        Policy::Normal | Policy::Batch | Policy::Idle | Policy::Ext => 120 + info.nice,
        Policy::Fifo | Policy::RoundRobin => 99 - info.rt_priority as i32,
        Policy::Deadline => -1,
    }
}

fn outsider_name(who: Outsider) -> &'static str {
    match who {
        Outsider::Loader => "loader",
        Outsider::Other => "others",
        Outsider::RealTime => "others, real-time",
    }
}

fn overhead_name(kind: OverheadKind) -> &'static str {
    match kind {
        OverheadKind::Scheduling => "scheduling",
        OverheadKind::Switch => "switch",
        OverheadKind::Migration => "migration",
        OverheadKind::Interrupt => "interrupt",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_numbers_are_left_to_the_kernel() {
        assert!(thread(TaskId(0)) > 300);
    }
}
