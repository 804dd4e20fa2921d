//! What is computed from the event stream, once, for the simulator and the real kernel alike.
//!
//! [`Metrics`] is a [`Sink`](fairground_events::Sink): it takes the events one by one, keeps only sums, and so needs
//! memory for the tasks and CPUs of a run but not for its length, unless [`Options::records`] asks for more. [`Metrics::result`] gives the [`RunMetrics`]. Every
//! definition, with its formula, is in `docs/metrics.md`; the names there and here are the same.

mod collector;
mod cpu_sets;
mod distribution;
mod explainer;
mod explanation;
mod fluid;
mod idle;
mod rates;
mod records;
mod result;
mod task;
mod timeline;

pub use collector::{MachineFacts, Metrics, Options};
pub use explainer::{Explainer, LAST_STEPS};
pub use explanation::{Action, Cause, CpuUse, Explanation, Place, Ran, Stay, Step, Taken};
pub use result::{
    Bucket, CpuTime, Distribution, Fairness, JobRecord, Lag, LapRecord, OverheadTime, Periods,
    RunMetrics, Share, ShareRange, TaskMetrics, TaskRecords, Throughput, WindowRecord,
    WindowSpread,
};
pub use timeline::{LongestWait, LongestWaitFinder, Slice, Timeline, TimelineRecorder, Wait};
