//! The metrics of a run that tables show, in order, with their headings.

use crate::format::Unit;
use fairground_metrics::{Distribution, RunMetrics};

/// A metric of a whole run as one number.
pub(crate) struct Measure {
    /// Heading in two lines, for narrow columns.
    pub(crate) heading: [&'static str; 2],
    /// Title if there is room.
    pub(crate) title: &'static str,
    pub(crate) unit: Unit,
    /// Whether it gets a column in a terminal even if no run has it.
    pub(crate) always: bool,
    pub(crate) group: Group,
    /// The metric of a run.
    pub(crate) of: fn(&RunMetrics) -> Option<f64>,
}

/// What a measure is about. If a terminal is too narrow for all measures, each group has a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// What the tasks get.
    Service,
    /// What this costs.
    Cost,
}

/// All measures, group by group.
pub(crate) const MEASURES: &[Measure] = &[
    Measure {
        heading: ["through-", "put"],
        title: "Throughput, of the possible",
        unit: Unit::Fraction,
        always: true,
        group: Group::Service,
        of: |run| Some(run.throughput?.ratio),
    },
    Measure {
        heading: ["Jain's", "index"],
        title: "Jain's index",
        unit: Unit::Index,
        always: true,
        group: Group::Service,
        of: |run| Some(run.fairness?.jain_index),
    },
    Measure {
        heading: ["largest", "lag"],
        title: "Largest lag, either sign",
        unit: Unit::Time,
        always: true,
        group: Group::Service,
        of: |run| {
            let lag = run.fairness?.lag;
            Some(lag.ahead_ns.max(lag.behind_ns) as f64)
        },
    },
    Measure {
        heading: ["window", "spread"],
        title: "Spread of shares in the worst window",
        unit: Unit::Fraction,
        always: false,
        group: Group::Service,
        of: |run| Some(run.fairness?.worst_window?.spread),
    },
    Measure {
        heading: ["wakeup", "p50"],
        title: "Wakeup latency, median",
        unit: Unit::Time,
        always: true,
        group: Group::Service,
        of: |run| time(run.wakeup_latency, |latency| latency.p50_ns),
    },
    Measure {
        heading: ["latency", "p99"],
        title: "Wakeup latency, 99 %",
        unit: Unit::Time,
        always: true,
        group: Group::Service,
        of: |run| time(run.wakeup_latency, |latency| latency.p99_ns),
    },
    Measure {
        heading: ["", "max"],
        title: "Wakeup latency, maximum",
        unit: Unit::Time,
        always: true,
        group: Group::Service,
        of: |run| time(run.wakeup_latency, |latency| latency.max_ns),
    },
    Measure {
        heading: ["longest", "wait"],
        title: "Longest wait",
        unit: Unit::Time,
        always: true,
        group: Group::Service,
        of: |run| run.longest_wait_ns.map(|wait| wait as f64),
    },
    Measure {
        heading: ["response", "p99"],
        title: "Response time, 99 %",
        unit: Unit::Time,
        always: false,
        group: Group::Service,
        of: |run| time(run.response_time, |response| response.p99_ns),
    },
    Measure {
        heading: ["missed", "periods"],
        title: "Missed periods",
        unit: Unit::Fraction,
        always: false,
        group: Group::Service,
        of: |run| {
            let periods = run.periods?;
            (periods.completed > 0).then(|| periods.missed as f64 / periods.completed as f64)
        },
    },
    Measure {
        heading: ["make-", "span"],
        title: "Makespan",
        unit: Unit::Time,
        always: false,
        group: Group::Service,
        of: |run| run.makespan_ns.map(|time| time as f64),
    },
    Measure {
        heading: ["context", "switches"],
        title: "Context switches",
        unit: Unit::Count,
        always: true,
        group: Group::Cost,
        of: |run| Some(run.context_switches as f64),
    },
    Measure {
        heading: ["migra-", "tions"],
        title: "Migrations",
        unit: Unit::Count,
        always: true,
        group: Group::Cost,
        of: |run| Some(run.migrations as f64),
    },
    Measure {
        heading: ["over-", "head"],
        title: "Scheduler overhead, of CPU time",
        unit: Unit::Fraction,
        always: true,
        group: Group::Cost,
        of: |run| Some(run.overhead?.percent / 100.0),
    },
    Measure {
        heading: ["idle", "wasted"],
        title: "Idle while a task waits, of CPU time",
        unit: Unit::Fraction,
        always: true,
        group: Group::Cost,
        of: |run| {
            let time = run.cpu_time;
            (time.available_ns > 0)
                .then(|| time.idle_while_runnable_ns as f64 / time.available_ns as f64)
        },
    },
];

fn time(distribution: Option<Distribution>, part: fn(Distribution) -> u64) -> Option<f64> {
    distribution.map(|distribution| part(distribution) as f64)
}
