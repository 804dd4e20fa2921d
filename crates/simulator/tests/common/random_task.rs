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
}

/// The workload of these tasks, which never end, as text.
pub fn json(tasks: &[RandomTask], cpus: u32) -> String {
    let mut text = String::from("{\"tasks\": {");
    for (number, task) in tasks.iter().enumerate() {
        let comma = if number > 0 { "," } else { "" };
        let _ = write!(
            text,
            "{comma}\"t{number}\": {{\"instance\": {}, \"loop\": -1, \"policy\": \"SCHED_OTHER\", \"priority\": {}",
            task.instances, task.nice
        );
        if let Some(cpu) = task.pinned {
            let _ = write!(text, ", \"cpus\": [{}]", cpu % cpus);
        }
        text.push_str(", \"phases\": {\"p\": {\"loop\": -1");
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
