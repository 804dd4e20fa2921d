//! Control groups of the CPU controller, as far as schedulers see them.

use std::collections::BTreeMap;

use crate::constants::{DEQUEUE_MOVE, DEQUEUE_SAVE};
use crate::kernel::Kernel;
use crate::operations::Op;
use crate::structures::{
    Cgroup, CgroupInitArgs, CgroupSubsysState, CssSet, KernfsNode, PercpuRef, ScxTaskGroup,
    TaskGroup, TaskStruct,
};
use crate::task::TaskRef;
use crate::tracing::Hook;

/// Place of the CPU controller among those of a group (`cpu_cgrp_id`).
const CPU_CONTROLLER: usize = 1;
/// The settings of an unchanged group, as the scheduler sees them.
const SETTINGS: ScxTaskGroup = ScxTaskGroup {
    // SCX_TG_ONLINE and SCX_TG_INITED.
    flags: 3,
    weight: 100,
    bw_period_us: 100_000,
    bw_quota_us: u64::MAX,
    bw_burst_us: 0,
    idle: false,
};

/// `CSS_ONLINE`.
const CSS_ONLINE: u32 = 1 << 1;

/// In which order an iteration visits a group and those below it (`enum bpf_cgroup_iter_order`).
mod order {
    pub const SELF_ONLY: u32 = 1;
    pub const DESCENDANTS_PRE: u32 = 2;
    pub const DESCENDANTS_POST: u32 = 3;
    pub const ANCESTORS_UP: u32 = 4;
}

/// One control group with the structures through which schedulers reach it.
struct Group {
    cgroup: Box<Cgroup>,
    _node: Box<KernfsNode>,
    set: Box<CssSet>,
    group: Box<TaskGroup>,
    parent: Option<usize>,
    _name: Box<[u8]>,
}

/// The control groups of a simulation; number 0 is the root.
pub struct Groups {
    groups: Vec<Group>,
    by_path: BTreeMap<String, usize>,
}

impl Groups {
    /// The root and every group on the path to each of `paths`.
    pub fn new<'p>(paths: impl Iterator<Item = &'p str>) -> Groups {
        let mut groups = Groups {
            groups: Vec::new(),
            by_path: BTreeMap::new(),
        };
        groups.add("/", None);
        for path in paths {
            let mut parent = 0;
            let mut full = String::new();
            for part in path.split('/').filter(|part| !part.is_empty()) {
                full = format!("{full}/{part}");
                parent = match groups.by_path.get(&full) {
                    Some(known) => *known,
                    None => groups.add(&full, Some(parent)),
                };
            }
        }
        groups
    }

    /// Number of groups besides the root.
    pub fn below_the_root(&self) -> usize {
        self.groups.len() - 1
    }

    fn add(&mut self, path: &str, parent: Option<usize>) -> usize {
        let number = self.groups.len();
        let name: Box<[u8]> = path
            .rsplit('/')
            .next()
            .unwrap_or("")
            .bytes()
            .chain([0])
            .collect();
        let mut node = Box::new(KernfsNode {
            id: number as u64 + 1,
            name: name.as_ptr(),
            __parent: parent.map_or(std::ptr::null_mut(), |parent| self.groups[parent].cgroup.kn),
        });
        let level = parent.map_or(0, |parent| self.groups[parent].cgroup.level + 1);
        let above = parent.map(|parent| &raw mut self.groups[parent].cgroup.self_);
        let css = CgroupSubsysState {
            cgroup: std::ptr::null_mut(),
            refcnt: PercpuRef {
                percpu_count_ptr: 0,
            },
            id: number as i32 + 1,
            flags: CSS_ONLINE,
            parent: above.unwrap_or(std::ptr::null_mut()),
        };
        let mut cgroup = Box::new(Cgroup {
            self_: css,
            subsys: [std::ptr::null_mut(); 14],
            kn: &raw mut *node,
            level,
            nr_descendants: 0,
            dom_cgrp: std::ptr::null_mut(),
        });
        let itself = &raw mut *cgroup;
        cgroup.self_.cgroup = itself;
        cgroup.dom_cgrp = itself;
        let mut above = parent;
        while let Some(group) = above {
            self.groups[group].cgroup.nr_descendants += 1;
            above = self.groups[group].parent;
        }
        let above = parent.map(|parent| &raw mut self.groups[parent].group.css);
        let mut group = Box::new(TaskGroup {
            css: CgroupSubsysState {
                parent: above.unwrap_or(std::ptr::null_mut()),
                ..cgroup.self_
            },
            shares: 1024,
            idle: 0,
            scx: SETTINGS,
        });
        cgroup.subsys[CPU_CONTROLLER] = &raw mut group.css;
        let set = Box::new(CssSet {
            subsys: cgroup.subsys,
            dfl_cgrp: &raw mut *cgroup,
        });
        self.groups.push(Group {
            cgroup,
            _node: node,
            set,
            group,
            parent,
            _name: name,
        });
        self.by_path.insert(path.to_owned(), number);
        number
    }

    /// Number of the group at `path`; the root if there is none.
    pub fn find(&self, path: &str) -> usize {
        let full: String = path
            .split('/')
            .filter(|part| !part.is_empty())
            .map(|part| format!("/{part}"))
            .collect();
        self.by_path.get(&full).copied().unwrap_or(0)
    }

    /// Number of groups.
    pub fn count(&self) -> usize {
        self.groups.len()
    }

    /// Address of the group's `struct cgroup`.
    pub fn cgroup_address(&mut self, number: usize) -> *mut Cgroup {
        &raw mut *self.groups[number].cgroup
    }

    /// How deep the group is in the hierarchy.
    pub fn level(&self, number: usize) -> i32 {
        self.groups[number].cgroup.level
    }

    /// Number of the group whose `struct cgroup` is at `address`.
    pub fn number_of(&self, address: u64) -> Option<usize> {
        self.groups
            .iter()
            .position(|group| &raw const *group.cgroup as u64 == address)
    }

    /// Number of the group that has the `struct cgroup_subsys_state` at `address`, its own or its controller's.
    pub fn number_of_css(&self, address: u64) -> Option<usize> {
        self.groups.iter().position(|group| {
            &raw const group.cgroup.self_ as u64 == address
                || &raw const group.group.css as u64 == address
        })
    }

    /// The ancestor of a group at `level`.
    pub fn ancestor(&self, number: usize, level: i32) -> Option<usize> {
        let mut current = number;
        while self.groups[current].cgroup.level > level {
            current = self.groups[current].parent?;
        }
        (self.groups[current].cgroup.level == level).then_some(current)
    }

    /// The kernel's id of a group (`cgroup_id()`).
    pub fn id(&self, number: usize) -> u64 {
        number as u64 + 1
    }

    /// Number of the group with the kernel's id.
    pub fn by_id(&self, id: u64) -> Option<usize> {
        (id >= 1 && id as usize <= self.groups.len()).then(|| id as usize - 1)
    }

    /// Addresses of the `struct cgroup_subsys_state`s visited by an iteration that starts at `start`; `None` if there is no such order. Those
    /// of a controller lead to those of the same controller.
    pub fn iteration(&self, start: u64, order: u32) -> Option<Vec<u64>> {
        let css_of = |group: &Group, controller: bool| match controller {
            true => &raw const group.group.css as u64,
            false => &raw const group.cgroup.self_ as u64,
        };
        let found = [false, true].into_iter().find_map(|controller| {
            let is_start = |group: &Group| css_of(group, controller) == start;
            Some((self.groups.iter().position(is_start)?, controller))
        });
        let mut numbers = Vec::new();
        let Some((first, controller)) = found else {
            return Some(Vec::new());
        };
        match order {
            order::SELF_ONLY => numbers.push(first),
            order::DESCENDANTS_PRE | order::DESCENDANTS_POST => {
                self.descend(first, order == order::DESCENDANTS_POST, &mut numbers);
            }
            order::ANCESTORS_UP => {
                let above = |number: &usize| self.groups[*number].parent;
                numbers.extend(std::iter::successors(Some(first), above));
            }
            _ => return None,
        }
        let css = numbers
            .iter()
            .map(|number| css_of(&self.groups[*number], controller));
        Some(css.collect())
    }

    fn descend(&self, number: usize, children_first: bool, visited: &mut Vec<usize>) {
        if !children_first {
            visited.push(number);
        }
        for child in 0..self.groups.len() {
            if self.groups[child].parent == Some(number) {
                self.descend(child, children_first, visited);
            }
        }
        if children_first {
            visited.push(number);
        }
    }

    /// The pointers that a task of the group has.
    pub fn pointers(&mut self, number: usize) -> (*mut CssSet, *mut TaskGroup) {
        let group = &mut self.groups[number];
        (&raw mut *group.set, &raw mut *group.group)
    }
}

impl Kernel<'_> {
    /// Tells the scheduler about every group, parents first.
    pub(crate) fn init_groups(&mut self) -> Result<(), i32> {
        if !self.operations.has(Op::CgroupInit) {
            return Ok(());
        }
        for number in 0..self.groups.count() {
            let mut args = CgroupInitArgs {
                weight: SETTINGS.weight,
                bw_period_us: SETTINGS.bw_period_us,
                bw_quota_us: SETTINGS.bw_quota_us,
                bw_burst_us: SETTINGS.bw_burst_us,
                sched_idle: SETTINGS.idle,
            };
            let cgroup = self.groups.cgroup_address(number) as u64;
            let result = self.call(Op::CgroupInit, &[cgroup, &raw mut args as u64]) as i32;
            if result != 0 {
                return Err(result);
            }
        }
        Ok(())
    }

    /// Tells the scheduler that the groups go away, children first.
    pub(crate) fn exit_groups(&mut self) {
        if self.operations.has(Op::CgroupExit) {
            for number in (0..self.groups.count()).rev() {
                let cgroup = self.groups.cgroup_address(number) as u64;
                self.call(Op::CgroupExit, &[cgroup]);
            }
        }
    }

    /// Moves a live task to the group at `path`.
    pub(crate) fn move_to_group(&mut self, task: TaskRef, path: &str) {
        let to = self.groups.find(path);
        let from = task.cgroup;
        if from == to {
            return;
        }
        let (source, target) = (
            self.groups.cgroup_address(from) as u64,
            self.groups.cgroup_address(to) as u64,
        );
        if self.operations.has(Op::CgroupPrepMove) {
            let result = self.call(Op::CgroupPrepMove, &[task.address(), source, target]) as i32;
            if result != 0 {
                self.programs.failure = Some(format!(
                    "the scheduler refused to move {} to {path}: ops.cgroup_prep_move() returned {result}",
                    task.label()
                ));
                return;
            }
        }
        let flags = DEQUEUE_SAVE | DEQUEUE_MOVE;
        self.with_change(task, flags, task.class, |kernel, mut task| {
            let (set, group) = kernel.groups.pointers(to);
            let seen: &mut TaskStruct = &mut task.seen;
            seen.cgroups = set;
            seen.sched_task_group = group;
            task.cgroup = to;
            kernel.call(Op::CgroupMove, &[task.address(), source, target]);
        });
        // A single thread is moved, as if its number were written to cgroup.threads.
        let mut path = format!("/{}", path.trim_matches('/')).into_bytes();
        path.push(0);
        let arguments = [target, path.as_ptr() as u64, task.address(), 0];
        self.trace(Hook::CgroupAttachTask, &arguments);
    }
}
