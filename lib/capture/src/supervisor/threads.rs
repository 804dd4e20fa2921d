//! The loader's threads: one runs at a time, from the answer to one of its system calls to its next call; all others are in a call.
//!
//! So the loader behaves the same in every run, and the kernel that it is loaded into may be anything that answers.

use std::io;
use std::time::{Duration, Instant};

use fairground_bpf::{LOADER_PID, Reply, ThreadAttributes};

use super::{Step, Supervisor};
use crate::attributes;
use crate::calls::Ask;
use crate::process::{self, Answer, Call};
use crate::waits::{self, Cause, Treatment, Waiter, Wake};

/// System calls that create and end threads, and those by which threads know each other.
pub(super) const CALLS: &[i64] = &[
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
];

/// How long a thread may go without a call that is answered here: seconds in which it runs or sleeps. Seconds in which it waits for a CPU
/// of a busy machine do not count.
const PATIENCE: u64 = 60;

/// Time between two checks of such a thread.
const LOOK: Duration = Duration::from_secs(1);

/// A thread of the loader.
pub(crate) struct Thread {
    /// Its number on this machine.
    id: i32,
    /// The call that it is in.
    pub call: Option<Call>,
    /// The condition for which it waits in it.
    pub waiter: Option<Waiter>,
    /// Its place among the waiting threads.
    arrival: u64,
    /// The answer that it gets once it continues after a wait.
    pub answer: Option<Answer>,
    pub attributes: ThreadAttributes,
    pub ended: bool,
}

impl Thread {
    pub(crate) fn new(call: Call) -> Self {
        Self {
            id: call.thread,
            call: Some(call),
            waiter: None,
            arrival: 0,
            answer: None,
            attributes: ThreadAttributes::default(),
            ended: false,
        }
    }

    /// The answer to its bpf(2) call, from the kernel's reply.
    pub(crate) fn answer_with(&self, ask: &Ask, reply: &Reply) -> io::Result<Answer> {
        match &self.call {
            Some(call) => ask.answer(call.thread, reply),
            None => Ok(Answer::Error(libc::EFAULT)),
        }
    }

    /// Its name in the kernel.
    pub(crate) fn name(&self) -> String {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", self.id));
        name.map_or_else(|_| "loader".to_owned(), |name| name.trim().to_owned())
    }
}

impl Supervisor {
    /// Answers the call of a thread and lets it run to its next one; threads that it creates run to their first. Afterwards all threads are
    /// in a call, or the loader has ended.
    pub(crate) fn proceed(&mut self, number: usize, answer: Answer) -> io::Result<()> {
        let Some(call) = self.threads[number].call.take() else { return Ok(()) };
        self.loader.answer(&call, answer);
        if let Some(signal) = self.signal.take() {
            let _ = process::signal(self.loader.pid(), signal.0, signal.1);
        }
        if call.number == libc::SYS_exit {
            self.threads[number].ended = true;
            return self.see_off(number);
        }
        let makes_threads = [libc::SYS_clone, libc::SYS_clone3].contains(&call.number);
        while self.threads[number].call.is_none() || makes_threads && self.misses_one() {
            let Some(call) = self.next_call()? else { return Ok(()) };
            match self.threads.iter().position(|one| one.id == call.thread) {
                Some(known) => self.threads[known].call = Some(call),
                None => {
                    let mut thread = Thread::new(call);
                    thread.attributes = self.threads[number].attributes.clone();
                    self.threads.push(thread);
                }
            }
        }
        Ok(())
    }

    /// The next call of one of the loader's own threads; `None` if the loader has ended. Calls of other programs that it has started are
    /// answered on the way.
    pub(crate) fn next_call(&mut self) -> io::Result<Option<Call>> {
        let (mut slept, mut ran_before) = (0, None);
        let mut last_look = Instant::now();
        loop {
            let Some(call) = self.loader.next(LOOK.as_millis() as i32)? else {
                if let Some(status) = self.loader.ended()? {
                    self.ended = Some(format!("it ended with {status}"));
                    return Ok(None);
                }
                // Once no thread is left, no calls come; the kernel reports the end of the loader a little later.
                if last_look.elapsed() < LOOK {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                }
                last_look = Instant::now();
                let (sleeps, ran) = self.running();
                slept += u64::from(sleeps);
                let ran = ran.saturating_sub(*ran_before.get_or_insert(ran));
                if slept + ran >= PATIENCE {
                    return Err(io::Error::other(format!(
                        "a thread of the loader has been silent for {PATIENCE} s: {}",
                        self.what_runs()
                    )));
                }
                continue;
            };
            let task = format!("/proc/{}/task/{}", self.loader.pid(), call.thread);
            if std::path::Path::new(&task).exists() {
                return Ok(Some(call));
            }
            let answer = self.answer(&call).unwrap_or(Answer::Continue);
            self.loader.answer(&call, answer);
            (slept, ran_before) = (0, None);
        }
    }

    /// A file of the kernel on the thread that is running, which is in no call that is answered here.
    fn of_running(&self, file: &str) -> Option<String> {
        let is_running = |one: &&Thread| one.call.is_none() && !one.ended;
        let running = self.threads.iter().find(is_running);
        // The first thread is not known before its first call.
        let id = running.map_or(self.loader.pid(), |thread| thread.id);
        std::fs::read_to_string(format!("/proc/{}/task/{id}/{file}", self.loader.pid())).ok()
    }

    /// Whether that thread sleeps, and how many seconds of CPU time it has used.
    fn running(&self) -> (bool, u64) {
        let text = self.of_running("stat").unwrap_or_default();
        // SAFETY: it takes a number and returns one.
        let second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1);
        let field = |number| fairground_files::stat_field(&text, number);
        let ticks = |number| field(number).and_then(|ticks| ticks.parse::<u64>().ok());
        let ran = ticks(14).unwrap_or(0) + ticks(15).unwrap_or(0);
        (field(3) != Some("R"), ran / second.cast_unsigned())
    }

    /// That thread's activity.
    fn what_runs(&self) -> String {
        let call = self.of_running("syscall");
        match call.as_deref().and_then(|call| call.split_whitespace().next()) {
            Some(number) if number.parse::<u32>().is_ok() => {
                format!("it waits in system call {number}, which is not followed")
            }
            _ => "it computes without a system call".to_owned(),
        }
    }

    /// If the call that a thread is in creates another thread, the name that the new one inherits.
    pub(crate) fn new_thread(&self, number: usize) -> io::Result<Option<String>> {
        let thread = &self.threads[number];
        let Some(call) = &thread.call else { return Ok(None) };
        let flags = match call.number {
            libc::SYS_clone => call.arguments[0],
            // The first field of its argument, without the flags that only processes have.
            libc::SYS_clone3 => process::read_word(call.thread, call.arguments[0])?.into(),
            _ => return Ok(None),
        };
        let makes_one = flags & libc::CLONE_THREAD as u64 != 0;
        Ok(makes_one.then(|| thread.name()))
    }

    /// Whether there is a thread that has not made a call yet.
    fn misses_one(&self) -> bool {
        let folder = std::fs::read_dir(format!("/proc/{}/task", self.loader.pid()));
        let Ok(folder) = folder else { return false };
        let ids = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let known = |id: &i32| self.threads.iter().any(|one| one.id == *id);
        ids.into_iter().any(|id| !known(&id))
    }

    /// Waits until an ended thread is gone: the kernel clears the word that others wait for.
    fn see_off(&mut self, number: usize) -> io::Result<()> {
        let task = format!("/proc/{}/task/{}", self.loader.pid(), self.threads[number].id);
        while std::path::Path::new(&task).exists() {
            if let Some(status) = self.loader.ended()? {
                self.ended = Some(format!("it ended with {status}"));
                return Ok(());
            }
            std::thread::yield_now();
        }
        for other in 0..self.threads.len() {
            let Some(waiter) = &self.threads[other].waiter else { continue };
            if let Cause::Word { address, value, .. } = waiter.cause
                && process::read_word(self.loader.pid(), address)? != value
            {
                self.let_go_on(other);
            }
        }
        Ok(())
    }

    /// Ends the wait of a thread.
    fn let_go_on(&mut self, number: usize) {
        let thread = &mut self.threads[number];
        if let Some(waiter) = thread.waiter.take() {
            thread.answer = Some(waiter.woken());
            self.woken.push(number as u32);
        }
    }

    /// Ends the waits of threads whose files another thread has made ready.
    pub(crate) fn look_at_files(&mut self) {
        for number in 0..self.threads.len() {
            let waiter = self.threads[number].waiter.as_ref();
            if let Some(Cause::Files(list)) = waiter.map(|waiter| &waiter.cause)
                && process::is_ready(self.loader.pid(), list)
            {
                self.let_go_on(number);
            }
        }
    }

    /// Wakes threads that wait for a word; returns how many it woke or moved.
    fn wake(&mut self, wake: &Wake) -> i64 {
        let mut waiting: Vec<usize> = (0..self.threads.len())
            .filter(|number| {
                let waiter = self.threads[*number].waiter.as_ref();
                matches!(waiter.map(|waiter| &waiter.cause), Some(Cause::Word { address, bits, .. })
                    if *address == wake.address && bits & wake.bits != 0)
            })
            .collect();
        waiting.sort_by_key(|number| self.threads[*number].arrival);
        let woken = (wake.most as usize).min(waiting.len());
        for number in waiting.drain(..woken) {
            self.let_go_on(number);
        }
        let moved = (wake.moved as usize).min(waiting.len());
        for number in waiting.drain(..moved) {
            if let Some(waiter) = &mut self.threads[number].waiter
                && let Cause::Word { address, .. } = &mut waiter.cause
            {
                *address = wake.target;
            }
        }
        (woken + moved) as i64
    }

    /// Handles the call that a thread is in.
    pub(crate) fn handle(&mut self, number: usize) -> io::Result<Step> {
        let Some(call) = self.threads[number].call else {
            return Err(io::Error::other("a thread of the loader is in no call"));
        };
        let now = self.now();
        if let Some(outcome) = waits::carry_out(self.loader.pid(), &call, now) {
            return Ok(match outcome {
                Ok(Treatment::Answer(answer)) => Step::Answer(answer),
                Ok(Treatment::Yield) => Step::Yield,
                Ok(Treatment::Wake(wake)) => Step::Answer(Answer::Value(self.wake(&wake))),
                Ok(Treatment::Wait(waiter)) => {
                    self.arrivals += 1;
                    let thread = &mut self.threads[number];
                    thread.arrival = self.arrivals;
                    thread.waiter = Some(waiter);
                    Step::Wait
                }
                Err(error) => Step::Answer(refusal(&error)),
            });
        }
        if let Some(answer) = self.answer_about_threads(number, &call) {
            return Ok(Step::Answer(answer));
        }
        let answer = self.answer(&call);
        Ok(Step::Answer(answer.unwrap_or_else(|error| refusal(&error))))
    }

    /// Answers calls about the loader's own threads.
    fn answer_about_threads(&mut self, number: usize, call: &Call) -> Option<Answer> {
        let [first, second, third, ..] = call.arguments;
        let answer = match call.number {
            // With rseq, a thread would read where it runs from memory, without a call.
            libc::SYS_rseq => Answer::Error(libc::ENOSYS),
            libc::SYS_getpid => Answer::Value(LOADER_PID.into()),
            libc::SYS_gettid => Answer::Value(i64::from(LOADER_PID) + number as i64),
            libc::SYS_kill if first as i32 == LOADER_PID => {
                self.signal = Some((None, second as i32));
                Answer::Value(0)
            }
            libc::SYS_tkill | libc::SYS_tgkill => {
                let (thread, signal) = match call.number {
                    libc::SYS_tkill => (first, second),
                    _ => (second, third),
                };
                let Some(target) = self.thread_with(thread as i32) else {
                    return Some(Answer::Error(libc::ESRCH));
                };
                self.signal = Some((Some(self.threads[target].id), signal as i32));
                Answer::Value(0)
            }
            _ => self.answer_about_attributes(number, call)?,
        };
        Some(answer)
    }

    fn answer_about_attributes(&mut self, number: usize, call: &Call) -> Option<Answer> {
        if !attributes::CALLS.contains(&call.number) {
            return None;
        }
        let named = match call.number {
            libc::SYS_mlock | libc::SYS_mlockall => 0,
            libc::SYS_setpriority | libc::SYS_getpriority => call.arguments[1],
            _ => call.arguments[0],
        };
        let target = match named as i32 {
            0 => Some(number),
            id => self.thread_with(id),
        };
        let Some(target) = target else { return Some(Answer::Error(libc::ESRCH)) };
        let attributes = &mut self.threads[target].attributes;
        let before = attributes.clone();
        let answer = attributes::carry_out(call, attributes, &self.tree)?;
        if *attributes != before {
            let first = attributes.cpus.as_ref().and_then(|cpus| cpus.first());
            self.state.cpu = first.map_or(0, |cpu| *cpu as usize);
            self.changed = Some(target);
        }
        Some(answer.unwrap_or_else(|error| refusal(&error)))
    }

    /// The thread with this number, on this machine or in the simulation.
    fn thread_with(&self, id: i32) -> Option<usize> {
        let own = self.threads.iter().position(|one| one.id == id);
        let place = usize::try_from(id - LOADER_PID).ok();
        own.or(place.filter(|place| *place < self.threads.len()))
    }
}

pub(crate) fn refusal(error: &io::Error) -> Answer {
    Answer::Error(error.raw_os_error().unwrap_or(libc::EFAULT))
}
