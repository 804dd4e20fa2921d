//! A second, slow and obvious implementation of the rules of sched_ext's core, to check the engine with.
//!
//! The reference follows the log of the random scheduler. After each record it knows which callbacks must follow, and in which order.
//! Any other record (a wake-up, a tick, a task that sleeps, a CPU that looks for work) must be possible in the state that the records
//! before it have led to. It shares no code with the engine.

/// Returns an error that says which rule is broken, unless it holds.
macro_rules! rule {
    ($holds:expr, $($text:tt)*) => {
        if !$holds {
            return Err(format!($($text)*));
        }
    };
}

mod changes;
mod hotplug;
mod pass;
mod queues;
mod tasks;
pub mod trace;

use std::collections::VecDeque;

use trace::{Kind, Record};

const LOCAL: u64 = 1 << 63 | 2;
const GLOBAL: u64 = 1 << 63 | 1;
const LOCAL_ON: u64 = 3 << 62;
const WAKEUP: u64 = 1 | NOCLOCK;
const INITIAL: u64 = 0x8_0000 | NOCLOCK;
const CPU_SELECTED: u64 = 0x10_0000;
const AT_HEAD: u64 = 0x1_0000;
const PREEMPT: u64 = 1 << 32;
const LAST: u64 = 1 << 41;
const SLEEP: u64 = 1 | NOCLOCK;
/// Of a task that is taken off and put back while something about it changes.
const SAVE: u64 = 2;
/// Its place in its queue may change.
const MOVE: u64 = 4;
/// The clock of the run queue is up to date.
const NOCLOCK: u64 = 8;
/// Its class changes.
const CLASS: u64 = 0x40;
const MIGRATED: u64 = 0x4_0000;
/// In flags of a dequeue: not because it sleeps.
const CHANGE: u64 = 1 << 33;
/// Of a task on a CPU that goes offline, which puts it on its own queue.
const FOR_OFFLINE: u64 = SAVE | MOVE | NOCLOCK;
/// Of a task that may use other CPUs than before.
const FOR_CPUS: u64 = SAVE | NOCLOCK;
/// Ordinary tasks have this priority or a greater number.
const FIRST_ORDINARY: i32 = 100;
const WAKE_SYNC: u64 = 0x10;
const KICK_PREEMPT: u64 = 2;
const DEFAULT_SLICE: u64 = 20_000_000;
const LOOPS: u32 = 32;

/// The properties of a run's scheduler and machine.
#[derive(Clone, Debug)]
pub struct World {
    /// Node of each CPU.
    pub nodes: Vec<usize>,
    /// The attributes of each task, in the order of birth: at first, and after each change.
    pub attributes: Vec<VecDeque<Attributes>>,
    /// CPUs that go offline or come online: time, CPU, whether it is online after that.
    pub hotplug: Vec<(u64, usize, bool)>,
    pub has_select_cpu: bool,
    pub has_enqueue: bool,
    pub has_dispatch: bool,
    pub has_update_idle: bool,
    pub has_enq_last: bool,
    /// Length of a tick.
    pub tick: u64,
    /// Length of the run.
    pub duration: u64,
    /// Whether the cost model is `zero`, so that slices and times are exact.
    pub exact: bool,
}

/// The attributes that a task can change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// CPUs that it may use; none: all.
    pub allowed: Vec<usize>,
    /// The kernel's priority: below 100 for real-time tasks.
    pub priority: i32,
    /// Weight as sched_ext has it, 100 for nice 0.
    pub weight: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    Local(usize),
    Global(usize),
    User(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Asleep, or between two places.
    Nowhere,
    On(Queue),
    /// The scheduler keeps it.
    Kept,
    /// On its way to the queue of another CPU.
    Travelling,
    Running(usize),
}

#[derive(Clone, Copy, Debug)]
struct Insertion {
    pid: u32,
    dsq: u64,
    slice: u64,
    vtime: u64,
    ordered: bool,
    flags: u64,
    /// The `stay` of the task for which it was made.
    stay: u32,
}

#[derive(Debug)]
struct Task {
    pid: u32,
    is: Attributes,
    /// The same after each change that is still to come.
    later: VecDeque<Attributes>,
    /// It may use all CPUs since all of its own are offline, and goes to the first that is online.
    forced: bool,
    /// It has to leave a CPU that it may no longer use.
    pushed: bool,
    /// It has left, and which of the CPUs that it may use it goes to is not known yet.
    unsettled: bool,
    enabled: bool,
    cpu: usize,
    runnable: bool,
    /// Its position among all tasks, in the order in which they began to wait on their CPUs; 0 if it does not wait.
    waits: u64,
    place: Place,
    custody: bool,
    /// How often it was passed to `ops.enqueue()`.
    stay: u32,
    /// It has never been runnable.
    young: bool,
    slice: u64,
    /// The time up to which it has been charged, if it runs.
    since: u64,
    direct: Option<Insertion>,
    /// CPU that select_cpu chose, until it is runnable.
    selected: Option<usize>,
}

#[derive(Debug, Default)]
struct Cpu {
    current: Option<u32>,
    /// The task that has just gone to sleep or been taken off for a change.
    leaving: Option<u32>,
    in_dispatch: bool,
    rounds: u32,
    dispatched: u32,
    buffer: Vec<Insertion>,
    travellers: VecDeque<Insertion>,
    /// A kick ends the slice of its task once the current event is done.
    hurried: bool,
    /// Idle, and chosen for a task that has not arrived yet.
    claimed: bool,
    /// It must look for another task now, for example because the slice is used up.
    must_pass: bool,
    /// Its task, about which something has changed, and which goes on running; and whether its class has changed.
    changed: Option<(u32, bool)>,
    /// Its task was a real-time task until now, and the CPU has not looked for another since.
    came_back: bool,
    /// Its task was taken away by the stopper, and it has not looked for another yet.
    stopped: bool,
    offline: bool,
    /// The real-time task that runs on it.
    higher: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Expected {
    kind: Kind,
    pid: u32,
    a: Option<u64>,
    b: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inside {
    SelectCpu(u32, u64),
    Enqueue(u32),
    Dispatch(usize),
    Tick(u32),
}

/// The message about a broken rule.
type Broken = String;

pub struct Reference {
    world: World,
    tasks: Vec<Task>,
    births: usize,
    cpus: Vec<Cpu>,
    queues: Vec<(Queue, Vec<(u32, u64)>)>,
    expected: VecDeque<Expected>,
    /// Callbacks that the current record requires, ahead of those in `expected`.
    calls: Vec<Expected>,
    inside: Option<Inside>,
    /// The number of times that a task has begun to wait; see [`Task::waits`].
    waits: u64,
    /// Tasks that have to leave a CPU that went offline, in this order.
    leavers: VecDeque<u32>,
    /// The one of them that is leaving.
    leaver: Option<u32>,
    /// See [`coming()`]: these rules do not determine when real-time tasks run.
    coming: Vec<VecDeque<(usize, Option<u32>)>>,
    /// The real-time task that takes the CPU of the current record next, if one does.
    taker: Option<u32>,
    now: u64,
    /// A task that has changed without an event for it, and the CPU that it ran on.
    pub untold: Option<(u32, usize)>,
    /// For each CPU when it switched, and to which task; `None` for idle.
    pub switches: Vec<Vec<(u64, Option<u32>)>>,
    /// Which tasks woke up, and when.
    pub wakes: Vec<(u32, u64)>,
}

fn call(kind: Kind, pid: u32) -> Expected {
    Expected { kind, pid, a: None, b: None }
}

/// For each CPU the numbers of the records that show its work, each with the real-time task that takes the CPU there, if one does.
fn coming(records: &[Record], cpus: usize) -> Vec<VecDeque<(usize, Option<u32>)>> {
    use Kind::*;
    let mut coming = vec![VecDeque::new(); cpus];
    for (number, record) in records.iter().enumerate() {
        let taker = match record.kind {
            Taken => Some(record.pid),
            Stopping | Quiescent | Running | Idle | Left | DispatchBegin | TickBegin => None,
            _ => continue,
        };
        coming[record.cpu].push_back((number, taker));
    }
    coming
}

impl Reference {
    pub fn new(world: World) -> Self {
        let count = world.nodes.len();
        let mut offline = vec![false; count];
        for (_, cpu, _) in { world.hotplug.iter() }.filter(|(at, _, online)| *at == 0 && !online) {
            // The last CPU stays online.
            offline[*cpu] =
                offline.iter().filter(|offline| !**offline).count() > 1 || offline[*cpu];
        }
        Self {
            tasks: Vec::new(),
            births: 0,
            cpus: offline.into_iter().map(|offline| Cpu { offline, ..Cpu::default() }).collect(),
            queues: Vec::new(),
            expected: VecDeque::new(),
            calls: Vec::new(),
            inside: None,
            waits: 0,
            leavers: VecDeque::new(),
            leaver: None,
            coming: vec![VecDeque::new(); count],
            taker: None,
            now: 0,
            untold: None,
            switches: vec![Vec::new(); count],
            wakes: Vec::new(),
            world,
        }
    }

    /// Follows the records, which may be cut off at the end; the error says which broke a rule, and which came before.
    pub fn follow(&mut self, records: &[Record], whole: bool) -> Result<(), Broken> {
        self.coming = coming(records, self.cpus.len());
        for (number, record) in records.iter().enumerate() {
            let coming = &self.coming[record.cpu];
            let after = coming.iter().find(|(other, _)| *other > number);
            if !whole && (after.is_none() || self.waits_for_what_is_cut_off()) {
                return Ok(());
            }
            self.taker = after.and_then(|(_, taker)| *taker);
            self.next(record).map_err(|broken| {
                let text = |some: &[Record]| {
                    let lines: Vec<String> = some.iter().map(|one| format!("{one:?}")).collect();
                    lines.join("\n")
                };
                let after = records[number + 1..].iter().copied().take(5);
                format!(
                    "record {number}: {broken}\nexpected {:?}\n{}\nthen\n{}",
                    self.expected,
                    text(&records[number.saturating_sub(25)..=number]),
                    text(&after.collect::<Vec<_>>())
                )
            })?;
            let coming = &mut self.coming[record.cpu];
            coming.pop_front_if(|(other, _)| *other == number);
            if let Some((pid, cpu)) = self.untold {
                return self.check_untold(pid, cpu, &records[number + 1..]);
            }
        }
        Ok(())
    }

    fn waits_for_what_is_cut_off(&self) -> bool {
        let mut cpus = self.cpus.iter().zip(&self.coming);
        cpus.any(|(cpu, coming)| cpu.must_pass && coming.is_empty())
    }

    /// The event for a change follows its last callback, `running`. If there is none, the run must have ended before.
    fn check_untold(&self, pid: u32, cpu: usize, rest: &[Record]) -> Result<(), Broken> {
        use Kind::{Disable, ExitTask, Running};
        let here = rest.iter().filter(|record| record.cpu == cpu);
        let mut after = here.skip_while(|record| (record.kind, record.pid) != (Running, pid));
        after.next();
        let early = after.find(|record| {
            record.time <= self.world.duration && !matches!(record.kind, Disable | ExitTask)
        });
        rule!(
            early.is_none(),
            "{pid} has changed on CPU {cpu}, nothing tells of it, and the run goes on: {early:?}"
        );
        Ok(())
    }

    fn next(&mut self, record: &Record) -> Result<(), Broken> {
        if !self.world.has_dispatch {
            self.pass_unseen(record)?;
        }
        if record.time != self.now {
            self.check_instant()?;
            self.now = record.time;
        }
        if self.begins_offline(record) {
            self.goes_offline(record)?;
        }
        let call = self.expected.front().copied();
        let is_expected = call.is_some_and(|call| {
            (call.kind, call.pid) == (record.kind, record.pid)
                && call.a.is_none_or(|a| a == record.a)
                && call.b.is_none_or(|b| b == record.b)
        });
        if is_expected {
            self.expected.pop_front();
        } else if self.inside.is_none() && record.kind != Kind::SetCpumask
            || record.kind == Kind::Dequeue
        {
            rule!(call.is_none(), "{call:?} has to come");
        }
        self.handle(record, is_expected)?;
        for call in self.calls.drain(..).rev() {
            self.expected.push_front(call);
        }
        if self.expected.is_empty() && self.inside.is_none() {
            self.arrive()?;
            self.next_leaver()?;
        }
        Ok(())
    }

    fn handle(&mut self, record: &Record, expected: bool) -> Result<(), Broken> {
        use Kind::*;
        let pid = record.pid;
        match record.kind {
            InitTask => self.born(record),
            Enable => self.enabled(record)?,
            Disable | ExitTask => {
                let task = self.task_mut(pid)?;
                rule!(!task.runnable, "{pid} ends while it is runnable");
                task.enabled &= record.kind != Disable;
                if expected {
                    self.becomes_real_time(record)?;
                }
            }
            SetWeight => rule!(expected, "{pid} is said to weigh {}", record.a),
            SetCpumask => self.mask_changes(record, expected)?,
            SelectCpuBegin => self.select_begins(record)?,
            DefaultCpu => self.check_default(record)?,
            SelectCpuEnd => {
                self.inside = None;
                self.task_mut(pid)?.selected = Some(record.a as usize);
                self.calls.push(call(Runnable, pid));
            }
            Runnable => self.runnable(record, expected)?,
            EnqueueBegin => {
                rule!(expected, "an enqueue that nothing calls for");
                self.check_slice(record)?;
                self.settle(record)?;
                self.task_mut(pid)?.stay += 1;
                self.inside = Some(Inside::Enqueue(pid));
            }
            EnqueueEnd => {
                self.inside = None;
                self.enqueued(pid, record.a)?;
            }
            Dequeue => rule!(expected, "a dequeue that nothing calls for"),
            Insert | InsertOrdered => self.inserted(record)?,
            Kick => self.kicked(record),
            SetSlice => self.set_slice(pid, record.a)?,
            DispatchBegin => self.dispatch_begins(record, expected)?,
            DispatchEnd => self.dispatch_ends(record)?,
            Length => self.check_length(record)?,
            ToLocalBegin => self.moved_to_local(record)?,
            MoveBegin => self.moved(record)?,
            ToLocalEnd | MoveEnd => rule!(expected, "another result was due"),
            TickBegin => self.tick_begins(record)?,
            TickEnd => self.tick_ends(record)?,
            Yield => {
                self.check_running(record)?;
                self.set_slice(pid, 0)?;
                self.cpus[record.cpu].must_pass = true;
            }
            Stopping => self.stopping(record, expected)?,
            Quiescent => self.quiescent(record, expected)?,
            Idle => self.idle(record, expected)?,
            Running => self.running(record, expected)?,
            Taken => self.taken(record, expected)?,
            Left => self.left(record, expected)?,
            Offline => self.is_offline(record, expected)?,
            Online => self.is_online(record)?,
        }
        Ok(())
    }
}
