//! The `global` object.

use crate::error::Error;
use crate::json::Value;
use crate::notes::Remark;
use crate::object::Object;
use crate::policy::PolicyName;

const KEYS: [&str; 14] = [
    "duration",
    "calibration",
    "default_policy",
    "pi_enabled",
    "lock_pages",
    "logdir",
    "log_basename",
    "log_size",
    "ftrace",
    "gnuplot",
    "io_device",
    "mem_buffer_size",
    "cumulative_slack",
    // Long without effect, but in most of rt-app's own examples.
    "frag",
];

/// Categories of `ftrace`.
const FTRACE: [&str; 6] = ["main", "task", "loop", "event", "stats", "none"];

/// The global settings that a program of tasks needs; the others concern rt-app's logs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Global {
    /// In nanoseconds; `None` for until all tasks end.
    pub duration: Option<u64>,
    pub default_policy: PolicyName,
}

impl Default for Global {
    fn default() -> Self {
        Self { duration: None, default_policy: PolicyName::Other }
    }
}

/// Reads the object and checks every setting in it.
pub(crate) fn read(object: &Object) -> Result<Global, Error> {
    object.check_keys_as_rt_app(&KEYS, false)?;
    let mut global = Global::default();
    if let Some(field) = object.get("duration") {
        match field.integer(-1..=i64::from(i32::MAX))? {
            -1 => {}
            0 => field.note("0 means until all tasks end, like -1, as in rt-app"),
            seconds => global.duration = Some(seconds as u64 * 1_000_000_000),
        }
    }
    if let Some(field) = object.get("default_policy") {
        global.default_policy = PolicyName::read(&field)?;
    }
    check_calibration(object)?;
    check_log_size(object)?;
    check_ftrace(object)?;
    for key in ["lock_pages", "gnuplot", "cumulative_slack"] {
        object.boolean(key)?;
    }
    for key in ["logdir", "log_basename", "io_device"] {
        object.string(key)?;
    }
    object.integer("mem_buffer_size", 1..=i64::from(i32::MAX))?;
    if let Some(field) = object.get("pi_enabled") {
        if field.boolean()? {
            field.remark(Remark::PriorityInheritance);
        }
    }
    if let Some(field) = object.get("frag") {
        field.key_remark(Remark::Frag);
    }
    Ok(global)
}

fn check_calibration(object: &Object) -> Result<(), Error> {
    let Some(field) = object.get("calibration") else { return Ok(()) };
    let valid = match field.value {
        Some(Value::Number(number)) => number.parse::<i32>().is_ok_and(|ns| ns >= 0),
        Some(Value::String(text)) => {
            text.strip_prefix("CPU").is_some_and(|cpu| cpu.parse::<u32>().is_ok())
        }
        _ => false,
    };
    if valid {
        return Ok(());
    }
    Err(field.mismatch("\"CPU0\" (where to calibrate) or the nanoseconds per loop as an integer"))
}

fn check_log_size(object: &Object) -> Result<(), Error> {
    let Some(field) = object.get("log_size") else { return Ok(()) };
    let valid = match field.value {
        Some(Value::Number(number)) => number.parse::<i32>().is_ok_and(|size| size >= 0),
        // The tutorial capitalizes some of these words.
        Some(Value::String(text)) => {
            ["file", "disable", "auto"].contains(&text.to_ascii_lowercase().as_str())
        }
        _ => false,
    };
    if valid {
        return Ok(());
    }
    Err(field.mismatch("\"file\", \"disable\", \"auto\" or a size in MB as an integer"))
}

fn check_ftrace(object: &Object) -> Result<(), Error> {
    let Some(field) = object.get("ftrace") else { return Ok(()) };
    let valid = match field.value {
        Some(Value::Boolean(_)) => true,
        Some(Value::String(text)) => text
            .split(',')
            .filter(|category| !category.is_empty())
            .all(|category| FTRACE.contains(&category.to_ascii_lowercase().as_str())),
        _ => false,
    };
    if valid {
        return Ok(());
    }
    Err(field
        .mismatch(&format!("true, false or a list such as \"main,task\" of {}", FTRACE.join(", "))))
}
