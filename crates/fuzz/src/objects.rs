//! BPF objects, and files written for them.

use std::str::from_utf8;
use std::sync::OnceLock;

use fairground_bpf::{Object, TypeId};
use fairground_companion::Companion;
use fairground_machine::{Machine, Online};
use fairground_simulator::{Release, Scheduler};

use crate::check_message;

/// BPF objects with their types, translated to machine code. The code is not run.
pub fn object(bytes: &[u8]) {
    match Object::parse(bytes) {
        Ok(object) => visit(&object),
        Err(error) => return check_message(&error.to_string()),
    }
    if let Err(error) = Scheduler::load(bytes) {
        check_message(&error.to_string());
    }
}

/// Reads everything that an object says about itself.
fn visit(object: &Object) {
    let btf = object.btf();
    let kept = |type_id: Option<TypeId>| {
        if let Some(type_id) = type_id {
            let _ = btf.special_fields(type_id);
        }
    };
    for section in object.sections() {
        assert!(
            section.data.len() as u64 <= section.size,
            "{} holds more than its size",
            section.name
        );
        kept(section.type_id);
    }
    for map in object.maps() {
        kept(map.value_type);
    }
    assert_eq!(object.slots().len(), object.maps().len() + object.sections().len());
}

/// Companion files, prepared for an object with maps, variables and programs on a small machine.
pub fn companion(bytes: &[u8]) {
    static OBJECT: OnceLock<Object> = OnceLock::new();
    let Ok(text) = from_utf8(bytes) else { return };
    let object = OBJECT.get_or_init(|| {
        let scheduler = fairground_catalog::find("cfs").expect("cfs is built in");
        Object::parse(&scheduler.object).expect("its object is sound")
    });
    let machine = Machine::parse("numa:2 core:2 pu:2").expect("the description is sound");
    let companion = match Companion::parse("fuzz.toml", text) {
        Ok(companion) => companion,
        Err(error) => return check_message(&error.to_string()),
    };
    let constant = |name: &str| Scheduler::constant(name, Release::NEWEST);
    if let Err(error) = companion.prepare(object, &constant, &Online::whole(&machine), &[]) {
        check_message(&error.to_string());
    }
}
