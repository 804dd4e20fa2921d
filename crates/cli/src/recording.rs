//! Describes a recording.

use std::fmt::Write as _;
use std::path::Path;

use fairground_lab::recorded_metrics;
use fairground_metrics::{Distribution, RunMetrics, TaskMetrics};
use fairground_recording::{Load, Loss, Recording, Roots, counted};
use fairground_report::Document;
use fairground_workload::{Event, Policy, Task};
use schemars::JsonSchema;
use serde::Serialize;

use crate::VERSION;
use crate::output::{self, WIDTH, wrap};

/// Tasks that are listed unless all are asked for: those that used the most CPU time.
const MOST: usize = 30;

/// The document that `fairground show FILE --format json` prints of a recording. Times are in nanoseconds.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Recording")]
pub struct Description {
    /// Version of this form.
    version: u32,
    /// Version of fairground, with its commit.
    fairground: &'static str,
    /// Its name.
    name: String,
    /// The recorded command; empty for processes that were chosen in another way, or all.
    command: Vec<String>,
    /// Whether all tasks but the kernel's own were chosen.
    all_tasks: bool,
    /// From its beginning to its end.
    length_ns: u64,
    /// CPUs of the machine.
    cpus: u32,
    /// Release of the kernel; empty if the source of an import does not tell.
    kernel: String,
    /// The sched_ext scheduler in charge; `null` for the kernel's own, and for an import, which does not tell.
    scheduler: Option<String>,
    /// The writer of the recording.
    source: String,
    /// Times that a sleeping or new task became runnable.
    wakeups: u64,
    /// Switches of a CPU to another task or to idling.
    context_switches: u64,
    /// Moves of a task to another CPU.
    migrations: u64,
    /// From being woken to running, of all tasks.
    wakeup_latency: Option<Distribution>,
    /// From the start of the first task to the end of the last; `null` if some did not end.
    makespan_ns: Option<u64>,
    /// From the beginning until the last of the tasks was created that did not end.
    last_birth_ns: u64,
    /// Threads that were not chosen.
    other_threads: Others,
    /// How much was recorded, and how much was made up.
    loss: Losses,
    /// What else is different in a replay, or was not told.
    notes: Vec<String>,
    /// The one that used the most CPU time first.
    tasks: Vec<Recorded>,
    #[serde(skip)]
    told_loss: String,
}

/// Threads that were not chosen.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Others {
    count: usize,
    cpu_time_ns: u64,
}

/// By how sure it is that it would be the same under another scheduler.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Sureness {
    exact: u64,
    approximated: u64,
    assumed: u64,
}

impl Sureness {
    fn of([exact, approximated, assumed]: [u64; 3]) -> Self {
        Self { exact, approximated, assumed }
    }
}

/// How much of the recording was recorded, and how much was made up.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Losses {
    cpu_time_ns: Sureness,
    waits: Sureness,
    /// Entries lost for lack of room.
    lost_entries: u64,
    /// Entries that contradict those before them: one between them is missing.
    gaps: u64,
    /// Switches in all.
    switches: u64,
    /// CPU time of which it is not certain whose it was, because of gaps, or because the oldest entries of a CPU were overwritten.
    uncertain_cpu_time_ns: u64,
    /// Whether there are few enough gaps, and little enough CPU time before overwritten entries, to rely on the recording.
    reliable: bool,
    without_system_calls: bool,
    tasks_that_continue: usize,
    tasks_cut_off: usize,
}

impl Losses {
    fn of(loss: &Loss) -> Self {
        Self {
            cpu_time_ns: Sureness::of(loss.cpu_time),
            waits: Sureness::of(loss.waits),
            lost_entries: loss.lost,
            gaps: loss.gaps.count,
            switches: loss.gaps.switches,
            uncertain_cpu_time_ns: loss.gaps.cpu_time + loss.gaps.unknown,
            reliable: loss.is_reliable(),
            without_system_calls: loss.without_calls,
            tasks_that_continue: loss.going_on,
            tasks_cut_off: loss.cut_off,
        }
    }
}

/// A recorded task.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Recorded {
    name: String,
    policy: &'static str,
    /// Nice, or the priority of a real-time policy.
    priority: i32,
    cpu_time_ns: u64,
    wakeups: u64,
    wakeup_latency_p50_ns: Option<u64>,
    wakeup_latency_p99_ns: Option<u64>,
    longest_wait_ns: Option<u64>,
    migrations: u64,
    waits: Waits,
    /// The interval of its jobs, if it is periodic.
    period_ns: Option<u64>,
    /// Whether it continues after the end of the recording.
    continues: bool,
}

/// The things that a task waited for, and how often.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Waits {
    other_tasks: u64,
    mutexes: u64,
    sleeps: u64,
    disks: u64,
    points_in_time: u64,
    yields: u64,
}

impl Recorded {
    fn of(task: &Task, measured: &TaskMetrics) -> Self {
        let latency = measured.wakeup_latency.as_ref();
        let (policy, priority) = policy(task.policy);
        let (waits, period_ns) = waits(task);
        Self {
            name: task.name.clone(),
            policy,
            priority,
            cpu_time_ns: measured.cpu_time_ns,
            wakeups: measured.wakeups,
            wakeup_latency_p50_ns: latency.map(|latency| latency.p50_ns),
            wakeup_latency_p99_ns: latency.map(|latency| latency.p99_ns),
            longest_wait_ns: measured.longest_wait_ns,
            migrations: measured.migrations,
            waits,
            period_ns,
            continues: task.phases.len() > 1,
        }
    }
}

/// Name and priority of a policy.
fn policy(policy: Policy) -> (&'static str, i32) {
    let real_time = |priority: u32| i32::try_from(priority).unwrap_or(i32::MAX);
    match policy {
        Policy::Other { nice, .. } => ("SCHED_OTHER", nice),
        Policy::Batch { nice, .. } => ("SCHED_BATCH", nice),
        Policy::Idle => ("SCHED_IDLE", 0),
        Policy::Ext { nice } => ("SCHED_EXT", nice),
        Policy::Fifo { priority } => ("SCHED_FIFO", real_time(priority)),
        Policy::RoundRobin { priority } => ("SCHED_RR", real_time(priority)),
        Policy::Deadline { .. } => ("SCHED_DEADLINE", 0),
    }
}

/// The things that a task waited for, and the period of its jobs if it has one.
fn waits(task: &Task) -> (Waits, Option<u64>) {
    let mut waits = Waits::default();
    let mut last = None;
    let recorded = task.phases.iter().take(1);
    for event in recorded.flat_map(|phase| phase.events.iter()) {
        let count = match event {
            Event::SemWait(_) => &mut waits.other_tasks,
            Event::Lock(_) => &mut waits.mutexes,
            Event::Sleep(_) => &mut waits.sleeps,
            Event::Disk { .. } => &mut waits.disks,
            Event::Timer { period, .. } => {
                last = Some(period);
                &mut waits.points_in_time
            }
            Event::Yield => &mut waits.yields,
            _ => continue,
        };
        *count += 1;
    }
    let continued = task.phases.iter().skip(1);
    let mut events = continued.flat_map(|phase| phase.events.iter());
    let same = |event: Event| match event {
        Event::Timer { period, .. } => Some(period) == last,
        _ => true,
    };
    let period = last.filter(|_| task.phases.len() > 1 && events.all(same));
    (waits, period)
}

/// Describes the recording in a file.
pub fn describe(path: &Path) -> Result<Description, String> {
    let recording = Recording::read(path).map_err(|error| error.to_string())?;
    let load = recording.load().map_err(|error| error.to_string())?;
    Ok(description(&recording, &load, &recorded_metrics(&recording)))
}

fn description(recording: &Recording, load: &Load, metrics: &RunMetrics) -> Description {
    let header = &recording.header;
    let turns = load.others.iter().flat_map(|other| &other.turns);
    let prefix = format!("{}: ", recording.file);
    let measured = |task: &Task| metrics.tasks.iter().find(|one| one.name == task.name);
    let mut tasks: Vec<Recorded> = load
        .workload
        .tasks
        .iter()
        .filter_map(|task| Some(Recorded::of(task, measured(task)?)))
        .collect();
    tasks.sort_by_key(|task| std::cmp::Reverse(task.cpu_time_ns));
    Description {
        version: Description::VERSION,
        fairground: VERSION,
        name: recording.name.clone(),
        command: header.command.clone(),
        all_tasks: header.roots == Roots::All,
        length_ns: recording.length(),
        cpus: header.cpus,
        kernel: header.kernel.clone(),
        scheduler: header.scheduler.clone(),
        source: header.source.clone(),
        wakeups: metrics.wakeups,
        context_switches: metrics.context_switches,
        migrations: metrics.migrations,
        wakeup_latency: metrics.wakeup_latency,
        makespan_ns: metrics.makespan_ns,
        last_birth_ns: recording.last_birth(),
        other_threads: Others {
            count: load.others.len(),
            cpu_time_ns: turns.map(|turn| turn.cpu_time).sum(),
        },
        loss: Losses::of(&load.loss),
        // The first one is the loss.
        notes: { load.workload.notes.iter().skip(1) }
            .map(|note| note.strip_prefix(&prefix).unwrap_or(note).to_owned())
            .collect(),
        tasks,
        told_loss: load.loss.to_string(),
    }
}

impl Document for Description {
    const COMMAND: &'static str = "show-recording";
    const VERSION: u32 = 1;
}

impl Description {
    /// For people: all tasks, or those that used the most CPU time.
    pub fn table_text(&self, all: bool) -> String {
        let of = match (self.all_tasks, self.command.as_slice()) {
            (true, _) => "all tasks".to_owned(),
            (false, []) => "chosen processes".to_owned(),
            (false, command) => command.join(" "),
        };
        let count = |count, one, several| counted(count, one, several);
        let kernel = match self.kernel.as_str() {
            "" => String::new(),
            release => format!(", Linux {release}"),
        };
        let scheduler = match self.scheduler.as_deref() {
            None if self.loss.without_system_calls => String::new(),
            scheduler => format!(", under {}", scheduler.unwrap_or("the kernel's own scheduler")),
        };
        let mut text = format!(
            "{}: {of}\n\n  {:.3} s on {}{kernel}{scheduler}, by {}\n",
            self.name,
            self.length_ns as f64 / 1e9,
            count(u64::from(self.cpus), "CPU", "CPUs"),
            self.source,
        );
        let _ = writeln!(
            text,
            "  {}, {}, {}, {}; {} used {:.1} % of the CPU time\n",
            count(self.tasks.len() as u64, "task", "tasks"),
            count(self.wakeups, "wake-up", "wake-ups"),
            count(self.context_switches, "context switch", "context switches"),
            count(self.migrations, "migration", "migrations"),
            count(self.other_threads.count as u64, "other thread", "other threads"),
            percent(
                self.other_threads.cpu_time_ns,
                self.length_ns.saturating_mul(u64::from(self.cpus))
            )
        );
        text.push_str("As a workload\n");
        text.push_str(&wrap(&self.told_loss, WIDTH, 2));
        for note in &self.notes {
            text.push_str(&wrap(&format!("Note: {note}"), WIDTH, 2));
        }
        text.push_str("\nTasks, by CPU time in percent of the recording; what they waited for, and how often\n");
        let shown = if all { usize::MAX } else { MOST };
        text.push_str(&self.table(shown));
        if let Some(more) = self.tasks.len().checked_sub(shown).filter(|more| *more > 0) {
            let _ = writeln!(text, "  and {more} more; --tasks lists all");
        }
        text
    }

    /// A line for each of the first `most` tasks. Columns in which nothing happened are left out.
    fn table(&self, most: usize) -> String {
        let tasks = || self.tasks.iter().take(most);
        let mut rows = vec![vec!["task".to_owned()]];
        rows.extend(tasks().map(|task| vec![task.name.clone()]));
        let mut add = |head: &str, cell: &dyn Fn(&Recorded) -> Option<String>| {
            let cells: Vec<Option<String>> = tasks().map(cell).collect();
            if cells.iter().all(Option::is_none) {
                return;
            }
            rows[0].push(head.to_owned());
            for (row, cell) in rows[1..].iter_mut().zip(cells) {
                row.push(cell.unwrap_or_default());
            }
        };
        let time = |time: Option<u64>| Some(format!("{:.3} ms", time? as f64 / 1e6));
        let number = |count: u64| (count > 0).then(|| count.to_string());
        add("CPU", &|task| Some(format!("{:.2} %", percent(task.cpu_time_ns, self.length_ns))));
        add("wake-ups", &|task| Some(task.wakeups.to_string()));
        add("p50", &|task| time(task.wakeup_latency_p50_ns));
        add("p99", &|task| time(task.wakeup_latency_p99_ns));
        add("tasks", &|task| number(task.waits.other_tasks));
        add("mutexes", &|task| number(task.waits.mutexes));
        add("sleeps", &|task| number(task.waits.sleeps));
        add("disks", &|task| number(task.waits.disks));
        add("arrivals", &|task| number(task.waits.points_in_time));
        add("yields", &|task| number(task.waits.yields));
        add("period", &|task| time(task.period_ns));
        add("then", &|task| task.continues.then(|| "goes on".to_owned()));
        output::columns(&rows, 1)
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// Says whether the recording that was just written can be relied on.
pub fn tell_gaps(path: &Path) {
    // Data that went into a pipe cannot be read again.
    if !path.is_file() {
        return;
    }
    if let Ok(recording) = Recording::read(path) {
        let gaps = recording.gaps();
        if gaps.are_notable() {
            output::say!("fairground: {}: {gaps}", path.display());
        }
    }
}
