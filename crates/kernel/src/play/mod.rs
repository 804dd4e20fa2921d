//! A workload with real threads on this kernel, under whatever scheduler is in charge.
//!
//! Every task is a thread that follows its [`program`]. `run` uses CPU time of the thread, so it means the same here as in the
//! simulator. With root, the [`recorder`](crate::recorder) watches the threads and the metrics are those of every other
//! run; without, there is what the threads can measure themselves.

pub mod program;
pub mod report;
pub mod resources;
mod run;
pub mod samples;
pub mod work;
mod worker;

use std::time::Duration;

use fairground_catalog::attributes::Attributes;
use fairground_metrics::{MachineFacts, Metrics, Options};
use fairground_workload::{Policy, Workload};

pub use report::{Report, TaskReport};
use run::{Recording, Run};

use crate::attributes::AttributeMap;
use crate::recorder::Recorder;
use crate::supervise::Signals;
use crate::{Error, clock, host, scheduling};

/// How often the end is looked for.
const LOOK: Duration = Duration::from_millis(100);

/// Priority of the threads that watch and end a run. They do next to nothing, but that at once.
pub(crate) const WATCHERS: Policy = Policy::Fifo { priority: 99 };

/// Runs a workload until its end, its duration, or a signal that asks for the end.
///
/// # Errors
/// The workload asks for something that this machine or this user does not have, or the system gives out.
pub fn play(
    workload: &Workload,
    duration: Option<u64>,
    signals: &mut Signals,
) -> Result<Report, Error> {
    let root = host::check_root("").is_ok();
    let mut notes = workload.notes.clone();
    let attributes = attributes(workload)?;
    check(workload, root)?;
    if workload.tasks.iter().any(uses_taskgroup) {
        notes.push(
            "task groups are not set up here: the tasks stay in the caller's control group"
                .to_owned(),
        );
    }
    let scheduler = host::loaded_scheduler();
    let attribute_map = if root { AttributeMap::find()? } else { None };
    if attribute_map.is_none()
        && attributes
            .iter()
            .any(|wanted| *wanted != Attributes::default())
    {
        notes.push("the scheduler in charge knows no attributes of tasks: those of the workload have no effect".to_owned());
    }

    let cpus = online_cpus()?;
    let recorder = if root {
        let metrics = Metrics::new(MachineFacts::equal(cpus), Options::default());
        Some(Recorder::start(
            metrics,
            false,
            u32::try_from(cpus).unwrap_or(u32::MAX),
        )?)
    } else {
        notes.push(
            "without root there are no wakeup latencies, migrations, lags and ideal shares: run it with sudo to get them".to_owned(),
        );
        None
    };
    let recording = match &recorder {
        Some(recorder) => Some(Recording {
            tracker: recorder.tracker()?,
            notes: recorder.notes(),
        }),
        None => None,
    };
    let run = Run::prepare(workload, attributes, attribute_map, recording)?;
    if root {
        // Otherwise the end would come when the scheduler under test lets it.
        let _ = scheduling::set_policy(&WATCHERS);
    }
    let start = run.begin()?;
    let end = duration
        .or(workload.duration)
        .map(|duration| start.saturating_add(duration));
    while !run.is_finished() && run.failure().is_none() {
        let left = end.map_or(LOOK, |end| {
            Duration::from_nanos(end.saturating_sub(clock::monotonic()))
        });
        if left.is_zero() || signals.wait(LOOK.min(left))?.is_some() {
            break;
        }
    }
    let stop = clock::monotonic();
    let cpu_times = run.cpu_times();
    let recorded = recorder.map(Recorder::finish).transpose()?;
    let tasks = run.end();
    if root {
        let _ = scheduling::set_policy(&Policy::Other { nice: 0 });
    }
    if let Some(reason) = run.failure() {
        return Err(Error::Play { reason });
    }
    let scheduler_after = host::loaded_scheduler();
    if scheduler_after != scheduler {
        let name = |scheduler: &Option<String>| {
            scheduler
                .clone()
                .unwrap_or_else(|| "the kernel's own".to_owned())
        };
        notes.push(format!(
            "the scheduler changed during the run, from {} to {}",
            name(&scheduler),
            name(&scheduler_after)
        ));
    }
    let (metrics, lost) = match recorded {
        Some((metrics, summary)) => (Some(metrics.result()), Some(summary.lost)),
        None => (None, None),
    };
    if let Some(lost) = lost.filter(|lost| *lost > 0) {
        notes.push(format!("{lost} records were lost: the metrics have gaps"));
    }
    Ok(Report::new(report::Facts {
        workload: workload.name.clone(),
        kernel: host::release()?,
        scheduler,
        cpus,
        start,
        stop,
        tasks,
        cpu_times,
        metrics,
        lost,
        notes,
    }))
}

fn uses_taskgroup(task: &fairground_workload::Task) -> bool {
    task.taskgroup.is_some() || task.phases.iter().any(|phase| phase.taskgroup.is_some())
}

/// The attributes of each task definition.
fn attributes(workload: &Workload) -> Result<Vec<Attributes>, Error> {
    let read = |task: &fairground_workload::Task| {
        Attributes::parse(&task.attributes).map_err(|reason| Error::Usage {
            reason: format!(
                "{}: tasks.{}.fairground: {reason}",
                workload.name, task.name
            ),
        })
    };
    workload.tasks.iter().map(read).collect()
}

/// Checks that the machine has the CPUs and the user the rights that the workload needs.
fn check(workload: &Workload, root: bool) -> Result<(), Error> {
    let allowed = scheduling::cpus().map_err(Error::system("cannot read the allowed CPUs"))?;
    for task in &workload.tasks {
        let phases = || task.phases.iter();
        let cpus = task
            .cpus
            .iter()
            .chain(phases().filter_map(|phase| phase.cpus.as_ref()));
        if let Some(missing) = cpus.flatten().find(|cpu| !allowed.contains(cpu)) {
            return Err(Error::Usage {
                reason: format!(
                    "{}: tasks.{}.cpus: there is no CPU {missing} for this program here; it may use {allowed:?}",
                    workload.name, task.name
                ),
            });
        }
        let mut policies =
            std::iter::once(&task.policy).chain(phases().filter_map(|phase| phase.policy.as_ref()));
        if let Some(policy) = policies.find(|policy| !root && scheduling::needs_root(policy)) {
            return Err(Error::Usage {
                reason: format!(
                    "{}: tasks.{}.policy: {policy:?} needs root; try again with sudo",
                    workload.name, task.name
                ),
            });
        }
    }
    Ok(())
}

/// Number of CPUs that the machine has, with the offline ones in between.
fn online_cpus() -> Result<usize, Error> {
    let path = "/sys/devices/system/cpu/online";
    let online =
        std::fs::read_to_string(path).map_err(Error::system(format!("cannot read {path}")))?;
    let last = online
        .trim()
        .rsplit([',', '-'])
        .next()
        .and_then(|last| last.parse::<usize>().ok());
    Ok(last.map_or(1, |last| last + 1))
}
