//! A workload as an rt-app file.

use std::collections::BTreeSet;
use std::path::Path;

use fairground_workload::{Event, GroupSettings, Policy, Share, Task, TimerMode, Workload};
use serde_json::{Map, Value, json};

/// Most events in a file that people still read.
const MOST: usize = 100_000;
/// Most control groups that tasks of an rt-app file are in.
const MOST_GROUPS: usize = 32;

/// Writes a workload made from a recording as an rt-app file. Its times are whole microseconds; the fraction that is cut off one run is added to the
/// next.
pub fn rt_app(workload: &Workload) -> Result<String, String> {
    let phases = workload.tasks.iter().flat_map(|task| &task.phases);
    let events: usize = phases.map(|phase| phase.events.len()).sum();
    if events > MOST {
        return Err(format!(
            "{} has {events} events, and rt-app files are only written for up to {MOST}; record for a shorter time",
            workload.name
        ));
    }
    let used: BTreeSet<&str> =
        workload.tasks.iter().filter_map(|task| task.taskgroup.as_deref()).collect();
    if used.len() > MOST_GROUPS {
        return Err(format!(
            "{} has tasks in {} control groups, and rt-app files have at most {MOST_GROUPS}; record fewer processes (--cgroup, --pid)",
            workload.name,
            used.len()
        ));
    }
    // rt-app only takes whole seconds.
    let duration = match workload.duration {
        Some(duration) => duration.div_ceil(1_000_000_000).to_string(),
        None => "-1".to_owned(),
    };
    let tasks: Vec<(String, String)> =
        workload.tasks.iter().map(|task| (task.name.clone(), definition(workload, task))).collect();
    let global = [
        ("duration".to_owned(), duration),
        ("calibration".to_owned(), json!("CPU0").to_string()),
        ("default_policy".to_owned(), json!("SCHED_OTHER").to_string()),
    ];
    let mut file =
        vec![("tasks".to_owned(), object(&tasks, 1)), ("global".to_owned(), object(&global, 1))];
    let groups = groups(workload, &used);
    if !groups.is_empty() {
        let extension = json!({ "groups": groups });
        file.push(("fairground".to_owned(), extension.to_string()));
    }
    Ok(object(&file, 0).replace('%', &stand_in(workload)) + "\n")
}

/// What stands for `%`, which begins an expression in the strings of a file, and makes no two names of tasks one.
fn stand_in(workload: &Workload) -> String {
    let names: BTreeSet<&str> = workload.tasks.iter().map(|task| task.name.as_str()).collect();
    let is_clear = |sign: &String| {
        let renamed = names.iter().map(|name| name.replace('%', sign));
        renamed.collect::<BTreeSet<_>>().len() == names.len()
    };
    (1..).map(|length| "_".repeat(length)).find(is_clear).unwrap_or_default()
}

/// An object whose keys keep their order, which is the order of events.
fn object(entries: &[(String, String)], depth: usize) -> String {
    let indent = "\t".repeat(depth + 1);
    let lines: Vec<String> =
        entries.iter().map(|(key, value)| format!("{indent}{} : {value}", json!(key))).collect();
    format!("{{\n{}\n{}}}", lines.join(",\n"), "\t".repeat(depth))
}

/// The groups that tasks are in and those above them, with their settings.
fn groups(workload: &Workload, used: &BTreeSet<&str>) -> Map<String, Value> {
    let groups = workload.groups.iter();
    groups
        .filter(|group| used.iter().any(|used| Path::new(used).starts_with(&group.path)))
        .map(|group| {
            let mut entry = settings(&group.settings);
            let changes: Vec<Value> = group
                .changes
                .iter()
                .map(|change| {
                    let mut entry = settings(&change.settings);
                    entry.insert("at".to_owned(), json!(change.at / 1000));
                    Value::Object(entry)
                })
                .collect();
            if !changes.is_empty() {
                entry.insert("changes".to_owned(), json!(changes));
            }
            (group.path.clone(), Value::Object(entry))
        })
        .collect()
}

/// All settings, under the names of the kernel's files.
fn settings(settings: &GroupSettings) -> Map<String, Value> {
    let bandwidth = settings.bandwidth;
    let quota = bandwidth.quota.map_or("max".to_owned(), |quota| (quota / 1000).to_string());
    let share = match settings.share {
        Share::Weight(weight) => Some(("cpu.weight", json!(weight))),
        Share::Nice(nice) => Some(("cpu.weight.nice", json!(nice))),
        Share::Idle => None,
    };
    let entries = [
        // Also for a weight, because the group may have been idle before.
        ("cpu.idle", json!(u8::from(share.is_none()))),
        ("cpu.max", json!(format!("{quota} {}", bandwidth.period / 1000))),
        ("cpu.max.burst", json!(bandwidth.burst / 1000)),
    ];
    share.into_iter().chain(entries).map(|(key, value)| (key.to_owned(), value)).collect()
}

fn definition(workload: &Workload, task: &Task) -> String {
    let mut entries = Vec::new();
    let mut add = |key: &str, value: Value| entries.push((key.to_owned(), value.to_string()));
    add("instance", json!(task.instances));
    if task.delay > 0 {
        add("delay", json!(task.delay / 1000));
    }
    let (policy, priority) = match task.policy {
        Policy::Other { nice, .. } => ("SCHED_OTHER", nice),
        Policy::Batch { nice, .. } => ("SCHED_BATCH", nice),
        Policy::Idle => ("SCHED_IDLE", 0),
        Policy::Ext { nice } => ("SCHED_EXT", nice),
        Policy::Fifo { priority } => ("SCHED_FIFO", priority as i32),
        Policy::RoundRobin { priority } => ("SCHED_RR", priority as i32),
        Policy::Deadline { .. } => ("SCHED_OTHER", 0),
    };
    add("policy", json!(policy));
    add("priority", json!(priority));
    if let Some(cpus) = &task.cpus {
        add("cpus", json!(cpus));
    }
    if let Some(group) = &task.taskgroup {
        add("taskgroup", json!(group));
    }
    if let Some(process) = &task.process {
        add("fairground", json!({ "process": process }));
    }
    add("loop", json!(1));
    let phases: Vec<(String, String)> = task
        .phases
        .iter()
        .map(|phase| {
            let loops = phase.loops.map_or(-1, |loops| loops as i64);
            let mut events = vec![("loop".to_owned(), loops.to_string())];
            let mut rest = 0;
            for (place, event) in phase.events.iter().enumerate() {
                if let Some((key, value)) = entry_of(workload, &event, &mut rest) {
                    events.push((format!("{key}{place}"), value.to_string()));
                }
            }
            // A phase whose runs are all too short does nothing.
            if events.len() == 1 {
                events.push(("run".to_owned(), json!(0).to_string()));
            }
            (phase.name.clone(), object(&events, 4))
        })
        .collect();
    entries.push(("phases".to_owned(), object(&phases, 3)));
    object(&entries, 2)
}

/// Key and value of an event; `None` for a run that is too short.
fn entry_of(workload: &Workload, event: &Event, rest: &mut u64) -> Option<(&'static str, Value)> {
    let micros = |time: u64| (time + 500) / 1000;
    Some(match *event {
        Event::Run(time) => {
            let whole = time + *rest;
            *rest = whole % 1000;
            if whole < 1000 {
                return None;
            }
            ("run", json!(whole / 1000))
        }
        Event::Sleep(time) => ("sleep", json!(micros(time).max(1))),
        Event::Timer { timer, period, mode } => {
            let mode = match mode {
                TimerMode::Absolute => "absolute",
                _ => "relative",
            };
            let name = format!("{}-{timer}", workload.timers[timer].name);
            ("timer", json!({ "ref": name, "period": micros(period), "mode": mode }))
        }
        Event::SemPost(semaphore) => ("sem_post", json!(workload.semaphores[semaphore])),
        Event::SemWait(semaphore) => ("sem_wait", json!(workload.semaphores[semaphore])),
        Event::Lock(mutex) => ("lock", json!(workload.mutexes[mutex].name)),
        Event::Unlock(mutex) => ("unlock", json!(workload.mutexes[mutex].name)),
        Event::Yield => ("yield", json!("")),
        Event::Fork(task) => ("fork", json!(workload.tasks[task].name)),
        Event::Disk { disk, service } => {
            let value =
                json!({ "disk": { "disk": workload.disks[disk], "service": micros(service) } });
            ("fairground", value)
        }
        // Recordings have no other events.
        _ => return None,
    })
}
