//! Workloads of random tasks.

use std::fmt::Write;

/// A random task of a workload.
#[derive(Clone, Debug)]
pub struct RandomTask {
    pub instances: u32,
    pub nice: i32,
    pub run: u32,
    pub sleep: u32,
    pub period: u32,
    pub pinned: Option<u32>,
    pub yields: bool,
    pub locks: bool,
    /// Priority of a real-time task.
    pub real_time: Option<u32>,
    /// A nice value and a CPU that it has in every other phase.
    pub changes: Option<(i32, u32)>,
}

/// The workload of these tasks, which never end, as text.
pub fn json(tasks: &[RandomTask], cpus: u32) -> String {
    let mut text = String::from("{\"tasks\": {");
    for (number, task) in tasks.iter().enumerate() {
        let comma = if number > 0 { "," } else { "" };
        let (policy, priority) = match task.real_time {
            Some(priority) => ("SCHED_FIFO", priority as i32),
            None => ("SCHED_OTHER", task.nice),
        };
        let _ = write!(
            text,
            "{comma}\"t{number}\": {{\"instance\": {}, \"loop\": -1, \"policy\": \"{policy}\", \"priority\": {priority}",
            task.instances
        );
        if let Some(cpu) = task.pinned {
            let _ = write!(text, ", \"cpus\": [{}]", cpu % cpus);
        }
        text.push_str(", \"phases\": {");
        if let Some((nice, cpu)) = task.changes {
            let _ = write!(
                text,
                "\"q\": {{\"loop\": 2, \"policy\": \"SCHED_OTHER\", \"priority\": {nice}, \"cpus\": [{}], \"run\": {}}}, ",
                cpu % cpus,
                task.run
            );
        }
        let loops = if task.changes.is_some() { 3 } else { -1 };
        let _ = write!(text, "\"p\": {{\"loop\": {loops}");
        if task.locks {
            let _ = write!(
                text,
                ", \"lock\": \"m\", \"run0\": {}, \"unlock\": \"m\"",
                task.run / 4 + 1
            );
        }
        let _ = write!(text, ", \"run\": {}", task.run);
        if task.yields {
            text.push_str(", \"yield\": \"\"");
        }
        if task.sleep > 0 {
            let _ = write!(text, ", \"sleep\": {}", task.sleep);
        }
        if task.period > 0 {
            let _ = write!(
                text,
                ", \"timer\": {{\"ref\": \"unique{number}\", \"period\": {}}}",
                task.period
            );
        }
        text.push_str("}}}");
    }
    text.push_str("}}");
    text
}
