//! `fairground check`: the faults of a scheduler.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use fairground_companion::Companion;
use fairground_lab::{Contender, Error, Finding, Judged, Plan};
use fairground_report::{
    checkup_csv, checkup_json, checkup_markdown, checkup_text, comparison_junit,
};
use fairground_results::{
    Checkup, Comparison, Failure, Fault, Gate, GateOutcome, LeftOut, Patience, Requirement, Run,
    Status,
};
use serde::Deserialize;

use crate::finding::{judging, mistake, replaced, sentence};
use crate::gauntlet::{self, Case};
use crate::hunt::{Budget, Hunting};
use crate::output::{self, DocumentForm, FAILED, Place, Progress, Stop, UNUSABLE};
use crate::shrink::shrink_one;
use crate::simulation::{Simulation, Single, Sources, refuse_idle};
use crate::{annotations, failures, schedulers};

/// Maximum number of runs to shrink a fault.
const MOST_RUNS: usize = 300;

/// Find the faults of schedulers
///
/// Each goes through a gauntlet of cases in the simulator: changes of affinity, storms of forks, real-time tasks, CPUs that come and go,
/// machines from 1 to 512 CPUs. Each fault is told once, with the mistake that it points to and the command that shows it again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fairground check ./mine.bpf.c
  fairground check ./mine.bpf.c --case affinity-moves --case released --shrink faults
  fairground check ./mine.bpf.c --format json > before.json
  fairground check ./mine.bpf.c --baseline before.json --junit check.xml
  fairground check ./mine.bpf.c --hunt 10m")]
pub struct Arguments {
    /// Ids, paths of sources or objects of your own, or all, as for compare
    #[arg(required = true, value_name = "[NAME=]ID|PATH|exec:LOADER,...")]
    schedulers: Vec<String>,

    /// Only this case; may be given several times
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,

    /// Requirement on every case, instead of those of the cases on the same measure, of the same task if of one; may be given several times
    #[arg(long, value_name = "REQUIREMENT")]
    require: Vec<Requirement>,

    /// Leave out failures of this former result of --format json, in the same case and in the same way, but never a scheduler that did not run
    #[arg(long, value_name = "FILE.json")]
    baseline: Option<PathBuf>,

    /// Shrink a case of each fault: write the smallest workload found that shows it into this folder
    #[arg(long, value_name = "FOLDER")]
    shrink: Option<PathBuf>,

    /// Hunt: draw cases instead, for this long or in this many runs, and change those that come nearest to breaking a rule
    ///
    /// Each mistake is reduced to its smallest case. The same number of runs and seed give the same result; a hunt in the folder goes on.
    #[arg(long, value_name = "TIME|RUNS", conflicts_with_all = ["cases", "baseline", "shrink", "junit"])]
    hunt: Option<Budget>,

    #[command(flatten)]
    hunting: Hunting,

    /// Also write the result as JUnit XML: a test for each case under each scheduler
    #[arg(long, value_name = "FILE.xml")]
    junit: Option<PathBuf>,

    /// Form of the result
    #[arg(long, value_enum, default_value_t = DocumentForm::Table)]
    format: DocumentForm,

    #[command(flatten)]
    sources: Sources,
}

/// A case, ready to be run.
struct Site {
    case: Case,
    simulation: Simulation,
    /// The requirements here.
    requirements: Vec<Requirement>,
}

pub fn main(arguments: &Arguments) -> Result<ExitCode, Stop> {
    if let Some(budget) = arguments.hunt {
        return arguments.go_hunting(budget);
    }
    let former = arguments.baseline.as_deref().map(read_former).transpose();
    let former = former.map_err(|message| output::fail(UNUSABLE, message))?;
    let sites = arguments.sites()?;
    let mut plans = arguments.plans(&sites)?;
    let junit = arguments.junit.as_deref().map(Place::at).transpose()?;
    if let Some(folder) = &arguments.shrink {
        output::make_folder(folder)?;
    }
    let progress = Progress::new("checking".into());
    let is_wanted = |plan: usize, contender: &Contender| {
        let callback = sites[plan].case.needs;
        callback.is_none_or(|callback| contender.has_callback(callback, arguments.sources.kernel))
    };
    let left_out = left_out(&plans, &sites, &is_wanted);
    refuse_nothing(&left_out, sites.len())?;
    tell_missing(&plans);
    let judged =
        fairground_lab::check(&plans, &is_wanted, arguments.sources.threads, &|done, total| {
            progress.tell(done, total);
        });
    progress.clear();
    let mut judged = judged?;
    let measured: Vec<_> = { judged.iter() }.filter_map(|one| one.run.metrics.as_deref()).collect();
    let mut wanted = arguments.require.iter().flat_map(Requirement::quantities);
    if let Some(problem) = wanted.find_map(|one| one.absent_from(&measured)) {
        return Err(output::fail(UNUSABLE, format!("--require: {problem}")));
    }
    let mut known =
        former.map_or_else(BTreeMap::new, |former| leave_out(&former, &mut judged, &plans));
    let contenders = { plans.first() }.map_or(&[][..], |plan| &plan.sites[0].contenders);
    let schedulers: Vec<String> = contenders.iter().map(Contender::title).collect();
    let known_of = schedulers.iter().map(|title| {
        known.keys().filter(|number| titled(&judged[**number], &plans) == *title).count()
    });
    let mut checkup = Checkup {
        known_of: known_of.collect(),
        schedulers,
        cases: sites.len(),
        left_out,
        faults: groups(&judged, &plans, &sites),
        known: known.len(),
        hunts: Vec::new(),
    };
    if arguments.shrink.is_some() && checkup.faults.is_empty() {
        output::say!("fairground: nothing is wrong, so there is nothing to shrink");
    }
    arguments.show_again(&mut checkup, &judged, &sites, &mut plans)?;
    let runs: Vec<Run> = judged.iter().map(told).collect();
    known.retain(|number, _| runs[*number].is_ok());
    let ended = failures::exit_code(&runs, &known);
    arguments.print(&checkup)?;
    let gates = arguments.doubts(&judged);
    tell_doubts(&gates, &plans, &checkup.left_out);
    if let Some(place) = junit {
        let gates = gates.into_iter().chain(gates_left_out(&checkup.left_out, &sites)).collect();
        let comparison = Comparison { runs, gates, ..Comparison::default() };
        place.write(comparison_junit(&comparison, &known, &[]))?;
    }
    Ok(ended)
}

impl Arguments {
    fn go_hunting(&self, budget: Budget) -> Result<ExitCode, Stop> {
        let wanted = schedulers::parse(&self.schedulers)?;
        let checkup = self.hunting.hunt(&wanted, &self.require, &self.sources, budget)?;
        self.print(&checkup)?;
        let is_usable = |fault: &Fault| !fault.status.never_began();
        Ok(match checkup.faults.as_slice() {
            [] => ExitCode::SUCCESS,
            faults if faults.iter().any(is_usable) => ExitCode::from(FAILED),
            _ => ExitCode::from(UNUSABLE),
        })
    }

    /// What could not be judged, of the requirements that the user gave.
    fn doubts(&self, judged: &[Judged]) -> Vec<Gate> {
        let is_own = |text: &str| self.require.iter().any(|one| one.to_string() == text);
        let of_run = |one: &Judged| {
            let own = one.undecided.iter().filter(|(text, _)| is_own(text));
            own.map(|(text, lack)| {
                let outcome = GateOutcome::Undecided { why: lack.words(), is_open: false };
                Gate::new(text, &one.run.labels, outcome)
            })
            .collect::<Vec<_>>()
        };
        judged.iter().flat_map(of_run).collect()
    }

    fn print(&self, checkup: &Checkup) -> Result<(), Stop> {
        output::print(&match self.format {
            DocumentForm::Table => checkup_text(checkup),
            DocumentForm::Markdown => checkup_markdown(checkup),
            DocumentForm::Json => checkup_json(checkup),
            DocumentForm::Csv => checkup_csv(checkup),
        })
    }

    /// The cases that are wanted, each with its requirements here.
    fn sites(&self) -> Result<Vec<Site>, Error> {
        let all = gauntlet::cases().map_err(Error::Plan)?;
        for wanted in &self.cases {
            if !all.iter().any(|case| is_called(case, wanted)) {
                let names: Vec<&str> = all.iter().filter_map(|case| case.name.to_str()).collect();
                return Err(Error::Plan(format!(
                    "--case {wanted}: there is no such case; there are {}",
                    names.join(", ")
                )));
            }
        }
        let is_wanted = |case: &Case| {
            self.cases.is_empty() || self.cases.iter().any(|name| is_called(case, name))
        };
        let wanted = all.into_iter().filter(is_wanted);
        let site = |case: Case| Site {
            simulation: Simulation::of_case(&case, self.sources.clone()),
            requirements: replaced(&self.require, &case.requirements),
            case,
        };
        Ok(wanted.map(site).collect())
    }

    /// A plan for each case, with the schedulers, which are compiled once.
    fn plans(&self, sites: &[Site]) -> Result<Vec<Plan>, Error> {
        let mut plans = Vec::new();
        for site in sites {
            plans.push(Plan {
                patience: Patience::default(),
                ..site.simulation.plan_without_schedulers()?
            });
        }
        self.sources.open(&schedulers::parse(&self.schedulers)?, &mut plans)?;
        for (plan, site) in plans.iter_mut().zip(sites) {
            site.simulation.require(&site.requirements, plan)?;
            refuse_idle(&self.require, plan)?;
        }
        Ok(plans)
    }

    /// Adds to each fault the command that shows it again, of its smallest form if that is wanted.
    fn show_again(
        &self,
        checkup: &mut Checkup,
        judged: &[Judged],
        sites: &[Site],
        plans: &mut [Plan],
    ) -> Result<(), Stop> {
        for (number, fault) in checkup.faults.iter_mut().enumerate() {
            let (one, finding) = { judged.iter() }
                .filter(|one| titled(one, plans) == fault.scheduler)
                .flat_map(|one| one.findings.iter().map(move |finding| (one, finding)))
                .find(|(one, finding)| {
                    fault.cases.first() == Some(&one.run.labels.workload)
                        && finding.failure.was_told(&fault.kind, &fault.message)
                })
                .expect("the fault was found there");
            let (site, plan) = (&sites[one.plan], &mut plans[one.plan]);
            // Only this fault is to be shown, even if there are others.
            let broken = finding.breach.as_ref().map(|breach| &breach.requirement);
            plan.patience = match broken {
                Some(_) => Patience::Off,
                None => Patience::default(),
            };
            plan.requirements = { site.requirements.iter() }
                .filter(|one| broken == Some(&one.to_string()))
                .cloned()
                .collect();
            let kept = judging(plan);
            let shrunk = match &self.shrink {
                Some(folder) => {
                    let name =
                        format!("{number:02}-{}.json", plan.file_name(plan.place(one.number)));
                    self.shrunk(site, plan, one.number, finding, &folder.join(name))?
                }
                None => None,
            };
            // A run that does not end is shown up to where it was given up.
            let given_up = (finding.failure.status == Status::TimedOut)
                .then_some(finding.failure.after_ns)
                .flatten();
            let command = shrunk.unwrap_or_else(|| {
                site.simulation.command(&Single {
                    command: "compare",
                    workload: &site.case.name,
                    contender: plan.contender(plan.place(one.number)),
                    machine: &site.case.machine,
                    duration: Some(given_up.unwrap_or(site.case.duration)),
                    seed: plan.settings.seed,
                })
            });
            fault.command = format!("{command}{kept}");
        }
        Ok(())
    }

    /// Writes the smallest form of a fault that was found and returns the command that shows it; `None` if there is none.
    fn shrunk(
        &self,
        site: &Site,
        plan: &Plan,
        number: usize,
        finding: &Finding,
        path: &Path,
    ) -> Result<Option<String>, Stop> {
        if finding.failure.status.never_began() {
            return Ok(None);
        }
        match shrink_one(&site.simulation, plan, (number, &finding.failure), path, MOST_RUNS) {
            Ok(Some((shrunk, command))) => {
                output::write(path, &shrunk.workload)?;
                Ok(Some(command))
            }
            Ok(None) => Ok(None),
            Err(message) => Err(output::fail(FAILED, message)),
        }
    }
}

fn is_called(case: &Case, name: &str) -> bool {
    let path = Path::new(name);
    case.name == path || case.name.file_name() == Some(path.as_os_str())
}

/// Says of each requirement and scheduler in how many cases it is undecided, and why in the first.
fn tell_doubts(gates: &[Gate], plans: &[Plan], left_out: &[LeftOut]) {
    let Some(plan) = plans.first() else { return };
    let mut told: Vec<(&Gate, usize)> = Vec::new();
    for gate in gates {
        let is_it = |one: &Gate| one.text == gate.text && one.scheduler == gate.scheduler;
        match told.iter_mut().find(|(one, _)| is_it(one)) {
            Some((_, count)) => *count += 1,
            None => told.push((gate, 1)),
        }
    }
    for (gate, count) in told {
        let GateOutcome::Undecided { why, .. } = &gate.outcome else { continue };
        let Gate { text, scheduler, workload, .. } = gate;
        let all = plans.len() - LeftOut::count(left_out, scheduler);
        let cases = if all == 1 { "case" } else { "cases" };
        let message = format!(
            "'{text}' is undecided for {scheduler} in {count} of {all} {cases}; in {workload}: {why}"
        );
        annotations::warn(plan, scheduler, &message);
    }
}

/// The cases that are not for a scheduler, by the callback that it lacks.
fn left_out(
    plans: &[Plan],
    sites: &[Site],
    is_wanted: &dyn Fn(usize, &Contender) -> bool,
) -> Vec<LeftOut> {
    let mut found: Vec<LeftOut> = Vec::new();
    for (index, (plan, Site { case, .. })) in plans.iter().zip(sites).enumerate() {
        let Some(callback) = case.needs else { continue };
        let lack = plan.sites[0].contenders.iter().filter(|one| !is_wanted(index, one));
        for scheduler in lack.map(Contender::title) {
            let is_it =
                |one: &&mut LeftOut| one.scheduler == scheduler && one.callback == callback.name();
            let name = plan.sites[0].workloads[0].name.clone();
            match found.iter_mut().find(is_it) {
                Some(known) => known.cases.push(name),
                None => found.push(LeftOut {
                    scheduler,
                    callback: callback.name().to_owned(),
                    cases: vec![name],
                }),
            }
        }
    }
    found
}

/// Refuses a check in which a scheduler goes through no case.
fn refuse_nothing(left_out: &[LeftOut], cases: usize) -> Result<(), Stop> {
    for LeftOut { scheduler, callback, .. } in left_out {
        if LeftOut::count(left_out, scheduler) == cases {
            let message = format!(
                "{scheduler} has no {callback}, which these cases are about, so there is nothing to check"
            );
            return Err(output::fail(UNUSABLE, message));
        }
    }
    Ok(())
}

/// Says what of a scheduler's loader nobody does here: a fault may come of that.
fn tell_missing(plans: &[Plan]) {
    let Some(plan) = plans.first() else { return };
    for contender in &plan.sites[0].contenders {
        let companion = contender.companion();
        for lack in companion.map(Companion::missing).unwrap_or_default() {
            let title = contender.title();
            let message = format!("{title} is checked without all that its loader does: {lack}");
            annotations::warn(plan, &title, &message);
        }
    }
}

/// The cases that schedulers did not go through, as what is not judged.
fn gates_left_out<'a>(
    left_out: &'a [LeftOut],
    sites: &'a [Site],
) -> impl Iterator<Item = Gate> + 'a {
    left_out.iter().flat_map(move |LeftOut { scheduler, callback, cases }| {
        let machine = |name: &String| {
            let site = sites.iter().find(|site| is_called(&site.case, name));
            site.map_or_else(String::new, |site| site.case.machine.clone())
        };
        cases.iter().map(move |workload| Gate {
            text: "case".to_owned(),
            workload: workload.clone(),
            machine: machine(workload),
            scheduler: scheduler.clone(),
            outcome: GateOutcome::Undecided {
                why: format!("left out: there is no {callback}"),
                is_open: false,
            },
        })
    })
}

/// The scheduler of a run, with its settings.
fn titled(one: &Judged, plans: &[Plan]) -> String {
    let plan = &plans[one.plan];
    plan.contender(plan.place(one.number)).title()
}

/// The faults, each once, by scheduler; the commands are left open.
fn groups(judged: &[Judged], plans: &[Plan], sites: &[Site]) -> Vec<Fault> {
    let mut faults: Vec<Fault> = Vec::new();
    for one in judged {
        let scheduler = titled(one, plans);
        let cpus = one.run.metrics.as_ref().map_or(0, |metrics| metrics.cpus);
        for finding in &one.findings {
            let diagnosis = mistake(finding, cpus);
            let failure = &finding.failure;
            let case = one.run.labels.workload.clone();
            let rule = match failure.status {
                Status::Unmet => &failure.kind,
                status => status.name(),
            };
            let shared_with = sites[one.plan].case.shared.get(rule);
            let known = faults.iter_mut().find(|fault| {
                fault.scheduler == scheduler
                    && fault.status == failure.status
                    && failure.was_told(&fault.kind, &fault.message)
                    && fault.diagnosis == diagnosis
                    && fault.shared_with.as_ref() == shared_with
            });
            match known {
                Some(fault) => fault.cases.push(case),
                None => faults.push(Fault {
                    scheduler: scheduler.clone(),
                    status: failure.status,
                    kind: failure.kind.clone(),
                    diagnosis,
                    message: sentence(finding),
                    shared_with: shared_with.cloned(),
                    cases: vec![case],
                    about: sites[one.plan].case.why.clone(),
                    command: String::new(),
                }),
            }
        }
    }
    let contenders = plans.first().map_or(&[][..], |plan| &plan.sites[0].contenders);
    let place = |fault: &Fault| {
        let mut titles = contenders.iter().map(Contender::title);
        (titles.position(|title| title == fault.scheduler), fault.shared_with.is_some())
    };
    faults.sort_by_key(place);
    faults
}

/// The run as a result, failed if something is wrong that is not left out.
fn told(one: &Judged) -> Run {
    let mut run = one.run.clone();
    run.status = Status::Ok;
    run.failure = None;
    if let Some(Finding { failure, .. }) = one.findings.first() {
        let sentences: Vec<String> = one.findings.iter().map(sentence).collect();
        run.status = failure.status;
        run.failure = Some(Failure { message: sentences.join("; "), ..failure.as_result() });
    }
    run
}

/// The faults of a former result.
#[derive(Deserialize)]
struct Former {
    faults: Vec<FormerFault>,
}

#[derive(Deserialize)]
struct FormerFault {
    scheduler: String,
    kind: String,
    message: String,
    cases: Vec<String>,
}

fn read_former(path: &Path) -> Result<Former, String> {
    let file = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("--baseline {file} cannot be read: {error}"))?;
    serde_json::from_str(&text).map_err(|error| {
        format!("--baseline {file}: {error}; it has to be the output of check with --format json")
    })
}

/// Leaves out failures that a former result has as well; returns in which runs, and what they were.
fn leave_out(former: &Former, judged: &mut [Judged], plans: &[Plan]) -> BTreeMap<usize, String> {
    let mut left = BTreeMap::new();
    for (number, one) in judged.iter_mut().enumerate() {
        let scheduler = titled(one, plans);
        let case = &one.run.labels.workload;
        let is_new = |finding: &Finding| {
            let mut faults = former.faults.iter();
            finding.failure.status.never_began()
                || !faults.any(|fault| {
                    fault.scheduler == scheduler
                        && finding.failure.was_told(&fault.kind, &fault.message)
                        && fault.cases.contains(case)
                })
        };
        let known = one.findings.iter().find(|finding| !is_new(finding)).map(sentence);
        left.extend(known.map(|what| (number, format!("as before: {what}"))));
        one.findings.retain(is_new);
    }
    left
}
