//! Trace files: reading returns the events that were written, and damage is found.

use fairground_events::{
    Callback, CgroupMode, Condition, CpuId, Event, EventKind, GroupId, GroupInfo, Nanoseconds,
    Outsider, OverheadKind, Queue, Quota, QuotaUse, Sink, TaskId, TaskInfo, TraceError,
    TraceReader, TraceWriter,
};
use proptest::prelude::*;

/// A call of a sink.
#[derive(Clone, Debug, PartialEq)]
enum Call {
    Task(Nanoseconds, TaskId, TaskInfo),
    Group(Nanoseconds, GroupId, GroupInfo),
    Event(Event),
    Finish(Nanoseconds),
}

/// Remembers every call.
#[derive(Default)]
struct Recorder(Vec<Call>);

impl Sink for Recorder {
    fn task(&mut self, time: Nanoseconds, task: TaskId, info: &TaskInfo) {
        self.0.push(Call::Task(time, task, info.clone()));
    }

    fn group(&mut self, time: Nanoseconds, group: GroupId, info: &GroupInfo) {
        self.0.push(Call::Group(time, group, info.clone()));
    }

    fn event(&mut self, event: &Event) {
        self.0.push(Call::Event(*event));
    }

    fn finish(&mut self, end: Nanoseconds) {
        self.0.push(Call::Finish(end));
    }
}

const CPUS: u32 = 3;
const TASKS: u32 = 4;

fn write(calls: &[Call]) -> std::io::Result<Vec<u8>> {
    let mut writer = TraceWriter::new(Vec::new(), &[1024, 512, 100])?;
    for call in calls {
        match call {
            Call::Task(time, task, info) => writer.task(*time, *task, info),
            Call::Group(time, group, info) => writer.group(*time, *group, info),
            Call::Event(event) => writer.event(event),
            Call::Finish(end) => writer.finish(*end),
        }
    }
    writer.close()
}

fn read(bytes: &[u8]) -> Result<Vec<Call>, TraceError> {
    let reader = TraceReader::new(bytes)?;
    assert_eq!(reader.capacities(), [1024, 512, 100]);
    let mut recorder = Recorder::default();
    reader.play(&mut recorder)?;
    Ok(recorder.0)
}

fn task_info(name: &str) -> TaskInfo {
    TaskInfo { nice: -5, weight: 3121, allowed: vec![CpuId(0), CpuId(2)], ..TaskInfo::named(name) }
}

fn group(path: &str, parent: Option<GroupId>) -> GroupInfo {
    GroupInfo {
        path: path.to_owned(),
        parent,
        shares: 3121,
        mode: CgroupMode::Smp,
        quota: parent.map(|_| Quota { runtime: 20_000_000, period: 100_000_000, burst: 5_000_000 }),
    }
}

/// One call of every kind.
fn example() -> Vec<Call> {
    let task = TaskId(0);
    let cpu = CpuId(1);
    let kinds = [
        EventKind::Wake { task, cpu, waker: None },
        EventKind::Migrate { task, from: CpuId(2), to: cpu },
        EventKind::Switch { cpu, prev: None, next: Some(task) },
        EventKind::JobRelease { task, due: 3, deadline: 5000 },
        EventKind::Overhead { cpu, kind: OverheadKind::Migration, duration: 250 },
        EventKind::JobComplete { task, deadline: 10_000_000 },
        EventKind::JobSkip { task, due: 10_000_000, period: 5_000_000, count: 3 },
        EventKind::Lap { task, at: 8_000, begins: true },
        EventKind::Sleep { task },
        EventKind::Exit { task },
        EventKind::Pass { cpu, duration: 700 },
        EventKind::CpuOnline { cpu, online: false },
        EventKind::Outside { cpu, who: Some(Outsider::RealTime) },
        EventKind::Throttle { task, begins: true },
        EventKind::Energy { cpu, nanojoules: 2_032_000_000 },
        EventKind::QuotaUse {
            group: GroupId(1),
            used: QuotaUse { periods: 20, throttled_periods: 19, throttled: 1_520_000_000 },
        },
        EventKind::Callback {
            cpu,
            callback: Callback::SelectCpu,
            task: Some(task),
            chosen: Some(CpuId(2)),
            duration: 80,
        },
        EventKind::Insert {
            task,
            queue: Queue::User(u64::MAX >> 1),
            slice: u64::MAX,
            vtime: Some(7),
        },
        EventKind::Remove { task, queue: Queue::Local(cpu) },
        EventKind::Condition { task, condition: Condition::Served, begins: true },
    ];
    let member = TaskInfo { group: Some(GroupId(1)), ..task_info("größter Hog") };
    let mut calls = vec![
        Call::Group(0, GroupId(0), group("/a", None)),
        Call::Group(0, GroupId(1), group("/a/x", Some(GroupId(0)))),
        Call::Task(0, task, member),
    ];
    for (number, kind) in kinds.into_iter().enumerate() {
        calls.push(Call::Event(Event { time: 1000 * number as u64, kind }));
    }
    calls.push(Call::Finish(1 << 40));
    calls
}

#[test]
fn every_kind_of_record_comes_back() {
    let calls = example();
    assert_eq!(read(&write(&calls).unwrap()).unwrap(), calls);
}

#[test]
fn a_cut_off_file_is_told_with_its_place() {
    let bytes = write(&example()).unwrap();
    for length in 0..bytes.len() {
        let error = read(&bytes[..length]).unwrap_err();
        assert!(error.offset <= length as u64);
        if length >= 8 {
            assert!(error.problem.contains("cut off"), "{length}: {error}");
        } else {
            assert!(error.problem.contains("not a fairground trace"), "{error}");
        }
    }
}

#[test]
fn a_changed_byte_never_goes_unnoticed() {
    let bytes = write(&example()).unwrap();
    // The capacities are checked by `read`, so start after them: 8 bytes of magic, version, CPUs, 2 + 2 + 1 bytes.
    for place in 15..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1 << bit;
            assert!(read(&damaged).is_err(), "bit {bit} of byte {place}");
        }
    }
}

#[test]
fn other_versions_and_other_files_are_told_apart() {
    let mut bytes = write(&example()).unwrap();
    bytes[8] = 1;
    let error = read(&bytes).unwrap_err().to_string();
    assert!(error.contains("version 9") && error.contains("version 1"), "{error}");
    let error = read(b"{\"tasks\": {}}").unwrap_err().to_string();
    assert!(error.starts_with("byte 0: not a fairground trace file"), "{error}");
}

#[test]
fn bytes_after_the_end_are_an_error() {
    let mut bytes = write(&example()).unwrap();
    let length = bytes.len() as u64;
    bytes.push(0);
    let error = read(&bytes).unwrap_err();
    assert_eq!(error.offset, length);
}

#[test]
fn a_stream_that_contradicts_the_format_is_refused() {
    let event = |kind| Call::Event(Event { time: 5, kind });
    let described = Call::Task(5, TaskId(0), task_info("hog"));
    let cases = [
        (vec![event(EventKind::Sleep { task: TaskId(0) }), Call::Finish(9)], "task 0"),
        (vec![Call::Task(5, TaskId(1), task_info("hog")), Call::Finish(9)], "task 1"),
        (
            vec![event(EventKind::CpuOnline { cpu: CpuId(3), online: true }), Call::Finish(9)],
            "CPU 3",
        ),
        (vec![described.clone(), Call::Finish(4)], "time goes back"),
        (vec![described], "not finished"),
    ];
    for (calls, expected) in cases {
        let error = write(&calls).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

fn queue() -> impl Strategy<Value = Queue> {
    prop_oneof![
        (0..CPUS).prop_map(|cpu| Queue::Local(CpuId(cpu))),
        any::<u32>().prop_map(Queue::Global),
        any::<u64>().prop_map(Queue::User),
    ]
}

fn any_call() -> impl Strategy<Value = (u64, EventKind)> {
    let task = || (0..TASKS).prop_map(TaskId);
    let cpu = || (0..CPUS).prop_map(CpuId);
    let near = 0_u64..u64::MAX / 4;
    let kind = prop_oneof![
        (task(), cpu(), prop::option::of(task())).prop_map(|(task, cpu, waker)| EventKind::Wake {
            task,
            cpu,
            waker
        }),
        task().prop_map(|task| EventKind::Sleep { task }),
        (cpu(), prop::option::of(task()), prop::option::of(task()))
            .prop_map(|(cpu, prev, next)| EventKind::Switch { cpu, prev, next }),
        (task(), near.clone(), near.clone())
            .prop_map(|(task, due, deadline)| { EventKind::JobRelease { task, due, deadline } }),
        (task(), near.clone(), any::<u64>(), any::<u64>())
            .prop_map(|(task, due, period, count)| EventKind::JobSkip { task, due, period, count }),
        (task(), near.clone(), any::<bool>()).prop_map(|(task, at, begins)| EventKind::Lap {
            task,
            at,
            begins
        }),
        (task(), near).prop_map(|(task, deadline)| EventKind::JobComplete { task, deadline }),
        (task(), queue(), any::<u64>(), prop::option::of(any::<u64>())).prop_map(
            |(task, queue, slice, vtime)| EventKind::Insert { task, queue, slice, vtime }
        ),
        (task(), queue()).prop_map(|(task, queue)| EventKind::Remove { task, queue }),
        (cpu(), prop::option::of(task()), prop::option::of(cpu())).prop_map(
            |(cpu, task, chosen)| EventKind::Callback {
                cpu,
                callback: Callback::Dispatch,
                task,
                chosen,
                duration: 300
            }
        ),
        (cpu(), any::<u64>()).prop_map(|(cpu, duration)| EventKind::Overhead {
            cpu,
            kind: OverheadKind::Interrupt,
            duration
        }),
    ];
    (prop_oneof![0_u64..5, 0_u64..1 << 40], kind)
}

proptest! {
    #[test]
    fn whatever_is_written_is_read(
        names in prop::collection::vec(".{0,20}", TASKS as usize),
        calls in prop::collection::vec(any_call(), 0..300),
    ) {
        let mut all: Vec<Call> = names
            .iter()
            .enumerate()
            .map(|(number, name)| Call::Task(0, TaskId(number as u32), task_info(name)))
            .collect();
        let mut time = 0;
        for (span, kind) in calls {
            time += span;
            all.push(Call::Event(Event { time, kind }));
        }
        all.push(Call::Finish(time));
        prop_assert_eq!(read(&write(&all).unwrap()).unwrap(), all);
    }

    #[test]
    fn rubbish_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut file = b"fgtrace\n\x03\x03\x80\x08\x80\x04\x64".to_vec();
        file.extend(bytes);
        prop_assert!(read(&file).is_err());
    }
}
