//! `compare --require`: requirements on every run.

use crate::support::{end_with, fairground};

/// The words of a comparison with a requirement and nothing else that is judged.
fn words<'a>(run: &'a str, requirement: &'a str) -> Vec<&'a str> {
    let mut words = vec!["compare"];
    words.extend(run.split(' '));
    words.extend(["--starved", "off", "--require", requirement]);
    words
}

/// Asserts that the first of two runs meets a requirement and the second does not, which says all of `messages`.
fn separates(requirement: &str, met: &str, unmet: &str, messages: &[&str]) {
    let ended = fairground(&words(met, requirement));
    assert_eq!(ended.stderr, "", "{requirement}: {met}");
    assert_eq!(ended.code, Some(0), "{requirement}: {met}");
    let ended = end_with(&words(unmet, requirement), 1, messages);
    let said = format!("did not meet '{requirement}' with ");
    assert!(ended.stderr.contains(&said), "{}", ended.stderr);
    assert!(ended.stdout.contains("unmet"), "{}", ended.stdout);
}

const RELEASED: &str = "check/released -m 4 -d 3s -s schedulers/";
const HOGS: &str = "workloads/hogs.json -m 1 --window 500ms -s ";
const ROTATION: &str = "schedulers/rotation.bpf.c";
const FORGETFUL: &str = "schedulers/forgetful.bpf.c";

#[test]
fn each_requirement_separates_two_runs() {
    let lost = "workloads/hogs.json -m 2 -s ";
    for (requirement, place, met, unmet, messages) in [
        (
            "idle_beside_waiting < 5ms",
            RELEASED,
            "sound.bpf.c",
            "rotation.bpf.c",
            &["CPU 3 was idle for ", ", while ", "lay in the DSQ 7"][..],
        ),
        ("throughput > 90 %", RELEASED, "sound.bpf.c", "rotation.bpf.c", &[]),
        ("longest_wait of hog < 100ms", HOGS, "cfs", "o1", &[": hog-", " for ", " from "]),
        ("due < 200ms", lost, "cfs", FORGETFUL, &["held in the scheduler's own data"]),
        ("share_error < 50 %", HOGS, "cfs", ROTATION, &[": nice "]),
        ("lag < 60ms", HOGS, "eevdf", ROTATION, &[": nice"]),
        ("missed_periods of player < 20 %", HOGS, "eevdf", ROTATION, &[": player"]),
        ("wakeup_p95 < 2x eevdf", HOGS, "carousel", ROTATION, &[", where ", " would be allowed"]),
    ] {
        separates(requirement, &format!("{place}{met}"), &format!("{place}{unmet}"), messages);
    }
}

#[test]
fn a_bound_task_is_served_beside_a_real_time_task() {
    // The other one forgets tasks that are bound to a CPU.
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("unbound.bpf.c");
    let text = r#"#include "fairground.bpf.h"
void BPF_STRUCT_OPS(unbound_enqueue, struct task_struct *p, u64 enq_flags)
{
	if (p->nr_cpus_allowed > 1)
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}
DEFINE_SCHEDULER(unbound, .enqueue = (void *)unbound_enqueue, .name = "unbound");
"#;
    std::fs::write(&source, text).unwrap();
    let run = "check/real-time-hog-and-bound -m 4 -d 4s -s ";
    separates(
        "longest_wait of b < 3s",
        &format!("{run}schedulers/sound.bpf.c"),
        &format!("{run}{}", source.display()),
        &[": b for ", "behind real-time tasks: rt (priority 50) had"],
    );
}

#[test]
fn an_unmet_requirement_is_shrunk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display().to_string();
    let run = format!("{RELEASED}rotation.bpf.c");
    let mut all = words(&run, "idle_beside_waiting < 5ms");
    all.extend(["--shrink", &path]);
    let ended = end_with(&all, 1, &["--require 'idle_beside_waiting < 5ms'"]);
    let files: Vec<_> = std::fs::read_dir(&path).unwrap().collect();
    assert_eq!(files.len(), 1, "{}", ended.stderr);
    let text = std::fs::read_to_string(files[0].as_ref().unwrap().path()).unwrap();
    let workload: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(workload["tasks"].as_object().unwrap().len(), 1, "{text}");
}

/// Ends as undecided: with a word and status 0, and with status 1 if that is asked for.
fn undecided(line: &str, condition: [&str; 2], message: &str) {
    let mut words: Vec<&str> = line.split(' ').collect();
    words.extend(condition);
    let ended = fairground(&words);
    assert!(ended.stderr.contains(message), "{line}: {}", ended.stderr);
    assert_eq!(ended.code, Some(0), "{line}: {}", ended.stderr);
    words.extend(["--fail-if", "undecided"]);
    end_with(&words, 1, &[message]);
}

#[test]
fn a_gate_that_judged_nothing_says_so() {
    let base = "compare mix-two -s cfs,eevdf -m 2 -d 1s --baseline eevdf";
    let worse = ["--fail-if", "worse"];
    undecided(&format!("{base} --repeat 1"), worse, "'worse' is undecided for cfs");
    let few = format!("{base} --repeat 2");
    let beyond = ["--fail-if", "wakeup_p999 > +10 %"];
    undecided(&few, beyond, "'wakeup_p999 > +10 %' is undecided for cfs");
    let of_task = ["--fail-if", "wakeup_p999 of sleeper > +10 %"];
    undecided(&few, of_task, "too few samples");
    let met = ["--require", "wakeup_p999 < 10s"];
    undecided("compare mix-two -s cfs -m 2 -d 1s", met, "too few samples: ");
}

#[test]
fn what_no_run_has_is_refused_with_what_there_is() {
    for (line, said) in [
        (
            "-s cfs --require 'longest_wait of nosuch < 1us'",
            "no workload has a task nosuch, but hog, ",
        ),
        ("-s cfs --require 'lap_p99 < 1ms'", "no run has lap_p99, but throughput, "),
        ("-s cfs,eevdf --baseline cfs --repeat 3 --fail-if 'lap_p99 > +1 %'", "no run has lap_p99"),
        (
            "-s cfs,eevdf --baseline cfs --repeat 2 --fail-if 'longest_wait of x > 1 %'",
            "no workload has a task x, but hog, ",
        ),
        (
            "-s cfs --require 'longest_wait < 2x longest_wait of x'",
            "no workload has a task x, but hog, ",
        ),
        ("-s cfs --require 'longest_wait < 0.5x lap_p99'", "no run has lap_p99"),
    ] {
        let mut words: Vec<&str> = "compare mix-two -m 1 -d 1s".split(' ').collect();
        let (options, condition) = line.split_once(" '").unwrap();
        words.extend(options.split(' '));
        words.push(condition.trim_end_matches('\''));
        end_with(&words, 2, &[said]);
    }
    let require = ["--require", "longest_wait of nosuch < 1us"];
    let words = [&["check", "cfs", "--case", "released"][..], &require].concat();
    end_with(&words, 2, &["no run has a task nosuch, but "]);
    let words = [&["check", "cfs", "--hunt", "9"][..], &require].concat();
    end_with(&words, 2, &["drawn names, and none is nosuch", "--from"]);
}

#[test]
fn a_gate_may_be_on_a_task_and_its_instances() {
    let line = "compare hogs-five -s eevdf,o1 -m 1 -d 5s --baseline eevdf --repeat 2 --fail-if";
    let mut words: Vec<&str> = line.split(' ').collect();
    words.push("longest_wait of hog > +10 %");
    end_with(&words, 1, &["fails, because hogs-five on 1: longest_wait of hog of o1 is "]);
}

#[test]
fn junit_skips_what_is_undecided() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.xml").display().to_string();
    let line = "compare mix-two -s cfs,eevdf -m 2 -d 1s --baseline eevdf --repeat 1 --junit";
    let mut words: Vec<&str> = line.split(' ').collect();
    words.extend([path.as_str(), "--fail-if", "wakeup_p99 > +10 %"]);
    assert_eq!(fairground(&words).code, Some(0));
    let text = std::fs::read_to_string(&path).unwrap();
    let gate = "name=\"wakeup_p99 &gt; +10 %\">\n      <skipped message=\"";
    assert!(text.contains(gate), "{text}");
    assert!(!text.contains("skipped=\"0\""), "{text}");
}

#[test]
fn repeat_auto_goes_on_until_it_is_decided_or_says_what_is_used_up() {
    let line =
        "compare mix-two -s cfs,eevdf -m 2 -d 1s --baseline eevdf --repeat auto --format csv";
    let mut words: Vec<&str> = line.split(' ').collect();
    // Of a second with some samples, ten runs together have enough for the median.
    words.extend(["--fail-if", "wakeup_p50 > +1000000 %"]);
    let ended = fairground(&words);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(!ended.stderr.contains("undecided"), "{}", ended.stderr);
    let ten = ended.stdout.lines().count();
    // A thousandth needs more of them.
    *words.last_mut().unwrap() = "wakeup_p999 > +10 %";
    let ended = end_with(&words, 1, &["fails, because mix-two on 2: wakeup_p999 of cfs is "]);
    assert!(ended.stdout.lines().count() > 2 * ten, "{}", ended.stderr);
}
