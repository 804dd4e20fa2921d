//! What is said of runs that do not come to the end of their work.

use fairground_results::{Condition, GateOutcome, Judgement, STATUS, differences};

use crate::small_machine::run;

#[test]
fn those_that_end_do_not_speak_for_those_that_do_not() {
    let mut runs = Vec::new();
    for (scheduler, ended) in [("cfs", 4), ("o1", 2)] {
        runs.extend((0..4).map(|seed| {
            let mut run = run("hogs", scheduler, 4, 2, 1, false, seed);
            let metrics = run.metrics.as_mut().unwrap();
            metrics.makespan_ns = (seed < ended).then_some(8_000_000_000 + seed);
            run
        }));
    }
    let found = differences(&runs, "cfs");
    let of = |measure: &str| found.iter().find(|one| one.measure == measure);
    let status = of(STATUS).unwrap();
    assert_eq!((status.before, status.after), (Some(1.0), Some(0.5)));
    assert_eq!(status.judgement, Judgement::Worse);
    let makespan = of("makespan").unwrap();
    assert_eq!((makespan.pairs, makespan.halves), (2, 2));
    assert_eq!(makespan.judgement, Judgement::Undecided);
    assert_eq!(makespan.doubt(), "2 of 4 pairs lack it");
    // Those that ended have overhead by work; all have it by time.
    assert_eq!(of("overhead").unwrap().pairs, 4);
    assert!(of("overhead_per_work").is_none());
    let gate = |condition: &str| {
        let condition: Condition = condition.parse().unwrap();
        condition.gates(&runs, "cfs", &found).remove(0).outcome
    };
    let failed = "hogs on 1: 50.0 % of the runs of o1 end well, 100.0 % of those of cfs";
    assert_eq!(gate("makespan > 1 %"), GateOutcome::Failed(failed.to_owned()));
    let undecided =
        GateOutcome::Undecided { why: "2 of 4 pairs lack it".to_owned(), is_open: false };
    assert_eq!(gate("makespan < -1 %"), undecided);
}

#[test]
fn what_only_one_of_two_has_is_undecided() {
    let of = |scheduler: &str, makespan: Option<u64>| {
        let mut run = run("hogs", scheduler, 4, 2, 1, false, 0);
        run.metrics.as_mut().unwrap().makespan_ns = makespan;
        run
    };
    let runs = [of("cfs", Some(8_000_000_000)), of("o1", None)];
    let found = differences(&runs, "cfs");
    let makespan = found.iter().find(|one| one.measure == "makespan").unwrap();
    assert_eq!((makespan.before, makespan.after), (Some(8e9), None));
    assert_eq!((makespan.pairs, makespan.judgement), (0, Judgement::Undecided));
    assert_eq!(makespan.doubt(), "1 of 1 pairs lack it");
    let condition: Condition = "makespan > 1 s".parse().unwrap();
    let outcome = condition.gates(&runs, "cfs", &found).pop().unwrap().outcome;
    let why = "hogs on 1: 0 % of the runs of o1 end well, 100.0 % of those of cfs";
    assert_eq!(outcome, GateOutcome::Failed(why.to_owned()));
    let better: Condition = "makespan < -1 s".parse().unwrap();
    let outcome = better.gates(&runs, "cfs", &found).pop().unwrap().outcome;
    let why = "1 of 1 pairs lack it".to_owned();
    assert_eq!(outcome, GateOutcome::Undecided { why, is_open: false });
}
