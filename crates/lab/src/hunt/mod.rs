//! Hunts for faults of a scheduler: draws cases, keeps those that come nearest to breaking a rule, changes them, and reduces each mistake
//! that it finds to its smallest case.
//!
//! A hunt goes on in generations of [`GENERATION`] cases. The cases of a generation depend on the seed and on those that were kept before, not on
//! time or threads, and its state is written to a file after each: a hunt that was ended goes on as if it had not been.

mod draw;
mod scenario;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fairground_results::{Patience, Requirement, Status};
use fairground_simulator::Options;
use serde::{Deserialize, Serialize};

use self::scenario::ParentCase;
pub use self::scenario::Scenario;
use crate::cell::{Cell, CellResult, Failure};
use crate::check::{Finding, findings};
use crate::dice::Dice;
use crate::error::Error;
use crate::identity;
use crate::parallel;
use crate::plan::{Cells, Plan, check_hotplug};
use crate::shrink;

/// Number of cases that are run at once, before their results are looked at.
pub const GENERATION: usize = 32;
/// Number of cases that are kept for each rule.
const KEPT: usize = 16;
/// Maximum number of runs to reduce a case to its smallest form.
const MOST_RUNS: usize = 250;
/// Version of the state's file.
const VERSION: u32 = 2;
/// The rule beside the plan's requirements: no task starves.
const STARVED: &str = "starved";

/// The descriptions of the machines on which hunts run.
pub fn hunting_grounds() -> impl Iterator<Item = &'static str> {
    draw::MACHINES.iter().map(|(description, _)| *description)
}

/// A hunt for the mistakes of one scheduler.
pub struct Hunt<'a> {
    /// The machines with the schedulers, and the requirements; there are no workloads in it.
    pub plan: &'a Plan,
    /// Index of the scheduler.
    pub contender: usize,
    /// The seed of all choices.
    pub seed: u64,
    /// Folder of its state and of the cases that it finds.
    pub folder: &'a Path,
    /// Cases to begin with.
    pub first: &'a [Scenario],
    /// Describes a finding; the number is that of the machine's CPUs.
    pub tell: &'a (dyn Fn(&Finding, u32) -> Told + Sync),
}

/// A finding in words.
#[derive(Clone, Debug)]
pub struct Told {
    /// The mistake to which it points; findings of the same mistake are told once.
    pub diagnosis: String,
    /// The event, behind the scheduler's name.
    pub message: String,
}

/// A mistake that a hunt found, in its smallest form.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Find {
    /// The smallest case that was found to show it.
    pub scenario: Scenario,
    /// Its file, inside the hunt's folder.
    pub file: PathBuf,
    /// The failure there.
    pub failure: Failure,
    /// The requirement that is not met, if it is one.
    pub requirement: Option<String>,
    /// The mistake to which it points.
    pub diagnosis: String,
    /// The fault, the task that suffers and the reason, as a sentence behind the scheduler's name.
    pub message: String,
    /// Number of the run that showed it first, from 1.
    pub run: usize,
    /// Number of tasks of its case.
    pub tasks: usize,
}

/// The results of a hunt so far.
#[derive(Debug)]
pub struct Hunted {
    /// Number of runs, without those that made cases smaller.
    pub runs: usize,
    /// Findings.
    pub finds: Vec<Find>,
    /// The requirements that no run had enough of to be judged by.
    pub unjudged: Vec<String>,
    /// Whether the folder has a former hunt of this scheduler as it was then, with whose cases this one began.
    pub began_with_former: bool,
}

/// A mistake in a run that was not seen before.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Sighting {
    scenario: Scenario,
    failure: Failure,
    requirement: Option<String>,
    diagnosis: String,
    /// The kind of its reason.
    reason: String,
    message: String,
    run: usize,
}

/// All that a hunt knows, as it is in its file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct State {
    version: u32,
    /// The subject and the rules of the hunt, exactly.
    identity: String,
    runs: usize,
    /// Cases of former hunts, and those that were asked for.
    first: Vec<Scenario>,
    #[serde(skip)]
    began_with_former: bool,
    /// By rule, the nearest to breaking it first.
    kept: BTreeMap<String, Vec<ParentCase>>,
    /// The requirements that some run was judged by.
    #[serde(default)]
    judged: BTreeSet<String>,
    /// Mistakes that were seen, so that each is made smaller and told once.
    seen: BTreeSet<String>,
    /// Mistakes that are still to be made smaller.
    sightings: Vec<Sighting>,
    finds: Vec<Find>,
}

/// The results of a run of a case.
struct Tried {
    /// How near it came to breaking each rule, in their order.
    scores: Vec<f64>,
    /// The requirements that it was judged by.
    judged: Vec<String>,
    events: u64,
    sightings: Vec<Sighting>,
}

impl Hunt<'_> {
    /// Hunts until `goes_on`, which is called with the number of runs and of finds after each generation, says no. A hunt in the folder goes on
    /// where it ended.
    pub fn go_on(&self, goes_on: &dyn Fn(usize, usize) -> bool) -> Result<Hunted, Error> {
        self.plan.check()?;
        let templates = self.templates();
        let mut state = self.state()?;
        loop {
            self.make_small(&templates, &mut state)?;
            // A scheduler that cannot be loaded shows nothing else.
            let mut found = state.finds.iter();
            let is_over = found.any(|find| find.failure.status.never_began());
            if is_over || !goes_on(state.runs, state.finds.len()) {
                break;
            }
            let scenarios = self.generation(&state);
            let tried = self.try_all(&templates, &scenarios, state.runs)?;
            for (scenario, tried) in scenarios.into_iter().zip(tried) {
                self.take(&mut state, scenario, tried);
            }
            self.save(&state)?;
        }
        let required = self.plan.requirements.iter().map(ToString::to_string);
        Ok(Hunted {
            runs: state.runs,
            finds: state.finds,
            unjudged: required.filter(|one| !state.judged.contains(one)).collect(),
            began_with_former: state.began_with_former,
        })
    }

    /// A cell of the scheduler for each machine.
    fn templates(&self) -> Vec<Cell> {
        let cells = Cells::of(self.plan);
        let of_site = |site| Cell {
            patience: self.plan.patience,
            ..cells.template(site, self.contender).clone()
        };
        (0..self.plan.sites.len()).map(of_site).collect()
    }

    /// The names of the rules, in their order.
    fn rules(&self) -> Vec<String> {
        let required = self.plan.requirements.iter().map(ToString::to_string);
        [STARVED.to_owned()].into_iter().chain(required).collect()
    }

    /// The cell of a case; `None` if the hunt has no such machine.
    fn cell(&self, templates: &[Cell], scenario: &Scenario) -> Option<Cell> {
        let mut sites = self.plan.sites.iter();
        let site = sites.position(|site| site.machine.description == scenario.machine)?;
        let template = &templates[site];
        Some(Cell {
            options: Options {
                workload: Arc::new(scenario.parsed()?),
                duration: Some(scenario.duration),
                hotplug: check_hotplug(&scenario.hotplug, &template.options.machine).ok()?,
                ..template.options.clone()
            },
            ..template.clone()
        })
    }

    /// The cases of the next generation.
    fn generation(&self, state: &State) -> Vec<Scenario> {
        let numbers = state.runs..state.runs + GENERATION;
        let next = |number: usize| {
            if let Some(first) = state.first.get(number) {
                return first.clone();
            }
            let mut dice = Dice::new(self.seed, number as u64);
            let rules: Vec<&Vec<ParentCase>> = state.kept.values().collect();
            if rules.is_empty() || dice.once_in(2) {
                return Scenario::drawn(&mut dice);
            }
            let mut one_of_kept = || {
                let kept = rules[dice.below(rules.len())];
                // The nearer, the more often.
                &kept[dice.below(kept.len()).min(dice.below(kept.len()))]
            };
            let (one, other) = (one_of_kept(), one_of_kept());
            Scenario::changed(&mut dice, one, other)
        };
        numbers.map(next).collect()
    }

    /// Runs these cases, the first of which is the run with the number after `before`.
    fn try_all(
        &self,
        templates: &[Cell],
        scenarios: &[Scenario],
        before: usize,
    ) -> Result<Vec<Tried>, Error> {
        let mut order: Vec<usize> = (0..scenarios.len()).collect();
        let is_longer = |index: &usize| {
            let scenario = &scenarios[*index];
            Reverse(scenario.duration.saturating_mul(scenario.task_count() as u64))
        };
        order.sort_by_cached_key(is_longer);
        let tried = parallel::map(&order, self.plan.threads, |index| {
            self.try_one(templates, &scenarios[index], before + index + 1)
        });
        tried.into_iter().collect()
    }

    fn try_one(&self, templates: &[Cell], scenario: &Scenario, run: usize) -> Result<Tried, Error> {
        let Some(cell) = self.cell(templates, scenario) else {
            let (scores, judged, sightings) = Default::default();
            return Ok(Tried { scores, judged, events: 0, sightings });
        };
        let result = cell.run()?;
        let metrics = result.run.metrics.as_ref();
        let starved = metrics.map_or(0.0, |metrics| cell.patience.nearness(metrics));
        let events = metrics.map_or(0, |metrics| metrics.context_switches + metrics.wakeups);
        let mut scores = vec![starved];
        scores.extend(&result.nearness);
        let sighting = |finding: Finding| {
            let told = (self.tell)(&finding, cpus_of(&cell));
            Sighting {
                scenario: scenario.clone(),
                diagnosis: told.diagnosis,
                reason: finding.reason(),
                message: told.message,
                requirement: requirement(&finding),
                failure: finding.failure,
                run,
            }
        };
        let required = { cell.requirements.iter() }.filter(|_| metrics.is_some());
        let is_open = |rule: &String| result.undecided.iter().any(|(one, _)| one == rule);
        Ok(Tried {
            scores,
            judged: required.map(ToString::to_string).filter(|rule| !is_open(rule)).collect(),
            events,
            sightings: findings(&cell, &result)?.into_iter().map(sighting).collect(),
        })
    }

    /// Adds the results of a run to the state.
    fn take(&self, state: &mut State, scenario: Scenario, tried: Tried) {
        state.runs += 1;
        state.judged.extend(tried.judged);
        for sighting in tried.sightings {
            if state.seen.insert(key(&sighting.failure, &sighting.diagnosis)) {
                state.sightings.push(sighting);
            }
        }
        // A case that breaks a rule is a find, and leads to nothing else.
        for (rule, score) in self.rules().into_iter().zip(tried.scores) {
            let kept = state.kept.entry(rule).or_default();
            if score <= 0.0 || score >= 1.0 || kept.iter().any(|one| one.score == score) {
                continue;
            }
            let place = kept.partition_point(|one| one.score > score);
            let scenario = scenario.clone();
            kept.insert(place, ParentCase { scenario, score, events: tried.events });
            kept.truncate(KEPT);
        }
        state.kept.retain(|_, kept| !kept.is_empty());
    }

    /// Makes the cases of mistakes smaller, and writes their files.
    fn make_small(&self, templates: &[Cell], state: &mut State) -> Result<(), Error> {
        if state.sightings.is_empty() {
            return Ok(());
        }
        let order: Vec<usize> = (0..state.sightings.len()).collect();
        let sightings = std::mem::take(&mut state.sightings);
        let small = parallel::map(&order, self.plan.threads, |index| {
            self.smallest(templates, &sightings[index])
        });
        for find in small {
            let mut find = find?;
            let is_same = |other: &Find| {
                key(&other.failure, &other.diagnosis) == key(&find.failure, &find.diagnosis)
            };
            if state.finds.iter().any(is_same) {
                continue;
            }
            state.seen.insert(key(&find.failure, &find.diagnosis));
            find.file = format!("{:02}-{}.json", state.finds.len(), find.failure.kind).into();
            write(&self.folder.join(&find.file), find.scenario.workload.as_bytes())?;
            state.finds.push(find);
        }
        self.save(state)
    }

    /// The smallest form of a case.
    fn smallest(&self, templates: &[Cell], seen: &Sighting) -> Result<Find, Error> {
        let mut scenario = seen.scenario.clone();
        let is_same = |cell: &Cell, result: &CellResult| {
            first_finding(cell, result).is_some_and(|found| found.reason() == seen.reason)
        };
        let shows = |scenario: &Scenario| {
            let cell = self.judging(self.cell(templates, scenario)?, seen);
            let result = cell.run().ok()?;
            let is_like = result.failure.as_ref()?.is_like(&seen.failure);
            (is_like && is_same(&cell, &result)).then_some(cell)
        };
        let calm = Scenario { hotplug: Vec::new(), ..scenario.clone() };
        if !scenario.hotplug.is_empty() && shows(&calm).is_some() {
            scenario = calm;
        }
        let cell = self.cell(templates, &scenario).filter(|_| !seen.failure.status.never_began());
        let shrunk = cell.and_then(|cell| {
            let cell = self.judging(cell, seen);
            let text = (scenario::FILE, scenario.workload.as_str());
            shrink::shrink(cell, &seen.failure, text, MOST_RUNS, &is_same, &|_, _| {})
        });
        let mut find = Find {
            tasks: 0,
            file: PathBuf::new(),
            failure: seen.failure.clone(),
            requirement: seen.requirement.clone(),
            diagnosis: seen.diagnosis.clone(),
            message: seen.message.clone(),
            run: seen.run,
            scenario,
        };
        if let Some((shrunk, cell)) = shrunk {
            find.scenario = Scenario {
                workload: shrunk.workload,
                machine: shrunk.machine,
                duration: shrunk.duration,
                ..find.scenario
            };
            find.failure = shrunk.failure;
            if let Some(found) = first_finding(&cell, &cell.run()?) {
                let told = (self.tell)(&found, cpus_of(&cell));
                (find.diagnosis, find.message) = (told.diagnosis, told.message);
            }
        }
        find.tasks = find.scenario.task_count();
        Ok(find)
    }

    /// The cell, which is judged by nothing but the rule that was seen to be broken.
    fn judging(&self, cell: Cell, seen: &Sighting) -> Cell {
        let is_it = |one: &&Requirement| seen.requirement.as_ref() == Some(&one.to_string());
        Cell {
            patience: match seen.requirement {
                Some(_) => Patience::Off,
                None => cell.patience,
            },
            requirements: cell.requirements.iter().filter(is_it).cloned().collect(),
            ..cell
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.join("hunt.json")
    }

    /// The subject and the rules of the hunt, exactly: a hash.
    fn identity(&self) -> String {
        let contender = &self.plan.sites[0].contenders[self.contender];
        let of = (
            contender.hash(),
            contender.tunables(),
            self.rules(),
            self.seed,
            self.plan.patience,
            self.first,
        );
        identity::of(&of)
    }

    /// The state in the folder, or a new one, which begins with the cases of the folder's former hunt.
    fn state(&self) -> Result<State, Error> {
        let path = self.file();
        let former = match fairground_files::read_text(&path) {
            Ok(text) => serde_json::from_str(&text).ok(),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                Some(State { version: VERSION, ..State::default() })
            }
            Err(cause) => return Err(Error::Read { path, cause }),
        };
        let former: Option<State> = former.filter(|one: &State| one.version == VERSION);
        let Some(former) = former else {
            return Err(Error::Plan(format!(
                "{}: it is not the state of a hunt of this version; remove it, or name another folder",
                path.display()
            )));
        };
        let identity = self.identity();
        if former.identity == identity {
            return Ok(former);
        }
        let found = former.finds.into_iter().map(|find| find.scenario);
        let kept = former.kept.into_values().flatten();
        let kept = kept.map(|kept| kept.scenario);
        let mut first: Vec<Scenario> = self.first.to_vec();
        for scenario in found.chain(kept).chain(former.first) {
            if !first.contains(&scenario) {
                first.push(scenario);
            }
        }
        Ok(State {
            version: VERSION,
            began_with_former: !former.identity.is_empty(),
            identity,
            first,
            ..State::default()
        })
    }

    fn save(&self, state: &State) -> Result<(), Error> {
        let text = serde_json::to_vec(state).expect("all keys are texts and all numbers finite");
        write(&self.file(), &text)
    }
}

fn cpus_of(cell: &Cell) -> u32 {
    cell.options.machine.cpu_count() as u32
}

/// The first finding of a run; `None` if there is none.
fn first_finding(cell: &Cell, result: &CellResult) -> Option<Finding> {
    findings(cell, result).ok()?.into_iter().next()
}

/// The requirement that a finding is about.
fn requirement(finding: &Finding) -> Option<String> {
    let breach = finding.breach.as_ref();
    breach.map(|breach| breach.requirement.clone())
}

/// The identity of a mistake: the rule and the cause. Whether a starved task still waits at the end depends on when that is.
fn key(failure: &Failure, diagnosis: &str) -> String {
    let kind = match failure.status {
        Status::Starved => "",
        _ => &failure.kind,
    };
    format!("{} {kind} {diagnosis}", failure.status)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    fairground_files::write(path, bytes)
        .map_err(|cause| Error::Write { path: path.to_owned(), cause })
}
