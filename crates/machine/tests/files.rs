//! hwloc XML files, and the machine the tests run on.

use fairground_machine::{Distance, Machine};

fn fixture(name: &str) -> String {
    format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_file_with_nodes_caches_and_distances() {
    let machine = Machine::parse(&fixture("two-nodes.xml")).unwrap();
    assert_eq!(machine.to_string(), "7 CPUs, 4 cores, 2 last-level caches, 2 nodes, 2 packages");
    assert_eq!(machine.siblings(4).collect::<Vec<_>>(), [0, 4]);
    assert_eq!(machine.llc_members(1).collect::<Vec<_>>(), [2, 3, 6]);
    assert_eq!(machine.node_members(1).collect::<Vec<_>>(), [2, 3, 6]);
    assert_eq!(machine.node_distances, [10, 32, 31, 10]);
    assert_eq!(machine.node_distance(1, 0), 31);
    assert_eq!(machine.distance(1, 5), Distance::Sibling);
    assert_eq!(machine.distance(0, 1), Distance::Cache);
    assert_eq!(machine.distance(0, 2), Distance::Remote);
}

#[test]
fn a_file_with_kinds_of_cpus_and_little_else() {
    let machine = Machine::parse(&fixture("big-little.xml")).unwrap();
    // CPU 64 of the file is CPU 3 for schedulers. The second memory of CPU 0 is a node without CPUs.
    assert_eq!(
        machine.to_string(),
        "4 CPUs, 4 cores, 1 last-level cache, 2 nodes, 1 package, 1 of the nodes without CPUs, capacities 2x1024, 2x512"
    );
    assert_eq!(machine.find(64), Some(3));
    let capacities: Vec<_> = machine.cpus.iter().map(|cpu| cpu.capacity).collect();
    assert_eq!(capacities, [512, 512, 1024, 1024]);
}

/// Writes the text to a file for as long as it is parsed.
fn parse(name: &str, text: &str) -> Result<Machine, String> {
    let file = format!("fairground-machine-{name}-{}.xml", std::process::id());
    let file = std::env::temp_dir().join(file);
    std::fs::write(&file, text).unwrap();
    let result = Machine::parse(file.to_str().unwrap());
    std::fs::remove_file(&file).unwrap();
    result.map_err(|error| error.to_string())
}

#[test]
fn without_caches_a_node_of_a_package_shares_one() {
    let node = |number: u32, set: &str, pus: &str| {
        format!(
            r#"<object type="Group" cpuset="{set}"><object type="NUMANode" os_index="{number}" cpuset="{set}"/>{pus}</object>"#
        )
    };
    let pu = |number: u32| format!(r#"<object type="PU" os_index="{number}" cpuset="0x0"/>"#);
    let text = format!(
        r#"<topology version="2.0"><object type="Machine" cpuset="0xf"><object type="Package" cpuset="0xf">{}{}</object></object></topology>"#,
        node(0, "0x3", &(pu(0) + &pu(1))),
        node(1, "0xc", &(pu(2) + &pu(3))),
    );
    let machine = parse("nodes", &text).unwrap();
    assert_eq!(machine.to_string(), "4 CPUs, 4 cores, 2 last-level caches, 2 nodes, 1 package");
}

#[test]
fn frequencies_stand_in_for_capacities() {
    let text = r#"<topology version="2.0"><object type="Machine" cpuset="0x3">
        <object type="PU" os_index="0" cpuset="0x1"/><object type="PU" os_index="1" cpuset="0x2"/></object>
        <cpukind cpuset="0x1"><info name="FrequencyMaxMHz" value="3000"/></cpukind>
        <cpukind cpuset="0x2"><info name="FrequencyMaxMHz" value="4000"/></cpukind></topology>"#;
    let capacities = |text: &str| -> Vec<u32> {
        let machine = parse("kinds", text).unwrap();
        machine.cpus.iter().map(|cpu| cpu.capacity).collect()
    };
    assert_eq!(capacities(text), [768, 1024]);
    // Kinds that leave CPUs out say nothing.
    assert_eq!(capacities(&text.replace("\"0x2\"><info", "\"0x1\"><info")), [1024, 1024]);
}

#[test]
fn only_allowed_cpus_take_part() {
    let pu = |number: u32| format!(r#"<object type="PU" os_index="{number}" cpuset="0x1"/>"#);
    let text = |allowed: &str| {
        format!(
            r#"<topology version="2.0"><object type="Machine" cpuset="0xf" allowed_cpuset="{allowed}">{}</object></topology>"#,
            (0..4).map(pu).collect::<String>()
        )
    };
    let all = parse("all", &text("0xf")).unwrap();
    assert_eq!((all.cpu_count(), all.notes.len()), (4, 0));
    let some = parse("some", &text("0xa")).unwrap();
    assert_eq!(some.numbers, [1, 3]);
    assert!(
        some.notes.iter().any(|note| note.starts_with("only the 2 allowed of the 4 CPUs in ")),
        "{:?}",
        some.notes
    );
    let none = parse("none", &text("0xf0")).unwrap_err();
    assert!(none.contains("its allowed_cpuset has none of its CPUs"), "{none}");
}

#[test]
fn kinds_of_cores_without_capacities_are_noted() {
    let text = r#"<topology version="2.0"><object type="Machine" cpuset="0x3">
        <object type="PU" os_index="0" cpuset="0x1"/><object type="PU" os_index="1" cpuset="0x2"/></object>
        <cpukind cpuset="0x1"><info name="CoreType" value="IntelAtom"/></cpukind>
        <cpukind cpuset="0x2"><info name="CoreType" value="IntelCore"/></cpukind></topology>"#;
    let machine = parse("unequal", text).unwrap();
    assert!(machine.unknown_speeds);
}

#[test]
fn unusable_files_are_answered_with_the_place() {
    let missing = Machine::parse("/nonexistent/m.xml").unwrap_err().to_string();
    assert!(
        missing.starts_with("machine `/nonexistent/m.xml`: the file cannot be read"),
        "{missing}"
    );
    let pu = r#"<object type="PU" os_index="0" cpuset="0x1"/>"#;
    let topology = |content: &str| format!("<topology version=\"2.0\">\n {content}</topology>");
    for (name, text, words) in [
        ("empty", String::new(), "not an XML file"),
        ("broken", "<topology".into(), "not an XML file"),
        ("other", "<html/>".into(), "line 1, column 1: <html> is not the <topology> of hwloc"),
        ("old", format!("<topology>{pu}</topology>"), "only files of hwloc 2 and later"),
        ("nothing", topology(""), "no CPU"),
        ("untyped", topology("<object/>"), "line 2, column 2: `type` is missing"),
        ("unnumbered", topology(r#"<object type="PU"/>"#), "`os_index` is missing"),
        (
            "number",
            topology(r#"<object type="PU" os_index="x"/>"#),
            "os_index=\"x\" is not a number",
        ),
        ("twice", topology(&pu.repeat(2)), "CPU 0 is there twice"),
        (
            "set",
            topology(r#"<object type="NUMANode" os_index="0" cpuset="0x1,zz"/>"#),
            "cpuset=\"0x1,zz\" is not a set of CPUs",
        ),
        (
            "square",
            topology(&format!(
                r#"{pu}<distances2 type="NUMANode" kind="5" indexing="os"><indexes>0 1</indexes><u64values>10 20</u64values></distances2>"#
            )),
            "not a square",
        ),
        (
            "kind",
            topology(&format!(
                r#"{pu}<cpukind cpuset="0x1"><info name="LinuxCapacity" value="0"/></cpukind>"#
            )),
            "LinuxCapacity is 0",
        ),
        (
            "large",
            topology(
                &(0..=4096)
                    .map(|n| format!(r#"<object type="PU" os_index="{n}"/>"#))
                    .collect::<String>(),
            ),
            "more than 4096 CPUs",
        ),
    ] {
        let error = parse(name, &text).expect_err(name);
        assert!(error.contains(words), "{name}: {error}");
    }
    // Numbers at the limits are only numbers.
    let far = topology(r#"<object type="PU" os_index="4294967295" cpuset="0x0"/>"#);
    assert_eq!(parse("far", &far).unwrap().cpu_count(), 1);
}

#[test]
fn the_host_has_at_least_the_cpus_this_test_may_use() {
    let machine = Machine::parse("host").unwrap();
    assert_eq!(machine.description, "host");
    let usable = std::thread::available_parallelism().unwrap().get();
    assert!(machine.cpu_count() >= usable, "{machine}");
    assert_eq!(machine.node_distances.len(), machine.nodes().len().pow(2));
}

#[test]
fn files_made_to_exhaust_the_reader_are_refused() {
    let nested = format!("{}{}", "<object>".repeat(100_000), "</object>".repeat(100_000));
    let error = parse("nested", &format!(r#"<topology version="2.0">{nested}</topology>"#))
        .expect_err("too deep");
    assert!(error.contains("nested deeper than 128"), "{error}");
    let entity = format!("<!DOCTYPE topology [<!ENTITY a \"{}\">]>", "x".repeat(100_000));
    let many = "&a;".repeat(20_000);
    let text = format!(r#"{entity}<topology version="2.0">{many}</topology>"#);
    let error = parse("entity", &text).expect_err("entities");
    assert!(error.contains("it defines entities"), "{error}");
}
