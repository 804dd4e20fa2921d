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
use crate::object::{CPU_MAX, Field, Object, Reader};
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
    reader: &mut Reader,
    tasks: &Object,
    global: &Global,
    shared: &mut Shared,
) -> Result<Vec<Task>, Error> {
    // All names first, because events can refer to later tasks.
    for (index, field) in tasks.fields().enumerate() {
        tasks.check_unique(reader, index, &field)?;
        shared.tasks.intern(field.key);
        shared.task_places.push(field.key_place);
        shared.phase_places.push(Vec::new());
    }
    let mut list = Vec::new();
    let mut total = 0;
    let mut taskgroups = BTreeSet::new();
    for (index, field) in tasks.fields().enumerate() {
        let object = field.object(reader)?;
        let task = read(reader, field.key, &object, global, shared, index)?;
        total += i64::from(task.instances);
        if total > INSTANCES_MAX {
            return Err(reader.error(
                &field.key_place,
                format!("more than {INSTANCES_MAX} tasks up to here; reduce the instances"),
            ));
        }
        taskgroups.extend(task.taskgroup.clone());
        taskgroups.extend(task.phases.iter().filter_map(|phase| phase.taskgroup.clone()));
        if taskgroups.len() > TASKGROUPS_MAX {
            return Err(reader.error(
                &field.key_place,
                format!("more than {TASKGROUPS_MAX} taskgroups up to here, which rt-app does not support; use fewer"),
            ));
        }
        list.push(task);
    }
    if list.is_empty() {
        return Err(reader.error(
            &tasks.place,
            "there are no tasks; add one such as \"hog\" : { \"run\" : 1000 }",
        ));
    }
    if list.iter().all(|task| task.daemon || task.instances == 0) && total > 0 {
        return Err(reader.error(
            &tasks.place,
            "every task is a daemon, so the run would end at once; leave \"daemon\" out of at least one",
        ));
    }
    if total == 0 {
        return Err(reader.error(
            &tasks.place,
            "every task has \"instance\" : 0, so nothing starts; start at least one",
        ));
    }
    Ok(list)
}

fn read(
    reader: &mut Reader,
    name: &str,
    object: &Object,
    global: &Global,
    shared: &mut Shared,
    index: usize,
) -> Result<Task, Error> {
    let has_phases = object.has("phases");
    check_keys(reader, object, has_phases)?;
    let instances = object.integer(reader, "instance", 0..=INSTANCES_MAX)?;
    let instances = instances.unwrap_or(1) as u32;
    let delay = object.integer(reader, "delay", 0..=policy::MICROSECONDS_MAX)?;
    let policy = policy::of_task(reader, object, global.default_policy, has_phases)?;
    let cpus = cpus(reader, object)?;
    let taskgroup = taskgroup(reader, object, shared)?;
    check_taskgroup_policy(reader, object, policy, taskgroup.as_deref())?;

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
    let mut variations = read_extension(reader, object, &mut task)?;
    if let Some(field) = object.get(reader, "phases") {
        task.loops = loops(reader, object)?.unwrap_or(None);
        task.phases = phases(reader, &field, &task, shared, &mut variations, index)?;
    } else {
        let (events, varied) =
            event::read_all(reader, object, shared, &mut variations, index, instances)?;
        // As in rt-app, `loop` then belongs to the only phase; without `loop`, the task never ends.
        let loops = loops(reader, object)?;
        if let (Some(Some(_)), Some(field)) = (loops, object.get(reader, "loop")) {
            reader.notes.add(
                &field.place,
                "ends the task after these passes, as in current rt-app (rt-app 1.0 ends it only if it has `phases`)",
            );
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
    variations.check_used(reader)?;
    Ok(task)
}

fn check_keys(reader: &mut Reader, object: &Object, has_phases: bool) -> Result<(), Error> {
    let known = [&KEYS[..], &policy::KEYS[..]].concat();
    for field in object.fields() {
        if OLD_KEYS.contains(&field.key) {
            return Err(reader.error(&field.key_place, OLD_LANGUAGE));
        }
        let legacy_parameter = field.key == "runtime";
        if has_phases && keys::is_event(field.key) && !legacy_parameter {
            return Err(reader.error(
                &field.key_place,
                "an event beside `phases` is never executed; move it into a phase",
            ));
        }
    }
    match has_phases {
        true => object.check_keys_as_rt_app(reader, &[&known[..], &["runtime"]].concat(), false),
        false => object.check_keys_as_rt_app(reader, &known, true),
    }
}

fn phases(
    reader: &mut Reader,
    field: &Field,
    task: &Task,
    shared: &mut Shared,
    variations: &mut Variations,
    index: usize,
) -> Result<Vec<Phase>, Error> {
    let object = field.object(reader)?;
    let known = [&PHASE_KEYS[..], &policy::KEYS[..]].concat();
    let mut current = task.policy;
    let mut group = task.taskgroup.clone();
    let mut names = BTreeSet::new();
    let mut list: Vec<Phase> = Vec::new();
    for field in object.fields() {
        if !names.insert(field.key) {
            reader.notes.remark(&field.key_place, Remark::RepeatedPhase);
        }
        if list.last().is_some_and(|phase| phase.loops.is_none()) {
            reader
                .notes
                .add(&field.key_place, "is never reached: the phase before it has \"loop\" : -1");
        }
        let object = field.object(reader)?;
        if let Some(delay) = object.get(reader, "delay") {
            reader.notes.add(&delay.key_place, event::DELAY_OF_TASKS);
        }
        object.check_keys_as_rt_app(reader, &known, true)?;
        let policy = policy::of_phase(reader, &object, current)?;
        let taskgroup = taskgroup(reader, &object, shared)?;
        shared.phase_places[index].push(field.key_place.clone());
        current = policy.unwrap_or(current);
        group = taskgroup.clone().or(group);
        check_taskgroup_policy(reader, &object, current, group.as_deref())?;
        let loops = loops(reader, &object)?.unwrap_or(Some(1));
        let cpus = cpus(reader, &object)?;
        let (events, varied) =
            event::read_all(reader, &object, shared, variations, index, task.instances)?;
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
        return Err(reader.error(
            &object.place,
            "there are no phases; add one such as \"p1\" : { \"run\" : 1000 }",
        ));
    }
    Ok(list)
}

/// The `loop` of an object: not given, for ever (`Some(None)`), or a number of passes.
fn loops(reader: &mut Reader, object: &Object) -> Result<Option<Option<u64>>, Error> {
    let Some(field) = object.get(reader, "loop") else {
        return Ok(None);
    };
    match field.integer(reader, -1..=i64::from(i32::MAX))? {
        -1 => Ok(Some(None)),
        0 => Err(reader.error(
            &field.place,
            "0 passes do nothing in a task and never end in a phase of rt-app; write a number \
             from 1, or -1 for ever",
        )),
        passes => Ok(Some(Some(passes as u64))),
    }
}

fn cpus(reader: &mut Reader, object: &Object) -> Result<Option<Vec<u32>>, Error> {
    if let Some(field) = object.get(reader, "nodes_membind") {
        field.numbers(reader, CPU_MAX)?;
        reader.notes.remark(&field.key_place, Remark::MemoryNodes);
    }
    let Some(field) = object.get(reader, "cpus") else {
        return Ok(None);
    };
    let mut cpus = field.numbers(reader, CPU_MAX)?;
    cpus.sort_unstable();
    cpus.dedup();
    Ok(Some(cpus))
}

fn taskgroup(
    reader: &mut Reader,
    object: &Object,
    shared: &mut Shared,
) -> Result<Option<String>, Error> {
    match object.get(reader, "taskgroup") {
        Some(field) => groups::read_taskgroup(reader, &field, &mut shared.groups),
        None => Ok(None),
    }
}

fn check_taskgroup_policy(
    reader: &Reader,
    object: &Object,
    policy: Policy,
    taskgroup: Option<&str>,
) -> Result<(), Error> {
    match (policy, taskgroup) {
        (Policy::Other { .. } | Policy::Batch { .. } | Policy::Idle | Policy::Ext { .. }, _)
        | (_, None) => Ok(()),
        (_, Some(group)) => Err(reader.error(
            &object.place,
            format!(
                "rt-app has no taskgroups for real-time and deadline policies, but the task would \
                 be in {group}; use SCHED_OTHER, SCHED_BATCH or SCHED_IDLE, or no taskgroup"
            ),
        )),
    }
}

/// Reads the key `fairground`: attributes for the scheduler, as written, the name of the process, the footprint, and whether the task is a daemon.
/// Returns how the events vary.
fn read_extension<'a>(
    reader: &mut Reader,
    object: &Object<'a>,
    task: &mut Task,
) -> Result<Variations<'a>, Error> {
    let mut variations = Variations::default();
    let Some(field) = object.get(reader, "fairground") else {
        return Ok(variations);
    };
    let object = field.object(reader)?;
    for (index, field) in object.fields().enumerate() {
        object.check_unique(reader, index, &field)?;
        if field.key == "vary" {
            variations = Variations::read(reader, &field)?;
            continue;
        }
        if field.key == "daemon" {
            task.daemon = field.boolean(reader)?;
            continue;
        }
        if field.key == "footprint" {
            task.footprint = field.integer(reader, 0..=FOOTPRINT_MAX)? as u64;
            continue;
        }
        if field.key == "process" {
            match field.value {
                Some(Value::String(name)) if !name.is_empty() => task.process = Some(name.clone()),
                _ => return Err(field.mismatch(reader, "the name of a process")),
            }
            continue;
        }
        let value = match field.value {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.clone(),
            Some(Value::Boolean(value)) => value.to_string(),
            _ => return Err(field.mismatch(reader, "a string, a number, true or false")),
        };
        task.attributes.push((field.key.to_string(), value));
    }
    Ok(variations)
}
