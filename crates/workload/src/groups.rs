//! Control groups: their paths, and the settings that their files in cgroup v2 have.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use crate::error::Error;
use crate::json::Value;
use crate::model::{Bandwidth, Group, GroupChange, GroupSettings, Share, Task};
use crate::notes::Place;
use crate::object::{Field, Object};
use crate::policy::MICROSECONDS_MAX;

/// Weights that `cpu.weight` takes.
const WEIGHTS: RangeInclusive<i64> = 1..=10_000;

/// Periods that `cpu.max` takes, microseconds.
const PERIODS: RangeInclusive<u64> = 1000..=1_000_000;

/// The least quota that it takes, microseconds.
const QUOTA_MIN: u64 = 1000;

/// The settings that a group can have here, by the names of their files.
const SETTINGS: [&str; 5] =
    ["cpu.weight", "cpu.weight.nice", "cpu.idle", "cpu.max", "cpu.max.burst"];

/// A path without empty parts and without a slash at its end; `/` for the root. `None` if it would lead elsewhere than it says.
fn normalise(path: &str) -> Option<String> {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    if parts.clone().any(|part| matches!(part, "." | "..")) {
        return None;
    }
    let first = parts.next().unwrap_or_default();
    Some(parts.fold(format!("/{first}"), |path, part| format!("{path}/{part}")))
}

/// Reads a `taskgroup`: a path, or an object with settings for it.
pub(crate) fn read_taskgroup(
    field: &Field,
    groups: &mut Vec<Group>,
) -> Result<Option<String>, Error> {
    let Some(Value::Object(_)) = field.value else {
        return match field.string()? {
            "" => Ok(None),
            path => match normalise(path).filter(|_| path.starts_with('/')) {
                Some(path) => Ok(Some(path)),
                None => Err(field.mismatch("a path from the root group, such as \"/group\"")),
            },
        };
    };
    let object = field.object()?;
    object.check_keys(&[&["path", "name"], &SETTINGS[..]].concat())?;
    let path = match object.get("path") {
        Some(path) => path,
        None => object.require("name", "\"path\" : \"/group\"")?,
    };
    let path = normalise(path.name()?)
        .ok_or_else(|| path.mismatch("a path from the root group, such as \"/group\""))?;
    let settings = read_settings(&object, GroupSettings::default())?;
    match groups.iter().find(|group| group.path == path) {
        Some(group) if group.settings != settings => Err(object
            .error(format!("another task gives {path} other settings; write the same everywhere"))),
        Some(_) => Ok(Some(path)),
        None => {
            groups.push(Group { settings, ..Group::new(&path) });
            Ok(Some(path))
        }
    }
}

/// Reads `groups` of the whole file's `fairground` object into the groups that tasks have given settings.
pub(crate) fn read(field: &Field, tasks: &[Task], groups: &mut Vec<Group>) -> Result<(), Error> {
    let used = used_paths(tasks);
    let object = field.object()?;
    for (index, field) in object.fields().enumerate() {
        object.check_unique(index, &field)?;
        let path = normalise(field.key).filter(|path| field.key.starts_with('/') && path != "/");
        let Some(path) = path else {
            return Err(
                field.key_error("not a path below the root group; write one such as \"/group\"")
            );
        };
        if !used.contains(&path) {
            return Err(field.key_error(format!("no task is in this group or below it; give one \"taskgroup\" : \"{path}\", or correct the path")));
        }
        if groups.iter().any(|group| group.path == path) {
            return Err(field.key_error("this group has settings already; keep one of the two"));
        }
        groups.push(read_group(path, &field.object()?)?);
    }
    Ok(())
}

fn read_group(path: String, object: &Object) -> Result<Group, Error> {
    object.check_keys(&[&SETTINGS[..], &["changes"]].concat())?;
    let settings = read_settings(object, GroupSettings::default())?;
    let mut changes: Vec<GroupChange> = Vec::new();
    let list = object.get("changes").map(|field| field.objects()).transpose()?;
    for object in list.unwrap_or_default() {
        object.check_keys(&[&SETTINGS[..], &["at"]].concat())?;
        let field = object.require("at", "\"at\" : 500000 (microseconds)")?;
        let at = field.integer(0..=MICROSECONDS_MAX)? as u64 * 1000;
        let last = changes.last();
        if last.is_some_and(|last| last.at > at) {
            return Err(
                field.error("earlier than the change before it; put changes in order of time")
            );
        }
        let before = last.map_or(settings, |last| last.settings);
        let settings = read_settings(&object, before)?;
        changes.push(GroupChange { at, settings });
    }
    Ok(Group { path, settings, changes })
}

/// The settings `before`, changed as an object says.
fn read_settings(object: &Object, before: GroupSettings) -> Result<GroupSettings, Error> {
    let mut settings = before;
    let shares = ["cpu.weight", "cpu.weight.nice"].map(|key| object.has(key));
    if let Some(idle) = object.integer("cpu.idle", 0..=1)? {
        settings.share = match (idle, settings.share) {
            (1, _) => Share::Idle,
            // The kernel forgets the earlier weight.
            (_, Share::Idle) => Share::Weight(100),
            (_, share) => share,
        };
    }
    if shares == [true, true] || settings.share == Share::Idle && shares.contains(&true) {
        return Err(object.error(
            "a group has one of cpu.weight, cpu.weight.nice and \"cpu.idle\" : 1; keep one",
        ));
    }
    if let Some(weight) = object.integer("cpu.weight", WEIGHTS)? {
        settings.share = Share::Weight(weight as u32);
    }
    if let Some(nice) = object.integer("cpu.weight.nice", -20..=19)? {
        settings.share = Share::Nice(nice as i32);
    }
    if let Some(field) = object.get("cpu.max") {
        read_max(&field, &mut settings.bandwidth)?;
    }
    if let Some(burst) = object.integer("cpu.max.burst", 0..=MICROSECONDS_MAX)? {
        settings.bandwidth.burst = burst as u64 * 1000;
    }
    let bandwidth = settings.bandwidth;
    if bandwidth.quota.is_some_and(|quota| quota < bandwidth.burst) {
        let place =
            Place { path: format!("{}.cpu.max.burst", object.place.path), ..object.place.clone() };
        return Err(object.reader.error(
            &place,
            "more than the quota of cpu.max, which the kernel refuses; write at most that",
        ));
    }
    Ok(settings)
}

/// `cpu.max`: "QUOTA PERIOD", "QUOTA", "max" or "max PERIOD", in microseconds.
fn read_max(field: &Field, bandwidth: &mut Bandwidth) -> Result<(), Error> {
    let mismatch = || {
        field.mismatch("\"QUOTA PERIOD\" in microseconds, such as \"20000 100000\": a quota of at least 1000 or max, and a period from 1000 to 1000000")
    };
    let text = match field.value {
        Some(Value::String(text)) => text,
        Some(Value::Number(text)) => text,
        _ => return Err(mismatch()),
    };
    let mut words = text.split_ascii_whitespace();
    let (Some(quota), period, None) = (words.next(), words.next(), words.next()) else {
        return Err(mismatch());
    };
    if let Some(period) = period {
        match period.parse() {
            Ok(period) if PERIODS.contains(&period) => bandwidth.period = period * 1000,
            _ => return Err(mismatch()),
        }
    }
    bandwidth.quota = match quota.parse::<u64>() {
        Ok(quota) if (QUOTA_MIN..=MICROSECONDS_MAX as u64).contains(&quota) => Some(quota * 1000),
        Err(_) if quota == "max" => None,
        _ => return Err(mismatch()),
    };
    Ok(())
}

/// The paths of all groups that tasks are in at any time, and of those above them.
fn used_paths(tasks: &[Task]) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    for path in tasks.iter().flat_map(Task::groups) {
        let above = path.match_indices('/').map(|(end, _)| &path[..end]);
        paths.extend(above.chain([path]).map(str::to_owned));
    }
    paths.retain(|path| path.len() > 1);
    paths
}

/// All groups in the order in which they are made: those with settings first, in the order of the file, then those that tasks name; each after
/// the groups above it.
pub(crate) fn complete(groups: Vec<Group>, tasks: &[Task]) -> Vec<Group> {
    let mut made: Vec<Group> = Vec::new();
    let named = groups.iter().map(|group| group.path.as_str());
    for path in named.chain(tasks.iter().flat_map(Task::groups)) {
        let above = path.match_indices('/').map(|(end, _)| &path[..end]);
        for path in above.chain([path]).filter(|path| path.len() > 1) {
            if made.iter().all(|group| group.path != path) {
                let known = groups.iter().find(|group| group.path == path);
                made.push(known.cloned().unwrap_or_else(|| Group::new(path)));
            }
        }
    }
    made
}

impl Task {
    /// The groups that it is in at any time, as paths.
    fn groups(&self) -> impl Iterator<Item = &str> {
        let later = self.phases.iter().filter_map(|phase| phase.taskgroup.as_deref());
        self.taskgroup.as_deref().into_iter().chain(later)
    }
}
