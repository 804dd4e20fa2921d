//! Experiments from the documents: read from their files, run and judged.

mod file;
mod fit;
mod kernel;
mod load;
mod printed;
mod reproduce;
mod samples;
mod script;

pub use fit::fit;
pub use kernel::{KernelLoad, KernelMachine, KernelOutput, KernelRun, reproduce_on_kernel};
pub use load::{Experiment, Experiments};
pub use reproduce::{Histogram, Reproduced, Request, reproduce};
