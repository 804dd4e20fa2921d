//! Plays a workload with real threads on this kernel, under the scheduler in charge.
//!
//! Every task is a thread that follows its [`program`]. `run` uses CPU time of the thread, so it means the same here as in the simulator.
//! With root, the [`recorder`](crate::recorder) watches the threads, and the metrics are those of any other run; without, there are only
//! the threads' own measurements.

mod deadlock;
mod groups;
pub mod program;
pub mod report;
pub mod resources;
mod run;
pub mod samples;
pub mod surroundings;
pub mod work;
mod worker;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fairground_contract::attributes::Attributes;
use fairground_events::{CpuId, EventKind, Sink as _};
use fairground_metrics::{MachineFacts, Metrics, RunMetrics};
use fairground_workload::{Event, PipeKind, Policy, Workload};

use fairground_results::Creator;
use groups::Groups;
pub use report::{Report, TaskReport};
use run::{Ended, Recording, Run};
use surroundings::creator_so_far;

use crate::attributes::AttributeMap;
use crate::host::{Incumbent, Online};
use crate::in_charge::InCharge;
use crate::recorder::Recorder;
use crate::supervise::Signals;
use crate::{Error, clock, host, scheduling};

/// How often a run checks whether it has ended. Signals announce most ends, so this only matters for runs without a duration. Checks are
/// rare because each takes the CPU from the tasks, above their scheduler and in step with their periods.
const LOOK: Duration = Duration::from_secs(60);

/// Time of the first check of a run without a duration, which ends early if all its threads wait for each other. The time between
/// checks doubles from then on.
const FIRST_LOOK: Duration = Duration::from_millis(500);

/// The options of a run with real threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// How long to run, nanoseconds; `None` is the workload's own duration, or until all tasks have ended.
    pub duration: Option<u64>,
    /// Seed of the random numbers of varied events, which are the same as in a simulation with this seed.
    pub seed: u64,
    /// How it is measured.
    pub metrics: fairground_metrics::Options,
}

/// The tunables that are not at their defaults, with values as people write them, of the scheduler with this name in the kernel, given the
/// values of its global constants; `None` if its tunables are unknown.
pub type NameTunables = fn(&str, &BTreeMap<String, i128>) -> Option<BTreeMap<String, String>>;

/// A CPU that is online: the kernel's number of it, and its capacity (1024 is the reference).
pub type OnlineCpu = (u32, u32);

/// Runs a workload until its end, its duration, or a signal that asks for the end. The metrics are those of the CPUs that are `online`.
pub fn play(
    workload: &Workload,
    options: &Options,
    online: &[OnlineCpu],
    name_tunables: NameTunables,
    signals: &mut Signals,
) -> Result<Report, Error> {
    let root = host::check_root("").is_ok();
    let mut notes = workload.notes.clone();
    let attributes = attributes(workload)?;
    check(workload, root)?;
    let (incumbent, cpus) = (Incumbent::now(), Online::now());
    let scheduler = in_charge(root)?;
    let tunables = tunables(&incumbent, scheduler.as_ref(), name_tunables, &mut notes);
    let attribute_map = attribute_map(scheduler.as_ref())?;
    let known = attribute_map.is_some();
    notes.extend(without_effect(&attributes, known).map(str::to_owned));
    let groups = set_up_groups(workload, root, &mut notes);

    let recorder = start_recorder(root, online, options.metrics, &mut notes);
    let recording = match &recorder {
        Some(recorder) => Some(Recording { tracker: recorder.tracker()?, notes: recorder.notes() }),
        None => None,
    };
    let ahead = clock::scheduler_ahead();
    let creator = creator_so_far();
    let shared = groups.clone();
    let run = Run::prepare(workload, *options, attributes, attribute_map, recording, shared)?;
    // Otherwise the scheduler under test decides when the end comes. Without root it does.
    let _ = scheduling::set_policy(&scheduling::WATCHERS);
    let start = run.begin()?;
    let changes = groups.as_ref().map(|groups| groups.follow(workload, start)).transpose()?;
    let end = options.duration.or(workload.duration).map(|duration| start.saturating_add(duration));
    let deadlock = watch(&run, end, signals)?;
    let stop = clock::monotonic();
    let cpu_times = run.cpu_times();
    if let Some(recorder) = &recorder {
        recorder.stop_at(stop);
    }
    let creator = Creator { preparation_ns: run.preparation(), ..creator };
    drop(changes);
    let tasks = run.end(stop);
    let recorded = recorder.map(Recorder::finish).transpose()?;
    if root {
        become_ordinary()?;
    }
    if let Some(reason) = run.failure() {
        return Err(Error::Play { reason });
    }
    match deadlock {
        Some(reasons) if end.is_none() => return Err(Error::Deadlock { reasons }),
        Some(reasons) => notes
            .push(format!("the machine was idle to the end because every task waits: {reasons}")),
        None => {}
    }
    notes.extend(starved(&tasks));
    let change_of_cpus = cpus.change("run");
    let cpus_changed = change_of_cpus.is_some();
    notes.extend(incumbent.change("run").into_iter().chain(change_of_cpus));
    let (mut metrics, lost, others) = match recorded {
        Some((metrics, summary)) => {
            let metrics = RunMetrics { cpus: online.len() as u32, ..metrics.result() };
            (Some(metrics), Some(summary.lost), summary.others)
        }
        None => (None, None, Vec::new()),
    };
    if let (Some(metrics), Some(groups)) = (&mut metrics, &groups) {
        metrics.groups = groups.usage(workload)?;
    }
    if let Some(lost) = lost.filter(|lost| *lost > 0) {
        notes.push(format!("{lost} records were lost: the metrics have gaps"));
    }
    Ok(Report::new(report::Facts {
        workload: workload.name.clone(),
        kernel: host::release()?,
        scheduler: incumbent.name().map(str::to_owned),
        tunables,
        cpus: online.len(),
        start,
        scheduler_start: ahead.and_then(|ahead| start.checked_add_signed(ahead)),
        stop,
        tasks,
        cpu_times,
        creator,
        others,
        metrics,
        lost,
        notes,
        cpus_changed,
    }))
}

/// Returns to the policy that this thread had before it watched over a run.
fn become_ordinary() -> Result<(), Error> {
    let ordinary = Policy::Other { nice: 0, slice: None };
    scheduling::set_policy(&ordinary).map_err(Error::system("cannot return to the ordinary policy"))
}

/// The scheduler in charge, into which only root can look.
fn in_charge(root: bool) -> Result<Option<InCharge>, Error> {
    if root { InCharge::find("looking into a scheduler") } else { Ok(None) }
}

/// The attributes that the scheduler in charge reads, if it reads any.
fn attribute_map(scheduler: Option<&InCharge>) -> Result<Option<AttributeMap>, Error> {
    scheduler.map_or(Ok(None), AttributeMap::find)
}

/// The tunables of the scheduler in charge that are not at their defaults; if they are unknown, a note says why.
fn tunables(
    incumbent: &Incumbent,
    in_charge: Option<&InCharge>,
    name: NameTunables,
    notes: &mut Vec<String>,
) -> Option<BTreeMap<String, String>> {
    let scheduler = incumbent.name()?;
    let unknown = format!("it is not known whether tunables of {scheduler} were set");
    let Some(in_charge) = in_charge else {
        notes.push(format!("{unknown}: only root can read them"));
        return None;
    };
    match in_charge.constants() {
        Ok(constants) => {
            let known = name(scheduler, &constants);
            if known.is_none() {
                notes.push(format!("{unknown}: `fairground list` does not have this scheduler"));
            }
            known
        }
        Err(error) => {
            notes.push(format!("{unknown}: {error}"));
            None
        }
    }
}

/// Makes the control groups of the workload, if it has any; a note names their neighbours, or says why there are none.
fn set_up_groups(workload: &Workload, root: bool, notes: &mut Vec<String>) -> Option<Arc<Groups>> {
    if workload.groups.is_empty() {
        return None;
    }
    let made = if root { Groups::set_up(workload) } else { Err("that takes root".to_owned()) };
    match made {
        Ok(groups) => {
            notes.push(groups.note());
            Some(Arc::new(groups))
        }
        Err(reason) => {
            notes.push(format!(
                "control groups are not set up here, and the tasks stay in the caller's: {reason}"
            ));
            None
        }
    }
}

/// The part of the workload that has no effect on this kernel; `known`: whether the scheduler in charge reads task attributes.
fn without_effect(attributes: &[Attributes], known: bool) -> Option<&'static str> {
    let asked = attributes.iter().any(|wanted| *wanted != Attributes::default());
    (asked && !known).then_some(
        "the scheduler in charge reads no task attributes: those of the workload have no effect",
    )
}

/// Waits for the end of a run; returns the thing that each thread waits for, if none of them can ever continue.
fn watch(run: &Run, end: Option<u64>, signals: &mut Signals) -> Result<Option<String>, Error> {
    let mut look = FIRST_LOOK;
    while !run.is_finished() && run.failure().is_none() {
        let left = match end {
            Some(end) => Duration::from_nanos(end.saturating_sub(clock::monotonic())).min(LOOK),
            None => look,
        };
        if left.is_zero() || signals.wait(left)?.is_some() {
            break;
        }
        if end.is_none() {
            look = LOOK.min(look * 2);
            if let Some(reasons) = run.deadlock() {
                return Ok(Some(reasons));
            }
        }
    }
    Ok(run.deadlock())
}

/// A note on the tasks that were never on a CPU, if there are any.
fn starved(tasks: &[Ended]) -> Option<String> {
    let names: Vec<&str> =
        tasks.iter().filter(|task| !task.ran).map(|task| task.name.as_str()).collect();
    (!names.is_empty())
        .then(|| format!("never on a CPU, so all their periods were missed: {}", names.join(", ")))
}

/// The recorder; if there cannot be one, the run goes on without it, and a note says which measures are missing.
fn start_recorder(
    root: bool,
    online: &[OnlineCpu],
    options: fairground_metrics::Options,
    notes: &mut Vec<String>,
) -> Option<Recorder<Metrics>> {
    let missing = "no wakeup latencies, migrations, lags or ideal shares";
    if !root {
        notes.push(format!("without root there are {missing}: run it with sudo to get them"));
        return None;
    }
    let cpus = online.iter().map(|(cpu, _)| cpu + 1).max().unwrap_or(1);
    match Recorder::start(metrics_of(online, options), options.records, cpus) {
        Ok(recorder) => Some(recorder),
        Err(error) => {
            notes.push(format!("there are {missing}: {error}"));
            None
        }
    }
}

/// Metrics of the CPUs that are online. Events have the kernel's numbers, and a number without such a CPU counts as one that is offline.
fn metrics_of(online: &[OnlineCpu], options: fairground_metrics::Options) -> Metrics {
    let last = online.iter().map(|(cpu, _)| *cpu).max().unwrap_or(0);
    let capacity = |cpu| {
        let mut known = online.iter().filter(|(number, _)| *number == cpu);
        known.next().map(|(_, capacity)| *capacity)
    };
    let facts =
        MachineFacts { capacities: (0..=last).map(|cpu| capacity(cpu).unwrap_or(1024)).collect() };
    let mut metrics = Metrics::new(facts, options);
    for cpu in (0..last).filter(|cpu| capacity(*cpu).is_none()) {
        let kind = EventKind::CpuOnline { cpu: CpuId(cpu), online: false };
        metrics.event(&fairground_events::Event { time: 0, kind });
    }
    metrics
}

/// The attributes of each task definition.
fn attributes(workload: &Workload) -> Result<Vec<Attributes>, Error> {
    let read = |task: &fairground_workload::Task| {
        if let Some(process) = &task.process {
            return Err(Error::Usage {
                reason: format!(
                    "{}: tasks.{}.fairground: here all tasks are threads of one process, so there is no process {process:?}; \
                     `fairground compare` simulates it",
                    workload.name, task.name
                ),
            });
        }
        Attributes::parse(&task.attributes).map_err(|reason| Error::Usage {
            reason: format!("{}: tasks.{}.fairground: {reason}", workload.name, task.name),
        })
    };
    workload.tasks.iter().map(read).collect()
}

/// Checks that the machine has the CPUs, and the user the rights, that the workload needs.
fn check(workload: &Workload, root: bool) -> Result<(), Error> {
    let allowed = scheduling::cpus().map_err(Error::system("cannot read the allowed CPUs"))?;
    let spins = workload.barriers.iter().any(|barrier| barrier.spin > 0);
    let has_early_pipes = { workload.pipes.iter() }.any(|pipe| pipe.kind == PipeKind::Early);
    for (is_used, what) in [
        (!workload.services.is_empty(), "services"),
        (spins, "barriers at which tasks spin"),
        (has_early_pipes, "pipes of 2.6"),
    ] {
        if is_used {
            return Err(Error::Usage {
                reason: format!(
                    "{}: only a simulation has {what}, so this cannot be played; `fairground compare` simulates it",
                    workload.name
                ),
            });
        }
    }
    for task in &workload.tasks {
        let phases = || task.phases.iter();
        let mut events = phases().flat_map(|phase| phase.events.iter());
        let simulated = |event: Event| {
            matches!(
                event,
                Event::Disk { .. }
                    | Event::Read { .. }
                    | Event::Write { .. }
                    | Event::Evict { .. }
                    | Event::Fault { .. }
            )
        };
        if events.any(simulated) {
            return Err(Error::Usage {
                reason: format!(
                    "{}: tasks.{}: only a simulation models disks and memory, so \"disk\", \"read\", \"write\", \"evict\" and \"fault\" cannot be \
                     played; `fairground compare` simulates it",
                    workload.name, task.name
                ),
            });
        }
        if task.daemon {
            return Err(Error::Usage {
                reason: format!(
                    "{}: tasks.{}.fairground: only a simulation ends without waiting for a task, so \"daemon\" cannot be played; \
                     `fairground compare` simulates it",
                    workload.name, task.name
                ),
            });
        }
        let mut events = phases().flat_map(|phase| phase.events.iter());
        if events.any(|event| matches!(event, Event::Migration { .. })) {
            return Err(Error::Usage {
                reason: format!(
                    "{}: tasks.{}: only the kernel's own code can disable migration, so \"migration\" cannot be played; \
                     `fairground compare` simulates it",
                    workload.name, task.name
                ),
            });
        }
        let cpus = task.cpus.iter().chain(phases().filter_map(|phase| phase.cpus.as_ref()));
        if let Some(missing) = cpus.flatten().find(|cpu| !allowed.contains(cpu)) {
            return Err(Error::Usage {
                reason: format!(
                    "{}: tasks.{}.cpus: CPU {missing} is not available to this program; it may use {allowed:?}",
                    workload.name, task.name
                ),
            });
        }
        let mut policies =
            std::iter::once(&task.policy).chain(phases().filter_map(|phase| phase.policy.as_ref()));
        if let Some(policy) = policies.find(|policy| !root && scheduling::needs_root(policy)) {
            return Err(Error::Usage {
                reason: format!(
                    "{}: tasks.{}: {policy} needs root; try again with sudo",
                    workload.name, task.name
                ),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_without_a_cpu_are_no_idle_cpus() {
        let options = fairground_metrics::Options::default();
        let mut metrics = metrics_of(&[(0, 1024), (3, 512)], options);
        metrics.finish(1_000_000);
        let result = metrics.result();
        assert_eq!(result.cpu_time.available_ns, 2_000_000);
        assert_eq!(result.cpu_time.idle_ns, 2_000_000);
    }

    #[test]
    fn processes_of_their_own_are_refused() {
        let text = r#"{ "tasks": { "editor": { "run": 1, "fairground": { "process": "gui" } } } }"#;
        let workload = Workload::parse("test", text).expect("the workload is right");
        let error = attributes(&workload).expect_err("threads share an address space");
        let message = error.to_string();
        assert!(message.contains("tasks.editor.fairground"), "{message}");
        assert!(message.contains("fairground compare"), "{message}");
    }

    /// Runs a workload to its end, without a recorder.
    fn play_to_end(text: &str) -> Vec<Ended> {
        let run = begin(text);
        while !run.is_finished() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(run.failure(), None);
        run.end(clock::monotonic())
    }

    /// The threads of a workload, started.
    fn begin(text: &str) -> std::sync::Arc<Run> {
        let workload = Workload::parse("test", text).expect("the workload is right");
        let attributes = attributes(&workload).expect("the attributes are right");
        let run = Run::prepare(&workload, Options::default(), attributes, None, None, None)
            .expect("the threads can be created");
        run.begin().expect("nobody records");
        run
    }

    #[test]
    fn threads_that_wait_for_each_other_are_named() {
        let run = begin(
            r#"{ "fairground": { "pipes": { "full": { "capacity": 4096 } } }, "tasks": {
                "first": { "loop": 1, "phases": { "p": { "lock": "left", "barrier": "both", "lock2": "right" } } },
                "second": { "loop": 1, "phases": { "p": { "lock": "right", "barrier": "both", "lock2": "left" } } },
                "early": { "loop": 1, "barrier": "crowd" }, "late": { "instance": 2, "delay": 30000, "loop": 1, "barrier": "crowd", "suspend": "late" },
                "taker": { "loop": 1, "sem_wait": "given" },
                "reader": { "loop": 1, "phases": { "p": { "fairground1": { "pipe_read": { "pipe": "empty", "bytes": 1 } } } } },
                "writer": { "loop": 1, "phases": { "p": { "fairground1": { "pipe_write": { "pipe": "full", "bytes": 70000 } } } } }
            } }"#,
        );
        while run.deadlock().is_none() {
            assert!(!run.is_finished());
            std::thread::sleep(Duration::from_millis(1));
        }
        let reasons = run.deadlock().expect("it stays");
        for reason in [
            "first waits for mutex right, held by second",
            "second waits for mutex left, held by first",
            "taker waits for semaphore given",
            "reader waits for data in pipe empty",
            "writer waits for room in pipe full",
        ] {
            assert!(reasons.contains(reason), "{reason}: {reasons}");
        }
        run.end(clock::monotonic());
    }

    #[test]
    fn threads_that_wake_each_other_are_no_deadlock() {
        let run = begin(
            r#"{ "tasks": {
                "ping": { "loop": 20000, "phases": { "p": { "sem_post": "a", "sem_wait": "b" } } },
                "pong": { "loop": 20000, "phases": { "p": { "sem_wait": "a", "sem_post": "b" } } }
            } }"#,
        );
        while !run.is_finished() {
            assert_eq!(run.deadlock(), None);
        }
        run.end(clock::monotonic());
    }

    #[test]
    fn periods_pass_for_a_thread_that_never_runs() {
        let text = r#"{ "tasks": { "periodic": { "phases": { "p": {
            "run": 10, "timer": { "ref": "t", "period": 1000 } } } } } }"#;
        let workload = Workload::parse("test", text).expect("the workload is right");
        let run = Run::prepare(
            &workload,
            Options::default(),
            vec![Attributes::default()],
            None,
            None,
            None,
        )
        .expect("the threads can be created");
        // They are never started.
        let ended = run.end(clock::monotonic());
        let periods = ended[0].outcome.periods.expect("it has a timer");
        assert_eq!((periods.released, periods.missed), (1, 1));
        let note = starved(&ended).expect("it was never on a CPU");
        assert!(note.contains("periodic"), "{note}");
    }

    fn names(ended: &[Ended]) -> Vec<&str> {
        ended.iter().map(|task| task.name.as_str()).collect()
    }

    #[test]
    fn every_blocking_event_comes_to_its_end() {
        let ended = play_to_end(
            r#"{ "tasks": {
                "ping": { "loop": 50, "phases": { "p": { "sem_post": "a", "sem_wait": "b" } } },
                "pong": { "loop": 50, "phases": { "p": { "sem_wait": "a", "sem_post": "b" } } },
                "meet": { "instance": 3, "loop": 20, "phases": { "p": { "barrier": "gate", "lock": "m", "run": 10, "unlock": "m" } } },
                "rest": { "loop": 2, "phases": { "p": { "sleep": 100, "runtime": 100, "yield": "", "mem": 1000, "iorun": 1000 } } }
            } }"#,
        );
        assert_eq!(names(&ended), ["ping", "pong", "meet-0", "meet-1", "meet-2", "rest"]);
        for task in &ended {
            assert!(task.outcome.ended.is_some(), "{} did not end by itself", task.name);
            assert!(task.outcome.periods.is_none(), "{} has no timer", task.name);
        }
    }

    #[test]
    fn work_is_cpu_time() {
        let ended = play_to_end(
            r#"{ "tasks": { "work": { "loop": 10, "phases": { "p": { "run": 1000 } } } } }"#,
        );
        let used = ended[0].outcome.cpu_time;
        assert!(used >= 10_000_000, "{used} ns");
    }

    #[test]
    fn a_forked_task_is_one_more() {
        let ended = play_to_end(
            r#"{ "tasks": {
                "parent": { "loop": 2, "phases": { "p": { "fork": "child" } } },
                "child": { "instance": 0, "loop": 1, "phases": { "p": { "run": 10 } } }
            } }"#,
        );
        assert_eq!(names(&ended), ["parent", "child-0", "child-1"]);
    }

    #[test]
    fn jobs_are_counted_from_the_start() {
        let ended = play_to_end(
            r#"{ "tasks": { "periodic": { "loop": 5, "phases": { "p": {
                "run": 10, "timer": { "ref": "unique", "period": 2000, "mode": "absolute" } } } } } }"#,
        );
        let outcome = &ended[0].outcome;
        let periods = outcome.periods.expect("it has a timer");
        // At the fifth expiry the task ends, and no further job begins.
        assert_eq!((periods.released, periods.completed), (5, 5));
        let jobs = outcome.response_time.clone().distribution().expect("there were jobs");
        assert_eq!(jobs.samples, 5);
    }

    #[test]
    fn the_end_gets_every_thread_out_of_its_wait() {
        let workload = Workload::parse(
            "test",
            r#"{ "tasks": {
                "hog": { "run": 1000 },
                "sleeper": { "sleep": 1000000000 },
                "waiter": { "sem_wait": "never" },
                "suspended": { "suspend": "suspended" },
                "timed": { "run": 1, "timer": { "ref": "unique", "period": 1000000000 } }
            } }"#,
        )
        .expect("the workload is right");
        let attributes = attributes(&workload).expect("there are none");
        let run = Run::prepare(&workload, Options::default(), attributes, None, None, None)
            .expect("the threads can be created");
        run.begin().expect("nobody records");
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(run.cpu_times().len(), 5);
        let ended = run.end(clock::monotonic());
        assert!(run.is_finished(), "all threads have ended");
        assert!(ended.iter().all(|task| task.outcome.ended.is_none()), "none by itself");
    }

    #[test]
    fn laps_pipes_and_varied_times_are_played() {
        let ended = play_to_end(
            r#"{ "fairground": { "mutexes": { "m": { "spin": 20 } } }, "tasks": {
                "ask": { "loop": 20, "fairground": { "vary": { "run": { "uniform": [0.5, 1.5] }, "sleep": { "chance": 0.1 } } },
                    "phases": { "p": { "fairground0": { "lap": "begin" }, "run": 20, "sleep": 10, "lock": "m", "unlock": "m",
                        "fairground1": { "pipe_write": { "pipe": "there", "bytes": 100 } },
                        "fairground2": { "pipe_read": { "pipe": "back", "bytes": 9000 } }, "fairground3": { "lap": "end" } } } },
                "answer": { "loop": 20, "phases": { "p": {
                    "fairground1": { "pipe_read": { "pipe": "there", "bytes": 100 } },
                    "fairground2": { "pipe_write": { "pipe": "back", "bytes": 9000 } } } } }
            } }"#,
        );
        let laps = ended[0].outcome.laps.clone().distribution().expect("every loop is a lap");
        assert_eq!(laps.samples, 20);
        // A single lap may be shorter: a run that takes too long shortens the next one.
        assert!(laps.mean_ns >= 10_000.0, "laps have at least half of their runs: {laps:?}");
        assert!(ended[0].outcome.lap_records.is_empty(), "nobody asked for records");
        assert!(ended.iter().all(|task| task.outcome.ended.is_some()));
    }

    #[test]
    fn a_skipping_timer_leaves_whole_periods_out() {
        let ended = play_to_end(
            r#"{ "tasks": { "late": { "loop": 2, "phases": { "p": {
                "runtime": 35000, "fairground1": { "timer": { "ref": "unique", "period": 10000, "mode": "skip" } } } } } } }"#,
        );
        let periods = ended[0].outcome.periods.expect("it has a timer");
        assert!(periods.skipped >= 4, "35 ms of 10 ms, twice: {periods:?}");
        assert!(periods.missed >= periods.skipped, "{periods:?}");
        assert_eq!(periods.released, periods.completed + periods.skipped);
    }

    #[test]
    fn what_only_a_simulation_has_is_refused() {
        let text = r#"{ "tasks": { "reader": { "fairground1": { "disk": 8000 } } } }"#;
        let workload = Workload::parse("file", text).expect("it is right");
        let error = check(&workload, true).expect_err("there is no such disk").to_string();
        assert!(error.contains("tasks.reader") && error.contains("fairground compare"), "{error}");
    }

    #[test]
    fn machines_that_lack_a_cpu_are_told() {
        let workload =
            Workload::parse("file", r#"{ "tasks": { "far": { "cpus": [4000], "run": 1 } } }"#)
                .expect("it is right");
        let error = check(&workload, true).expect_err("there is no such CPU").to_string();
        assert!(error.contains("tasks.far") && error.contains("CPU 4000"), "{error}");
    }

    #[test]
    fn rights_that_lack_are_told() {
        let workload = Workload::parse(
            "file",
            r#"{ "tasks": { "rt": { "policy": "SCHED_FIFO", "priority": 5, "run": 1 } } }"#,
        )
        .expect("it is right");
        let error = check(&workload, false).expect_err("only root may").to_string();
        let expected = "file: tasks.rt: SCHED_FIFO with priority 5 needs root; try again with sudo";
        assert_eq!(error, expected);
        assert!(check(&workload, true).is_ok());
    }
}
