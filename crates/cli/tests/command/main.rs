//! The command as a user meets it.

mod comparing;
mod errors;
mod examples;
mod listing;
mod support;
