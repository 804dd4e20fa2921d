//! The command as a user meets it.

mod beginning;
mod calibrating;
mod capturing;
mod checking;
mod companions;
mod comparing;
mod data_sets;
mod documented;
mod ending;
mod errors;
mod examples;
mod explaining;
mod hunting;
mod installing;
mod linked;
mod listing;
mod ranking;
mod recordings;
mod reproducing;
mod requiring;
mod schemas;
mod showing;
mod shrinking;
mod slurm;
mod support;
mod sweeping;
#[path = "../../../report/tests/forms/validator.rs"]
mod validator;
mod versions;
mod working;
