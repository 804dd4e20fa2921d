//! The debug dump of a scheduler that is unloaded because of an error (`scx_dump_state`), line by line as the kernel writes it, followed by the
//! dispatch queues, which a kernel does not show.

use std::fmt::Write;

use crate::constants::*;
use crate::dispatch_queue::DispatchQueue;
use crate::exit::ExitRecord;
use crate::kernel::Kernel;
use crate::mask::hexadecimal;
use crate::operations::Op;
use crate::structures::{CpuMask, DumpContext};
use crate::task::{Class, TaskRef};

/// The end of a dump that is longer than the scheduler wants.
const TRUNCATED: &str = "\n\n~~~~ TRUNCATED ~~~~\n";
/// Maximum number of tasks listed per queue.
const LISTED: usize = 64;

impl Kernel<'_> {
    /// Adds a line that the scheduler writes during a dump.
    pub(crate) fn add_to_dump(&mut self, text: &str) {
        if let Some(dump) = &mut self.dump {
            dump.push_str(text);
        }
    }

    /// The output of a callback, each line after `prefix`, and an empty line before the first.
    fn callback_output(&mut self, op: Op, arguments: &[u64], prefix: &str) -> String {
        if !self.operations.has(op) {
            return String::new();
        }
        self.dump = Some(String::new());
        self.call(op, arguments);
        let own = self.dump.take().unwrap_or_default();
        let lines: String = own.lines().map(|line| format!("{prefix}{line}\n")).collect();
        if lines.is_empty() { lines } else { format!("\n{lines}") }
    }

    pub(crate) fn make_dump(&mut self, record: &ExitRecord) -> String {
        let mut reason = record.reason.clone().into_bytes();
        reason.push(0);
        let mut context = DumpContext {
            kind: record.kind as u32,
            exit_code: record.code,
            reason: reason.as_ptr(),
            at_ns: record.time,
            at_jiffies: self.ticks_until(record.time),
        };
        let context = &raw mut context as u64;
        let mut text = self.dump_heading(record);
        text.push_str(&self.callback_output(Op::Dump, &[context], ""));
        text.push_str("\nCPU states\n----------\n");
        // The CPU of the error comes first, so that it is not lost if the dump is cut off.
        let first = usize::try_from(record.cpu).ok();
        let first = first.filter(|cpu| *cpu < self.cpus.len());
        let others = (0..self.cpus.len()).filter(|cpu| Some(*cpu) != first);
        for cpu in first.into_iter().chain(others) {
            let state = self.dump_cpu(cpu, context, record.time);
            text.push_str(&state);
        }
        text.push_str("\nEvent counters\n--------------\n");
        for (name, value) in self.event_counters() {
            let _ = writeln!(text, "{name:>40}: {value:>16}");
        }
        text.push_str(&self.dump_queues());
        let room = self.operations.exit_dump_len - 1;
        if text.len() > room {
            text.truncate(text.floor_char_boundary(room.saturating_sub(TRUNCATED.len())));
            text.push_str(TRUNCATED);
        }
        text
    }

    fn dump_heading(&self, record: &ExitRecord) -> String {
        let mut text = format!("{}: root\n", self.operations.name);
        let place = match record.cpu {
            cpu @ 0.. => format!(" on CPU {cpu}"),
            _ => String::new(),
        };
        let _ = writeln!(text, "{} triggered exit kind {}{place}:", record.by, record.kind as u32);
        let _ = writeln!(text, "  {} ({})", record.reason, record.message);
        text.push_str("\nBacktrace:\n");
        if let Some(op) = record.during {
            let _ = writeln!(text, "  bpf__sched_ext_ops_{}", op.name());
        }
        text
    }

    /// A CPU with its tasks; empty if it is idle and the scheduler has nothing to say about it.
    fn dump_cpu(&mut self, cpu: usize, context: u64, now: u64) -> String {
        let waiting = self.runnable_list(cpu);
        let current = self.cpus[cpu].current;
        let is_idle = current.class == Class::Idle && waiting.is_empty();
        let arguments = [context, self.cpu_argument(cpu), u64::from(is_idle)];
        let own = self.callback_output(Op::DumpCpu, &arguments, "  ");
        if is_idle && own.is_empty() {
            return String::new();
        }
        let mut text = self.cpu_state(cpu);
        text.push_str(&own);
        if current.class == Class::Ext {
            text.push_str(&self.dump_task(current, '*', context, now));
        }
        for task in waiting {
            text.push_str(&self.dump_task(task, ' ', context, now));
        }
        text
    }

    fn cpu_state(&self, cpu: usize) -> String {
        let state = &self.cpus[cpu];
        let (current, class) = (state.current, state.current.class);
        let class = match class {
            Class::Idle => "idle_sched_class",
            Class::Ext => "ext_sched_class",
            Class::Fair => "fair_sched_class",
            Class::RealTime => "rt_sched_class",
            Class::Deadline => "dl_sched_class",
        };
        let label = match current == state.idle {
            true => format!("swapper/{cpu}[0]"),
            false => current.label(),
        };
        let mut text = format!(
            "\nCPU {cpu:<4}: nr_run={} flags=0x{:x} cpu_rel={} ops_qseq={} ksync={}\n          curr={label} class={class}\n",
            state.rq.scx.nr_running,
            state.rq.scx.flags,
            u32::from(state.rq.scx.cpu_released),
            state.rq.scx.ops_qseq,
            state.kick_sync,
        );
        type Wants = fn(u64) -> bool;
        let kicks: [(&str, Wants); 4] = [
            ("cpus_to_kick   ", |flags| flags & SCX_KICK_IDLE == 0),
            ("idle_to_kick   ", |flags| flags & SCX_KICK_IDLE != 0),
            ("cpus_to_preempt", |flags| flags & SCX_KICK_PREEMPT != 0),
            ("cpus_to_wait   ", |flags| flags & SCX_KICK_WAIT != 0),
        ];
        for (name, wants) in kicks {
            let mut mask = CpuMask::first_cpus(0);
            for (target, flags) in &state.kicks {
                if wants(*flags) {
                    mask.set(*target as usize);
                }
            }
            if mask.first().is_some() {
                let mask = hexadecimal(&mask, self.cpus.len());
                let _ = writeln!(text, "  {name}: {mask}");
            }
        }
        text
    }

    fn dump_task(&mut self, task: TaskRef, marker: char, context: u64, now: u64) -> String {
        let length = self.tick_length();
        let ticks = self.ticks_until(now).saturating_sub(self.ticks_until(task.runnable_since));
        let waited = ticks * length / 1_000_000;
        let state = match task.seen.__state {
            TASK_RUNNING => 'R',
            TASK_UNINTERRUPTIBLE => 'D',
            TASK_DEAD => 'X',
            _ => 'S',
        };
        let queue = task.dsq.map_or("(n/a)".to_owned(), |dsq| format!("0x{:x}", dsq.id()));
        let scx = &task.seen.scx;
        let mut text =
            format!("\n {marker}{state} {} *root {:+}ms\n", task.label(), -(waited as i64));
        let _ = writeln!(
            text,
            "      scx_state/flags={}/0x{:x} dsq_flags=0x{:x} ops_state/qseq={}/{}",
            (scx.flags & SCX_TASK_STATE_MASK) >> SCX_TASK_STATE_SHIFT,
            scx.flags & !SCX_TASK_STATE_MASK,
            scx.dsq_flags,
            task.ops_state as u32,
            scx.ops_qseq,
        );
        let _ = writeln!(
            text,
            "      sticky/holding_cpu={}/{} dsq_id={queue}\n      dsq_vtime={} slice={} weight={}\n      cpus={} no_mig={}",
            scx.sticky_cpu,
            scx.holding_cpu,
            scx.dsq_vtime,
            scx.slice,
            scx.weight,
            hexadecimal(task.allowed(), self.cpus.len()),
            task.seen.migration_disabled,
        );
        text + self.callback_output(Op::DumpTask, &[context, task.address()], "    ").as_str()
    }

    /// The dispatch queues that hold tasks, with the tasks in order.
    fn dump_queues(&self) -> String {
        let mut text = String::new();
        for queue in self.dsqs.iter().filter(|queue| !queue.is_empty()) {
            let local = queue.local_to.map(|cpu| format!(" of CPU {cpu}"));
            let _ = writeln!(
                text,
                "DSQ 0x{:x}{}: nr={}",
                queue.id(),
                local.unwrap_or_default(),
                queue.len()
            );
            text.push_str(&contents(queue));
        }
        match text.is_empty() {
            true => text,
            false => format!("\nDispatch queues\n---------------\n{text}"),
        }
    }
}

/// The tasks of a queue, one per line.
fn contents(queue: &DispatchQueue) -> String {
    let mut text = String::new();
    let tasks = std::iter::successors(queue.first(), |task| task.dsq_next);
    for task in tasks.take(LISTED) {
        let order = match task.seen.scx.dsq_flags & SCX_TASK_DSQ_ON_PRIQ {
            0 => String::new(),
            _ => format!(" dsq_vtime={}", task.seen.scx.dsq_vtime),
        };
        let _ = writeln!(text, "  {}{order} slice={}", task.label(), task.seen.scx.slice);
    }
    let more = (queue.len() as usize).saturating_sub(LISTED);
    if more > 0 {
        let _ = writeln!(text, "  and {more} more");
    }
    text
}
