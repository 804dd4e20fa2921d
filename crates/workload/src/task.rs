//! Task definitions and their phases.

use std::collections::BTreeSet;

use crate::error::Error;
use crate::event;
use crate::extension::Variations;
use crate::global::Global;
use crate::groups;
use crate::json::Value;
use crate::keys;
use crate::model::{Phase, Policy, Task};
use crate::names::Shared;
use crate::notes::Remark;
use crate::object::{CPU_MAX, Field, Object};
use crate::policy;

/// Maximum number of tasks that one file may start; far more than any machine schedules usefully, and small enough that a mistyped number does
/// not exhaust memory.
pub(crate) const INSTANCES_MAX: i64 = 100_000;

/// Largest footprint in bytes, larger than any cache.
const FOOTPRINT_MAX: i64 = 1 << 40;

/// Maximum number of control groups in rt-app.
const TASKGROUPS_MAX: usize = 32;

const KEYS: [&str; 10] = [
    "instance",
    "delay",
    "loop",
    "phases",
    "cpus",
    "nodes_membind",
    "taskgroup",
    "period",
    "deadline",
    "fairground",
];

/// The last is read only to say that a phase has none.
const PHASE_KEYS: [&str; 5] = ["loop", "cpus", "nodes_membind", "taskgroup", "delay"];

/// Where keys of the language before rt-app 1.0 are said to be so.
pub(crate) const OLD_LANGUAGE: &str = "belongs to the language before rt-app 1.0, which rt-app no longer runs; \
     write the events out, such as \"run\" : 1000, \"timer\" : { \"ref\" : \"unique\", \"period\" : 10000 }";

/// Keys of the language that rt-app had before version 1.0.
const OLD_KEYS: [&str; 3] = ["exec", "lock_order", "resources"];

/// Reads all task definitions.
pub(crate) fn read_all(
    tasks: &Object,
    global: &Global,
    shared: &mut Shared,
) -> Result<Vec<Task>, Error> {
    // All names first, because events can refer to later tasks.
    for (index, field) in tasks.fields().enumerate() {
        tasks.check_unique(index, &field)?;
        shared.tasks.intern(field.key);
        shared.task_places.push(field.key_place);
        shared.phase_places.push(Vec::new());
    }
    let mut list = Vec::new();
    let mut total = 0;
    let mut taskgroups = BTreeSet::new();
    for (index, field) in tasks.fields().enumerate() {
        let object = field.object()?;
        let task = read(field.key, &object, global, shared, index)?;
        total += i64::from(task.instances);
        if total > INSTANCES_MAX {
            return Err(field.key_error(format!(
                "more than {INSTANCES_MAX} tasks up to here; reduce the instances"
            )));
        }
        taskgroups.extend(task.taskgroup.clone());
        taskgroups.extend(task.phases.iter().filter_map(|phase| phase.taskgroup.clone()));
        if taskgroups.len() > TASKGROUPS_MAX {
            return Err(field.key_error(format!("more than {TASKGROUPS_MAX} taskgroups up to here, which rt-app does not support; use fewer")));
        }
        list.push(task);
    }
    if list.is_empty() {
        return Err(tasks.error("there are no tasks; add one such as \"hog\" : { \"run\" : 1000 }"));
    }
    if list.iter().all(|task| task.daemon || task.instances == 0) && total > 0 {
        return Err(tasks.error("every task is a daemon, so the run would end at once; leave \"daemon\" out of at least one"));
    }
    if total == 0 {
        return Err(
            tasks.error("every task has \"instance\" : 0, so nothing starts; start at least one")
        );
    }
    Ok(list)
}

fn read(
    name: &str,
    object: &Object,
    global: &Global,
    shared: &mut Shared,
    index: usize,
) -> Result<Task, Error> {
    let has_phases = object.has("phases");
    check_keys(object, has_phases)?;
    let instances = object.integer("instance", 0..=INSTANCES_MAX)?.unwrap_or(1) as u32;
    let delay = object.integer("delay", 0..=policy::MICROSECONDS_MAX)?;
    let policy = policy::of_task(object, global.default_policy, has_phases)?;
    let cpus = cpus(object)?;
    let taskgroup = taskgroup(object, shared)?;
    check_taskgroup_policy(object, policy, taskgroup.as_deref())?;

    let mut task = Task {
        name: name.into(),
        instances,
        delay: delay.unwrap_or(0) as u64 * 1000,
        loops: None,
        phases: Vec::new(),
        daemon: false,
        footprint: 0,
        policy,
        cpus,
        attributes: Vec::new(),
        process: None,
        taskgroup,
    };
    let mut variations = read_extension(object, &mut task)?;
    if let Some(field) = object.get("phases") {
        task.loops = loops(object)?.unwrap_or(None);
        task.phases = phases(&field, &task, shared, &mut variations, index)?;
    } else {
        let (events, varied) = event::read_all(object, shared, &mut variations, index, instances)?;
        // As in rt-app, `loop` then belongs to the only phase; without `loop`, the task never ends.
        let loops = loops(object)?;
        if let (Some(Some(_)), Some(field)) = (loops, object.get("loop")) {
            field.note("ends the task after these passes, as in current rt-app (rt-app 1.0 ends it only if it has `phases`)");
        }
        task.loops = loops.map(|_| 1);
        shared.phase_places[index].push(shared.task_places[index].clone());
        task.phases = vec![Phase {
            name: name.into(),
            loops: loops.unwrap_or(Some(1)),
            policy: None,
            cpus: None,
            taskgroup: None,
            events: events.into(),
            variations: varied,
        }];
    }
    variations.check_used()?;
    Ok(task)
}

fn check_keys(object: &Object, has_phases: bool) -> Result<(), Error> {
    let known = [&KEYS[..], &policy::KEYS[..]].concat();
    for field in object.fields() {
        if OLD_KEYS.contains(&field.key) {
            return Err(field.key_error(OLD_LANGUAGE));
        }
        let legacy_parameter = field.key == "runtime";
        if has_phases && keys::is_event(field.key) && !legacy_parameter {
            return Err(
                field.key_error("an event beside `phases` is never executed; move it into a phase")
            );
        }
    }
    match has_phases {
        true => object.check_keys_as_rt_app(&[&known[..], &["runtime"]].concat(), false),
        false => object.check_keys_as_rt_app(&known, true),
    }
}

fn phases(
    field: &Field,
    task: &Task,
    shared: &mut Shared,
    variations: &mut Variations,
    index: usize,
) -> Result<Vec<Phase>, Error> {
    let object = field.object()?;
    let known = [&PHASE_KEYS[..], &policy::KEYS[..]].concat();
    let mut current = task.policy;
    let mut group = task.taskgroup.clone();
    let mut names = BTreeSet::new();
    let mut list: Vec<Phase> = Vec::new();
    for field in object.fields() {
        if !names.insert(field.key) {
            field.key_remark(Remark::RepeatedPhase);
        }
        if list.last().is_some_and(|phase| phase.loops.is_none()) {
            field.key_note("is never reached: the phase before it has \"loop\" : -1");
        }
        let object = field.object()?;
        if let Some(delay) = object.get("delay") {
            delay.key_note(event::DELAY_OF_TASKS);
        }
        object.check_keys_as_rt_app(&known, true)?;
        let policy = policy::of_phase(&object, current)?;
        let taskgroup = taskgroup(&object, shared)?;
        shared.phase_places[index].push(field.key_place.clone());
        current = policy.unwrap_or(current);
        group = taskgroup.clone().or(group);
        check_taskgroup_policy(&object, current, group.as_deref())?;
        let loops = loops(&object)?.unwrap_or(Some(1));
        let cpus = cpus(&object)?;
        let (events, varied) = event::read_all(&object, shared, variations, index, task.instances)?;
        list.push(Phase {
            name: field.key.into(),
            loops,
            policy,
            cpus,
            taskgroup,
            events: events.into(),
            variations: varied,
        });
    }
    if list.is_empty() {
        return Err(
            object.error("there are no phases; add one such as \"p1\" : { \"run\" : 1000 }")
        );
    }
    Ok(list)
}

/// The `loop` of an object: not given, for ever (`Some(None)`), or a number of passes.
fn loops(object: &Object) -> Result<Option<Option<u64>>, Error> {
    let Some(field) = object.get("loop") else { return Ok(None) };
    match field.integer(-1..=i64::from(i32::MAX))? {
        -1 => Ok(Some(None)),
        0 => Err(field.error(
            "0 passes do nothing in a task and never end in a phase of rt-app; write a number \
             from 1, or -1 for ever",
        )),
        passes => Ok(Some(Some(passes as u64))),
    }
}

fn cpus(object: &Object) -> Result<Option<Vec<u32>>, Error> {
    if let Some(field) = object.get("nodes_membind") {
        field.numbers(CPU_MAX)?;
        field.key_remark(Remark::MemoryNodes);
    }
    let Some(field) = object.get("cpus") else { return Ok(None) };
    let mut cpus = field.numbers(CPU_MAX)?;
    cpus.sort_unstable();
    cpus.dedup();
    Ok(Some(cpus))
}

fn taskgroup(object: &Object, shared: &mut Shared) -> Result<Option<String>, Error> {
    let read = |field| groups::read_taskgroup(&field, &mut shared.groups);
    object.get("taskgroup").map_or(Ok(None), read)
}

fn check_taskgroup_policy(
    object: &Object,
    policy: Policy,
    taskgroup: Option<&str>,
) -> Result<(), Error> {
    match (policy, taskgroup) {
        (Policy::Other { .. } | Policy::Batch { .. } | Policy::Idle | Policy::Ext { .. }, _)
        | (_, None) => Ok(()),
        (_, Some(group)) => Err(object.error(format!(
            "rt-app has no taskgroups for real-time and deadline policies, but the task would \
                 be in {group}; use SCHED_OTHER, SCHED_BATCH or SCHED_IDLE, or no taskgroup"
        ))),
    }
}

/// Reads the key `fairground`: attributes for the scheduler, as written, the name of the process, the footprint, and whether the task is a daemon.
/// Returns how the events vary.
fn read_extension<'a>(object: &Object<'a>, task: &mut Task) -> Result<Variations<'a>, Error> {
    let mut variations = Variations::default();
    let Some(field) = object.get("fairground") else { return Ok(variations) };
    let object = field.object()?;
    for (index, field) in object.fields().enumerate() {
        object.check_unique(index, &field)?;
        if field.key == "vary" {
            variations = Variations::read(&field)?;
            continue;
        }
        if field.key == "daemon" {
            task.daemon = field.boolean()?;
            continue;
        }
        if field.key == "footprint" {
            task.footprint = field.integer(0..=FOOTPRINT_MAX)? as u64;
            continue;
        }
        if field.key == "process" {
            match field.value {
                Some(Value::String(name)) if !name.is_empty() => task.process = Some(name.clone()),
                _ => return Err(field.mismatch("the name of a process")),
            }
            continue;
        }
        let value = match field.value {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.clone(),
            Some(Value::Boolean(value)) => value.to_string(),
            _ => return Err(field.mismatch("a string, a number, true or false")),
        };
        task.attributes.push((field.key.to_string(), value));
    }
    Ok(variations)
}
