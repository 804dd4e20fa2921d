//! Describes a recording for people.

use std::fmt::Write as _;
use std::path::Path;

use fairground_lab::recorded_metrics;
use fairground_metrics::TaskMetrics;
use fairground_recording::{Recording, Roots};
use fairground_workload::{Event, Task};

use crate::output::wrap;

/// Width of the output, in columns.
const WIDTH: usize = 100;
/// Tasks that are listed individually: those that used the most CPU time.
const MOST: usize = 30;

/// What was recorded, how accurate it is as a workload, and its tasks.
///
/// # Errors
///
/// A message, if it cannot be read.
pub fn describe(path: &Path) -> Result<String, String> {
    let recording = Recording::read(path).map_err(|error| error.to_string())?;
    let load = recording.load().map_err(|error| error.to_string())?;
    let metrics = recorded_metrics(&recording);
    let header = &recording.header;
    let of = match (&header.roots, header.command.as_slice()) {
        (Roots::All, _) => "all tasks".to_owned(),
        (Roots::Tasks(_), []) => "chosen processes".to_owned(),
        (Roots::Tasks(_), command) => command.join(" "),
    };
    let length = recording.length().max(1);
    let mut text = format!(
        "{}: {of}\n\n  {:.3} s on {} CPU{}, Linux {}, under {}, by {}\n",
        recording.name,
        length as f64 / 1e9,
        header.cpus,
        if header.cpus == 1 { "" } else { "s" },
        header.kernel,
        header
            .scheduler
            .as_deref()
            .unwrap_or("the kernel's own scheduler"),
        header.source,
    );
    let others: u64 = load
        .others
        .iter()
        .flat_map(|other| &other.turns)
        .map(|turn| turn.cpu_time)
        .sum();
    let _ = writeln!(
        text,
        "  {} tasks, {} wake-ups, {} context switches; {} other threads used {:.1} % of the CPU time\n",
        load.workload.tasks.len(),
        metrics.wakeups,
        metrics.context_switches,
        load.others.len(),
        100.0 * others as f64 / (length * u64::from(header.cpus)) as f64
    );
    text.push_str("As a workload\n");
    text.push_str(&wrap(&load.loss.to_string(), WIDTH, 2));
    text.push_str("\nTasks, by CPU time in percent of the recording\n");
    let mut tasks: Vec<(&TaskMetrics, &Task)> = load
        .workload
        .tasks
        .iter()
        .filter_map(|task| {
            let measured = metrics.tasks.iter().find(|one| one.name == task.name)?;
            Some((measured, task))
        })
        .collect();
    tasks.sort_by_key(|(measured, _)| std::cmp::Reverse(measured.cpu_time_ns));
    for (measured, task) in tasks.iter().take(MOST) {
        let latency = measured.wakeup_latency.as_ref();
        let latency = latency.map_or(String::new(), |latency| {
            format!(
                ", half of {} wake-ups within {:.3} ms, 99 % within {:.3} ms",
                latency.samples,
                latency.p50_ns as f64 / 1e6,
                latency.p99_ns as f64 / 1e6
            )
        });
        let _ = writeln!(
            text,
            "  {:16} {:6.2} %{latency}{}",
            task.name,
            100.0 * measured.cpu_time_ns as f64 / length as f64,
            waits(task)
        );
    }
    if tasks.len() > MOST {
        let _ = writeln!(text, "  and {} more", tasks.len() - MOST);
    }
    Ok(text)
}

/// What a task waits for, in words.
fn waits(task: &Task) -> String {
    let mut counts = [
        ("woken by tasks", 0),
        ("mutexes", 0),
        ("timers", 0),
        ("disks", 0),
        ("points in time", 0),
        ("yields", 0),
    ];
    let mut period = None;
    for event in task
        .phases
        .iter()
        .take(1)
        .flat_map(|phase| phase.events.iter())
    {
        let place = match event {
            Event::SemWait(_) => 0,
            Event::Lock(_) => 1,
            Event::Sleep(_) => 2,
            Event::Disk { .. } => 3,
            Event::Timer { period: length, .. } => {
                period = Some(length);
                4
            }
            Event::Yield => 5,
            _ => continue,
        };
        counts[place].1 += 1;
    }
    let mut words: Vec<String> = counts
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(what, count)| format!("{count} {what}"))
        .collect();
    let constant = task
        .phases
        .iter()
        .skip(1)
        .flat_map(|phase| phase.events.iter());
    let same = |event: Event| match event {
        Event::Timer { period: length, .. } => Some(length) == period,
        _ => true,
    };
    if let Some(period) = period.filter(|_| task.phases.len() > 1 && constant.clone().all(same)) {
        words.push(format!("every {:.3} ms", period as f64 / 1e6));
    }
    if task.phases.len() > 1 {
        words.push("goes on".to_owned());
    }
    if words.is_empty() {
        return String::new();
    }
    format!("; {}", words.join(", "))
}
