//! What a scheduler begins with: the contributions of kernel, machine, user and loader.

mod common;

use common::parse;
use fairground_bpf::{
    Given, Object, Prepared, Setup, StructOps, StructOpsValue, Value, VariablePatch,
};

fn object() -> Object {
    let mut object = parse("prepared.bpf.c");
    object.choose("ops").expect("there is one of this name");
    object
}

fn prepare(object: &Object, values: &[Value<'_>], setup: &Setup) -> Result<Prepared, String> {
    object.prepare(&Given {
        values,
        constant: &|name| (name == "SCX_KNOWN").then_some(99),
        knows: &|member| !member.starts_with("newest"),
        hotplug_sequence: 4,
        setup,
    })
}

fn value<'v>(section: &'v str, name: &'v str, bytes: &'v [u8]) -> Value<'v> {
    Value { section, name, bytes, chosen: false }
}

fn section<'p>(object: &Object, prepared: &'p Prepared, name: &str) -> &'p [u8] {
    let mut sections = object.sections().iter().zip(&prepared.sections);
    sections.find(|(one, _)| one.name == name).unwrap().1
}

fn number(object: &Object, prepared: &Prepared, name: &str) -> i128 {
    let mut sections = object.sections().iter().zip(&prepared.sections);
    let number = sections.find_map(|(section, bytes)| {
        let variable = section.variables.iter().find(|one| one.name == name)?;
        variable.number(bytes)
    });
    number.expect("it is a number")
}

#[test]
fn an_object_has_its_own_values_unless_it_gets_others() {
    let object = object();
    let given = [
        value(".rodata", "lag", &[0xf9, 0xff]),
        value(".rodata", "absent", &[1; 300]),
        // One of the scheduler's own with the name of another's.
        value(".rodata.slice", "slice", &[1; 8]),
    ];
    let prepared = prepare(&object, &given, &Setup::default()).unwrap();
    assert_eq!(number(&object, &prepared, "slice"), 5);
    assert_eq!(number(&object, &prepared, "lag"), -7);
    let names = object.constants();
    let names: Vec<(&str, i128)> = names.iter().map(|one| (one.0.name.as_str(), one.1)).collect();
    assert_eq!(names, [("slice", 5), ("lag", -6)]);
}

#[test]
fn a_value_of_another_size_is_refused_unless_its_variable_is_alone() {
    let object = object();
    let given = |one| prepare(&object, &[one], &Setup::default());
    assert_eq!(
        given(value(".rodata", "slice", &[0; 8])).unwrap_err(),
        "the variable `slice` in .rodata cannot hold 8 bytes: it has 4"
    );
    assert!(given(value(".bss", "counters", &[1; 15])).is_ok_and(|prepared| {
        let counters = section(&object, &prepared, ".bss");
        counters[..15] == [1; 15] && counters[15] == 0 && counters.len() == 16
    }));
    let grown = given(value(".rodata.table", "table", &[1, 0, 2, 0, 3, 0])).unwrap();
    assert_eq!(section(&object, &grown, ".rodata.table"), [1, 0, 2, 0, 3, 0]);
}

#[test]
fn the_kernels_constants_are_filled_in_and_those_it_lacks_are_0() {
    let object = object();
    let prepared = prepare(&object, &[], &Setup::default()).unwrap();
    assert_eq!(number(&object, &prepared, "__SCX_KNOWN"), 99);
    assert_eq!(number(&object, &prepared, "__SCX_UNKNOWN"), 0);
    assert_eq!(number(&object, &prepared, "__SCX_OWN"), 8);
}

#[test]
fn a_separate_dump_gets_the_room_that_the_scheduler_asks_for() {
    let object = object();
    let mut setup = Setup::default();
    let prepared = prepare(&object, &[], &setup).unwrap();
    assert_eq!(number(&object, &prepared, "uei_dump_len"), 100);
    assert_eq!(section(&object, &prepared, ".data.uei_dump"), [0; 100]);
    setup.operations = vec![("exit_dump_len".to_owned(), vec![0; 4])];
    let prepared = prepare(&object, &[], &setup).unwrap();
    assert_eq!(number(&object, &prepared, "uei_dump_len"), 32768);
    assert_eq!(section(&object, &prepared, ".data.uei_dump").len(), 32768);
}

#[test]
fn a_loader_has_the_last_word() {
    let object = object();
    let number_of = |name: &str| object.sections().iter().position(|one| one.name == name);
    let constants = number_of(".rodata").unwrap();
    let known = object.sections()[constants].variables.iter();
    let slice = known.clone().find(|one| one.name == "slice").unwrap();
    let known = known.clone().find(|one| one.name == "__SCX_KNOWN").unwrap();
    let setup = Setup {
        operations: vec![("name".to_owned(), b"renamed\0".to_vec())],
        variables: vec![
            VariablePatch {
                section: constants,
                offset: known.offset as usize,
                bytes: 3_u64.to_le_bytes().to_vec(),
            },
            VariablePatch {
                section: constants,
                offset: slice.offset as usize,
                bytes: vec![9, 0, 0, 0],
            },
            VariablePatch {
                section: number_of(".rodata.table").unwrap(),
                offset: 0,
                bytes: vec![9; 8],
            },
        ],
        map_sizes: vec![(0, 77)],
        ..Setup::default()
    };
    let usual = value(".rodata", "slice", &[7, 0, 0, 0]);
    let prepared = prepare(&object, &[usual], &setup).unwrap();
    assert_eq!(number(&object, &prepared, "slice"), 9);
    // But for what somebody has chosen.
    let prepared = prepare(&object, &[Value { chosen: true, ..usual }], &setup).unwrap();
    assert_eq!(number(&object, &prepared, "slice"), 7);
    assert_eq!(number(&object, &prepared, "__SCX_KNOWN"), 3);
    assert_eq!(section(&object, &prepared, ".rodata.table"), [9; 8]);
    assert_eq!(prepared.map_entries, [77]);
    assert_eq!(prepared.operations.value("name").unwrap().text(), "renamed");
    assert_eq!(prepared.operations.number("hotplug_seq"), 4);
}

/// The callbacks of a table, and the programs that are loaded.
fn programs(object: &Object, table: &StructOps) -> (Vec<String>, Vec<String>) {
    let callbacks = table.members.iter().filter_map(|one| match &one.value {
        StructOpsValue::Program(name) => Some(name.clone()),
        StructOpsValue::Data(_) => None,
    });
    let loaded = object.programs().iter().filter(|one| one.autoload);
    (callbacks.collect(), loaded.map(|one| one.name.clone()).collect())
}

#[test]
fn a_member_that_the_kernel_lacks_is_left_out_and_its_program_not_loaded() {
    let mut object = object();
    let setup = Setup {
        operations: vec![("newest_number".to_owned(), vec![1, 0, 0, 0])],
        ..Setup::default()
    };
    let prepared = prepare(&object, &[], &setup).unwrap();
    assert_eq!(prepared.left_out, ["newest", "newest_number"]);
    assert_eq!(prepared.operations.number("newest_number"), 0);
    object.replace(&prepared.operations);
    let (callbacks, loaded) = programs(&object, &prepared.operations);
    assert_eq!((callbacks, loaded.clone()), (loaded, vec!["on_enqueue".to_owned()]));
}

#[test]
fn programs_of_other_schedulers_are_not_loaded() {
    let both = parse("prepared.bpf.c");
    let message = both.scheduler().unwrap_err();
    assert!(message.contains("several tables of callbacks: ops, other; say"), "{message}");
    let object = object();
    let (callbacks, loaded) = programs(&object, object.scheduler().unwrap());
    assert_eq!(callbacks, ["on_enqueue", "on_newest"]);
    assert_eq!(loaded, callbacks);
}
