//! The result of a check, in all forms.

use std::fmt::Write as _;

use fairground_results::{Checkup, Fault, LeftOut};
use serde::Serialize;

use crate::csv_format::csv_of_texts;

/// Version of the JSON format. It changes when a program that reads the old format could misread the new one.
const VERSION: u32 = 1;

/// Number of cases named for a fault; the others are counted.
const NAMED: usize = 3;

/// One block per scheduler: a paragraph for each thing that is wrong, with the command that shows it again.
pub fn checkup_text(checkup: &Checkup) -> String {
    let mut text = String::new();
    for (place, scheduler) in checkup.schedulers.iter().enumerate() {
        let faults = faults_of(checkup, scheduler);
        let _ = writeln!(text, "{}", headline(checkup, place, &faults));
        for fault in faults {
            if let Some(others) = &fault.shared_with {
                let _ = writeln!(text, "\n  as {others}: {}; in {}", what(fault), named(fault));
                let _ = writeln!(text, "    {}", fault.command);
                continue;
            }
            let _ = writeln!(text, "\n  {}", what(fault));
            if began(fault) {
                let _ = writeln!(text, "    in {}", cases(checkup, fault));
            }
            let _ = writeln!(text, "    {} {}", fault.scheduler, fault.message);
            if began(fault) {
                let _ = writeln!(text, "    {}", fault.command);
            }
        }
        text.push('\n');
    }
    text.push_str(&left_out(checkup));
    text
}

/// The same as Markdown.
pub fn checkup_markdown(checkup: &Checkup) -> String {
    let mut text = String::new();
    for (place, scheduler) in checkup.schedulers.iter().enumerate() {
        let faults = faults_of(checkup, scheduler);
        let _ = writeln!(text, "### {}\n", headline(checkup, place, &faults));
        for fault in faults {
            if let Some(others) = &fault.shared_with {
                let _ = writeln!(text, "- As {others}: {}; in {}", what(fault), named(fault));
                continue;
            }
            let _ = writeln!(text, "- **{}**: {} {}", what(fault), fault.scheduler, fault.message);
            if began(fault) {
                let _ = writeln!(text, "\n  In {}.\n", cases(checkup, fault));
                let _ = writeln!(text, "  ```sh\n  {}\n  ```", fault.command);
            }
        }
        text.push('\n');
    }
    text.push_str(&left_out(checkup));
    text.trim_end().to_owned() + "\n"
}

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    #[serde(flatten)]
    checkup: &'a Checkup,
}

/// The same as indented JSON, with a trailing newline.
pub fn checkup_json(checkup: &Checkup) -> String {
    let document = Document { version: VERSION, checkup };
    let text = serde_json::to_string_pretty(&document);
    text.expect("all keys are texts and all numbers finite") + "\n"
}

/// A line for each fault in each case that shows it.
pub fn checkup_csv(checkup: &Checkup) -> String {
    let heading = ["scheduler", "case", "status", "kind", "diagnosis"].map(str::to_owned);
    let lines = checkup.faults.iter().flat_map(|fault| {
        let Fault { scheduler, status, kind, diagnosis, .. } = fault;
        let cases = fault.cases.iter();
        cases.map(move |case| vec![scheduler.as_str(), case, status.name(), kind, diagnosis])
    });
    csv_of_texts(heading.to_vec(), lines)
}

fn faults_of<'a>(checkup: &'a Checkup, scheduler: &str) -> Vec<&'a Fault> {
    checkup.faults.iter().filter(|fault| fault.scheduler == scheduler).collect()
}

/// Whether there was a scheduler to run; without one, the cases have nothing to do with it.
fn began(fault: &Fault) -> bool {
    !fault.status.never_began()
}

/// The findings under the scheduler at this place.
fn headline(checkup: &Checkup, place: usize, faults: &[&Fault]) -> String {
    let scheduler = &checkup.schedulers[place];
    if let Some(runs) = checkup.hunts.get(place) {
        return match faults.len() {
            0 => format!("{scheduler}: nothing wrong in {runs} runs of a hunt"),
            1 => format!("{scheduler}: one fault, in {runs} runs of a hunt"),
            many => format!("{scheduler}: {many} faults, in {runs} runs of a hunt"),
        };
    }
    let mut cases: Vec<&String> = faults.iter().flat_map(|fault| &fault.cases).collect();
    cases.sort();
    cases.dedup();
    let number = LeftOut::count(&checkup.left_out, scheduler);
    let all = match checkup.cases - number {
        1 => "one case".to_owned(),
        many => format!("{many} cases"),
    };
    let callbacks =
        LeftOut::of(&checkup.left_out, scheduler).map(|one| format!("no {}", one.callback));
    let all = match number {
        0 => all,
        _ => {
            let callbacks = callbacks.collect::<Vec<_>>().join(" and ");
            format!("{all}, {number} left out: it has {callbacks}")
        }
    };
    match (faults.len(), cases.len()) {
        (0, _) if checkup.known_of.get(place).is_some_and(|known| *known > 0) => {
            format!("{scheduler}: nothing new in {all}")
        }
        (0, _) => format!("{scheduler}: nothing wrong in {all}"),
        (1, failed) => format!("{scheduler}: one fault, in {failed} of {all}"),
        (many, failed) => format!("{scheduler}: {many} faults, in {failed} of {all}"),
    }
}

/// The mistake, or how the runs ended if it is not known.
fn what(fault: &Fault) -> String {
    let rule = match fault.kind == fault.status.name() {
        true => fault.kind.clone(),
        false => format!("{} ({})", fault.status, fault.kind),
    };
    match fault.diagnosis.as_str() {
        "" => rule,
        diagnosis => format!("{rule}: {diagnosis}"),
    }
}

/// The cases, and what the first of them is about: not that of a fault which any run shows.
fn cases(checkup: &Checkup, fault: &Fault) -> String {
    let all = checkup.cases - LeftOut::count(&checkup.left_out, &fault.scheduler);
    match fault.cases.len() == all && all > 1 {
        true => "all cases".to_owned(),
        false => format!("{}: {}", named(fault), fault.about),
    }
}

/// The cases by name.
fn named(fault: &Fault) -> String {
    let named: Vec<&str> = { fault.cases.iter().take(NAMED) }.map(String::as_str).collect();
    let more = match fault.cases.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", named.join(", "))
}

fn left_out(checkup: &Checkup) -> String {
    match checkup.known {
        0 => String::new(),
        1 => "One run is left out that failed in the same way before.\n".to_owned(),
        many => format!("{many} runs are left out that failed in the same way before.\n"),
    }
}
