//! The deadline servers of sched_ext and of the fair class, which give their tasks a share of a CPU next to real-time tasks: `dl_server_*()` in
//! `kernel/sched/deadline.c`.
//!
//! The server of a CPU is deferred. While tasks of its class get its runtime anyway, or the CPU is idle for that long, it only postpones its
//! start. If they have not had it, it runs them before all others, as late as still lets the runtime end by the deadline; from then on at the
//! beginning of each period, until they get their share without it again.

use fairground_events::{Condition, OverheadKind};

use crate::clock::Due;
use crate::kernel::Kernel;
use crate::rules;
use crate::task::{Class, TaskRef};

/// Runtime of a class's tasks per period (`dl_server_init_params`).
pub(crate) const RUNTIME: i64 = 50_000_000;
/// Length of a period, and time until its deadline.
pub(crate) const PERIOD: u64 = 1_000_000_000;

/// The server of one class on one CPU.
#[derive(Default)]
struct DeadlineServer {
    /// Whether it watches over tasks of its class (`dl_server_active`).
    active: bool,
    /// Whether it waits: for its latest start or for the next period (`dl_throttled`).
    throttled: bool,
    /// Whether it waits for its latest start (`dl_defer_armed`).
    armed: bool,
    /// Whether tasks have needed it in this period or the one before (`dl_defer_running`).
    needed: bool,
    /// Whether its runtime passed on an idle CPU (`dl_defer_idle`).
    idle: bool,
    /// Remaining runtime.
    runtime: i64,
    /// When the period ends.
    deadline: u64,
    /// Number of its current timer.
    timer: u32,
}

impl DeadlineServer {
    /// Its deadline, if it competes for the CPU.
    fn competes(&self) -> Option<u64> {
        (self.active && !self.throttled).then_some(self.deadline)
    }

    /// Begins a period (`replenish_dl_new_period`).
    fn begin_period(&mut self, now: u64) {
        self.deadline = now + PERIOD;
        self.runtime = RUNTIME;
        if !self.needed {
            self.throttled = true;
            self.armed = true;
        }
    }

    /// Whether the remaining runtime exceeds the server's share of the remaining time (`dl_entity_overflow`).
    fn overflows(&self, now: u64) -> bool {
        let left = i128::from(self.deadline.saturating_sub(now));
        i128::from(self.runtime) * i128::from(PERIOD) > left * i128::from(RUNTIME)
    }

    /// The latest start with `runtime` left.
    fn latest_start(&self, runtime: i64) -> u64 {
        self.deadline.saturating_add_signed(-runtime)
    }

    /// Gives it new runtime (`replenish_dl_entity`).
    fn replenish(&mut self, now: u64) {
        while self.runtime <= 0 {
            self.deadline += PERIOD;
            self.runtime += RUNTIME;
        }
        if self.deadline < now {
            self.deadline = now + PERIOD;
            self.runtime = RUNTIME;
        }
        self.throttled = false;
        if std::mem::take(&mut self.armed) {
            return;
        }
        if !self.needed && now < self.latest_start(self.runtime) {
            self.throttled = true;
            self.armed = true;
        }
    }
}

/// The servers of one CPU.
#[derive(Default)]
pub struct DeadlineServers {
    /// That of sched_ext.
    ext: DeadlineServer,
    /// That of the fair class, which has tasks only under a scheduler that switches partially.
    fair: DeadlineServer,
}

impl DeadlineServers {
    fn of(&mut self, class: Class) -> &mut DeadlineServer {
        match class {
            Class::Fair => &mut self.fair,
            _ => &mut self.ext,
        }
    }

    /// The earliest deadline of those that compete for the CPU, and whose it is.
    pub(crate) fn first(&self) -> Option<(u64, Class)> {
        let ext = self.ext.competes().map(|deadline| (deadline, Class::Ext));
        let fair = self.fair.competes().map(|deadline| (deadline, Class::Fair));
        ext.into_iter().chain(fair).min_by_key(|(deadline, _)| *deadline)
    }
}

impl Kernel<'_> {
    /// Starts it when the first task of its class arrives (`dl_server_start`).
    pub(crate) fn start_deadline_server(&mut self, cpu: usize, class: Class) {
        if class == Class::Ext && !rules::has_deadline_server(self.settings.release) {
            return;
        }
        let now = self.run_queue_clock(cpu);
        let server = self.cpus[cpu].deadline_servers.of(class);
        server.idle = false;
        if std::mem::replace(&mut server.active, true) {
            return;
        }
        if server.deadline <= now || server.overflows(now) {
            server.begin_period(now);
        } else if !server.needed {
            server.throttled = true;
            server.armed = true;
        }
        self.queue_deadline_server(cpu, class, now);
    }

    /// Lets it compete for the CPU, unless it has to wait (`enqueue_dl_entity`).
    fn queue_deadline_server(&mut self, cpu: usize, class: Class, now: u64) {
        let mut state = self.cpu(cpu);
        if state.deadline_servers.of(class).throttled && self.start_server_timer(cpu, class, now) {
            return;
        }
        let server = state.deadline_servers.of(class);
        server.throttled = false;
        server.armed = false;
        let deadline = server.deadline;
        let current = state.current;
        if current.class != Class::Deadline || deadline < current.deadline.deadline {
            self.resched(cpu);
        }
    }

    /// Arms its timer; `false` if the time has passed (`start_dl_timer`).
    fn start_server_timer(&mut self, cpu: usize, class: Class, now: u64) -> bool {
        let server = self.cpus[cpu].deadline_servers.of(class);
        let time = if server.armed { server.latest_start(server.runtime) } else { server.deadline };
        server.timer = server.timer.wrapping_add(1);
        if time < now {
            return false;
        }
        let due = Due::DeadlineServer { cpu: cpu as u32, class, timer: server.timer };
        self.clock.at(time, due);
        true
    }

    fn stop_deadline_server(&mut self, cpu: usize, class: Class) {
        let server = self.cpus[cpu].deadline_servers.of(class);
        server.active = false;
        server.throttled = false;
        server.armed = false;
        server.idle = false;
        server.timer = server.timer.wrapping_add(1);
    }

    /// Accounts the time that a task of its class ran on `cpu`, or that the CPU was idle (`dl_server_update`, `dl_server_update_idle`).
    #[inline(always)]
    pub(crate) fn charge_server(&mut self, cpu: usize, class: Class, ran: u64, idle: bool) {
        let server = self.cpus[cpu].deadline_servers.of(class);
        if !server.active {
            return;
        }
        if !idle {
            server.idle = false;
        }
        server.runtime = server.runtime.saturating_sub_unsigned(ran);
        if server.runtime <= 0 {
            self.end_server_period(cpu, class, idle);
        }
    }

    /// The runtime of a server is used up.
    #[inline(never)]
    fn end_server_period(&mut self, cpu: usize, class: Class, idle: bool) {
        let now = self.run_queue_clock(cpu);
        let server = self.cpus[cpu].deadline_servers.of(class);
        if server.throttled {
            // They have had their share without it.
            if server.idle && idle {
                server.runtime = 0;
                return;
            }
            server.needed = false;
            server.begin_period(now);
            server.idle = idle;
            self.start_server_timer(cpu, class, now);
            return;
        }
        server.throttled = true;
        if !self.start_server_timer(cpu, class, now) {
            self.cpus[cpu].deadline_servers.of(class).begin_period(now);
            self.start_server_timer(cpu, class, now);
        }
        self.resched(cpu);
    }

    /// Its timer expires (`dl_server_timer`).
    pub(crate) fn handle_server(&mut self, cpu: usize, class: Class, timer: u32, due: Due) {
        let server = self.cpus[cpu].deadline_servers.of(class);
        if server.timer != timer || !server.active || !server.throttled {
            return;
        }
        if self.postponed(cpu, due) {
            return;
        }
        let now = self.clock.now();
        let current = self.cpus[cpu].current;
        // The time that it will be charged for the CPU's work right now.
        let pending = match current.class {
            Class::Idle => now.saturating_sub(current.seen.se.exec_start),
            running if running == class => now.saturating_sub(current.seen.se.exec_start),
            _ => 0,
        };
        let online = self.cpus[cpu].online;
        let server = self.cpus[cpu].deadline_servers.of(class);
        let left = server.runtime.saturating_sub_unsigned(pending);
        let goes_by = pending > 0 && left <= 0;
        if !online || server.idle || goes_by && current.class == Class::Idle {
            self.stop_deadline_server(cpu, class);
            return;
        }
        if goes_by {
            // Its runtime passes without it, and its next period begins when that is charged.
            self.clock.at(now + RUNTIME.unsigned_abs(), due);
            return;
        }
        if server.armed {
            let start = server.latest_start(left);
            if now < start {
                self.clock.at(start, due);
                return;
            }
            server.needed = true;
        }
        server.replenish(now);
        if server.throttled && self.start_server_timer(cpu, class, now) {
            return;
        }
        self.interrupt(cpu);
        self.cpus[cpu].account_progress(self.clock.now());
        self.context.spent += self.settings.cost.timer;
        self.queue_deadline_server(cpu, class, now);
        self.settle(OverheadKind::Interrupt);
        self.leave(OverheadKind::Scheduling);
    }

    /// The task that a server runs, if it is the turn of one (`ext_server_pick_task`, `fair_server_pick_task`): no deadline task or other server
    /// has an earlier deadline.
    pub(crate) fn pick_by_server(&mut self, cpu: usize, previous: TaskRef) -> Option<TaskRef> {
        loop {
            let (deadline, class) = self.cpus[cpu].deadline_servers.first()?;
            let first = self.deadline_pick(cpu);
            if first.is_some_and(|task| task.deadline.deadline <= deadline) {
                return None;
            }
            let picked = match class {
                Class::Fair => self.fair_pick(cpu, previous),
                _ => self.ext_pick(cpu, previous),
            };
            if let Some(task) = picked {
                self.tell_condition(task, Condition::Served, true);
                return picked;
            }
            self.stop_deadline_server(cpu, class);
        }
    }
}
