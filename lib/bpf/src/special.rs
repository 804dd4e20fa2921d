//! Fields of map values and global variables that the kernel manages: locks,
//! timers, lists, trees and kernel pointers.

use crate::btf::{Btf, TypeId, TypeKind};

/// A field that the kernel manages inside a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecialField {
    /// Its kind.
    pub kind: SpecialKind,
    /// Offset from the start of the value in bytes.
    pub offset: u64,
    /// Size in bytes.
    pub size: u64,
}

/// The kernel's data in a special field.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpecialKind {
    /// A structure that the kernel knows by name: `bpf_spin_lock`, `bpf_res_spin_lock`, `bpf_timer`, `bpf_wq`, `bpf_list_node`, `bpf_rb_node`,
    /// `bpf_refcount`, `bpf_task_work`.
    Structure(String),
    /// A `bpf_list_head` or `bpf_rb_root`.
    Collection {
        /// `bpf_list_head` or `bpf_rb_root`.
        name: String,
        /// Type of the structures in the collection.
        element: String,
        /// Name of the node field in that structure.
        node: String,
    },
    /// A pointer to a kernel object.
    Pointer {
        /// `kptr`, `kptr_untrusted`, `percpu_kptr` or `uptr`.
        tag: String,
        /// The type it points to.
        target: TypeId,
    },
}

/// Structures that the kernel knows by name.
const STRUCTURES: &[&str] = &[
    "bpf_spin_lock",
    "bpf_res_spin_lock",
    "bpf_timer",
    "bpf_wq",
    "bpf_list_node",
    "bpf_rb_node",
    "bpf_refcount",
    "bpf_task_work",
];

/// Tags of pointers that the kernel tracks.
const POINTER_TAGS: &[&str] = &["kptr", "kptr_untrusted", "percpu_kptr", "uptr"];

/// The kernel accepts no type with more fields, or levels of nesting, than this.
const FIELD_LIMIT: usize = 4096;
const DEPTH_LIMIT: usize = 16;

/// With more visited members than this, the types are considered damaged.
const STEP_LIMIT: usize = 1 << 20;

/// The fields that a walk over a type has found, and the steps that it may still take.
struct Walk {
    fields: Vec<SpecialField>,
    steps: usize,
}

impl Btf {
    /// The special fields of a value of type `id` (a structure, an array, or
    /// a data section), sorted by offset.
    pub fn special_fields(&self, id: TypeId) -> Vec<SpecialField> {
        let mut walk = Walk { fields: Vec::new(), steps: 0 };
        self.walk(id, 0, None, DEPTH_LIMIT, &mut walk);
        walk.fields.sort_by_key(|field| field.offset);
        walk.fields
    }

    /// Adds the special fields of a value at `offset`; `declaration` is the structure and member, or the variable, that holds the value.
    fn walk(
        &self,
        id: TypeId,
        offset: u64,
        declaration: Option<(TypeId, Option<u32>)>,
        depth: usize,
        walk: &mut Walk,
    ) {
        walk.steps += 1;
        if depth == 0 || walk.steps > STEP_LIMIT || walk.fields.len() >= FIELD_LIMIT {
            return;
        }
        let resolved = self.resolve(id);
        let one = self.get(resolved);
        match &one.kind {
            TypeKind::Structure { size, .. } if STRUCTURES.contains(&one.name.as_str()) => {
                walk.fields.push(SpecialField {
                    kind: SpecialKind::Structure(one.name.clone()),
                    offset,
                    size: u64::from(*size),
                });
            }
            TypeKind::Structure { size, .. }
                if one.name == "bpf_list_head" || one.name == "bpf_rb_root" =>
            {
                let contains = declaration.and_then(|(target, component)| {
                    self.declaration_tags(target, component).find_map(|tag| {
                        let (element, node) = tag.strip_prefix("contains:")?.split_once(':')?;
                        Some((element.to_owned(), node.to_owned()))
                    })
                });
                let (element, node) = contains.unwrap_or_default();
                walk.fields.push(SpecialField {
                    kind: SpecialKind::Collection { name: one.name.clone(), element, node },
                    offset,
                    size: u64::from(*size),
                });
            }
            TypeKind::Structure { members, .. } | TypeKind::Union { members, .. } => {
                for (index, member) in (0..).zip(members) {
                    let offset = offset.saturating_add(u64::from(member.bit_offset / 8));
                    let declaration = Some((resolved, Some(index)));
                    self.walk(member.type_id, offset, declaration, depth - 1, walk);
                }
            }
            TypeKind::Array { element, count } => {
                let Some(size) = self.size_of(*element) else { return };
                for index in 0..u64::from(*count) {
                    let before = walk.fields.len();
                    let offset = offset.saturating_add(index.saturating_mul(size));
                    self.walk(*element, offset, declaration, depth - 1, walk);
                    // If the first element has none, no element has any.
                    if walk.fields.len() == before || walk.fields.len() >= FIELD_LIMIT {
                        return;
                    }
                }
            }
            TypeKind::Pointer(target) => {
                if let Some(tag) = self.pointer_tag(*target) {
                    walk.fields.push(SpecialField {
                        kind: SpecialKind::Pointer {
                            tag: tag.to_owned(),
                            target: self.resolve(*target),
                        },
                        offset,
                        size: 8,
                    });
                }
            }
            TypeKind::DataSection { variables, .. } => {
                for variable in variables {
                    if let TypeKind::Variable { type_id, .. } = self.get(variable.type_id).kind {
                        let offset = u64::from(variable.offset);
                        let declaration = Some((variable.type_id, None));
                        self.walk(type_id, offset, declaration, depth - 1, walk);
                    }
                }
            }
            _ => {}
        }
    }

    fn pointer_tag(&self, mut id: TypeId) -> Option<&str> {
        for _ in 0..DEPTH_LIMIT {
            let one = self.get(id);
            match one.kind {
                TypeKind::TypeTag(_) if POINTER_TAGS.contains(&one.name.as_str()) => {
                    return Some(&one.name);
                }
                TypeKind::TypeTag(target)
                | TypeKind::Const(target)
                | TypeKind::Volatile(target)
                | TypeKind::Restrict(target) => id = target,
                _ => return None,
            }
        }
        None
    }
}
