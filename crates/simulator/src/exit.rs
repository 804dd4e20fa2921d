//! How a scheduler ends: errors, and the exit record.

use crate::constants::*;
use crate::kernel::Kernel;
use crate::operations::Op;
use crate::structures::ExitInfo;
use crate::task::{Class, TaskRef};

/// Why and when a scheduler was unloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExitRecord {
    /// The kind of exit.
    pub kind: ExitKind,
    /// The kernel's text for the kind.
    pub reason: String,
    /// The exact event.
    pub message: String,
    /// Whether it would have gone on for ever. A kernel has no such limit: it would hang, or its watchdog would end that.
    pub endless: bool,
    /// Exit code, for exits that carry one.
    pub code: i64,
    /// The CPU it happened on, or -1.
    pub cpu: i32,
    /// Virtual time in nanoseconds; in the outcome of a run since it began.
    pub time: u64,
    /// The task that was running where it happened, as the kernel's dump names it.
    pub by: String,
    /// The callback during which it happened.
    pub during: Option<Op>,
    /// The kernel's debug dump; empty after a normal exit.
    pub dump: String,
}

impl Kernel<'_> {
    /// Unloads the scheduler because of an error; only the first one counts.
    pub(crate) fn fail(&mut self, kind: ExitKind, message: String) {
        self.fail_on(kind, self.context.cpu as i32, message);
    }

    /// The error that a callback returned, or 0. One that is no error number unloads the scheduler (`ops_sanitize_err`).
    pub(crate) fn sanitize(&mut self, callback: &str, result: i32) -> i32 {
        if (-MAX_ERRNO..=0).contains(&result) {
            return result;
        }
        let message = format!("ops.{callback}() returned an invalid errno {result}");
        self.fail(ExitKind::Error, message);
        -EPROTO
    }

    /// Unloads the scheduler because of an error on `cpu`.
    pub(crate) fn fail_on(&mut self, kind: ExitKind, cpu: i32, message: String) {
        self.exit_with(kind, 0, cpu, message);
    }

    /// Unloads the scheduler because something in it goes on for ever.
    pub(crate) fn fail_endless(&mut self, message: String) {
        let is_first = self.exit.is_none();
        self.fail(ExitKind::Error, message);
        if let Some(exit) = self.exit.as_mut().filter(|_| is_first) {
            exit.endless = true;
        }
    }

    /// Unloads the scheduler; only the first reason counts.
    pub(crate) fn exit_with(&mut self, kind: ExitKind, code: i64, cpu: i32, message: String) {
        if self.exit.is_none() {
            self.exit = Some(ExitRecord {
                kind,
                reason: exit_reason(kind).into(),
                message,
                endless: false,
                code,
                cpu,
                time: self.clock.now(),
                by: self.who_runs(kind),
                during: self.calls.op,
                dump: String::new(),
            });
        }
    }

    /// Takes the scheduler down at the end of a run.
    pub(crate) fn disable(&mut self) -> ExitRecord {
        self.take_down(|kernel, task| {
            let queued = task.seen.scx.flags & SCX_TASK_QUEUED != 0;
            if task.class == Class::Ext && queued && kernel.initialised {
                kernel.ext_dequeue(task.cpu(), task, DEQUEUE_SAVE | DEQUEUE_MOVE);
            }
            kernel.disable_task(task);
        })
    }

    /// Takes the scheduler down: dump, `cgroup_exit`, `exit_task` for every task once it was let go, `exit` (`scx_root_disable`).
    pub(crate) fn take_down(&mut self, let_go: impl Fn(&mut Self, TaskRef)) -> ExitRecord {
        let mut record = self.exit.clone().unwrap_or_else(|| ExitRecord {
            kind: ExitKind::Unregistered,
            reason: exit_reason(ExitKind::Unregistered).into(),
            message: String::new(),
            endless: false,
            code: 0,
            cpu: -1,
            time: self.clock.now(),
            by: String::new(),
            during: None,
            dump: String::new(),
        });
        // Errors that the callbacks below report must not replace the first reason.
        self.exit = Some(record.clone());
        if record.kind.is_error() {
            record.dump = self.make_dump(&record);
        }
        self.exit_groups();
        for mut task in self.all_tasks() {
            if task.seen.__state == TASK_DEAD {
                continue;
            }
            let_go(self, task);
            self.exit_task(task, false);
            task.storage.clear();
        }
        self.tell_of_exit(&record);
        record
    }

    /// The tasks of the workload and of the surroundings.
    pub(crate) fn all_tasks(&self) -> Vec<TaskRef> {
        let workload = self.tasks.workload().iter().copied();
        workload.chain(self.tasks.hidden()).collect()
    }

    /// `ops.exit`.
    fn tell_of_exit(&mut self, record: &ExitRecord) {
        let mut reason = record.reason.clone().into_bytes();
        reason.push(0);
        let mut message = record.message.clone().into_bytes();
        message.truncate(SCX_EXIT_MSG_LEN - 1);
        message.push(0);
        let mut dump = record.dump.clone().into_bytes();
        dump.truncate(self.operations.exit_dump_len - 1);
        dump.push(0);
        let mut info = ExitInfo {
            kind: record.kind as u32,
            exit_cpu: record.cpu,
            exit_code: record.code,
            flags: if self.initialised { SCX_EFLAG_INITIALIZED } else { 0 },
            reason: reason.as_ptr(),
            bt: std::ptr::null(),
            bt_len: 0,
            msg: message.as_ptr(),
            dump: dump.as_ptr(),
        };
        self.call(Op::Exit, &[&raw mut info as u64]);
    }

    /// The task on the CPU whose work is in progress; none for the kernel worker in which the watchdog runs.
    fn who_runs(&self, kind: ExitKind) -> String {
        let state = &self.cpus[self.context.cpu];
        match kind {
            ExitKind::ErrorStall => "watchdog".to_owned(),
            _ if state.current == state.idle => format!("swapper/{}[0]", self.context.cpu),
            _ => state.current.label(),
        }
    }
}
