//! Comparisons as JUnit XML, which services for continuous integration show.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use fairground_results::{Difference, Gate, GateOutcome, Judgement, Run, short_name};

use crate::Comparison;

/// A comparison as JUnit XML, a test suite for each workload on each machine: a test for each run, which fails unless the run is ok, and one for each measure in which
/// a scheduler is compared with the baseline, which fails if it is worse. Runs whose failures are no reason to fail, by their places, are skipped, which says why.
pub fn comparison_junit(comparison: &Comparison, excused: &BTreeMap<usize, String>) -> String {
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
    for one in &comparison.differences {
        add(&one.workload, &one.machine, Test::of_difference(one));
    }
    for gate in comparison.gates.iter().filter(|gate| gate.text != Judgement::Worse.word()) {
        add(&gate.workload, &gate.machine, Test::of_gate(gate));
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
            class: short_name(&labels.scheduler).to_owned(),
            name: match labels.seed {
                Some(seed) => format!("seed {seed}"),
                None => format!("run {}", labels.repeat),
            },
            failure: failure.map(|failure| (failure.kind.clone(), failure.message.clone())),
            skipped: excuse.cloned(),
        }
    }

    fn of_difference(one: &Difference) -> Self {
        let worse = one.judgement == Judgement::Worse;
        Self {
            class: one.scheduler.clone(),
            name: format!("{} against {}", one.measure, one.baseline),
            failure: worse.then(|| ("worse".to_owned(), fairground_results::sentence(one))),
            skipped: (one.judgement == Judgement::Undecided).then(|| one.doubt()),
        }
    }

    fn of_gate(gate: &Gate) -> Self {
        let (failure, skipped) = match &gate.outcome {
            GateOutcome::Passed => (None, None),
            GateOutcome::Undecided { why, .. } => (None, Some(why.clone())),
            GateOutcome::Failed(why) => (Some((gate.text.clone(), why.clone())), None),
        };
        Self { class: gate.scheduler.clone(), name: gate.text.clone(), failure, skipped }
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
