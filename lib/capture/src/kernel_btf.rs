//! The kernel types that loaders see.
//!
//! They are the types that the scheduler's own object was compiled with, so that everything that libbpf looks up fits. Hidden are the
//! kernel functions that the simulated kernel does not have, and the variants of a type under other names (`task_struct___old`). Added are
//! the parts of a kernel's types that an object lacks: the kernel's table of callbacks, all constants, and the places that programs of
//! other kinds attach to.

use fairground_bpf::{Object, TypeId, TypeKind};
use object::{Object as _, ObjectSection as _};

use crate::KernelFacts;
use crate::error::Error;

/// Where the kernel keeps the table, after its own members.
pub(crate) const TABLE_OFFSET: usize = 64;

const HEADER: usize = 24;

/// Enumerations by the prefixes of their constants' names; the first match counts.
const ENUMERATIONS: [(&str, &[&str]); 18] = [
    ("scx_public_consts", &["SCX_OPS_NAME_LEN", "SCX_SLICE_", "SCX_CPUPERF_"]),
    ("scx_consts", &["SCX_DSP_", "SCX_EXIT_DUMP_", "SCX_EXIT_MSG_", "SCX_WATCHDOG_"]),
    ("scx_ops_flags", &["SCX_OPS_"]),
    ("scx_ops_state", &["SCX_OPSS_"]),
    (
        "scx_dsq_id_flags",
        &["SCX_DSQ_FLAG_", "SCX_DSQ_INVALID", "SCX_DSQ_GLOBAL", "SCX_DSQ_LOCAL", "SCX_DSQ_BYPASS"],
    ),
    ("scx_dsq_iter_flags", &["SCX_DSQ_ITER_"]),
    ("scx_ent_dsq_flags", &["SCX_TASK_DSQ_"]),
    ("scx_ent_flags", &["SCX_TASK_"]),
    ("scx_wake_flags", &["SCX_WAKE_"]),
    ("scx_enq_flags", &["SCX_ENQ_"]),
    ("scx_deq_flags", &["SCX_DEQ_"]),
    ("scx_reenq_flags", &["SCX_REENQ_"]),
    ("scx_pick_idle_cpu_flags", &["SCX_PICK_IDLE_"]),
    ("scx_kick_flags", &["SCX_KICK_"]),
    ("scx_exit_kind", &["SCX_EXIT_"]),
    ("scx_exit_code", &["SCX_ECODE_"]),
    ("scx_cpu_preempt_reason", &["SCX_CPU_PREEMPT_"]),
    ("scx_rq_flags", &["SCX_RQ_"]),
];

/// Types and names to add to those of an object.
struct Added {
    types: Vec<u8>,
    strings: Vec<u8>,
    next: TypeId,
    first_string: u32,
}

impl Added {
    fn name(&mut self, name: &str) -> u32 {
        let offset = self.first_string + self.strings.len() as u32;
        self.strings.extend_from_slice(name.as_bytes());
        self.strings.push(0);
        offset
    }

    /// Adds a type; its `words` come after the name, the kind and the size or type.
    fn add(
        &mut self,
        name: &str,
        kind: u32,
        count: u32,
        size_or_type: u32,
        words: &[u32],
    ) -> TypeId {
        let name = if name.is_empty() { 0 } else { self.name(name) };
        for word in [name, kind << 24 | count, size_or_type].iter().chain(words) {
            self.types.extend_from_slice(&word.to_le_bytes());
        }
        self.next += 1;
        self.next - 1
    }
}

/// The contents of `/sys/kernel/btf/vmlinux`.
pub(crate) fn generate(
    bytes: &[u8],
    object: &Object,
    kernel: &dyn KernelFacts,
) -> Result<Vec<u8>, Error> {
    let wrong = |message: &str| Error::Object {
        path: "the loader's object".into(),
        message: message.to_owned(),
    };
    let elf = object::File::parse(bytes).map_err(|error| wrong(&error.to_string()))?;
    let section = elf.section_by_name(".BTF").ok_or_else(|| wrong("no section .BTF"))?;
    let section = section.data().map_err(|error| wrong(&error.to_string()))?;
    let word = |at: usize| -> Result<usize, Error> {
        let bytes = section.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        let bytes = bytes.ok_or_else(|| wrong("section .BTF is too short"))?;
        Ok(u32::from_le_bytes(bytes) as usize)
    };
    let (header, types, types_length) = (word(4)?, word(8)?, word(12)?);
    let (strings, strings_length) = (word(16)?, word(20)?);
    let part = |offset: usize, length: usize| {
        section
            .get(header + offset..header + offset + length)
            .ok_or_else(|| wrong("section .BTF is cut off"))
    };
    let mut all_types = part(types, types_length)?.to_vec();
    let mut all_strings = part(strings, strings_length)?.to_vec();

    let mut added = Added {
        types: Vec::new(),
        strings: Vec::new(),
        next: object.btf().types().len() as TypeId,
        first_string: all_strings.len() as u32,
    };
    hide_what_is_not_there(&mut all_types, object, kernel, &mut added);
    add_table(object, &mut added).ok_or_else(|| wrong("it has no sched_ext_ops table"))?;
    add_constants(kernel, &mut added);
    add_targets(object, &mut added);

    all_types.extend(added.types);
    all_strings.extend(added.strings);
    let mut result = Vec::with_capacity(HEADER + all_types.len() + all_strings.len());
    result.extend_from_slice(&[0x9f, 0xeb, 1, 0]);
    let (types_length, strings_length) = (all_types.len() as u32, all_strings.len() as u32);
    for word in [HEADER as u32, 0, types_length, types_length, strings_length] {
        result.extend_from_slice(&word.to_le_bytes());
    }
    result.extend(all_types);
    result.extend(all_strings);
    Ok(result)
}

/// Whether this is the object's name for a variant of a kernel type: the kernel has no type of such a name.
fn is_flavor(kind: &TypeKind, name: &str) -> bool {
    let may_be = matches!(
        kind,
        TypeKind::Structure { .. }
            | TypeKind::Union { .. }
            | TypeKind::Enumeration { .. }
            | TypeKind::Typedef(_)
    );
    may_be && name.contains("___")
}

/// Renames the kernel functions that the simulated kernel lacks, and the types that no kernel has, so that nothing finds them.
fn hide_what_is_not_there(
    types: &mut [u8],
    object: &Object,
    kernel: &dyn KernelFacts,
    added: &mut Added,
) {
    let lacking: Vec<&str> = object
        .externs()
        .iter()
        .filter(|one| matches!(one.kind, fairground_bpf::ExternKind::Function { .. }))
        .filter(|one| !kernel.has_function(one.essential_name()))
        .map(|one| one.name.as_str())
        .collect();
    let hidden = added.name("not_in_this_kernel");
    let mut at = 0;
    for one in object.btf().types().iter().skip(1) {
        let Some(info) = types.get(at + 4..at + 8) else { return };
        let info = u32::from_le_bytes([info[0], info[1], info[2], info[3]]);
        let is_lacking =
            matches!(one.kind, TypeKind::Function { .. }) && lacking.contains(&one.name.as_str());
        if is_lacking || is_flavor(&one.kind, &one.name) {
            types[at..at + 4].copy_from_slice(&hidden.to_le_bytes());
        }
        let count = (info & 0xffff) as usize;
        at += 12
            + match (info >> 24) & 0x1f {
                1 | 14 | 17 => 4,
                3 => 12,
                4 | 5 | 15 | 19 => 12 * count,
                6 | 13 => 8 * count,
                _ => 0,
            };
    }
}

/// `struct bpf_struct_ops_sched_ext_ops`.
fn add_table(object: &Object, added: &mut Added) -> Option<TypeId> {
    let btf = object.btf();
    let table = btf.types().iter().position(|one| {
        one.name == "sched_ext_ops" && matches!(one.kind, TypeKind::Structure { .. })
    })?;
    let size = btf.size_of(table as TypeId)? as usize;
    let data = added.name("data");
    let words = [data, table as u32, 8 * TABLE_OFFSET as u32];
    let size = (TABLE_OFFSET + size).next_multiple_of(64) as u32;
    Some(added.add("bpf_struct_ops_sched_ext_ops", 4, 1, size, &words))
}

fn add_constants(kernel: &dyn KernelFacts, added: &mut Added) {
    let constants = kernel.constants();
    for (number, (enumeration, _)) in ENUMERATIONS.iter().enumerate() {
        let belongs = |name: &str| {
            let first = ENUMERATIONS
                .iter()
                .position(|(_, beginnings)| beginnings.iter().any(|one| name.starts_with(one)));
            first == Some(number)
        };
        let members: Vec<_> = constants.iter().filter(|(name, _)| belongs(name)).collect();
        let mut words = Vec::new();
        for (name, value) in &members {
            words.extend([added.name(name), *value as u32, (*value >> 32) as u32]);
        }
        // BTF_KIND_ENUM64
        added.add(enumeration, 19, members.len() as u32, 8, &words);
    }
}

/// Adds the attachment points of programs that are not callbacks.
fn add_targets(object: &Object, added: &mut Added) {
    for program in object.programs() {
        let Some((kind, target)) = program.section.split_once('/') else { continue };
        let target = target.trim_end_matches('?');
        match kind.trim_end_matches(".s") {
            "tp_btf" => {
                let prototype = added.add("", 13, 0, 0, &[]);
                let pointer = added.add("", 2, 0, prototype, &[]);
                added.add(&format!("btf_trace_{target}"), 8, 0, pointer, &[]);
            }
            kind @ ("fentry" | "fexit" | "iter") => {
                let prefix = if kind == "iter" { "bpf_iter_" } else { "" };
                let prototype = added.add("", 13, 0, 0, &[]);
                added.add(&format!("{prefix}{target}"), 12, 0, prototype, &[]);
            }
            _ => {}
        }
    }
}
