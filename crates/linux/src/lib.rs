//! The interface of Linux releases to schedulers: kernel functions, helpers, callbacks and other settings, each in one table (`tables/`), with the
//! releases that have it. The same row has the meaning of a name, its requirements and its permitted callers.
//!
//! The tables are checked against the types of two kernels, if those are there (`crates/simulator/src/kernels.rs`).

mod functions;
mod helpers;
mod members;
mod release;
mod row;
mod variables;

pub use functions::{Function, Successor, function, functions};
pub use helpers::{Helper, helper, helpers};
pub use members::{CID_FORM, CPU_FORM, Member, MemberKind, member, members};
pub use release::{Release, Releases};
pub use row::{Group, Groups};
pub use variables::{has_variable, variables};
