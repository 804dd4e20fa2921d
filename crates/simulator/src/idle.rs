//! Built-in idle tracking and the default choice of a CPU: `kernel/sched/ext/idle.c`.

use crate::constants::*;
use crate::kernel::Kernel;
use crate::mask::first_common_from;
use crate::operations::Op;
use crate::rules;
use crate::structures::{CPU_MASK_WORDS, CpuMask};
use crate::task::TaskRef;
use crate::topology::Topology;

/// A mask that is searched for CPUs at the cost of those that are in it.
#[derive(Clone, Default)]
pub struct SparseMask {
    mask: Box<CpuMask>,
    /// A bit for each word of the mask that is not 0.
    words: u64,
}

const _: () = assert!(CPU_MASK_WORDS == 64);

impl SparseMask {
    fn set_word(&mut self, word: usize, bits: u64) {
        self.mask.bits[word] = bits;
        self.words = self.words & !(1 << word) | u64::from(bits != 0) << word;
    }

    fn assign(&mut self, cpu: usize, value: bool) {
        let (word, bit) = (cpu / 64, 1 << (cpu % 64));
        let others = self.mask.bits[word] & !bit;
        self.set_word(word, if value { others | bit } else { others });
    }

    /// The next CPU that is also `allowed` after the `previous` one, wrapping around (`cpumask_any_and_distribute`).
    fn distribute(&self, allowed: &CpuMask, previous: &mut usize) -> Option<usize> {
        let start = *previous + 1;
        let (first, later) = (start / 64 % CPU_MASK_WORDS, u64::MAX << (start % 64));
        let common = |word: usize| self.mask.bits[word] & allowed.bits[word];
        let mut found = (first, common(first) & later);
        // The other words from there on, and at last the rest of the first.
        let mut words = self.words.rotate_right(first as u32) & !1;
        while found.1 == 0 && words != 0 {
            let word = (first + words.trailing_zeros() as usize) % CPU_MASK_WORDS;
            found = (word, common(word));
            words &= words - 1;
        }
        if found.1 == 0 {
            found = (first, common(first) & !later);
        }
        let (word, bits) = found;
        let cpu = (bits != 0).then(|| word * 64 + bits.trailing_zeros() as usize)?;
        *previous = cpu;
        Some(cpu)
    }
}

impl std::ops::Deref for SparseMask {
    type Target = CpuMask;
    fn deref(&self) -> &CpuMask {
        &self.mask
    }
}

/// Idle CPUs and fully idle cores, of the machine or of one node.
#[derive(Clone, Default)]
pub struct IdleMasks {
    /// Idle CPUs.
    pub cpu: SparseMask,
    /// CPUs of fully idle cores.
    pub smt: SparseMask,
}

impl IdleMasks {
    /// The core of `cpu` is not fully idle.
    fn clear_core(&mut self, cpu: usize, topology: &Topology) {
        let siblings = &topology.siblings[cpu].bits;
        for word in topology.sibling_words[cpu].clone() {
            self.smt.set_word(word, self.smt.bits[word] & !siblings[word]);
        }
    }
}

/// The kernel's idle tracking.
pub struct IdleState {
    /// Whether built-in tracking is on.
    pub enabled: bool,
    /// Whether every node has its own pair of masks.
    pub per_node: bool,
    /// One pair for the machine, or one for every node.
    pub masks: Vec<IdleMasks>,
    empty: Box<CpuMask>,
}

impl IdleState {
    /// Tracking with these properties, all CPUs busy.
    pub fn new(enabled: bool, per_node: bool, nodes: usize) -> IdleState {
        IdleState {
            enabled,
            per_node,
            masks: vec![IdleMasks::default(); if per_node { nodes } else { 1 }],
            empty: Box::default(),
        }
    }

    /// Index of the masks that `cpu` is in.
    pub fn group(&self, cpu: usize, topology: &Topology) -> usize {
        if self.per_node { topology.node_of[cpu] } else { 0 }
    }

    /// Masks of the machine, or empty ones if tracked per node.
    pub fn machine_mask(&self, smt: bool) -> &CpuMask {
        match self.masks.first() {
            Some(masks) if !self.per_node => {
                if smt {
                    &masks.smt
                } else {
                    &masks.cpu
                }
            }
            _ => &self.empty,
        }
    }

    /// Removes `cpu` from all masks.
    pub fn forget(&mut self, cpu: usize, topology: &Topology) {
        let group = self.group(cpu, topology);
        self.masks[group].cpu.assign(cpu, false);
        self.masks[group].clear_core(cpu, topology);
    }

    /// `scx_idle_test_and_clear_cpu`.
    pub fn test_and_clear(&mut self, cpu: usize, topology: &Topology) -> bool {
        let group = self.group(cpu, topology);
        let masks = &mut self.masks[group];
        if topology.smt {
            masks.clear_core(cpu, topology);
        }
        let was_idle = masks.cpu.test(cpu);
        masks.cpu.assign(cpu, false);
        was_idle
    }

    /// CPUs that are not `online` are no part of a core (`cpu_smt_mask`).
    fn update(&mut self, cpu: usize, idle: bool, online: &CpuMask, topology: &Topology) {
        let group = self.group(cpu, topology);
        let masks = &mut self.masks[group];
        masks.cpu.assign(cpu, idle);
        if !topology.smt {
            return;
        }
        if !idle {
            return masks.clear_core(cpu, topology);
        }
        let siblings = |word: usize| topology.siblings[cpu].bits[word] & online.bits[word];
        let words = topology.sibling_words[cpu].clone();
        if words.clone().all(|word| siblings(word) & !masks.cpu.bits[word] == 0) {
            words.for_each(|word| masks.smt.set_word(word, masks.smt.bits[word] | siblings(word)));
        }
    }

    /// `pick_idle_cpu_in_node`, which goes on after the `previous` one.
    pub fn pick_in_group(
        &mut self,
        allowed: &CpuMask,
        group: usize,
        flags: u64,
        previous: &mut usize,
        topology: &Topology,
    ) -> Option<usize> {
        loop {
            let masks = &self.masks[group];
            let mut found = None;
            if topology.smt {
                found = masks.smt.distribute(allowed, previous);
                if found.is_none() && flags & SCX_PICK_IDLE_CORE != 0 {
                    return None;
                }
            }
            if found.is_none() {
                found = masks.cpu.distribute(allowed, previous);
            }
            let cpu = found?;
            if self.test_and_clear(cpu, topology) {
                return Some(cpu);
            }
        }
    }

    /// `scx_pick_idle_cpu`, starting from `group`.
    pub fn pick(
        &mut self,
        allowed: &CpuMask,
        group: usize,
        flags: u64,
        previous: &mut usize,
        topology: &Topology,
    ) -> Option<usize> {
        if let Some(cpu) = self.pick_in_group(allowed, group, flags, previous, topology) {
            return Some(cpu);
        }
        if !self.per_node || flags & SCX_PICK_IDLE_IN_NODE != 0 {
            return None;
        }
        topology.nodes_by_distance[group]
            .iter()
            .find_map(|node| self.pick_in_group(allowed, *node, flags, previous, topology))
    }
}

/// The next CPU in both masks after the `previous` one, wrapping around (`cpumask_any_and_distribute`).
pub fn distribute(
    a: &CpuMask,
    b: &CpuMask,
    previous: &mut usize,
    topology: &Topology,
) -> Option<usize> {
    let found = first_common_from(a, b, *previous + 1, topology.words);
    *previous = found.unwrap_or(*previous);
    found
}

fn intersection(a: &CpuMask, b: &CpuMask) -> Option<CpuMask> {
    let both = a.common(b);
    both.first().is_some().then_some(both)
}

impl IdleState {
    /// The CPU for a wake-up by a task that is about to sleep: the `previous` one if it is idle and near the waker, otherwise the waker's, if that `is_free`
    /// of other waiting tasks.
    fn pick_for_sync(
        &mut self,
        (waker_cpu, is_free): (usize, bool),
        previous: usize,
        in_node: bool,
        allowed: &CpuMask,
        topology: &Topology,
    ) -> Option<usize> {
        let shares_cache = topology.cache_of[waker_cpu] == topology.cache_of[previous];
        if allowed.test(previous) && shares_cache && self.test_and_clear(previous, topology) {
            return Some(previous);
        }
        let waker_group = self.group(waker_cpu, topology);
        if is_free
            && (!in_node || waker_group == self.group(previous, topology))
            && self.masks[waker_group].cpu.words != 0
            && allowed.test(waker_cpu)
        {
            self.test_and_clear(waker_cpu, topology);
            return Some(waker_cpu);
        }
        None
    }
}

impl Kernel<'_> {
    /// `__scx_update_idle`.
    pub(crate) fn update_idle(&mut self, cpu: usize, idle: bool, notify: bool) {
        if self.idle.enabled && self.cpus[cpu].online {
            self.idle.update(cpu, idle, &self.online, &self.topology);
        }
        if notify {
            self.call(Op::UpdateIdle, &[self.cpu_argument(cpu), u64::from(idle)]);
        }
    }

    /// `scx_select_cpu_dfl`: an idle CPU for `task`, claimed, or a negative error.
    pub(crate) fn select_cpu_default(
        &mut self,
        task: TaskRef,
        previous: i32,
        wake_flags: u64,
        within: Option<&CpuMask>,
        flags: u64,
    ) -> i32 {
        let busy = -(EBUSY as i32);
        if previous < 0 || previous as usize >= self.cpus.len() {
            return busy;
        }
        let previous = previous as usize;
        let unrestricted = task.seen.nr_cpus_allowed as usize >= self.cpus.len();
        let narrowed;
        let allowed: &CpuMask = match within {
            None => task.allowed(),
            Some(within) if unrestricted => within,
            Some(within) => match intersection(within, task.allowed()) {
                Some(both) => {
                    narrowed = both;
                    &narrowed
                }
                None => return busy,
            },
        };
        // Most often on a busy machine: there is none, wherever it is looked for.
        if self.idle.masks.iter().all(|masks| masks.cpu.words == 0) {
            return busy;
        }
        let topology = &self.topology;
        let previous_allowed = allowed.test(previous);
        let group = self.idle.group(previous, topology);
        let whole = within.is_none() && unrestricted;
        let node_cpus = topology
            .select_by_node
            .then(|| &topology.nodes[topology.node_of[previous]])
            .filter(|_| !self.idle.per_node);
        let cache_cpus =
            topology.select_by_cache.then(|| &topology.caches[topology.cache_of[previous]]);
        // If the task may run anywhere, the groups are used as they are; otherwise only the CPUs of them that it may use.
        let (node_part, cache_part);
        let (node_cpus, cache_cpus) = if whole {
            (node_cpus, cache_cpus)
        } else {
            node_part = node_cpus.and_then(|cpus| intersection(cpus, allowed));
            cache_part = cache_cpus.and_then(|cpus| intersection(cpus, allowed));
            (node_part.as_ref(), cache_part.as_ref())
        };

        if wake_flags & SCX_WAKE_SYNC != 0 {
            let waker = &self.cpus[self.context.cpu];
            let waker_is_free =
                waker.current.seen.flags & PF_EXITING == 0 && waker.local.is_empty();
            let waker = (self.context.cpu, waker_is_free);
            let in_node = flags & SCX_PICK_IDLE_IN_NODE != 0;
            if let Some(cpu) = self.idle.pick_for_sync(waker, previous, in_node, allowed, topology)
            {
                return cpu as i32;
            }
        }
        let cursor = &mut self.cpus[self.context.cpu].distributed;
        if topology.smt {
            if previous_allowed
                && self.idle.masks[group].smt.test(previous)
                && self.idle.test_and_clear(previous, topology)
            {
                return previous as i32;
            }
            for near in [cache_cpus, node_cpus].into_iter().flatten() {
                if let Some(cpu) =
                    self.idle.pick_in_group(near, group, SCX_PICK_IDLE_CORE, cursor, topology)
                {
                    return cpu as i32;
                }
            }
            if let Some(cpu) =
                self.idle.pick(allowed, group, flags | SCX_PICK_IDLE_CORE, cursor, topology)
            {
                return cpu as i32;
            }
            if flags & SCX_PICK_IDLE_CORE != 0 {
                return busy;
            }
        }
        if previous_allowed && self.idle.test_and_clear(previous, topology) {
            return previous as i32;
        }
        if topology.smt && rules::prefers_siblings(self.settings.release) {
            for &sibling in topology.siblings_of(previous) {
                if sibling != previous
                    && allowed.test(sibling)
                    && self.idle.test_and_clear(sibling, topology)
                {
                    return sibling as i32;
                }
            }
        }
        for near in [cache_cpus, node_cpus].into_iter().flatten() {
            if let Some(cpu) = self.idle.pick_in_group(near, group, 0, cursor, topology) {
                return cpu as i32;
            }
        }
        self.idle.pick(allowed, group, flags, cursor, topology).map_or(busy, |cpu| cpu as i32)
    }
}
