//! Cases of a hunt: how they are drawn, and how one is made from others.

use fairground_events::Nanoseconds;
use fairground_machine::Machine;
use fairground_results::CpuChange;
use fairground_workload::{Draft, Workload};
use serde::{Deserialize, Serialize};

use super::draw::{self, MACHINES};
use crate::dice::Dice;
use crate::plan::check_tasks;

/// Name of a case's file in messages.
pub(super) const FILE: &str = "case.json";

/// Bounds of a run's length, in nanoseconds.
const SHORTEST: Nanoseconds = 20_000_000;
const LONGEST: Nanoseconds = 6_000_000_000;
/// Above this length, events of a case are expected to be rare.
const COARSE: Nanoseconds = 500_000_000;
/// No run shall have more events than this, as far as can be foreseen.
const MOST_EVENTS: u64 = 300_000;
/// No case shall have more tasks than this for each CPU, beside a few.
const TASKS_PER_CPU: usize = 4;
const FEW_TASKS: usize = 64;

/// A workload on a machine: a case of a hunt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scenario {
    /// The workload, as the text of an rt-app file.
    pub workload: String,
    /// Description of the machine.
    pub machine: String,
    /// Length of the run.
    pub duration: Nanoseconds,
    /// CPUs that go or come.
    pub hotplug: Vec<CpuChange>,
}

/// A case that is kept, to make others from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ParentCase {
    pub(super) scenario: Scenario,
    /// How near it comes to breaking a rule.
    pub(super) score: f64,
    /// Switches and wake-ups in it.
    pub(super) events: u64,
}

impl Scenario {
    /// A case from nothing.
    pub(super) fn drawn(dice: &mut Dice) -> Self {
        loop {
            let (machine, _) = MACHINES[draw::machine(dice)];
            let cpus = cpus_of(machine);
            let (workload, duration) = draw::tasks(dice, cpus);
            let mut drawn =
                Self { workload, machine: machine.to_owned(), duration, hotplug: Vec::new() };
            for _ in 0..dice.below(4) {
                drawn = drawn.with_more_tasks(dice).unwrap_or(drawn);
            }
            if dice.once_in(16) && cpus > 1 {
                drawn.hotplug = changes_of_a_cpu(dice, cpus, drawn.duration);
            }
            if drawn.is_valid() {
                return drawn;
            }
        }
    }

    /// A case from one that is kept, and perhaps a part of another.
    pub(super) fn changed(dice: &mut Dice, one: &ParentCase, other: &ParentCase) -> Self {
        for _ in 0..20 {
            let mut changed = one.scenario.clone();
            let mut events = one.events;
            for _ in 0..=dice.below(3) {
                let next = match dice.below(8) {
                    0 => changed.with_more_tasks(dice),
                    1 => {
                        events += other.events;
                        changed.joined(&other.scenario)
                    }
                    2 => changed.without_a_task(dice),
                    3 => changed.on_another_machine(dice),
                    4 => Some(changed.of_another_length(dice)),
                    5 if dice.once_in(4) => Some(changed.with_other_changes_of_cpus(dice)),
                    _ => changed.with_another_number(dice),
                };
                changed = next.unwrap_or(changed);
            }
            let cpus = cpus_of(&changed.machine) as u64;
            let was = &one.scenario;
            let growth = cpus as f64 / cpus_of(&was.machine) as f64 * changed.duration as f64
                / was.duration.max(1) as f64;
            let foreseen = events as f64 * growth.max(0.0);
            if foreseen > MOST_EVENTS as f64 {
                let shorter = changed.duration as f64 * MOST_EVENTS as f64 / foreseen;
                changed.duration = (shorter as Nanoseconds).max(SHORTEST);
            }
            if changed != one.scenario && changed.is_valid() {
                return changed;
            }
        }
        Self::drawn(dice)
    }

    /// The workload, if the text is one.
    pub(super) fn parsed(&self) -> Option<Workload> {
        Workload::parse(FILE, &self.workload).ok()
    }

    /// Whether it can be run, in a time that is not too long.
    pub(super) fn is_valid(&self) -> bool {
        let (Some(workload), Ok(machine)) = (self.parsed(), Machine::parse(&self.machine)) else {
            return false;
        };
        let most = FEW_TASKS + TASKS_PER_CPU * machine.cpu_count();
        let has_cpu = |change: &CpuChange| machine.find(change.cpu).is_some();
        (1..=most).contains(&workload.task_count())
            && check_tasks(&workload, &machine).is_ok()
            && self.hotplug.iter().all(has_cpu)
    }

    /// Number of tasks at the beginning.
    pub(super) fn task_count(&self) -> usize {
        self.parsed().map_or(0, |workload| workload.task_count())
    }

    fn draft(&self) -> Option<Draft> {
        Draft::parse(FILE, &self.workload).ok()
    }

    fn with(&self, draft: &Draft) -> Self {
        Self { workload: draft.text(), ..self.clone() }
    }

    fn with_more_tasks(&self, dice: &mut Dice) -> Option<Self> {
        let (workload, duration) = draw::tasks(dice, cpus_of(&self.machine));
        let more = Self { workload, duration, ..self.clone() };
        self.joined(&more)
    }

    fn joined(&self, other: &Self) -> Option<Self> {
        let joined = self.draft()?.joined(&other.draft()?)?;
        let shorter = self.duration.min(other.duration);
        let duration = if shorter < COARSE { shorter } else { self.duration };
        Some(Self { duration, ..self.with(&joined) })
    }

    fn without_a_task(&self, dice: &mut Dice) -> Option<Self> {
        let draft = self.draft()?;
        let tasks = draft.tasks()?;
        let count = draft.length(&tasks);
        let place = dice.below(count);
        (count > 1).then(|| self.with(&draft.without(&tasks, place..place + 1)))
    }

    fn on_another_machine(&self, dice: &mut Dice) -> Option<Self> {
        let (machine, _) = MACHINES[draw::machine(dice)];
        (self.hotplug.is_empty()).then(|| Self { machine: machine.to_owned(), ..self.clone() })
    }

    fn of_another_length(&self, dice: &mut Dice) -> Self {
        let duration = if dice.once_in(2) { self.duration / 2 } else { self.duration * 2 };
        Self { duration: duration.clamp(SHORTEST, LONGEST), hotplug: Vec::new(), ..self.clone() }
    }

    fn with_other_changes_of_cpus(&self, dice: &mut Dice) -> Self {
        let cpus = cpus_of(&self.machine);
        let hotplug = match self.hotplug.is_empty() && cpus > 1 {
            true => changes_of_a_cpu(dice, cpus, self.duration),
            false => Vec::new(),
        };
        Self { hotplug, ..self.clone() }
    }

    fn with_another_number(&self, dice: &mut Dice) -> Option<Self> {
        let draft = self.draft()?;
        let numbers = draft.numbers();
        if numbers.is_empty() {
            return None;
        }
        let (path, number) = &numbers[dice.below(numbers.len())];
        let other = match dice.below(5) {
            0 => number / 2,
            1 => number * 2,
            2 => number + 1,
            3 => number - 1,
            _ => dice.magnitude(number / 8, number.saturating_mul(8)),
        };
        Some(self.with(&draft.with_number(path, other.max(1))))
    }
}

/// Number of CPUs of a machine; 1 if the description is none.
fn cpus_of(machine: &str) -> usize {
    Machine::parse(machine).map_or(1, |machine| machine.cpu_count())
}

/// A CPU goes and comes back.
fn changes_of_a_cpu(dice: &mut Dice, cpus: usize, duration: Nanoseconds) -> Vec<CpuChange> {
    let cpu = dice.below(cpus) as u32;
    let change = |at_ns, online| CpuChange { at_ns, cpu, online };
    vec![change(duration / 4, false), change(duration / 4 * 3, true)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_made_from_others_and_stay_valid() {
        let mut kept: Vec<ParentCase> = Vec::new();
        for number in 0..400 {
            let mut dice = Dice::new(7, number);
            let scenario = match kept.as_slice() {
                [] => Scenario::drawn(&mut dice),
                all => {
                    let (one, other) = (dice.below(all.len()), dice.below(all.len()));
                    Scenario::changed(&mut dice, &all[one], &all[other])
                }
            };
            assert!(scenario.is_valid(), "{scenario:?}");
            kept.push(ParentCase { scenario, score: 0.5, events: 1000 });
        }
        let is_first = |one: &ParentCase| one.scenario == kept[0].scenario;
        assert!(!kept[1..].iter().any(is_first));
    }

    #[test]
    fn a_task_whose_own_cpus_the_machine_lacks_is_not_valid() {
        let on = |machine: &str| Scenario {
            workload:
                r#"{"tasks": {"a": {"cpus": [1], "phases": {"p": {"cpus": [0], "run": 1}}}}}"#
                    .to_owned(),
            machine: machine.to_owned(),
            duration: SHORTEST,
            hotplug: Vec::new(),
        };
        assert!(on("2").is_valid() && !on("1").is_valid());
    }

    #[test]
    fn a_change_that_makes_a_run_long_shortens_it() {
        let mut dice = Dice::new(1, 1);
        let kept = ParentCase {
            scenario: Scenario {
                workload: r#"{"tasks": {"a": {"run": 2, "sleep": 2}}}"#.to_owned(),
                machine: "1".to_owned(),
                duration: 2_000_000_000,
                hotplug: Vec::new(),
            },
            score: 0.5,
            events: 10 * MOST_EVENTS,
        };
        for _ in 0..100 {
            let changed = Scenario::changed(&mut dice, &kept, &kept);
            assert!(changed.duration < 500_000_000, "{changed:?}");
        }
    }
}
