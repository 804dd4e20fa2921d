//! Workloads: rt-app files as programs of tasks.
//!
//! [`Workload::read`] reads a file in rt-app's JSON language, as understood by the current rt-app and version 1.0. Reading is strict: an
//! unknown key under `fairground`, a dangling reference, a repeated name or a value out of range is an [`Error`] with its place. Input that rt-app or
//! its `workgen` script tolerate, such as other unknown keys, is accepted and recorded in [`Workload::notes`], as are features that a simulation only
//! approximates.
//!
//! Extensions of the language are under keys that begin with `fairground`, which rt-app ignores. The key `"fairground"` of a task is an object
//! with attributes for the scheduler (shares, caps and the like; see [`Task::attributes`]), the process whose address space the task has
//! ([`Task::process`]), and how its events vary ([`Phase::variations`]); at the top level it has settings of mutexes, pipes and control groups. Among the
//! events, longer keys hold additional events. `workloads/README.md` describes all of this.
//!
//! Where versions of rt-app differ, the reader follows the current one, with one exception: the name that `suspend` carries is the condition
//! that it waits on, as in rt-app 1.0 and as intended by the examples that come with every version; the current rt-app ignores the name and
//! waits on the task's own.

mod check;
mod draft;
mod error;
mod event;
mod events;
mod expression;
mod extension;
mod global;
mod groups;
mod json;
mod keys;
mod model;
mod names;
mod notes;
mod object;
mod parameter;
mod policy;
mod reading;
mod resources;
mod task;
mod template;
mod timer;
mod variation;
mod waiting;
mod workload;

pub use draft::{Draft, Path};
pub use error::Error;
pub use events::{Cursor, Event, Events, Place, Source, TimerMode};
pub use model::{
    Arrivals, Bandwidth, Barrier, Drive, Elevator, Group, GroupChange, GroupSettings, Mutex, Phase,
    Pipe, PipeKind, Policy, Share, Task, Timer, Workload,
};
pub use parameter::Parameter;
pub use template::{Arguments, Template};
pub use timer::Expiry;
pub use variation::{Draws, Factor, Variation};
pub use waiting::Waiting;
