//! `fairground work`: cells as lines on standard input, results as lines on standard output.

mod form;
mod warm;

use std::io::{self, BufRead, Read as _, Write as _};
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use fairground_kernel::supervise::Signals;
use serde_json::Value;

use crate::ending;
use crate::output::{FAILED, Stop, fail};
use crate::sweep::UNFINISHED;
use form::Wanted;
pub use form::{Answer, Request, ShardRequest};
use warm::Warm;

/// The maximum length of a line, in bytes.
const LONGEST_LINE: u64 = 1 << 20;

/// Run cells that come as lines, for programs and for Python
///
/// A cell is one simulation: a line of JSON on standard input, such as {"workload":"mix-two","scheduler":"cfs","seed":3}. For each a line of
/// JSON comes on standard output, as soon as it is there: {"id":...,"run":{...}}. The files that a cell names are read and compiled once, so that each
/// further cell takes a fraction of a millisecond. A cell that fails is a line, too. A line may also ask for a shard of a sweep: its results go
/// into the sweep's folder. At the end of the input, and when it is asked to end, the command finishes the cells that it has begun; asked again, it
/// ends at once.
///
/// The members are described in docs/sweeps.md, and in docs/schema/work-cell-1.json, work-shard-1.json and work-1.json.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  echo '{\"workload\":\"mix-two\",\"scheduler\":\"cfs\",\"machine\":\"2\",\"set\":{\"sched_latency\":\"12ms\"}}' | fairground work
  fairground work --threads 4 < cells.jsonl > results.jsonl")]
pub struct Arguments {
    /// Cells at once. With several, results come in the order in which they are ready; the member id tells them apart
    #[arg(long, default_value_t = NonZero::<usize>::MIN)]
    threads: NonZero<usize>,
}

/// An event that the threads wait for.
enum Message {
    /// A cell.
    Line(Result<String, String>),
    /// There will be no more.
    End,
}

/// Where the threads get their cells from, and whether that has ended.
type Source = Mutex<(Receiver<Message>, bool)>;

pub fn main(arguments: &Arguments) -> Result<ExitCode, Stop> {
    let signals = Signals::take().map_err(|error| fail(FAILED, error))?;
    let warm = Warm::default();
    let stop = warm.stop.clone();
    let (sender, receiver) = sync_channel(1);
    let of_signals = sender.clone();
    let end = move || {
        stop.store(true, Ordering::Relaxed);
        // If there is a line, whoever gets it looks at `stop`.
        let _ = of_signals.try_send(Message::End);
    };
    let abandon = || std::process::exit(UNFINISHED.into());
    // Both end with the process.
    let cut_off = Arc::new(AtomicBool::new(false));
    let note = cut_off.clone();
    let started = std::thread::Builder::new().spawn(move || read(&sender, &note)).and_then(|_| {
        std::thread::Builder::new().spawn(move || ending::heed(signals, end, abandon))
    });
    started.map_err(|error| fail(FAILED, format_args!("there can be no thread: {error}")))?;
    let source = Mutex::new((receiver, false));
    let worker = || work(&source, &warm);
    let outcomes = std::thread::scope(|scope| {
        let others: Vec<_> = (1..arguments.threads.get())
            .map_while(|_| std::thread::Builder::new().spawn_scoped(scope, worker).ok())
            .collect();
        let first = worker();
        let others = others.into_iter().map(|one| one.join().unwrap_or(Ok(())));
        others.fold(first, Result::and)
    });
    match outcomes {
        // Nobody wants the results any more.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(fail(FAILED, format_args!("cannot write to standard output: {error}")))
        }
        _ if cut_off.load(Ordering::Relaxed) => Ok(ExitCode::from(FAILED)),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Passes on the lines of standard input. Notes in `cut_off` if that ends before the input does.
fn read(sender: &SyncSender<Message>, cut_off: &AtomicBool) {
    let mut input = io::stdin().lock();
    loop {
        let line = match next_line(&mut input) {
            Ok(Some(line)) if line.iter().all(u8::is_ascii_whitespace) => continue,
            Ok(Some(line)) => String::from_utf8(line).map_err(|_| "the line is not UTF-8".into()),
            Ok(None) => break,
            Err(error) => {
                cut_off.store(true, Ordering::Relaxed);
                let message =
                    format!("cannot read standard input, so that this is the last answer: {error}");
                let _ = sender.send(Message::Line(Err(message)));
                break;
            }
        };
        if sender.send(Message::Line(line)).is_err() {
            break;
        }
    }
    let _ = sender.send(Message::End);
}

/// The next line without its end; `None` after the last.
fn next_line(input: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let read = input.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)?;
    if read as u64 == LONGEST_LINE && line.last() != Some(&b'\n') {
        let message = format!("a line has more than {LONGEST_LINE} bytes");
        return Err(io::Error::other(message));
    }
    Ok((read > 0).then_some(line))
}

/// The next line; none after the last, and none any more once the command was asked to end.
fn next(source: &Source, stop: &AtomicBool) -> Option<Result<String, String>> {
    let mut source = source.lock().unwrap_or_else(PoisonError::into_inner);
    let (receiver, ended) = &mut *source;
    if *ended {
        return None;
    }
    match receiver.recv() {
        Ok(Message::Line(line)) if !stop.load(Ordering::Relaxed) => Some(line),
        _ => {
            *ended = true;
            None
        }
    }
}

/// Runs cells until there are no more, or nobody wants their results.
fn work(source: &Source, warm: &Warm) -> io::Result<()> {
    while let Some(line) = next(source, &warm.stop) {
        let mut text = answer(line, warm).line();
        text.push('\n');
        let mut output = io::stdout().lock();
        let written = output.write_all(text.as_bytes());
        if let Err(error) = written.and_then(|()| output.flush()) {
            let mut source = source.lock().unwrap_or_else(PoisonError::into_inner);
            source.1 = true;
            return Err(error);
        }
    }
    Ok(())
}

fn answer(line: Result<String, String>, warm: &Warm) -> Answer {
    let without_id = |message| (Value::Null, message);
    let parsed = line.map_err(without_id);
    let wanted = match parsed.and_then(|line| Wanted::parse(&line)) {
        Ok(wanted) => wanted,
        Err((id, message)) => return Answer::refusal(id, message),
    };
    let id = match &wanted {
        Wanted::Cell(request) => request.id.clone(),
        Wanted::Shard(request) => request.id.clone(),
    };
    // A mistake of the simulator is the end of one cell, not of all.
    let ended = catch_unwind(AssertUnwindSafe(|| match &wanted {
        Wanted::Cell(request) => {
            warm.run(request).map(|result| Answer::result(id.clone(), result, request.charged))
        }
        Wanted::Shard(request) => {
            warm.run_shard(request).map(|progress| Answer::progress(id.clone(), progress))
        }
    }));
    match ended {
        Ok(Ok(answer)) => answer,
        Ok(Err(message)) => Answer::refusal(id, message),
        Err(_) => {
            Answer::refusal(id, "a mistake in fairground, which standard error tells".to_owned())
        }
    }
}
