//! The recognition tests of the schedulers, which live beside them, as one program.

/// Tests that are a line each: their names, and what they assert.
macro_rules! shows {
    ($($name:ident: $assertion:expr;)*) => {
        $(#[test]
        fn $name() {
            $assertion;
        })*
    };
}

mod mutants;
mod originals;
mod support;

#[path = "../../../schedulers/tests.rs"]
mod tests;

use std::path::Path;

#[test]
fn every_folder_with_a_manifest_is_in_the_catalogue_and_has_tests() {
    let schedulers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schedulers");
    let list = std::fs::read_to_string(schedulers.join("tests.rs")).unwrap();
    for folder in std::fs::read_dir(&schedulers).unwrap() {
        let folder = folder.unwrap();
        if !folder.path().join("scheduler.toml").is_file() {
            continue;
        }
        let id = folder.file_name().into_string().unwrap();
        assert!(list.contains(&format!("mod {id};")), "{id} has no line in schedulers/tests.rs");
        assert!(fairground_catalog::find(&id).is_ok(), "{id}");
    }
}
