//! Experiments on a kernel, where there may be none that takes schedulers.

use std::path::Path;

use crate::support::{fairground, folder, refuse, succeed};

#[test]
fn what_an_experiment_lacks_here_is_said_once() {
    // Nothing of this one runs anywhere but in the simulator.
    let ended = refuse("reproduce --on kernel o1cfs_worked_examples", 2, &[]);
    let root = std::fs::read_to_string("/proc/self/status")
        .is_ok_and(|status| status.contains("Uid:\t0\t0"));
    let expected = if !Path::new("/sys/kernel/sched_ext").exists() {
        "compare`, which needs none"
    } else if !root {
        "needs root"
    } else {
        "in the simulator only"
    };
    assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert_eq!(ended.stdout, "");
}

#[test]
fn the_experiments_of_a_kernel_are_listed() {
    let on_kernel = succeed("reproduce --on kernel --list");
    let all = succeed("reproduce --list");
    assert!(on_kernel.contains("o1cfs_fairness_pi"));
    assert!(!on_kernel.contains("o1cfs_worked_examples"));
    assert!(all.contains("o1cfs_worked_examples"));
}

#[test]
fn points_are_chosen_by_name() {
    let line = "reproduce elc_weight_example --seeds 1 -d 1s --brief --allow-failing --point";
    refuse(&format!("{line} 9"), 2, &["elc_weight_example", r#"there is no "9"; there are 4; 5"#]);
    let table = succeed(&format!("{line} 5"));
    assert!(table.contains("ratio of cfs at 4"), "{table}");
}

#[test]
fn macros_that_nothing_reads_are_refused() {
    let line = "reproduce elc_weight_example --seeds 1 -d 100ms --point 5 --brief --allow-failing";
    for options in ["-D X", "-I schedulers", "-s eevdf -D X"] {
        refuse(&format!("{line} {options}"), 2, &["nothing here names one; add it with -s"]);
    }
    succeed(&format!("{line} -s schedulers/rotation.bpf.c -D X"));
}

#[test]
fn the_page_has_the_results_that_are_reproduced() {
    let page = folder().join("../../../experiments/README.md");
    let page = std::fs::read_to_string(page).expect("there is one");
    // Those that take a few seconds; `scripts/documents --check` compares all.
    let results = succeed("reproduce elc_o1_nice_ratio ebs_caps --allow-failing --format markdown");
    let rows: Vec<&str> = results.lines().filter(|line| line.starts_with("| [")).collect();
    assert_eq!(rows.len(), 2, "{results}");
    for row in rows {
        assert!(page.contains(row), "experiments/README.md lacks {row}");
    }
}

#[test]
fn shares_that_are_set_adjust_the_nice_value() {
    let arguments = ["--point", "40 pairs", "--seeds", "2", "-d", "100ms"];
    let ended = fairground(&[&["reproduce", "ebs_shares", "--brief"][..], &arguments].concat());
    let line = ended.stdout.lines().find(|line| line.starts_with(" A5"));
    let line = line.expect("the line has a verdict");
    assert!(line.ends_with("holds") && !line.contains("not"), "{line}");
}

#[test]
fn a_column_and_a_point_may_have_fewer_seeds() {
    let place = tempfile::tempdir().unwrap();
    let mine = place.path().join("mine");
    std::fs::create_dir_all(place.path().join("machines")).unwrap();
    std::fs::create_dir(&mine).unwrap();
    let write = |file: &str, text: &str| std::fs::write(place.path().join(file), text).unwrap();
    write(
        "machines/one.toml",
        "title = \"one CPU\"\ntopology = \"pu:1\"\nhz = 250\norigin = \"none\"",
    );
    let workload = r#"{ "tasks": { "a": { "instance": 2, "run": 1000 } } }"#;
    write("mine/workload.json", workload);
    let experiment = r#"
        title = "mine"
        document = "none"
        section = "none"
        machine = "one"
        workload = "workload.json"
        seeds = 3
        duration = 0.01
        measure = [{ name = "used", title = "used", value = "tasks.len() + x" }]
        point = [{ name = "1" }, { name = "2", seeds = 2 }]
        column = [{ scheduler = "cfs" }, { name = "other", scheduler = "cfs", seeds = 1 }]
        [[accept]]
        id = "A1"
        level = "X"
        claim = "there are more at the second point"
        holds = 'below(at("other", "1", "used"), at("other", "2", "used"))'
    "#;
    write("mine/experiment.toml", experiment);
    let mine = mine.to_str().unwrap();
    let samples = |more: &[&str]| -> Vec<String> {
        let ended = fairground(&[&["reproduce", mine, "--format", "csv"], more].concat());
        let last = |line: &str| line.rsplit(',').next().unwrap_or_default().to_owned();
        ended.stdout.lines().skip(1).map(last).collect()
    };
    assert_eq!(samples(&[]), ["3", "1", "2", "1"]);
    assert_eq!(samples(&["--seeds", "4"]), ["4"; 4]);
    let table = fairground(&["reproduce", mine]).stdout;
    for text in ["3.00 (1 run)", "4.00 (2 runs)", "not shown with 1 run"] {
        assert!(table.contains(text), "{text}: {table}");
    }
    let more = experiment.replace("seeds = 1 }", "seeds = 3 }");
    write("mine/experiment.toml", &more);
    let refused = fairground(&["reproduce", mine]).stderr;
    assert!(refused.contains("seeds = 3 is not fewer than the 3 of all"));
}

/// A line of an experiment that is far too short for the statement of its document.
const CONTRADICTED: [&str; 8] =
    ["reproduce", "elc_o1_nice_ratio", "--point=0 and 1", "--seeds", "3", "-d", "500ms", "--brief"];

#[test]
fn a_stated_line_that_does_not_hold_fails_unless_this_is_allowed() {
    let ended = fairground(&CONTRADICTED);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stdout.contains("does not hold"), "{}", ended.stdout);
    let told = "fairground: stated by the documents but not so here: elc_o1_nice_ratio A2; --allow-failing ends";
    assert!(ended.stderr.starts_with(told), "{}", ended.stderr);
    let allowed = fairground(&[&CONTRADICTED[..], &["--allow-failing"]].concat());
    assert_eq!(allowed.code, Some(0), "{}", allowed.stderr);
    assert_eq!(allowed.stderr, "");
    assert_eq!(allowed.stdout, ended.stdout);
}

#[test]
fn schedulers_of_ones_own_get_folders_and_macros() {
    let place = tempfile::tempdir().unwrap();
    let rotation = std::fs::read_to_string(folder().join("schedulers/rotation.bpf.c")).unwrap();
    let source = place.path().join("mine.bpf.c");
    std::fs::write(&source, format!("#include <needed.h>\n{rotation}")).unwrap();
    let headers = place.path().join("headers");
    std::fs::create_dir(&headers).unwrap();
    let header = "#ifndef WANTED\n#error not WANTED\n#endif\n";
    std::fs::write(headers.join("needed.h"), header).unwrap();
    let (source, headers) = (source.to_str().unwrap(), headers.to_str().unwrap());
    let of = |more: &[&str]| {
        let all = [&CONTRADICTED[..], &["--allow-failing", "-s", source], more];
        fairground(&all.concat())
    };
    let ended = of(&["-I", headers, "-D", "WANTED"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let ended = of(&["-I", headers]);
    assert_eq!(ended.stderr.matches("not WANTED").count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains(" runs)"), "{}", ended.stderr);
    assert_ne!(ended.code, Some(0));
    let ended = of(&["-I", "nowhere"]);
    assert!(ended.stderr.contains("-I nowhere: there is no such folder"));
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
}

#[test]
fn what_a_kernel_says_stands_beside_the_simulator_or_first() {
    let place = tempfile::tempdir().unwrap();
    let experiments = folder().join("../../../experiments");
    for name in ["elc_o1_nice_ratio", "machines"] {
        let copy = place.path().join(name);
        std::fs::create_dir(&copy).unwrap();
        for file in std::fs::read_dir(experiments.join(name)).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), copy.join(file.file_name())).unwrap();
        }
    }
    let experiment = place.path().join("elc_o1_nice_ratio");
    let says = |line: &str, holds: &str| {
        let verdict = format!(r#"{{ "id": "{line}", "holds": "{holds}", "shows": "1.5 there" }}"#);
        let results =
            format!(r#"{{ "machine": "a board", "repeats": 3, "verdicts": [ {verdict} ] }}"#);
        std::fs::write(experiment.join("kernel.json"), results).unwrap();
        let options = ["--seeds", "3", "--allow-failing"];
        fairground(&[&["reproduce", experiment.to_str().unwrap()][..], &options].concat())
    };
    for (holds, word, first) in [("holds", "holds", false), ("fails", "does not hold", true)] {
        let ended = says("A2", holds);
        let (_, line) = ended.stdout.split_once("\n A2").expect("it has a verdict");
        let place = |part: &str| line.find(part).unwrap_or_else(|| panic!("{part}: {line}"));
        let kernel = place(&format!("on a kernel: {word}"));
        let simulator = place("nice 0 and 1: 1.05");
        assert_eq!(kernel < simulator, first, "{line}");
        place("on a kernel: a board, 3 runs");
    }
    let ended = says("A9", "holds");
    assert_eq!(ended.code, Some(2), "{}", ended.stdout);
    assert!(ended.stderr.contains("kernel.json: no line A9"), "{}", ended.stderr);
}

/// In a second nobody has been in the sinbin, and there is no fourth window.
#[test]
fn what_a_short_run_does_not_have_is_not_measured() {
    let ended = fairground(&["reproduce", "ebs_caps", "-d", "1s", "--seeds", "2", "--brief"]);
    for id in [" A7 ", " A8 "] {
        let line = ended.stdout.lines().find(|line| line.starts_with(id)).unwrap();
        assert!(line.ends_with("not measured"), "{}", ended.stdout);
    }
    let ended = fairground(&["reproduce", "o1cfs_fairness_pi", "-d", "100ms", "--seeds", "2"]);
    assert!(!ended.stdout.contains("because"), "{}", ended.stdout);
}
