//! Results as data: what was run, and what resulted. Producers fill in these types, `report` formats them.

mod failure;
pub mod format;
mod reproduction;
mod run;
mod surroundings;
mod waits;

pub use failure::{DUE, Failure, Patience, Starvation, Status};
pub use format::Unit;
pub use reproduction::{
    Claim, Figure, Fit, Headline, Interval, Level, PrintedTable, Reproduction, Standing, Verdict,
    Where,
};
pub use run::{Labels, Run, short_name};
pub use surroundings::{Creator, OtherThread, Turn};
pub use waits::Waits;
