//! `fairground check`: mistakes in schedulers are found and named.

use std::collections::BTreeSet;
use std::fs;

use serde::Deserialize;

use crate::support::{Ended, fairground, folder};

/// A mistake: changes to a sound scheduler, and the words of `check` about it.
#[derive(Deserialize)]
pub struct Mistake {
    /// What it is.
    pub about: String,
    #[serde(rename = "change")]
    changes: Vec<Change>,
    /// The case that shows it.
    #[serde(default)]
    case: String,
    /// Parts of the output.
    #[serde(default)]
    told: Vec<String>,
}

/// A text that is there once, and what is there instead.
#[derive(Deserialize)]
struct Change {
    replace: String,
    with: String,
}

impl Mistake {
    /// The sound source with the changes, one after the other.
    pub fn applied(&self, sound: String) -> String {
        changed(sound, &self.changes)
    }
}

fn changed(sound: String, changes: &[Change]) -> String {
    changes.iter().fold(sound, |source, Change { replace, with }| {
        assert_eq!(source.matches(replace).count(), 1, "{replace}");
        source.replace(replace, with)
    })
}

/// The mistakes of this kind in `mistakes.toml`.
pub fn mistakes(kind: &str) -> Vec<Mistake> {
    let mut file: toml::Table = toml::from_str(include_str!("../mistakes.toml")).unwrap();
    file.remove(kind).unwrap().try_into().unwrap()
}

/// Checks a source in these cases.
fn check(source: &str, arguments: &[&str]) -> Ended {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.bpf.c");
    fs::write(&path, source).unwrap();
    let path = path.display().to_string();
    let mut all = vec!["check", &path];
    all.extend(arguments);
    fairground(&all)
}

fn sound() -> String {
    fs::read_to_string(folder().join("schedulers/sound.bpf.c")).unwrap()
}

/// One that is sound and knows control groups.
fn groups() -> String {
    fs::read_to_string(folder().join("schedulers/groups.bpf.c")).unwrap()
}

#[test]
fn each_mistake_is_found_and_named() {
    find_all(&mistakes("mistake"), &sound());
}

#[test]
fn each_mistake_with_groups_is_found_and_named() {
    find_all(&mistakes("group"), &groups());
}

/// Checks the sound source with each of the mistakes in its case.
fn find_all(mistakes: &[Mistake], sound: &str) {
    for mistake in mistakes {
        let source = mistake.applied(sound.to_owned());
        let ended = check(&source, &["--case", &mistake.case]);
        let shown = format!("{} {}", ended.stdout, ended.stderr);
        assert_eq!(ended.code, Some(1), "{source}: {shown}");
        for told in &mistake.told {
            assert!(ended.stdout.contains(told), "{source}: {told}: {shown}");
        }
    }
}

#[test]
fn sound_schedulers_pass_the_cases_that_find_mistakes() {
    let mistakes = mistakes("mistake");
    // Each CPU has a queue with a virtual time of its own. The last change is the mistake: a task that moves keeps the time that it has.
    let queues = mistakes.iter().find(|one| one.case == "moves-between-loads").unwrap();
    let (_, without_mistake) = queues.changes.split_last().unwrap();
    // Queues of CPUs have to be balanced: tasks of other weights or that may not move are not divided evenly, and stay behind real-time ones.
    let unbalanced = ["weights-on-two-cpus", "bound-and-free", "real-time-hog", "real-time-bursts"];
    for changes in [&[], without_mistake] {
        let mut arguments = Vec::new();
        for mistake in &mistakes {
            if changes.is_empty() || !unbalanced.contains(&mistake.case.as_str()) {
                arguments.extend(["--case", &mistake.case]);
            }
        }
        let ended = check(&changed(sound(), changes), &arguments);
        let shown = format!("{} {}", ended.stdout, ended.stderr);
        assert!(ended.stdout.contains("mine: nothing wrong in "), "{shown}");
        assert_eq!(ended.code, Some(0), "{shown}");
    }
}

#[test]
fn what_divides_time_among_groups_passes_their_cases_and_others_do_not_go_through_them() {
    let cases: BTreeSet<String> = mistakes("group").into_iter().map(|one| one.case).collect();
    let arguments: Vec<&str> = cases.iter().flat_map(|case| ["--case", case]).collect();
    let ended = check(&groups(), &arguments);
    assert_eq!(ended.stdout, "mine: nothing wrong in 5 cases\n\n", "{}", ended.stderr);
    let ended = check(&sound(), &arguments);
    let told = "mine: nothing wrong in one case, 4 left out: \
        it has no cgroup_set_weight and no cgroup_set_bandwidth\n\n";
    assert_eq!(ended.stdout, told, "{}", ended.stderr);
    let folder = tempfile::tempdir().unwrap();
    let junit = folder.path().join("check.xml").display().to_string();
    let two = ["--case", "group-quotas", "--case", "many-groups", "--junit", &junit];
    let ended = check(&sound(), &[&two[..], &["--format", "json"]].concat());
    let found: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let left_out = serde_json::json!([
        { "scheduler": "mine", "callback": "cgroup_set_bandwidth", "cases": ["group-quotas"] }
    ]);
    assert_eq!((&found["cases"], &found["left_out"]), (&2.into(), &left_out));
    let tests = fs::read_to_string(&junit).unwrap();
    assert!(tests.contains("<skipped message=\"left out: there is no cgroup_set"), "{tests}");
    let ended = check(&sound(), &["--case", "group-quotas"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stdout);
    let told = "mine has no cgroup_set_bandwidth, which these cases are about";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
}

#[test]
fn what_was_wrong_before_is_left_out_and_a_fault_is_shrunk_to_a_file() {
    let broken = mistakes("mistake")[0].applied(sound());
    let former = check(&broken, &["--case", "released", "--format", "json"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("before.json");
    fs::write(&path, &former.stdout).unwrap();
    let path = path.display().to_string();
    let again = check(&broken, &["--case", "released", "--baseline", &path]);
    assert_eq!((again.code, again.stderr.as_str()), (Some(0), ""));
    assert!(again.stdout.contains("One run is left out"), "{}", again.stdout);

    let nothing = check(&sound(), &["--case", "released", "--format", "csv"]);
    assert_eq!(nothing.stdout, "scheduler,case,status,kind,diagnosis\n");

    let small = folder.path().join("small").display().to_string();
    let ended = check(&broken, &["--case", "released", "--shrink", &small]);
    let files: Vec<_> = fs::read_dir(&small).unwrap().collect();
    assert_eq!(files.len(), 1, "{}", ended.stdout);
    let text = fs::read_to_string(files[0].as_ref().unwrap().path()).unwrap();
    let workload: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(workload["tasks"].as_object().unwrap().len(), 1, "{text}");
    assert!(ended.stdout.contains(&small), "{}", ended.stdout);
}

#[test]
fn a_smaller_case_is_one_that_others_pass() {
    let folder = tempfile::tempdir().unwrap();
    let small = folder.path().join("small").display().to_string();
    let rotation = "schedulers/rotation.bpf.c";
    let ended = fairground(&["check", rotation, "--case", "renice", "--shrink", &small]);
    let command = ended.stdout.lines().find_map(|line| line.trim().strip_prefix("fairground "));
    let command = command.expect(&ended.stdout).replace("'share of a < 15 %'", "RULE");
    for (scheduler, code) in [(rotation, 1), ("eevdf", 0)] {
        let command = command.replace(rotation, scheduler);
        let arguments = command.split(' ').map(|one| one.replace("RULE", "share of a < 15 %"));
        let again = fairground(&arguments.collect::<Vec<_>>());
        assert_eq!(again.code, Some(code), "{command}: {}", again.stderr);
    }
}

#[test]
fn who_is_called_like_a_reference_is_judged_too() {
    for name in ["mine", "eevdf"] {
        let scheduler = format!("{name}=schedulers/rotation.bpf.c");
        let ended = fairground(&["check", &scheduler, "--case", "weights-of-sleepers"]);
        assert_eq!(ended.code, Some(1), "{}", ended.stdout);
    }
    let compare = |arguments: &str| {
        let line =
            format!("compare mix-two -m 1 -d 100ms --require wakeup_p99<0.01xRULE {arguments}");
        let arguments = line.split(' ').map(|one| one.replace("<0.01xRULE", " < 0.01x cfs"));
        fairground(&arguments.collect::<Vec<_>>())
    };
    let idle = compare("-s cfs");
    assert_eq!(idle.code, Some(2));
    assert!(
        idle.stderr.contains("judges nobody: cfs is the only scheduler here"),
        "{}",
        idle.stderr
    );
    for judged in
        ["-s cfs,o1", "-s cfs --set sched_latency=1ms", "-s cfs=schedulers/rotation.bpf.c"]
    {
        let ended = compare(judged);
        assert_eq!(ended.code, Some(1), "{judged}: {}", ended.stderr);
    }
}

#[test]
fn a_rule_about_one_task_replaces_none_about_another() {
    let of_case = ["check", "schedulers/rotation.bpf.c", "--case", "eight-nice-levels"];
    let ended = fairground(&[&of_case[..], &["--require", "share of n7 < 99 %"]].concat());
    assert_eq!(ended.code, Some(1), "{}", ended.stdout);
}

#[test]
fn of_a_scheduler_that_has_no_tasks_nothing_else_is_told() {
    let ended = fairground(&["check", "schedulers/partial.bpf.c", "--case", "three-weights"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stdout);
    assert!(ended.stdout.contains("one fault, in 1 of one case"), "{}", ended.stdout);
    assert!(ended.stdout.contains("unmet (no_tasks)"), "{}", ended.stdout);
}

#[test]
fn where_a_loader_gives_up_the_other_cases_are_judged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("odd.toml");
    let text = "scheduler = \"told\"\n[global]\nnr_ids = \"if nr_cpu_ids == 1 { throw \\\"too few\\\" } nr_cpu_ids\"\n";
    fs::write(&path, text).unwrap();
    let path = path.display().to_string();
    let mut arguments = vec!["check", "schedulers/told.bpf.c", "--with", &path];
    arguments.extend(["--case", "three-weights", "--case", "one-more-than-cpus"]);
    let ended = fairground(&arguments);
    assert!(ended.stdout.contains("in 1 of 2 cases"), "{} {}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("too few"), "{}", ended.stdout);
}

/// Where nothing was judged, or another call is wrong, nothing is known.
#[test]
fn only_the_same_fault_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("before.json").display().to_string();
    let enqueue = |call: &str| {
        let from = sound();
        let at = from.find("scx_bpf_dsq_insert_vtime(p, QUEUE").expect("it inserts tasks");
        format!("{}{call};\n\t{}", &from[..at], &from[at..])
    };
    let case = ["--case", "released"];
    let after = |before: &str, now: &str| {
        let json = [&case[..], &["--format", "json"]].concat();
        fs::write(&path, check(before, &json).stdout).unwrap();
        check(now, &[&case[..], &["--baseline", &path]].concat())
    };
    let broken = enqueue("no_such_function()");
    let ended = after(&broken, &broken);
    assert_eq!(ended.code, Some(2), "{}", ended.stdout);
    let (queue, cpu) = (enqueue("scx_bpf_kick_cpu(-16, 0)"), enqueue("scx_bpf_kick_cpu(4096, 0)"));
    let ended = after(&queue, &cpu);
    assert_eq!(ended.code, Some(0), "the message is the same but for its number: {}", ended.stdout);
    assert!(ended.stdout.contains("mine: nothing new in one case"), "{}", ended.stdout);
    let ended = after(&queue, &enqueue("scx_bpf_dsq_insert(p, 99, slice, 0)"));
    assert_eq!(ended.code, Some(1), "{}", ended.stdout);

    // Two errors of the kernel in two cases are two faults, both of which are known then.
    let heavy = "if (p->scx.weight > 1000) scx_bpf_kick_cpu(-16, 0); else scx_bpf_dsq_insert(p, 99, slice, 0)";
    let cases = ["--case", "released", "--case", "nice-extremes"];
    let both = check(&enqueue(heavy), &[&cases[..], &["--format", "json"]].concat());
    let found: serde_json::Value = serde_json::from_str(&both.stdout).unwrap();
    assert_eq!(found["faults"].as_array().unwrap().len(), 2, "{found}");
    fs::write(&path, both.stdout).unwrap();
    let ended = check(&enqueue(heavy), &[&cases[..], &["--baseline", &path]].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.stdout);
}

#[test]
fn headers_and_macros_are_for_what_is_checked_and_not_for_what_it_is_measured_by() {
    let measured = ["--require", "longest_wait < 100x eevdf", "--case", "hogs-on-one-cpu"];
    let ended = check(&sound(), &[&["-D", "UNUSED", "-I", "."][..], &measured].concat());
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{}", ended.stdout);
}

/// As in compare: what was required is not met because it could not be judged.
#[test]
fn a_requirement_that_is_not_judged_is_undecided() {
    let folder = tempfile::tempdir().unwrap();
    let junit = folder.path().join("check.xml").display().to_string();
    let judged = ["check", "eevdf", "--case", "released", "--junit", &junit, "--require"];
    let ended = fairground(&[&judged[..], &["wakeup_p99 < 1s"]].concat());
    let told =
        "'wakeup_p99 < 1s' is undecided for eevdf in 1 of 1 case; in released: too few samples: ";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
    let tests = fs::read_to_string(&junit).unwrap();
    assert!(tests.contains("skipped=\"1\"") && tests.contains("too few samples"), "{tests}");
    let ended = fairground(&[&judged[..], &["longest_wait < 2x longest_wait of nosuch"]].concat());
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("no run has a task nosuch, but "), "{}", ended.stderr);
    let folder = folder.path().display().to_string();
    let hunt = ["check", "eevdf", "--hunt", "4", "--folder", &folder, "--require", "energy < 1"];
    let told = "'energy < 1' is undecided for eevdf: no run of the hunt had what it is about";
    let ended = fairground(&hunt);
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
}

#[test]
fn what_the_kernels_own_threads_would_hide_is_told() {
    let source = mistakes("hidden")[0].applied(sound());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.bpf.c");
    fs::write(&path, source).unwrap();
    let path = path.display().to_string();
    let ended = fairground(&["compare", "mix-two", "-s", &path, "-m", "4", "-d", "2s"]);
    let told = "(nothing else runs here: with --noise default no task starves): lay in the DSQ 8";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
    let ended = fairground(&["explain", "mix-two", "-s", &path, "-m", "4", "-d", "2s"]);
    let told = "\nNote: nothing else runs here: with --noise default no task starves\n";
    assert!(ended.stdout.contains(told), "{}", ended.stdout);
}

#[test]
fn that_there_is_nothing_to_shrink_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display().to_string();
    let ended = fairground(&["check", "cfs", "--case", "released", "--shrink", &path]);
    assert!(ended.stderr.contains("so there is nothing to shrink"), "{}", ended.stderr);
    assert_eq!(ended.code, Some(0));
}

#[test]
fn a_case_that_does_not_exist_is_refused_with_those_that_do() {
    let ended = fairground(&["check", "cfs", "--case", "nothing"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("there are check/hogs-on-one-cpu"), "{}", ended.stderr);
    for option in [["--from", "mix-two"], ["--seed", "7"], ["--folder", "x"]] {
        let ended = fairground(&[&["check", "cfs", "--case", "released"][..], &option].concat());
        assert_eq!(ended.code, Some(2), "{option:?}");
        assert!(ended.stderr.contains("the argument '--case <NAME>' cannot be used with '"));
    }
}

/// What is told of a scheduler: its id, a case, and the rule that it breaks there.
type Told = (String, String, String);

/// What the READMEs of the schedulers say that `check` finds.
fn told_by_readmes() -> BTreeSet<Told> {
    let mut told = BTreeSet::new();
    for folder in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../schedulers")).unwrap() {
        let folder = folder.unwrap().path();
        let Ok(text) = fs::read_to_string(folder.join("README.md")) else { continue };
        let id = folder.file_name().unwrap().to_string_lossy().into_owned();
        for line in text.lines().filter(|line| line.starts_with("| `check/")) {
            let mut cells = line.trim_matches('|').split('|').map(str::trim);
            let (cases, rules) = (cells.next().unwrap(), cells.next().unwrap());
            for case in cases.split(", ") {
                for rule in rules.split(", ") {
                    let (case, rule) = (case.trim_matches('`'), rule.trim_matches('`'));
                    told.insert((id.clone(), case.to_owned(), rule.to_owned()));
                }
            }
        }
    }
    told
}

#[test]
fn readmes_have_what_is_found_in_their_schedulers() {
    let ended = fairground(&["check", "all", "--format", "json"]);
    let result: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let mut found = BTreeSet::new();
    for fault in result["faults"].as_array().unwrap() {
        let word = |key: &str| fault[key].as_str().unwrap().to_owned();
        let rule = match word("status").as_str() {
            "unmet" => word("kind"),
            status => status.to_owned(),
        };
        for case in fault["cases"].as_array().unwrap() {
            let case = format!("check/{}", case.as_str().unwrap());
            found.insert((word("scheduler"), case, rule.clone()));
        }
    }
    let told = told_by_readmes();
    let missing: Vec<&Told> = found.difference(&told).collect();
    let gone: Vec<&Told> = told.difference(&found).collect();
    assert!(missing.is_empty(), "READMEs lack {missing:#?}");
    assert!(gone.is_empty(), "READMEs have what is not found: {gone:#?}");
}
