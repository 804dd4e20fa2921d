//! Metrics of the event stream, computed by the same code for the simulator and the real kernel.
//!
//! [`Metrics`] is a [`Sink`](fairground_events::Sink): it takes events one by one and keeps only sums, so its memory depends on the
//! number of tasks and CPUs but not on the length of the run, unless [`Options::records`] asks for more. [`Metrics::result`] returns
//! the [`RunMetrics`]. `docs/metrics.md` defines every metric with its formula, under the names used here.

mod collector;
mod cpu_sets;
mod distribution;
mod explainer;
mod explanation;
mod fluid;
mod groups;
mod idle;
mod rates;
mod records;
mod result;
mod task;
mod timeline;

pub use collector::{MachineFacts, Metrics, Options};
pub use explainer::{Explainer, LAST_STEPS};
pub use explanation::{Action, Cause, CpuUse, Explanation, Moved, Place, Ran, Stay, Step, Taken};
pub use result::{
    Bucket, CpuTime, Distribution, Energy, Fairness, GroupMetrics, IdleBeside, IdleCpu, JobRecord,
    LASTING_WAIT, LONG_IDLE, LONG_WAIT, Lag, LapRecord, LongWait, OverheadTime, Periods,
    RunMetrics, Share, ShareRange, TaskMetrics, TaskRecords, Throughput, WindowRecord, WindowShare,
    WindowSpread,
};
pub use timeline::{
    LongestWait, LongestWaitFinder, Slice, Timeline, TimelineRecorder, Wait, is_instance_of,
};

/// A span of time as a float. No span has 2^63 nanoseconds, and processors convert signed numbers faster.
fn float(span: fairground_events::Nanoseconds) -> f64 {
    span as i64 as f64
}
