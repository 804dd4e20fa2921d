//! What schedulers agree on with any kernel that runs them: task attributes, the variables that describe the machine, the kinds of exits,
//! and what became of quotas.
//! Nothing here reads or writes files.

pub mod attributes;
pub mod exit;
pub mod quota;
pub mod topology;
