//! Comparisons as JUnit XML, which services for continuous integration show.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use fairground_results::{Condition, Difference, Gate, GateOutcome, Judgement, Run, titled};

use crate::Comparison;

/// A comparison as JUnit XML, a test suite for each workload on each machine: a test for each run, which fails unless the run is ok, one for each
/// gate, and one for each measure in which a scheduler is compared with the baseline, which fails if it is worse, unless the conditions ask for
/// something else. Runs whose failures are no reason to fail, by their places, are skipped, which says why, and so is what is undecided, unless
/// that is a condition.
pub fn comparison_junit(
    comparison: &Comparison,
    excused: &BTreeMap<usize, String>,
    conditions: &[Condition],
) -> String {
    let fails = conditions.contains(&Condition::Undecided);
    let of_all = conditions.contains(&Condition::Worse) || conditions.is_empty();
    let mut suites: Vec<(String, Vec<Test>)> = Vec::new();
    let mut add = |workload: &str, machine: &str, test: Test| {
        let name = format!("{workload} on {machine}");
        match suites.iter_mut().find(|(known, _)| *known == name) {
            Some((_, tests)) => tests.push(test),
            None => suites.push((name, vec![test])),
        }
    };
    for (number, run) in comparison.runs.iter().enumerate() {
        let test = Test::of_run(run, excused.get(&number));
        add(&run.labels.workload, &run.labels.machine, test);
    }
    for one in comparison.differences.iter().filter(|_| of_all) {
        add(&one.workload, &one.machine, Test::of_difference(one, fails));
    }
    for gate in comparison.gates.iter().filter(|gate| gate.text != Judgement::Worse.word()) {
        add(&gate.workload, &gate.machine, Test::of_gate(gate, fails));
    }
    let mut text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n".to_owned();
    for (name, tests) in &suites {
        let failures = tests.iter().filter(|test| test.failure.is_some()).count();
        let skipped = tests.iter().filter(|test| test.skipped.is_some()).count();
        let _ = writeln!(
            text,
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{failures}\" skipped=\"{skipped}\">",
            escaped(name),
            tests.len()
        );
        for test in tests {
            text.push_str(&test.xml());
        }
        text.push_str("  </testsuite>\n");
    }
    text + "</testsuites>\n"
}

/// A test, and why it failed.
struct Test {
    class: String,
    name: String,
    /// The kind, and the message.
    failure: Option<(String, String)>,
    /// Why it could not be judged.
    skipped: Option<String>,
}

impl Test {
    fn of_run(run: &Run, excuse: Option<&String>) -> Self {
        let labels = &run.labels;
        let failure = run.failure.as_ref().filter(|_| excuse.is_none());
        Self {
            class: titled(labels),
            name: match labels.seed {
                Some(seed) => format!("seed {seed}"),
                None => format!("run {}", labels.repeat),
            },
            failure: failure.map(|failure| (failure.kind.clone(), failure.message.clone())),
            skipped: excuse.cloned(),
        }
    }

    fn of_difference(one: &Difference, fails: bool) -> Self {
        let name = format!("{} against {}", one.measure, one.baseline);
        let worse = one.judgement == Judgement::Worse;
        let failure = worse.then(|| ("worse".to_owned(), fairground_results::sentence(one)));
        let doubt = (one.judgement == Judgement::Undecided).then(|| one.doubt());
        Self::judged(&one.scheduler, name, failure, doubt, fails)
    }

    fn of_gate(gate: &Gate, fails: bool) -> Self {
        let (failure, doubt) = match &gate.outcome {
            GateOutcome::Passed => (None, None),
            GateOutcome::Undecided { why, .. } => (None, Some(why.clone())),
            GateOutcome::Failed(why) => (Some((gate.text.clone(), why.clone())), None),
        };
        Self::judged(&gate.scheduler, gate.text.clone(), failure, doubt, fails)
    }

    /// A test of a judgement; a doubt about it is a failure if it `fails`.
    fn judged(
        class: &str,
        name: String,
        failure: Option<(String, String)>,
        doubt: Option<String>,
        fails: bool,
    ) -> Self {
        let (doubts, skipped) = if fails { (doubt, None) } else { (None, doubt) };
        let undecided = doubts.map(|why| (Judgement::Undecided.word().to_owned(), why));
        Self { class: class.to_owned(), name, failure: failure.or(undecided), skipped }
    }

    fn xml(&self) -> String {
        let (class, name) = (escaped(&self.class), escaped(&self.name));
        let inside = match (&self.failure, &self.skipped) {
            (Some((kind, message)), _) => {
                format!("failure type=\"{}\" message=\"{}\"", escaped(kind), escaped(message))
            }
            (None, Some(why)) => format!("skipped message=\"{}\"", escaped(why)),
            (None, None) => {
                return format!("    <testcase classname=\"{class}\" name=\"{name}\"/>\n");
            }
        };
        format!(
            "    <testcase classname=\"{class}\" name=\"{name}\">\n      <{inside}/>\n    </testcase>\n"
        )
    }
}

/// A text as the value of an attribute. Characters that XML cannot express are left out.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for one in text.chars() {
        match one {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            one if one.is_control() => {}
            one => escaped.push(one),
        }
    }
    escaped
}
