//! Objects that schedulers allocate, and the lists and trees they keep them in.

use std::collections::VecDeque;

use indexmap::IndexMap;

use super::{error, kernel_functions};
use crate::constants::{EINVAL, ExitKind};
use crate::dsq_table::FixedState;
use crate::kernel::Kernel;

/// Memory that a scheduler has allocated with `bpf_obj_new`.
#[derive(Default)]
pub struct Objects {
    objects: IndexMap<u64, Object, FixedState>,
    /// Nodes of each tree in order, by number.
    trees: Vec<Vec<u64>>,
    /// Nodes of each list in order, by number.
    lists: Vec<VecDeque<u64>>,
}

struct Object {
    memory: Box<[u64]>,
    references: u32,
}

impl Kernel<'_> {
    fn new_object(&mut self, type_id: u64) -> u64 {
        let size = self.scheduler.type_size(type_id as u32).unwrap_or(0);
        let mut object = vec![0u64; size.div_ceil(8) as usize].into_boxed_slice();
        let address = object.as_mut_ptr() as u64;
        let object = Object {
            memory: object,
            references: 1,
        };
        self.objects.objects.insert(address, object);
        address
    }

    /// Whether the scheduler has allocated what is at `address`. Such objects are not followed: lists and trees know them by other
    /// addresses.
    pub(super) fn is_object(&self, address: u64) -> bool {
        self.objects.objects.contains_key(&address)
    }

    fn drop_object(&mut self, address: u64) {
        let Some(object) = self.objects.objects.get_mut(&address) else {
            return;
        };
        object.references -= 1;
        if object.references == 0 {
            let object = self.objects.objects.swap_remove(&address);
            self.retire(object.map(|object| object.memory));
        }
    }

    /// The tree whose root is at `root`; a root's first word holds the number of its tree, plus one. `None`, and the end of the
    /// scheduler, if something else is there.
    fn tree(&mut self, root: u64) -> Option<&mut Vec<u64>> {
        // SAFETY: the scheduler passes the root, two words long, in one of its maps or globals.
        let word = unsafe { &mut *(root as *mut u64) };
        if *word == 0 {
            self.objects.trees.push(Vec::new());
            *word = self.objects.trees.len() as u64;
        }
        let number = *word as usize - 1;
        if number >= self.objects.trees.len() {
            self.fail(
                ExitKind::Error,
                "there is no bpf_rb_root where one was passed".into(),
            );
        }
        self.objects.trees.get_mut(number)
    }

    fn list(&mut self, head: u64) -> Option<&mut VecDeque<u64>> {
        // SAFETY: as for trees.
        let word = unsafe { &mut *(head as *mut u64) };
        if *word == 0 {
            self.objects.lists.push(VecDeque::new());
            *word = self.objects.lists.len() as u64;
        }
        let number = *word as usize - 1;
        if number >= self.objects.lists.len() {
            self.fail(
                ExitKind::Error,
                "there is no bpf_list_head where one was passed".into(),
            );
        }
        self.objects.lists.get_mut(number)
    }
}

kernel_functions! { TABLE;
    fn bpf_obj_new_impl(kernel, type_id, meta) { kernel.new_object(type_id) }
    fn bpf_obj_new(kernel, type_id, meta) { kernel.new_object(type_id) }

    fn bpf_obj_drop_impl(kernel, address, meta) {
        kernel.drop_object(address);
        0
    }

    fn bpf_obj_drop(kernel, address, meta) {
        kernel.drop_object(address);
        0
    }

    fn bpf_refcount_acquire_impl(kernel, address, meta) {
        let Some(object) = kernel.objects.objects.get_mut(&address) else { return 0 };
        object.references += 1;
        address
    }

    fn bpf_rbtree_add_impl(kernel, root, node, less) {
        // SAFETY: the verifier knows the callback by its type: (node, node) -> bool.
        let less: fairground_bpf::Entry = unsafe { std::mem::transmute(less as *const u8) };
        let Some(nodes) = kernel.tree(root).cloned() else { return error(EINVAL) };
        let position = nodes.partition_point(|other| {
            // A node goes after those it is not less than.
            kernel.call_function(less, [node, *other, 0, 0, 0]) as u8 == 0
        });
        let Some(tree) = kernel.tree(root) else { return error(EINVAL) };
        // What compares may have changed the tree.
        tree.insert(position.min(tree.len()), node);
        0
    }

    fn bpf_rbtree_remove(kernel, root, node) {
        let Some(tree) = kernel.tree(root) else { return 0 };
        match tree.iter().position(|other| *other == node) {
            Some(position) => tree.remove(position),
            None => 0,
        }
    }

    fn bpf_rbtree_first(kernel, root) {
        kernel.tree(root).and_then(|tree| tree.first().copied()).unwrap_or(0)
    }

    fn bpf_list_push_front_impl(kernel, head, node) {
        let Some(list) = kernel.list(head) else { return error(EINVAL) };
        list.push_front(node);
        0
    }

    fn bpf_list_push_back_impl(kernel, head, node) {
        let Some(list) = kernel.list(head) else { return error(EINVAL) };
        list.push_back(node);
        0
    }

    fn bpf_list_pop_front(kernel, head) { kernel.list(head).and_then(VecDeque::pop_front).unwrap_or(0) }
    fn bpf_list_pop_back(kernel, head) { kernel.list(head).and_then(VecDeque::pop_back).unwrap_or(0) }
    fn bpf_list_front(kernel, head) {
        kernel.list(head).and_then(|list| list.front().copied()).unwrap_or(0)
    }
    fn bpf_list_back(kernel, head) {
        kernel.list(head).and_then(|list| list.back().copied()).unwrap_or(0)
    }
}
