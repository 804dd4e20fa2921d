//! The contents that are found in an object: maps, variables, tables of callbacks.

mod common;

use common::{Kernel, Run, compiled, parse};
use fairground_bpf::{
    InitialValue, Map, Object, Section, Slot, SpecialKind, StructOpsValue, VariableKind,
};

fn object() -> Object {
    parse("contents.bpf.c")
}

fn map<'a>(object: &'a Object, name: &str) -> &'a Map {
    object.maps().iter().find(|map| map.name == name).unwrap_or_else(|| panic!("map {name}"))
}

fn section<'a>(object: &'a Object, name: &str) -> &'a Section {
    let found = object.sections().iter().find(|one| one.name == name);
    found.unwrap_or_else(|| panic!("section {name}"))
}

#[test]
fn maps_have_their_sizes_and_flags() {
    let object = object();
    let array = map(&object, "array");
    assert_eq!((array.kind, array.max_entries), (2, 16));
    assert_eq!((array.key_size, array.value_size), (4, 64));
    let value = array.value_type.expect("a value type");
    assert_eq!(object.btf().get(value).name, "value");
    let arena = map(&object, "arena");
    assert_eq!((arena.kind, arena.flags), (33, 1 << 10));
    assert_eq!(arena.map_extra, 0x1000_0000_0000);
    assert_eq!((arena.key_size, arena.value_size), (0, 0));
    let queue = map(&object, "queue");
    assert_eq!((queue.value_size, queue.value_type), (4, None));
    assert_eq!((queue.numa_node, queue.pinning), (Some(1), 1));
}

#[test]
fn maps_of_maps_know_what_is_inside() {
    let object = object();
    let outer = map(&object, "outer");
    let inner = outer.inner.as_ref().expect("an inner map");
    assert_eq!((inner.kind, inner.max_entries, inner.value_size), (22, 8, 8));
    let index = |name: &str| {
        let found = object.maps().iter().position(|map| map.name == name);
        InitialValue::Map(found.expect("a map"))
    };
    assert_eq!(outer.initial, [(1, index("first")), (3, index("second"))]);
    let programs = map(&object, "programs");
    assert!(programs.inner.is_none());
    let callee = InitialValue::Program("callee".to_owned());
    assert_eq!(programs.initial, [(1, callee)]);
}

#[test]
fn special_fields_are_found_in_values_and_sections() {
    let object = object();
    let btf = object.btf();
    let value = map(&object, "array").value_type.expect("a value type");
    let fields = btf.special_fields(value);
    let structure = |name: &str| SpecialKind::Structure(name.to_owned());
    assert_eq!(fields.len(), 5);
    assert_eq!(fields[0].kind, structure("bpf_spin_lock"));
    assert_eq!((fields[0].offset, fields[0].size), (4, 4));
    assert_eq!(fields[1].kind, structure("bpf_timer"));
    assert_eq!((fields[1].offset, fields[1].size), (8, 16));
    assert_eq!((fields[2].offset, fields[2].size), (24, 16));
    let SpecialKind::Pointer { tag, target } = &fields[3].kind else {
        panic!("{:?}", fields[3]);
    };
    assert_eq!((tag.as_str(), fields[3].offset), ("kptr", 40));
    assert_eq!(btf.get(*target).name, "task_struct");
    let collection = |name: &str| SpecialKind::Collection {
        name: name.to_owned(),
        element: "element".to_owned(),
        node: "node".to_owned(),
    };
    assert_eq!(fields[4].kind, collection("bpf_list_head"));
    assert_eq!((fields[4].offset, fields[4].size), (48, 16));

    let private = section(&object, ".bss.LOCK");
    let fields = btf.special_fields(private.type_id.expect("a type"));
    let mut places: Vec<_> = fields.into_iter().map(|one| (one.offset, one.kind)).collect();
    places.sort_by_key(|place| place.0);
    assert_eq!(places, [(0, structure("bpf_spin_lock")), (8, collection("bpf_rb_root"))]);
}

#[test]
fn variables_have_kinds_and_initial_values() {
    let object = object();
    let rodata = section(&object, ".rodata");
    let find = |name: &str| {
        let found = rodata.variables.iter().find(|one| one.name == name);
        let one = found.unwrap_or_else(|| panic!("variable {name}"));
        let bytes = &rodata.data[one.offset as usize..][..one.size as usize];
        (one.kind, one.tunable, bytes.to_vec())
    };
    let unsigned = VariableKind::Integer { signed: false };
    let signed = VariableKind::Integer { signed: true };
    assert_eq!(find("tunable_u32"), (unsigned, true, 5_u32.to_le_bytes().to_vec()));
    assert_eq!(find("tunable_s64"), (signed, true, (-5_i64).to_le_bytes().to_vec()));
    assert_eq!(find("tunable_bool"), (VariableKind::Boolean, true, vec![1]));
    let choice = VariableKind::Enumeration { signed: false };
    assert_eq!(find("tunable_choice"), (choice, true, vec![1, 0, 0, 0]));
    let array = VariableKind::Array;
    assert_eq!(find("tunable_array"), (array, true, vec![1, 0, 2, 0, 3, 0]));
    assert_eq!(find("tunable_text"), (array, true, b"abc\0\0\0\0\0".to_vec()));
    assert_eq!(find("constant"), (unsigned, false, 9_u32.to_le_bytes().to_vec()));
    assert_eq!(section(&object, ".data.other").data, 12_u64.to_le_bytes());
    let bss = section(&object, ".bss");
    assert_eq!((bss.size, bss.data.len()), (40, 0));
    assert_eq!(bss.variables[0].name, "zeroed");
    let arena = section(&object, ".addr_space.1");
    assert_eq!(arena.variables[0].name, "arena_variable");
    assert_eq!(arena.data, 5_u64.to_le_bytes());
    assert_eq!(object.license(), "Dual BSD/GPL");
}

#[test]
fn code_finds_maps_and_variables_in_its_slots() {
    let (object, code) = compiled("contents.bpf.c", &Kernel::default());
    let mut run = Run::new(&object);
    let mut arguments = [0_u64; 16];
    let result = run.call_with(&code, "addresses", [arguments.as_mut_ptr() as u64, 0, 0, 0, 0]);
    assert_eq!(result as i32, -3);
    let slots = object.slots();
    let address = |wanted: Slot| {
        let slot = slots.iter().position(|&slot| slot == wanted);
        run.memory[slot.expect("a slot")].as_ptr() as u64
    };
    let map_address = |name: &str| {
        let index = object.maps().iter().position(|map| map.name == name);
        address(Slot::Map(index.expect("a map")))
    };
    let variable_address = |name: &str| {
        let sections = object.sections().iter().enumerate();
        for (index, section) in sections {
            if let Some(one) = section.variables.iter().find(|one| one.name == name) {
                return address(Slot::Section(index)) + one.offset;
            }
        }
        panic!("variable {name}");
    };
    for (index, name) in ["array", "arena", "queue", "outer", "programs"].into_iter().enumerate() {
        assert_eq!(arguments[index], map_address(name), "{name}");
    }
    assert_eq!(arguments[5], variable_address("zeroed") + 16);
    assert_eq!(arguments[6], variable_address("separate"));
    assert_eq!(arguments[7], variable_address("lock"));
    assert_eq!(arguments[8], variable_address("root"));
    assert_eq!(arguments[9], map_address("first"));
    assert_eq!(arguments[10], map_address("second"));
    assert_eq!(run.call(&code, "callee", &[1]), 9 + u64::from(b'b'));
}

#[test]
fn tables_of_callbacks_name_their_programs() {
    let object = object();
    let [ops, spare] = object.struct_ops() else { panic!("{:?}", object.struct_ops()) };
    assert_eq!((ops.name.as_str(), ops.type_name.as_str()), ("ops", "sched_ext_ops"));
    assert!(ops.link && !ops.optional);
    assert!(!spare.link && spare.optional);
    let value = |name: &str| {
        let found = ops.members.iter().find(|member| member.name == name);
        &found.unwrap_or_else(|| panic!("member {name}")).value
    };
    let program = |name: &str| StructOpsValue::Program(name.to_owned());
    assert_eq!(*value("enqueue"), program("on_enqueue"));
    assert_eq!(*value("dequeue"), program("on_dequeue"));
    assert_eq!(*value("unused"), StructOpsValue::Data(vec![0; 8]));
    let timeout = 5000_u32.to_le_bytes().to_vec();
    assert_eq!(*value("timeout_ms"), StructOpsValue::Data(timeout));
    let name = b"fixture\0\0\0\0\0\0\0\0\0".to_vec();
    assert_eq!(*value("name"), StructOpsValue::Data(name));
    // A program is loaded when a table that is created refers to it.
    let autoload = |name: &str| {
        let found = object.programs().iter().find(|one| one.name == name);
        found.unwrap_or_else(|| panic!("program {name}")).autoload
    };
    assert!(autoload("on_enqueue"));
    assert!(autoload("on_dequeue"));
    assert!(!autoload("on_unwanted"));
}
