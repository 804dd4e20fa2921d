//! Reading scheduler objects and setting their tunables. Nothing is loaded, so no rights are needed.

use std::path::Path;

use fairground_kernel::Error;
use fairground_kernel::loader::OpenScheduler;

fn open(name: &str) -> Result<OpenScheduler, Error> {
    open_table(name, None)
}

fn open_table(name: &str, table: Option<&str>) -> Result<OpenScheduler, Error> {
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/schedulers/{name}.bpf.c"));
    let compiled = fairground_catalog::compile_source(&source, &Default::default())
        .expect("the test's scheduler compiles");
    assert_eq!(compiled.warnings, "");
    OpenScheduler::open(name, &compiled.object, table)
}

#[test]
fn the_scheduler_names_itself() {
    assert_eq!(
        open("first_come").expect("it is a scheduler").ops_name(),
        "first_come"
    );
}

#[test]
fn tunables_are_the_constants_that_are_numbers() {
    let scheduler = open("first_come").expect("it is a scheduler");
    let mut names: Vec<&str> = scheduler
        .tunables()
        .map(|tunable| tunable.name.as_str())
        .collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "die",
            "die_after",
            "flag",
            "signed_16",
            "signed_32",
            "signed_64",
            "signed_8",
            "slice_ns",
            "unsigned_16",
            "unsigned_32",
            "unsigned_8"
        ]
    );
    for (tunable, default) in [
        ("slice_ns", 5_000_000),
        ("signed_64", -5),
        ("unsigned_32", 7),
        ("signed_32", -7),
        ("unsigned_16", 9),
        ("signed_16", -9),
        ("unsigned_8", 11),
        ("signed_8", -11),
        ("flag", 1),
        ("die", 0),
    ] {
        assert_eq!(scheduler.get(tunable), Some(default), "{tunable}");
    }
}

#[test]
fn every_type_takes_its_whole_range_and_no_more() {
    let mut scheduler = open("first_come").expect("it is a scheduler");
    for (tunable, minimum, maximum) in [
        ("slice_ns", 0, i128::from(u64::MAX)),
        ("signed_64", i128::from(i64::MIN), i128::from(i64::MAX)),
        ("unsigned_32", 0, i128::from(u32::MAX)),
        ("signed_32", i128::from(i32::MIN), i128::from(i32::MAX)),
        ("unsigned_16", 0, 65_535),
        ("signed_16", -32_768, 32_767),
        ("unsigned_8", 0, 255),
        ("signed_8", -128, 127),
        ("flag", 0, 1),
    ] {
        for value in [minimum, maximum] {
            scheduler.set(tunable, value).expect("the value fits");
            assert_eq!(scheduler.get(tunable), Some(value), "{tunable}");
        }
        for value in [minimum - 1, maximum + 1] {
            let error = scheduler
                .set(tunable, value)
                .expect_err("the value does not fit");
            assert_eq!(error.exit_code(), 2);
            let message = error.to_string();
            assert!(
                message.contains(tunable) && message.contains(&format!("{minimum} to {maximum}")),
                "{message}"
            );
            assert_eq!(
                scheduler.get(tunable),
                Some(maximum),
                "{tunable} is as it was"
            );
        }
    }
    // Neighbours were not touched.
    assert_eq!(scheduler.get("die_after"), Some(1000));
}

#[test]
fn unknown_tunables_name_the_near_ones() {
    let mut scheduler = open("first_come").expect("it is a scheduler");
    let message = scheduler
        .set("slise_ns", 1)
        .expect_err("there is none")
        .to_string();
    assert!(message.contains("did you mean slice_ns"), "{message}");
    // A table is no tunable.
    assert!(scheduler.set("not_a_number", 1).is_err());
}

#[test]
fn bytes_must_fit_their_variable() {
    let mut scheduler = open("first_come").expect("it is a scheduler");
    scheduler
        .set_bytes(".rodata", "unsigned_32", &77_u32.to_le_bytes())
        .expect("they fit");
    assert_eq!(scheduler.get("unsigned_32"), Some(77));
    assert!(
        scheduler
            .set_bytes(".rodata", "unsigned_32", &[0; 8])
            .is_err()
    );
    scheduler
        .set_bytes(".rodata", "absent", &[0; 8])
        .expect("an object need not have it");
}

#[test]
fn objects_that_are_no_scheduler_are_told_apart() {
    let message = |name: &str| open(name).expect_err("it is no scheduler").to_string();
    assert!(message("none").contains("defines no scheduler"));
    let two = message("two");
    assert!(
        two.contains("several schedulers") && two.contains("one, other"),
        "{two}"
    );
    let text = OpenScheduler::open("text", b"not an object", None)
        .expect_err("it is a text")
        .to_string();
    assert!(text.starts_with("text: not a BPF object"), "{text}");
}

#[test]
fn one_of_several_schedulers_is_chosen_by_its_table() {
    let other = open_table("two", Some("other")).expect("there is one of this name");
    assert_eq!(other.ops_name(), "the_other_one");
    let none = open_table("two", Some("neither"))
        .expect_err("there is none of this name")
        .to_string();
    assert!(
        none.ends_with("the object has no neither; it has one, other"),
        "{none}"
    );
}

#[test]
fn every_scheduler_of_the_catalogue_can_be_opened_and_tuned() {
    for scheduler in fairground_catalog::all() {
        let mut opened = OpenScheduler::open(scheduler.id(), &scheduler.object, None)
            .expect("it is a scheduler");
        assert_eq!(opened.ops_name(), scheduler.id());
        for tunable in &scheduler.manifest.tunables {
            assert_eq!(
                opened.get(&tunable.name),
                Some(tunable.default),
                "{}.{}",
                scheduler.id(),
                tunable.name
            );
            opened
                .set(&tunable.name, tunable.maximum)
                .expect("the largest value fits");
            assert_eq!(opened.get(&tunable.name), Some(tunable.maximum));
        }
    }
}
