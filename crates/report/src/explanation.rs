//! Why tasks waited, as text and as JSON.

use std::fmt::Write as _;

use fairground_metrics::{Action, Cause, CpuUse, Explanation, Place, Ran, Stay, Step};
use fairground_results::{Labels, Waits};
use schemars::JsonSchema;
use serde::Serialize;

use crate::format::time;
use crate::groups::basis;
use crate::json::Document;
use crate::text::each_once;

/// Maximum number of tasks named for a CPU; the others are counted.
const NAMED: usize = 4;

/// The document that `fairground explain --format json` prints. Times are in nanoseconds since the start of the run.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Explained waits")]
pub(crate) struct WaitsDocument<'a> {
    /// Version of this form.
    version: u32,
    /// Version of fairground, with its commit.
    fairground: &'a str,
    /// The runs, in the order in which they were asked for.
    runs: Vec<RunDocument<'a>>,
}

impl Document for WaitsDocument<'_> {
    const COMMAND: &'static str = "explain";
    const VERSION: u32 = 2;
}

/// A run.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RunDocument<'a> {
    /// The names of the run's parts: scheduler, workload, machine.
    labels: &'a Labels,
    /// Its waits, the longest first.
    waits: Vec<WaitDocument<'a>>,
    /// Remarks about the run, one sentence each.
    notes: &'a [String],
}

/// A wait.
#[derive(Serialize, JsonSchema)]
#[schemars(extend("unevaluatedProperties" = false))]
struct WaitDocument<'a> {
    /// Why, in a sentence.
    why: String,
    #[serde(flatten)]
    wait: &'a Explanation,
}

/// Explained waits as indented JSON, with a trailing newline; `fairground` is its version.
pub fn waits_json(runs: &[Waits], fairground: &str) -> String {
    let mut documents = Vec::new();
    for run in runs {
        let wait = |wait| WaitDocument { why: why(wait), wait };
        documents.push(RunDocument {
            labels: &run.labels,
            waits: run.waits.iter().map(wait).collect(),
            notes: &run.notes,
        });
    }
    WaitsDocument { version: WaitsDocument::VERSION, fairground, runs: documents }.text()
}

/// Explained waits for people.
pub fn waits_text(runs: &[Waits]) -> String {
    runs.iter().map(run_text).collect::<Vec<_>>().join("\n")
}

fn run_text(run: &Waits) -> String {
    let labels = &run.labels;
    let mut conditions = basis(labels);
    conditions.extend(labels.seed.map(|seed| format!("seed {seed}")));
    let mut text =
        format!("{} under {} ({})\n", labels.workload, labels.scheduler, conditions.join(", "));
    if run.waits.is_empty() {
        text.push_str("\nNo task waited that long.\n");
    }
    for wait in &run.waits {
        text.push_str(&wait_text(wait));
    }
    for note in &run.notes {
        let _ = write!(text, "\nNote: {note}\n");
    }
    text
}

fn wait_text(wait: &Explanation) -> String {
    let end = if wait.ran { "" } else { ", when the run ended" };
    let mut text = format!(
        "\n{} waited {}, from {} to {}{end}\n  {}\n",
        wait.task,
        time(wait.to_ns - wait.from_ns),
        instant(wait.from_ns),
        instant(wait.to_ns),
        why(wait)
    );
    text.push_str("\n  Where it was\n");
    for stay in wait.places.iter().filter(|stay| stay.duration_ns > 0) {
        let duration = time(stay.duration_ns);
        let _ = writeln!(text, "    {duration:>9}  {}", place(stay.place));
    }
    text.push_str("\n  What ran meanwhile on the CPUs it may use\n");
    for cpu in &wait.cpus {
        let _ = writeln!(text, "    CPU {:<4} {}", cpu.cpu, use_text(cpu, length(wait)));
    }
    text.push_str("\n  What happened to it\n");
    for (number, step) in wait.steps.iter().enumerate() {
        let behind = wait.steps.len() - number;
        if wait.steps_left_out > 0 && behind == fairground_metrics::LAST_STEPS {
            let _ = writeln!(text, "    ... {} more", wait.steps_left_out);
        }
        let _ = writeln!(text, "    {}  {}", instant(step.time_ns), step_text(step));
    }
    text
}

/// A time in the run, to the nanosecond.
fn instant(nanoseconds: u64) -> String {
    let (seconds, rest) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
    format!("{seconds}.{rest:09} s")
}

fn place(place: Place) -> String {
    match place {
        Place::Kernel => "outside the scheduler: in another class".to_owned(),
        Place::Way => "on its way: woken, moved or switched to".to_owned(),
        Place::Scheduler => "in the scheduler's own data, in no dispatch queue".to_owned(),
        Place::Local { cpu } => format!("local DSQ of CPU {cpu}"),
        Place::Global { node } => format!("global DSQ of node {node}"),
        // The kernel's messages give ids in hexadecimal; sources use small ones in decimal.
        Place::Queue { id } if id < 1 << 16 => format!("DSQ {id}"),
        Place::Queue { id } => format!("DSQ 0x{id:x}"),
    }
}

fn length(wait: &Explanation) -> u64 {
    wait.to_ns - wait.from_ns
}

/// What a CPU did during a wait of this length.
fn use_text(cpu: &CpuUse, length: u64) -> String {
    let named = cpu.ran.iter().take(NAMED).map(|ran| {
        let class = match (ran.real_time, ran.priority, ran.endless) {
            (true, Some(priority), _) => format!(" (real-time {priority})"),
            (true, None, _) => " (real-time)".to_owned(),
            (false, _, true) => " (its slice never ends)".to_owned(),
            (false, _, false) => String::new(),
        };
        format!("{}{class} {}", ran.task, time(ran.duration_ns))
    });
    let mut parts: Vec<String> = named.collect();
    if let Some(others @ [_, ..]) = cpu.ran.get(NAMED..) {
        let sum = others.iter().map(|ran| ran.duration_ns).sum();
        parts.push(format!("{} others {}", others.len(), time(sum)));
    }
    // Each switch and each interrupt adds to it.
    let overhead = if cpu.overhead_ns > length / 10 { cpu.overhead_ns } else { 0 };
    let of_nobody =
        [("idle", cpu.idle_ns), ("overhead", overhead), ("offline", cpu.offline_ns)].into_iter();
    let of_nobody = of_nobody.filter(|(_, duration)| *duration > 0);
    parts.extend(of_nobody.map(|(what, duration)| format!("{what} {}", time(duration))));
    parts.join(", ")
}

fn step_text(step: &Step) -> String {
    match &step.action {
        Action::Woken { cpu, by: Some(by) } => format!("woken by {by}, on CPU {cpu}"),
        Action::Woken { cpu, by: None } => format!("woken, on CPU {cpu}"),
        Action::Callback { callback, cpu, chosen_cpu, duration_ns } => {
            let chosen = chosen_cpu.map(|cpu| format!(" chose CPU {cpu},"));
            format!("{callback} on CPU {cpu}:{} {}", chosen.unwrap_or_default(), time(*duration_ns))
        }
        Action::Inserted { queue, slice_ns, vtime } => {
            let slice = slice_ns.map_or("without end".to_owned(), time);
            let vtime = vtime.map(|vtime| format!(", vtime {vtime}")).unwrap_or_default();
            format!("into the {}, slice {slice}{vtime}", place(*queue))
        }
        Action::Removed { queue } => format!("out of the {}", place(*queue)),
        Action::Preempted { cpu } => format!("off CPU {cpu}"),
        Action::Runs { cpu } => format!("runs on CPU {cpu}"),
    }
}

/// Why a task waited, in one line.
pub fn why(wait: &Explanation) -> String {
    let behind = |whom: &str, is_one: fn(&Ran) -> bool, duration_ns: u64, cpu: Option<u32>| {
        let online = online(wait).count();
        let (place, sum) = match cpu {
            Some(cpu) => (format!("CPU {cpu}, where it lay,"), String::new()),
            None if online > 1 => {
                ("the CPUs that it may use".to_owned(), format!(", the sum over {online} CPUs"))
            }
            None => ("the CPUs that it may use".to_owned(), String::new()),
        };
        let (names, idle) = (names(wait, cpu, is_one), idle(wait, cpu));
        format!("behind {whom}: {names} had {place} for {}{sum}{idle}", time(duration_ns))
    };
    match wait.cause {
        Cause::RealTime { duration_ns, cpu } => {
            behind("real-time tasks", |ran| ran.real_time, duration_ns, cpu)
        }
        Cause::Server { duration_ns, cpu } => {
            let whom = "ordinary tasks, to which the deadline server gives a part of each CPU although they are less important";
            behind(whom, |ran| !ran.real_time && !ran.outside, duration_ns, cpu)
        }
        Cause::Others { duration_ns, cpu } => {
            behind("threads that are not of the load", |ran| ran.outside, duration_ns, cpu)
        }
        Cause::Throttled { .. } => {
            "throttled: its SCHED_DEADLINE runtime was used up, and it waited for its next period"
                .to_owned()
        }
        Cause::Quota { duration_ns } => format!(
            "throttled: a control group that it is in had used its quota (cpu.max) for {}",
            time(duration_ns)
        ),
        Cause::Lay { place } => {
            let stay = wait.places.iter().find(|stay| stay.place == place);
            let text = stay.map_or_else(String::new, |stay| lay(wait, stay));
            match endless(wait) {
                Some(ran) => format!("{text}; {} ran, whose slice never ends", ran.task),
                None => text,
            }
        }
    }
}

/// The task whose slice never ends and that had a CPU for most of the wait, if there is one on each CPU that is not idle.
fn endless(wait: &Explanation) -> Option<&Ran> {
    let half = length(wait) / 2;
    let is_in_the_way = |ran: &&Ran| ran.endless && !ran.real_time && ran.duration_ns > half;
    let first = |cpu: &'_ CpuUse| cpu.ran.first().is_some_and(|ran| is_in_the_way(&ran));
    let busy = online(wait).filter(|cpu| cpu.idle_ns <= half);
    let all = busy.clone().all(first);
    busy.filter_map(|cpu| cpu.ran.first()).next().filter(|_| all)
}

/// The CPUs that the task may use and that were not offline all the time.
fn online(wait: &Explanation) -> impl Iterator<Item = &CpuUse> + Clone {
    wait.cpus.iter().filter(|cpu| cpu.offline_ns < length(wait))
}

/// Who of those that `count` ran on `cpu`, or on all CPUs that the task may use.
fn names(wait: &Explanation, cpu: Option<u32>, count: fn(&Ran) -> bool) -> String {
    let its = wait.cpus.iter().filter(|one| cpu.is_none_or(|cpu| one.cpu == cpu));
    let ran = its.flat_map(|cpu| &cpu.ran).filter(|ran| count(ran));
    let mut names = each_once(ran.map(|ran| match ran.priority {
        Some(priority) => format!("{} (priority {priority})", ran.task),
        None => ran.task.clone(),
    }));
    let others = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    let mut names = names.join(", ");
    if others > 0 {
        let _ = write!(names, " and {others} more");
    }
    names
}

/// Why a task waited, as the mistake that such a wait points to: the same words for all waits of that kind, on a machine of this many CPUs.
pub fn diagnosis(wait: &Explanation, cpus: u32) -> String {
    let half = length(wait) / 2;
    let task = match wait.cpus.len() {
        allowed if allowed >= cpus as usize => "a task",
        1 => "a task that is bound to one CPU",
        _ => "a task that may use some CPUs only",
    };
    let is_idle = |cpu: &CpuUse| cpu.idle_ns >= half && cpu.idle_ns > 0;
    let has_idle = wait.cpus.iter().any(is_idle);
    let beside = if has_idle { ", while a CPU that it may use is idle" } else { "" };
    let text = match wait.cause {
        Cause::RealTime { cpu: Some(_), .. } => {
            format!("lies in the local queue of a CPU that real-time tasks have{beside}")
        }
        Cause::RealTime { cpu: None, .. } => "has only CPUs that real-time tasks have".to_owned(),
        Cause::Server { .. } => {
            "is behind ordinary tasks that the deadline server serves".to_owned()
        }
        Cause::Others { .. } => "has only CPUs that threads outside the load have".to_owned(),
        Cause::Throttled { .. } => "has used up its SCHED_DEADLINE runtime".to_owned(),
        Cause::Quota { .. } => "is in a control group that has used its quota".to_owned(),
        Cause::Lay { place } => {
            let stay = wait.places.iter().find(|stay| stay.place == place);
            let local = |cpu| wait.cpus.iter().find(|one| one.cpu == cpu);
            match (place, stay) {
                (Place::Way, _) => "is on its way to a CPU".to_owned(),
                (Place::Kernel, _) | (_, None) => "is in another scheduling class".to_owned(),
                (Place::Scheduler, _) if wait.ran => {
                    format!("stays in the scheduler's own data and is not dispatched{beside}")
                }
                (Place::Scheduler, _) => {
                    format!(
                        "stays in the scheduler's own data and is never inserted into a dispatch queue{beside}"
                    )
                }
                (Place::Local { cpu }, _) => match local(cpu) {
                    Some(its) if is_idle(its) => {
                        "lies in the local queue of an idle CPU that nobody kicks".to_owned()
                    }
                    Some(its) if its.ran.len() == 1 => format!(
                        "lies in the local queue of a CPU whose running task is not preempted{beside}"
                    ),
                    Some(_) => {
                        format!("lies in the local queue of a CPU that runs others{beside}")
                    }
                    None => format!("lies in the local queue of a CPU that it may not use{beside}"),
                },
                (_, Some(_)) if !has_idle && endless(wait).is_some() => {
                    "lies in a queue while each CPU that it may use runs a task whose slice never ends".to_owned()
                }
                (_, Some(stay)) => queued(wait, stay, has_idle).to_owned(),
            }
        }
    };
    format!("{task} {text}")
}

/// Turns of more than this many nanoseconds are longer than those of any documented scheduler at nice 0.
const LONG_TURN: u64 = 210_000_000;

/// Where tasks that were not taken from a queue run this many times as often as those that were, that is not by chance.
const OTHERS: u64 = 4;

/// The fault of the queue of a task that spent most of its wait there.
fn queued(wait: &Explanation, stay: &Stay, has_idle: bool) -> &'static str {
    let one_each = online(wait).all(|cpu| cpu.ran.len() == 1);
    let moved: u64 = stay.moved.iter().map(|moved| moved.tasks).sum();
    let taken = moved + stay.taken.iter().map(|taken| taken.tasks).sum::<u64>();
    let taken_here = moved + taken_by(wait, stay);
    let cpus = online(wait).count() as u64;
    let ran = wait.cpus.iter().flat_map(|cpu| &cpu.ran);
    let (time, turns) =
        ran.fold((0, 0), |(time, turns), ran| (time + ran.duration_ns, turns + ran.turns));
    // An idle CPU that is kicked calls dispatch, once more than there is something to take.
    let in_vain = stay.dispatches > taken_here + cpus;
    // Each CPU may have had one from there when the wait began.
    let is_left = stay.dispatches <= taken && taken <= cpus;
    match (has_idle, taken) {
        (true, 0) if in_vain => {
            "lies in a queue from which nothing is taken, while a CPU that it may use is idle"
        }
        (true, _) if in_vain => {
            "lies in a queue from which others are taken, while a CPU that it may use is idle"
        }
        (true, _) => "lies in a queue while a CPU that it may use is idle, and nobody kicks it",
        (false, _) if is_left && one_each => {
            "lies in a queue while each CPU that it may use runs one task, which is not preempted"
        }
        (false, _) if is_left && stay.dispatches == 0 => {
            "lies in a queue, and dispatch is not called on a CPU that it may use"
        }
        (false, _) if in_vain && time > turns * LONG_TURN => {
            "lies in a queue while dispatch is asked again and again and lets the running tasks go on"
        }
        (false, _) if time > turns * LONG_TURN => {
            "lies in a queue behind others, which run for long without being preempted"
        }
        // Each CPU may have had one from there when the wait began.
        (false, _) if taken == 0 || turns > OTHERS * (taken + cpus) => {
            "lies in a queue from which hardly anything is taken: tasks from elsewhere are served first"
        }
        (false, _) => "lies in a queue from which others are always taken first",
    }
}

/// How many others were taken from the queue by CPUs that the task may use.
fn taken_by(wait: &Explanation, stay: &Stay) -> u64 {
    let is_its = |cpu: u32| wait.cpus.iter().any(|one| one.cpu == cpu);
    stay.taken.iter().filter(|taken| is_its(taken.cpu)).map(|taken| taken.tasks).sum()
}

/// What became of the others in a queue.
fn others(stay: &Stay) -> String {
    let tasks = |number: u64| match number {
        1 => "1 other task was".to_owned(),
        several => format!("{several} other tasks were"),
    };
    let taken = stay.taken.iter().take(NAMED).map(|taken| match taken.tasks {
        1 => format!("CPU {} took another task", taken.cpu),
        tasks => format!("CPU {} took {tasks} other tasks", taken.cpu),
    });
    let mut parts: Vec<String> = taken.collect();
    if let Some(others @ [_, ..]) = stay.taken.get(NAMED..) {
        let tasks: u64 = others.iter().map(|taken| taken.tasks).sum();
        parts.push(format!("{} more CPUs took {tasks}", others.len()));
    }
    let moved = stay.moved.iter().take(NAMED);
    parts
        .extend(moved.map(|one| format!("{} moved on to the {}", tasks(one.tasks), place(one.to))));
    if let Some(others @ [_, ..]) = stay.moved.get(NAMED..) {
        let sum = others.iter().map(|one| one.tasks).sum();
        parts.push(format!("{} moved on to {} more DSQs", tasks(sum), others.len()));
    }
    match parts.as_slice() {
        [] => "nothing was taken".to_owned(),
        parts => parts.join(", "),
    }
}

/// Why a task waited that spent most of the time in one place.
fn lay(wait: &Explanation, stay: &Stay) -> String {
    let duration = time(stay.duration_ns);
    let calls = match stay.dispatches {
        0 => "dispatch was not called on any CPU that it may use".to_owned(),
        1 => "dispatch was called once on CPUs that it may use".to_owned(),
        times => format!("dispatch was called {times} times on CPUs that it may use"),
    };
    let waits_at = match stay.place {
        Place::Local { cpu } => Some(cpu),
        _ => None,
    };
    let idle = idle(wait, waits_at);
    match stay.place {
        Place::Kernel => format!(
            "outside the scheduler for {duration}: it is in another scheduling class, whose tasks do not wait for the scheduler"
        ),
        Place::Way => {
            format!("on its way for {duration}: it was being woken, moved or switched to")
        }
        Place::Scheduler => format!(
            "held in the scheduler's own data (a map, a list, an arena) for {duration} without being in a dispatch queue; meanwhile {calls}{idle}"
        ),
        Place::Local { cpu } => {
            let its = wait.cpus.iter().find(|one| one.cpu == cpu);
            let ran = its.map(|cpu| use_text(cpu, length(wait)));
            let ran = ran.unwrap_or_else(|| "nothing".to_owned());
            let whole = time(length(wait));
            let when = match duration == whole {
                true => "meanwhile".to_owned(),
                false => format!("in the whole wait of {whole}"),
            };
            format!(
                "lay in the local DSQ of CPU {cpu} for {duration}, which {when} ran {ran}{idle}"
            )
        }
        Place::Global { .. } | Place::Queue { .. } => {
            let in_vain = taken_by(wait, stay) == 0 && stay.moved.is_empty();
            let calls = if in_vain { format!("; meanwhile {calls}") } else { String::new() };
            let (name, others) = (place(stay.place), others(stay));
            format!("lay in the {name} for {duration}, from which {others}{calls}{idle}")
        }
    }
}

/// Which CPUs could have run the task: those that were idle for most of the wait, but for the one in whose queue it waits; and which were about to.
fn idle(wait: &Explanation, waits_at: Option<u32>) -> String {
    let half = length(wait) / 2;
    let most = |time: fn(&CpuUse) -> u64| -> Vec<(u32, u64)> {
        let all = wait.cpus.iter().map(|cpu| (cpu.cpu, time(cpu)));
        all.filter(|(cpu, time)| *time >= half && *time > 0 && Some(*cpu) != waits_at).collect()
    };
    let told = |cpus: &[(u32, u64)], what: &str| {
        let least = time(cpus.iter().map(|(_, time)| *time).min().unwrap_or(0));
        let numbers: Vec<String> = cpus.iter().map(|(cpu, _)| cpu.to_string()).collect();
        match numbers.as_slice() {
            [] => String::new(),
            [cpu] => format!("; CPU {cpu}, which it may use, was {what} for {least}"),
            [first @ .., last] if numbers.len() <= NAMED => format!(
                "; CPUs {} and {last}, which it may use, were {what} for {least} and more",
                first.join(", ")
            ),
            several => format!(
                "; CPUs {} and {} more, which it may use, were {what} for {least} and more",
                several[..NAMED].join(", "),
                several.len() - NAMED
            ),
        }
    };
    let (idle, waking) = (most(|cpu| cpu.idle_ns), most(|cpu| cpu.overhead_ns));
    told(&idle, "idle") + &told(&waking, "waking up or switching")
}
