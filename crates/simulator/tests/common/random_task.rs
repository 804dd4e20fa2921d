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
    /// Its attributes in every other phase.
    pub changes: Option<Changes>,
    /// Whether each instance begins with a fork; not for one that changes.
    pub forks: bool,
}

/// A task's attributes for a while.
#[derive(Clone, Debug)]
pub struct Changes {
    pub nice: i32,
    /// Priority of a real-time task, in place of the nice value.
    pub real_time: Option<u32>,
    /// CPUs that it may use; none: those that it may use otherwise.
    pub cpus: Vec<u32>,
}

/// Policy and priority of a task, as rt-app has them.
fn policy(real_time: Option<u32>, nice: i32) -> String {
    let (policy, priority) = match real_time {
        Some(priority) => ("SCHED_FIFO", priority as i32),
        None => ("SCHED_OTHER", nice),
    };
    format!("\"policy\": \"{policy}\", \"priority\": {priority}")
}

/// The workload of these tasks, which never end, as text.
pub fn json(tasks: &[RandomTask], cpus: u32) -> String {
    let mut text = String::from("{\"tasks\": {");
    for (number, task) in tasks.iter().enumerate() {
        let comma = if number > 0 { "," } else { "" };
        let usual = policy(task.real_time, task.nice);
        let _ = write!(
            text,
            "{comma}\"t{number}\": {{\"instance\": {}, \"loop\": -1, {usual}",
            task.instances
        );
        if let Some(cpu) = task.pinned {
            let _ = write!(text, ", \"cpus\": [{}]", cpu % cpus);
        }
        text.push_str(", \"phases\": {");
        if let Some(changes) = &task.changes {
            let for_a_while = policy(changes.real_time, changes.nice);
            let _ = write!(text, "\"q\": {{\"loop\": 2, {for_a_while}, \"run\": {}", task.run);
            if !changes.cpus.is_empty() {
                let list: Vec<u32> = changes.cpus.iter().map(|cpu| cpu % cpus).collect();
                let _ = write!(text, ", \"cpus\": {list:?}");
            }
            let _ = write!(text, "}}, \"p\": {{\"loop\": 3, {usual}");
        } else {
            if task.forks {
                let _ = write!(text, "\"f\": {{\"loop\": 1, \"fork\": \"c{number}\"}}, ");
            }
            text.push_str("\"p\": {\"loop\": -1");
        }
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
        if task.forks {
            let _ = write!(
                text,
                ",\"c{number}\": {{\"instance\": 0, \"loop\": 20, {usual}, \"run\": {}, \"sleep\": 700}}",
                task.run / 8 + 1
            );
        }
    }
    text.push_str("}}");
    text
}
