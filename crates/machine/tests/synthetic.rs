//! Numbers of CPUs and synthetic descriptions.

use fairground_machine::{Distance, Machine};
use proptest::prelude::*;

fn machine(description: &str) -> Machine {
    Machine::parse(description).unwrap_or_else(|error| panic!("{error}"))
}

fn cores(machine: &Machine) -> Vec<Vec<usize>> {
    machine.cores().map(|core| machine.core_members(core).collect()).collect()
}

#[test]
fn a_number_is_one_node_with_one_cache_and_no_siblings() {
    let machine = machine(" 3 ");
    assert_eq!(machine.description, "3");
    assert_eq!(machine.to_string(), "3 CPUs, 3 cores, 1 last-level cache, 1 node, 1 package");
    assert_eq!(machine.node_distances, [10]);
    assert_eq!(machine.distance(0, 0), Distance::Same);
    assert_eq!(machine.distance(0, 2), Distance::Cache);
    assert!(machine.cpus.iter().all(|cpu| cpu.capacity == 1024));
    assert_eq!(self::machine("1").cpu_count(), 1);
    assert_eq!(self::machine("4096").cpu_count(), 4096);
}

#[test]
fn groups_and_distances_of_a_full_description() {
    let machine = machine("package:2 numa:2 l3:2 core:2 pu:2");
    assert_eq!(machine.to_string(), "32 CPUs, 16 cores, 8 last-level caches, 4 nodes, 2 packages");
    assert_eq!(machine.siblings(5).collect::<Vec<_>>(), [4, 5]);
    assert_eq!(machine.llc_members(1).collect::<Vec<_>>(), [4, 5, 6, 7]);
    assert_eq!(machine.node_members(3).collect::<Vec<_>>(), (24..32).collect::<Vec<_>>());
    assert_eq!(machine.package_members(1).collect::<Vec<_>>(), (16..32).collect::<Vec<_>>());
    for (other, distance) in [
        (0, Distance::Same),
        (1, Distance::Sibling),
        (2, Distance::Cache),
        (4, Distance::Node),
        (8, Distance::Remote),
        (31, Distance::Remote),
    ] {
        assert_eq!(machine.distance(0, other), distance, "CPU {other}");
    }
    assert_eq!(machine.node_distance(2, 2), 10);
    assert_eq!(machine.node_distance(0, 3), 20);
}

#[test]
fn what_each_description_has() {
    // CPUs, cores, last-level caches, nodes, packages.
    for (description, expected) in [
        ("numa:2 l3:2 core:4 pu:2", [32, 16, 4, 2, 2]),
        ("core:4", [4, 4, 1, 1, 1]),
        ("core:4 2", [8, 4, 1, 1, 1]),
        ("l3:2 4", [8, 8, 2, 1, 1]),
        ("socket:2 die:2 core:2 pu:1", [8, 8, 4, 1, 2]),
        ("Package:2 NUMANode:2 Core:2 PU:1", [8, 8, 4, 4, 2]),
        ("numa:2 package:2 core:3", [12, 12, 4, 2, 4]),
        ("pack:2 [numa] l3:2 core:2 pu:2", [16, 8, 4, 2, 2]),
        ("pack:2 [numa(memory=4GB)] l3:2(size=8MB) core:2 pu:2", [16, 8, 4, 2, 2]),
        ("[numa] pu:2", [2, 2, 1, 1, 1]),
        ("(memory=1GB) 2 2", [4, 4, 2, 2, 2]),
        ("group:2 group:3 l2:2 l1d:1 l1i:1 core:1 pu:1", [12, 12, 12, 1, 1]),
        ("l4:2 l3Cache:2 l2u:1 core:2", [8, 8, 2, 1, 1]),
        ("l1icache:4 core:1 pu:2", [8, 4, 1, 1, 1]),
        ("no:2(memory=1GB indexes=1,0) co:2 pu:1", [4, 4, 2, 2, 2]),
        // hwloc's meaning of plain numbers.
        ("2 3", [6, 6, 2, 2, 2]),
        ("2 4 2", [16, 16, 8, 8, 2]),
        ("2 2 2 2", [16, 8, 4, 4, 2]),
        ("2 2 3 2 2", [48, 24, 12, 4, 2]),
        ("2 2 3 2 2 2", [96, 48, 12, 4, 2]),
        ("2 2 3 1 2 2 2", [96, 48, 12, 4, 2]),
        ("2 2 3 1 1 2 2 2", [96, 48, 12, 4, 2]),
        ("2 2 2 3 1 1 2 2 2", [192, 96, 24, 8, 4]),
    ] {
        let machine = machine(description);
        let groups = [machine.cores(), machine.llcs(), machine.nodes(), machine.packages()];
        let mut counts = vec![machine.cpu_count()];
        counts.extend(groups.map(|group| group.len()));
        assert_eq!(counts, expected, "{description}");
    }
}

#[test]
fn cpus_are_numbered_as_the_description_says() {
    let interleaved = cores(&machine("numa:2 core:2 pu:2(indexes=2*4:1*2)"));
    assert_eq!(interleaved, [[0, 4], [1, 5], [2, 6], [3, 7]]);
    // As hwloc numbers them: CPUs 0 4 2 6 1 5 3 7 in the order of the description.
    let nested = cores(&machine("pack:2 core:2 pu:2(indexes=4*2:2*2:1*2)"));
    assert_eq!(nested, [[0, 4], [2, 6], [1, 5], [3, 7]]);
    let listed = machine("pack:2 core:2 pu:1(indexes=3,1,0,2)");
    assert_eq!(listed.package_members(0).collect::<Vec<_>>(), [1, 3]);
}

#[test]
fn capacities() {
    let machine = machine("numa:2 core:2 capacity:2x1024,512,256");
    let capacities: Vec<_> = machine.cpus.iter().map(|cpu| cpu.capacity).collect();
    assert_eq!(capacities, [1024, 1024, 512, 256]);
    assert_eq!(
        machine.to_string(),
        "4 CPUs, 4 cores, 2 last-level caches, 2 nodes, 2 packages, capacities 2x1024, 1x512, 1x256"
    );
    assert_eq!(self::machine("2 capacity:512,1024").cpus[0].capacity, 512);
}

#[test]
fn nonsense_is_answered_with_the_word_and_an_example() {
    for (description, words) in [
        ("", "no machine is described"),
        ("0", "there has to be at least one CPU"),
        ("-1", "`-1` is neither"),
        ("1.5", "`1.5` is neither"),
        ("4097", "more than 4096 CPUs"),
        ("99999999999", "`99999999999` is neither"),
        ("65536 65536 65536", "more than 4096 CPUs"),
        ("many", "`many` is neither"),
        ("2,2", "`2,2` is several machines: write -m 2 -m 2"),
        ("x:2", "`x:2` is not a level"),
        ("c:2 2", "`c:2` is not a level"),
        ("l6:2 2", "`l6:2` is not a level"),
        ("l4i:2 2", "`l4i:2` is not a level"),
        ("machine:1 core:2", "`machine:1` is not a level"),
        ("core:", "`core:` needs a number from 1"),
        ("core:0", "`core:0` needs a number from 1"),
        ("core:x", "`core:x` needs a number from 1"),
        ("numa:2 4 2", "`4` has no type"),
        ("2 core:2", "`2` has no type"),
        ("core:2 package:2 2", "`package:2` cannot be inside `core:2`"),
        ("core:2 l3:2 2", "`l3:2` cannot be inside `core:2`"),
        ("l2:2 l3:2 2", "`l3:2` cannot be inside `l2:2`"),
        ("die:2 pack:2 2", "`pack:2` cannot be inside `die:2`"),
        ("pu:2 core:2", "`pu:2` must be the last level"),
        ("core:2 core:2", "`core:2` repeats a level"),
        ("[die] core:2", "`[die]` is not memory beside a level"),
        ("[] 2", "`[]` is not memory"),
        ("[numa] (memory=1GB)", "no level of CPUs"),
        ("core:2(speed=3)", "`speed=3` in `core:2(speed=3)` is not an attribute"),
        ("core:2(size=3", "`core:2(size=3` does not close"),
        ("core:2)", "`core:2)` closes a parenthesis"),
        ("core:2(size=3)pu:2", "goes on after its parenthesis"),
        ("pu:4(indexes=0,2,1)", "`indexes=0,2,1` does not number the 4 objects"),
        ("pu:4(indexes=0,0,1,2)", "does not number the 4 objects"),
        ("pu:4(indexes=core:pu)", "does not number the 4 objects"),
        ("pu:4(indexes=0*2:1*2)", "does not number the 4 objects"),
        ("pu:4(indexes=1*4000000000:1*4000000000)", "does not number the 4 objects"),
        ("capacity:1024", "no machine is described"),
        ("capacity:1024 4", "must come after the levels"),
        ("4 capacity:", "`` is not a count times a capacity"),
        ("4 capacity:4x", "`4x` is not a count times a capacity"),
        ("4 capacity:2x1024", "it lists 2 CPUs, but the machine has 4"),
        ("4 capacity:5x1024", "must add up to the 4 CPUs"),
        ("4 capacity:0x1024,4x1024", "must add up"),
        ("4 capacity:18446744073709551615x1024,18446744073709551615x1024", "must add up"),
        ("4 capacity:4x1025", "from 1 to 1024"),
        ("4 capacity:4x0", "from 1 to 1024"),
        ("4 capacity:4x512", "the fastest CPU has 1024"),
        ("4 capacity:4x1024 cgroup_mode:smp capacity:4x1024", "says again"),
    ] {
        let error = Machine::parse(description).expect_err(description).to_string();
        assert!(error.starts_with(&format!("machine `{description}`: ")), "{error}");
        assert!(error.contains(words), "{error}");
        let example = error.rsplit("for example `").next().unwrap().trim_end_matches('`');
        let example = match example.strip_prefix("capacity:") {
            Some(_) => format!("4 {example}"),
            None => example.into(),
        };
        assert!(Machine::parse(&example).is_ok(), "the example does not work: {error}");
    }
}

proptest! {
    #[test]
    fn every_cpu_has_its_place(
        packages in 1..4usize, nodes in 1..4usize, caches in 1..4usize, cores in 1..5usize, threads in 1..3usize,
    ) {
        let machine = machine(&format!(
            "package:{packages} numa:{nodes} l3:{caches} core:{cores} pu:{threads}"
        ));
        prop_assert_eq!(machine.cpu_count(), packages * nodes * caches * cores * threads);
        prop_assert_eq!(machine.node_distances.len(), machine.nodes().len().pow(2));
        for llc in machine.llcs() {
            prop_assert_eq!(machine.llc_members(llc).count(), cores * threads);
        }
        for a in 0..machine.cpu_count() {
            prop_assert_eq!(machine.siblings(a).count(), threads);
            for b in 0..machine.cpu_count() {
                prop_assert_eq!(machine.distance(a, b), machine.distance(b, a));
                prop_assert_eq!(machine.distance(a, b) == Distance::Same, a == b);
            }
        }
    }

    #[test]
    fn any_words_are_answered(
        words in prop::collection::vec(
            prop_oneof!["(numa|pack|die|l3|l2|core|pu|group|\\[numa\\])?:?[0-9]{0,2}", "[\\PC()\\[\\]]{0,6}"],
            0..6,
        )
    ) {
        if let Ok(machine) = Machine::parse(&words.join(" ")) {
            prop_assert!((1..=Machine::CPUS_MAX).contains(&machine.cpu_count()));
        }
    }
}

/// The machine's own numbers of the CPUs of each core, in the order of cores.
fn numbers(machine: &Machine) -> Vec<Vec<u32>> {
    let members = |core| machine.core_members(core).map(|cpu| machine.numbers[cpu]);
    machine.cores().map(|core| members(core).collect()).collect()
}

#[test]
fn levels_name_an_interleaved_numbering() {
    let by_node = machine("numa:2 core:2 pu:2(indexes=numa:core)");
    assert_eq!(numbers(&by_node), [[0, 4], [2, 6], [1, 5], [3, 7]]);
    // CPUs that are not named count last, in order.
    let spelled_out = machine("numa:2 core:2 pu:2(indexes=4*2:2*2:1*2)");
    assert_eq!(by_node.cpus, spelled_out.cpus);
    let nodes = machine("numa:2 pu:4(indexes=numa)");
    assert_eq!(nodes.node_members(0).collect::<Vec<_>>(), [0, 2, 4, 6]);
    let all = machine("numa:2 core:2 pu:2(indexes=pu:core:numa)");
    assert_eq!(numbers(&all), [[0, 1], [2, 3], [4, 5], [6, 7]]);
    let numbered = machine("numa:3(indexes=2,0,1) core:1");
    let of = |node: u32| numbered.node_members(node).collect::<Vec<_>>();
    assert_eq!([of(0), of(1), of(2)], [[1], [2], [0]]);
}

#[test]
fn a_list_of_numbers_may_have_gaps() {
    let machine = machine("core:3 pu:2(indexes=0,1,8,9,16,17)");
    assert!(machine.has_gaps());
    assert_eq!(machine.numbers, [0, 1, 8, 9, 16, 17]);
    assert_eq!((machine.find(8), machine.find(2)), (Some(2), None));
    assert_eq!(machine.told_numbers(), "CPUs 0-1,8-9,16-17");
    assert!(
        machine.notes[0]
            .starts_with("the machine's CPUs 0-1,8-9,16-17 are CPUs 0 to 5 for schedulers"),
        "{:?}",
        machine.notes
    );
}

#[test]
fn nodes_at_two_levels() {
    let machine = machine("[numa] pack:2 [numa] core:2");
    assert_eq!(
        machine.to_string(),
        "4 CPUs, 4 cores, 2 last-level caches, 3 nodes, 2 packages, 1 of the nodes without CPUs"
    );
    let of = |node: u32| machine.node_members(node).collect::<Vec<_>>();
    assert_eq!([of(0), of(1), of(2)], [vec![0, 1], vec![2, 3], vec![]]);
    let inner = self::machine("pack:2 [numa] core:2 [numa]");
    // As in hwloc, a core's node comes before that of its package.
    assert_eq!(inner.nodes(), 0..6);
    let nodes: Vec<u32> = inner.cpus.iter().map(|cpu| cpu.node).collect();
    assert_eq!(nodes, [0, 1, 3, 4]);
}

#[test]
fn a_word_says_how_siblings_share_a_core() {
    assert_eq!(machine("core:2 pu:2").hardware.smt, []);
    let shared = machine("core:2 pu:2 smt:1.15 cgroup_mode:smp");
    assert_eq!(shared.hardware.smt, [1150]);
    let told = "4 CPUs, 2 cores, 1 last-level cache, 1 node, 1 package, SMT throughput 1.15";
    assert_eq!(shared.to_string(), told);
    assert_eq!(machine("core:2 pu:4 smt:1.3,1.5,1.6").hardware.smt.len(), 3);
    let refused = |text: &str| Machine::parse(text).unwrap_err().to_string();
    assert!(refused("4 smt:1.15").contains("no core of the machine has more than one CPU"));
    assert!(refused("core:2 pu:2 smt:1.15,1.2").contains("so 1 belong here"));
    assert!(refused("core:2 pu:2 smt:2.5").contains("2.5 is no throughput of 2 busy CPUs"));
    assert!(refused("core:2 pu:2 smt:fast").contains("throughputs are numbers"));
}

#[test]
fn the_last_word_may_say_how_shares_of_groups_grow() {
    use fairground_events::CgroupMode;
    assert_eq!(machine("4").cgroup_mode, CgroupMode::Concur);
    assert_eq!(machine("4 cgroup_mode:smp").cgroup_mode, CgroupMode::Smp);
    let both = machine("core:2 capacity:1024,512 cgroup_mode:tasks");
    assert_eq!(both.cgroup_mode, CgroupMode::Tasks);
    assert_eq!(both.cpus[1].capacity, 512);
    let refused = |text: &str| Machine::parse(text).unwrap_err().to_string();
    assert!(refused("4 cgroup_mode:flat").contains("modes are up, smp, concur, max, tasks"));
    assert!(refused("cgroup_mode:smp 4").contains("must come after the levels"));
}
