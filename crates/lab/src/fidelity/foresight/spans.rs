//! How long programs take, from the start of the first task to the end of the last.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use fairground_events::Nanoseconds;
use fairground_results::MAKESPAN_ERROR;
use fairground_simulator::CostModel;

use super::{Foresight, Made, Simulated, schedulers};
use crate::contender::{Contender, KERNEL};
use crate::error::Error;

/// How long a program takes, and how long replays predict.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// The program.
    pub workload: String,
    /// The scheduler under which the replayed recordings were made.
    pub source: String,
    /// The scheduler that they are about.
    pub scheduler: String,
    /// The time of each recording under it, shortest first.
    pub recorded: Vec<Nanoseconds>,
    /// The prediction of each recording's replay, the median of its seeds; shortest first.
    pub predicted: Vec<Nanoseconds>,
}

/// Which scheduler is faster than which, according to replays of recordings made under the kernel's own.
pub(super) struct Order {
    workload: String,
    /// Pairs of schedulers whose recordings do not overlap.
    pairs: usize,
    /// Those that replays order the other way round, the faster scheduler first.
    pub(super) wrong: Vec<(String, String)>,
}

fn middle(times: &[Nanoseconds]) -> f64 {
    times.get(times.len() / 2).map_or(0.0, |time| *time as f64)
}

impl Span {
    /// The error of the worst prediction, as a fraction of the median of the recordings; negative if it predicts less.
    pub fn error(&self) -> f64 {
        let seen = middle(&self.recorded).max(1.0);
        let errors = self.predicted.iter().map(|time| *time as f64 / seen - 1.0);
        errors.max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap_or(0.0)
    }

    /// Whether all predictions are within the bound.
    pub fn holds(&self) -> bool {
        self.error().abs() <= MAKESPAN_ERROR
    }
}

impl Simulated<'_> {
    /// How long it takes, the median of several seeds; or why it failed.
    fn span(&self, contender: &Contender) -> Result<Result<Nanoseconds, String>, Error> {
        let results = match self.results(contender)? {
            Ok(results) => results,
            Err(failure) => return Ok(Err(failure)),
        };
        let runs = results.iter().filter_map(|result| result.run.metrics.as_ref());
        let mut times: Vec<Nanoseconds> = runs.filter_map(|metrics| metrics.makespan_ns).collect();
        times.sort_unstable();
        Ok(times.get(times.len() / 2).copied().ok_or_else(|| {
            format!("{} under {} does not finish", self.workload.name, contender.name())
        }))
    }
}

impl Foresight {
    /// Predicts how long programs take.
    pub(super) fn spans(
        &mut self,
        workload: &str,
        made: &[Made],
        times: &[Nanoseconds],
        cost: &CostModel,
    ) -> Result<(), Error> {
        let schedulers = schedulers(made);
        let mut predicted: BTreeMap<(&str, &str), Vec<Nanoseconds>> = BTreeMap::new();
        for source in made {
            let replayed = source.replay(cost)?;
            for scheduler in schedulers.iter().copied() {
                if source.scheduler != KERNEL && scheduler != KERNEL {
                    continue;
                }
                let contender = Contender::open(scheduler, &Default::default())?;
                match replayed.simulated(cost).span(&contender)? {
                    Ok(time) => {
                        predicted.entry((&source.scheduler, scheduler)).or_default().push(time)
                    }
                    Err(failure) => self.failures.push(failure),
                }
            }
        }
        for ((source, scheduler), mut predicted) in predicted {
            let of_it = made.iter().zip(times).filter(|(one, _)| one.scheduler == scheduler);
            let mut recorded: Vec<Nanoseconds> = of_it.map(|(_, time)| *time).collect();
            recorded.sort_unstable();
            predicted.sort_unstable();
            self.spans.push(Span {
                workload: workload.to_owned(),
                source: source.to_owned(),
                scheduler: scheduler.to_owned(),
                recorded,
                predicted,
            });
        }
        Ok(())
    }

    /// Which scheduler is faster, for each program.
    pub(super) fn orders(&self) -> Vec<Order> {
        let mut programs: BTreeMap<&str, Vec<&Span>> = BTreeMap::new();
        for span in &self.spans {
            let of_program = programs.entry(&span.workload).or_default();
            if span.source == KERNEL {
                of_program.push(span);
            }
        }
        let orders = programs.into_iter().map(|(workload, spans)| {
            let mut order = Order { workload: workload.to_owned(), pairs: 0, wrong: Vec::new() };
            for faster in &spans {
                for slower in &spans {
                    if faster.recorded.last() < slower.recorded.first() {
                        order.pairs += 1;
                        if middle(&faster.predicted) >= middle(&slower.predicted) {
                            let names = (faster.scheduler.clone(), slower.scheduler.clone());
                            order.wrong.push(names);
                        }
                    }
                }
            }
            order
        });
        orders.collect()
    }

    pub(super) fn table_of_spans(&self, text: &mut String) {
        let range = |times: &[Nanoseconds]| {
            let seconds = |time: &Nanoseconds| format!("{:.3}", *time as f64 / 1e9);
            match (times.first(), times.last()) {
                (Some(first), Some(last)) if first != last => {
                    format!("{} to {}", seconds(first), seconds(last))
                }
                (Some(first), _) => seconds(first),
                _ => "-".to_owned(),
            }
        };
        let _ = writeln!(
            text,
            "{:16} {:10} {:10} {:>16} {:>16} {:>9}",
            "program", "from", "scheduler", "recorded", "replays", "furthest"
        );
        for span in &self.spans {
            let _ = writeln!(
                text,
                "{:16} {:10} {:10} {:>16} {:>16} {:>+7.1} %{}",
                span.workload,
                span.source,
                span.scheduler,
                range(&span.recorded),
                range(&span.predicted),
                100.0 * span.error(),
                if span.holds() { "" } else { "   out of bounds" }
            );
        }
        let _ = writeln!(
            text,
            "\nSeconds from start to end, and how far the worst replay is from the median of the recordings.\n\
             {} of {} are within {} %",
            self.spans.iter().filter(|span| span.holds()).count(),
            self.spans.len(),
            100.0 * MAKESPAN_ERROR
        );
        for order in self.orders() {
            let wrong = order.wrong.iter();
            let wrong: Vec<String> =
                wrong.map(|(faster, slower)| format!("{faster} before {slower}")).collect();
            let _ = writeln!(
                text,
                "{}: of {} pairs that the recordings tell apart, replays have {} in the right order{}{}",
                order.workload,
                order.pairs,
                order.pairs - order.wrong.len(),
                if wrong.is_empty() { "" } else { "; wrong: " },
                wrong.join(", ")
            );
        }
    }
}
