//! How far the simulator is from a kernel: the same workloads in both worlds, and replays of recordings.

mod control;
mod foresight;
mod recording;
mod table;
mod verdict;
mod worlds;

pub use control::Control;
pub use foresight::{Foresight, Prediction, Span, foresee};
pub use recording::{Player, Recording, TaskTime};
pub use verdict::{Figure, Verdict};
pub use worlds::{
    Agreement, Both, Costs, Disorder, GroupMeasure, GroupPair, Key, Pair, Rejection, TaskPair,
    confront,
};
