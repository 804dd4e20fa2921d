//! Dispatch queues: FIFO or ordered by virtual time, like `struct scx_dispatch_q`.

use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

use fairground_contract::quota;
use fairground_events::{CpuId, Queue};

use crate::constants::{SCX_DSQ_FLAG_BUILTIN, SCX_DSQ_GLOBAL, SCX_DSQ_LOCAL, SCX_TASK_DSQ_ON_PRIQ};
use crate::cost::Lock;
use crate::dsq_table::DsqTable;
use crate::structures::DispatchQueueHandle;
use crate::task::TaskRef;

/// Number of a dispatch queue in the kernel's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DsqIndex(pub u32);

/// Queues longer than this keep a search tree in addition to the list.
const TREE_FROM: u32 = 48;

/// Position in virtual-time order, which wraps as the kernel's comparison does; ties are in order of arrival.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    vtime: u64,
    arrival: u64,
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.vtime.wrapping_sub(other.vtime) as i64).cmp(&0).then(self.arrival.cmp(&other.arrival))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The position that a running iteration has reached; removal of tasks moves it along.
#[derive(Clone, Copy)]
pub struct Cursor {
    next: Option<TaskRef>,
    started: bool,
    reverse: bool,
    sequence: u32,
}

/// A dispatch queue.
pub struct DispatchQueue {
    /// The part whose address schedulers may see and compare.
    pub handle: Box<DispatchQueueHandle>,
    /// The CPU whose local queue it is.
    pub local_to: Option<usize>,
    /// Its lock.
    pub lock: Lock,
    /// Whether it still exists.
    pub live: bool,
    head: Option<TaskRef>,
    tail: Option<TaskRef>,
    sequence: u32,
    arrivals: u64,
    ordered: u32,
    tree: Option<BTreeMap<Key, TaskRef>>,
    cursors: Vec<Option<Cursor>>,
}

impl DispatchQueue {
    /// An empty queue.
    pub fn new(id: u64, local_to: Option<usize>) -> Self {
        DispatchQueue {
            handle: Box::new(DispatchQueueHandle { nr: 0, seq: 0, id }),
            local_to,
            lock: Lock::default(),
            live: true,
            head: None,
            tail: None,
            sequence: 0,
            arrivals: 0,
            ordered: 0,
            tree: None,
            cursors: Vec::new(),
        }
    }

    /// Its id.
    pub fn id(&self) -> u64 {
        self.handle.id
    }

    /// Its name for sinks.
    pub fn name(&self) -> Queue {
        match self.local_to {
            Some(cpu) => Queue::Local(CpuId(cpu as u32)),
            None if self.id() == SCX_DSQ_GLOBAL => Queue::Global,
            None => Queue::User(self.id()),
        }
    }

    /// Whether the scheduler holds tasks back in it because quotas are used up.
    pub fn holds_back(&self) -> bool {
        self.id() & (SCX_DSQ_FLAG_BUILTIN | quota::THROTTLED) == quota::THROTTLED
    }

    /// Tasks on it.
    pub fn len(&self) -> u32 {
        self.handle.nr
    }

    /// Whether no task is on it.
    pub fn is_empty(&self) -> bool {
        self.handle.nr == 0
    }

    /// First task.
    pub fn first(&self) -> Option<TaskRef> {
        self.head
    }

    /// Whether tasks on it are ordered by virtual time.
    pub fn has_ordered(&self) -> bool {
        self.ordered > 0
    }

    /// Whether tasks on it are in FIFO order.
    pub fn has_fifo(&self) -> bool {
        self.handle.nr > self.ordered
    }

    /// Adds `task` at the head or tail.
    pub fn push(&mut self, task: TaskRef, at_head: bool) {
        if at_head {
            self.link_between(task, None, self.head);
        } else {
            self.link_between(task, self.tail, None);
        }
    }

    /// Adds `task` in order of its virtual time, after its equals.
    pub fn push_ordered(&mut self, mut task: TaskRef, vtime: u64) {
        task.dsq_key = vtime;
        task.seen.scx.dsq_flags |= SCX_TASK_DSQ_ON_PRIQ;
        self.arrivals += 1;
        task.dsq_arrival = self.arrivals;
        if self.tree.is_none() && self.handle.nr >= TREE_FROM {
            let mut tree = BTreeMap::new();
            let mut cursor = self.head;
            while let Some(queued) = cursor {
                tree.insert(Key { vtime: queued.dsq_key, arrival: queued.dsq_arrival }, queued);
                cursor = queued.dsq_next;
            }
            self.tree = Some(tree);
        }
        let previous = match &mut self.tree {
            Some(tree) => {
                let key = Key { vtime, arrival: self.arrivals };
                let previous = tree.range(..key).next_back().map(|(_, task)| *task);
                tree.insert(key, task);
                previous
            }
            None => {
                let mut previous = self.tail;
                while let Some(queued) = previous {
                    if (queued.dsq_key.wrapping_sub(vtime) as i64) <= 0 {
                        break;
                    }
                    previous = queued.dsq_previous;
                }
                previous
            }
        };
        self.ordered += 1;
        let next = match previous {
            Some(previous) => previous.dsq_next,
            None => self.head,
        };
        self.link_between(task, previous, next);
    }

    fn link_between(
        &mut self,
        mut task: TaskRef,
        previous: Option<TaskRef>,
        next: Option<TaskRef>,
    ) {
        task.dsq_previous = previous;
        task.dsq_next = next;
        match previous {
            Some(mut previous) => previous.dsq_next = Some(task),
            None => self.head = Some(task),
        }
        match next {
            Some(mut next) => next.dsq_previous = Some(task),
            None => self.tail = Some(task),
        }
        self.handle.nr += 1;
        self.sequence = self.sequence.wrapping_add(1);
        self.handle.seq = self.sequence;
        task.seen.scx.dsq_seq = self.sequence;
    }

    /// Removes `task`.
    pub fn remove(&mut self, mut task: TaskRef) {
        if task.seen.scx.dsq_flags & SCX_TASK_DSQ_ON_PRIQ != 0 {
            task.seen.scx.dsq_flags &= !SCX_TASK_DSQ_ON_PRIQ;
            self.ordered -= 1;
            if let Some(tree) = &mut self.tree {
                tree.remove(&Key { vtime: task.dsq_key, arrival: task.dsq_arrival });
                if tree.len() < TREE_FROM as usize / 2 {
                    self.tree = None;
                }
            }
        }
        for cursor in self.cursors.iter_mut().flatten() {
            if cursor.next == Some(task) {
                cursor.next = if cursor.reverse { task.dsq_previous } else { task.dsq_next };
            }
        }
        match task.dsq_previous {
            Some(mut previous) => previous.dsq_next = task.dsq_next,
            None => self.head = task.dsq_next,
        }
        match task.dsq_next {
            Some(mut next) => next.dsq_previous = task.dsq_previous,
            None => self.tail = task.dsq_previous,
        }
        task.dsq_previous = None;
        task.dsq_next = None;
        self.handle.nr -= 1;
    }

    /// Begins an iteration over the tasks that are queued now; returns its number.
    pub fn start_iteration(&mut self, reverse: bool) -> u32 {
        let cursor = Cursor { next: None, started: false, reverse, sequence: self.sequence };
        match self.cursors.iter().position(Option::is_none) {
            Some(free) => {
                self.cursors[free] = Some(cursor);
                free as u32
            }
            None => {
                self.cursors.push(Some(cursor));
                self.cursors.len() as u32 - 1
            }
        }
    }

    /// The next task of an iteration, and how many tasks were visited to find it; tasks queued after it began are skipped.
    pub fn next_of_iteration(&mut self, number: u32) -> (Option<TaskRef>, u64) {
        let Some(Some(cursor)) = self.cursors.get_mut(number as usize) else {
            return (None, 0);
        };
        let mut visited = 0;
        if !cursor.started {
            cursor.started = true;
            cursor.next = if cursor.reverse { self.tail } else { self.head };
        }
        while let Some(task) = cursor.next {
            visited += 1;
            cursor.next = if cursor.reverse { task.dsq_previous } else { task.dsq_next };
            if (cursor.sequence.wrapping_sub(task.seen.scx.dsq_seq) as i32) >= 0 {
                return (Some(task), visited);
            }
        }
        (None, visited)
    }

    /// Ends an iteration.
    pub fn end_iteration(&mut self, number: u32) {
        if let Some(cursor) = self.cursors.get_mut(number as usize) {
            *cursor = None;
        }
    }
}

/// All dispatch queues of a simulation. Their places do not change.
pub struct DispatchQueues {
    /// The local queues of the CPUs in order, the global queues of the nodes, then those that the scheduler creates.
    all: Vec<DispatchQueue>,
    /// The scheduler's own that exist.
    by_id: DsqTable,
    /// The place of the first global queue.
    first_global: u32,
}

impl DispatchQueues {
    /// The queues that a kernel has by itself.
    pub fn new(cpus: usize, nodes: usize) -> DispatchQueues {
        let local = (0..cpus).map(|cpu| DispatchQueue::new(SCX_DSQ_LOCAL, Some(cpu)));
        let global = (0..nodes).map(|_| DispatchQueue::new(SCX_DSQ_GLOBAL, None));
        DispatchQueues {
            all: local.chain(global).collect(),
            by_id: DsqTable::default(),
            first_global: cpus as u32,
        }
    }

    /// The global queue of a node.
    pub fn global(&self, node: usize) -> DsqIndex {
        DsqIndex(self.first_global + node as u32)
    }

    /// The scheduler's queue with this id.
    pub fn by_id(&self, id: u64) -> Option<DsqIndex> {
        self.by_id.get(id)
    }

    /// Creates a queue of the scheduler; `false` if it has one with this id.
    pub fn create(&mut self, id: u64) -> bool {
        if self.by_id(id).is_some() {
            return false;
        }
        let index = DsqIndex(self.all.len() as u32);
        self.all.push(DispatchQueue::new(id, None));
        self.by_id.insert(id, index);
        true
    }

    /// Destroys a queue of the scheduler.
    pub fn destroy(&mut self, index: DsqIndex) {
        self[index].live = false;
        self.by_id.remove(self[index].id());
    }

    /// Whether there is, or was, a queue at this place.
    pub fn has(&self, index: DsqIndex) -> bool {
        (index.0 as usize) < self.all.len()
    }

    /// All queues in the order of their places.
    pub fn iter(&self) -> impl Iterator<Item = &DispatchQueue> {
        self.all.iter()
    }
}

impl Index<DsqIndex> for DispatchQueues {
    type Output = DispatchQueue;
    #[inline]
    fn index(&self, index: DsqIndex) -> &DispatchQueue {
        &self.all[index.0 as usize]
    }
}

impl IndexMut<DsqIndex> for DispatchQueues {
    #[inline]
    fn index_mut(&mut self, index: DsqIndex) -> &mut DispatchQueue {
        &mut self.all[index.0 as usize]
    }
}
