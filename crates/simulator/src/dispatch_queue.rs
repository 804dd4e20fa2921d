//! Dispatch queues: FIFO or ordered by virtual time, like `struct scx_dispatch_q`.

use std::collections::BTreeMap;

use fairground_contract::quota;
use fairground_events::{CpuId, Queue};

use crate::constants::{SCX_DSQ_FLAG_BUILTIN, SCX_DSQ_GLOBAL, SCX_DSQ_LOCAL, SCX_TASK_DSQ_ON_PRIQ};
use crate::cost::Lock;
use crate::dsq_table::DsqTable;
use crate::handle::{Handle, Stock};
use crate::structures::DispatchQueueHandle;
use crate::task::TaskRef;

/// A handle to a dispatch queue of one simulation.
pub type DsqRef = Handle<DispatchQueue>;

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
    pub handle: DispatchQueueHandle,
    /// Its place among all queues.
    pub place: usize,
    /// The CPU whose local queue it is.
    pub local_to: Option<usize>,
    /// The node whose global queue it is, if it is one.
    node: u32,
    /// Its lock.
    pub lock: Lock,
    /// Whether the scheduler holds tasks back in it because quotas are used up.
    pub holds_back: bool,
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
    fn new(id: u64, local_to: Option<usize>, place: usize) -> Self {
        DispatchQueue {
            handle: DispatchQueueHandle { nr: 0, seq: 0, id },
            place,
            local_to,
            node: 0,
            lock: Lock::default(),
            holds_back: id & (SCX_DSQ_FLAG_BUILTIN | quota::THROTTLED) == quota::THROTTLED,
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
            None if self.id() == SCX_DSQ_GLOBAL => Queue::Global(self.node),
            None => Queue::User(self.id()),
        }
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
        let previous = if self.tree.is_some() || self.handle.nr >= TREE_FROM {
            self.insert_into_tree(task)
        } else {
            let mut previous = self.tail;
            while let Some(queued) = previous {
                if (queued.dsq_key.wrapping_sub(vtime) as i64) <= 0 {
                    break;
                }
                previous = queued.dsq_previous;
            }
            previous
        };
        self.ordered += 1;
        let next = match previous {
            Some(previous) => previous.dsq_next,
            None => self.head,
        };
        self.link_between(task, previous, next);
    }

    /// Adds a task to the search tree, which begins with the tasks that are queued; returns the one before it.
    #[inline(never)]
    fn insert_into_tree(&mut self, task: TaskRef) -> Option<TaskRef> {
        let key = |task: TaskRef| Key { vtime: task.dsq_key, arrival: task.dsq_arrival };
        let queued = std::iter::successors(self.head, |task| task.dsq_next);
        let tree = self.tree.get_or_insert_with(|| queued.map(|task| (key(task), task)).collect());
        let previous = tree.range(..key(task)).next_back().map(|(_, task)| *task);
        tree.insert(key(task), task);
        previous
    }

    #[inline(always)]
    fn link_between(&mut self, mut task: TaskRef, before: Option<TaskRef>, next: Option<TaskRef>) {
        task.dsq_previous = before;
        task.dsq_next = next;
        match before {
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
            if self.tree.is_some() {
                self.remove_from_tree(task);
            }
        }
        let (previous, next) = (task.dsq_previous.take(), task.dsq_next.take());
        for cursor in self.cursors.iter_mut().flatten() {
            if cursor.next == Some(task) {
                cursor.next = if cursor.reverse { previous } else { next };
            }
        }
        match previous {
            Some(mut previous) => previous.dsq_next = next,
            None => self.head = next,
        }
        match next {
            Some(mut next) => next.dsq_previous = previous,
            None => self.tail = previous,
        }
        self.handle.nr -= 1;
    }

    #[inline(never)]
    fn remove_from_tree(&mut self, task: TaskRef) {
        if let Some(tree) = &mut self.tree {
            tree.remove(&Key { vtime: task.dsq_key, arrival: task.dsq_arrival });
            if tree.len() < TREE_FROM as usize / 2 {
                self.tree = None;
            }
        }
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
#[derive(Default)]
pub struct DispatchQueues {
    /// Those of schedulers that were loaded before; then the local queues of the CPUs in order, the global queues of the nodes, and those that the
    /// scheduler creates.
    all: Stock<DispatchQueue>,
    /// The scheduler's own that exist.
    by_id: DsqTable,
    /// The place of the first local queue.
    first_local: usize,
    /// The place of the first global queue.
    first_global: usize,
}

impl DispatchQueues {
    /// The queues that a kernel has by itself take the place of all.
    pub fn begin(&mut self, cpus: usize, nodes: usize) {
        self.by_id = DsqTable::default();
        self.first_local = self.all.len();
        self.first_global = self.first_local + cpus;
        for cpu in 0..cpus {
            self.add(SCX_DSQ_LOCAL, Some(cpu));
        }
        for node in 0..nodes {
            self.add(SCX_DSQ_GLOBAL, None).node = node as u32;
        }
    }

    fn add(&mut self, id: u64, local_to: Option<usize>) -> DsqRef {
        self.all.add(DispatchQueue::new(id, local_to, self.all.len()))
    }

    /// The local queue of a CPU.
    pub fn local(&self, cpu: usize) -> DsqRef {
        self.all.handles()[self.first_local + cpu]
    }

    /// The global queue of a node.
    pub fn global(&self, node: usize) -> DsqRef {
        self.all.handles()[self.first_global + node]
    }

    /// The scheduler's queue with this id.
    pub fn by_id(&self, id: u64) -> Option<DsqRef> {
        self.by_id.get(id)
    }

    /// Creates a queue of the scheduler; `false` if it has one with this id.
    pub fn create(&mut self, id: u64) -> bool {
        if self.by_id(id).is_some() {
            return false;
        }
        let queue = self.add(id, None);
        self.by_id.insert(id, queue);
        true
    }

    /// Destroys a queue of the scheduler.
    pub fn destroy(&mut self, mut queue: DsqRef) {
        queue.live = false;
        self.by_id.remove(queue.id());
    }

    /// The queue at this place, if there is or was one.
    pub fn at(&self, place: usize) -> Option<DsqRef> {
        self.all.handles().get(place).copied()
    }

    /// All queues in the order of their places.
    pub fn iter(&self) -> impl Iterator<Item = &DsqRef> {
        self.all.handles().iter().skip(self.first_local)
    }
}
