//! Agreements of schedulers with any kernel that runs them: task attributes, the variables that describe the machine, the kinds of exits,
//! and the use of quotas.
//! Nothing here reads or writes files.

pub mod attributes;
pub mod exit;
pub mod quota;
pub mod topology;
