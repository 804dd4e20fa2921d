//! Services: requests wait there until a task takes them, and carry their origin and their arrival. They come from tasks, which wait for the answer, or
//! from outside. They wake as datagram sockets do: one waiter, synchronously if a task wakes it.

use std::collections::VecDeque;

use fairground_events::{EventKind, OverheadKind};
use fairground_workload::{Arrivals, Draws, Waiting, Workload};

use super::Action;
use crate::clock::Due;
use crate::constants::*;
use crate::kernel::Kernel;
use crate::task::TaskRef;

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The task that waits for the answer; `None` if it came from outside.
    asker: Option<TaskRef>,
    /// When it came to its first service.
    arrived: u64,
}

/// A service.
#[derive(Default)]
pub(super) struct Service {
    /// Requests, each with its place among those of all services.
    requests: VecDeque<(u64, Request)>,
    waiters: VecDeque<TaskRef>,
}

/// Requests that come from outside.
pub(super) struct Stream {
    draws: Draws,
    /// When the next ones come.
    next: u64,
    /// How many times some came.
    times: usize,
}

impl Stream {
    /// The streams of a workload, none of which has begun.
    pub fn of(workload: &Workload, seed: u64) -> Vec<Stream> {
        let numbers = 0..workload.arrivals.len();
        let stream = |number| Stream {
            // Their numbers come after those of the task definitions.
            draws: Draws::new(seed, workload.tasks.len() + number, 0),
            next: 0,
            times: 0,
        };
        numbers.map(stream).collect()
    }

    /// Moves on to the next arrival.
    fn advance(&mut self, arrivals: &Arrivals) {
        let factor = arrivals.factor.map_or(1.0, |factor| self.draws.factor(factor));
        self.next += (arrivals.interval as f64 * factor).round() as u64;
        self.times += 1;
    }
}

impl Kernel<'_> {
    /// Sets the first arrival of every stream of requests from outside.
    pub(super) fn begin_arrivals(&mut self) {
        let now = self.clock.now();
        for number in 0..self.programs.streams.len() {
            self.programs.streams[number].next = now;
            self.next_arrival(number);
        }
    }

    fn next_arrival(&mut self, number: usize) {
        let workload = self.programs.workload.clone();
        let stream = &mut self.programs.streams[number];
        stream.advance(&workload.arrivals[number]);
        let at = stream.next.max(self.clock.now());
        let number = number as u32;
        self.clock.at(at, Due::Arrival { number });
    }

    /// The interrupt that brings requests from outside, as of a network card that spreads its interrupts over CPUs.
    pub(crate) fn handle_arrival(&mut self, number: u32, due: Due) {
        let workload = self.programs.workload.clone();
        let arrivals = &workload.arrivals[number as usize];
        let Stream { next, times, .. } = self.programs.streams[number as usize];
        let is_meant = |cpu: &usize| {
            let among = arrivals.cpus.as_ref();
            self.cpus[*cpu].online && among.is_none_or(|cpus| cpus.contains(&(*cpu as u32)))
        };
        let meant: Vec<usize> = (0..self.cpus.len()).filter(is_meant).collect();
        let online = (0..self.cpus.len()).find(|cpu| self.cpus[*cpu].online);
        let cpu = match meant.as_slice() {
            [] => online.unwrap_or(0),
            cpus => cpus[times % cpus.len()],
        };
        if self.postponed(cpu, due) {
            return;
        }
        self.interrupt(cpu);
        // Like a timer interrupt, it wakes a task and does little else.
        self.context.spent += self.settings.cost.timer;
        self.settle(OverheadKind::Interrupt);
        self.cpus[cpu].preempt_count = HARDIRQ_OFFSET;
        for _ in 0..arrivals.burst {
            let request = Request { asker: None, arrived: next };
            self.deliver(None, arrivals.service, request);
        }
        self.cpus[cpu].preempt_count = 0;
        self.next_arrival(number as usize);
        self.leave(OverheadKind::Scheduling);
    }

    /// Puts a request at a service, and wakes a task that waits there.
    fn deliver(&mut self, waker: Option<TaskRef>, service: usize, request: Request) {
        self.programs.requests += 1;
        let place = self.programs.requests;
        let state = &mut self.programs.services[service];
        state.requests.push_back((place, request));
        let Some(waiter) = state.waiters.pop_front() else {
            return;
        };
        for other in &mut self.programs.services {
            other.waiters.retain(|other| *other != waiter);
        }
        self.wake(waiter, waker, waker.is_some());
    }

    /// Sends a request and waits for the answer. That is a lap of `task`, unless it has a stopwatch of its own.
    pub(super) fn ask(&mut self, task: TaskRef, service: usize) -> Option<Action> {
        if task.execution.waited {
            self.emit_lap(task, self.program_time(), false);
            return None;
        }
        let now = self.program_time();
        self.emit_lap(task, now, true);
        let request = Request { asker: Some(task), arrived: now };
        self.deliver(Some(task), service, request);
        Some(self.block_in_event(task, Waiting::Answer(service)))
    }

    /// Takes the request that has waited longest at any service of a choice.
    pub(super) fn take(&mut self, mut task: TaskRef, choice: usize) -> Option<Action> {
        if task.execution.request.is_some() {
            return self.misuse(
                task,
                "takes a request before it has answered or passed on the one before",
            );
        }
        let workload = self.programs.workload.clone();
        let services = &workload.choices[choice];
        let oldest = { services.iter() }
            .filter_map(|service| {
                let (place, _) = self.programs.services[*service].requests.front()?;
                Some((*place, *service))
            })
            .min();
        let Some((_, service)) = oldest else {
            for service in services {
                self.programs.services[*service].waiters.push_back(task);
            }
            return Some(self.block_in_event(task, Waiting::Request(choice)));
        };
        let request = self.programs.services[service].requests.pop_front();
        task.execution.request = request.map(|(_, request)| request);
        None
    }

    /// Hands the current request on to another service.
    pub(super) fn pass(&mut self, mut task: TaskRef, service: usize) -> Option<Action> {
        match task.execution.request.take() {
            Some(request) => {
                self.deliver(Some(task), service, request);
                None
            }
            None => self.misuse(task, "passes on a request, but has taken none"),
        }
    }

    /// Answers the current request: its asker goes on, and one from outside is a lap of `task` that began when it came.
    pub(super) fn answer(&mut self, mut task: TaskRef) -> Option<Action> {
        match task.execution.request.take() {
            Some(Request { asker: Some(asker), .. }) => self.wake(asker, Some(task), true),
            Some(Request { arrived, .. }) => {
                self.emit_lap(task, arrived, true);
                self.emit_lap(task, self.program_time(), false);
            }
            None => return self.misuse(task, "answers a request, but has taken none"),
        }
        None
    }

    /// A lap begins or ends, unless the task has a stopwatch of its own.
    fn emit_lap(&mut self, task: TaskRef, at: u64, begins: bool) {
        if self.programs.stopwatches[task.execution.definition] {
            return;
        }
        self.emit(EventKind::Lap { task: task.id, at: at - self.origin, begins });
    }

    fn misuse(&mut self, task: TaskRef, problem: &str) -> Option<Action> {
        self.programs.failure = Some(format!("{} {problem}; correct the workload", task.name));
        Some(Action::Failed)
    }
}
