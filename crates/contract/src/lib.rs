//! What schedulers agree on with whatever kernel runs them: the attributes of tasks, the variables that describe the machine, and the
//! kinds of exits. Nothing here reads or writes files.

pub mod attributes;
pub mod exit;
pub mod topology;
