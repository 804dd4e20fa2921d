//! Runs the cells that are not done yet.

use std::collections::HashSet;
use std::io;
use std::num::NonZero;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use clap::Args;
use fairground_kernel::supervise::Signals;
use fairground_lab::{Cell, Cells, Error, Plan};
use fairground_report::{DataFiles, GROUP, Pack, Run, Unwritten};
use fairground_results::Status;

use super::plan::{Identity, LastOpened, Part, Sweep};
use super::{Shard, UNFINISHED};
use crate::output::{self, FAILED, Progress, Stop};
use crate::quantity::nanoseconds;
use crate::{VERSION, ending};

/// A file is finished after so many runs, or after so much time, whichever is first.
const MOST_RUNS: usize = 100_000;
const MOST_TIME: Duration = Duration::from_secs(60);
/// How often to look whether that time is over, or no further cell is to begin.
const LOOK: Duration = Duration::from_millis(100);

/// Run the cells that have no result yet
///
/// Results are written as they come, at least once a minute, and when the command is asked to end (SIGTERM, Ctrl-C); it then waits for the cells that run,
/// unless it is asked again. Killed, it loses at most the work that it
/// did in the last minute; run again, it does the rest. Several may run at the same time, on any machines that share the folder: give each a shard
/// of its own. A cell that fails is a result like any other, and the exit status is 0.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fairground sweep run S
  fairground sweep run S --shard 3/64 --threads 4 --until 55m")]
pub struct Arguments {
    /// The folder of the sweep
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,

    /// Run only one shard, such as 3/64; they are counted from 0 and take about the same time
    #[arg(long, value_name = "NUMBER/COUNT")]
    shard: Option<Shard>,

    /// Begin no cell after this time, such as 55m; the exit status is then 75 if cells are left
    #[arg(long, value_name = "TIME", value_parser = nanoseconds)]
    until: Option<u64>,

    /// Cells at once [default: one for each CPU of this machine]
    #[arg(long)]
    threads: Option<NonZero<usize>>,
}

pub fn main(arguments: &Arguments) -> Result<ExitCode, Stop> {
    let begun = Instant::now();
    let sweep = Sweep::open(&arguments.folder)?;
    let [stop, abandon] = [false; 2].map(AtomicBool::new).map(Arc::new);
    heed_signals(stop.clone(), abandon.clone())?;
    let job = Job {
        sweep: &sweep,
        cells: sweep.cells_of(arguments.shard),
        threads: threads(arguments.threads),
        until: { arguments.until }.map(|until| begun + Duration::from_nanos(until)),
        stop: &stop,
        abandon: Some(&abandon),
    };
    let progress = Progress::new("cells".into());
    let JobResult { finished, failed, left } =
        job.run(&mut LastOpened::default(), Some(progress))?;
    output::say!(
        "fairground: {finished} cells done, {failed} of them failed; {} were done before, {left} are left",
        job.cells.len() - finished - left
    );
    Ok(match left {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(UNFINISHED),
    })
}

/// Sets `stop` when this process is asked to end, and `abandon` when it is asked once more.
fn heed_signals(stop: Arc<AtomicBool>, abandon: Arc<AtomicBool>) -> Result<(), Error> {
    let signals = Signals::take().map_err(|error| Error::System(error.to_string()))?;
    let set = |flag: Arc<AtomicBool>| move || flag.store(true, Ordering::Relaxed);
    // It ends with the process.
    let listener = Builder::new().spawn(move || ending::heed(signals, set(stop), set(abandon)));
    listener.map_err(no_thread)?;
    Ok(())
}

fn no_thread(error: io::Error) -> Error {
    Error::System(format!("there can be no thread: {error}"))
}

fn threads(wanted: Option<NonZero<usize>>) -> usize {
    wanted.or_else(|| std::thread::available_parallelism().ok()).map_or(1, NonZero::get)
}

/// Cells to run.
pub struct Job<'a> {
    pub sweep: &'a Sweep,
    pub cells: Range<usize>,
    /// Cells at once.
    pub threads: usize,
    /// When no further cell is to begin.
    pub until: Option<Instant>,
    /// Whether no further cell is to begin.
    pub stop: &'a AtomicBool,
    /// Set when the process is to end without waiting for cells that run.
    pub abandon: Option<&'a AtomicBool>,
}

/// What became of the cells of a job.
pub struct JobResult {
    /// Those that were run.
    pub finished: usize,
    /// Those among them that failed.
    pub failed: usize,
    /// Those that are still to be run.
    pub left: usize,
}

impl Job<'_> {
    /// Runs those that have no result, and writes their results.
    pub fn run(
        &self,
        last: &mut LastOpened,
        progress: Option<Progress>,
    ) -> Result<JobResult, Error> {
        let mut done: HashSet<Identity> = HashSet::new();
        self.sweep.done(&self.cells, |identity, _| {
            done.insert(identity);
        })?;
        let writer = Writer::of(self.sweep, &self.cells);
        let runner = &Runner {
            job: self,
            writer: &writer,
            finished: AtomicUsize::new(0),
            failed: AtomicUsize::new(0),
            progress,
        };
        let (ended, waiting) = mpsc::channel();
        let outcome = std::thread::scope(|scope| {
            let pacer = Builder::new().spawn_scoped(scope, move || runner.keep_pace(&waiting));
            pacer.map_err(no_thread)?;
            let outcome = runner.run(last, &done);
            drop(ended);
            outcome
        });
        let written = writer.finish();
        if let Some(progress) = &runner.progress {
            progress.clear();
        }
        let left = outcome?;
        written.map_err(|(path, cause)| Error::Write { path, cause })?;
        Ok(JobResult {
            finished: runner.finished.load(Ordering::Relaxed),
            failed: runner.failed.load(Ordering::Relaxed),
            left,
        })
    }
}

/// A runner of cells.
struct Runner<'a> {
    job: &'a Job<'a>,
    writer: &'a Writer<'a>,
    finished: AtomicUsize,
    failed: AtomicUsize,
    progress: Option<Progress>,
}

impl Runner<'_> {
    fn stops(&self) -> bool {
        let is_late = { self.job.until }.is_some_and(|until| Instant::now() >= until);
        is_late || self.job.stop.load(Ordering::Relaxed) || self.writer.has_failed()
    }

    /// Sees to it that results are not kept for long, until `ended` has no other end. What is there when no further cell is to begin is written at
    /// once: what asked this process to end may not wait for the cells that it is at.
    fn keep_pace(&self, ended: &Receiver<()>) {
        while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(LOOK) {
            if self.job.stop.load(Ordering::Relaxed) {
                self.writer.flush();
                if { self.job.abandon }.is_some_and(|abandon| abandon.load(Ordering::Relaxed)) {
                    self.abandon();
                }
            }
            self.writer.keep_pace();
        }
    }

    /// Ends this process, with what has a result.
    fn abandon(&self) -> ! {
        std::process::exit(match self.writer.finish() {
            Ok(()) => UNFINISHED.into(),
            Err((path, cause)) => {
                output::say!("fairground: {}", Error::Write { path, cause });
                FAILED.into()
            }
        })
    }

    /// Runs those of the cells that are not done; returns how many are left.
    fn run(&self, last: &mut LastOpened, done: &HashSet<Identity>) -> Result<usize, Error> {
        let Job { sweep, cells, .. } = self.job;
        let mut pending = Vec::new();
        let mut total = 0;
        for part in sweep.parts() {
            let own = part.cells.start.max(cells.start)..part.cells.end.min(cells.end);
            if own.is_empty() {
                continue;
            }
            let identities = sweep.identities(own.clone())?;
            let left = own.zip(identities).filter(|(_, one)| !done.contains(one));
            let first = part.cells.start;
            let numbers: Vec<u32> = left.map(|(cell, _)| (cell - first) as u32).collect();
            total += numbers.len();
            pending.push((part, numbers));
        }
        for (part, numbers) in pending {
            if numbers.is_empty() || self.stops() {
                continue;
            }
            let contender = sweep.contender(part.scheduler, last)?;
            let of_part = sweep.cells(&part, &contender)?;
            self.run_part(&part, numbers, &of_part, total);
        }
        Ok(total - self.finished.load(Ordering::Relaxed))
    }

    /// Runs cells of one part, the longest first.
    fn run_part(&self, part: &Part, mut numbers: Vec<u32>, cells: &Cells<Box<Plan>>, total: usize) {
        let effort = |number: &u32| self.job.sweep.effort(part.cells.start + *number as usize);
        numbers.sort_by(|one, other| effort(other).total_cmp(&effort(one)));
        let next = AtomicUsize::new(0);
        let work = || {
            while !self.stops() {
                let Some(number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) else {
                    break;
                };
                let run = result(&cells.get(*number as usize));
                if !run.is_ok() {
                    self.failed.fetch_add(1, Ordering::Relaxed);
                }
                self.writer.add(run);
                let finished = self.finished.fetch_add(1, Ordering::Relaxed) + 1;
                if let Some(progress) = &self.progress {
                    progress.tell(finished, total);
                }
            }
        };
        std::thread::scope(|scope| {
            let start = |_| Builder::new().spawn_scoped(scope, work).ok();
            // The system may allow fewer threads, or none but this one.
            (1..self.job.threads).map_while(start).count();
            work();
        });
    }
}

/// The result of a cell. A crash may have had causes outside it, so it is tried once more.
fn result(cell: &Cell) -> Run {
    let mut run = tried(cell);
    if run.status == Status::Crashed {
        run = tried(cell);
    }
    run
}

fn tried(cell: &Cell) -> Run {
    let crashed = |message: String| cell.nothing(Status::Crashed, message).run;
    match catch_unwind(AssertUnwindSafe(|| cell.run())) {
        Ok(Ok(result)) => result.run,
        Ok(Err(error)) => crashed(format!("before it began: {error}")),
        Err(_) => crashed("in a mistake of the simulator, which standard error tells".to_owned()),
    }
}

/// Writes results into the data set.
struct Writer<'a> {
    sweep: &'a Sweep,
    cells: Range<usize>,
    buffer: Mutex<Buffer>,
    file: Mutex<Option<Open>>,
    /// The file that could not be written.
    failure: Mutex<Option<Unwritten>>,
}

/// Runs that are in no file yet.
struct Buffer {
    runs: Vec<Run>,
    /// How many rows they become, those of their tasks included.
    rows: usize,
    /// When the first of them came.
    since: Instant,
}

impl Buffer {
    fn new() -> Self {
        Self { runs: Vec::new(), rows: 0, since: Instant::now() }
    }

    fn add(&mut self, run: Run) {
        if self.runs.is_empty() {
            self.since = Instant::now();
        }
        self.rows += 1 + run.metrics.as_ref().map_or(0, |metrics| metrics.tasks.len());
        self.runs.push(run);
    }

    fn take(&mut self) -> Vec<Run> {
        self.rows = 0;
        std::mem::take(&mut self.runs)
    }
}

/// A file that is being written.
struct Open {
    files: DataFiles,
    runs: usize,
    since: Instant,
}

impl<'a> Writer<'a> {
    fn of(sweep: &'a Sweep, cells: &Range<usize>) -> Self {
        Self {
            sweep,
            cells: cells.clone(),
            buffer: Mutex::new(Buffer::new()),
            file: Mutex::new(None),
            failure: Mutex::new(None),
        }
    }

    fn has_failed(&self) -> bool {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn add(&self, run: Run) {
        let group = {
            let mut buffer = self.buffer.lock().unwrap_or_else(PoisonError::into_inner);
            buffer.add(run);
            if buffer.rows < GROUP {
                return;
            }
            buffer.take()
        };
        self.write(&group, false);
    }

    /// Finishes the file if it has become too old, with the results that are in none.
    fn keep_pace(&self) {
        let is_late = |since: Instant| since.elapsed() >= MOST_TIME;
        let is_old = {
            let buffer = self.buffer.lock().unwrap_or_else(PoisonError::into_inner);
            let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            let oldest = file.as_ref().map(|open| open.since);
            (!buffer.runs.is_empty() && is_late(buffer.since)) || oldest.is_some_and(is_late)
        };
        if is_old {
            self.flush();
        }
    }

    fn flush(&self) {
        let mut buffer = self.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        let group = buffer.take();
        drop(buffer);
        self.write(&group, true);
    }

    fn write(&self, group: &[Run], finish: bool) {
        if let Err(failure) = self.try_write(group, finish) {
            let mut known = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            known.get_or_insert(failure);
        }
    }

    fn try_write(&self, group: &[Run], finish: bool) -> Result<(), Unwritten> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if !group.is_empty() {
            let open = match &mut *file {
                Some(open) => open,
                None => file.insert(Open {
                    files: self.sweep.new_files(&self.cells)?,
                    runs: 0,
                    since: Instant::now(),
                }),
            };
            open.files.add(group, VERSION)?;
            open.runs += group.len();
        }
        let is_full = file.as_ref().is_some_and(|open| open.runs >= MOST_RUNS);
        file.take_if(|_| finish || is_full).map_or(Ok(()), |open| open.files.finish())
    }

    /// Writes the results that are in no file yet.
    fn finish(&self) -> Result<(), Unwritten> {
        self.flush();
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.take().map_or(Ok(()), Err)
    }
}

impl Sweep {
    /// New files for results of some of these cells, with a name that no other process gives.
    pub fn new_files(&self, cells: &Range<usize>) -> Result<DataFiles, Unwritten> {
        let [runs, tasks] = self.new_places(cells);
        DataFiles::create(&runs, &tasks)
    }

    /// The same for files that become one, of any cells.
    pub fn new_pack(&self) -> Result<Pack, Unwritten> {
        let [runs, tasks] = self.new_places(&(0..self.len()));
        Pack::create(&runs, &tasks)
    }

    fn new_places(&self, cells: &Range<usize>) -> [PathBuf; 2] {
        let mark = &self.planned.mark;
        let (first, end) = (cells.start, cells.end);
        let name = format!("{mark}-{first}-{end}-{:016x}.parquet", unique());
        ["runs", "tasks"].map(|table| self.data(table).join(&name))
    }
}

/// A random number.
fn unique() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    // Its keys come from the system's source of random numbers; those of one process are made from each other.
    RandomState::new().hash_one((std::process::id(), std::time::SystemTime::now()))
}
