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
