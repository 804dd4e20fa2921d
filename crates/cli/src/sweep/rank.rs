//! Schedulers and settings of sweeps, ranked over all loads.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use fairground_lab::Error;
use fairground_report::Run;
use fairground_results::OwnMargin;

use super::plan::Sweep;
use super::results::tell_left;
use crate::output::{DocumentForm, Place, Stop};
use crate::rank;

/// Rank schedulers and settings over all loads, from the results that are there
///
/// Every one is compared with every other one, run by run with the same seeds, as by `fairground rank`: how many times worse than the best each is in
/// all, in which loads another one beats it at no price, and in what. Several sweeps are ranked as one, such as those of loads that need machines or
/// lengths of their own; cells that not all schedulers have are left out.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fairground sweep rank S
  fairground sweep rank small large --held-out later --report board.html")]
pub struct Arguments {
    /// The folders of the sweeps
    #[arg(value_name = "FOLDER", required = true)]
    folders: Vec<PathBuf>,

    /// A sweep of loads that are for the last look: they are ranked apart; may be given several times
    #[arg(long, value_name = "FOLDER")]
    held_out: Vec<PathBuf>,

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

pub fn main(arguments: &Arguments) -> Result<ExitCode, Stop> {
    rank::check_margins(&arguments.margins)?;
    let runs = runs(&arguments.folders)?;
    let held_out = self::runs(&arguments.held_out)?;
    let variant = |run: &Run| (run.labels.scheduler.clone(), run.labels.tunables.clone());
    if runs.iter().map(variant).collect::<BTreeSet<_>>().len() < 2 {
        let message = "there are no results of two schedulers or settings, so nothing is ranked; fairground sweep status FOLDER says what is left to run";
        return Err(Error::Plan(message.to_owned()).into());
    }
    let page = arguments.report.as_deref().map(Place::at).transpose()?;
    rank::tell(runs, held_out, &arguments.margins, arguments.format, page)
        .map(|_| ExitCode::SUCCESS)
}

/// The runs of all sweeps, in the order of their plans.
fn runs(folders: &[PathBuf]) -> Result<Vec<Run>, Error> {
    let mut all = Vec::new();
    for folder in folders {
        let sweep = Sweep::open(folder)?;
        let mut runs = Vec::new();
        sweep.runs(false, |number, run| runs.push((number, run)))?;
        tell_left(&sweep, runs.len());
        runs.sort_by_key(|(number, _)| *number);
        all.extend(runs.into_iter().map(|(_, run)| run));
    }
    Ok(all)
}
