//! The command as a user meets it.

mod calibrating;
mod comparing;
mod errors;
mod examples;
mod listing;
mod reproducing;
mod support;
