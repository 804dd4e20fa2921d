//! Reading scheduler objects, and giving them to libbpf. Nothing is loaded, so no rights are needed.

use std::path::Path;
use std::sync::Arc;

use fairground_bpf::{CONSTANTS, Object, Setup, StructOpsValue, Value};
use fairground_contract::topology;
use fairground_kernel::Error;
use fairground_kernel::host::KernelTypes;
use fairground_kernel::loader::OpenScheduler;
use fairground_machine::Machine;
use fairground_simulator::{Options, Scheduler};

/// A kernel with the constants of the simulated one, and all members that the object sets.
fn kernel(object: &Object) -> KernelTypes {
    let constants = Scheduler::constants().map(|(name, value)| (name.to_owned(), value));
    let tables = object.schedulers();
    let members = tables.flat_map(|table| {
        table.members.iter().map(|member| (table.type_name.clone(), member.name.clone()))
    });
    KernelTypes { constants: constants.collect(), members: members.collect(), hotplug_sequence: 0 }
}

fn open_with(
    name: &str,
    table: Option<&str>,
    values: &[Value<'_>],
) -> Result<OpenScheduler, Error> {
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/schedulers/{name}.bpf.c"));
    let compiled = fairground_catalog::compile_source(&source, &Default::default())
        .expect("the test's scheduler compiles");
    assert_eq!(compiled.warnings, "");
    let mut object = Object::parse(&compiled.object).expect("it is an object");
    if let Some(table) = table {
        object.choose(table).expect("it has this table");
    }
    let kernel = kernel(&object);
    OpenScheduler::open(name, &compiled.object, &object, &kernel, values, Setup::default())
}

fn open(name: &str) -> Result<OpenScheduler, Error> {
    open_with(name, None, &[])
}

#[test]
fn the_scheduler_names_itself() {
    assert_eq!(open("first_come").expect("it is a scheduler").title(), "first_come");
}

#[test]
fn bytes_must_fit_their_variable() {
    let of_size = |size: usize| {
        let value = Value {
            section: CONSTANTS,
            name: "unsigned_32",
            bytes: &[7; 8][..size],
            chosen: false,
        };
        open_with("first_come", None, &[value])
    };
    assert!(of_size(4).is_ok());
    let message = of_size(8).expect_err("they do not fit").to_string();
    assert_eq!(
        message,
        "first_come: the variable `unsigned_32` in .rodata cannot hold 8 bytes: it has 4"
    );
}

#[test]
fn objects_that_are_no_scheduler_are_told_apart() {
    let message = |name: &str| open(name).expect_err("it is no scheduler").to_string();
    assert!(message("none").contains("has no sched_ext_ops table"));
    let two = message("two");
    assert!(two.contains("several tables of callbacks") && two.contains("one, other"), "{two}");
    let any = fairground_catalog::all()[0].parse().expect("it is an object");
    let text =
        OpenScheduler::open("text", b"not an object", &any, &kernel(&any), &[], Setup::default())
            .expect_err("it is a text")
            .to_string();
    assert!(text.starts_with("text: not a BPF object"), "{text}");
}

#[test]
fn one_of_several_schedulers_is_chosen_by_its_table() {
    let other = open_with("two", Some("other"), &[]).expect("there is one of this name");
    assert_eq!(other.title(), "the_other_one");
}

/// Tunables that are not as the source has them: the largest value of every second one, the smallest of the others.
fn changed(scheduler: &fairground_catalog::Scheduler) -> Vec<(String, Vec<u8>)> {
    let tunables = scheduler.manifest.tunables.iter().enumerate();
    let changed = tunables.map(|(number, tunable)| {
        let value = match number % 2 {
            0 => tunable.maximum,
            _ => tunable.minimum,
        };
        (tunable.name.clone(), tunable.encode(value))
    });
    changed.collect()
}

#[test]
fn libbpf_holds_what_the_simulator_begins_with() {
    for scheduler in fairground_catalog::all() {
        let object = scheduler.parse().expect("it is an object");
        let simulated = Scheduler::load_object(object.clone(), None).expect("it can be simulated");
        for (machine, tunables) in [
            ("1", Vec::new()),
            ("numa:2 l3:1 core:2 pu:2", changed(scheduler)),
            ("numa:2 l3:1 core:3 pu:1", Vec::new()),
        ] {
            let machine =
                Machine::parse(machine).unwrap_or_else(|error| panic!("{machine}: {error}"));
            let mut options = Options::new(machine, Arc::default());
            options.variables = tunables;
            let expected = simulated.prepared(&options).expect("the values fit");
            let topology = topology::variables(&options.online_at_first());
            let topology = topology.iter().map(|variable| Value {
                section: variable.section,
                name: variable.name,
                bytes: &variable.bytes,
                chosen: false,
            });
            let values: Vec<Value<'_>> =
                Value::of_tunables(&options.variables).chain(topology).collect();
            let kernel = kernel(&object);
            let opened = OpenScheduler::open(
                scheduler.id(),
                &scheduler.object,
                &object,
                &kernel,
                &values,
                Setup::default(),
            )
            .expect("libbpf takes it");
            assert_eq!(opened.title(), scheduler.id());
            for (section, bytes) in object.sections().iter().zip(&expected.sections) {
                let place = format!("{}, {}", scheduler.id(), section.name);
                assert_eq!(opened.content(&section.name).as_ref(), Some(bytes), "{place}");
            }
            for (map, entries) in object.maps().iter().zip(&expected.map_entries) {
                assert_eq!(opened.map_entries(&map.name), Some(*entries), "{}", map.name);
            }
            let table = opened.content(&expected.operations.name).expect("it is a table");
            for member in &expected.operations.members {
                let start = member.offset as usize;
                match &member.value {
                    StructOpsValue::Data(bytes) => {
                        assert_eq!(table[start..start + bytes.len()], bytes[..], "{}", member.name)
                    }
                    StructOpsValue::Program(_) => {
                        assert_ne!(table[start..start + 8], [0; 8], "{}", member.name)
                    }
                }
            }
        }
    }
}
