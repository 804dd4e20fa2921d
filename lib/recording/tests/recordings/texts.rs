//! Recordings made of texts: what they tell of less than a file of perf, and what is damaged in them.

use fairground_recording::{Imported, Load, Recording, import_ftrace, is_ftrace};
use fairground_workload::{Event, Policy};
use tempfile::TempDir;

/// A text that is being made; times are microseconds.
struct Text {
    lines: String,
    /// Whether lines have flags.
    has_flags: bool,
}

const IDLE: (&str, u32, u32) = ("swapper/0", 0, 120);
const APP: (&str, u32, u32) = ("app", 41, 120);
const HOG: (&str, u32, u32) = ("hog", 77, 120);

type Task = (&'static str, u32, u32);

impl Default for Text {
    fn default() -> Self {
        Self { lines: String::new(), has_flags: true }
    }
}

impl Text {
    fn line(&mut self, time: u64, cpu: u32, by: Task, flags: &str, event: &str) {
        let (name, number, _) = by;
        let flags = if self.has_flags { flags } else { "" };
        let (seconds, rest) = (10 + time / 1_000_000, time % 1_000_000);
        let line = format!("  {name}-{number}  [{cpu:03}] {flags} {seconds}.{rest:06}: {event}\n");
        self.lines.push_str(&line);
    }

    fn switch(&mut self, time: u64, cpu: u32, from: Task, state: &str, to: Task) {
        let side = |prefix: &str, (name, number, priority): Task| {
            format!("{prefix}comm={name} {prefix}pid={number} {prefix}prio={priority}")
        };
        let (before, after) = (side("prev_", from), side("next_", to));
        let event = format!("sched_switch: {before} prev_state={state} ==> {after}");
        self.line(time, cpu, from, "d..2.", &event);
    }

    fn wake(&mut self, time: u64, cpu: u32, by: Task, flags: &str, task: Task) {
        let (name, number, priority) = task;
        let event = format!("sched_waking: comm={name} pid={number} prio={priority} target_cpu=0");
        self.line(time, cpu, by, flags, &event);
    }

    /// A task that a timer wakes on CPU 0 every 10 ms, and that runs for 4 ms then.
    fn periods(count: u64, task: Task) -> Self {
        let mut text = Self::default();
        text.add_periods(0..count, task);
        text
    }

    fn add_periods(&mut self, numbers: std::ops::Range<u64>, task: Task) {
        for begin in numbers.map(|number| number * 10_000) {
            self.wake(begin, 0, IDLE, "d.h2.", task);
            self.switch(begin + 5, 0, IDLE, "R", task);
            self.switch(begin + 4_005, 0, task, "S", IDLE);
        }
    }

    fn import(&self) -> (Imported, Recording) {
        import(&self.lines)
    }

    fn load(&self) -> Load {
        self.import().1.load().expect("it has tasks")
    }
}

fn try_import(text: &str, chosen: Option<u32>) -> Result<(Imported, Recording), String> {
    let folder = TempDir::new().expect("there is room");
    let to = folder.path().join("x.recording");
    let imported = import_ftrace("trace.txt".as_ref(), text, &to, chosen);
    let imported = imported.map_err(|error| error.to_string())?;
    Ok((imported, Recording::read(&to).expect("what was written can be read")))
}

fn import(text: &str) -> (Imported, Recording) {
    assert!(is_ftrace(text));
    try_import(text, None).expect("it has switches")
}

fn names(load: &Load) -> Vec<&str> {
    load.workload.tasks.iter().map(|task| task.name.as_str()).collect()
}

/// Whether a note of a workload has this in it.
fn notes_have(load: &Load, part: &str) -> bool {
    load.workload.notes.iter().any(|note| note.contains(part))
}

fn events(load: &Load, name: &str) -> Vec<Event> {
    let task = load.workload.tasks.iter().find(|task| task.name == name).expect("it ran");
    task.phases[0].events.iter().collect()
}

/// CPU time of a task, microseconds.
fn cpu_time(load: &Load, name: &str) -> u64 {
    let runs = events(load, name).into_iter();
    runs.map(|event| if let Event::Run(time) = event { time / 1000 } else { 0 }).sum()
}

#[test]
fn kernel_threads_and_recorders_are_known_by_their_names() {
    let mut text = Text::periods(20, APP);
    for (place, name) in
        (0..).zip(["kworker/u4:3", "rcu_preempt", "kcompactd0", "perf", "trace-cmd"])
    {
        let task = (name, 50 + place, 120);
        let begin = 300_000 + 10_000 * u64::from(place);
        text.switch(begin, 0, IDLE, "R", task);
        text.switch(begin + 100, 0, task, "S", IDLE);
    }
    let load = text.load();
    assert_eq!(names(&load), ["app"]);
    assert_eq!(load.others.iter().filter(|other| other.kernel).count(), 3);
    assert!(notes_have(&load, "known by their names"));
}

#[test]
fn the_time_before_overwritten_events_of_a_cpu_is_not_known() {
    let mut text = Text::periods(100, APP);
    let whole = text.lines.clone();
    text.lines.push_str("##### CPU 1 buffer started ####\n");
    for number in 0..10 {
        let begin = 980_000 + number * 2_000;
        text.switch(begin, 1, HOG, "R", ("other", 78, 120));
        text.switch(begin + 1_000, 1, ("other", 78, 120), "R", HOG);
    }
    let load = text.load();
    let hog = cpu_time(&load, "hog");
    assert!(hog < 20_000, "{hog}");
    assert_eq!(load.loss.gaps.unknown, 980_000_000);
    assert!(load.loss.to_string().contains("not known who had 0.980 s"), "{}", load.loss);
    assert!(notes_have(&load, "of each CPU, the time before"));
    assert!(!load.loss.is_reliable());
    // A hog that has had its CPU since the beginning, in a text that is whole.
    let head = "# entries-in-buffer/entries-written: 210/210   #P:2\n";
    text.lines = text.lines.replace("##### CPU 1 buffer started ####\n", "");
    assert!(text.lines.starts_with(&whole));
    text.lines.insert_str(0, head);
    let load = text.load();
    assert!(cpu_time(&load, "hog") > 980_000, "{}", load.loss);
    assert!(load.loss.is_reliable(), "{}", load.loss);
}

/// A timer that wakes a task every 10 ms while another one runs.
fn interrupted(has_flags: bool) -> Text {
    let mut text = Text { has_flags, ..Text::default() };
    text.switch(0, 0, IDLE, "R", HOG);
    for begin in (1..200).map(|number| number * 10_000) {
        text.wake(begin, 0, HOG, "d.h2.", APP);
        text.switch(begin + 5, 0, HOG, "R", APP);
        text.switch(begin + 1_005, 0, APP, "S", HOG);
    }
    text
}

#[test]
fn a_timer_is_told_from_the_task_that_it_interrupts_even_without_flags() {
    for has_flags in [true, false] {
        let load = interrupted(has_flags).load();
        assert!(!events(&load, "hog").iter().any(|event| matches!(event, Event::SemPost(_))));
        assert_eq!(notes_have(&load, "cannot be told from those by the tasks"), !has_flags);
    }
}

#[test]
fn a_task_that_sleeps_between_its_wake_ups_of_another_means_them() {
    let mut text = Text { has_flags: false, ..Text::default() };
    for begin in (0..100).map(|number| number * 10_000) {
        text.wake(begin, 0, IDLE, "", HOG);
        text.switch(begin + 5, 0, IDLE, "R", HOG);
        text.wake(begin + 1_000, 0, HOG, "", APP);
        text.switch(begin + 1_005, 0, HOG, "S", APP);
        text.switch(begin + 2_005, 0, APP, "S", IDLE);
    }
    let waits = events(&text.load(), "app");
    let posted = waits.iter().filter(|event| matches!(event, Event::SemWait(_))).count();
    assert!(posted > 90, "{posted}");
}

#[test]
fn without_the_event_that_has_the_waker_a_note_says_so() {
    let text = Text::periods(20, APP).lines.replace("sched_waking", "sched_wakeup");
    let (imported, _) = import(&text);
    assert!(imported.notes.iter().any(|note| note.contains("record sched_waking")));
}

#[test]
fn threads_belong_to_the_process_that_a_text_names() {
    let (server, thread) = (("srv", 500, 120), ("worker", 501, 120));
    let mut text = Text::default();
    for begin in (0..20).map(|number| number * 10_000) {
        text.wake(begin, 0, IDLE, "d.h2.", server);
        text.switch(begin + 5, 0, IDLE, "R", server);
        text.wake(begin + 500, 0, server, "d..2.", thread);
        text.switch(begin + 1_005, 0, server, "S", thread);
        text.switch(begin + 2_005, 0, thread, "S", IDLE);
    }
    text.add_periods(30..50, APP);
    let groups = text.lines.replace("-500 ", "-500 (  500)").replace("-501 ", "-501 (  500)");
    let script =
        text.lines.replace("srv-500 ", "srv 500/500").replace("worker-501 ", "worker 500/501");
    for text in [groups, script] {
        let (_, recording) = try_import(&text, Some(500)).expect("it ran");
        assert_eq!(names(&recording.load().expect("it ran")), ["srv", "worker"]);
        let error = try_import(&text, Some(4242)).expect_err("there is no such process");
        assert!(error.contains("--pid"), "{error}");
    }
}

#[test]
fn a_task_has_the_priority_that_it_had_for_longest() {
    let mut text = Text::periods(99, APP);
    text.add_periods(99..100, ("app", 41, 49));
    let load = text.load();
    assert_eq!(load.workload.tasks[0].policy, Policy::Other { nice: 0, slice: None });
    assert!(notes_have(&load, "1 task changed policy or priority"));
}

#[test]
fn a_last_line_that_is_cut_off_is_left_out() {
    let mut text = Text::periods(20, APP);
    let (_, whole) = text.import();
    text.switch(200_000, 0, IDLE, "R", APP);
    let (_, cut) = import(text.lines.trim_end_matches("0\n"));
    assert!(whole.entries().eq(cut.entries()));
}

#[test]
fn the_head_of_a_text_has_the_number_of_cpus() {
    let text = Text::periods(20, APP).lines;
    let head = "# entries-in-buffer/entries-written: 60/60   #P:8\n#\n";
    assert_eq!(import(&format!("{head}{text}")).1.header.cpus, 8);
    assert_eq!(import(&format!("cpus=4\n{text}")).1.header.cpus, 4);
    assert_eq!(import(&text).1.header.cpus, 1);
}

#[test]
fn lost_events_are_counted_in_every_form() {
    let text = Text::periods(20, APP).lines;
    for (line, lost) in [
        ("CPU:0 [LOST 7 EVENTS]", 7),
        ("CPU:0 [LOST EVENTS]", 1),
        ("CPU:0 [1234 EVENTS DROPPED]", 1234),
        ("CPU:0 [EVENTS DROPPED]", 1),
    ] {
        assert_eq!(import(&format!("{text}{line}\n")).0.lost, lost, "{line}");
    }
}

#[test]
fn states_of_older_kernels_are_ends_and_sleeps() {
    let text = Text::periods(20, APP).lines;
    let ending = text.replacen("prev_state=S", "prev_state=x", 1);
    let load = import(&ending).1.load().expect("it has tasks");
    assert_eq!(names(&load), ["app#1", "app#2"], "the first has ended");
    for state in ["K", "W", "D|N"] {
        let text = text.replace("prev_state=S", &format!("prev_state={state}"));
        assert_eq!(import(&text).1.load().expect("it has tasks").loss.gaps.count, 0, "{state}");
    }
    let unknown = text.replacen("prev_state=S", "prev_state=0x402", 1);
    let (imported, _) = import(&unknown);
    let said =
        |note: &String| note.starts_with("1 line about an event") && note.ends_with("line 3");
    assert!(imported.notes.iter().any(said), "{:?}", imported.notes);
}

#[test]
fn names_may_have_any_signs_in_them() {
    for name in ["GPU: main", "Web [x]", "a pid=3 b", "x] 1.0: y"] {
        let task = (name, 41, 120);
        assert_eq!(names(&Text::periods(20, task).load()), [name]);
        let text = Text::periods(20, task).lines;
        let (imported, _) = import(&text);
        assert!(!imported.notes.iter().any(|note| note.contains("cannot be read")), "{name}");
        let short = |text: String, prefix: &str| {
            let text = text.replace(
                &format!("{prefix}comm={name} {prefix}pid=41 {prefix}prio=120"),
                &format!("{name}:41 [120]"),
            );
            text.replace(
                &format!("{prefix}comm=swapper/0 {prefix}pid=0 {prefix}prio=120"),
                "swapper/0:0 [120]",
            )
        };
        let short = short(short(short(text, "prev_"), "next_"), "").replace("prev_state=", "");
        assert_eq!(names(&import(&short).1.load().expect("it has tasks")), [name]);
    }
}

#[test]
fn lines_that_cannot_be_read_are_counted() {
    let text = Text::periods(20, APP).lines.replace("10.100", "10.10\0");
    let text = text.replacen("10.000005:", "10.00000000é:", 1);
    let (imported, _) = import(&text);
    let said = |note: &String| note.starts_with("3 lines about events") && note.ends_with("line 2");
    assert!(imported.notes.iter().any(said), "{:?}", imported.notes);
}

#[test]
fn the_files_of_single_cpus_may_be_joined() {
    let mut text = Text::periods(100, APP);
    for begin in (0..100).map(|number| number * 10_000) {
        text.switch(begin, 1, IDLE, "R", HOG);
        text.switch(begin + 1_000, 1, HOG, "S", IDLE);
    }
    let (imported, recording) = text.import();
    assert_eq!((imported.lost, imported.length), (0, 994_005_000));
    assert_eq!(cpu_time(&recording.load().expect("it has tasks"), "hog"), 100_000);
}
