//! Objects that schedulers allocate, and the lists and trees they keep them in.

use super::kernel_functions;
use crate::kernel::Kernel;

/// Memory that a scheduler has allocated with `bpf_obj_new`.
#[derive(Default)]
pub struct Objects {
    objects: Vec<Box<[u64]>>,
    /// Nodes of each tree in order, by number.
    trees: Vec<Vec<u64>>,
    /// Nodes of each list in order, by number.
    lists: Vec<std::collections::VecDeque<u64>>,
}

impl Kernel<'_> {
    fn new_object(&mut self, type_id: u64) -> u64 {
        let size = self.scheduler.type_size(type_id as u32).unwrap_or(0);
        let mut object = vec![0u64; size.div_ceil(8) as usize].into_boxed_slice();
        let address = object.as_mut_ptr() as u64;
        self.objects.objects.push(object);
        address
    }

    fn drop_object(&mut self, address: u64) {
        self.objects
            .objects
            .retain(|object| object.as_ptr() as u64 != address);
    }

    /// The tree whose root is at `root`; a root's first word holds the number of its tree, plus one.
    fn tree(&mut self, root: u64) -> &mut Vec<u64> {
        // SAFETY: the scheduler passes the root, two words long, in one of its maps or globals.
        let word = unsafe { &mut *(root as *mut u64) };
        if *word == 0 {
            self.objects.trees.push(Vec::new());
            *word = self.objects.trees.len() as u64;
        }
        let number = *word as usize - 1;
        &mut self.objects.trees[number]
    }

    fn list(&mut self, head: u64) -> &mut std::collections::VecDeque<u64> {
        // SAFETY: as for trees.
        let word = unsafe { &mut *(head as *mut u64) };
        if *word == 0 {
            self.objects.lists.push(std::collections::VecDeque::new());
            *word = self.objects.lists.len() as u64;
        }
        let number = *word as usize - 1;
        &mut self.objects.lists[number]
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

    fn bpf_refcount_acquire_impl(kernel, address, meta) { address }

    fn bpf_rbtree_add_impl(kernel, root, node, less) {
        // SAFETY: the verifier knows the callback by its type: (node, node) -> bool.
        let less: fairground_bpf::Entry = unsafe { std::mem::transmute(less as *const u8) };
        let nodes = kernel.tree(root).clone();
        let position = nodes.partition_point(|other| {
            // A node goes after those it is not less than.
            kernel.call_function(less, [node, *other, 0, 0, 0]) as u8 == 0
        });
        kernel.tree(root).insert(position, node);
        0
    }

    fn bpf_rbtree_remove(kernel, root, node) {
        let tree = kernel.tree(root);
        match tree.iter().position(|other| *other == node) {
            Some(position) => tree.remove(position),
            None => 0,
        }
    }

    fn bpf_rbtree_first(kernel, root) { kernel.tree(root).first().copied().unwrap_or(0) }

    fn bpf_list_push_front_impl(kernel, head, node) {
        kernel.list(head).push_front(node);
        0
    }

    fn bpf_list_push_back_impl(kernel, head, node) {
        kernel.list(head).push_back(node);
        0
    }

    fn bpf_list_pop_front(kernel, head) { kernel.list(head).pop_front().unwrap_or(0) }
    fn bpf_list_pop_back(kernel, head) { kernel.list(head).pop_back().unwrap_or(0) }
    fn bpf_list_front(kernel, head) { kernel.list(head).front().copied().unwrap_or(0) }
    fn bpf_list_back(kernel, head) { kernel.list(head).back().copied().unwrap_or(0) }
}
