//! A run: all threads of a workload, from their common start to the end.

use std::os::unix::thread::JoinHandleExt as _;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use fairground_contract::attributes::Attributes;
use fairground_events::{Policy, load_weight};
use fairground_workload::Workload;
use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, kill, sigaction};
use nix::unistd::Pid;

use super::Options;
use super::deadlock::{self, WaitRecord};
use super::groups::Groups;
use super::resources::{Over, Resources, Semaphore};
use super::worker::{ThreadRecord, Worker, first_job};
use crate::attributes::AttributeMap;
use crate::recorder::stream::NoteKind;
use crate::recorder::{Notes, Tracker};
use crate::{Error, clock};

/// Maximum number of threads that `fork` events may start from one definition, as in rt-app.
const FORK_LIMIT: u32 = 1024;

/// How many times threads are told that the run is over, a millisecond apart. A count, because time also passes while none is told.
const NUDGES: u32 = 30_000;

/// The signal that ends the sleep of threads at the end.
const NUDGE: Signal = Signal::SIGUSR1;

/// A thread of the run.
struct Thread {
    name: String,
    definition: usize,
    handle: JoinHandle<()>,
    progress: Arc<Progress>,
}

/// The part of a thread's state that it shows to others.
#[derive(Debug)]
struct Progress {
    /// CPU time that it used before its program began.
    before: AtomicU64,
    /// When its program began, `CLOCK_MONOTONIC`; `u64::MAX` before that.
    began: AtomicU64,
    /// The thing that it waits for.
    waiting: WaitRecord,
    /// Its own record of its life, once it has ended.
    outcome: Mutex<Option<ThreadRecord>>,
}

impl Progress {
    fn new() -> Self {
        Self {
            before: AtomicU64::new(0),
            began: AtomicU64::new(u64::MAX),
            waiting: WaitRecord::default(),
            outcome: Mutex::new(None),
        }
    }
}

/// A task at the end of the run.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Name with instance.
    pub name: String,
    /// Whether it was on a CPU before the end.
    pub ran: bool,
    /// The thread's own record of its life.
    pub outcome: ThreadRecord,
}

/// How the recorder learns about the run.
pub struct Recording {
    /// Chooses the threads to record.
    pub tracker: Tracker,
    /// Takes notes of jobs.
    pub notes: Notes,
}

/// Everything that the threads of a run share.
pub struct Run {
    /// The workload.
    pub workload: Workload,
    /// Its mutexes and the like.
    pub resources: Resources,
    /// Set at the end.
    pub over: Over,
    /// CPUs that tasks without affinity use.
    pub cpus: Vec<u32>,
    /// The requested options.
    pub options: Options,
    /// Threads that have not ended.
    pub living: AtomicUsize,
    attributes: Vec<Attributes>,
    attribute_map: Option<AttributeMap>,
    recording: Option<Recording>,
    /// The control groups of the workload, where there are some.
    pub(super) groups: Option<Arc<Groups>>,
    /// Common start, `CLOCK_MONOTONIC`; set before the gate below opens.
    start: Mutex<u64>,
    /// The end, `CLOCK_MONOTONIC`; `u64::MAX` before that.
    stop: AtomicU64,
    gate: Semaphore,
    forks: Vec<AtomicU32>,
    threads: Mutex<Vec<Thread>>,
    failure: Mutex<Option<String>>,
    /// The run itself, for the threads it starts.
    this: std::sync::Weak<Run>,
}

impl Run {
    /// Creates the threads of all instances, which then wait for [`Run::begin`].
    pub fn prepare(
        workload: &Workload,
        options: Options,
        attributes: Vec<Attributes>,
        attribute_map: Option<AttributeMap>,
        recording: Option<Recording>,
        groups: Option<Arc<Groups>>,
    ) -> Result<Arc<Self>, Error> {
        install_nudge()?;
        let cpus =
            crate::scheduling::cpus().map_err(Error::system("cannot read the allowed CPUs"))?;
        let resources = Resources::new(workload)
            .map_err(Error::system("cannot create the pipes of the workload"))?;
        let run = Arc::new_cyclic(|this| Self {
            resources,
            options,
            workload: workload.clone(),
            over: Over::default(),
            cpus,
            living: AtomicUsize::new(0),
            attributes,
            attribute_map,
            recording,
            groups,
            start: Mutex::new(0),
            stop: AtomicU64::new(u64::MAX),
            gate: Semaphore::default(),
            forks: workload.tasks.iter().map(|_| AtomicU32::new(0)).collect(),
            threads: Mutex::new(Vec::new()),
            failure: Mutex::new(None),
            this: this.clone(),
        });
        for (definition, instance) in workload.first_tasks() {
            let name = workload.tasks[definition].instance_name(instance);
            if let Err(reason) = run.spawn(definition, instance, name, false) {
                run.end(clock::monotonic());
                return Err(Error::Usage { reason });
            }
        }
        Ok(run)
    }

    /// Starts the threads. Returns the common start, `CLOCK_MONOTONIC`.
    pub fn begin(&self) -> Result<u64, Error> {
        let threads = lock(&self.threads);
        let now = clock::monotonic();
        if let Some(recording) = &self.recording {
            recording.notes.begin(now);
            for thread in &*threads {
                let pid = thread.progress.waiting.thread();
                recording.tracker.track(pid, Some(&thread.name))?;
                // Done here because a thread that is kept from running cannot report that its periods pass.
                self.note_first_job(thread.definition, pid, now);
            }
        }
        *lock(&self.start) = now;
        for _ in &*threads {
            self.gate.post();
        }
        Ok(now)
    }

    /// CPU time that a thread used before its program began, on average.
    pub fn preparation(&self) -> u64 {
        let threads = lock(&self.threads);
        let times = threads.iter().map(|thread| thread.progress.before.load(Ordering::Acquire));
        times.sum::<u64>() / (threads.len() as u64).max(1)
    }

    /// Whether all threads have ended.
    pub fn is_finished(&self) -> bool {
        self.living.load(Ordering::Acquire) == 0
    }

    /// When the run ended, `CLOCK_MONOTONIC`; `u64::MAX` before that.
    pub fn stop(&self) -> u64 {
        self.stop.load(Ordering::Acquire)
    }

    /// The thing that each thread waits for, if none of them can ever continue.
    pub fn deadlock(&self) -> Option<String> {
        let threads = lock(&self.threads);
        let living: Vec<deadlock::Living> = threads
            .iter()
            .filter(|thread| !thread.handle.is_finished())
            .map(|thread| (thread.name.as_str(), &thread.progress.waiting))
            .collect();
        deadlock::find(&living, &self.workload, &self.resources)
    }

    /// Why the run cannot continue, if it cannot.
    pub fn failure(&self) -> Option<String> {
        lock(&self.failure).clone()
    }

    /// CPU time used so far by each thread, in order of creation.
    pub fn cpu_times(&self) -> Vec<u64> {
        lock(&self.threads)
            .iter()
            .map(|thread| match &*lock(&thread.progress.outcome) {
                Some(outcome) => outcome.cpu_time,
                None => {
                    let before = thread.progress.before.load(Ordering::Acquire);
                    cpu_time_of(&thread.handle).map_or(0, |now| now.saturating_sub(before))
                }
            })
            .collect()
    }

    /// Ends all threads that still run at `stop`; returns their records, in order of creation.
    pub fn end(&self, stop: u64) -> Vec<Ended> {
        self.stop.store(stop, Ordering::Release);
        self.over.set();
        self.nudge_until_ended();
        let threads = std::mem::take(&mut *lock(&self.threads));
        threads
            .into_iter()
            .map(|thread| {
                if self.is_finished() {
                    // Rust has already reported a panic of the thread; it left no outcome.
                    let _ = thread.handle.join();
                }
                let task = &self.workload.tasks[thread.definition];
                let nothing = || ThreadRecord::of_nothing(task, *lock(&self.start), stop);
                Ended {
                    name: thread.name,
                    ran: thread.progress.began.load(Ordering::Acquire) <= stop,
                    outcome: lock(&thread.progress.outcome).take().unwrap_or_else(nothing),
                }
            })
            .collect()
    }

    fn nudge_until_ended(&self) {
        for _ in 0..NUDGES {
            if self.is_finished() {
                break;
            }
            // A thread may check just before the end is set and fall asleep just after a signal, so this is repeated.
            for thread in lock(&self.threads).iter().filter(|thread| !thread.handle.is_finished()) {
                // SAFETY: the handle is joined later, so it still refers to this thread.
                unsafe {
                    libc::pthread_kill(thread.handle.as_pthread_t(), NUDGE as libc::c_int);
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Starts another thread of a definition, for a `fork` event.
    pub(super) fn fork(&self, definition: usize) -> Result<(), String> {
        let task = &self.workload.tasks[definition];
        let number = self.forks[definition].fetch_add(1, Ordering::Relaxed);
        if number >= FORK_LIMIT {
            return Err(format!(
                "{} was forked {FORK_LIMIT} times, the most that rt-app allows",
                task.name
            ));
        }
        let instance = task.instances + number;
        self.spawn(definition, instance, format!("{}-{instance}", task.name), true)
    }

    /// Creates a thread. Waits until it is ready, unless it is forked: a forked thread begins at once.
    fn spawn(
        &self,
        definition: usize,
        instance: u32,
        name: String,
        forked: bool,
    ) -> Result<(), String> {
        let run = self.this.upgrade().ok_or("the run is over")?;
        let progress = Arc::new(Progress::new());
        let own_progress = Arc::clone(&progress);
        let own_name = name.clone();
        let (ready, is_ready) = mpsc::channel();
        self.living.fetch_add(1, Ordering::AcqRel);
        let handle = Builder::new()
            // The kernel shows 15 bytes of it.
            .name(name.clone())
            .spawn(move || {
                let _living = Living(&run);
                let pid = u32::try_from(nix::unistd::gettid().as_raw()).unwrap_or(0);
                own_progress.waiting.introduce(pid);
                let worker = Worker::new(&run, &own_progress.waiting, definition, instance);
                // Attributes come last: a nice value replaces shares.
                let prepared =
                    worker.prepare().and_then(|()| run.set_attributes(definition, pid, &own_name));
                if forked {
                    run.note(pid, NoteKind::Task { name: own_name });
                }
                let failed = prepared.is_err();
                if let (true, Err(reason)) = (forked, &prepared) {
                    run.fail(reason.clone());
                }
                own_progress.before.store(clock::thread_cpu_time(), Ordering::Release);
                // The creator of a forked thread is not listening.
                let _ = ready.send(prepared);
                if failed || (!forked && !run.gate.wait(&run.over)) {
                    return;
                }
                let start = if forked { clock::monotonic() } else { *lock(&run.start) };
                own_progress.before.store(clock::thread_cpu_time(), Ordering::Release);
                let now = clock::monotonic();
                own_progress.began.store(now, Ordering::Release);
                run.note_weight(definition, pid);
                if forked {
                    run.note_first_job(definition, pid, start);
                }
                match worker.carry_out(start) {
                    Ok(outcome) => *lock(&own_progress.outcome) = Some(outcome),
                    Err(reason) => run.fail(reason),
                }
            })
            .map_err(|error| {
                self.living.fetch_sub(1, Ordering::AcqRel);
                format!(
                    "cannot create the thread {name}: {error}; {}",
                    fairground_files::remedy(&error)
                )
            })?;
        let answer = if forked {
            Ok(())
        } else {
            is_ready.recv().unwrap_or_else(|_| Err("a thread ended before it was ready".to_owned()))
        };
        lock(&self.threads).push(Thread { name, definition, handle, progress });
        answer
    }

    /// Passes the attributes of a thread to the scheduler.
    fn set_attributes(&self, definition: usize, pid: u32, name: &str) -> Result<(), String> {
        let wanted = &self.attributes[definition];
        match &self.attribute_map {
            Some(map) if *wanted != Attributes::default() => {
                map.set(pid, wanted).map_err(|error| format!("{name}: {error}"))
            }
            _ => Ok(()),
        }
    }

    /// Tells the recorder the weight that the workload wants for a thread, if it is not that of its nice value.
    fn note_weight(&self, definition: usize, pid: u32) {
        let idle = load_weight(Policy::Idle, 0);
        if let Some(weight) = self.attributes[definition].weight(idle) {
            self.note(pid, NoteKind::Weight(weight));
        }
    }

    /// Tells the recorder about the first job of a task that begins at `start`.
    fn note_first_job(&self, definition: usize, pid: u32, start: u64) {
        if let Some((due, deadline)) = first_job(&self.workload.tasks[definition], start) {
            self.note(pid, NoteKind::JobRelease { due, deadline });
        }
    }

    /// Ends the run for a reason; only the first reason counts.
    fn fail(&self, reason: String) {
        lock(&self.failure).get_or_insert(reason);
        wake_watcher();
    }

    /// Tells the recorder something that only the thread itself knows.
    pub(super) fn note(&self, pid: u32, kind: NoteKind) {
        if let Some(recording) = &self.recording {
            recording.notes.add(pid, kind);
        }
    }
}

/// Counts a thread as living until it ends.
struct Living<'run>(&'run Run);

impl Drop for Living<'_> {
    fn drop(&mut self) {
        if self.0.living.fetch_sub(1, Ordering::AcqRel) == 1 {
            wake_watcher();
        }
    }
}

/// Makes the thread that waits for signals check whether the run is over. The signal is the one for ended children, which has no other
/// meaning here.
fn wake_watcher() {
    // If no thread waits, nothing happens; a process can always signal itself.
    let _ = kill(Pid::this(), Signal::SIGCHLD);
}

/// CPU time of another thread since it was created.
fn cpu_time_of(handle: &JoinHandle<()>) -> Option<u64> {
    let mut clock_id = 0;
    // SAFETY: the thread has not been joined, so its handle is valid; the clock's number is written to a local.
    let result = unsafe { libc::pthread_getcpuclockid(handle.as_pthread_t(), &raw mut clock_id) };
    if result != 0 {
        return None;
    }
    let time = nix::time::clock_gettime(nix::time::ClockId::from_raw(clock_id)).ok()?;
    let part = |value: i64| u64::try_from(value).ok();
    Some(part(time.tv_sec())? * 1_000_000_000 + part(time.tv_nsec())?)
}

/// Makes the signal that wakes threads at the end harmless: it interrupts system calls and does nothing else.
fn install_nudge() -> Result<(), Error> {
    extern "C" fn nothing(_signal: libc::c_int) {}
    let action = SigAction::new(SigHandler::Handler(nothing), SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler does nothing, which is always safe.
    unsafe { sigaction(NUDGE, &action) }.map_err(Error::system("cannot handle signals"))?;
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
