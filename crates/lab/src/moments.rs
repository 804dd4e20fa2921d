//! The decisive moments: found in the results, and shown by running the simulation again. It is deterministic, so the second run shows the events that
//! the first one measured.

use fairground_events::{Nanoseconds, Sink};
use fairground_metrics::{LongestWaitFinder, Timeline, TimelineRecorder, WindowSpread};
use fairground_results::{Moment, Run, Status};

use crate::cell::{Cell, CellResult};
use crate::error::Error;

/// Maximum number of slices in a timeline; more would make the page larger without showing more.
const MOST_SLICES: usize = 400;
/// The spans shown before and after a wait are its length divided by this.
const AROUND: u64 = 4;
/// Waits shorter than this, in nanoseconds, are not worth showing.
const SHORT: Nanoseconds = 100_000;
/// Worst windows in which shares of a CPU differ by less are not worth showing.
const EVEN: f64 = 0.02;

/// The moments that make the difference between cells with different schedulers and seeds: the longest wait of all runs, and the window in
/// which shares were farthest apart, each with the same time under the scheduler that does best with the same seed. `alternatives` are cells
/// with their results.
pub fn moments(alternatives: &[(&Cell, &Run)]) -> Result<Vec<Moment>, Error> {
    let mut moments = Vec::new();
    let wait = |run: &Run| longest_wait(run).map(|wait| wait as f64);
    if let Some((worst, best)) = worst_and_best(alternatives, wait) {
        moments.extend(wait_moments(worst.0, best.map(|best| best.0))?);
    }
    let spread = |run: &Run| Some(worst_window(run)?.spread);
    if let Some((worst, best)) = worst_and_best(alternatives, spread) {
        if let Some(window) = worst_window(worst.1).filter(|window| window.spread >= EVEN) {
            moments.extend(window_moments(worst.0, best.map(|best| best.0), &window)?);
        }
    }
    Ok(moments)
}

fn longest_wait(run: &Run) -> Option<Nanoseconds> {
    let tasks = run.metrics.iter().flat_map(|metrics| &metrics.tasks);
    tasks.filter_map(|task| task.longest_wait_ns).max()
}

fn worst_window(run: &Run) -> Option<WindowSpread> {
    run.metrics.as_ref()?.fairness?.worst_window
}

type Alternative<'a> = (&'a Cell, &'a Run);

/// The alternative with the largest number (the first if several have it), and the one with the smallest among those with the same seed
/// under other schedulers.
fn worst_and_best<'a>(
    alternatives: &[Alternative<'a>],
    number: impl Fn(&Run) -> Option<f64>,
) -> Option<(Alternative<'a>, Option<Alternative<'a>>)> {
    let numbered: Vec<(Alternative<'a>, f64)> =
        alternatives.iter().filter_map(|&(cell, run)| Some(((cell, run), number(run)?))).collect();
    let larger =
        |a: (Alternative<'a>, f64), b: (Alternative<'a>, f64)| if b.1 > a.1 { b } else { a };
    let (worst, _) = numbered.iter().copied().reduce(larger)?;
    let is_rival = |cell: &Cell| {
        cell.options.seed == worst.0.options.seed
            && cell.contender.title() != worst.0.contender.title()
    };
    let best = numbered
        .iter()
        .filter(|((cell, _), _)| is_rival(cell))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(alternative, _)| *alternative);
    Some((worst, best))
}

fn wait_moments(worst: &Cell, best: Option<&Cell>) -> Result<Vec<Moment>, Error> {
    let mut finder = LongestWaitFinder::new(1, SHORT);
    again(worst, &mut finder)?;
    let Some(wait) = finder.result().pop() else { return Ok(Vec::new()) };
    let around = (wait.to_ns - wait.from_ns) / AROUND;
    let (from, to) = (wait.from_ns.saturating_sub(around), wait.to_ns + around);
    let timeline = record(worst, from, to)?;
    // Both are shown for the time that fits for the first.
    let end = timeline.to_ns;
    let (title, seed) = (worst.contender.title(), worst.options.seed);
    let mut moments = vec![Moment::longest_wait(&title, seed, &wait, timeline)];
    if let Some(best) = best {
        let timeline = record(best, from, end)?;
        let task = Some(wait.task);
        moments.push(Moment::same_time(&best.contender.title(), task, timeline));
    }
    Ok(moments)
}

fn window_moments(
    worst: &Cell,
    best: Option<&Cell>,
    window: &WindowSpread,
) -> Result<Vec<Moment>, Error> {
    let from = window.start_ns;
    let timeline = record(worst, from, from + window.window_ns)?;
    let end = timeline.to_ns;
    let (title, seed) = (worst.contender.title(), worst.options.seed);
    let mut moments = vec![Moment::worst_window(&title, seed, window, timeline)];
    if let Some(best) = best {
        let timeline = record(best, from, end)?;
        moments.push(Moment::same_time(&best.contender.title(), None, timeline));
    }
    Ok(moments)
}

/// Runs a cell again and records the events from `from` to `to`, or until the timeline is full.
pub fn record(cell: &Cell, from: Nanoseconds, to: Nanoseconds) -> Result<Timeline, Error> {
    let cpus = u32::try_from(cell.options.machine.cpu_count()).unwrap_or(u32::MAX);
    let mut recorder = TimelineRecorder::new(cpus, from, to, MOST_SLICES);
    again(cell, &mut recorder)?;
    Ok(Timeline { cpus: cell.options.machine.numbers.clone(), ..recorder.timeline() })
}

/// Runs a cell again with another consumer of its events.
///
/// # Errors
///
/// Also if its process does not come to its end this time, because then some events are missing.
pub(crate) fn again(cell: &Cell, sink: &mut dyn Sink) -> Result<(), Error> {
    let untraced = Cell { trace: None, ..cell.clone() };
    let CellResult { run, failure, .. } = untraced.run_with(&mut [sink])?;
    match failure {
        Some(failure) if run.status == Status::Crashed => Err(Error::System(format!(
            "{} under {} cannot be shown: run again, it {}",
            failure.workload, failure.scheduler, failure.message
        ))),
        _ => Ok(()),
    }
}
