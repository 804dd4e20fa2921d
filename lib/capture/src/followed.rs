//! A loader that runs beside a kernel: its requests before it has attached, and the demands of its threads from then on.

use std::io;

use fairground_bpf::{BpfCall, Demand, LoaderThread, Reply, Request, Wait};

use crate::Captured;
use crate::calls::{Ask, Memory, Need, Place};
use crate::error::Error;
use crate::process::{self, Answer};
use crate::supervisor::{Asked, Left, Step, Supervisor};
use crate::write;

/// Calls that a thread may make before the others get their turn.
const CALLS_AT_ONCE: u64 = 64;

/// A loader that has reached the point where it needs a kernel: it runs one of its programs, or has attached its scheduler. Dropping this
/// ends it.
pub struct Followed {
    pub(crate) supervisor: Supervisor,
    pub(crate) object: Vec<u8>,
    pub(crate) origin: String,
    /// The request that it makes before it attaches, if any.
    pub(crate) asked: Option<Asked>,
    /// The thread that waits for the kernel's answer, and where the answer goes.
    pub(crate) asks: Option<(usize, Ask)>,
    /// The purpose of the reply to each thread's demand.
    pub(crate) replies: Vec<Pending>,
}

/// The meaning of the reply to a thread's demand for the call that it is in.
#[derive(Default)]
pub(crate) enum Pending {
    /// Nothing: its call has not been handled yet.
    #[default]
    Call,
    /// It waits in its call.
    Wait,
    /// Its call returns 0.
    Done,
    /// Its bpf(2) call gets the kernel's answer.
    Bpf(Ask),
    /// Its call creates a thread, if the kernel accepts one.
    Spawn,
    /// The kernel has the scheduler again, and its call can be handled.
    Load,
    /// Its call has attached the scheduler, unless the kernel refuses it.
    Attach,
}

impl Followed {
    /// The captured actions of the loader so far.
    pub fn captured(&mut self) -> Result<Captured, Error> {
        let Supervisor { object, state, .. } = &self.supervisor;
        Ok(Captured {
            scheduler: write::scheduler_name(object),
            companion: write::companion(object, state, &self.origin),
            object: self.object.clone(),
            output: self.supervisor.output()?,
        })
    }

    /// The memory that the loader and the kernel share.
    pub fn memory(&self) -> Result<Vec<Memory>, Error> {
        let Supervisor { object, state, loader, .. } = &self.supervisor;
        let memory = state.memory(loader.pid(), object);
        crate::error::system("share the loader's memory", memory)
    }

    /// Whether it has attached its scheduler.
    pub fn is_attached(&self) -> bool {
        self.supervisor.state.table().is_some()
    }

    /// Tells it that its scheduler has been unloaded and asks to be loaded again.
    pub fn unloaded(&mut self) {
        self.supervisor.state.unload();
        self.supervisor.tree.disable();
    }

    /// Takes these CPUs offline, and all others online.
    pub fn set_offline(&mut self, cpus: Vec<usize>) -> io::Result<()> {
        self.supervisor.tree.set_offline(cpus)
    }

    /// The address at which it has its arena, if it has one.
    pub fn arena(&self) -> Result<Option<u64>, Error> {
        let memory = self.memory()?;
        Ok(memory.iter().find_map(|one| match one.place {
            Place::Arena(address) => Some(address),
            Place::Section(_) => None,
        }))
    }

    /// Lets it continue until it attaches the scheduler; see [`fairground_bpf::Loader::prepare`].
    pub fn prepare(&mut self, reply: &Reply) -> Result<Option<(usize, BpfCall)>, Error> {
        if let Some((thread, ask)) = self.asks.take() {
            let answered = self.supervisor.threads[thread].answer_with(&ask, reply);
            let went_on = answered.and_then(|answer| self.supervisor.proceed(thread, answer));
            crate::error::system("follow the loader", went_on)?;
        }
        let asked = match self.asked.take() {
            Some(first) => Some(first),
            None => self.supervisor.run_until_attached(Left::All)?,
        };
        Ok(asked.map(|Asked { thread, call, ask }| {
            self.asks = Some((thread, ask));
            (self.supervisor.state.cpu, call)
        }))
    }

    /// The loader's threads; the first is the one that has attached the scheduler. `call_cost` is the cost of a system call, nanoseconds.
    pub fn threads(&mut self, call_cost: u64) -> Vec<LoaderThread> {
        let supervisor = &mut self.supervisor;
        supervisor.call_cost = call_cost;
        let pending = supervisor.threads.iter().map(|thread| match thread.waiter {
            Some(_) => Pending::Wait,
            None => Pending::Call,
        });
        self.replies = pending.collect();
        let threads = supervisor.threads.iter();
        threads
            .map(|thread| LoaderThread {
                name: thread.name(),
                attributes: thread.attributes.clone(),
                wait: thread.waiter.as_ref().map(|waiter| Wait { until: waiter.until }),
            })
            .collect()
    }

    /// Lets a thread continue; see [`fairground_bpf::Loader::resume`].
    pub fn resume(&mut self, thread: u32, reply: &Reply, now: u64) -> Result<Request, String> {
        self.supervisor.clock = now;
        self.supervisor.calls = 0;
        self.supervisor.woken.clear();
        let went_on = self.go_on(thread as usize, reply);
        let demand = went_on.map_err(|error| error.to_string())?;
        self.supervisor.look_at_files();
        Ok(Request {
            calls: self.supervisor.calls,
            woken: std::mem::take(&mut self.supervisor.woken),
            demand,
        })
    }

    fn go_on(&mut self, number: usize, reply: &Reply) -> io::Result<Demand> {
        let pending = std::mem::take(&mut self.replies[number]);
        if matches!(pending, Pending::Wait)
            && let Some(waiter) = &self.supervisor.threads[number].waiter
            && waiter.until.is_none_or(|until| until > self.supervisor.clock)
        {
            // The wake-up was for an earlier wait.
            let until = waiter.until;
            self.replies[number] = pending;
            return Ok(Demand::Wait(Wait { until }));
        }
        self.reply(number, pending, reply)?;
        loop {
            if let Some(demand) = self.unasked(number)? {
                return Ok(demand);
            }
            if self.supervisor.calls >= CALLS_AT_ONCE {
                return Ok(Demand::Time);
            }
            self.supervisor.calls += 1;
            if let Some(demand) = self.reload(number)? {
                return Ok(demand);
            }
            if self.supervisor.state.is_handed_over()
                && let Some(Asked { call, ask, .. }) = self.supervisor.ask(number)?
            {
                self.replies[number] = Pending::Bpf(ask);
                return Ok(Demand::Bpf(call));
            }
            if let Some(name) = self.supervisor.new_thread(number)? {
                self.replies[number] = Pending::Spawn;
                return Ok(Demand::Spawn { name });
            }
            match self.supervisor.handle(number)? {
                Step::Answer(answer) => self.supervisor.proceed(number, answer)?,
                Step::Yield => {
                    self.replies[number] = Pending::Done;
                    return Ok(Demand::Yield);
                }
                Step::Wait => {
                    self.replies[number] = Pending::Wait;
                    let waiter = self.supervisor.threads[number].waiter.as_ref();
                    let until = waiter.and_then(|waiter| waiter.until);
                    return Ok(Demand::Wait(Wait { until }));
                }
            }
        }
    }

    /// The demand of a thread whose call needs the scheduler in the kernel that has unloaded it. The settings are missing in it.
    fn reload(&mut self, number: usize) -> io::Result<Option<Demand>> {
        if self.is_attached() {
            return Ok(None);
        }
        let Some(need) = self.supervisor.need(number)? else { return Ok(None) };
        if !self.supervisor.state.is_handed_over() {
            self.replies[number] = Pending::Load;
            let (setup, arena) = Default::default();
            return Ok(Some(Demand::Load { setup, arena }));
        }
        if need == Need::Run {
            return Ok(None);
        }
        self.supervisor.note_table(number)?;
        self.replies[number] = Pending::Attach;
        let setup = Default::default();
        Ok(Some(Demand::Attach { setup }))
    }

    /// Answers the call that a thread is in.
    fn reply(&mut self, number: usize, pending: Pending, reply: &Reply) -> io::Result<()> {
        let supervisor = &mut self.supervisor;
        let thread = &mut supervisor.threads[number];
        let answer = match pending {
            // The result of the call that attached the scheduler is known.
            Pending::Call => thread.answer.take(),
            Pending::Done => Some(Answer::Value(0)),
            Pending::Wait => match thread.waiter.take() {
                Some(waiter) => Some(waiter.timed_out()),
                None => thread.answer.take(),
            },
            Pending::Bpf(ask) => Some(thread.answer_with(&ask, reply)?),
            Pending::Spawn if reply.result < 0 => Some(Answer::Error(-reply.result as i32)),
            Pending::Spawn => return self.spawn(number),
            Pending::Load => {
                supervisor.state.hand_over();
                None
            }
            Pending::Attach if reply.result < 0 => {
                supervisor.state.unload();
                Some(Answer::Error(-reply.result as i32))
            }
            Pending::Attach => {
                let answered = supervisor.handle(number)?;
                supervisor.tell_attached();
                match answered {
                    Step::Answer(answer) => Some(answer),
                    Step::Wait | Step::Yield => None,
                }
            }
        };
        match answer {
            Some(answer) => supervisor.proceed(number, answer),
            None => Ok(()),
        }
    }

    /// Lets a thread create another one.
    fn spawn(&mut self, number: usize) -> io::Result<()> {
        let supervisor = &mut self.supervisor;
        supervisor.proceed(number, Answer::Continue)?;
        self.replies.push(Pending::Call);
        if supervisor.ended.is_none() && supervisor.threads.len() != self.replies.len() {
            return Err(io::Error::other("the loader cannot create a thread"));
        }
        Ok(())
    }

    /// An event that the kernel must be told without asking.
    fn unasked(&mut self, number: usize) -> io::Result<Option<Demand>> {
        let supervisor = &mut self.supervisor;
        if let Some(how) = &supervisor.ended {
            let mut how = how.clone();
            let output = supervisor.output().unwrap_or_default();
            if let Some(last) = output.lines().rev().find(|line| !line.trim().is_empty()) {
                how = format!("{how}; its last output: {last}");
            }
            return Ok(Some(Demand::End { how }));
        }
        if supervisor.threads[number].ended {
            return Ok(Some(Demand::Exit));
        }
        if supervisor.changed.take() == Some(number) {
            let attributes = supervisor.threads[number].attributes.clone();
            return Ok(Some(Demand::Attributes(attributes)));
        }
        Ok(None)
    }
}

impl Ask {
    /// Writes the kernel's answer to where the loader wants it; returns the result of the call.
    pub(crate) fn answer(&self, thread: i32, reply: &Reply) -> io::Result<Answer> {
        if let Some(at) = self.returned {
            // The program ran, with any return value.
            process::write(thread, at, &(reply.result as u32).to_le_bytes())?;
        } else if reply.result < 0 {
            return Ok(Answer::Error(-reply.result as i32));
        }
        process::write(thread, self.target, &reply.bytes)?;
        Ok(Answer::Value(0))
    }
}
