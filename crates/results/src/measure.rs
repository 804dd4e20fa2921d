//! The table of measures: everything that is measured of a run or of a task, as one number each.
//!
//! Tables, the page, rankings, comparisons, the columns of CSV and Parquet and the list in `docs/metrics.md` come from it. A new measure is a
//! row here, behind a field of [`RunMetrics`] or [`TaskMetrics`].

use std::sync::LazyLock;

use fairground_metrics::{IdleCpu, Lag, LongWait, OverheadTime, RunMetrics, TaskMetrics};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::format::{Unit, value};

/// Id of the time until the work is done, which a run, or a task, that does not come to its end within its length has not.
pub const MAKESPAN: &str = "makespan";

/// A quantity of a run or of a task, as one number.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// Its name for programs and on the command line.
    pub id: &'static str,
    /// The unit of the number.
    pub unit: Unit,
    /// Which numbers are better; `None` if neither is.
    pub better: Option<Better>,
    /// Differences within it have no practical meaning.
    pub margin: Margin,
    /// How far the replay of a recording may be from the recorded reality (`docs/recordings.md`); `None` if that is not known.
    pub replay_error: Option<Margin>,
    /// The measure that it takes the place of in judgements, wherever a run has it, and its title.
    pub instead_of: Option<(&'static str, &'static str)>,
    /// Whether a run without the number has none because nothing of the kind happened.
    pub is_rare: bool,
    /// How many samples a run must have for the number to be judged.
    pub least_samples: u64,
    /// Its subject.
    pub group: Group,
    /// Whether it is part of summaries over several workloads: one for each thing that a user may want.
    pub in_summaries: bool,
    /// How it is shown in tables; `None` if only programs get it.
    pub shown: Option<Shown>,
    /// The number of a run.
    pub of_run: Option<fn(&RunMetrics) -> Option<f64>>,
    /// The number of a task.
    pub of_task: Option<fn(&TaskMetrics) -> Option<f64>>,
    /// When a task had that number, and where, if that is known.
    pub episode: Option<fn(&TaskMetrics) -> Option<Episode>>,
    /// Its meaning, in a line.
    pub doc: &'static str,
}

/// A time in which something happened to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Episode {
    /// When it began.
    pub from_ns: u64,
    /// How long it took.
    pub length_ns: u64,
    /// The CPU that was idle meanwhile, if the time is one of an idle CPU.
    pub cpu: Option<u32>,
    /// When the wait began of which it is a part; `None` if it is not a wait.
    pub wait_from_ns: Option<u64>,
}

impl From<IdleCpu> for Episode {
    fn from(idle: IdleCpu) -> Self {
        Self {
            from_ns: idle.from_ns,
            length_ns: idle.length_ns,
            cpu: Some(idle.cpu),
            wait_from_ns: None,
        }
    }
}

impl From<LongWait> for Episode {
    fn from(wait: LongWait) -> Self {
        Self {
            from_ns: wait.from_ns,
            length_ns: wait.length_ns,
            cpu: None,
            wait_from_ns: Some(wait.from_ns),
        }
    }
}

/// Which numbers are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Larger ones.
    Higher,
    /// Smaller ones.
    Lower,
}

impl Better {
    /// The better value first.
    pub fn order(self, one: f64, other: f64) -> std::cmp::Ordering {
        match self {
            Self::Higher => other.total_cmp(&one),
            Self::Lower => one.total_cmp(&other),
        }
    }
}

/// A difference without practical meaning: the largest of its parts.
///
/// The absolute part is the least that a user can feel, or a machine repeat; the tick counts only between values of at least a tick, which are made
/// of ticks, as a slice is that ends at one. What preempts or finds an idle CPU waits for no tick.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Margin {
    /// As a fraction of the baseline.
    pub relative: f64,
    /// In the measure's unit.
    pub absolute: f64,
    /// In timer ticks, the steps in which schedulers see time.
    pub ticks: f64,
}

impl Margin {
    /// The margin between `baseline` and another value with ticks of this length in nanoseconds.
    pub fn around(&self, baseline: f64, other: f64, tick_ns: f64) -> f64 {
        let margin = (self.relative * baseline.abs()).max(self.absolute);
        if baseline.min(other) >= tick_ns { margin.max(self.ticks * tick_ns) } else { margin }
    }

    /// In words.
    pub fn words(&self, unit: Unit) -> String {
        let mut parts = Vec::new();
        if self.relative > 0.0 {
            parts.push(format!("{} %", self.relative * 100.0));
        }
        if self.absolute > 0.0 {
            parts.push(match unit {
                Unit::Fraction if self.absolute == 0.01 => "1 point".to_owned(),
                Unit::Fraction => format!("{} points", self.absolute * 100.0),
                Unit::Time => value(Some(self.absolute), unit),
                _ => self.absolute.to_string(),
            });
        }
        if self.ticks > 0.0 {
            parts.push(format!("{} tick", self.ticks));
        }
        parts.join(" or ")
    }
}

/// The subject of a measure. If a terminal is too narrow for all measures, each group has a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// The service that the tasks get.
    Service,
    /// The cost of this service.
    Cost,
}

/// How a measure is shown.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// Heading in two lines, for narrow columns.
    pub heading: [&'static str; 2],
    /// Title if there is room.
    pub title: &'static str,
    /// Whether it gets a column in a terminal even if no run has it.
    pub always: bool,
}

impl Measure {
    /// Name of its column in CSV and Parquet: its id, with the unit.
    pub fn column(&self) -> String {
        match self.unit {
            Unit::Time => format!("{}_ns", self.id),
            _ => self.id.to_owned(),
        }
    }

    /// Its title, or its name if it is not shown in tables.
    pub fn title(&self) -> &'static str {
        let instead = || self.instead_of.map_or(self.id, |(_, title)| title);
        self.shown.map_or_else(instead, |shown| shown.title)
    }

    /// The number of a run, if it has one.
    pub fn run(&self, metrics: &RunMetrics) -> Option<f64> {
        self.of_run.and_then(|of| of(metrics))
    }

    /// The number of a task, if it has one.
    pub fn task(&self, metrics: &TaskMetrics) -> Option<f64> {
        self.of_task.and_then(|of| of(metrics))
    }

    /// How many samples it comes from, as a measure; `None` if it comes from none, or does not need any.
    pub fn samples(&self) -> Option<&'static Self> {
        let (of, _) = self.id.rsplit_once('_').filter(|_| self.least_samples > 0)?;
        Self::find(&format!("{of}_samples"))
    }

    /// The largest error of a replay's value as a prediction of the real one.
    pub fn replay_error_at(&self, value: f64) -> f64 {
        self.replay_error.unwrap_or_default().around(value, value, 0.0)
    }

    /// The measure with this id.
    pub fn find(id: &str) -> Option<&'static Self> {
        MEASURES.iter().find(|measure| measure.id == id)
    }

    /// Those that are shown in tables, in their order.
    pub fn shown() -> impl Iterator<Item = &'static Self> {
        MEASURES.iter().filter(|measure| measure.shown.is_some())
    }

    /// Those by which runs are compared: shown or instead of one that is, and with a better direction.
    pub fn judged() -> impl Iterator<Item = &'static Self> {
        let is_told = |one: &&Self| one.shown.is_some() || one.instead_of.is_some();
        MEASURES.iter().filter(is_told).filter(|measure| measure.better.is_some())
    }

    /// The measure that a run which has it is judged by instead of this one.
    pub fn instead(&self) -> Option<&'static Self> {
        MEASURES.iter().find(|one| one.instead_of.is_some_and(|(id, _)| id == self.id))
    }

    /// Those by which advice on a recording can be given.
    pub fn foreseen() -> impl Iterator<Item = &'static Self> {
        Self::judged().filter(|measure| measure.replay_error.is_some())
    }

    /// Those of which summaries over several workloads tell.
    pub fn in_summaries() -> impl Iterator<Item = &'static Self> {
        Self::judged().filter(|measure| measure.in_summaries)
    }
}

/// A measure that only programs get.
const PLAIN: Measure = Measure {
    id: "",
    unit: Unit::Count,
    better: None,
    margin: Margin { relative: 0.0, absolute: 0.0, ticks: 0.0 },
    replay_error: None,
    instead_of: None,
    is_rare: false,
    least_samples: 0,
    group: Group::Cost,
    in_summaries: false,
    shown: None,
    of_run: None,
    of_task: None,
    episode: None,
    doc: "",
};

const fn relative(relative: f64) -> Margin {
    Margin { relative, ..PLAIN.margin }
}

const fn absolute(absolute: f64) -> Margin {
    Margin { absolute, ..PLAIN.margin }
}

/// The margin of times that a scheduler decides on. A tenth is what benchmarks of wake-ups repeat to; below 20 us, some switches and an interrupt,
/// machines differ more than schedulers; and where both values are made of ticks, the phase of a tick moves each by one.
const LATENCY: Margin = Margin { relative: 0.1, absolute: 20e3, ticks: 1.0 };

/// The known error of replays in shares of CPU time.
const SHARE_ERROR: Option<Margin> = Some(absolute(0.015));
/// In long waits: a timer tick at least.
const WAIT_ERROR: Option<Margin> = Some(Margin { relative: 0.5, absolute: 4e6, ..PLAIN.margin });
/// In the time until all tasks are done, as a fraction of it.
pub const MAKESPAN_ERROR: f64 = 0.05;

const fn shown(line: [&'static str; 2], title: &'static str, always: bool) -> Option<Shown> {
    Some(Shown { heading: line, title, always })
}

/// Id of the measure of how far shares are from the ideal.
pub(crate) const ERROR_OF_SHARE: &str = "share_error";

/// The measure whose time is one of a CPU.
pub(crate) const IDLE_BESIDE_WAITING: &str = "idle_beside_waiting";

/// The measure of what the surroundings of a load lose.
pub const OTHERS_SERVED: &str = "others_served";

/// Five samples beyond it, so that a percentile does not hang on a single one.
const P95: u64 = 100;
const P99: u64 = 500;
const P999: u64 = 5000;

/// Rows for a distribution of times, `$of` a run and, if it has one, of a task.
macro_rules! distribution {
    ($name:ident $id:literal $what:literal [$($task:ident)?]) => {
        vec![
            Measure {
                id: concat!($id, "_samples"),
                of_run: Some(|run| Some(run.$name?.samples as f64)),
                of_task: distribution!(@task $($task)?, |part| part.samples as f64),
                doc: concat!($what, ": number of samples"),
                ..PLAIN
            },
            distribution!(@part $name $id "mean" mean_ns 1 $what "mean" [$($task)?]),
            distribution!(@part $name $id "p50" p50_ns 1 $what "half of the samples are at most this" [$($task)?]),
            distribution!(@part $name $id "p95" p95_ns P95 $what "95 % of the samples are at most this" [$($task)?]),
            distribution!(@part $name $id "p99" p99_ns P99 $what "99 % of the samples are at most this" [$($task)?]),
            distribution!(@part $name $id "p999" p999_ns P999 $what "99.9 % of the samples are at most this" [$($task)?]),
            distribution!(@part $name $id "max" max_ns 1 $what "the largest sample" [$($task)?]),
        ]
    };
    (@part $name:ident $id:literal $part:literal $field:ident $least:tt $what:literal $doc:literal [$($task:ident)?]) => {
        Measure {
            id: concat!($id, "_", $part),
            unit: Unit::Time,
            better: Some(Better::Lower),
            margin: LATENCY,
            least_samples: $least,
            group: Group::Service,
            of_run: Some(|run| Some(run.$name?.$field as f64)),
            of_task: distribution!(@task $($task)?, |part| part.$field as f64),
            doc: concat!($what, ": ", $doc),
            ..PLAIN
        }
    };
    (@task , |$part:ident| $value:expr) => { None };
    (@task $task:ident, |$part:ident| $value:expr) => {
        Some(|task| {
            let $part = task.$task.as_ref()?;
            Some($value)
        })
    };
}

/// All measures, group by group; those that are shown in the order in which they are.
pub static MEASURES: LazyLock<Vec<Measure>> = LazyLock::new(|| {
    let mut all = service();
    all.extend(latencies());
    all.extend(costs());
    all.extend(accounts());
    all
});

/// The service that the tasks get.
fn service() -> Vec<Measure> {
    let service = Measure { group: Group::Service, ..PLAIN };
    vec![
        Measure {
            id: "throughput",
            in_summaries: true,
            unit: Unit::Fraction,
            better: Some(Better::Higher),
            margin: relative(0.01),
            replay_error: SHARE_ERROR,
            shown: shown(["through-", "put"], "Throughput, of the possible", true),
            of_run: Some(throughput),
            doc: "work, as a part of what a work-conserving machine without overhead would have done; not where a run ends with the work of some tasks while others go on",
            ..service
        },
        Measure {
            id: "jain_index",
            in_summaries: true,
            unit: Unit::Index,
            better: Some(Better::Higher),
            margin: absolute(0.01),
            replay_error: SHARE_ERROR,
            shown: shown(["Jain's", "index"], "Jain's index", true),
            of_run: Some(|run| Some(run.fairness?.jain_index)),
            doc: "evenness of service over ideal service, 1/n to 1",
            ..service
        },
        Measure {
            id: "lag",
            unit: Unit::Time,
            better: Some(Better::Lower),
            margin: LATENCY,
            shown: shown(["largest", "lag"], "Largest lag, either sign", true),
            of_run: Some(|run| run.fairness.map(|fairness| largest(fairness.lag))),
            of_task: Some(|task| task.lag.map(largest)),
            doc: "farthest from the ideal service, ahead or behind",
            ..service
        },
        Measure {
            id: "window_spread",
            in_summaries: true,
            unit: Unit::Fraction,
            better: Some(Better::Lower),
            margin: absolute(0.02),
            shown: shown(["window", "spread"], "Spread of shares in the worst window", false),
            of_run: Some(|run| Some(run.fairness?.worst_window?.spread)),
            doc: "how far shares of a CPU were apart in the worst window",
            ..service
        },
        Measure {
            id: ERROR_OF_SHARE,
            unit: Unit::Fraction,
            better: Some(Better::Lower),
            margin: absolute(0.02),
            of_run: Some(|run| of_worst_task(run, share_error)),
            of_task: Some(share_error),
            episode: Some(|task| {
                task.worst_share.map(|window| Episode {
                    from_ns: window.start_ns,
                    length_ns: window.window_ns,
                    cpu: None,
                    wait_from_ns: None,
                })
            }),
            doc: "farthest of a share from the ideal, of that, in a window in which a task wanted a CPU all the time",
            ..service
        },
    ]
}

fn share_error(task: &TaskMetrics) -> Option<f64> {
    Some(task.worst_share?.error())
}

fn largest(lag: Lag) -> f64 {
    lag.ahead_ns.max(lag.behind_ns) as f64
}

/// Parts of distributions that are shown in tables: id, heading, title, and whether always.
const SHOWN_PARTS: [(&str, [&str; 2], &str, bool); 5] = [
    ("wakeup_p50", ["wakeup", "p50"], "Wakeup latency, median", true),
    ("wakeup_p99", ["latency", "p99"], "Wakeup latency, 99 %", true),
    ("wakeup_max", ["", "max"], "Wakeup latency, maximum", true),
    ("response_p99", ["response", "p99"], "Response time, 99 %", false),
    ("lap_p99", ["lap", "p99"], "Laps, 99 %", false),
];

/// Times of which the work itself is a part: that one is longer than a tick does not mean that anything waited for a tick.
fn with_work(measures: Vec<Measure>) -> impl Iterator<Item = Measure> {
    let of_work = |one: Measure| Measure { margin: Margin { ticks: 0.0, ..one.margin }, ..one };
    measures.into_iter().map(of_work)
}

/// How long tasks wait, and until their work is done.
fn latencies() -> Vec<Measure> {
    let mut all: Vec<Measure> =
        distribution!(wakeup_latency "wakeup" "wakeup latency" [wakeup_latency]);
    all.push(Measure {
        id: "longest_wait",
        in_summaries: true,
        unit: Unit::Time,
        better: Some(Better::Lower),
        margin: LATENCY,
        replay_error: WAIT_ERROR,
        group: Group::Service,
        shown: shown(["longest", "wait"], "Longest wait", true),
        of_run: Some(|run| run.longest_wait_ns.map(|wait| wait as f64)),
        of_task: Some(|task| task.longest_wait_ns.map(|wait| wait as f64)),
        episode: Some(|task| task.longest_wait.map(Episode::from)),
        doc: "longest time runnable without running, even if it has not ended",
        ..PLAIN
    });
    all.extend(waits());
    all.extend(with_work(distribution!(response_time "response" "response time" [response_time])));
    all.push(Measure {
        id: "missed_periods",
        in_summaries: true,
        unit: Unit::Fraction,
        better: Some(Better::Lower),
        margin: absolute(0.01),
        group: Group::Service,
        shown: shown(["missed", "periods"], "Missed periods", false),
        of_run: Some(|run| run.periods?.missed_part()),
        of_task: Some(|task| task.periods?.missed_part()),
        doc: "missed periods, of those that began",
        ..PLAIN
    });
    let laps = distribution!(laps "lap" "laps by the tasks' stopwatches, and requests" [laps]);
    all.extend(with_work(laps));
    all.push(Measure {
        id: "lap_rate",
        in_summaries: true,
        unit: Unit::Plain,
        better: Some(Better::Higher),
        margin: relative(0.01),
        group: Group::Service,
        shown: shown(["laps", "per s"], "Laps per second", false),
        of_run: Some(|run| run.laps.and_then(|laps| rate(laps.samples, run.duration_ns))),
        of_task: None,
        doc: "laps that ended, per second: requests, frames or transactions",
        ..PLAIN
    });
    all.push(Measure {
        id: "lap_low",
        unit: Unit::Plain,
        better: Some(Better::Higher),
        margin: relative(0.05),
        least_samples: 100,
        group: Group::Service,
        shown: shown(["1 %", "low"], "1 % low, laps per second", false),
        of_run: Some(|run| run.slowest_laps_ns.filter(|mean| *mean > 0.0).map(|mean| 1e9 / mean)),
        doc: "1 % low: laps per second of one task if all were as slow as the slowest hundredth on average",
        ..PLAIN
    });
    all.push(Measure {
        id: MAKESPAN,
        in_summaries: true,
        unit: Unit::Time,
        better: Some(Better::Lower),
        margin: relative(0.01),
        replay_error: Some(relative(MAKESPAN_ERROR)),
        group: Group::Service,
        shown: shown(["make-", "span"], "Makespan", false),
        of_run: Some(|run| run.makespan_ns.map(|time| time as f64)),
        of_task: Some(|task| task.ended_ns.map(|time| time as f64)),
        doc: "when the last task ended that is no daemon; of a task, when it ended",
        ..PLAIN
    });
    show_parts(&mut all);
    all
}

/// Shows the selected parts of distributions in tables.
fn show_parts(measures: &mut [Measure]) {
    for (id, heading, title, always) in SHOWN_PARTS {
        for measure in measures.iter_mut().filter(|measure| measure.id == id) {
            measure.shown = shown(heading, title, always);
            measure.in_summaries = id.ends_with("p99");
            measure.replay_error = WAIT_ERROR.filter(|_| id == "wakeup_p99");
        }
    }
}

fn rate(laps: u64, duration_ns: u64) -> Option<f64> {
    (duration_ns > 0).then(|| laps as f64 * 1e9 / duration_ns as f64)
}

/// Most that was due to a task in a single wait.
fn due(task: &TaskMetrics) -> Option<f64> {
    Some(task.worst_wait?.entitled_ns as f64)
}

/// Faults of a wait beyond its length.
fn waits() -> Vec<Measure> {
    fn idle(task: &TaskMetrics) -> Option<f64> {
        Some(task.idle_beside?.length_ns as f64)
    }
    let wait = Measure {
        unit: Unit::Time,
        better: Some(Better::Lower),
        margin: LATENCY,
        is_rare: true,
        group: Group::Service,
        ..PLAIN
    };
    vec![
        Measure {
            id: "due",
            of_run: Some(|run| of_worst_task(run, due)),
            of_task: Some(due),
            episode: Some(|task| task.worst_wait.map(Episode::from)),
            doc: "CPU time that the ideal processor gave a task while it waited: the most in one of its waits of 50 ms or more; over 500 ms it starves",
            ..wait
        },
        Measure {
            id: IDLE_BESIDE_WAITING,
            of_run: Some(|run| Some(run.idle_beside?.length_ns as f64)),
            of_task: Some(idle),
            episode: Some(|task| {
                let idle = task.idle_beside?;
                Some(Episode {
                    from_ns: idle.from_ns,
                    length_ns: idle.length_ns,
                    cpu: Some(idle.cpu),
                    wait_from_ns: Some(idle.wait_from_ns),
                })
            }),
            doc: "longest time of at least 1 ms that a CPU was idle while tasks waited that may use it; of a task, while it waited",
            ..wait
        },
    ]
}

/// Where a run ends with the work of some tasks, its length decides how much the others do.
fn throughput(run: &RunMetrics) -> Option<f64> {
    let time = run.cpu_time;
    let is_cut_off = run.makespan_ns.is_some() && time.counted_ns < Some(time.busy_ns);
    Some(run.throughput.filter(|_| !is_cut_off)?.ratio)
}

/// The largest number of a task.
fn of_worst_task(run: &RunMetrics, of: fn(&TaskMetrics) -> Option<f64>) -> Option<f64> {
    run.tasks.iter().filter_map(of).reduce(f64::max)
}

/// Keeps only those tasks, and of them only that, which measures of whole runs come from.
pub(crate) fn keep_for_runs(run: &mut RunMetrics) {
    let mut kept: Vec<usize> = Vec::new();
    for of in [share_error, due] {
        let tasks = run.tasks.iter().enumerate();
        let numbers = tasks.filter_map(|(place, task)| Some((place, of(task)?)));
        let worst = numbers.reduce(|a, b| if b.1 > a.1 { b } else { a });
        kept.extend(worst.map(|(place, _)| place));
    }
    kept.sort_unstable();
    kept.dedup();
    let tasks = std::mem::take(&mut run.tasks).into_iter().enumerate();
    let tasks = tasks.filter(|(place, _)| kept.contains(place));
    run.tasks = tasks.map(|(_, task)| task).collect();
    run.tasks.shrink_to_fit();
}

/// A time per unit of work, where a load has an amount of work: as a share of the run it would fall when the same work takes longer, and as a share of
/// all work when others do more meanwhile.
fn per_work(run: &RunMetrics, time_ns: u64) -> Option<f64> {
    let counted_ns = run.cpu_time.counted_ns.filter(|counted| *counted > 0)?;
    Some(time_ns as f64 / counted_ns as f64)
}

/// The cost of scheduling.
fn costs() -> Vec<Measure> {
    let mut all = vec![
        Measure {
            id: "context_switches",
            shown: shown(["context", "switches"], "Context switches", true),
            of_run: Some(|run| Some(run.context_switches as f64)),
            of_task: Some(|task| {
                Some((task.voluntary_switches + task.involuntary_switches) as f64)
            }),
            doc: "switches of a CPU to another task or to idling; of a task, how often it left a CPU",
            ..PLAIN
        },
        Measure {
            id: "migrations",
            shown: shown(["migra-", "tions"], "Migrations", true),
            of_run: Some(|run| Some(run.migrations as f64)),
            of_task: Some(|task| Some(task.migrations as f64)),
            doc: "moves of a task to another CPU",
            ..PLAIN
        },
        Measure {
            id: "overhead",
            unit: Unit::Fraction,
            better: Some(Better::Lower),
            margin: absolute(0.005),
            shown: shown(["over-", "head"], "Scheduler overhead, of CPU time", true),
            of_run: Some(|run| Some(run.overhead?.percent / 100.0)),
            doc: "overhead of all kinds, of the CPU time",
            ..PLAIN
        },
        Measure {
            id: "overhead_per_work",
            unit: Unit::Fraction,
            better: Some(Better::Lower),
            margin: Margin { relative: 0.05, absolute: 0.005, ..PLAIN.margin },
            instead_of: Some(("overhead", "Scheduler overhead, of the work")),
            of_run: Some(|run| per_work(run, run.overhead?.total_ns)),
            doc: "overhead of all kinds, of the CPU time of the tasks whose work has an amount, in runs with a makespan or laps",
            ..PLAIN
        },
        Measure {
            id: "idle_wasted",
            unit: Unit::Fraction,
            better: Some(Better::Lower),
            margin: absolute(0.01),
            shown: shown(["idle", "wasted"], "Idle while a task waits, of CPU time", true),
            of_run: Some(|run| {
                let time = run.cpu_time;
                (time.available_ns > 0)
                    .then(|| time.idle_while_runnable_ns as f64 / time.available_ns as f64)
            }),
            doc: "idle time that waiting tasks could have used, of the CPU time",
            ..PLAIN
        },
        Measure {
            id: "idle_wasted_per_work",
            unit: Unit::Fraction,
            better: Some(Better::Lower),
            margin: Margin { relative: 0.05, absolute: 0.01, ..PLAIN.margin },
            instead_of: Some(("idle_wasted", "Idle while a task waits, of the work")),
            of_run: Some(|run| per_work(run, run.cpu_time.idle_while_runnable_ns)),
            doc: "idle time that waiting tasks could have used, of the CPU time of the tasks whose work has an amount, in runs with a makespan or laps",
            ..PLAIN
        },
        Measure {
            id: OTHERS_SERVED,
            unit: Unit::Fraction,
            better: Some(Better::Higher),
            margin: absolute(0.01),
            replay_error: SHARE_ERROR,
            shown: shown(["others", "served"], "Work of others, of what they wanted", false),
            of_run: Some(|run| {
                let wanted = run.cpu_time.others_wanted_ns.filter(|wanted| *wanted > 0)?;
                Some(run.cpu_time.others_work_ns.unwrap_or(0) as f64 / wanted as f64)
            }),
            doc: "work that other programs and the kernel's own threads did, of what they wanted until the end",
            ..PLAIN
        },
        Measure {
            id: "energy",
            unit: Unit::Plain,
            better: Some(Better::Lower),
            margin: relative(0.01),
            shown: shown(["energy", "(J)"], "Energy, joules", false),
            of_run: Some(|run| Some(run.energy.as_ref()?.joules)),
            doc: "what all CPUs consumed, in joules, on machines whose power is known",
            ..PLAIN
        },
    ];
    all.extend(distribution!(scheduler_pass "pass" "passes through the scheduler" []));
    all
}

/// Rows of plain numbers, mostly parts of others.
macro_rules! plain {
    ($($id:literal $unit:ident $run:expr, $task:expr, $doc:literal;)*) => {
        vec![$(Measure {
            id: $id,
            unit: Unit::$unit,
            of_run: $run,
            of_task: $task,
            doc: $doc,
            ..PLAIN
        }),*]
    };
}

/// Uses of the time, and other things that are counted.
fn accounts() -> Vec<Measure> {
    fn kind(run: &RunMetrics, of: fn(OverheadTime) -> u64) -> Option<f64> {
        run.overhead.map(|overhead| of(overhead) as f64)
    }
    plain! {
        "duration" Time Some(|run| Some(run.duration_ns as f64)), None, "length of the run";
        "cpus" Count Some(|run| Some(run.cpus.into())), None, "CPUs of the machine";
        "available" Time Some(|run| Some(run.cpu_time.available_ns as f64)), None, "time of online CPUs";
        "busy" Time Some(|run| Some(run.cpu_time.busy_ns as f64)), Some(|task| Some(task.cpu_time_ns as f64)), "CPU time used by tasks";
        "idle" Time Some(|run| Some(run.cpu_time.idle_ns as f64)), None, "CPU time that nobody used and that was no overhead";
        "idle_while_runnable" Time Some(|run| Some(run.cpu_time.idle_while_runnable_ns as f64)), None, "idle time that waiting tasks could have used";
        "others" Time Some(|run| Some(run.cpu_time.others_ns? as f64)), None, "CPU time that other programs and the kernel's own threads had";
        "others_wanted" Time Some(|run| Some(run.cpu_time.others_wanted_ns? as f64)), None, "CPU time that these wanted until the end, in simulations";
        "overhead_booked" Time Some(|run| Some(run.cpu_time.overhead_ns as f64)), None, "overhead up to the end; with busy, others and idle it is all that is available";
        "overhead_total" Time Some(|run| kind(run, |of| of.total_ns)), None, "overhead of all kinds, also the part beyond the end";
        "overhead_scheduling" Time Some(|run| kind(run, |of| of.scheduling_ns)), None, "scheduler callbacks, with their kfuncs and locks";
        "overhead_switch" Time Some(|run| kind(run, |of| of.switch_ns)), None, "switching from one task to another";
        "overhead_migration" Time Some(|run| kind(run, |of| of.migration_ns)), None, "refilling caches after migrations";
        "overhead_interrupt" Time Some(|run| kind(run, |of| of.interrupt_ns)), None, "ticks, wake-ups and kicks";
        "work" Time Some(|run| Some(run.throughput?.work_ns as f64)), Some(|task| Some(task.work_ns as f64)), "CPU time weighted by capacity";
        "ideal_work" Time Some(|run| Some(run.throughput?.ideal_work_ns as f64)), None, "work of a work-conserving machine without overhead";
        "share" Fraction None, Some(|task| Some(task.share?.actual)), "work, of all that the machine could have done";
        "ideal_share" Fraction None, Some(|task| Some(task.share?.ideal)), "the same for the ideal fluid processor";
        "lag_ahead" Time Some(|run| Some(run.fairness?.lag.ahead_ns as f64)), Some(|task| Some(task.lag?.ahead_ns as f64)), "farthest ahead of the ideal";
        "lag_behind" Time Some(|run| Some(run.fairness?.lag.behind_ns as f64)), Some(|task| Some(task.lag?.behind_ns as f64)), "farthest behind the ideal";
        "window_share_min" Fraction None, Some(|task| Some(task.windows?.min)), "smallest share of a CPU in a window";
        "window_share_max" Fraction None, Some(|task| Some(task.windows?.max)), "largest share of a CPU in a window";
        "window_share_mean" Fraction None, Some(|task| Some(task.windows?.mean)), "mean share of a CPU in a window";
        "window_share_standard_deviation" Fraction None, Some(|task| Some(task.windows?.standard_deviation)), "its standard deviation over the windows";
        "wait" Time None, Some(|task| Some(task.wait_ns as f64)), "total time runnable without running";
        "throttled" Time None, Some(|task| Some(task.throttled_ns as f64)), "total time held back because a control group had used its quota";
        "preemptions" Count Some(|run| Some(run.preemptions as f64)), Some(|task| Some(task.involuntary_switches as f64)), "switches away from a task that could have gone on";
        "wakeups" Count Some(|run| Some(run.wakeups as f64)), Some(|task| Some(task.wakeups as f64)), "times that a sleeping or new task became runnable";
        "periods_released" Count Some(|run| Some(run.periods?.released as f64)), Some(|task| Some(task.periods?.released as f64)), "periods that began";
        "periods_completed" Count Some(|run| Some(run.periods?.completed as f64)), Some(|task| Some(task.periods?.completed as f64)), "jobs completed";
        "periods_missed" Count Some(|run| Some(run.periods?.missed as f64)), Some(|task| Some(task.periods?.missed as f64)), "jobs not complete at the end of their period";
        "periods_skipped" Count Some(|run| Some(run.periods?.skipped as f64)), Some(|task| Some(task.periods?.skipped as f64)), "periods skipped by a late task";
        "inconsistent_events" Count Some(|run| Some(run.inconsistent_events as f64)), None, "events that contradict earlier ones, as in a recording that lost some";
    }
}

/// The line about a measure in the list of `docs/metrics.md`.
pub fn documented(measure: &Measure) -> String {
    let better = match measure.better {
        Some(Better::Higher) => "higher",
        Some(Better::Lower) => "lower",
        None => "",
    };
    let of = match (measure.of_run, measure.of_task) {
        (Some(_), Some(_)) => "run, task",
        (Some(_), None) => "run",
        _ => "task",
    };
    let samples = match measure.least_samples {
        0 | 1 => String::new(),
        samples => samples.to_string(),
    };
    format!(
        "| `{}` | {of} | {} | {better} | {} | {samples} | {} |",
        measure.id,
        measure.unit.name(),
        measure.margin.words(measure.unit),
        measure.doc
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_everything_is_measured_of_something() {
        let ids: BTreeSet<&str> = MEASURES.iter().map(|measure| measure.id).collect();
        assert_eq!(ids.len(), MEASURES.len());
        for measure in MEASURES.iter() {
            assert!(measure.of_run.is_some() || measure.of_task.is_some(), "{}", measure.id);
            assert!(!measure.doc.is_empty() && !measure.id.ends_with("_ns"), "{}", measure.id);
        }
    }

    #[test]
    fn what_is_judged_has_a_margin_and_is_of_runs() {
        assert!(Measure::judged().count() > 10);
        for measure in Measure::judged() {
            assert!(measure.of_run.is_some(), "{}", measure.id);
            assert!(measure.margin != Margin::default(), "{}", measure.id);
        }
    }

    #[test]
    fn ticks_count_only_between_values_made_of_ticks() {
        let margin = |before, after| LATENCY.around(before, after, 4e6);
        assert_eq!(margin(53e3, 2.23e6), 20e3);
        assert_eq!(margin(1.44e6, 3.4e6), 1.44e5);
        assert_eq!(margin(12e6, 16e6), 4e6);
        assert_eq!(margin(16e6, 53e3), 1.6e6);
        // Work is part of a response time.
        let response = Measure::find("response_p99").unwrap().margin;
        assert_eq!(response.around(5.77e6, 8.31e6, 4e6), 5.77e5);
    }

    #[test]
    fn the_list_in_the_documentation_is_this_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
        let text = std::fs::read_to_string(path).unwrap();
        let head = text.lines().position(|line| line.starts_with("| name | of |"));
        let rows = text.lines().skip(head.unwrap() + 2);
        let listed: Vec<&str> = rows.take_while(|line| line.starts_with('|')).collect();
        let rows: Vec<String> = MEASURES.iter().map(documented).collect();
        assert!(listed == rows, "docs/metrics.md should list\n{}", rows.join("\n"));
    }
}
