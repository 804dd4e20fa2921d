//! The lives of tasks: the steps of each task, put together from entries.

use std::collections::HashMap;
use std::mem;

use crate::file::{Recording, Roots};
use crate::groups::Groups;
use crate::names;
use crate::numbers::Numbers;
use crate::record::{Context, Description, Entry, EntryKind};
use crate::steps::{Call, LifeId, Step, Steps, Wait};

/// Number of `sched_yield()` on x86.
const YIELD: i32 = 24;

/// Kernel work in a task's CPU time that a simulation adds to its program again; nanoseconds each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelWork {
    /// Switching to the task.
    pub switch: u64,
    /// Waking another task, without the system call.
    pub waking: u64,
    /// A system call in which it waits, yields or wakes another.
    pub call: u64,
}

/// From a wake-up of a thread to its next sleep; nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// When it was woken, since the beginning of the recording.
    pub at: u64,
    /// CPU time that it used.
    pub cpu_time: u64,
}

/// Policy, nice value and real-time priority.
type Rank = (u32, i32, u32);

/// The ranks that a task had, each with the time for which it had it.
#[derive(Clone, Debug, Default)]
struct Ranks {
    all: Vec<(Rank, u64)>,
    /// Which of them it has, and since when.
    present: usize,
    since: u64,
}

impl Ranks {
    /// Takes note of a rank from now on.
    fn change(&mut self, rank: Rank, time: u64) {
        self.end(time);
        let place = self.all.iter().position(|(one, _)| *one == rank);
        self.present = place.unwrap_or(self.all.len());
        if place.is_none() {
            self.all.push((rank, 0));
        }
    }

    /// Counts the present one up to now.
    fn end(&mut self, time: u64) {
        if let Some((_, held)) = self.all.get_mut(self.present) {
            *held += time.saturating_sub(self.since);
        }
        self.since = time;
    }
}

/// The life of a task.
#[derive(Clone, Debug, Default)]
pub(crate) struct Life {
    /// Its last description, with the rank that it had for longest.
    pub description: Description,
    ranks: Ranks,
    /// Whether it is a chosen task.
    pub chosen: bool,
    /// Whether it has run in another control group before.
    pub moved: bool,
    /// Whether it has left a CPU.
    ran: bool,
    /// When it was created, if that was recorded.
    pub born: Option<u64>,
    /// When it ended.
    pub ended: Option<u64>,
    /// Whether a chosen task has a step that creates it.
    pub forked: bool,
    /// Its steps.
    pub steps: Steps,
    /// CPU time that it used.
    pub cpu_time: u64,
    /// Whether it was running or runnable at the end.
    pub open: bool,
    /// When it fell asleep, if it was asleep at the end.
    pub asleep_since: Option<u64>,
    /// Its turns, if it is not a chosen task.
    pub turns: Vec<Turn>,
}

/// The kernel's number of `SCHED_DEADLINE`.
pub(crate) const DEADLINE: u32 = 6;

impl Life {
    /// Whether its rank has changed, such as while it held a mutex for which another one waited.
    pub fn changed_rank(&self) -> bool {
        self.ranks.all.len() > 1
    }

    /// Takes note of a description.
    fn describe(&mut self, description: &Description, time: u64) {
        let Description { policy, nice, rt_priority, .. } = *description;
        self.ranks.change((policy, nice, rt_priority), time);
        let before = self.description.group;
        self.description = description.clone();
        if description.ending && self.ran {
            self.description.group = before;
        }
        self.moved |= self.ran && self.description.group != before;
    }

    /// Gives it the rank that it had for longest.
    fn settle(&mut self, end: u64) {
        self.ranks.end(end);
        let longest = self.ranks.all.iter().max_by_key(|(_, held)| *held);
        let Some(((policy, nice, rt_priority), _)) = longest.copied() else { return };
        self.description =
            Description { policy, nice, rt_priority, ..mem::take(&mut self.description) };
    }

    /// Whether it is of a class above the ordinary ones, for whose timers there is no slack.
    pub fn is_real_time(&self) -> bool {
        matches!(self.description.policy, 1 | 2 | DEADLINE)
    }

    /// Where its record begins.
    pub fn begin(&self) -> u64 {
        self.born.unwrap_or(0)
    }
}

/// Where entries contradict those before them, because something between them is missing: a task leaves a CPU that another one had, comes to
/// one while it has another, or comes to one while it sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    /// How many such entries there are.
    pub count: u64,
    /// Switches from one task to the next in all.
    pub switches: u64,
    /// CPU time from the last switch before a missing one to the next switch: whose it was is not certain. Nanoseconds.
    pub cpu_time: u64,
    /// Time of CPUs on which a task was first found, before which entries were overwritten. Nanoseconds.
    pub unknown: u64,
}

impl Gaps {
    /// More gaps than this for each switch make a recording unreliable.
    pub(crate) const MOST: f64 = 0.01;

    /// Gaps as a fraction of the switches.
    pub fn share(&self) -> f64 {
        self.count as f64 / self.switches.max(1) as f64
    }

    /// Whether there are any, or time of which nothing is known.
    pub fn are_notable(&self) -> bool {
        self.count > 0 || self.unknown >= 1_000_000
    }

    /// Whether there are so many that the recording should not be relied on.
    pub fn are_many(&self) -> bool {
        self.share() > Self::MOST
    }
}

/// All lives of a recording, and where entries contradict each other.
#[derive(Debug, Default)]
pub(crate) struct Lives {
    pub all: Vec<Life>,
    pub gaps: Gaps,
    pub groups: Groups,
    /// Whether the recording lacks system calls.
    pub without_calls: bool,
    /// Whether a CPU may begin late.
    overwritten: bool,
    /// Left out of runs.
    work: KernelWork,
    /// By process.
    crews: HashMap<u32, Crew>,
    /// The state of each CPU.
    cpus: Vec<Cpu>,
}

impl Recording {
    /// When the last of the tasks that lived to the end was created, nanoseconds since the beginning.
    pub fn last_birth(&self) -> u64 {
        let lives = Lives::of(self, Default::default()).all;
        let living = lives.iter().filter(|life| life.chosen && life.ended.is_none());
        living.map(|life| life.begin()).max().unwrap_or(0)
    }

    /// Where something is missing in it.
    pub fn gaps(&self) -> Gaps {
        Lives::gaps(self)
    }
}

/// Numbers lives.
#[derive(Default)]
pub(crate) struct Census {
    present: HashMap<u32, LifeId>,
    count: usize,
}

impl Census {
    /// The life of the task with this number; `None` for no task.
    pub fn of(&mut self, task: u32) -> Option<LifeId> {
        if task == 0 {
            return None;
        }
        let next = self.count;
        let id = *self.present.entry(task).or_insert(next);
        self.count = self.count.max(id + 1);
        Some(id)
    }

    /// The new life of the task with this number.
    pub fn born(&mut self, task: u32) -> Option<LifeId> {
        self.present.remove(&task);
        self.of(task)
    }

    /// Frees the number of a task after its last switch.
    pub fn after(&mut self, kind: &EntryKind) {
        if let EntryKind::Switch { task, .. } = kind
            && kind.is_end()
        {
            self.present.remove(task);
        }
    }
}

/// A task's present activity.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Mode {
    /// It has not been seen yet.
    #[default]
    Unknown,
    /// It is on a CPU.
    Runs {
        /// The time up to which its CPU time has been counted.
        since: u64,
        /// The CPU.
        cpu: usize,
    },
    /// It left its CPU at this time or later, which was not seen; it sleeps or is runnable.
    Gone(u64),
    /// It is runnable.
    Ready,
    /// It sleeps.
    Sleeps(Wait),
    /// It has ended.
    Over,
}

/// A wake-up of a task that was not asleep. If it was about to sleep, it does not.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Early {
    time: u64,
    context: Context,
    waker: Option<LifeId>,
    by_kernel: bool,
    /// Number of the wake-up, if the waker is a chosen task.
    post: u32,
}

/// The end of a task's stay on a CPU.
#[derive(Clone, Copy)]
struct Here {
    cpu: usize,
    /// When the CPU's uncounted time began.
    since: u64,
    /// Whether the switch before this one is missing.
    missing: bool,
}

/// A CPU, as far as its switches tell.
#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    /// Which task has it, `Some(None)` for none; unknown before its first switch and where a switch is missing.
    holder: Option<Option<LifeId>>,
    /// The last switch, or a later time up to which its time has been counted.
    since: u64,
    /// Whether it has switched.
    has_switched: bool,
    /// Whether anything has happened on it.
    has_begun: bool,
}

#[derive(Clone, Debug, Default)]
struct State {
    mode: Mode,
    /// When it was last seen.
    seen: u64,
    /// CPU time since its last step.
    burst: u64,
    /// How much of the next CPU time is kernel work to be left out.
    kernels: u64,
    early: Option<Early>,
    /// When it first got a CPU after its last wait.
    back: Option<u64>,
    /// When it was woken, and the time that it has used since, if it is not a chosen task.
    turn: Option<Turn>,
}

/// The threads of a process that are on CPUs.
#[derive(Debug, Default)]
struct Crew {
    on_cpus: Vec<LifeId>,
    /// The thread that left a CPU last, and when.
    last: Option<(LifeId, u64)>,
    /// When another thread last left one.
    before: Option<u64>,
}

impl Crew {
    fn come(&mut self, id: LifeId) {
        if !self.on_cpus.contains(&id) {
            self.on_cpus.push(id);
        }
    }

    fn leave(&mut self, id: LifeId, time: u64) {
        self.on_cpus.retain(|other| *other != id);
        match self.last.replace((id, time)) {
            Some((other, time)) if other != id => self.before = Some(time),
            _ => {}
        }
    }

    /// Whether a thread other than this one has run since then.
    fn others_ran(&self, id: LifeId, since: u64) -> bool {
        let left = match self.last {
            Some((other, time)) if other != id => Some(time),
            _ => self.before,
        };
        self.on_cpus.iter().any(|other| *other != id) || left.is_some_and(|left| left > since)
    }
}

/// Wake-ups of chosen tasks by each other.
#[derive(Default)]
struct Wakings {
    /// How many there are; they are numbered from 1.
    count: u32,
    /// Those that ended a wait.
    heard: Numbers,
}

/// A wait that was not seen to begin.
fn unseen(from: u64, until: u64) -> Wait {
    Wait {
        from,
        until,
        context: Context::Task,
        waker: None,
        post: 0,
        by_kernel: false,
        disk: false,
        call: None,
        undisturbed: false,
    }
}

/// All lives, with their descriptions and whether they are chosen, and the control groups.
fn census(recording: &Recording) -> (Vec<Life>, Groups) {
    let mut groups = Groups::default();
    let mut census = Census::default();
    let mut lives: Vec<Life> = Vec::new();
    let mut numbers: Vec<u32> = Vec::new();
    let mut parents: Vec<Option<LifeId>> = Vec::new();
    let header = &recording.header;
    for entry in recording.entries() {
        let time = entry.time.max(header.origin);
        let mut meet = |id: Option<LifeId>, task: u32| {
            if id == Some(lives.len()) {
                lives.push(Life::default());
                numbers.push(task);
                parents.push(None);
            }
        };
        match &entry.kind {
            EntryKind::Switch { task, next, .. } => {
                let leaves = census.of(*task);
                meet(leaves, *task);
                meet(census.of(*next), *next);
                if let Some(id) = leaves {
                    lives[id].ran = true;
                    if entry.kind.is_end() {
                        lives[id].ranks.end(time);
                        lives[id].ranks.since = u64::MAX;
                    }
                }
            }
            EntryKind::Waking { task, by, .. } => {
                meet(census.of(*task), *task);
                meet(census.of(*by), *by);
            }
            EntryKind::Born { task, by } => {
                let parent = census.of(*by);
                meet(parent, *by);
                let child = census.born(*task);
                meet(child, *task);
                if let Some(child) = child {
                    parents[child] = parent;
                }
            }
            EntryKind::Task { task, description } => {
                let id = census.of(*task);
                meet(id, *task);
                if let Some(life) = id.map(|id| &mut lives[id]) {
                    life.describe(description, time);
                }
            }
            EntryKind::Group(group) => groups.describe(entry.time, group),
        }
        census.after(&entry.kind);
    }
    for id in 0..lives.len() {
        let life = &mut lives[id];
        life.settle(recording.ending.end);
        let name = life.description.name.as_str();
        let recorded = header.from_text && names::is_recorders(name);
        life.description.kernel |= header.from_text && names::is_kernels(name);
        let own = life.description.process;
        lives[id].chosen = !lives[id].description.kernel
            && match &header.roots {
                Roots::All => own != 0 && own != header.recorder && !recorded,
                // Parents have smaller numbers than their children, so they are known here.
                Roots::Tasks(roots) => {
                    parents[id].is_some_and(|parent| lives[parent].chosen)
                        || roots.contains(&numbers[id])
                        || (own != 0 && parents[id].is_none() && roots.contains(&own))
                }
            };
        if lives[id].description.name.is_empty() {
            lives[id].description.name = format!("thread-{}", numbers[id]);
        }
    }
    (lives, groups)
}

impl Lives {
    /// The life of every task of `recording`; `work` is left out of runs.
    pub fn of(recording: &Recording, work: KernelWork) -> Self {
        let mut lives = Self::census(recording, work);
        lives.read(recording);
        lives
    }

    /// The tasks, before anything is known about their steps.
    fn census(recording: &Recording, work: KernelWork) -> Self {
        let (all, groups) = census(recording);
        Self {
            work,
            crews: HashMap::new(),
            cpus: Vec::new(),
            all,
            groups,
            gaps: Gaps::default(),
            without_calls: recording.header.without_calls,
            overwritten: recording.header.overwritten,
        }
    }

    /// Reads all entries.
    fn read(&mut self, recording: &Recording) {
        let mut census = Census::default();
        let mut states = vec![State::default(); self.all.len()];
        let (origin, end) = (recording.header.origin, recording.ending.end);
        let mut wakings = Wakings::default();
        for entry in recording.entries() {
            if entry.time > end {
                break;
            }
            let past = entry.time < origin;
            let time = entry.time.saturating_sub(origin);
            self.enter(&mut census, &mut states, &entry, (!past).then_some(time), &mut wakings);
            census.after(&entry.kind);
        }
        self.finish(&mut states, end - origin, &wakings);
        self.crews.clear();
    }

    /// Processes one entry. An entry from before the beginning has no time, and only assigns numbers.
    fn enter(
        &mut self,
        census: &mut Census,
        states: &mut [State],
        entry: &Entry,
        time: Option<u64>,
        wakings: &mut Wakings,
    ) {
        let cpu = usize::from(entry.cpu);
        if cpu >= self.cpus.len() {
            self.cpus.resize(cpu + 1, Cpu::default());
        }
        self.begin(cpu, &entry.kind, time);
        match &entry.kind {
            EntryKind::Switch { task, next, state, preempted, disk, call, first, .. } => {
                let (task, next) = (census.of(*task), census.of(*next));
                let Some(time) = time else {
                    self.cpus[cpu].holder = Some(next);
                    return;
                };
                self.gaps.switches += 1;
                let here = self.before(states, cpu, task, time);
                if let Some(id) = task {
                    let wait = Wait {
                        from: time,
                        until: time,
                        context: Context::Task,
                        waker: None,
                        post: 0,
                        by_kernel: false,
                        disk: *disk,
                        call: Some(Call { number: *call, first: *first }),
                        undisturbed: false,
                    };
                    let runnable = *state == 0 || *preempted;
                    self.leave(&mut states[id], id, here, time);
                    if entry.kind.is_end() {
                        self.flush(&mut states[id], id);
                        states[id].mode = Mode::Over;
                        self.all[id].ended = Some(time);
                    } else if runnable {
                        states[id].mode = Mode::Ready;
                        if *call == YIELD && !preempted && self.all[id].chosen {
                            states[id].kernels += self.work.call;
                            self.flush(&mut states[id], id);
                            self.all[id].steps.push(Step::Yield);
                        }
                    } else {
                        self.sleep(&mut states[id], id, wait, wakings);
                    }
                    states[id].early = None;
                }
                let before = self.cpus[cpu];
                self.cpus[cpu] =
                    Cpu { holder: Some(next), since: time, has_switched: true, ..before };
                if let Some(id) = next {
                    let state = &mut states[id];
                    let contradicts = self.take_away(state, id)
                        || matches!(state.mode, Mode::Sleeps(_) | Mode::Over);
                    self.gaps.count += u64::from(contradicts);
                    self.come(state, id, cpu, time);
                }
            }
            EntryKind::Waking { task, by, context } => {
                let (id, by) = (census.of(*task), census.of(*by));
                if let (Some(id), Some(time)) = (id, time) {
                    self.wake(states, id, by, *context, time, wakings);
                }
            }
            EntryKind::Born { task, by } => {
                let parent = census.of(*by);
                let child = census.born(*task);
                let Some(child) = child else { return };
                // A task born before the beginning is first seen when it does something.
                let Some(time) = time else { return };
                self.all[child].born = Some(time);
                states[child].mode = Mode::Ready;
                states[child].seen = time;
                states[child].turn = Some(Turn { at: time, cpu_time: 0 });
                if let Some(parent) = parent
                    && self.all[parent].chosen
                    && self.all[child].chosen
                    && matches!(states[parent].mode, Mode::Runs { .. })
                {
                    self.pause(&mut states[parent], parent, time);
                    self.all[parent].steps.push(Step::Fork(child));
                    self.all[child].forked = true;
                }
            }
            EntryKind::Task { task, .. } => {
                census.of(*task);
            }
            EntryKind::Group(_) => {}
        }
    }

    /// Takes note of the first entry of a CPU. Nothing is known of the time before it if an older part was overwritten.
    fn begin(&mut self, cpu: usize, first: &EntryKind, time: Option<u64>) {
        let (EntryKind::Switch { task: there, .. }
        | EntryKind::Waking { by: there, .. }
        | EntryKind::Born { by: there, .. }) = first
        else {
            return;
        };
        let cpu = &mut self.cpus[cpu];
        let has_begun = mem::replace(&mut cpu.has_begun, true);
        if let (true, false, Some(time)) = (self.overwritten, has_begun, time) {
            cpu.since = time;
            self.gaps.unknown += if *there == 0 { 0 } else { time };
        }
    }

    /// Only the gaps, without the tasks' steps.
    pub fn gaps(recording: &Recording) -> Gaps {
        let nobody = |life: &mut Life| life.chosen = false;
        let mut lives = Self::census(recording, KernelWork::default());
        lives.all.iter_mut().for_each(nobody);
        lives.read(recording);
        lives.gaps
    }

    /// Adds the CPU time up to now.
    fn account(&mut self, state: &mut State, id: LifeId, time: u64) {
        if let Mode::Runs { since, .. } = &mut state.mode {
            let used = time.saturating_sub(*since);
            *since = time;
            state.burst += used;
            self.all[id].cpu_time += used;
            if let Some(turn) = &mut state.turn {
                turn.cpu_time += used;
            }
        }
    }

    /// Makes a step of the CPU time since the last step.
    fn flush(&mut self, state: &mut State, id: LifeId) {
        let kernels = state.kernels.min(state.burst);
        state.kernels -= kernels;
        let burst = mem::take(&mut state.burst) - kernels;
        if !self.all[id].chosen {
            return;
        }
        if kernels > 0 {
            self.all[id].steps.push(Step::Kernel(kernels));
        }
        if burst > 0 {
            self.all[id].steps.push(Step::Run(burst));
        }
    }

    /// Splits the run of the task here, to put a step at its place in it.
    fn pause(&mut self, state: &mut State, id: LifeId, time: u64) {
        self.account(state, id, time);
        self.flush(state, id);
    }

    /// Compares the task that leaves a CPU with the one that had it. If they differ, the switch between them is missing, and the CPU's time
    /// since its last switch, which cannot be divided, goes to the one that leaves: so no time of a CPU counts twice.
    fn before(
        &mut self,
        states: &mut [State],
        cpu: usize,
        task: Option<LifeId>,
        time: u64,
    ) -> Here {
        let Cpu { holder, mut since, has_switched, .. } = self.cpus[cpu];
        let is_first = holder.is_none() && !has_switched;
        let missing = !is_first && holder != Some(task);
        // Where the holder is unknown, the gap was counted when it turned up elsewhere.
        self.gaps.count += u64::from(missing && holder.is_some());
        if missing {
            self.gaps.cpu_time += time.saturating_sub(since);
        }
        if let (true, Some(Some(id))) = (missing, holder)
            && let Mode::Runs { since: counted, .. } = states[id].mode
        {
            since = since.max(counted);
            states[id].mode = Mode::Gone(counted);
            states[id].early = None;
            self.crew(id).leave(id, counted);
        }
        Here { cpu, since, missing }
    }

    /// Ends a task's stay on a CPU if it shows up as new on one; returns whether it had one.
    fn take_away(&mut self, state: &mut State, id: LifeId) -> bool {
        let Mode::Runs { since, cpu } = state.mode else { return false };
        state.mode = Mode::Gone(since);
        let before = &mut self.cpus[cpu];
        if before.holder == Some(Some(id)) {
            before.holder = None;
            before.since = before.since.max(since);
        }
        true
    }

    fn leave(&mut self, state: &mut State, id: LifeId, here: Here, time: u64) {
        let cpu = here.cpu;
        match state.mode {
            Mode::Runs { cpu: own, .. } if own == cpu => {}
            // It has had the CPU since before the beginning.
            Mode::Unknown if !here.missing => state.mode = Mode::Runs { since: here.since, cpu },
            _ => {
                self.gaps.count += u64::from(!here.missing);
                self.take_away(state, id);
                let arrival = here.since.max(state.seen);
                self.come(state, id, cpu, arrival);
            }
        }
        self.account(state, id, time);
        state.seen = time;
        self.crew(id).leave(id, time);
    }

    /// The threads of this task's process.
    fn crew(&mut self, id: LifeId) -> &mut Crew {
        let process = self.all[id].description.process;
        self.crews.entry(process).or_default()
    }

    fn sleep(&mut self, state: &mut State, id: LifeId, mut wait: Wait, wakings: &mut Wakings) {
        state.kernels += self.work.call;
        self.flush(state, id);
        let back = state.back.take();
        wait.undisturbed = back.is_some_and(|back| !self.crew(id).others_ran(id, back));
        self.end_turn(state, id);
        state.mode = match state.early {
            None => Mode::Sleeps(wait),
            Some(early) => {
                wait.until = wait.from.max(early.time);
                wait.context = early.context;
                wait.by_kernel = early.by_kernel;
                wait.waker = early.waker;
                wait.post = early.post;
                wakings.heard.insert(early.post);
                self.end_wait(id, wait);
                Mode::Ready
            }
        };
    }

    fn end_turn(&mut self, state: &mut State, id: LifeId) {
        if let Some(turn) = state.turn.take()
            && !self.all[id].chosen
        {
            self.all[id].turns.push(turn);
        }
    }

    fn end_wait(&mut self, id: LifeId, wait: Wait) {
        if self.all[id].chosen {
            self.all[id].steps.push(Step::Wait(wait));
        }
    }

    fn come(&mut self, state: &mut State, id: LifeId, cpu: usize, time: u64) {
        // Its wake-up is missing.
        if let Mode::Sleeps(wait) = state.mode {
            self.end_wait(id, Wait { until: time, context: Context::Device, ..wait });
        }
        state.seen = time;
        state.turn.get_or_insert(Turn { at: time, cpu_time: 0 });
        state.kernels += self.work.switch;
        state.back.get_or_insert(time);
        self.crew(id).come(id);
        state.mode = Mode::Runs { since: time, cpu };
    }

    fn wake(
        &mut self,
        states: &mut [State],
        id: LifeId,
        by: Option<LifeId>,
        context: Context,
        time: u64,
        wakings: &mut Wakings,
    ) {
        let wait = match states[id].mode {
            Mode::Sleeps(wait) => Some(wait),
            Mode::Unknown if self.all[id].born.is_none() => Some(unseen(0, time)),
            Mode::Gone(from) => {
                self.flush(&mut states[id], id);
                self.end_turn(&mut states[id], id);
                Some(unseen(from, time))
            }
            Mode::Runs { .. } => None,
            _ => return,
        };
        let from_task = context == Context::Task && by != Some(id);
        let by = by.filter(|_| from_task);
        let waker = by.filter(|by| {
            self.all[id].chosen
                && self.all[*by].chosen
                && matches!(states[*by].mode, Mode::Runs { .. })
        });
        let by_kernel = by.is_some_and(|by| self.all[by].description.kernel);
        let mut post = 0;
        if let Some(waker) = waker {
            wakings.count += 1;
            post = wakings.count;
            states[waker].kernels += self.work.call + self.work.waking;
            self.pause(&mut states[waker], waker, time);
            self.all[waker].steps.push(Step::Post { to: id, id: post });
        }
        let Some(mut wait) = wait else {
            states[id].early = Some(Early { time, context, waker, by_kernel, post });
            return;
        };
        wait.until = time;
        // The idle task wakes another only when an interrupt from another CPU has asked it to.
        let idle = from_task && by.is_none();
        wait.context = if idle { Context::Device } else { context };
        wait.by_kernel = by_kernel;
        wait.waker = waker;
        wait.post = post;
        wakings.heard.insert(post);
        self.end_wait(id, wait);
        states[id].mode = Mode::Ready;
        states[id].seen = time;
        states[id].turn = Some(Turn { at: time, cpu_time: 0 });
    }

    fn finish(&mut self, states: &mut [State], end: u64, wakings: &Wakings) {
        for (id, state) in states.iter_mut().enumerate() {
            self.pause(state, id, end);
            self.end_turn(state, id);
            let life = &mut self.all[id];
            life.open = matches!(state.mode, Mode::Runs { .. } | Mode::Ready);
            life.asleep_since = match state.mode {
                Mode::Sleeps(wait) => Some(wait.from),
                Mode::Gone(from) => Some(from),
                _ => None,
            };
            let counts = |step: &Step| !matches!(step, Step::Post { id, .. } if !wakings.heard.contains(*id));
            if !life.steps.iter().all(|step| counts(&step)) {
                life.steps = life.steps.iter().filter(counts).collect();
            }
            life.turns.retain(|turn| turn.cpu_time > 0);
            // A task known only by its description took no part.
            life.chosen &= !life.steps.is_empty() || life.forked;
        }
    }
}
