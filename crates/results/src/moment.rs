//! Moments of runs that show why.

use fairground_metrics::{LongestWait, Timeline, WindowSpread};

use crate::format::{Unit, value};

/// A moment of a run that shows why a number came out as it did.
#[derive(Clone, Debug, PartialEq)]
pub struct Moment {
    /// Its subject.
    pub title: String,
    /// A hint where to look.
    pub text: String,
    /// The events.
    pub timeline: Timeline,
    /// The task that it is about, which gets its own colour.
    pub focus: Option<String>,
    /// Places to look at in the timeline.
    pub marks: Vec<Mark>,
}

/// A part of a moment that matters.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// The task that it is about; `None` for all.
    pub task: Option<String>,
    /// Its beginning, in nanoseconds since the start of the run.
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
}

impl Moment {
    /// The longest wait of the run under `scheduler` with this seed.
    pub fn longest_wait(
        scheduler: &str,
        seed: u64,
        wait: &LongestWait,
        timeline: Timeline,
    ) -> Self {
        let length = value(Some((wait.to_ns - wait.from_ns) as f64), Unit::Time);
        let end = beyond(&timeline, wait.to_ns);
        Self {
            title: format!("The longest wait: {} under {scheduler}.", wait.task),
            text: format!("With seed {seed} it is runnable and does not run for {length}.{end}"),
            timeline,
            focus: Some(wait.task.clone()),
            marks: vec![Mark {
                task: Some(wait.task.clone()),
                from_ns: wait.from_ns,
                to_ns: wait.to_ns,
            }],
        }
    }

    /// The window of the run under `scheduler` with this seed in which shares were farthest apart.
    pub fn worst_window(
        scheduler: &str,
        seed: u64,
        window: &WindowSpread,
        timeline: Timeline,
    ) -> Self {
        let end = beyond(&timeline, window.start_ns + window.window_ns);
        let length = value(Some(window.window_ns as f64), Unit::Time);
        let points = value(Some((window.spread * 1000.0).round() / 10.0), Unit::Plain);
        Self {
            title: format!("The least fair {length}: under {scheduler}."),
            text: format!("With seed {seed} shares of a CPU are {points} points apart.{end}"),
            timeline,
            focus: None,
            marks: Vec::new(),
        }
    }

    /// The same time in the same workload under another scheduler, for comparison; `focus` as in the original.
    pub fn same_time(scheduler: &str, focus: Option<String>, timeline: Timeline) -> Self {
        Self {
            title: format!("The same time under {scheduler}."),
            text: String::new(),
            timeline,
            focus,
            marks: Vec::new(),
        }
    }
}

/// Says so if a timeline ends before what it shows.
fn beyond(timeline: &Timeline, to_ns: u64) -> &'static str {
    match timeline.to_ns < to_ns {
        true => " It goes on beyond the end of the shown span.",
        false => "",
    }
}
