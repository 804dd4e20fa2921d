//! How a scheduler comes to its end: errors, the exit record, the debug dump.

use std::fmt::Write;

use crate::constants::*;
use crate::kernel::Kernel;
use crate::operations::Op;
use crate::structures::{DumpContext, ExitInfo};
use crate::task::{Class, TaskRef};

/// Why and when a scheduler was unloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExitRecord {
    /// The kind of exit.
    pub kind: ExitKind,
    /// The kernel's text for the kind.
    pub reason: String,
    /// What exactly happened.
    pub message: String,
    /// Exit code, for exits that carry one.
    pub code: i64,
    /// The CPU it happened on, or -1.
    pub cpu: i32,
    /// Virtual time in nanoseconds.
    pub time: u64,
    /// The kernel's debug dump; empty after a normal exit.
    pub dump: String,
}

impl Kernel<'_> {
    /// Unloads the scheduler for an error; the first one counts.
    pub(crate) fn fail(&mut self, kind: ExitKind, message: String) {
        self.fail_on(kind, self.this_cpu as i32, message);
    }

    /// Unloads the scheduler for an error on `cpu`.
    pub(crate) fn fail_on(&mut self, kind: ExitKind, cpu: i32, message: String) {
        self.exit_with(kind, 0, cpu, message);
    }

    /// Unloads the scheduler; the first reason counts.
    pub(crate) fn exit_with(&mut self, kind: ExitKind, code: i64, cpu: i32, message: String) {
        if self.exit.is_none() {
            self.exit = Some(ExitRecord {
                kind,
                reason: exit_reason(kind).into(),
                message,
                code,
                cpu,
                time: self.clock.now(),
                dump: String::new(),
            });
        }
    }

    /// Takes the scheduler down: dump, `cgroup_exit`, `exit_task` for every task, `exit` (`scx_root_disable`).
    pub(crate) fn disable(&mut self) -> ExitRecord {
        let mut record = self.exit.clone().unwrap_or_else(|| ExitRecord {
            kind: ExitKind::Unregistered,
            reason: exit_reason(ExitKind::Unregistered).into(),
            message: String::new(),
            code: 0,
            cpu: -1,
            time: self.clock.now(),
            dump: String::new(),
        });
        // What the callbacks below report must not replace the first reason.
        self.exit = Some(record.clone());
        if record.kind.is_error() {
            record.dump = self.make_dump(&record);
        }
        self.exit_groups();
        let tasks: Vec<TaskRef> = self
            .tasks
            .iter()
            .copied()
            .chain(self.hidden_tasks())
            .collect();
        for mut task in tasks {
            if task.seen.__state == TASK_DEAD {
                continue;
            }
            if task.class == Class::Ext && task.seen.scx.flags & SCX_TASK_QUEUED != 0 {
                let cpu = task.cpu();
                if self.initialised {
                    self.ext_dequeue(cpu, task, DEQUEUE_SAVE | DEQUEUE_MOVE);
                }
            }
            self.disable_task(task);
            self.exit_task(task, false);
            task.storage.clear();
        }
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
            flags: if self.initialised {
                SCX_EFLAG_INITIALIZED
            } else {
                0
            },
            reason: reason.as_ptr(),
            bt: std::ptr::null(),
            bt_len: 0,
            msg: message.as_ptr(),
            dump: dump.as_ptr(),
        };
        self.call(Op::Exit, &[&raw mut info as u64]);
        record
    }

    /// Adds a line that the scheduler writes during a dump.
    pub(crate) fn add_to_dump(&mut self, text: &str) {
        if let Some(dump) = &mut self.dump {
            dump.push_str(text);
        }
    }

    fn callback_output(&mut self, op: Op, arguments: &[u64]) -> String {
        if !self.operations.has(op) {
            return String::new();
        }
        self.dump = Some(String::new());
        self.call(op, arguments);
        self.dump.take().unwrap_or_default()
    }

    fn make_dump(&mut self, record: &ExitRecord) -> String {
        let mut reason = record.reason.clone().into_bytes();
        reason.push(0);
        let mut context = DumpContext {
            kind: record.kind as u32,
            exit_code: record.code,
            reason: reason.as_ptr(),
            at_ns: record.time,
            at_jiffies: record.time / self.tick_length(),
        };
        let context = &raw mut context as u64;
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{} triggered exit kind {}:",
            self.operations.name, record.kind as u32
        );
        let _ = writeln!(text, "  {} ({})\n", record.reason, record.message);
        let own = self.callback_output(Op::Dump, &[context]);
        text.push_str(&indent(&own, "  "));
        text.push_str("\nCPU states\n----------\n");
        for cpu in 0..self.cpus.len() {
            let is_idle = self.cpus[cpu].current == self.cpus[cpu].idle;
            let waiting: Vec<TaskRef> = self
                .tasks
                .iter()
                .copied()
                .chain(self.hidden_tasks())
                .filter(|task| task.on_runnable_list && task.cpu() == cpu)
                .collect();
            let own = self.callback_output(
                Op::DumpCpu,
                &[context, self.cpu_argument(cpu), u64::from(is_idle)],
            );
            if is_idle && waiting.is_empty() && own.is_empty() {
                continue;
            }
            let state = &self.cpus[cpu];
            let current = if is_idle {
                "swapper".to_owned()
            } else {
                state.current.label()
            };
            let _ = writeln!(
                text,
                "\nCPU {cpu:<4}: nr_run={} flags=0x{:x} cpu_rel={} ksync={}\n          curr={current}",
                state.rq.scx.nr_running,
                state.rq.scx.flags,
                u32::from(state.rq.scx.cpu_released),
                state.kick_sync,
            );
            text.push_str(&indent(&own, "  "));
            let current = (!is_idle).then_some(state.current);
            for task in current.into_iter().chain(waiting) {
                let marker = if Some(task) == current { '*' } else { ' ' };
                let waited = (record.time as i64 - task.runnable_since as i64) / 1_000_000;
                let _ = writeln!(
                    text,
                    "\n {marker}{} {:+}ms\n      scx_state/flags={}/0x{:x} dsq_flags=0x{:x} ops_state/qseq={:?}/{}\n      sticky/holding_cpu={}/{} dsq_id={}\n      dsq_vtime={} slice={} weight={}",
                    task.label(),
                    -waited,
                    task.seen.scx.flags >> SCX_TASK_STATE_SHIFT & 7,
                    task.seen.scx.flags & !SCX_TASK_STATE_MASK,
                    task.seen.scx.dsq_flags,
                    task.ops_state,
                    task.seen.scx.ops_qseq,
                    task.seen.scx.sticky_cpu,
                    task.seen.scx.holding_cpu,
                    task.dsq.map_or("(n/a)".to_owned(), |dsq| format!(
                        "0x{:x}",
                        self.dsq(dsq).id()
                    )),
                    task.seen.scx.dsq_vtime,
                    task.seen.scx.slice,
                    task.seen.scx.weight,
                );
                let own = self.callback_output(Op::DumpTask, &[context, task.address()]);
                text.push_str(&indent(&own, "    "));
            }
        }
        text.truncate(text.floor_char_boundary(self.operations.exit_dump_len - 1));
        text
    }
}

fn indent(text: &str, by: &str) -> String {
    text.lines().map(|line| format!("{by}{line}\n")).collect()
}
