//! Finds the smallest machine and workload that still show a failure, by delta debugging over runs. The runs are sequential, in an order that
//! depends only on their results, so that the same failure always gives the same files.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairground_catalog::Build;
use fairground_events::Nanoseconds;
use fairground_machine::Machine;
use fairground_results::Status;
use fairground_simulator::{Options, Surroundings};
use fairground_workload::{Draft, Workload};

use crate::cell::{Cell, CellResult, DEFAULT_DURATION, Failure};
use crate::contender::{Contender, KERNEL};
use crate::dice::Dice;
use crate::loader::LOADER;
use crate::plan::{Cells, Plan, check_hotplug, check_tasks};

/// Lengths of shrunk runs are multiples of this.
const GRAIN: Nanoseconds = 1_000_000;

/// Numbers up to this one may count tasks, which are better few than round.
const MOST_COUNT: u64 = 40;

/// A case of so few tasks is understood.
const FEW_TASKS: usize = 4;

/// Number of tries to make a case smaller by several changes at once.
const THROWS: u64 = 80;

/// A failure in its smallest form.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The workload, as the text of an rt-app file.
    pub workload: String,
    /// Description of the machine.
    pub machine: String,
    /// Length of the run.
    pub duration: Nanoseconds,
    /// The failure in this form.
    pub failure: Failure,
    /// Number of runs it took.
    pub runs: usize,
    /// Whether the search is complete, rather than out of runs.
    pub is_smallest: bool,
}

/// A machine, a workload and a length that may show the failure.
#[derive(Clone)]
struct Case {
    draft: Draft,
    machine: String,
    duration: Nanoseconds,
}

struct Search<'a> {
    cell: Cell,
    /// The failure to preserve.
    wanted: Failure,
    /// Name of the file, which schedulers may see.
    file: &'a str,
    /// Whether a run with such a failure shows it for the same reason.
    is_same: &'a dyn Fn(&Cell, &CellResult) -> bool,
    most: usize,
    progress: &'a dyn Fn(usize, usize),
    runs: usize,
    /// Tries with several changes at once.
    throws: u64,
    /// Workloads, machines and lengths that do not show the failure.
    failed: BTreeSet<(String, String, Nanoseconds)>,
    best: Case,
    failure: Failure,
    /// The kernel's own scheduler, if it meets what is not met: a smaller case has to be one that it meets, too, since there are cases, such as that of
    /// a single task, in which nobody can.
    witness: Option<Contender>,
}

impl Plan {
    /// Shrinks the failure of the run with this number in at most `most` runs; `text` is its workload as an rt-app file, to be named `file`.
    /// `progress` is called with the number of runs made and the maximum. `None` if the file does not show the failure.
    pub fn shrink(
        &self,
        number: usize,
        wanted: &Failure,
        (file, text): (&str, &str),
        most: usize,
        progress: &dyn Fn(usize, usize),
    ) -> Option<Shrunk> {
        let cell = Cells::of(self).get(number);
        let (shrunk, _) = shrink(cell, wanted, (file, text), most, &|_, _| true, progress)?;
        Some(shrunk)
    }
}

/// Shrinks the failure of this cell as [`Plan::shrink`] does, to a form in which `is_same` says of the run that it fails for the same reason; also
/// returns the cell of the smallest form.
pub(crate) fn shrink(
    cell: Cell,
    wanted: &Failure,
    (file, text): (&str, &str),
    most: usize,
    is_same: &dyn Fn(&Cell, &CellResult) -> bool,
    progress: &dyn Fn(usize, usize),
) -> Option<(Shrunk, Cell)> {
    let best = Case {
        draft: Draft::parse(file, text).ok()?,
        machine: cell.options.machine.description.clone(),
        duration: cell.length().unwrap_or_else(|| match wanted.after_ns {
            Some(after) => rounded(after),
            None => DEFAULT_DURATION,
        }),
    };
    let mut search = Search {
        cell,
        wanted: wanted.clone(),
        file,
        is_same,
        most,
        progress,
        runs: 0,
        throws: 0,
        failed: BTreeSet::new(),
        best: best.clone(),
        failure: wanted.clone(),
        witness: None,
    };
    if wanted.status == Status::Unmet {
        let kernel = Contender::open(KERNEL, &Build::default()).ok();
        search.witness = kernel.filter(|kernel| !search.fails(kernel, &best));
    }
    search.shows(best).then(|| search.shrink())?
}

impl Search<'_> {
    fn shrink(mut self) -> Option<(Shrunk, Cell)> {
        loop {
            let before = (self.best.draft.text(), self.best.machine.clone());
            let length = self.best.duration;
            self.shorten();
            self.shrink_machine();
            self.shrink_machine_with_tasks();
            self.shrink_counts();
            self.shrink_lists();
            self.shrink_numbers();
            let after = (self.best.draft.text(), self.best.machine.clone());
            let is_as_before = after == before && self.best.duration == length;
            if self.runs >= self.most || (is_as_before && !self.scatter()) {
                break;
            }
        }
        let cell = self.cell_of(&self.cell.contender, &self.best)?;
        let shrunk = Shrunk {
            workload: self.best.draft.text(),
            machine: self.best.machine,
            duration: self.best.duration,
            failure: self.failure,
            is_smallest: self.runs < self.most,
            runs: self.runs,
        };
        Some((shrunk, cell))
    }

    /// Whether a case shows the failure; if so, it becomes the best case.
    fn shows(&mut self, case: Case) -> bool {
        let key = (case.draft.text(), case.machine.clone(), case.duration);
        if self.runs >= self.most || self.failed.contains(&key) {
            return false;
        }
        let Some(cell) = self.cell_of(&self.cell.contender, &case) else { return false };
        self.runs += 1;
        let result = cell.run().ok();
        (self.progress)(self.runs, self.most);
        let failure = result.and_then(|result| {
            let failure = result.failure.clone()?;
            let is_it = failure.is_like(&self.wanted) && (self.is_same)(&cell, &result);
            let nobody_can = |witness| self.fails(witness, &case);
            (is_it && !self.witness.as_ref().is_some_and(nobody_can)).then_some(failure)
        });
        let Some(failure) = failure else {
            self.failed.insert(key);
            return false;
        };
        // Nothing after the failure is ever run.
        let needed = failure.after_ns.map_or(case.duration, rounded);
        self.best = Case { duration: case.duration.min(needed), ..case };
        self.failure = failure;
        true
    }

    /// Whether another scheduler shows the failure, too.
    fn fails(&self, other: &Contender, case: &Case) -> bool {
        let result = self.cell_of(other, case).and_then(|cell| cell.run().ok());
        let failure = result.and_then(|result| result.failure);
        failure.is_some_and(|failure| failure.is_like(&self.wanted))
    }

    /// The run for a case under `contender`; `None` if the case is invalid.
    fn cell_of(&self, contender: &Contender, case: &Case) -> Option<Cell> {
        let workload = Workload::parse(self.file, &case.draft.text()).ok()?;
        let machine = Machine::parse(&case.machine).ok()?;
        let changes = check_hotplug(&self.cell.changes(), &machine);
        let fits = workload.task_count() > 0 && check_tasks(&workload, &machine).is_ok();
        let hotplug = changes.ok()?;
        let options = Options {
            machine: Arc::new(machine),
            workload: Arc::new(workload),
            duration: Some(case.duration),
            surroundings: Surroundings::default(),
            hotplug,
            ..self.cell.options.clone()
        };
        fits.then(|| Cell {
            patience: self.cell.patience,
            requirements: self.cell.requirements.clone(),
            references: self.cell.references.clone(),
            metrics: self.cell.metrics,
            noise: self.cell.noise,
            ..Cell::new(contender.clone(), options)
        })
    }

    /// Tries shorter runs, for a failure whose time is unknown.
    fn shorten(&mut self) {
        while self.best.duration >= 2 * GRAIN {
            let case =
                Case { duration: self.best.duration / 2 / GRAIN * GRAIN, ..self.best.clone() };
            if !self.shows(case) {
                return;
            }
        }
    }

    fn shrink_machine(&mut self) {
        // A loader's settings for one machine do not apply to another.
        if self.cell.contender.reference().starts_with(LOADER) {
            return;
        }
        loop {
            let smaller = smaller_machines(&self.best.machine);
            let found = smaller.into_iter().any(|machine| {
                let best = self.best.clone();
                self.shows(Case { machine, ..best })
            });
            if !found {
                return;
            }
        }
    }

    /// Tries fewer CPUs with as many fewer of equal tasks, with as much a smaller part of them, or without one of the others: what needs one task
    /// more than CPUs shows with few of both.
    fn shrink_machine_with_tasks(&mut self) {
        if self.cell.contender.reference().starts_with(LOADER) {
            return;
        }
        loop {
            let before = cpus_of(&self.best.machine);
            let mut smaller = smaller_machines(&self.best.machine).into_iter();
            let found = smaller.any(|machine| {
                let cpus = cpus_of(&machine);
                let drafts = with_fewer_tasks(&self.best.draft, before, cpus);
                self.shows_one(drafts, &machine)
            });
            if !found {
                return;
            }
        }
    }

    /// Tries fewer of all equal tasks at once: what a pair of each shows need not show with a pair of one and a crowd of the other.
    fn shrink_counts(&mut self) {
        loop {
            let machine = self.best.machine.clone();
            let drafts = with_fewer_of_all(&self.best.draft);
            if !self.shows_one(drafts, &machine) {
                return;
            }
        }
    }

    /// Leaves a case of many tasks that no single change makes smaller: tries several at once, by chance, until one with fewer tasks shows the
    /// failure. `false` if none does.
    fn scatter(&mut self) -> bool {
        // A loader's settings for one machine do not apply to another.
        let is_fixed = self.cell.contender.reference().starts_with(LOADER);
        while !is_fixed && self.throws < THROWS && task_count(&self.best.draft) > FEW_TASKS {
            let mut dice = Dice::new(0, self.throws);
            self.throws += 1;
            let thrown = thrown(&mut dice, &self.best);
            if thrown.is_some_and(|case| self.shows(case)) {
                return true;
            }
        }
        false
    }

    /// Whether one of these workloads shows the failure on this machine; the first that does becomes the best case.
    fn shows_one(&mut self, drafts: Vec<Draft>, machine: &str) -> bool {
        drafts.into_iter().any(|draft| {
            let case = Case { draft, machine: machine.to_owned(), duration: self.best.duration };
            self.shows(case)
        })
    }

    /// Removes members and elements from every list: first many at once, then fewer, then one by one.
    fn shrink_lists(&mut self) {
        let mut number = 0;
        while let Some(path) = self.best.draft.lists().get(number).cloned() {
            let mut size = self.best.draft.length(&path);
            while size > 0 {
                let mut from = 0;
                while from < self.best.draft.length(&path) {
                    let to = (from + size).min(self.best.draft.length(&path));
                    let case = Case {
                        draft: self.best.draft.without(&path, from..to),
                        ..self.best.clone()
                    };
                    if !self.shows(case) {
                        from = to;
                    }
                }
                size /= 2;
            }
            number += 1;
        }
    }

    /// Replaces numbers by 1, or by a small or round number, if that is enough.
    fn shrink_numbers(&mut self) {
        let mut number = 0;
        while let Some((path, value)) = self.best.draft.numbers().get(number).cloned() {
            let kept = smaller_numbers(value).into_iter().any(|smaller| {
                let case = Case {
                    draft: self.best.draft.with_number(&path, smaller),
                    ..self.best.clone()
                };
                self.shows(case)
            });
            // A number that has become 1 is no longer among them.
            let there = self.best.draft.numbers();
            let is_there = there.get(number).is_some_and(|(other, _)| *other == path);
            number += usize::from(!kept || is_there);
        }
    }
}

fn rounded(time: Nanoseconds) -> Nanoseconds {
    (time / GRAIN + 1) * GRAIN
}

/// Numbers to try instead of one above 1, the smallest first: counts of tasks also by halves, quarters and one by one, and others by magnitudes.
fn smaller_numbers(value: u64) -> Vec<u64> {
    let round = 10_u64.pow(value.ilog10());
    let mut smaller = match value {
        ..=MOST_COUNT => vec![1, 2, 3, 4, value / 2, value - value / 4, value - 1],
        _ => vec![1, round / 10, round],
    };
    smaller.retain(|one| (1..value).contains(one));
    smaller.sort_unstable();
    smaller.dedup();
    smaller
}

/// Copies for a machine with `cpus` CPUs instead of `before`: with as many fewer of all equal tasks, with as much a smaller part of them, rounded
/// down and up, with one more of each than CPUs at most, and without one of the tasks that stand for themselves.
fn with_fewer_tasks(draft: &Draft, before: u64, cpus: u64) -> Vec<Draft> {
    let counts = draft.instances();
    let mut drafts: Vec<Draft> = Vec::new();
    if !counts.is_empty() {
        let ways: [&dyn Fn(u64) -> u64; 4] = [
            &|count| count.saturating_sub(before - cpus),
            &|count| count * cpus / before,
            &|count| (count * cpus).div_ceil(before),
            &|count| count.min(cpus + 1),
        ];
        for way in ways {
            let one = with_counts(draft, way);
            if !drafts.contains(&one) {
                drafts.push(one);
            }
        }
    }
    if let Some(tasks) = draft.tasks() {
        let is_counted = |place: usize| counts.iter().any(|(path, _)| path[tasks.len()] == place);
        let alone = (0..draft.length(&tasks)).filter(|place| !is_counted(*place));
        drafts.extend(alone.map(|place| draft.without(&tasks, place..place + 1)));
    }
    drafts
}

/// Copies with fewer of all equal tasks: one or two of each, half as many, and one less; none if there are no equal tasks.
fn with_fewer_of_all(draft: &Draft) -> Vec<Draft> {
    let ways: [fn(u64) -> u64; 4] =
        [|_| 1, |count| count.min(2), |count| count / 2, |count| count - 1];
    let mut fewer: Vec<Draft> = Vec::new();
    for way in ways {
        let one = with_counts(draft, way);
        if one != *draft && !fewer.contains(&one) {
            fewer.push(one);
        }
    }
    fewer
}

/// A copy with other counts of equal tasks, of which each is at least 1.
fn with_counts(draft: &Draft, fewer: impl Fn(u64) -> u64) -> Draft {
    let counts = draft.instances().into_iter();
    counts.fold(draft.clone(), |draft, (path, count)| draft.with_number(&path, fewer(count).max(1)))
}

/// A copy with fewer tasks, perhaps on a smaller machine and with other numbers; `None` if chance makes none.
fn thrown(dice: &mut Dice, case: &Case) -> Option<Case> {
    let smaller = smaller_machines(&case.machine);
    let machine = match smaller.is_empty() || dice.once_in(2) {
        true => case.machine.clone(),
        false => smaller[dice.below(smaller.len())].clone(),
    };
    let mut draft = case.draft.clone();
    for (path, count) in case.draft.instances() {
        draft = draft.with_number(&path, 1 + dice.below(count as usize) as u64);
    }
    if let Some(tasks) = draft.tasks()
        && dice.once_in(2)
    {
        let place = dice.below(draft.length(&tasks));
        draft = draft.without(&tasks, place..place + 1);
    }
    let is_fewer = task_count(&draft) < task_count(&case.draft);
    let counts = draft.instances();
    for (path, number) in draft.numbers() {
        if dice.once_in(4) && !counts.iter().any(|(count, _)| *count == path) {
            let other = dice.magnitude(number / 4, number.saturating_mul(4));
            draft = draft.with_number(&path, other.max(1));
        }
    }
    is_fewer.then_some(Case { draft, machine, duration: case.duration })
}

/// Number of tasks at the beginning; 0 if the draft is no workload.
fn task_count(draft: &Draft) -> usize {
    Workload::parse("draft.json", &draft.text()).map_or(0, |workload| workload.task_count())
}

/// Number of CPUs of a machine; 0 if the description is none.
fn cpus_of(machine: &str) -> u64 {
    Machine::parse(machine).map_or(0, |machine| machine.cpu_count() as u64)
}

/// Machines smaller than the described one, the smallest first.
fn smaller_machines(description: &str) -> Vec<String> {
    let cpus = cpus_of(description) as usize;
    let mut smaller: Vec<String> = (1..cpus).take(8).map(|cpus| cpus.to_string()).collect();
    let powers = (4..usize::BITS).map(|power| 1_usize << power);
    smaller.extend(powers.take_while(|one| *one < cpus).map(|one| one.to_string()));
    let words: Vec<&str> = description.split_whitespace().collect();
    let with = |place: usize, word: Option<String>| {
        let mut words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        words.splice(place..=place, word);
        words.join(" ")
    };
    for (place, word) in words.iter().enumerate() {
        if words.len() > 1 {
            smaller.push(with(place, None));
        }
        let Some((level, count)) = word.split_once(':') else { continue };
        if let Ok(count) = count.parse::<usize>() {
            let fewer = [1, count / 2, count.saturating_sub(1)];
            let fewer = fewer.into_iter().filter(|fewer| (1..count).contains(fewer));
            smaller.extend(fewer.map(|fewer| with(place, Some(format!("{level}:{fewer}")))));
        }
    }
    let is_smaller = |other: &String| {
        let found = Machine::parse(other).map_or(usize::MAX, |machine| machine.cpu_count());
        found < cpus || (found == cpus && other.len() < description.len())
    };
    smaller.retain(is_smaller);
    smaller
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_get_smaller() {
        assert_eq!(smaller_numbers(600), [1, 10, 100]);
        assert_eq!(smaller_numbers(10), [1, 2, 3, 4, 5, 8, 9]);
        assert_eq!(smaller_numbers(3), [1, 2]);
        assert_eq!(smaller_numbers(2), [1]);
        assert_eq!(smaller_numbers(1_000_000), [1, 100_000]);
    }

    #[test]
    fn tasks_become_fewer_with_the_cpus_and_all_at_once() {
        let text = r#"{"tasks": {"a": {"instance": 8}, "b": {"run": 5}, "c": {"instance": 4}}}"#;
        let draft = Draft::parse("file.json", text).unwrap();
        let counts = |draft: &Draft| {
            draft.instances().into_iter().map(|(_, count)| count).collect::<Vec<_>>()
        };
        let fewer = with_fewer_tasks(&draft, 4, 2);
        assert!(!fewer[3].text().contains("\"b\""));
        let fewer: Vec<Vec<u64>> = fewer.iter().map(counts).collect();
        assert_eq!(fewer, [vec![6, 2], vec![4, 2], vec![3, 3], vec![8, 4]]);
        let fewer = with_fewer_tasks(&draft, 7, 3);
        let fewer: Vec<Vec<u64>> = fewer.iter().map(counts).collect();
        assert_eq!(fewer, [vec![4], vec![3], vec![4, 2], vec![4, 4], vec![8, 4]]);
        let fewer: Vec<Vec<u64>> = with_fewer_of_all(&draft).iter().map(counts).collect();
        assert_eq!(fewer, [vec![], vec![2, 2], vec![4, 2], vec![7, 3]]);
        let alone = Draft::parse("file.json", r#"{"tasks": {"b": {"run": 5}}}"#).unwrap();
        assert_eq!(with_fewer_of_all(&alone), []);
    }

    #[test]
    fn several_changes_at_once_leave_fewer_tasks() {
        let text = r#"{"tasks": {"a": {"instance": 8, "run": 100}, "b": {"run": 5}, "c": {"instance": 4, "run": 7}}}"#;
        let case = Case {
            draft: Draft::parse("file.json", text).unwrap(),
            machine: "4".to_owned(),
            duration: 20 * GRAIN,
        };
        let throw = |number| thrown(&mut Dice::new(0, number), &case);
        let all: Vec<Case> = (0..THROWS).filter_map(throw).collect();
        let numbers = all.iter().map(|one| task_count(&one.draft));
        assert!(numbers.clone().all(|tasks| (1..13).contains(&tasks)));
        assert!(numbers.clone().any(|tasks| tasks <= FEW_TASKS) && all.len() > 40);
        let cpus: BTreeSet<u64> = all.iter().map(|one| cpus_of(&one.machine)).collect();
        assert_eq!(cpus, BTreeSet::from([1, 2, 3, 4]));
        assert!(all.iter().any(|one| !one.draft.text().contains(": 100")));
        assert!(all.iter().any(|one| !one.draft.text().contains("\"b\"")));
    }

    #[test]
    fn machines_get_smaller() {
        assert!(smaller_machines("512").contains(&"64".to_owned()));
        assert_eq!(smaller_machines("3"), ["1", "2"]);
        assert!(smaller_machines("1").is_empty());
        let smaller = smaller_machines("numa:2 core:2");
        assert_eq!(smaller[..3], ["1", "2", "3"]);
        for expected in ["core:2", "numa:1 core:2", "numa:2", "numa:2 core:1"] {
            assert!(smaller.iter().any(|one| one == expected), "{smaller:?}");
        }
        let capacities = smaller_machines("2 capacity:1x1024,1x512");
        assert!(capacities.contains(&"2".to_owned()), "{capacities:?}");
    }
}
