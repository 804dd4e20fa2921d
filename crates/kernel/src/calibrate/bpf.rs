//! The cost of a scheduler's code: schedulers that do something in their callbacks, compared with one that has none.

use std::io;

use fairground_bpf::{Object, Setup, Value};
use fairground_workload::Policy;

use super::switches::handoff;
use super::threads::Helper;
use super::{Basis, Calibration};
use crate::host::KernelTypes;
use crate::loader::{OpenScheduler, Running};
use crate::{Error, host};

/// Callbacks in a handoff: one task stops and sleeps, the other one becomes runnable and runs.
const CALLBACKS: u64 = 4;

/// Instructions that `running` executes on request.
const INSTRUCTIONS: u64 = 2_000;

/// Calls of kernel functions that `running` makes on request.
const CALLS: u64 = 90;

/// Tasks that wait while `dispatch` iterates over them on request.
const WAITING: u64 = 32;

/// A callback's work in each turn.
#[derive(Clone, Copy, Debug)]
pub enum Extra {
    /// It executes [`INSTRUCTIONS`].
    Instructions,
    /// It makes [`CALLS`] calls.
    Calls,
    /// It kicks a CPU.
    Kick,
}

impl Extra {
    /// The program's variable that requests it.
    fn variable(self) -> &'static str {
        match self {
            Extra::Instructions => "instructions",
            Extra::Calls => "calls",
            Extra::Kick => "kicks",
        }
    }
}

/// Which scheduler to put in charge.
#[derive(Clone, Copy, Debug)]
pub enum Probe {
    /// Without callbacks.
    Bare,
    /// With callbacks that do only the requested work.
    Callbacks(Option<Extra>),
    /// With its own queue, which `dispatch` can iterate over.
    Walk {
        /// Whether it does.
        walks: bool,
    },
}

/// A scheduler in charge, until this is dropped.
pub struct Scheduler(#[allow(dead_code)] Running);

impl Scheduler {
    pub fn start(kind: Probe) -> Result<Self, Error> {
        host::check_can_load()?;
        let (name, object, setting): (_, &[u8], Option<(&str, bool)>) = match kind {
            Probe::Bare => (
                "calibrate_bare",
                include_bytes!(concat!(env!("OUT_DIR"), "/calibrate_bare.bpf.o")),
                None,
            ),
            Probe::Callbacks(extra) => (
                "calibrate",
                include_bytes!(concat!(env!("OUT_DIR"), "/calibrate_callbacks.bpf.o")),
                extra.map(|extra| (extra.variable(), true)),
            ),
            Probe::Walk { walks } => (
                "calibrate_walk",
                include_bytes!(concat!(env!("OUT_DIR"), "/calibrate_walk.bpf.o")),
                Some(("walks", walks)),
            ),
        };
        let parsed = Object::parse(object)
            .map_err(|error| Error::Object { name: name.to_owned(), reason: error.to_string() })?;
        let settings = setting.map(|(name, value)| (name.to_owned(), vec![u8::from(value)]));
        let values: Vec<Value<'_>> = Value::of_tunables(settings.as_slice()).collect();
        let (kernel, setup) = (KernelTypes::read()?, Setup::default());
        let scheduler = OpenScheduler::open(name, object, &parsed, &kernel, &values, setup)?;
        Ok(Self(scheduler.start(&[])?))
    }
}

/// A handoff under a scheduler.
fn handoff_under(kind: Probe, cpu: u32) -> io::Result<u64> {
    let _scheduler = Scheduler::start(kind).map_err(io::Error::other)?;
    handoff(cpu)
}

pub fn measure(result: &mut Calibration, cpu: u32, basis: Basis) -> io::Result<()> {
    let callbacks = |extra| handoff_under(Probe::Callbacks(extra), cpu);
    let bare = basis.handoff();
    let empty = callbacks(None)?;
    let how = "fairground calibrate: two threads that wake one another under a sched_ext scheduler";
    result.add(
        "callback",
        empty.saturating_sub(bare) / CALLBACKS,
        format!("{how} with four callbacks in each turn, less under one without"),
    );
    let executing = callbacks(Some(Extra::Instructions))?.saturating_sub(empty);
    result.add(
        "kilo_instructions",
        executing * 1_000 / INSTRUCTIONS,
        format!("{how} that executes {INSTRUCTIONS} instructions in each turn, less under one that does not"),
    );
    let calling = callbacks(Some(Extra::Calls))?.saturating_sub(empty);
    let kfunc = calling / CALLS;
    result.add(
        "kfunc",
        kfunc,
        format!("{how} with {CALLS} calls in each turn, a third each of scx_bpf_now, scx_bpf_dsq_nr_queued and bpf_task_storage_get, less under one without"),
    );
    let kicking = callbacks(Some(Extra::Kick))?.saturating_sub(empty);
    result.add(
        "irq_work",
        kicking.saturating_sub(kfunc),
        format!("{how} that kicks the CPU in each turn, less under one that does not, less kfunc"),
    );
    let lock = result
        .costs
        .iter()
        .find(|cost| cost.name == "lock")
        .and_then(|cost| cost.ns[0])
        .unwrap_or(0);
    let walking = walk(cpu, true)?.saturating_sub(walk(cpu, false)?) / WAITING;
    result.add(
        "scan",
        walking.saturating_sub(kfunc + lock),
        format!("{how} that walks over {WAITING} waiting tasks in each turn, less under one that does not, less kfunc and lock per task"),
    );
    Ok(())
}

/// A handoff while tasks wait that never get a turn: they have the idle policy, and this scheduler keeps such tasks waiting.
fn walk(cpu: u32, walks: bool) -> io::Result<u64> {
    let _scheduler = Scheduler::start(Probe::Walk { walks }).map_err(io::Error::other)?;
    let waiting = (0..WAITING)
        .map(|_| Helper::start(cpu, Some(Policy::Idle), None, std::thread::yield_now))
        .collect::<io::Result<Vec<_>>>()?;
    super::threads::pause(20);
    let result = handoff(cpu);
    drop(_scheduler);
    drop(waiting);
    result
}
