//! `fairground rank`: schedulers over many loads.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use fairground_lab::{Error, Noise, Plan, Site};
use fairground_report::{
    Comparison, Run, TitledRanking, absence, rankings_csv, rankings_json, rankings_markdown,
    rankings_page, rankings_text,
};
use fairground_results::{Absent, CellName, OwnMargin, Ranking};
use fairground_workload::Workload;

use crate::VERSION;
use crate::board::Board;
use crate::failures;
use crate::output::{self, DocumentForm, Place, Progress, Stop};
use crate::simulation::Simulation;

/// Rank schedulers over many loads
///
/// Every load runs under every scheduler, and every scheduler is compared with every other one, run by run with the same seeds. The result says how
/// many times worse than the best each is in all, in which loads another one beats it at no price, and in what. docs/ranking.md defines it.
///
/// WORKLOAD may also be a board, a set of loads on machines: board:desktop, board:server, or a file of your own that ends with .toml.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fairground rank board:desktop
  fairground rank board:desktop board:server -s all,./mine.bpf.c --report board.html
  fairground rank mine.toml -s cfs,eevdf,./mine.bpf.c --repeat 5
  fairground rank board:server --margin wakeup_p99=2ms --margin 'makespan=5 %'
  fairground rank hogs.json mix-two -m 2 -m 8 -s cfs,bfs,eevdf")]
pub struct Arguments {
    /// Schedulers, as for compare; may be given several times
    #[arg(short, long, value_name = "[NAME=]ID|PATH|exec:LOADER,...", default_value = "all")]
    schedulers: Vec<String>,

    #[command(flatten)]
    simulation: Simulation,

    /// Runs of each load under each scheduler; from one nothing is certain
    #[arg(long, value_name = "TIMES", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,

    /// A margin of your own, within which nobody is worse; may be given several times
    #[arg(long = "margin", value_name = "MEASURE=VALUE")]
    margins: Vec<OwnMargin>,

    /// Also write the ranking and the comparison as HTML
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,

    /// Form of the result
    #[arg(long, value_enum, default_value_t = DocumentForm::Table)]
    format: DocumentForm,
}

pub fn main(mut arguments: Arguments) -> Result<ExitCode, Stop> {
    arguments.simulation.complete_noise(Noise::usual(arguments.repeat));
    let page = arguments.report.as_deref().map(Place::at).transpose()?;
    let (planned, margins) = arguments.planned()?;
    let all: usize = planned.iter().map(|one| one.plan.run_count()).sum();
    let progress = Progress::new("runs".into());
    let (mut whole, mut held_out) = (Vec::new(), Vec::new());
    for Planned { simulation, plan, is_held_out } in &planned {
        let before = whole.len() + held_out.len();
        let tell = |done, _| progress.tell(before + done, all);
        let mut results = fairground_lab::compare(plan, &tell)?;
        failures::explain(simulation, plan, &mut results);
        failures::tell(plan, &failures::of(&results.failures), false);
        match is_held_out {
            true => held_out.extend(results.comparison.runs),
            false => whole.extend(results.comparison.runs),
        }
    }
    progress.clear();
    let runs = tell(whole, held_out, &margins, arguments.format, page)?;
    arguments.simulation.tell_idle_window(&runs);
    Ok(failures::exit_code(&runs, &BTreeMap::new()))
}

/// Prints the rankings that runs give, those of held-out loads apart, and writes the page, if there is to be one. Returns all runs.
pub fn tell(
    mut runs: Vec<Run>,
    held_out: Vec<Run>,
    margins: &[OwnMargin],
    format: DocumentForm,
    page: Option<Place<'_>>,
) -> Result<Vec<Run>, Stop> {
    let mut rankings = Vec::new();
    for (title, runs) in [("Loads", &runs), ("Held-out loads", &held_out)] {
        if !runs.is_empty() {
            let ranking = Ranking::of(runs, margins);
            if let (0, [one, ..]) = (ranking.cells, ranking.absent.as_slice()) {
                let Absent { scheduler, first: CellName { workload, machine }, .. } = one;
                let told = format!(
                    "{title}: none was run under all of these schedulers, so nothing is ranked: {scheduler} has no run of {workload} on {machine}"
                );
                if rankings.is_empty() {
                    return Err(Error::Plan(told).into());
                }
                output::say!("fairground: {told}");
                continue;
            }
            // A program that reads numbers would miss it.
            if format == DocumentForm::Csv {
                for one in &ranking.absent {
                    output::say!("fairground: {}", absence(one));
                }
            }
            rankings.push(TitledRanking { title: title.to_owned(), ranking });
        }
    }
    output::print(&match format {
        DocumentForm::Table => rankings_text(&rankings),
        DocumentForm::Markdown => rankings_markdown(&rankings),
        DocumentForm::Csv => rankings_csv(&rankings),
        DocumentForm::Json => rankings_json(&rankings, VERSION),
    })?;
    runs.extend(held_out);
    let whole = Comparison { version: VERSION.to_owned(), runs, ..Comparison::default() };
    if let Some(page) = page {
        page.write(rankings_page(&rankings, &whole).html())?;
    }
    Ok(whole.runs)
}

/// Loads under the same conditions.
struct Planned {
    simulation: Simulation,
    plan: Plan,
    is_held_out: bool,
}

impl Arguments {
    /// The plans, one of all loads that the user names, and one for each of a board; and the user's margins, with those of boards.
    fn planned(&self) -> Result<(Vec<Planned>, Vec<OwnMargin>), Error> {
        let given = &self.simulation;
        check_margins(&self.margins)?;
        // The margins of each board, and none for the loads beside boards.
        let mut of_boards: Vec<(String, Vec<OwnMargin>)> = Vec::new();
        let mut simulations = Vec::new();
        let mut own = Vec::new();
        for word in &given.workloads {
            let Some(board) = Board::find(word) else {
                own.push(word.clone());
                continue;
            };
            if !given.machines.is_empty() || given.duration.is_some() {
                return Err(Error::Plan(format!(
                    "{}: a board says on which machines its loads run, and how long; leave out --machine and --duration, or name the loads",
                    word.display()
                )));
            }
            let board = board.map_err(Error::Plan)?;
            of_boards.push((word.display().to_string(), board.margins));
            for load in board.loads {
                let duration = load.duration().map_err(Error::Plan)?;
                let one = given.with_loads(vec![load.workload], load.machines, duration);
                simulations.push((one, load.held_out));
            }
        }
        if !own.is_empty() {
            of_boards.push(("the other loads".to_owned(), Vec::new()));
            let one = given.with_loads(own, given.machines.clone(), given.duration);
            simulations.insert(0, (one, false));
        }
        let all: Vec<&Simulation> = simulations.iter().map(|(one, _)| one).collect();
        let plans = Simulation::plan_all(&all, &self.schedulers)?;
        let sites = plans.iter().flat_map(|plan| &plan.sites);
        if sites.map(|site| site.contenders.len()).any(|count| count < 2) {
            let message = "one scheduler is no ranking; name two or more, as in -s cfs,eevdf,./mine.bpf.c, or use compare";
            return Err(Error::Plan(message.to_owned()));
        }
        check_names(simulations.iter().map(|(one, _)| one).zip(&plans))?;
        let planned = simulations.into_iter().zip(plans);
        let planned = planned.map(|((simulation, is_held_out), plan)| Planned {
            simulation,
            plan: Plan { repeats: self.repeat, ..plan },
            is_held_out,
        });
        Ok((planned.collect(), margins_of(&self.margins, &of_boards)?))
    }
}

/// Refuses different loads of one name, whose results could not be told apart.
fn check_names<'a>(planned: impl Iterator<Item = (&'a Simulation, &'a Plan)>) -> Result<(), Error> {
    let mut known: BTreeMap<(&str, &str), (&Path, &Workload)> = BTreeMap::new();
    for (simulation, plan) in planned {
        let workloads = |site: &'a Site| simulation.workloads.iter().zip(&site.workloads);
        let all = plan.sites.iter().flat_map(|site| workloads(site).map(move |one| (site, one)));
        for (site, (path, workload)) in all {
            let name = workload.name.as_str();
            let place = (name, site.machine.description.as_str());
            let (other, content) = *known.entry(place).or_insert((path, workload));
            // Notes name the file.
            let bare = |one: &Workload| Workload { notes: Vec::new(), ..one.clone() };
            if other != path && bare(content) != bare(workload) {
                return Err(Error::Plan(format!(
                    "two workloads are called {name}, {} and {}; their results could not be told apart, so rename a file or leave one out",
                    other.display(),
                    path.display()
                )));
            }
        }
    }
    Ok(())
}

/// Refuses several margins of one measure, of which only one could count.
pub fn check_margins(margins: &[OwnMargin]) -> Result<(), Error> {
    for (place, one) in margins.iter().enumerate() {
        if margins[..place].iter().any(|other| other.measure.id == one.measure.id) {
            let measure = one.measure.id;
            return Err(Error::Plan(format!("--margin {measure}: it is given twice; choose one")));
        }
    }
    Ok(())
}

/// The margins of all loads: those given, and those of the boards on other measures, which have to agree.
fn margins_of(
    given: &[OwnMargin],
    boards: &[(String, Vec<OwnMargin>)],
) -> Result<Vec<OwnMargin>, Error> {
    let mut margins = given.to_vec();
    fn of<'a>(list: &'a [OwnMargin], own: &OwnMargin) -> Option<&'a OwnMargin> {
        list.iter().find(|one| one.measure.id == own.measure.id)
    }
    for (board, own) in
        boards.iter().flat_map(|(board, all)| all.iter().map(move |own| (board, own)))
    {
        if of(&margins, own).is_some() {
            continue;
        }
        let agrees = |all: &[OwnMargin]| of(all, own).is_some_and(|one| one.margin == own.margin);
        if let Some((other, all)) = boards.iter().find(|(_, all)| !agrees(all)) {
            let theirs = of(all, own);
            let theirs =
                theirs.map_or_else(|| "that of the measure".to_owned(), OwnMargin::to_string);
            return Err(Error::Plan(format!(
                "{board}: its margin is {own}, for {other} it is {theirs}; say which with --margin"
            )));
        }
        margins.push(own.clone());
    }
    Ok(margins)
}
