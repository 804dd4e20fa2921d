//! The tables of the features of Linux releases, beside the types of the kernels that the testbench boots.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use fairground_bpf::{Btf, TypeKind};
use fairground_linux::{CID_FORM, CPU_FORM, Release, functions, members, variables};
use object::{Object as _, ObjectSection as _};

use crate::constants::{ENUMERATORS, Enumerator};
use crate::structures::STRUCTURES;

/// A kernel's release and types.
struct Kernel {
    release: Release,
    types: Btf,
}

/// The kernels in the testbench's folder.
fn kernels() -> Vec<Kernel> {
    let usual = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/testbench");
    let folder = std::env::var_os("FAIRGROUND_TESTBENCH").map_or_else(usual, PathBuf::from);
    let images = ["kernel", "kernel-oldest"].map(|name| {
        let modules = folder.join(name).join("usr/lib/modules");
        let mut found = std::fs::read_dir(&modules).expect("scripts/install test gets the kernels");
        found.next().expect("a kernel").expect("readable").path()
    });
    images.map(|image| kernel(&image)).into()
}

fn kernel(folder: &Path) -> Kernel {
    let name = folder.file_name().expect("a release").to_string_lossy();
    let mut numbers = name.split('.');
    let mut next = || numbers.next().expect("two numbers");
    let release = format!("{}.{}", next(), next());
    let packed = std::fs::read(folder.join("vmlinuz")).expect("an image");
    let magic = [0x28, 0xb5, 0x2f, 0xfd];
    let start = packed.windows(4).position(|four| four == magic);
    let start = start.expect("the kernel is packed with zstd");
    let mut unpacked = Vec::new();
    let decoder = zstd::Decoder::new(&packed[start..]).expect("a stream");
    let mut decoder = decoder.single_frame();
    decoder.read_to_end(&mut unpacked).expect("a whole stream");
    let elf = object::File::parse(&*unpacked).expect("an ELF file");
    let section = elf.section_by_name(".BTF").expect("types");
    Kernel {
        release: release.parse().expect("a release with a table"),
        types: Btf::parse(section.data().expect("bytes")).expect("types"),
    }
}

/// Names that are in one set only, with the set that has them.
fn differences<'n>(told: &BTreeSet<&'n str>, there: &BTreeSet<&'n str>) -> Vec<String> {
    let invented = told.difference(there).map(|name| format!("only told: {name}"));
    let forgotten = there.difference(told).map(|name| format!("not told: {name}"));
    invented.chain(forgotten).collect()
}

#[test]
#[ignore = "needs the kernels of the testbench; `testbench/run` runs it"]
fn functions_and_variables_are_those_of_the_kernels() {
    for Kernel { release, types } in kernels() {
        let told = functions().filter(|one| one.releases.contains(release));
        let told = told.map(|one| one.name).collect();
        let tagged = types.types().iter().filter_map(|one| match one.kind {
            TypeKind::DeclarationTag { target, .. } if one.name == "bpf_kfunc" => {
                Some(types.get(target).name.as_str())
            }
            _ => None,
        });
        let none: Vec<String> = Vec::new();
        assert_eq!(differences(&told, &tagged.collect()), none, "{release}");
        if release == Release::NEWEST {
            let all = types.types().iter();
            let there = all.filter(|one| matches!(one.kind, TypeKind::Variable { .. }));
            let there = there.map(|one| one.name.as_str()).collect();
            assert_eq!(differences(&variables().collect(), &there), none);
        }
    }
}

/// The names of a structure's fields, those of anonymous members in their places.
fn fields<'t>(types: &'t Btf, structure: &str) -> BTreeSet<&'t str> {
    let mut wanted: Vec<u32> = types.find(structure).into_iter().collect();
    let mut names = BTreeSet::new();
    while let Some(id) = wanted.pop() {
        if let TypeKind::Structure { members, .. } | TypeKind::Union { members, .. } =
            types.resolved(id)
        {
            for member in members {
                match member.name.as_str() {
                    "" => wanted.push(member.type_id),
                    name => _ = names.insert(name),
                }
            }
        }
    }
    names
}

#[test]
#[ignore = "needs the kernels of the testbench; `testbench/run` runs it"]
fn callbacks_and_settings_are_those_of_the_kernels() {
    for Kernel { release, types } in kernels() {
        for (structure, cid_form) in [(CPU_FORM, false), (CID_FORM, true)] {
            let told = members().filter(|one| one.is_in(cid_form, release));
            let told = told.map(|one| if cid_form { one.cid_name } else { one.name });
            let mut there = fields(&types, structure);
            there.remove("__end");
            let differences = differences(&told.collect(), &there);
            assert_eq!(differences, Vec::<String>::new(), "{structure} of {release}");
        }
    }
}

#[test]
#[ignore = "needs the kernels of the testbench; `testbench/run` runs it"]
fn fields_are_those_of_the_kernels() {
    for Kernel { release, types } in kernels() {
        let mut wrong = Vec::new();
        // Programs do not see into iterators, and kernels do not tell their contents.
        for structure in STRUCTURES.iter().filter(|one| !one.name.starts_with("bpf_iter_")) {
            let there = fields(&types, structure.name);
            let is_told = structure.releases.contains(release);
            if is_told != types.find(structure.name).is_some() {
                wrong.push(format!("{}: told {is_told}", structure.name));
            }
            for field in structure.fields.iter().filter(|_| is_told) {
                let name = field.name.strip_suffix('_').unwrap_or(field.name);
                let is_told = field.releases.contains(release);
                if is_told != there.contains(name) {
                    wrong.push(format!("{}.{name}: told {is_told}", structure.name));
                }
            }
        }
        assert_eq!(wrong, Vec::<String>::new(), "{release}");
    }
}

/// Constants of the states of tasks, which older releases number otherwise.
const STATES: [&str; 4] =
    ["SCX_TASK_STATE_MASK", "SCX_TASK_INIT", "SCX_TASK_READY", "SCX_TASK_ENABLED"];

#[test]
#[ignore = "needs the kernels of the testbench; `testbench/run` runs it"]
fn constants_are_those_of_the_kernels() {
    for Kernel { release, types } in kernels() {
        let enumerations = types.types().iter().filter_map(|one| match &one.kind {
            TypeKind::Enumeration { enumerators, .. } => Some(enumerators),
            _ => None,
        });
        let there: BTreeMap<&str, u64> =
            enumerations.flatten().map(|(name, value)| (name.as_str(), *value)).collect();
        // Others are macros, of which types know nothing. States are kept and told in the numbers of 7.3.
        let is_compared =
            |one: &&Enumerator| one.name.starts_with("SCX_") && !STATES.contains(&one.name);
        let differs = |one: &&Enumerator| one.value(release) != there.get(one.name).copied();
        let wrong = ENUMERATORS.iter().filter(is_compared).filter(differs);
        let wrong: Vec<String> = wrong
            .map(|one| {
                let told = one.value(release);
                format!("{}: told {told:?}, there {:?}", one.name, there.get(one.name))
            })
            .collect();
        assert_eq!(wrong, Vec::<String>::new(), "{release}");
    }
}
