//! Objects that schedulers allocate, and the lists and trees they keep them in.

use std::cmp::Ordering;
use std::collections::VecDeque;

use indexmap::IndexMap;

use super::passed::{load, store};
use super::{error, kernel_functions};
use crate::constants::EINVAL;
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
        let object = Object { memory: object, references: 1 };
        self.made.objects.objects.insert(address, object);
        address
    }

    /// Whether the scheduler allocated the object at `address`. Such objects are not tracked: lists and trees know them by other addresses.
    pub(super) fn is_object(&self, address: u64) -> bool {
        self.made.objects.objects.contains_key(&address)
    }

    fn drop_object(&mut self, address: u64) {
        let Some(object) = self.made.objects.objects.get_mut(&address) else {
            return;
        };
        object.references -= 1;
        if object.references == 0 {
            let object = self.made.objects.objects.swap_remove(&address);
            self.retire(object.map(|object| object.memory));
        }
    }

    /// The tree whose root is at `root`; the first word of a root holds the number of its tree plus one. If something else is there, ejects the
    /// scheduler and returns `None`.
    fn tree(&mut self, root: u64) -> Option<&mut Vec<u64>> {
        if load::<u64>(root) == 0 {
            self.made.objects.trees.push(Vec::new());
            store(root, self.made.objects.trees.len() as u64);
        }
        let number = load::<u64>(root) as usize - 1;
        if number >= self.made.objects.trees.len() {
            self.refuse_passed("bpf_rb_root");
        }
        self.made.objects.trees.get_mut(number)
    }

    fn list(&mut self, head: u64) -> Option<&mut VecDeque<u64>> {
        if load::<u64>(head) == 0 {
            self.made.objects.lists.push(VecDeque::new());
            store(head, self.made.objects.lists.len() as u64);
        }
        let number = load::<u64>(head) as usize - 1;
        if number >= self.made.objects.lists.len() {
            self.refuse_passed("bpf_list_head");
        }
        self.made.objects.lists.get_mut(number)
    }
}

/// The range of the subtree of the node at `place`, in order; the node itself is in the middle.
fn part_below(count: usize, place: usize) -> (usize, usize) {
    let (mut low, mut high) = (0, count);
    loop {
        let middle = low + (high - low) / 2;
        match place.cmp(&middle) {
            Ordering::Less => high = middle,
            Ordering::Greater => low = middle + 1,
            Ordering::Equal => return (low, high),
        }
    }
}

impl Kernel<'_> {
    /// The child of a node of a tree; 0 if it has none or is in another tree. Any balanced tree with the same order is as good as the kernel's.
    fn child(&mut self, root: u64, node: u64, is_left: bool) -> u64 {
        let Some(tree) = self.tree(root) else {
            return 0;
        };
        let Some(place) = tree.iter().position(|other| *other == node) else {
            return 0;
        };
        let (low, high) = part_below(tree.len(), place);
        let (low, high) = if is_left { (low, place) } else { (place + 1, high) };
        tree[low..high].get((high - low) / 2).copied().unwrap_or(0)
    }

    fn add_to_tree(&mut self, root: u64, node: u64, less: u64) -> u64 {
        let Some(less) = self.passed_function(less) else {
            return error(EINVAL);
        };
        let Some(nodes) = self.tree(root).cloned() else {
            return error(EINVAL);
        };
        let position = nodes.partition_point(|other| {
            // A node goes after those it is not less than.
            self.call_function(less, [node, *other, 0, 0, 0]) as u8 == 0
        });
        let Some(tree) = self.tree(root) else {
            return error(EINVAL);
        };
        // The comparison may have changed the tree.
        tree.insert(position.min(tree.len()), node);
        0
    }

    fn push_to_list(&mut self, head: u64, node: u64, at_front: bool) -> u64 {
        let Some(list) = self.list(head) else {
            return error(EINVAL);
        };
        if at_front {
            list.push_front(node);
        } else {
            list.push_back(node);
        }
        0
    }

    /// Takes another reference to an object of the scheduler.
    fn acquire_object(&mut self, address: u64) -> u64 {
        let Some(object) = self.made.objects.objects.get_mut(&address) else {
            return 0;
        };
        object.references += 1;
        address
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

    fn bpf_refcount_acquire_impl(kernel, address, meta) { kernel.acquire_object(address) }
    fn bpf_refcount_acquire(kernel, address, meta) { kernel.acquire_object(address) }

    fn bpf_rbtree_add_impl(kernel, root, node, less) { kernel.add_to_tree(root, node, less) }
    fn bpf_rbtree_add(kernel, root, node, less) { kernel.add_to_tree(root, node, less) }

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

    fn bpf_rbtree_root(kernel, root) {
        kernel.tree(root).and_then(|tree| tree.get(tree.len() / 2).copied()).unwrap_or(0)
    }

    fn bpf_rbtree_left(kernel, root, node) { kernel.child(root, node, true) }
    fn bpf_rbtree_right(kernel, root, node) { kernel.child(root, node, false) }

    fn bpf_list_push_front_impl(kernel, head, node) { kernel.push_to_list(head, node, true) }
    fn bpf_list_push_front(kernel, head, node) { kernel.push_to_list(head, node, true) }
    fn bpf_list_push_back_impl(kernel, head, node) { kernel.push_to_list(head, node, false) }
    fn bpf_list_push_back(kernel, head, node) { kernel.push_to_list(head, node, false) }

    fn bpf_list_add(kernel, head, node, before) {
        let Some(list) = kernel.list(head) else { return error(EINVAL) };
        let Some(place) = list.iter().position(|other| *other == before) else { return error(EINVAL) };
        list.insert(place + 1, node);
        0
    }

    fn bpf_list_del(kernel, head, node) {
        let Some(list) = kernel.list(head) else { return 0 };
        let place = list.iter().position(|other| *other == node);
        place.and_then(|place| list.remove(place)).unwrap_or(0)
    }

    fn bpf_list_is_first(kernel, head, node) { u64::from(kernel.list(head).is_some_and(|list| list.front() == Some(&node))) }
    fn bpf_list_is_last(kernel, head, node) { u64::from(kernel.list(head).is_some_and(|list| list.back() == Some(&node))) }
    fn bpf_list_empty(kernel, head) { u64::from(kernel.list(head).is_none_or(|list| list.is_empty())) }

    fn bpf_list_pop_front(kernel, head) { kernel.list(head).and_then(VecDeque::pop_front).unwrap_or(0) }
    fn bpf_list_pop_back(kernel, head) { kernel.list(head).and_then(VecDeque::pop_back).unwrap_or(0) }
    fn bpf_list_front(kernel, head) {
        kernel.list(head).and_then(|list| list.front().copied()).unwrap_or(0)
    }
    fn bpf_list_back(kernel, head) {
        kernel.list(head).and_then(|list| list.back().copied()).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::part_below;

    #[test]
    fn every_node_of_a_tree_hangs_in_it() {
        for count in 1..40 {
            for place in 0..count {
                let (low, high) = part_below(count, place);
                assert!(low <= place && place < high && low + (high - low) / 2 == place);
            }
        }
    }
}
