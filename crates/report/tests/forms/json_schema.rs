//! JSON and its schema.

use crate::small_machine::{comparison, fail, metrics, recipe};
use crate::validator::{faults, validator};
use fairground_report::{Run, comparison_json};
use fairground_results::{Status, differences};
use serde_json::{Value, json};

/// A comparison with every metric present in one run and every optional one absent in another.
fn full_and_empty() -> Value {
    let mut comparison = comparison();
    fail(&mut comparison.runs[0], Status::Starved, "lost", "starved");
    comparison.runs[1].metrics = None;
    let first = metrics(&mut comparison, 0);
    first.throughput = None;
    first.fairness = None;
    first.wakeup_latency = None;
    first.overhead = None;
    first.longest_wait_ns = None;
    comparison.runs[0].labels.seed = None;
    let recipe = recipe(&mut comparison.runs[0]);
    recipe.cost_model = None;
    recipe.duration_ns = None;
    metrics(&mut comparison, 4).makespan_ns = Some(7);
    metrics(&mut comparison, 4).tasks[0].ended_ns = Some(7);
    comparison.differences = differences(&comparison.runs, "cfs");
    // Those that all pairs have come first: the others say how many lack it.
    comparison.differences.sort_by_key(|one| one.halves);
    assert!(!comparison.differences.is_empty());
    serde_json::from_str(&comparison_json(&comparison)).unwrap()
}

#[test]
fn what_is_written_fits_the_schema() {
    let document = full_and_empty();
    assert_eq!(faults("compare-2.json", &document), Vec::<String>::new());
    assert_eq!(document["version"], 2);
    assert_eq!(document["runs"][0]["metrics"]["throughput"], Value::Null);
}

/// Every place in a document, as JSON pointers to objects.
fn objects(value: &Value, pointer: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            found.push(pointer.to_owned());
            for (name, member) in members {
                // The names of tunables and counters are the scheduler's.
                if !["tunables", "numbers", "counters", "failed"].contains(&name.as_str()) {
                    objects(member, &format!("{pointer}/{name}"), found);
                }
            }
        }
        Value::Array(entries) => {
            for (number, entry) in entries.iter().take(1).enumerate() {
                objects(entry, &format!("{pointer}/{number}"), found);
            }
        }
        _ => {}
    }
}

#[test]
fn the_schema_knows_every_member_and_misses_none() {
    let validator = validator("compare-2.json");
    let mut document = full_and_empty();
    // The run with everything in it comes first.
    document["runs"].as_array_mut().unwrap().swap(0, 4);
    let mut pointers = Vec::new();
    objects(&document, "", &mut pointers);
    assert!(pointers.len() > 10);
    for pointer in pointers {
        let mut more = document.clone();
        more.pointer_mut(&pointer).unwrap()["surprise"] = json!(1);
        assert!(!validator.is_valid(&more), "{pointer} takes any member");
        let names: Vec<String> =
            document.pointer(&pointer).unwrap().as_object().unwrap().keys().cloned().collect();
        for name in names {
            let mut less = document.clone();
            less.pointer_mut(&pointer).unwrap().as_object_mut().unwrap().remove(&name);
            assert!(!validator.is_valid(&less), "{pointer} does not need {name}");
        }
    }
}

#[test]
fn json_comes_back_as_it_was() {
    let comparison = comparison();
    let mut read: Value = serde_json::from_str(&comparison_json(&comparison)).unwrap();
    let runs: Vec<Run> = serde_json::from_value(read["runs"].take()).unwrap();
    assert_eq!(runs, comparison.runs);
}
