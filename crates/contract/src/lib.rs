//! What schedulers agree on with any kernel that runs them: task attributes, the variables that describe the machine, and the kinds of exits.
//! Nothing here reads or writes files.

pub mod attributes;
pub mod exit;
pub mod topology;
