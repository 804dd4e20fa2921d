//! Machines as TOML files.

use fairground_machine::{CacheSize, Machine, NAMED};

/// A file with two kinds of CPUs.
const FILE: &str = r#"
[topology]
description = "4"
origin = "made up"

[capacity]
list = "2x512,2x1024"
origin = "made up, too"

[[idle]]
origin = "a clock"
states = [{ name = "shallow", exit_us = 1, residency_us = 2.5 }, { name = "deep", exit_us = 100, residency_us = 300, mw = 0.5 }]

[[clock]]
cpus = "0-1"
rate_limit_us = 750
origin = "a data sheet"
steps = [{ khz = 500000, mw = 20 }, { khz = 1000000, mw = 70.25 }]

[[clock]]
cpus = "2,3"
each = true
origin = "a data sheet"
steps = [{ khz = 2000000, mw = 900 }]

[cache]
kib = 2048
line_ns = 90
origin = "a ruler"
"#;

fn refused(file: &str) -> String {
    Machine::parse_toml("mine.toml", file).unwrap_err().to_string()
}

#[test]
fn a_file_says_how_cpus_sleep_and_change_speed() {
    let machine = Machine::parse_toml("mine.toml", FILE).unwrap();
    assert_eq!(machine.description, "mine.toml");
    let told = "4 CPUs, 4 cores, 1 last-level cache, 1 node, 1 package, capacities 2x1024, 2x512, 2 idle states, 500 to 2000 MHz, caches of 2048 KiB, known power";
    assert_eq!(machine.to_string(), told);
    let hardware = &machine.hardware;
    assert_eq!(hardware.cache, Some(CacheSize { bytes: 2 << 20, line_time: 90 }));
    let deep = &hardware.idle_states(3)[1];
    assert_eq!((deep.exit_latency, deep.residency, deep.power), (100_000, 300_000, 500));
    assert_eq!(hardware.idle_states(0)[0].residency, 2_500);
    let clocks: Vec<&[usize]> = { hardware.clocks.iter() }.map(|clock| &*clock.cpus).collect();
    assert_eq!(clocks, [&[0, 1][..], &[2], &[3]]);
    assert_eq!(hardware.clocks[0].rate_limit, 750_000);
    assert_eq!(hardware.clocks[1].rate_limit, 1_000_000);
    assert_eq!(hardware.clocks[0].steps[1].power, Some(70_250));
    let origins: Vec<String> =
        { machine.origins.iter() }.map(|(what, origin)| format!("{what}: {origin}")).collect();
    let expected = [
        "CPUs, caches and nodes: made up",
        "capacities: made up, too",
        "idle states of CPUs 0-3: a clock",
        "frequencies of CPUs 0-1: a data sheet",
        "frequencies of CPUs 2-3: a data sheet",
        "size of caches: a ruler",
    ];
    assert_eq!(origins, expected);
}

#[test]
fn cpus_may_be_listed_with_what_they_share() {
    let file = r#"
[topology]
cpus = "0-1,4-5"
packages = ["0-1,4-5"]
nodes = ["0,4", "1,5", ""]
distances = [10, 20, 30, 20, 10, 30, 30, 30, 10]
caches = ["0,4", "1,5"]
cores = ["0,4", "1,5"]
origin = "made up"

[[idle]]
cpus = "4"
origin = "made up"
states = [{ name = "C1", exit_us = 1, residency_us = 1 }]
"#;
    let machine = Machine::parse_toml("mine.toml", file).unwrap();
    assert_eq!(machine.numbers, [0, 1, 4, 5]);
    assert_eq!(machine.siblings(2).collect::<Vec<_>>(), [0, 2]);
    assert_eq!(machine.cpus[3].node, 1);
    assert_eq!(machine.node_distance(0, 2), 30);
    assert_eq!(machine.hardware.idle_states(2).len(), 1);
    assert_eq!(machine.hardware.idle_states(1), []);
    for (old, new, words) in [
        ("\"0,4\", \"1,5\"]\norigin", "\"0,4\"]\norigin", "`cores` does not have CPU 1"),
        ("\"0,4\", \"1,5\"]\norigin", "\"0,4\", \"0,1,5\"]\norigin", "`cores` has CPU 0 twice"),
        ("cpus = \"4\"", "cpus = \"2\"", "[[idle]]: the machine has no CPU 2, only CPUs 0-1,4-5"),
        ("\"0-1,4-5\"\n", "\"0-1,4\"\n", "`packages` has CPU 5, which the machine does not have"),
        (", 30, 10]", "]", "3 nodes have 9 distances"),
        ("[topology]", "[topology]\ndescription = \"4\"", "either `description` or `cpus`"),
    ] {
        let error = refused(&file.replacen(old, new, 1));
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn machines_with_names_are_sound() {
    for (name, text) in NAMED {
        let machine = Machine::parse(name).unwrap();
        assert_eq!(machine.description, name);
        assert_eq!(machine.hardware.idle.len(), machine.cpus.len());
        assert!(!machine.hardware.clocks.is_empty() || machine.hardware.sets_speed);
        assert!(machine.origins.iter().all(|(_, origin)| origin.len() > 10), "{text}");
    }
    let siblings = |name, cpu| Machine::parse(name).unwrap().siblings(cpu).collect::<Vec<_>>();
    assert_eq!(siblings("desktop", 1), [1, 5]);
    assert_eq!(siblings("server", 3), [3, 67]);
    assert_eq!(Machine::parse("server").unwrap().cpus[32].package, 1);
}

#[test]
fn mistakes_are_named_with_their_place() {
    let with = |old: &str, new: &str| refused(&FILE.replacen(old, new, 1));
    let unknown = with("each = true", "alone = true");
    assert!(
        unknown.starts_with("machine `mine.toml`: line 22: unknown field `alone`"),
        "{unknown}"
    );
    let missing = with("origin = \"a clock\"\n", "");
    assert!(missing.contains("missing field `origin`"), "{missing}");
    for (old, new, words) in [
        ("\"4\"", "\"four\"", "[topology]: "),
        ("2x512", "3x512", "[capacity]: "),
        (
            "cpus = \"2,3\"",
            "cpus = \"2,4\"",
            "[[clock]]: the machine has no CPU 4, only CPUs 0 to 3",
        ),
        ("cpus = \"2,3\"", "cpus = \"1-3\"", "[[clock]]: CPU 1 has a clock already"),
        ("cpus = \"2,3\"", "cpus = \"two\"", "`two` is no list of CPUs"),
        ("khz = 500000", "khz = 5000000", "steps are in the order of their frequencies"),
        ("kib = 2048", "kib = 0", "[cache]: 0 KiB is no size of a cache"),
        ("line_ns = 90", "line_ns = 2000000", "2000000 ns is no time to fetch a line"),
        ("khz = 500000", "khz = 500", "500 kHz is no frequency of a CPU"),
        (", mw = 900", "", "`mw` belongs to all steps of all CPUs, or to none"),
        ("mw = 900", "mw = -1", "-1 mW is no power of a CPU"),
        ("exit_us = 100", "exit_us = 0", "states are in the order of exit latency and residency"),
        (
            "residency_us = 300",
            "residency_us = 46000",
            "`residency_us` is 46000, which is not from 0 to 45000 us",
        ),
        (
            "[capacity]",
            "[smt]\nthroughput = [1.2]\norigin = \"x\"\n[capacity]",
            "[smt]: no core of the machine has more than one CPU",
        ),
        ("[capacity]", "[speed]\nset_by = \"hardware\"\norigin = \"x\"\n[capacity]", "[speed]: "),
    ] {
        let error = with(old, new);
        assert!(error.contains(words), "{error}");
    }
    let absent = Machine::parse("/nonexistent/m.toml").unwrap_err().to_string();
    assert!(
        absent.starts_with("machine `/nonexistent/m.toml`: the file cannot be read: "),
        "{absent}"
    );
}
