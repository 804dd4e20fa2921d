//! The kernel's debug dump of a sched_ext scheduler that it unloads because of an error: the waiting tasks and their queues, as a workload to begin with.
//!
//! A dump (`scx_dump_state()` in `kernel/sched/ext.c`) has the CPUs that were not idle, with the task on each and those that waited there; tasks that
//! slept are not in it. It has no past and no future of tasks, so each is a hog: it always wants its CPU.

use serde_json::{Map, Value, json};

use crate::names;

/// Microseconds between the starts of two tasks, which keep the order in which they began to wait.
const STAGGER: usize = 1_000;
/// The heading of the part with the CPUs.
const CPUS: &str = "CPU states";

/// The contents of a debug dump.
#[derive(Clone, Debug, Default)]
pub struct Dump {
    /// Why the scheduler was unloaded, as the dump says it; empty if it does not.
    pub reason: String,
    /// Number of CPUs: those that it names, and those that tasks may use.
    pub cpus: usize,
    /// The tasks that waited, the one that had waited longest first, and behind them those that ran.
    pub tasks: Vec<DumpedTask>,
    /// Number of other dumps in the text, which are not read.
    pub others: usize,
    /// Number of CPUs whose task is left out because it is of another class, such as the kernel's own stopper.
    pub left_out: usize,
}

/// A task in a dump.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DumpedTask {
    /// Its name.
    pub name: String,
    /// Its process id.
    pub pid: u32,
    /// The CPU with which it is listed.
    pub cpu: usize,
    /// Whether it ran there.
    pub runs: bool,
    /// Whether it is a real-time task, of which only that is known.
    pub is_real_time: bool,
    /// How long it had been runnable, in milliseconds: how long it had waited, if it did not run.
    pub runnable_for: u64,
    /// Its sched_ext weight, 100 for nice 0; 0 if the dump does not say it.
    pub weight: u32,
    /// CPUs that it may use; empty if the dump does not say it.
    pub allowed: Vec<usize>,
    /// Id of the dispatch queue in which it lay; `None` if in none.
    pub queue: Option<u64>,
}

/// Whether a text has a debug dump in it.
pub fn is_dump(text: &str) -> bool {
    let text = plain(text);
    text.contains(CPUS) && text.contains("nr_run=")
}

impl Dump {
    /// Reads a dump from a text that may have more in it, such as a kernel log.
    pub fn parse(text: &str) -> Result<Self, String> {
        if !is_dump(text) {
            return Err(format!(
                "it has no debug dump of a sched_ext scheduler: no line \"{CPUS}\" with CPUs behind it"
            ));
        }
        let mut dump = Self::default();
        let text = &plain(text);
        let mark = mark(text);
        let mut lines: Vec<&str> = text.lines().map(|line| content(line, mark)).collect();
        // Some programs show a journal with its newest line first.
        let place = |is_it: &dyn Fn(&str) -> bool| lines.iter().position(|line| is_it(line));
        if place(&|line| line.trim() == CPUS) > place(&|line| cpu_of(line).is_some()) {
            lines.reverse();
        }
        let mut lines = lines.into_iter().peekable();
        let mut cpu = None;
        let mut headings = 0;
        while let Some(line) = lines.next() {
            headings += usize::from(line.trim() == CPUS);
            if headings > 1 {
                continue;
            }
            if line.contains("triggered exit kind") && dump.reason.is_empty() {
                dump.reason = lines.peek().map_or_else(String::new, |next| next.trim().to_owned());
            } else if let Some(number) = cpu_of(line) {
                cpu = Some(number);
                dump.cpus = dump.cpus.max(number + 1);
            } else if let Some(number) = cpu {
                dump.take(number, line);
            }
            if line.starts_with("Event counters") || line.starts_with("Dispatch queues") {
                cpu = None;
            }
        }
        if dump.tasks.is_empty() {
            return Err("no task ran or waited in this debug dump, as far as it has lines as the kernel writes them (`journalctl -o cat`)".to_owned());
        }
        dump.others = headings.saturating_sub(1);
        // A running task has been runnable since it last slept.
        dump.tasks.sort_by_key(|task| (task.runs, std::cmp::Reverse(task.runnable_for)));
        Ok(dump)
    }

    /// A line about a CPU, or about the task before it.
    fn take(&mut self, cpu: usize, line: &str) {
        if let Some(class) = word(line, "class=") {
            let current = word(line, "curr=").and_then(label);
            let is_listed =
                matches!(class, "ext_sched_class" | "rt_sched_class" | "idle_sched_class");
            self.left_out += usize::from(!is_listed);
            let real_time = current.filter(|_| class == "rt_sched_class");
            self.tasks.extend(real_time.map(|(name, pid)| DumpedTask {
                name,
                pid,
                cpu,
                runs: true,
                is_real_time: true,
                ..DumpedTask::default()
            }));
            return;
        }
        if let Some(task) = task_of(line, cpu) {
            self.tasks.push(task);
            return;
        }
        let Some(task) = self.tasks.last_mut().filter(|task| task.cpu == cpu) else { return };
        if let Some(queue) = word(line, "dsq_id=") {
            let digits = queue.strip_prefix("0x");
            task.queue = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        }
        if let Some(weight) = word(line, "weight=") {
            task.weight = weight.parse().unwrap_or(0);
        }
        if let Some(mask) = word(line, "cpus=").filter(|_| line.trim_start().starts_with("cpus=")) {
            task.allowed = cpus_of(mask);
            self.cpus = self.cpus.max(task.allowed.last().map_or(0, |last| last + 1));
        }
    }

    /// A workload with its tasks, as the text of an rt-app file: each wants its CPU all the time, the kernel's own threads now and then.
    pub fn workload(&self) -> String {
        let mut tasks = Map::new();
        for (place, task) in self.tasks.iter().enumerate() {
            let mut name: String = task.name.chars().filter(|one| one.is_alphanumeric()).collect();
            name.push_str(&format!("-{}", task.pid));
            tasks.insert(name, self.task(task, place));
        }
        format!("{:#}\n", json!({ "tasks": tasks }))
    }

    fn task(&self, task: &DumpedTask, place: usize) -> Value {
        let mut text = match names::is_kernels(&task.name) {
            true => json!({ "loop": -1, "run": 100, "sleep": 10_000 }),
            false => json!({ "loop": -1, "run": 1_000_000 }),
        };
        if task.is_real_time {
            text["policy"] = json!("SCHED_FIFO");
            text["priority"] = json!(50);
            text["cpus"] = json!([task.cpu]);
            return text;
        }
        let nice = nice(task.weight);
        if nice != 0 {
            text["priority"] = json!(nice);
        }
        if !task.allowed.is_empty() && task.allowed.len() < self.cpus {
            text["cpus"] = json!(task.allowed);
        }
        if place > 0 {
            text["delay"] = json!(place * STAGGER);
        }
        text
    }
}

/// A text without the colours of a terminal, the fixed blanks of a web page and the line ends of other systems.
fn plain(text: &str) -> String {
    let text = text.replace('\u{a0}', " ").replace("\r\n", "\n").replace('\r', "\n");
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| all + part.split_once('m').map_or(part, |(_, rest)| rest))
}

/// A line without the prefix of a kernel log.
fn content<'a>(mut line: &'a str, (mark, times): (&str, usize)) -> &'a str {
    for _ in 0..times {
        let behind = line.split_once(mark).map(|(_, rest)| rest);
        if let Some(rest) = behind.filter(|rest| rest.is_empty() || rest.starts_with(' ')) {
            line = rest.strip_prefix(' ').unwrap_or(rest);
        }
    }
    let line = line.split_once("kernel: ").map_or(line, |(_, rest)| rest);
    let stamp = line.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    let is_time = |text: &str| text.trim().parse::<f64>().is_ok();
    let line = match stamp {
        Some((time, rest)) if is_time(time) => rest,
        _ => line,
    };
    line.strip_prefix("sched_ext: ").unwrap_or(line)
}

/// The last word before the heading of the part with the CPUs, with which each line begins in a journal (`scx_lavd[812]:`) or where a text is
/// quoted (`>`), and how often it stands there, as in a quotation of a quotation.
fn mark(text: &str) -> (&str, usize) {
    let before = text.lines().find_map(|line| line.trim_end().strip_suffix(CPUS));
    let before = before.unwrap_or_default();
    let mark = before.split_whitespace().last();
    mark.map_or(("", 0), |mark| (mark, before.matches(mark).count()))
}

/// The CPU of a line such as `CPU 3   : nr_run=2 flags=0x1`.
fn cpu_of(line: &str) -> Option<usize> {
    let (number, rest) = line.trim_start().strip_prefix("CPU ")?.split_once(':')?;
    let number = number.trim().parse().ok()?;
    rest.contains("nr_run=").then_some(number)
}

/// A task of a line such as ` *R hog[1001] -30123ms`.
fn task_of(line: &str, cpu: usize) -> Option<DumpedTask> {
    let line = line.trim();
    let (line, runs) = match line.strip_prefix('*') {
        Some(rest) => (rest, true),
        None => (line, false),
    };
    let (state, rest) = line.split_at_checked(2)?;
    if !state.starts_with(|one: char| one.is_ascii_alphabetic()) || !state.ends_with(' ') {
        return None;
    }
    let (rest, time) = rest.rsplit_once(' ')?;
    let time: i64 = time.strip_suffix("ms")?.parse().ok()?;
    // A newer kernel names the task's scheduler behind it.
    let named = match rest.rsplit_once(' ') {
        Some((named, scheduler)) if scheduler.starts_with('*') && named.ends_with(']') => named,
        _ => rest,
    };
    let (name, pid) = label(named)?;
    Some(DumpedTask {
        name,
        pid,
        cpu,
        runs,
        runnable_for: time.unsigned_abs(),
        ..DumpedTask::default()
    })
}

/// A task's name and number, which the kernel writes as `hog[1001]`.
fn label(text: &str) -> Option<(String, u32)> {
    let (name, pid) = text.trim().strip_suffix(']')?.rsplit_once('[')?;
    Some((name.to_owned(), pid.parse().ok()?))
}

/// The word behind `key` in a line.
fn word<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let (before, rest) = line.split_once(key)?;
    let is_whole = before.is_empty() || before.ends_with([' ', '/']);
    let end = match key {
        // A name may have blanks in it.
        "curr=" => rest.find(" class=").unwrap_or(rest.len()),
        _ => rest.find(' ').unwrap_or(rest.len()),
    };
    is_whole.then(|| &rest[..end])
}

/// The CPUs of a mask such as `ff,ffffffff`: 32 a group, the first ones last.
fn cpus_of(mask: &str) -> Vec<usize> {
    let mut cpus = Vec::new();
    for (place, group) in mask.split(',').rev().enumerate() {
        let bits = u32::from_str_radix(group, 16).unwrap_or(0);
        let set = (0..32).filter(|bit| bits & (1 << bit) != 0);
        cpus.extend(set.map(|bit| place * 32 + bit));
    }
    cpus
}

/// The nice value of a sched_ext weight, which is 100 for nice 0 and about 1.25 times as large for each step (`sched_prio_to_weight`). SCHED_IDLE has
/// the weight of nice 19 here.
fn nice(weight: u32) -> i32 {
    if weight == 0 {
        return 0;
    }
    let steps = (f64::from(weight) / 100.0).ln() / 1.25_f64.ln();
    -(steps.round() as i32).clamp(-19, 20)
}

#[cfg(test)]
mod tests {
    use fairground_workload::Workload;

    use super::*;

    /// As a kernel of 2025 writes it to its log, shortened.
    const LOGGED: &str = "\
[  101.2] sched_ext: scx_simple: BPF scheduler \"simple\" disabled (runnable task stall)
[  101.3] scx_watchdog[77] triggered exit kind 1026:
[  101.3]   runnable task stall (Web Content[420] failed to run for 30.123s)
[  101.3] 
[  101.3] CPU states
[  101.3] ----------
[  101.3] 
[  101.3] CPU 1   : nr_run=2 flags=0x1 cpu_rel=0 ops_qseq=17 pnt_seq=9
[  101.3]           curr=audio[31] class=rt_sched_class
[  101.3] 
[  101.3]   R Web Content[420] -30123ms
[  101.3]       scx_state/flags=3/0x9 dsq_flags=0x0 ops_state/qseq=2/12
[  101.3]       sticky/holding_cpu=-1/-1 dsq_id=(n/a)
[  101.3]       dsq_vtime=0 slice=20000000 weight=100
[  101.3]       cpus=2 no_mig=0
[  101.3] 
[  101.3] CPU 3   : nr_run=1 flags=0x1 cpu_rel=0 ops_qseq=17 pnt_seq=9
[  101.3]           curr=cc1[500] class=ext_sched_class
[  101.3] 
[  101.3]  *R cc1[500] +0ms
[  101.3]       scx_state/flags=3/0xd dsq_flags=0x0 ops_state/qseq=0/14
[  101.3]       sticky/holding_cpu=-1/-1 dsq_id=0x8000000000000002 dsq_vtime=0 slice=12 weight=10
[  101.3]       cpus=f
";

    #[test]
    fn a_log_is_read_into_tasks_with_their_cpus_and_queues() {
        let dump = Dump::parse(LOGGED).unwrap();
        assert!(dump.reason.contains("failed to run for 30.123s"));
        assert_eq!((dump.cpus, dump.left_out), (4, 0));
        let deadline = LOGGED.replace("class=rt_sched_class", "class=dl_sched_class");
        let deadline = Dump::parse(&deadline).unwrap();
        assert_eq!((deadline.tasks.len(), deadline.left_out), (2, 1));
        let names: Vec<&str> = dump.tasks.iter().map(|task| task.name.as_str()).collect();
        assert_eq!(names, ["Web Content", "audio", "cc1"]);
        let [waits, audio, compiler] = &dump.tasks[..] else { panic!("{:?}", dump.tasks) };
        assert_eq!((waits.pid, waits.cpu, waits.runs), (420, 1, false));
        assert_eq!((waits.runnable_for, waits.queue), (30_123, None));
        assert_eq!((waits.weight, &waits.allowed[..]), (100, &[1][..]));
        assert!(audio.is_real_time && audio.runs);
        assert_eq!(compiler.queue, Some(1 << 63 | 2));
        assert_eq!(compiler.allowed, [0, 1, 2, 3]);
    }

    #[test]
    fn a_dump_is_read_as_people_paste_it() {
        let plain: Vec<&str> = LOGGED.lines().map(|line| &line[10..]).collect();
        let whole = Dump::parse(&plain.join("\n")).unwrap();
        let journal = |line: &&str| format!("Mar 02 10:11:12 desk scx_lavd[812]: {line}");
        let iso = |line: &&str| format!("2026-03-02T10:11:12+01:00 desk bash[8]: {line}");
        let quoted = |line: &&str| format!("> {line}").trim_end().to_owned();
        let colours = |line: &&str| format!("\u{1b}[32m{}\u{1b}[0m", line.replace(' ', "\u{a0}"));
        let twice = plain.iter().chain(&plain).map(|line| format!("> > {line}"));
        let forms: [Vec<String>; 8] = [
            twice.collect(),
            plain.iter().map(colours).collect(),
            vec![plain.join("\r")],
            plain.iter().map(journal).collect(),
            plain.iter().map(iso).collect(),
            plain.iter().map(quoted).collect(),
            plain.iter().rev().map(journal).collect(),
            plain.iter().map(|line| format!("> {}\r", journal(line))).collect(),
        ];
        for form in forms {
            let dump = Dump::parse(&form.join("\n")).unwrap();
            assert_eq!(dump.tasks, whole.tasks, "{}", form[0]);
            assert_eq!(dump.reason, whole.reason, "{}", form[0]);
        }
    }

    #[test]
    fn its_workload_has_the_tasks_in_the_order_in_which_they_began_to_wait() {
        let text = Dump::parse(LOGGED).unwrap().workload();
        let workload = Workload::parse("dump.json", &text).unwrap();
        let names: Vec<&str> = workload.tasks.iter().map(|task| task.name.as_str()).collect();
        assert_eq!(names, ["WebContent-420", "audio-31", "cc1-500"]);
        assert_eq!(workload.tasks[0].cpus.as_deref(), Some(&[1][..]));
        let parsed: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(parsed["tasks"]["audio-31"]["policy"], "SCHED_FIFO");
        assert_eq!(parsed["tasks"]["cc1-500"]["priority"], 10);
        assert_eq!(parsed["tasks"]["cc1-500"]["delay"], 2000);
        assert!(parsed["tasks"]["cc1-500"].get("cpus").is_none());
    }

    #[test]
    fn weights_are_those_of_nice_values() {
        for (weight, expected) in [(100, 0), (8668, -20), (1, 19), (80, 1), (125, -1), (0, 0)] {
            assert_eq!(nice(weight), expected, "{weight}");
        }
    }

    #[test]
    fn what_is_no_dump_is_refused() {
        assert!(Dump::parse("nothing").unwrap_err().contains("no debug dump"));
        let without_tasks = "CPU states\nCPU 0   : nr_run=0 flags=0x0\n";
        assert!(Dump::parse(without_tasks).unwrap_err().contains("no task"));
    }
}
