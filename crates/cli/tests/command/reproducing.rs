//! Experiments on a kernel, where there may be none that takes schedulers.

use std::path::Path;

use crate::support::{refuse, succeed};

#[test]
fn what_an_experiment_lacks_here_is_said_once() {
    // Nothing of this one runs anywhere but in the simulator.
    let ended = refuse("reproduce --on kernel o1cfs_worked_examples", 2, &[]);
    let root = std::fs::read_to_string("/proc/self/status")
        .is_ok_and(|status| status.contains("Uid:\t0\t0"));
    let expected = if !root {
        "needs root"
    } else if !Path::new("/sys/kernel/sched_ext").exists() {
        "compare`, which needs none"
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
    let line = "reproduce elc_weight_example --seeds 1 -d 1s --brief --point";
    refuse(
        &format!("{line} 9"),
        2,
        &["elc_weight_example", r#"there is no "9"; there are 4; 5"#],
    );
    let table = succeed(&format!("{line} 5"));
    assert!(table.contains("ratio of cfs at 4"), "{table}");
}
