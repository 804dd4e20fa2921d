//! A loader whose system calls are answered here.

mod answers;
mod threads;

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

use fairground_bpf::{BpfCall, Object};

use crate::calls::{Ask, Need, State};
use crate::error::{Error, system};
use crate::process::{Answer, Loader};
use crate::tree::Tree;
use crate::{attributes, vdso, waits, write};
use threads::Thread;

/// Maximum number of calls answered here that a loader may make before it attaches.
const MOST_CALLS: u64 = 10_000_000;
/// Actions of a loader after attaching are captured too, within this many of its calls.
const AFTERWARDS: u64 = 10_000;

/// Which calls of a loader that has not attached yet are left to a kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// None: programs are not run.
    None,
    /// Those about the object, from the first run of a program on.
    FromFirstRun,
    /// Those about the object.
    All,
}

/// A call that waits for a kernel's answer.
pub(crate) struct Asked {
    /// Number of the thread.
    pub thread: usize,
    pub call: BpfCall,
    pub ask: Ask,
}

/// The treatment of a thread's call.
pub(crate) enum Step {
    /// It is answered at once.
    Answer(Answer),
    /// It waits.
    Wait,
    /// It gives up its CPU.
    Yield,
}

/// A loader under supervision.
pub(crate) struct Supervisor {
    pub state: State,
    pub tree: Tree,
    pub object: Object,
    pub loader: Loader,
    pub threads: Vec<Thread>,
    /// The thread that is running.
    current: usize,
    /// The loader's clock when the running thread continued, nanoseconds.
    pub clock: u64,
    /// Calls of the running thread since it continued.
    pub calls: u64,
    /// The cost of such a call, nanoseconds.
    pub call_cost: u64,
    /// Threads whose wait the running thread has ended.
    pub woken: Vec<u32>,
    /// Number of waits so far.
    pub arrivals: u64,
    /// A signal to send once its sender has its answer: to a thread, or to the whole loader.
    pub signal: Option<(Option<i32>, i32)>,
    /// A thread whose scheduling attributes have changed.
    pub changed: Option<usize>,
    /// How the loader ended, if it has.
    pub ended: Option<String>,
    output: File,
    /// Stand-ins for ring buffers among the descriptors that the loader waits for.
    events: Vec<(u32, std::os::fd::OwnedFd)>,
}

impl Supervisor {
    /// Starts a loader on a machine with this many CPUs.
    pub(crate) fn start(
        program: &Path,
        command: &[String],
        tree: Tree,
        object: Object,
        cpus: usize,
    ) -> Result<Self, Error> {
        let output = system("create a file for the loader's output", tempfile::tempfile())?;
        let started = Loader::start(program, command, &output, &trapped());
        let loader = system(&format!("start {}", program.display()), started)?;
        let mut supervisor = Self {
            state: State::new(cpus),
            tree,
            object,
            loader,
            threads: Vec::new(),
            current: 0,
            clock: 0,
            calls: 0,
            call_cost: 0,
            woken: Vec::new(),
            arrivals: 0,
            signal: None,
            changed: None,
            ended: None,
            output,
            events: Vec::new(),
        };
        // The loader asks for the time only after its first call. Changing its code may interrupt that call, which then comes again.
        let first = system("follow the loader", supervisor.next_call())?;
        let disarmed = vdso::disarm(supervisor.loader.pid());
        let interrupted = system("redirect the loader's clock functions", disarmed)?;
        let first = match interrupted {
            true => system("follow the loader", supervisor.next_call())?,
            false => first,
        };
        supervisor.threads.extend(first.map(Thread::new));
        Ok(supervisor)
    }

    /// The loader's output so far.
    pub(crate) fn output(&mut self) -> Result<String, Error> {
        let output = text_of(&mut self.output);
        system("read the loader's output", output)
    }

    /// The time on the loader's clock, nanoseconds.
    pub(crate) fn now(&self) -> u64 {
        self.clock + self.calls * self.call_cost
    }

    /// Runs the loader until the call that attaches its scheduler, which is carried out but not answered, or until a call that is `left`,
    /// which is returned. Time passes only while all threads wait.
    pub(crate) fn run_until_attached(&mut self, left: Left) -> Result<Option<Asked>, Error> {
        for _ in 0..MOST_CALLS {
            if self.state.table().is_some() {
                self.tell_attached();
                return Ok(None);
            }
            if let Some(how) = self.ended.clone() {
                return Err(self.not_attached(how));
            }
            let thread = system("follow the loader", self.next_runnable())?;
            if left != Left::None && self.threads[thread].answer.is_none() {
                let asked = system("follow the loader", self.ask(thread))?;
                let counts =
                    |asked: &Asked| left == Left::All || matches!(asked.call, BpfCall::Run { .. });
                if let Some(asked) = asked.filter(counts) {
                    return Ok(Some(asked));
                }
            }
            system("follow the loader", self.step(thread))?;
        }
        let how = format!("it made {MOST_CALLS} system calls without attaching one");
        Err(self.not_attached(how))
    }

    /// Lets the loader find that its scheduler is attached.
    pub(crate) fn tell_attached(&self) {
        self.tree.enable(&write::scheduler_name(&self.object));
    }

    fn not_attached(&mut self, how: String) -> Error {
        match self.output() {
            Ok(output) => Error::NotAttached {
                how,
                ran: self.state.runs.last().map(|run| run.program.clone()),
                output,
            },
            Err(error) => error,
        }
    }

    /// Lets it continue until all threads wait: its one-time work is done then.
    pub(crate) fn run_until_quiet(&mut self) -> Result<(), Error> {
        for _ in 0..AFTERWARDS {
            let waits = |thread: &Thread| thread.waiter.is_some() || thread.ended;
            if self.ended.is_some() || self.threads.iter().all(waits) {
                break;
            }
            let thread = system("follow the loader", self.next_runnable())?;
            system("follow the loader", self.step(thread))?;
        }
        Ok(())
    }

    /// The request that a thread's call makes of a kernel that has the scheduler, if any.
    pub(crate) fn ask(&mut self, thread: usize) -> io::Result<Option<Asked>> {
        let call = self.threads[thread].call.as_ref();
        let Some(call) = call.filter(|call| call.number == libc::SYS_bpf) else {
            return Ok(None);
        };
        let asked = self.state.ask(call.thread, &call.arguments, &self.object)?;
        Ok(asked.map(|(call, ask)| Asked { thread, call, ask }))
    }

    /// What a thread's call needs of a kernel that has the scheduler.
    pub(crate) fn need(&self, thread: usize) -> io::Result<Option<Need>> {
        let call = self.threads[thread].call.as_ref();
        match call.filter(|call| call.number == libc::SYS_bpf) {
            Some(call) => self.state.need(call.thread, &call.arguments, &self.object),
            None => Ok(None),
        }
    }

    /// Notes the table of callbacks that a thread's call attaches.
    pub(crate) fn note_table(&mut self, thread: usize) -> io::Result<()> {
        match self.threads[thread].call {
            Some(call) => self.state.note_table(call.thread, &call.arguments),
            None => Ok(()),
        }
    }

    /// Carries out one call of a thread that can continue.
    fn step(&mut self, number: usize) -> io::Result<()> {
        self.current = number;
        if let Some(answer) = self.threads[number].answer.take() {
            return self.proceed(number, answer);
        }
        let was_attached = self.state.table().is_some();
        match self.handle(number)? {
            Step::Answer(answer) if !was_attached && self.state.table().is_some() => {
                self.threads[number].answer = Some(answer);
            }
            Step::Answer(answer) => self.proceed(number, answer)?,
            Step::Wait => {}
            Step::Yield => {
                self.proceed(number, Answer::Value(0))?;
                self.current += 1;
            }
        }
        self.look_at_files();
        Ok(())
    }

    /// The thread that ran last if it can continue, otherwise the next one after it that can; time passes until there is one.
    fn next_runnable(&mut self) -> io::Result<usize> {
        loop {
            let count = self.threads.len().max(1);
            let mut order = (0..count).map(|place| (self.current + place) % count);
            let can_run = |number: &usize| {
                let thread = self.threads.get(*number);
                thread.is_some_and(|thread| thread.waiter.is_none() && !thread.ended)
            };
            if let Some(number) = order.find(can_run) {
                return Ok(number);
            }
            let waiting = self.threads.iter_mut().filter(|one| one.waiter.is_some());
            let first = waiting.min_by_key(|one| {
                let until = one.waiter.as_ref().and_then(|waiter| waiter.until);
                until.unwrap_or(u64::MAX)
            });
            let Some(thread) = first else {
                return Err(io::Error::other("no thread of the loader is left"));
            };
            let Some(waiter) = thread.waiter.take_if(|waiter| waiter.until.is_some()) else {
                return Err(io::Error::other(
                    "all threads of the loader wait for each other, or for something that never happens",
                ));
            };
            self.clock = self.clock.max(waiter.until.unwrap_or(0));
            thread.answer = Some(waiter.timed_out());
        }
    }
}

fn text_of(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The numbers of the system calls that are answered here: those that query the machine, those that wait, those that tell the time, and those about threads.
fn trapped() -> Vec<i64> {
    [answers::CALLS, waits::CALLS, attributes::CALLS, threads::CALLS].concat()
}
