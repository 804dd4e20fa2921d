//! Event lists by hand: times in milliseconds.

use std::collections::HashMap;

use fairground_events::{
    CgroupMode, CpuId, Event, EventKind, GroupId, GroupInfo, Nanoseconds, OverheadKind, Quota,
    Sink, TaskId, TaskInfo,
};
use fairground_metrics::{MachineFacts, Metrics, Options, RunMetrics};

/// One millisecond.
pub const MS: Nanoseconds = 1_000_000;

/// A run that is being written down.
pub struct Run {
    metrics: Metrics,
    now: Nanoseconds,
    /// What runs on CPUs by their numbers.
    running: HashMap<u32, u32>,
}

/// The attributes of a task called `name` with this weight that may run everywhere.
pub fn task_info(name: &str, weight: u32) -> TaskInfo {
    TaskInfo { weight, ..TaskInfo::named(name) }
}

impl Run {
    /// A run on equal CPUs.
    pub fn on(cpus: usize) -> Self {
        Self::with(MachineFacts::equal(cpus), Options::default())
    }

    /// A run on a machine of these facts.
    pub fn with(machine: MachineFacts, options: Options) -> Self {
        Self { metrics: Metrics::new(machine, options), now: 0, running: HashMap::new() }
    }

    /// Lets time pass until `milliseconds`.
    pub fn at(&mut self, milliseconds: u64) -> &mut Self {
        self.now = milliseconds * MS;
        self
    }

    /// Tells of a task.
    pub fn describe(&mut self, task: u32, info: &TaskInfo) -> &mut Self {
        self.metrics.task(self.now, TaskId(task), info);
        self
    }

    /// Tells of a control group in another one, or in the root.
    pub fn group(&mut self, group: u32, parent: Option<u32>, shares: u32) -> &mut Self {
        self.limited_group(group, parent, shares, None)
    }

    /// Tells of a control group with a quota in milliseconds per 100 ms.
    pub fn limited_group(
        &mut self,
        group: u32,
        parent: Option<u32>,
        shares: u32,
        quota: Option<u64>,
    ) -> &mut Self {
        let info = GroupInfo {
            path: format!("/{group}"),
            parent: parent.map(GroupId),
            shares,
            mode: CgroupMode::default(),
            quota: quota.map(|runtime| Quota { runtime: runtime * MS, period: 100 * MS, burst: 0 }),
        };
        self.metrics.group(self.now, GroupId(group), &info);
        self
    }

    /// Tells of tasks 0, 1, … with these weights.
    pub fn tasks(&mut self, weights: &[u32]) -> &mut Self {
        for (number, &weight) in weights.iter().enumerate() {
            self.describe(number as u32, &task_info(&format!("task-{number}"), weight));
        }
        self
    }

    /// Something happens now.
    pub fn event(&mut self, kind: EventKind) -> &mut Self {
        self.metrics.event(&Event { time: self.now, kind });
        self
    }

    /// A task becomes runnable.
    pub fn wake(&mut self, task: u32) -> &mut Self {
        self.event(EventKind::Wake { task: TaskId(task), cpu: CpuId(0), waker: None })
    }

    /// A task goes to sleep.
    pub fn sleep(&mut self, task: u32) -> &mut Self {
        self.event(EventKind::Sleep { task: TaskId(task) })
    }

    /// A task ends.
    pub fn exit(&mut self, task: u32) -> &mut Self {
        self.event(EventKind::Exit { task: TaskId(task) })
    }

    /// A CPU switches.
    pub fn switch(
        &mut self,
        cpu: u32,
        prev: impl Into<Option<u32>>,
        next: impl Into<Option<u32>>,
    ) -> &mut Self {
        let next = next.into();
        self.running.remove(&cpu);
        self.running.extend(next.map(|next| (cpu, next)));
        self.event(EventKind::Switch {
            cpu: CpuId(cpu),
            prev: prev.into().map(TaskId),
            next: next.map(TaskId),
        })
    }

    /// Plays events of a text: `@5` lets time pass until 5 ms, `wake0`, `sleep0` and `exit0` are task 0's, CPU 1 switches to task 0 with
    /// `cpu1=0` and becomes idle with `cpu1=-`, and `switch1+3` is overhead of 3 ms for switches.
    pub fn play(&mut self, text: &str) -> &mut Self {
        for word in text.split(' ') {
            let (what, rest) = word.split_at(word.find(|one: char| one.is_ascii_digit()).unwrap());
            let mut numbers = rest.split(['=', '+']).map(|number| number.parse().ok());
            let number = numbers.next().unwrap().unwrap();
            let kind = match what {
                "@" => {
                    self.now = u64::from(number) * MS;
                    continue;
                }
                "wake" => EventKind::Wake { task: TaskId(number), cpu: CpuId(0), waker: None },
                "sleep" => EventKind::Sleep { task: TaskId(number) },
                "exit" => EventKind::Exit { task: TaskId(number) },
                "cpu" => {
                    let prev = self.running.get(&number).copied();
                    self.switch(number, prev, numbers.next().unwrap());
                    continue;
                }
                kind => EventKind::Overhead {
                    cpu: CpuId(number),
                    kind: match kind {
                        "interrupt" => OverheadKind::Interrupt,
                        "scheduling" => OverheadKind::Scheduling,
                        "switch" => OverheadKind::Switch,
                        _ => panic!("{word}"),
                    },
                    duration: Nanoseconds::from(numbers.next().unwrap().unwrap()) * MS,
                },
            };
            self.event(kind);
        }
        self
    }

    /// The run ends at `milliseconds`.
    pub fn end(&mut self, milliseconds: u64) -> RunMetrics {
        self.now = milliseconds * MS;
        self.metrics.finish(self.now);
        self.metrics.result()
    }
}

/// Asserts that two numbers agree to one part in a million (or a millionth, near 0).
#[track_caller]
pub fn assert_close(found: f64, expected: f64) {
    assert!(
        (found - expected).abs() <= 1e-6 * expected.abs().max(1.0),
        "found {found}, expected {expected}"
    );
}

/// Asserts values of a result by their paths, such as `tasks.0.wait_ns 5ms, periods none`; decimals agree as in [`assert_close`].
#[track_caller]
pub fn expect(result: &RunMetrics, values: &str) {
    let all = serde_json::to_value(result).unwrap();
    for one in values.split(", ") {
        let (path, expected) = one.split_once(' ').unwrap();
        let found = all.pointer(&format!("/{}", path.replace('.', "/")));
        let found = found.unwrap_or_else(|| panic!("no {path} in {all:#}"));
        let (number, unit) = match expected.strip_suffix("ms") {
            Some(number) => (number, MS as f64),
            None => (expected, 1.0),
        };
        match number.parse::<f64>() {
            Ok(number) if found.is_u64() => {
                assert_eq!(found.as_f64(), Some(number * unit), "{path}")
            }
            Ok(number) => assert_close(found.as_f64().expect(path), number * unit),
            Err(_) => assert!(found.is_null() && expected == "none", "{path} is {found}"),
        }
    }
}
