//! Runs an experiment and judges the results.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use fairground_catalog::Build;
use fairground_events::Nanoseconds;
use fairground_results::{Claim, Figure, Fit, Headline, Moment, Reproduction, Run, Verdict, Where};
use fairground_simulator::Options;
use rhai::Scope;

use super::file::{AcceptFile, ColumnFile, PointFile};
use super::load::{DocumentMachine, Experiment};
use super::printed;
use super::samples::{Evidence, Samples};
use super::script::{self, Expression, Table};
use crate::cell::{Cell, CellResult, Failure, run_cells};
use crate::contender::Contender;
use crate::error::Error;
use crate::moments::moments;

/// How to run an experiment.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Additional schedulers, which get no verdict.
    pub schedulers: Vec<String>,
    /// How schedulers that are sources of the user are compiled.
    pub build: Build,
    /// Number of seeds (on a kernel, repetitions), if not the experiment's.
    pub seeds: Option<u32>,
    /// Names of points; empty for all.
    pub points: Vec<String>,
    /// Length of each run, if not the experiment's.
    pub duration: Option<Nanoseconds>,
    /// Simulations at once; `None` for one per CPU of this machine.
    pub threads: Option<NonZero<usize>>,
    /// Whether [`Reproduced::moments`] will be asked for.
    pub moments: bool,
}

/// The results of an experiment.
pub struct Reproduced {
    /// Figures and verdicts.
    pub reproduction: Reproduction,
    /// Samples for the plots that are histograms: by plot, then point and column.
    pub histograms: Vec<Histogram>,
    /// Simulations that failed.
    pub failures: Vec<Failure>,
    /// CPU time that its simulations took; 0 on a kernel.
    pub cost: Nanoseconds,
    /// The simulations at the last point with the first seed, if moments will be asked for; none on a kernel, which would not do the same again.
    alternatives: Vec<(Cell, Run)>,
}

impl Reproduced {
    /// The decisive moments at the last point, with the first seed. Runs the simulations that show them again.
    pub fn moments(&self) -> Result<Vec<Moment>, Error> {
        let alternatives: Vec<(&Cell, &Run)> =
            self.alternatives.iter().map(|(cell, run)| (cell, run)).collect();
        let mut shown = moments(&alternatives)?;
        shown.truncate(SHOWN_MOMENTS);
        let Reproduction { axis, points, .. } = &self.reproduction;
        if let Some(name) = points.last().filter(|name| !name.is_empty()) {
            for moment in &mut shown {
                moment.title.push_str(&format!(" ({axis}: {name})"));
            }
        }
        Ok(shown)
    }
}

/// The samples of one plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// Its title.
    pub title: String,
    /// The document's names of its own figures, by point; may be too few.
    pub labels: Vec<String>,
    /// Name of the x axis.
    pub x: String,
    /// Width of a bin.
    pub bin: f64,
    /// Names of the point and the column, and the samples of all seeds.
    pub series: Vec<(String, String, Vec<f64>)>,
}

/// The results of one run: its measures and the samples of its plots, in the order of the experiment's file.
pub(super) struct Measured {
    /// `None` if the measure is not taken at the run's point.
    values: Vec<Option<Result<f64, String>>>,
    samples: Vec<Vec<f64>>,
}

/// Runs `experiments` in the simulator, all their simulations in one pool, the longest first. `progress` is called, from any thread, with the
/// number of finished simulations and the total.
///
/// # Errors
///
/// If a file of an experiment or a scheduler cannot be used. A failed simulation is not an error: see [`Reproduced::failures`].
pub fn reproduce(
    experiments: &[Experiment],
    request: &Request,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Vec<Reproduced>, Error> {
    let mut all = Vec::new();
    let mut cells = Vec::new();
    // The experiment and the point of each cell.
    let mut places = Vec::new();
    for experiment in experiments {
        let simulations = Simulations::new(experiment, request)?;
        for (point, some) in simulations.cells()? {
            places.resize(places.len() + some.len(), (all.len(), point));
            cells.extend(some);
        }
        all.push((simulations, Measures::compile(experiment)?));
    }
    let results = run_cells(&cells, request.threads, progress, |index, result| {
        let (experiment, point) = places[index];
        let (simulations, measures) = &all[experiment];
        let is_shown = request.moments
            && cells[index].repeat == 0
            && point + 1 == simulations.setup.points.len()
            && result.run.metrics.is_some();
        let (shown, cost) = (is_shown.then(|| result.run.clone()), result.cost);
        (simulations.measure(result, point, measures), cost, shown)
    })?;
    let mut results = cells.into_iter().zip(results);
    let outcome = |(number, (simulations, _)): (usize, &(Simulations<'_>, Measures))| {
        let own = places.iter().filter(|(one, _)| *one == number).count();
        let (mut measured, mut costs, mut alternatives) = (Vec::new(), 0, Vec::new());
        for (cell, (result, cost, shown)) in results.by_ref().take(own) {
            measured.push(result);
            costs += cost;
            alternatives.extend(shown.map(|run| (cell, run)));
        }
        let outcome = simulations.setup.outcome(measured, simulations.world())?;
        Ok(Reproduced { cost: costs, alternatives, ..outcome })
    };
    all.iter().enumerate().map(outcome).collect()
}

/// Number of timelines for an experiment: a long wait, or else an uneven window, and the same time under another scheduler.
const SHOWN_MOMENTS: usize = 2;

/// An experiment combined with a request: its measures and judgements, wherever the runs are made.
pub(super) struct Setup<'a> {
    pub(super) experiment: &'a Experiment,
    pub(super) columns: Vec<ColumnFile>,
    pub(super) points: Vec<PointFile>,
    /// Values that expressions may use.
    pub(super) fits: BTreeMap<String, f64>,
    pub(super) seeds: u32,
    /// Whether the request says how many seeds there are, which is then true everywhere.
    seeds_requested: bool,
    /// Whether points that acceptance lines may need were left out.
    partial: bool,
    duration: Option<Nanoseconds>,
}

/// The place where the runs were made, and remarks about it.
pub(super) struct World {
    pub(super) name: Where,
    pub(super) machine: String,
    pub(super) notes: Vec<String>,
}

/// An experiment with everything that its cells need, already read.
pub(super) struct Simulations<'a> {
    setup: Setup<'a>,
    contenders: Vec<Contender>,
    /// By point, then by column.
    machines: Vec<Vec<DocumentMachine>>,
}

impl<'a> Setup<'a> {
    pub(super) fn new(experiment: &'a Experiment, request: &Request) -> Result<Self, Error> {
        let mut columns = experiment.file.column.clone();
        for scheduler in &request.schedulers {
            if !columns.iter().any(|column| column.name() == scheduler) {
                columns.push(ColumnFile { scheduler: scheduler.clone(), ..ColumnFile::default() });
            }
        }
        let mut points = experiment.points();
        if !request.points.is_empty() {
            keep(&mut points, &request.points, |point| &point.name)
                .map_err(|error| experiment.wrong(error))?;
        }
        Ok(Self {
            experiment,
            columns,
            points,
            fits: experiment.fits(),
            seeds: request.seeds.unwrap_or(experiment.file.seeds).max(1),
            seeds_requested: request.seeds.is_some(),
            partial: !request.points.is_empty(),
            duration: request.duration,
        })
    }

    /// Number of seeds of a column at a point.
    fn seeds_at(&self, point: usize, column: usize) -> u32 {
        let own = [self.points[point].seeds, self.columns[column].seeds];
        let own = own.into_iter().flatten().map(NonZero::get);
        if self.seeds_requested { self.seeds } else { own.fold(self.seeds, u32::min) }
    }

    /// Length of a run at a point, if not the workload's own.
    pub(super) fn duration(&self, point: &PointFile) -> Option<Nanoseconds> {
        self.duration.or_else(|| self.own_duration(point))
    }

    /// The same as the experiment has it.
    fn own_duration(&self, point: &PointFile) -> Option<Nanoseconds> {
        let seconds = point.duration.or(self.experiment.file.duration);
        seconds.map(|seconds| (seconds * 1e9) as u64)
    }

    /// How the runs of this experiment are measured.
    pub(super) fn metrics(&self) -> fairground_metrics::Options {
        let file = &self.experiment.file;
        let usual = fairground_metrics::Options::default();
        fairground_metrics::Options {
            records: file.records,
            window: file.window.map_or(usual.window, |seconds| (seconds * 1e9) as u64),
        }
    }
}

impl<'a> Simulations<'a> {
    /// Opens the schedulers and reads the machines.
    pub(super) fn new(experiment: &'a Experiment, request: &Request) -> Result<Self, Error> {
        let setup = Setup::new(experiment, request)?;
        let wanted: Vec<(&str, &Build)> = { setup.columns.iter() }
            .map(|column| (column.scheduler.as_str(), &request.build))
            .collect();
        let mut contenders = Contender::open_all(&wanted, request.threads)?;
        for (contender, column) in contenders.iter_mut().zip(&setup.columns) {
            for (tunable, value) in column.settings() {
                contender.set(tunable, &value).map_err(|error| {
                    experiment.wrong(format!("column {}: {error}", column.name()))
                })?;
            }
        }
        let mut simulations = Self { setup, contenders, machines: Vec::new() };
        simulations.set_fits(experiment.fits())?;
        Ok(simulations)
    }

    /// Sets the fitted values, on which the machines' costs may depend.
    pub(super) fn set_fits(&mut self, fits: BTreeMap<String, f64>) -> Result<(), Error> {
        self.setup.fits = fits;
        let Setup { experiment, points, columns, fits, .. } = &self.setup;
        let machines = points.iter().map(|point| {
            columns.iter().map(|column| experiment.machine(&column.at(point), fits)).collect()
        });
        self.machines = machines.collect::<Result<_, _>>()?;
        Ok(())
    }

    /// The mean of a single figure, from only the runs of its column and point.
    pub(super) fn mean_at(
        &self,
        column: &str,
        point: &str,
        measure: &str,
        threads: Option<NonZero<usize>>,
    ) -> Result<f64, Error> {
        let mut names = self.setup.experiment.file.measure.iter().map(|one| &one.name);
        let wanted = (
            self.setup.points.iter().position(|one| one.name == point),
            self.setup.columns.iter().position(|one| one.name() == column),
            names.position(|one| one == measure),
        );
        let (Some(point), Some(column), Some(measure)) = wanted else {
            let message = format!("there is no {measure} of {column} at {point:?}");
            return Err(self.setup.experiment.wrong(message));
        };
        let cells = self.cells_at(point, column)?;
        let measures = Measures::compile(self.setup.experiment)?;
        let values = run_cells(&cells, threads, &|_, _| {}, |_, result| {
            let (mut measured, _, _) = self.measure(result, point, &measures);
            measured.values.swap_remove(measure)
        })?;
        let elsewhere = || Err("the measure is not one of this point".to_owned());
        let values = values.into_iter().map(|value| value.unwrap_or_else(elsewhere));
        let values: Result<Vec<f64>, String> = values.collect();
        let values = values.map_err(|reason| self.setup.experiment.wrong(reason))?;
        Ok(values.iter().sum::<f64>() / values.len() as f64)
    }

    /// The cells for a point and column, by seed.
    fn cells_at(&self, point: usize, column: usize) -> Result<Vec<Cell>, Error> {
        let file = &self.setup.experiment.file;
        let seeds = self.setup.seeds_at(point, column);
        let (point, machine) = (&self.setup.points[point], &self.machines[point][column]);
        let (column, contender) = (&self.setup.columns[column], &self.contenders[column]);
        let workload = self.setup.experiment.workload(&column.at(point), &self.setup.fits)?;
        let cell = |seed: u32| {
            let options = Options {
                duration: self.setup.duration(point),
                cost: machine.cost.clone(),
                seed: u64::from(seed),
                hz: column.hz.or(file.hz).unwrap_or(machine.file.hz),
                ..Options::new(machine.machine.clone(), workload.clone())
            };
            let mut cell = Cell::new(contender.clone(), options);
            cell.repeat = seed;
            cell.metrics = self.setup.metrics();
            cell
        };
        Ok((0..seeds).map(cell).collect())
    }

    /// Reads the result of a cell at a point.
    fn measure(
        &self,
        result: CellResult,
        point: usize,
        measures: &Measures,
    ) -> (Measured, Option<Failure>, Vec<String>) {
        let CellResult { run, failure, .. } = result;
        let measured = match (run.metrics, &failure) {
            (Some(metrics), None) => {
                let (fits, mhz) = (&self.setup.fits, self.machines[point][0].file.mhz);
                let point = &self.setup.points[point].name;
                let scope = script::scope_of_run(*metrics, &run.counters, point, fits, mhz);
                measures.of(scope)
            }
            _ => measures.none("the simulation failed"),
        };
        (measured, failure, run.notes.to_vec())
    }

    /// All cells, point by point and column by column, each list with its point.
    fn cells(&self) -> Result<Vec<(usize, Vec<Cell>)>, Error> {
        let columns = 0..self.setup.columns.len();
        let points = 0..self.setup.points.len();
        points
            .flat_map(|point| columns.clone().map(move |column| (point, column)))
            .map(|(point, column)| Ok((point, self.cells_at(point, column)?)))
            .collect()
    }

    /// The machines, their tick rates and their costs.
    fn world(&self) -> World {
        let file = &self.setup.experiment.file;
        let mut machines: Vec<String> = Vec::new();
        let mut notes = Vec::new();
        for machine in self.machines.iter().flatten() {
            let words = format!(
                "{} ({}), {} Hz, costs {}",
                machine.file.title,
                machine.machine.description,
                file.hz.unwrap_or(machine.file.hz),
                machine.cost.name
            );
            if !machines.contains(&words) {
                machines.push(words);
                notes.push(format!("machine: {}", machine.file.origin));
            }
        }
        World { name: Where::Simulator, machine: machines.join(" and "), notes }
    }
}

impl Setup<'_> {
    /// Assembles the results of the runs, point by point and column by column.
    pub(super) fn outcome(
        &self,
        results: Vec<(Measured, Option<Failure>, Vec<String>)>,
        mut world: World,
    ) -> Result<Reproduced, Error> {
        let mut failures = Vec::new();
        world.notes.extend(self.experiment.file.caveats.iter().cloned());
        let mut measured = Vec::new();
        for (one, failure, said) in results {
            measured.push(one);
            failures.extend(failure);
            for note in said {
                if !world.notes.contains(&note) {
                    world.notes.push(note);
                }
            }
        }
        Ok(Reproduced {
            reproduction: self.judge(&measured, world)?,
            histograms: self.histograms(&measured),
            failures,
            cost: 0,
            alternatives: Vec::new(),
        })
    }

    /// The runs for a point and column.
    fn runs<'m>(&self, measured: &'m [Measured], point: usize, column: usize) -> &'m [Measured] {
        let columns = self.columns.len();
        let seeds = |place: usize| self.seeds_at(place / columns, place % columns) as usize;
        let place = point * columns + column;
        let start: usize = (0..place).map(seeds).sum();
        &measured[start..start + seeds(place)]
    }

    fn judge(&self, measured: &[Measured], mut world: World) -> Result<Reproduction, Error> {
        let file = &self.experiment.file;
        let printed =
            printed::numbers(&self.experiment.document, &self.columns, &self.points, &file.measure);
        let mut table = Table::new();
        let mut figures = Vec::new();
        for (index, measure) in file.measure.iter().enumerate() {
            let mut here = Vec::new();
            let mut document = Vec::new();
            for (number, point) in self.points.iter().enumerate() {
                let mut row = Vec::new();
                let mut printed_row = Vec::new();
                for (position, column) in self.columns.iter().enumerate() {
                    let runs = self.runs(measured, number, position);
                    let key = (column.name().to_owned(), point.name.clone(), measure.name.clone());
                    let samples = samples_of(runs, index, &key, &mut world.notes);
                    row.push(samples.as_ref().and_then(Samples::interval));
                    printed_row.push(printed.get(&key).copied());
                    table.insert(key, samples);
                }
                here.push(row);
                document.push(printed_row);
            }
            let figure = Figure {
                measure: measure.name.clone(),
                label: measure.label.clone(),
                title: measure.title.clone(),
                unit: measure.unit.clone(),
                decimals: measure.decimals,
                here,
                document,
            };
            let ratios = measure.over.as_deref().map(|base| self.over(&figure, base, &table));
            if !measure.hidden {
                figures.push(figure);
            }
            figures.extend(ratios);
        }
        let (verdicts, headline) = self.verdicts(table, printed)?;
        Ok(self.reproduction(figures, verdicts, headline, world))
    }

    /// A figure over that of the column `base`, seed by seed; the base itself has none.
    fn over(&self, figure: &Figure, base: &str, table: &Table) -> Figure {
        let names: Vec<&str> = self.columns.iter().map(ColumnFile::name).collect();
        let number = names.iter().position(|name| *name == base);
        let samples = |point: &PointFile, column: &str| {
            let key = (column.to_owned(), point.name.clone(), figure.measure.clone());
            table.get(&key)?.as_ref()
        };
        let here = self.points.iter().map(|point| {
            let ratio = |name: &&str| {
                let ratio = samples(point, name)?.over(samples(point, base)?);
                ratio.interval().filter(|_| *name != base)
            };
            names.iter().map(ratio).collect()
        });
        let document = figure.document.iter().map(|row| {
            let ratio = |column: usize| {
                let (number, column) = (number?, column);
                Some(row[column]? / row[number]?).filter(|_| column != number)
            };
            (0..names.len()).map(ratio).collect()
        });
        Figure {
            measure: format!("{} over {base}", figure.measure),
            label: figure.label.clone(),
            title: format!("{}, over that of {base}", figure.title),
            unit: String::new(),
            decimals: 3,
            here: here.collect(),
            document: document.collect(),
        }
    }

    /// The verdicts on all lines, and the headline.
    fn verdicts(
        &self,
        table: Table,
        printed: BTreeMap<(String, String, String), f64>,
    ) -> Result<(Vec<Verdict>, Option<Headline>), Error> {
        let (table, printed) = (Arc::new(table), Arc::new(printed));
        let fewest = Arc::new(AtomicU32::new(self.seeds));
        let engine = |evidence| {
            script::engine_of_verdicts(table.clone(), printed.clone(), evidence, fewest.clone())
        };
        let mut scope = script::constants("", &self.fits);
        let names = |names: Vec<String>| -> rhai::Array {
            names.into_iter().map(rhai::Dynamic::from).collect()
        };
        let points = self.points.iter().map(|point| point.name.clone());
        scope.push_constant("points", names(points.collect()));
        // Columns added by a request or a world are not the document's.
        let columns = self.experiment.file.column.iter().map(|column| column.name().to_owned());
        scope.push_constant("columns", names(columns.collect()));
        let judge = Judge {
            shown: engine(Some(Evidence::Shown)),
            possible: engine(Some(Evidence::Possible)),
            words: engine(None),
            scope,
            repeats: self.seeds,
            fewest: fewest.clone(),
            has_other_length: self
                .points
                .iter()
                .any(|point| self.duration(point) != self.own_duration(point)),
        };
        let lines = self.experiment.file.accept.iter();
        let verdicts = lines
            .map(|line| match judge.verdict(line) {
                Err(_) if self.partial => {
                    Ok(unmeasured(line, "points that were left out".to_owned()))
                }
                verdict => verdict,
            })
            .collect::<Result<_, _>>()
            .map_err(|message| self.experiment.wrong(message))?;
        let headline = match &self.experiment.file.headline {
            None => None,
            Some(file) => Some(Headline {
                says: file.says.clone(),
                document: file.document.clone(),
                here: match judge.words(&file.here, ", ") {
                    Err(_) if self.partial => String::new(),
                    words => words
                        .map_err(|error| self.experiment.wrong(format!("headline: {error}")))?,
                },
                lines: file.lines.clone(),
            }),
        };
        Ok((verdicts, headline))
    }

    fn reproduction(
        &self,
        figures: Vec<Figure>,
        mut verdicts: Vec<Verdict>,
        headline: Option<Headline>,
        world: World,
    ) -> Reproduction {
        let file = &self.experiment.file;
        let kernel = self.experiment.kernel.as_ref().filter(|_| world.name == Where::Simulator);
        for verdict in &mut verdicts {
            let known = kernel.map(|kernel| &kernel.verdicts);
            let known = known.and_then(|all| all.iter().find(|one| one.id == verdict.id));
            verdict.on_kernel = known.map(|one| one.verdict.clone());
        }
        Reproduction {
            id: self.experiment.id.clone(),
            title: file.title.clone(),
            document: file.document.clone(),
            section: file.section.clone(),
            kind: file.kind,
            world: world.name,
            machine: world.machine,
            repeats: self.seeds,
            columns: self.columns.iter().map(|column| column.name().to_owned()).collect(),
            points: self.points.iter().map(|point| point.name.clone()).collect(),
            axis: file.axis.clone(),
            figures,
            verdicts,
            headline,
            fits: file
                .fit
                .iter()
                .map(|fit| Fit {
                    name: fit.name.clone(),
                    value: fit.value,
                    unit: fit.unit.clone(),
                    to: fit.to.clone(),
                })
                .collect(),
            printed: printed::tables(&self.experiment.document),
            notes: world.notes,
            kernel: kernel.map(|kernel| format!("{}, {} runs", kernel.machine, kernel.repeats)),
        }
    }

    fn histograms(&self, measured: &[Measured]) -> Vec<Histogram> {
        let mut histograms = Vec::new();
        for (index, plot) in self.experiment.file.plot.iter().enumerate() {
            let mut series = Vec::new();
            for (number, point) in self.points.iter().enumerate() {
                for (position, column) in self.columns.iter().enumerate() {
                    let runs = self.runs(measured, number, position);
                    let samples = runs.iter().flat_map(|run| run.samples[index].iter().copied());
                    series.push((point.name.clone(), column.name().to_owned(), samples.collect()));
                }
            }
            histograms.push(Histogram {
                title: plot.title.clone(),
                labels: plot.labels.clone(),
                x: plot.x.clone(),
                bin: plot.bin,
                series,
            });
        }
        histograms
    }
}

/// Keeps those of `all` that are named in `names`.
pub(super) fn keep<T>(
    all: &mut Vec<T>,
    names: &[String],
    name: impl Fn(&T) -> &String,
) -> Result<(), String> {
    let is_missing = |wanted: &&String| !all.iter().any(|one| name(one) == *wanted);
    if let Some(missing) = names.iter().find(is_missing) {
        let all: Vec<&str> = all.iter().map(|one| name(one).as_str()).collect();
        return Err(format!("there is no {missing:?}; there are {}", all.join("; ")));
    }
    all.retain(|one| names.contains(name(one)));
    Ok(())
}

/// The figure over several runs; `None` if it is not taken at their point, or if a run lacks it, which a note reports.
fn samples_of(
    runs: &[Measured],
    index: usize,
    key: &(String, String, String),
    notes: &mut Vec<String>,
) -> Option<Samples> {
    let values: Option<Vec<_>> = runs.iter().map(|run| run.values[index].as_ref()).collect();
    let values: Result<Vec<f64>, &String> =
        values?.into_iter().map(|value| value.as_ref().copied()).collect();
    match values {
        Ok(values) => Some(Samples(values)),
        Err(reason) => {
            let (column, point, measure) = key;
            let place = if point.is_empty() { String::new() } else { format!(" at {point}") };
            notes.push(format!("{measure} of {column}{place} has no value: {reason}"));
            None
        }
    }
}

/// The verdict on a line that lacks `what`.
fn unmeasured(line: &AcceptFile, what: String) -> Verdict {
    Verdict {
        id: line.id.clone(),
        level: line.level,
        claim: line.claim.clone(),
        holds: Claim::NotMeasured(what),
        shows: String::new(),
        reason: None,
        cause: None,
        on_kernel: None,
    }
}

/// Evaluates the claims about all runs of an experiment.
struct Judge {
    shown: rhai::Engine,
    possible: rhai::Engine,
    words: rhai::Engine,
    scope: Scope<'static>,
    repeats: u32,
    /// The fewest runs of a figure that was looked up since this was `repeats`.
    fewest: Arc<AtomicU32>,
    /// Whether the runs have another length than the documents'.
    has_other_length: bool,
}

impl Judge {
    /// Judges a line.
    fn verdict(&self, line: &AcceptFile) -> Result<Verdict, String> {
        let wrong = |error: String| format!("line {}: {error}", line.id);
        let is_true = |engine: &rhai::Engine| {
            let holds = Expression::compile(engine, &line.holds)?;
            holds.truth(engine, &mut self.scope.clone())
        };
        self.fewest.store(self.repeats, Ordering::Relaxed);
        // What is shown is possible, too, unless a comparison is turned round: `!(x > 1)` is true wherever `x > 1` is not shown.
        let judged = is_true(&self.shown).and_then(|is_shown| {
            Ok(match (is_shown, is_true(&self.possible)?) {
                (true, true) => Claim::Holds,
                (false, false) => Claim::Fails,
                _ => Claim::NotShown(self.fewest.load(Ordering::Relaxed)),
            })
        });
        let holds = match judged {
            Ok(holds) => holds,
            Err(error) => match script::not_measured(&error) {
                Some(what) => Claim::NotMeasured(what.to_owned()),
                None => return Err(wrong(error)),
            },
        };
        let mut verdict = unmeasured(line, String::new());
        verdict.holds = holds;
        match self.words_or_missing(&line.shows, "\n").map_err(wrong)? {
            Ok(words) => verdict.shows = words,
            // A run of another length may lack it for that alone.
            Err(what) if self.has_other_length && verdict.is_open() => {
                verdict.holds = Claim::NotMeasured(what);
            }
            Err(_) => {}
        }
        // The reason is that of the documents' length.
        if verdict.is_open() && !self.has_other_length {
            verdict.reason.clone_from(&line.reason);
            verdict.cause.clone_from(&line.cause);
        }
        Ok(verdict)
    }

    /// The value of an expression in words, with `between` the elements of a list; empty if there is none, or if something that it needs was
    /// not measured.
    fn words(&self, text: &str, between: &str) -> Result<String, String> {
        Ok(self.words_or_missing(text, between)?.unwrap_or_default())
    }

    /// The same, or what was not measured.
    fn words_or_missing(
        &self,
        text: &str,
        between: &str,
    ) -> Result<Result<String, String>, String> {
        if text.is_empty() {
            return Ok(Ok(String::new()));
        }
        let engine = &self.words;
        let words = Expression::compile(engine, text)?;
        match words.text(engine, &mut self.scope.clone(), between) {
            Ok(words) => Ok(Ok(words)),
            Err(error) => match script::not_measured(&error) {
                Some(what) => Ok(Err(what.to_owned())),
                None => Err(error),
            },
        }
    }
}

/// The compiled measures of an experiment.
pub(super) struct Measures {
    engine: rhai::Engine,
    /// Each with the points at which it is measured; empty for all.
    values: Vec<(Expression, Vec<String>)>,
    samples: Vec<Expression>,
}

impl Measures {
    pub(super) fn compile(experiment: &Experiment) -> Result<Self, Error> {
        let engine = script::engine();
        let compile = |text: &str| {
            Expression::compile(&engine, text).map_err(|error| experiment.wrong(error))
        };
        let file = &experiment.file;
        let values = file.measure.iter().map(|measure| {
            let value = compile(&measure.value)?;
            Ok((value, measure.points.clone()))
        });
        let samples = file.plot.iter().map(|plot| compile(&plot.samples));
        Ok(Self {
            values: values.collect::<Result<_, Error>>()?,
            samples: samples.collect::<Result<_, _>>()?,
            engine,
        })
    }

    /// Evaluates the measures of a run with `scope`.
    pub(super) fn of(&self, scope: Result<Scope<'static>, String>) -> Measured {
        let mut scope = match scope {
            Ok(scope) => scope,
            Err(error) => return self.none(&error),
        };
        let point: rhai::ImmutableString = scope.get_value("point").unwrap_or_default();
        let values = self.values.iter();
        let samples = self.samples.iter();
        Measured {
            values: values
                .map(|(value, points)| {
                    let here = points.is_empty() || points.iter().any(|one| one.as_str() == point);
                    here.then(|| value.number(&self.engine, &mut scope))
                })
                .collect(),
            samples: samples
                .map(|one| one.numbers(&self.engine, &mut scope).unwrap_or_default())
                .collect(),
        }
    }

    /// Nothing was measured, for this reason.
    pub(super) fn none(&self, reason: &str) -> Measured {
        Measured {
            values: vec![Some(Err(reason.to_owned())); self.values.len()],
            samples: vec![Vec::new(); self.samples.len()],
        }
    }
}
