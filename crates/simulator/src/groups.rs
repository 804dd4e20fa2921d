//! Control groups of the CPU controller, as far as schedulers see them.

use std::collections::BTreeMap;

use fairground_contract::quota::{self, CpuStat};
use fairground_events::{
    self as events, EventKind, GroupId, GroupInfo, OverheadKind, Quota, QuotaUse, load_weight,
};
use fairground_workload::{Bandwidth, Group as Definition, GroupSettings, Share};

use crate::clock::Due;
use crate::constants::{DEQUEUE_MOVE, DEQUEUE_SAVE};
use crate::kernel::Kernel;
use crate::operations::Op;
use crate::structures::{
    Cgroup, CgroupInitArgs, CgroupSubsysState, CssSet, GROUP_LEVELS, KernfsNode, PercpuRef,
    ScxTaskGroup, TaskGroup, TaskStruct,
};
use crate::task::TaskRef;
use crate::tracing::Hook;

/// Place of the CPU controller among those of a group (`cpu_cgrp_id`).
const CPU_CONTROLLER: usize = 1;
/// `SCX_TG_ONLINE` and `SCX_TG_INITED`.
const IN_USE: u32 = 3;

/// Weight of a new group, of one with `cpu.idle`, and the kernel's scale of both (`CGROUP_WEIGHT_DFL`, `WEIGHT_IDLEPRIO`, `NICE_0_LOAD`).
const DEFAULT_WEIGHT: u32 = 100;
const IDLE_SHARES: u32 = 3;
const NICE_0_SHARES: u32 = 1024;
const SHARES_SCALE: u64 = 1024;

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
    bandwidth: Bandwidth,
    parent: Option<usize>,
    path: String,
    _name: Box<[u8]>,
}

/// The control groups of a simulation; number 0 is the root.
pub struct Groups {
    groups: Vec<Group>,
    by_path: BTreeMap<String, usize>,
    /// Settings that groups get during the run, by time: the time, the group, the settings.
    changes: Vec<(u64, usize, GroupSettings)>,
}

/// `task_group.shares` of a group: its part relative to its siblings, where 1024 is that of an unchanged group.
fn shares_of(share: Share) -> u32 {
    match share {
        Share::Weight(weight) => (weight * NICE_0_SHARES + DEFAULT_WEIGHT / 2) / DEFAULT_WEIGHT,
        Share::Nice(nice) => load_weight(events::Policy::Normal, nice),
        Share::Idle => IDLE_SHARES,
    }
}

/// The weight that sched_ext schedulers know, 1 to 10000 (`sched_weight_to_cgroup`).
fn weight_of(share: Share) -> u32 {
    let weight = shares_of(share) * DEFAULT_WEIGHT + NICE_0_SHARES / 2;
    (weight / NICE_0_SHARES).clamp(1, 10_000)
}

impl ScxTaskGroup {
    /// That of a new group with these settings. `cpu.idle` leaves the weight alone.
    fn new(settings: GroupSettings) -> Self {
        let idle = settings.share == Share::Idle;
        let mut group = Self {
            flags: IN_USE,
            weight: if idle { DEFAULT_WEIGHT } else { weight_of(settings.share) },
            bw_period_us: 0,
            bw_quota_us: 0,
            bw_burst_us: 0,
            idle,
        };
        group.set_bandwidth(settings.bandwidth);
        group
    }

    fn set_bandwidth(&mut self, bandwidth: Bandwidth) {
        self.bw_period_us = bandwidth.period / 1000;
        self.bw_quota_us = bandwidth.quota.map_or(u64::MAX, |quota| quota / 1000);
        self.bw_burst_us = bandwidth.burst / 1000;
    }
}

impl Groups {
    /// The root and these groups, in the order in which they are made.
    pub fn new(definitions: &[Definition]) -> Groups {
        let mut groups =
            Groups { groups: Vec::new(), by_path: BTreeMap::new(), changes: Vec::new() };
        groups.add("/", None, GroupSettings::default());
        for group in definitions {
            let parent = groups.by_path.get(group.parent()).copied();
            let number = groups.add(&group.path, parent, group.settings);
            let changes = group.changes.iter();
            let changes = changes.map(|change| (change.at, number, change.settings));
            groups.changes.extend(changes);
        }
        groups.changes.sort_by_key(|(at, _, _)| *at);
        groups
    }

    /// Number of groups besides the root.
    pub fn below_the_root(&self) -> usize {
        self.groups.len() - 1
    }

    /// Number of groups that have, or get, a quota.
    pub fn with_quota(&self) -> usize {
        (0..self.groups.len()).filter(|number| self.has_quota(*number)).count()
    }

    /// Whether a group has, had or gets a quota.
    fn has_quota(&self, number: usize) -> bool {
        let mut changes = self.changes.iter().filter(|change| change.1 == number);
        self.groups[number].bandwidth.quota.is_some()
            || changes.any(|(_, _, settings)| settings.bandwidth.quota.is_some())
    }

    fn add(&mut self, path: &str, parent: Option<usize>, settings: GroupSettings) -> usize {
        let number = self.groups.len();
        let name: Box<[u8]> = path.rsplit('/').next().unwrap_or("").bytes().chain([0]).collect();
        let mut node = Box::new(KernfsNode {
            id: number as u64 + 1,
            name: name.as_ptr(),
            __parent: parent.map_or(std::ptr::null_mut(), |parent| self.groups[parent].cgroup.kn),
        });
        let level = parent.map_or(0, |parent| self.groups[parent].cgroup.level + 1);
        let above = parent.map(|parent| &raw mut self.groups[parent].cgroup.self_);
        let css = CgroupSubsysState {
            cgroup: std::ptr::null_mut(),
            refcnt: PercpuRef { percpu_count_ptr: 0 },
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
            ancestors: parent.map_or([std::ptr::null_mut(); GROUP_LEVELS], |parent| {
                self.groups[parent].cgroup.ancestors
            }),
        });
        let itself = &raw mut *cgroup;
        cgroup.self_.cgroup = itself;
        cgroup.dom_cgrp = itself;
        if let Some(place) = cgroup.ancestors.get_mut(level as usize) {
            *place = itself;
        }
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
            shares: u64::from(shares_of(settings.share)) * SHARES_SCALE,
            idle: i32::from(settings.share == Share::Idle),
            scx: ScxTaskGroup::new(settings),
        });
        cgroup.subsys[CPU_CONTROLLER] = &raw mut group.css;
        let set = Box::new(CssSet { subsys: cgroup.subsys, dfl_cgrp: &raw mut *cgroup });
        self.groups.push(Group {
            cgroup,
            _node: node,
            set,
            group,
            bandwidth: settings.bandwidth,
            parent,
            path: path.to_owned(),
            _name: name,
        });
        self.by_path.insert(path.to_owned(), number);
        number
    }

    /// Number of the group at `path`; the root if there is none.
    pub fn find(&self, path: &str) -> usize {
        self.by_path.get(path).copied().unwrap_or(0)
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
        self.groups.iter().position(|group| &raw const *group.cgroup as u64 == address)
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

    /// Its number in the event stream, where the root has none.
    pub fn event_id(number: usize) -> Option<GroupId> {
        let number = number.checked_sub(1)?;
        Some(GroupId(number as u32))
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
        let css = numbers.iter().map(|number| css_of(&self.groups[*number], controller));
        Some(css.collect())
    }

    /// The numbers of all groups: each before the groups in it, or after them; siblings in the order in which they were made.
    fn all(&self, children_first: bool) -> Vec<usize> {
        let mut numbers = Vec::new();
        self.descend(0, children_first, &mut numbers);
        numbers
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
    /// Tells the scheduler about every group, parents first, then their children in the order in which they were made.
    pub(crate) fn init_groups(&mut self) -> Result<(), i32> {
        if !self.operations.has(Op::CgroupInit) {
            return Ok(());
        }
        for number in self.groups.all(false) {
            let settings = &self.groups.groups[number].group.scx;
            let mut args = CgroupInitArgs {
                weight: settings.weight,
                bw_period_us: settings.bw_period_us,
                bw_quota_us: settings.bw_quota_us,
                bw_burst_us: settings.bw_burst_us,
                sched_idle: settings.idle,
            };
            let cgroup = self.groups.cgroup_address(number) as u64;
            let result = self.call(Op::CgroupInit, &[cgroup, &raw mut args as u64]) as i32;
            let result = self.sanitize("cgroup_init", result);
            if result != 0 {
                return Err(result);
            }
        }
        Ok(())
    }

    /// Tells the scheduler that the groups go away, children first.
    pub(crate) fn exit_groups(&mut self) {
        if self.operations.has(Op::CgroupExit) {
            for number in self.groups.all(true) {
                let cgroup = self.groups.cgroup_address(number) as u64;
                self.call(Op::CgroupExit, &[cgroup]);
            }
        }
    }

    /// Reports all groups, and sets alarms for their changes during the run.
    pub(crate) fn begin_groups(&mut self) {
        for number in 1..self.groups.count() {
            self.emit_group(number);
        }
        for (index, (at, _, _)) in self.groups.changes.iter().enumerate() {
            let change = index as u32;
            self.clock.at(self.origin + at, Due::Group { change });
        }
    }

    fn emit_group(&mut self, number: usize) {
        let (Some(id), true) = (Groups::event_id(number), self.reports.is_open()) else {
            return;
        };
        let group = &self.groups.groups[number];
        let info = GroupInfo {
            path: group.path.clone(),
            parent: group.parent.and_then(Groups::event_id),
            shares: (group.group.shares / SHARES_SCALE) as u32,
            mode: self.machine.cgroup_mode,
            quota: group.bandwidth.quota.map(|runtime| Quota {
                runtime,
                period: group.bandwidth.period,
                burst: group.bandwidth.burst,
            }),
        };
        let time = self.local_time() - self.origin;
        self.reports.add_group(time, id, info);
    }

    /// Reports the scheduler's figures of the quotas that it enforces.
    pub(crate) fn report_quotas(&mut self) {
        let Some(map) = self.own_map(quota::CPU_STAT) else {
            return;
        };
        let told: Vec<CpuStat> = map.records().filter_map(CpuStat::read).collect();
        for stat in told {
            let number = self.groups.by_id(stat.cgroup);
            let has_quota = |number: &usize| self.groups.has_quota(*number);
            if let Some(group) = number.filter(has_quota).and_then(Groups::event_id) {
                let used = QuotaUse {
                    periods: stat.periods,
                    throttled_periods: stat.throttled_periods,
                    throttled: stat.throttled,
                };
                // Not the time of a CPU that has run ahead, which is after the end.
                self.emit_at(self.clock.now(), EventKind::QuotaUse { group, used });
            }
        }
    }

    /// Someone writes to a group's files; on the first CPU that is online, and at no cost.
    pub(crate) fn change_group(&mut self, change: u32) {
        let (_, number, settings) = self.groups.changes[change as usize];
        let first = self.cpus.handles().iter().position(|cpu| cpu.online);
        self.enter(first.unwrap_or(0));
        let cgroup = self.groups.cgroup_address(number) as u64;
        let group = &mut self.groups.groups[number].group;
        group.shares = u64::from(shares_of(settings.share)) * SHARES_SCALE;
        group.idle = i32::from(settings.share == Share::Idle);
        let mut new = ScxTaskGroup::new(settings);
        let old = &group.scx;
        // Writing to cpu.idle leaves the weight that sched_ext knows alone.
        if new.idle || old.idle && new.weight == DEFAULT_WEIGHT {
            new.weight = old.weight;
        }
        // The scheduler is told before the old settings that it can read change (`scx_group_set_weight` and its siblings).
        let idle = (new.idle != old.idle).then_some(u64::from(new.idle));
        let weight = (new.weight != old.weight).then_some(u64::from(new.weight));
        let bandwidth = [new.bw_period_us, new.bw_quota_us, new.bw_burst_us];
        let is_same = bandwidth == [old.bw_period_us, old.bw_quota_us, old.bw_burst_us];
        if let Some(idle) = idle {
            self.call(Op::CgroupSetIdle, &[cgroup, idle]);
        }
        if let Some(weight) = weight {
            self.call(Op::CgroupSetWeight, &[cgroup, weight]);
        }
        if !is_same {
            let [period, quota, burst] = bandwidth;
            self.call(Op::CgroupSetBandwidth, &[cgroup, period, quota, burst]);
        }
        self.groups.groups[number].group.scx = new;
        self.groups.groups[number].bandwidth = settings.bandwidth;
        self.emit_group(number);
        self.leave(OverheadKind::Scheduling);
    }

    /// Moves a live task to the group at `path`.
    pub(crate) fn move_to_group(&mut self, task: TaskRef, path: &str) {
        let to = self.groups.find(path);
        let from = task.cgroup;
        if from == to {
            return;
        }
        let (source, target) =
            (self.groups.cgroup_address(from) as u64, self.groups.cgroup_address(to) as u64);
        if self.operations.has(Op::CgroupPrepMove) {
            let result = self.call(Op::CgroupPrepMove, &[task.address(), source, target]) as i32;
            let result = self.sanitize("cgroup_prep_move", result);
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
            kernel.emit_task(task);
        });
        // A single thread is moved, as if its number were written to cgroup.threads.
        let mut path = path.as_bytes().to_vec();
        path.push(0);
        let arguments = [target, path.as_ptr() as u64, task.address(), 0];
        self.trace(Hook::CgroupAttachTask, &arguments);
    }
}
