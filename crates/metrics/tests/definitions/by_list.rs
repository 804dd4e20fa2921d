//! Event lists by hand: times in milliseconds.

use fairground_events::{
    CgroupMode, CpuId, Event, EventKind, GroupId, GroupInfo, Nanoseconds, OverheadKind, Policy,
    Quota, Sink, TaskId, TaskInfo,
};
use fairground_metrics::{MachineFacts, Metrics, Options, RunMetrics};

/// One millisecond.
pub const MS: Nanoseconds = 1_000_000;

/// A run that is being written down.
pub struct Run {
    metrics: Metrics,
    now: Nanoseconds,
}

/// The attributes of a task called `name` with this weight that may run everywhere.
pub fn task_info(name: &str, weight: u32) -> TaskInfo {
    TaskInfo {
        name: name.to_owned(),
        policy: Policy::Normal,
        nice: 0,
        rt_priority: 0,
        weight,
        allowed: Vec::new(),
        parent: None,
        daemon: false,
        group: None,
    }
}

impl Run {
    /// A run on equal CPUs.
    pub fn on(cpus: usize) -> Self {
        Self::with(MachineFacts::equal(cpus), Options::default())
    }

    /// A run on a machine of these facts.
    pub fn with(machine: MachineFacts, options: Options) -> Self {
        Self { metrics: Metrics::new(machine, options), now: 0 }
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
        self.event(EventKind::Switch {
            cpu: CpuId(cpu),
            prev: prev.into().map(TaskId),
            next: next.into().map(TaskId),
        })
    }

    /// A CPU has overhead from now on.
    pub fn overhead(&mut self, cpu: u32, kind: OverheadKind, duration: Nanoseconds) -> &mut Self {
        self.event(EventKind::Overhead { cpu: CpuId(cpu), kind, duration })
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
