//! `fairground check --hunt`: mistakes that no case of the gauntlet is made for.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use clap::Args;
use fairground_lab::{
    Contender, Error, Find, Finding, GENERATION, Hunt, Hunted, Plan, Scenario, Told,
};
use fairground_machine::Machine;
use fairground_results::{Checkup, Fault, Patience, Requirement};
use fairground_workload::Workload;

use crate::finding::{judging, mistake, replaced, sentence};
use crate::gauntlet;
use crate::loads::Wanted;
use crate::output::{self, Progress, Stop};
use crate::quantity::nanoseconds;
use crate::schedulers;
use crate::shrink::file_text;
use crate::simulation::{Simulation, Single, Sources, USUAL_MACHINE, refuse_idle};

/// The requirements on a scheduler in all cases of a hunt, beside that no task starves and that the kernel keeps it. A bound on throughput would
/// be broken by tasks that do next to nothing but sleep: they have the time that the cost of a switch leaves them.
const ALWAYS: [&str; 1] = ["idle_beside_waiting < 200ms"];

/// Length of the run of a workload to begin with that has none, in nanoseconds.
const USUAL_LENGTH: u64 = 4_000_000_000;

/// How long a hunt goes on.
#[derive(Clone, Copy, Debug)]
pub enum Budget {
    /// For this time; it ends with the generation of runs in which that is over.
    Time(Duration),
    /// For this number of runs, rounded up to whole generations.
    Runs(usize),
}

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(0) => Err("nothing is found in no runs".to_owned()),
            Ok(runs) => Ok(Self::Runs(runs)),
            Err(_) => nanoseconds(text)
                .map(|time| Self::Time(Duration::from_nanos(time)))
                .map_err(|error| format!("{error}; or a number of runs, such as 10000")),
        }
    }
}

/// How to hunt.
#[derive(Debug, Args)]
pub struct Hunting {
    /// Folder in which each scheduler's hunt keeps its findings, and from which it goes on
    #[arg(
        long,
        value_name = "FOLDER",
        default_value = "hunt",
        requires = "hunt",
        conflicts_with = "cases"
    )]
    folder: PathBuf,

    /// Begin with these workloads: rt-app files or names of loads; may be given several times
    #[arg(long = "from", value_name = "WORKLOAD", requires = "hunt", conflicts_with = "cases")]
    first: Vec<PathBuf>,

    /// The machine of the workloads to begin with
    #[arg(short, long, value_name = "DESCRIPTION", default_value = USUAL_MACHINE, requires = "first", conflicts_with = "cases")]
    machine: String,

    /// Seed of the hunt
    #[arg(long, default_value_t = 0, requires = "hunt", conflicts_with = "cases")]
    seed: u64,
}

impl Hunting {
    /// Hunts under each of these schedulers.
    pub fn hunt(
        &self,
        wanted: &[schedulers::Wanted],
        require: &[Requirement],
        sources: &Sources,
        budget: Budget,
    ) -> Result<Checkup, Stop> {
        let simulation = Simulation::of_hunt(&self.machine, sources.clone());
        let first = self.first()?;
        let of_task = require.iter().find_map(|one| one.quantity().task());
        if let Some(task) = of_task.filter(|_| first.is_empty()) {
            let message = format!(
                "--require: the tasks of drawn workloads have drawn names, and none is {task}; leave out 'of {task}', or begin with a workload that has it (--from)"
            );
            return Err(Error::Plan(message).into());
        }
        let mut plan = plan(&simulation, wanted, require, sources)?;
        let mut checkup = Checkup::default();
        for number in 0..plan.sites[0].contenders.len() {
            let contender = plan.sites[0].contenders[number].clone();
            let title = contender.title();
            let is_plain = |one: char| one.is_alphanumeric() || "-_.=+@,".contains(one);
            let folder = self.folder.join(title.replace(|one: char| !is_plain(one), "_"));
            output::make_folder(&folder)?;
            let hunt = Hunt {
                plan: &plan,
                contender: number,
                seed: self.seed,
                folder: &folder,
                first: &first,
                tell: &told,
            };
            let hunted = go_on(&hunt, &title, budget)?;
            if hunted.began_with_former {
                output::say!(
                    "fairground: the hunt in {} was of another state of {title}, or had another seed or other requirements; it began anew, with the cases of that one",
                    folder.display()
                );
            }
            for rule in hunted.unjudged {
                let why = "no run of the hunt had what it is about, or enough of it";
                output::say!("fairground: '{rule}' is undecided for {title}: {why}");
            }
            checkup.schedulers.push(title);
            checkup.hunts.push(hunted.runs);
            for find in hunted.finds {
                let file = folder.join(&find.file);
                let fault = fault((&find, &file), &contender, &simulation, &mut plan);
                checkup.faults.push(fault);
            }
        }
        Ok(checkup)
    }

    /// The cases to begin with.
    fn first(&self) -> Result<Vec<Scenario>, Error> {
        let machine = Machine::parse(&self.machine);
        let cpus = machine.map_err(|error| Error::Plan(error.to_string()))?.cpu_count() as u32;
        let scenario = |path: &PathBuf| {
            let wanted = Wanted::parse(path).map_err(Error::Plan)?;
            let told = |message| Error::Plan(format!("--from {}: {message}", path.display()));
            let workload = file_text(&wanted, cpus).map_err(told)?;
            let length = Workload::parse(&path.display().to_string(), &workload)
                .map_err(|error| Error::Plan(error.to_string()))?
                .duration;
            Ok(Scenario {
                workload,
                machine: self.machine.clone(),
                duration: length.unwrap_or(USUAL_LENGTH),
                hotplug: Vec::new(),
            })
        };
        self.first.iter().map(scenario).collect()
    }
}

/// The machines with the schedulers, and the requirements.
fn plan(
    simulation: &Simulation,
    wanted: &[schedulers::Wanted],
    require: &[Requirement],
    sources: &Sources,
) -> Result<Plan, Error> {
    let mut plan = simulation.plan_without_schedulers()?;
    plan.patience = Patience::default();
    sources.open(wanted, std::slice::from_mut(&mut plan))?;
    let always = gauntlet::parsed(&ALWAYS).map_err(Error::Plan)?;
    simulation.require(&replaced(require, &always), &mut plan)?;
    refuse_idle(require, &plan)?;
    Ok(plan)
}

/// Hunts as long as the budget allows.
fn go_on(hunt: &Hunt, title: &str, budget: Budget) -> Result<Hunted, Error> {
    let began = Instant::now();
    let progress = Progress::new(format!("hunting {title}"));
    let hunted = hunt.go_on(&|runs, finds| {
        progress.label(format!("hunting {title}: {finds} found in {runs} runs"));
        match budget {
            Budget::Time(time) => {
                let passed = began.elapsed();
                progress.tell(passed.as_secs() as usize, time.as_secs() as usize);
                // In no run nothing is found.
                passed < time || runs == 0
            }
            Budget::Runs(most) => {
                progress.tell(runs, most.next_multiple_of(GENERATION));
                runs < most
            }
        }
    });
    progress.clear();
    hunted
}

fn told(finding: &Finding, cpus: u32) -> Told {
    Told { diagnosis: mistake(finding, cpus), message: sentence(finding) }
}

/// A finding, with the command that shows it again.
fn fault(
    (find, file): (&Find, &Path),
    contender: &Contender,
    simulation: &Simulation,
    plan: &mut Plan,
) -> Fault {
    let required = plan.requirements.clone();
    plan.patience = match find.requirement {
        Some(_) => Patience::Off,
        None => Patience::default(),
    };
    let is_it = |one: &Requirement| find.requirement.as_ref() == Some(&one.to_string());
    plan.requirements.retain(is_it);
    let kept = judging(plan);
    (plan.patience, plan.requirements) = (Patience::default(), required);
    let simulation = simulation.with_hotplug(&find.scenario.hotplug);
    let command = simulation.command(&Single {
        command: "compare",
        workload: file,
        contender,
        machine: &find.scenario.machine,
        duration: Some(find.scenario.duration),
        seed: plan.settings.seed,
    });
    let tasks = match find.tasks {
        1 => "one task".to_owned(),
        many => format!("{many} tasks"),
    };
    Fault {
        scheduler: contender.title(),
        status: find.failure.status,
        kind: find.failure.kind.clone(),
        diagnosis: find.diagnosis.clone(),
        message: find.message.clone(),
        shared_with: None,
        cases: vec![file.display().to_string()],
        about: format!("{tasks} on {}, found in run {}", find.scenario.machine, find.run),
        command: format!("{command}{kept}"),
    }
}
