//! `fairground rank`.

use serde_json::Value;

use crate::support::{end_with, fairground, refuse, succeed};

/// The result of a ranking as data.
fn ranked(line: &str) -> Value {
    let ended = fairground(&line.split(' ').collect::<Vec<_>>());
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {}", ended.stderr))
}

#[test]
fn who_is_worse_at_no_price_is_named_with_who_beats_it_and_in_what() {
    let result = ranked("rank hogs-five-top -m 4 -d 2s -s linux24,eevdf --format json");
    let ranking = &result["rankings"][0]["ranking"];
    let places = ranking["places"].as_array().unwrap();
    let names: Vec<&str> = places.iter().map(|one| one["scheduler"].as_str().unwrap()).collect();
    assert_eq!(names, ["eevdf", "linux24"]);
    assert_eq!(places[0]["times"], 1.0);
    assert_eq!(places[0]["at_best"], places[0]["questions"]);
    assert!(places[1]["times"].as_f64().unwrap() > 2.0, "{ranking}");
    let beaten = &places[1]["dominated"][0];
    assert_eq!((&beaten["by"], &beaten["cell"]["machine"]), (&"eevdf".into(), &"4".into()));
    assert_eq!(places[0]["dominated"].as_array().unwrap().len(), 0);
    let text = succeed("rank hogs-five-top -m 4 -d 2s -s linux24,eevdf");
    for line in [
        "Runs of a scheduler differ by noise spread.",
        "Beaten at no price nowhere: eevdf.",
        "linux24  hogs-five-top on 4  eevdf",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn a_scheduler_is_not_ranked_below_itself() {
    let result = ranked("rank mix-two hogs-nice -m 2 -d 1s -s cfs,same=cfs --format json");
    let ranking = &result["rankings"][0]["ranking"];
    assert_eq!((&ranking["questions"], &ranking["cells"]), (&0.into(), &2.into()));
    assert!(ranking["alike"].as_u64().unwrap() > 10, "{ranking}");
    for place in ranking["places"].as_array().unwrap() {
        assert_eq!((&place["times"], &place["undecided"]), (&Value::Null, &0.into()), "{place}");
    }
}

/// Repeats that are one run, and what compare notes of runs, each once.
#[test]
fn a_ranking_tells_what_its_runs_are_worth() {
    let scratch = tempfile::tempdir().unwrap();
    let load = |name: &str| {
        let path = scratch.path().join(name);
        let text = r#"{ "tasks": { "a": { "cpus": [1, 9], "run": 1000, "loop": -1 } } }"#;
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let loads = [load("one.json"), load("two.json")].join(" ");
    let line = format!(
        "rank {loads} -m 2 -s cfs,eevdf -d 100ms --noise none --hotplug 1:off@1s --window 200ms"
    );
    let ended = fairground(&line.split(' ').collect::<Vec<_>>());
    let idle = "--window 200000000ns has no effect: no run is that long";
    assert!(ended.stderr.contains(idle), "{}", ended.stderr);
    let one = "In 2 of 2 cells there are only runs that are one: no seed changes anything.";
    // Lines are broken at blanks.
    let words: Vec<&str> = ended.stdout.split_whitespace().collect();
    let text = words.join(" ");
    for told in [
        one,
        "Note on 2 loads: one: \"cpus\" names CPU 9, and the machine has CPUs 0 to 1",
        "Note on 2 loads: one ended after ",
    ] {
        assert_eq!(text.matches(told).count(), 1, "{told}: {text}");
    }
    let line = "rank mix-two hogs-five -m 2 -s cfs,eevdf -d 100ms --noise default --format json";
    let ranking = &ranked(line)["rankings"][0]["ranking"];
    assert_eq!(ranking["one_run"], 0);
    let of_threads = |note: &&Value| note["note"].as_str().unwrap().contains("--noise default");
    let notes = ranking["notes"].as_array().unwrap();
    let loads: Vec<&Value> = notes.iter().filter(of_threads).map(|note| &note["loads"]).collect();
    assert_eq!(loads, [&Value::from(2)], "{ranking}");
}

#[test]
fn loads_that_a_board_holds_out_are_ranked_apart() {
    let result = ranked("rank boards/small.toml -s cfs,o1 --repeat 2 --format json");
    let rankings = result["rankings"].as_array().unwrap();
    let cells: Vec<_> = rankings
        .iter()
        .map(|one| (one["title"].clone(), one["ranking"]["cells"].clone()))
        .collect();
    assert_eq!(cells, [("Loads".into(), 3.into()), ("Held-out loads".into(), 1.into())]);
}

#[test]
fn own_margins_take_the_place_of_those_of_measures() {
    let folder = tempfile::tempdir().unwrap();
    let board = |name: &str, margin: &str| {
        let path = folder.path().join(name);
        let load = "[[load]]\nworkload = \"mix-two\"\nmachines = [\"2\"]\nduration = \"1s\"";
        let text = format!("about = \"x\"\n{load}\n[margins]\nwakeup_p99 = \"{margin}\"\n");
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let ranking = |loads: &str| {
        let result = ranked(&format!("rank {loads} -s cfs,eevdf --format json"));
        let ranking = &result["rankings"][0]["ranking"];
        let asked = ranking["measures"].as_array().unwrap().contains(&"wakeup_p99".into());
        (asked, ranking["margins"].to_string())
    };
    let [usual, wide] = ["mix-two -m 2 -d 1s", "mix-two -m 2 -d 1s --margin wakeup_p99=10s"];
    assert_eq!(ranking(usual), (true, "[]".to_owned()));
    let told = "[\"wakeup_p99 10.0 s\"]".to_owned();
    assert_eq!(ranking(wide), (false, told.clone()));
    let (first, second) = (board("first.toml", "10s"), board("second.toml", "1ms"));
    assert_eq!(ranking(&first), (false, told.clone()));
    assert_eq!(ranking(&format!("{second} --margin wakeup_p99=10s")), (false, told));
    let both = ["rank", first.as_str(), second.as_str()];
    end_with(&both, 2, &["its margin is wakeup_p99 10.0 s, for", "it is wakeup_p99 1.00 ms"]);
    let (one, other) = (board("one.toml", "1.001ms"), board("other.toml", "1.002ms"));
    end_with(&["rank", &one, &other], 2, &["its margin is wakeup_p99"]);
    let beside = ["rank", first.as_str(), "boards/small.toml"];
    end_with(&beside, 2, &["for boards/small.toml it is that of the measure; say which with"]);
    let twice = "rank mix-two --margin makespan=5% --margin makespan=6%";
    refuse(twice, 2, &["--margin makespan: it is given twice"]);
    refuse("rank mix-two --margin switches=2", 2, &["nobody is ranked by \"switches\"; there are"]);
    refuse("rank mix-two --margin makespan=-5%", 2, &["no margin is negative"]);
}

#[test]
fn who_fails_is_told_first_and_takes_no_part() {
    let line = "rank mix-two -m 2 -d 1s -s cfs,schedulers/broken.bpf.c";
    let ended = fairground(&line.split(' ').collect::<Vec<_>>());
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let told = ended.stdout.lines().nth(2).unwrap();
    let expected = "broken: invalid in 1 of 1 cells, which do not count for it; first mix-two on 2";
    assert_eq!(told, expected, "{}", ended.stdout);
}

#[test]
fn a_board_that_cannot_be_used_is_refused_with_the_way_out() {
    refuse("rank board:nothing", 2, &["there is no board:nothing; there are board:desktop"]);
    refuse("rank mix-two -s cfs", 2, &["one scheduler is no ranking; name two or more"]);
    refuse("rank nothing.toml", 2, &["cannot read nothing.toml"]);
    refuse("rank board:server -m 4", 2, &["board:server: a board says on which machines"]);
    let folder = tempfile::tempdir().unwrap();
    let board = folder.path().join("mine.toml");
    for (load, problem) in [
        ("machines = []", "has no machines"),
        ("machines = [\"2\"]\nduration = \"soon\"", "duration"),
        ("machines = [\"2\"]\nlength = \"1s\"", "unknown field `length`"),
        ("machines = [\"2\"]", "nosuch: there is no such file, and no load of this name"),
    ] {
        let text = format!("about = \"x\"\n[[load]]\nworkload = \"nosuch\"\n{load}\n");
        std::fs::write(&board, text).unwrap();
        end_with(&["rank", board.to_str().unwrap()], 2, &[problem]);
    }
}

/// From runs that are the same nothing more follows.
#[test]
fn a_cell_that_is_named_twice_counts_once() {
    let of = |boards: &str| {
        let mut result = ranked(&format!("rank {boards} -s cfs,o1 --repeat 2 --format json"));
        result["rankings"].take()
    };
    assert_eq!(of("boards/small.toml"), of("boards/small.toml boards/small.toml"));
}

#[test]
fn who_takes_no_part_is_beaten_in_no_part_of_the_cells() {
    let ended = fairground(&[
        "rank",
        "mix-two",
        "-m",
        "2",
        "-d",
        "500ms",
        "-s",
        "cfs,schedulers/broken.bpf.c",
    ]);
    let row = ended.stdout.lines().find(|line| line.starts_with("broken  ")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells, ["broken", "-", "-", "-", "0"], "{}", ended.stdout);
}

/// Who never ends its work has no short waits at no price.
#[test]
fn who_does_not_end_its_work_is_worse_than_who_does() {
    let scratch = tempfile::tempdir().unwrap();
    let load = scratch.path().join("job.json");
    let text = r#"{ "tasks": { "job": { "instance": 4, "loop": 1, "run": 100000 },
        "hog": { "instance": 4, "loop": -1, "run": 10000, "fairground": { "daemon": true } } } }"#;
    std::fs::write(&load, text).unwrap();
    let line = format!("rank {} -m 2 -d 300ms -s linux12,eevdf --format json", load.display());
    let ranking = &ranked(&line)["rankings"][0]["ranking"];
    let places = ranking["places"].as_array().unwrap();
    let of = |name: &str| places.iter().find(|one| one["scheduler"] == name).unwrap();
    assert!(of("eevdf")["times"].as_f64().unwrap() > 1.0, "{ranking}");
    assert_eq!(of("linux12")["dominated"].as_array().unwrap().len(), 0, "{ranking}");
    assert!(ranking["measures"].as_array().unwrap().contains(&"makespan".into()), "{ranking}");
}

#[test]
fn the_files_of_a_board_are_beside_it_and_have_names_of_their_own() {
    let scratch = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = scratch.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    for (folder, run) in [("one", 1000), ("two", 2000), ("three", 1000)] {
        let load = format!(r#"{{ "tasks": {{ "a": {{ "instance": 3, "run": {run} }} }} }}"#);
        file(&format!("{folder}/load.json"), &load);
    }
    file("m.toml", "[topology]\ndescription = \"2\"\norigin = \"x\"\n");
    let loads = |names: &[&str]| {
        let load = |name: &&str| {
            format!(
                "[[load]]\nworkload = \"{name}\"\nmachines = [\"m.toml\"]\nduration = \"50ms\"\n"
            )
        };
        let loads: String = names.iter().map(load).collect();
        file("b.toml", &format!("about = \"x\"\n{loads}"))
    };
    let board = loads(&["one/load.json"]);
    let ranking = &ranked(&format!("rank {board} -s cfs,eevdf --format json"))["rankings"][0];
    assert_eq!(ranking["ranking"]["cells"], 1, "{ranking}");
    // The same load in another place is the same.
    let board = loads(&["one/load.json", "three/load.json"]);
    let ranking = &ranked(&format!("rank {board} -s cfs,eevdf --format json"))["rankings"][0];
    assert_eq!(ranking["ranking"]["cells"], 1, "{ranking}");
    let board = loads(&["one/load.json", "two/load.json"]);
    end_with(&["rank", &board, "-s", "cfs,eevdf"], 2, &["two workloads are called load, "]);
}

/// A margin of a measure holds for what stands in for it where a load has an amount of work.
#[test]
fn an_own_margin_is_that_of_what_stands_in() {
    let line = "rank perf-pipe:loops=300 -m 2 -s cfs,eevdf,ule --noise none --format json";
    let questions = |more: &str| {
        let ranking = ranked(&format!("{line}{more}"))["rankings"][0]["ranking"].take();
        ranking["measures"].as_array().unwrap().contains(&"overhead_per_work".into())
    };
    assert!(questions(""));
    assert!(!questions(" --margin overhead=900points"));
}
