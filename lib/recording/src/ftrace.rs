//! Imports the text of ftrace: `trace` and `trace_pipe` of tracefs, `trace-cmd report` and `perf script`. They are what Android, LISA and scxtop have.
//!
//! All have a line for each event: the task, its number, the CPU in brackets, the time in seconds, and the event with its fields. `trace-cmd` and
//! older versions of perf print the fields of some events in a form of their own. A name may have any signs in it, so fields are read from their end.

use std::path::Path;

use crate::error::Error;
use crate::file::{Header, Roots};
use crate::import::{
    At, COULD_GO_ON, IN_HARD_INTERRUPT, IN_SOFT_INTERRUPT, Import, Imported, Party,
    note_on_wakings, write,
};
use crate::interrupts::{Sign, woken_by_timers};
use crate::loss::counted;
use crate::record::EntryKind;

/// Whether a text has scheduling events of ftrace.
pub fn is_ftrace(text: &str) -> bool {
    text.lines().any(|line| Line::read(line).is_some_and(|line| line.event == "sched_switch"))
}

/// Makes the recording `to` from the text of ftrace in the file `from`: of the process `chosen` and all that it creates, or of everything.
pub fn import_ftrace(
    from: &Path,
    text: &str,
    to: &Path,
    chosen: Option<u32>,
) -> Result<Imported, Error> {
    let file = from.display().to_string();
    let wrong = |what: String| Error::Import { file: file.clone(), what };
    let has = |event: &str| text.contains(&format!("{event}: "));
    let waking = ["sched_waking", "sched_wakeup"].into_iter().find(|event| has(event));
    let waking = waking.ok_or_else(|| {
        wrong("it has no wake-ups; record sched_waking beside sched_switch".to_owned())
    })?;
    let text = Text::read(text, waking);
    let header = Header {
        cpus: text.cpus,
        roots: chosen.map_or(Roots::All, |process| Roots::Tasks(vec![process])),
        source: "text of ftrace".to_owned(),
        without_calls: true,
        from_text: true,
        overwritten: text.overwritten,
        notes: text.notes().into_iter().chain(note_on_wakings(waking)).collect(),
        ..Header::default()
    };
    let timed = match text.has_flags {
        true => Default::default(),
        false => woken_by_timers(text.events.iter().filter_map(Event::sign)),
    };
    let mut events = text.events.into_iter();
    write(to, header, &wrong, |import| {
        import.lost = text.lost;
        let Some(mut event) = events.next() else { return Ok(false) };
        if let Told::Waking(party) = &event.told
            && timed.contains(&party.number)
        {
            event.interrupt = IN_HARD_INTERRUPT;
        }
        event.take(import);
        Ok(true)
    })
}

/// What a text tells, in order of time.
#[derive(Default)]
struct Text {
    events: Vec<Event>,
    /// CPUs of the machine, as far as it tells.
    cpus: u32,
    /// Events that the recorder lost, at least.
    lost: u64,
    /// Whether it tells what happened in interrupts.
    has_flags: bool,
    /// Whether the oldest events were overwritten.
    overwritten: bool,
    /// How many lines about the events needed cannot be read, and the number of the first.
    unread: u64,
    first_unread: usize,
}

impl Text {
    fn read(text: &str, waking: &str) -> Self {
        let wanted = ["sched_switch", waking, "sched_wakeup_new", "sched_process_fork"];
        let mut read = Self::default();
        // A last line without an end is cut off, perhaps within a number.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        for (place, text) in whole.lines().enumerate() {
            let line = Line::read(text).filter(|line| wanted.contains(&line.event));
            let event = line.as_ref().and_then(|line| line.event(waking));
            if let (Some(event), Some(line)) = (event, line) {
                read.has_flags |= !line.flags.is_empty();
                read.cpus = read.cpus.max(u32::from(event.at.cpu) + 1);
                read.events.push(event);
            } else if !text.starts_with('#') && wanted.iter().any(|name| names(text, name)) {
                read.unread += 1;
                if read.unread == 1 {
                    read.first_unread = place + 1;
                }
            } else {
                read.cpus = read.cpus.max(cpus(text).map_or(0, u32::from));
                read.lost = read.lost.saturating_add(lost(text).unwrap_or(0));
                read.overwritten |= is_overwritten(text);
            }
        }
        // The files of single CPUs may have been joined.
        read.events.sort_by_key(|event| event.at.time);
        read
    }

    /// What it does not tell.
    fn notes(&self) -> Vec<String> {
        let names = "a text does not tell kernel threads and recorders from other tasks: they were \
                     known by their names";
        let mut notes = vec![names.to_owned()];
        if !self.has_flags {
            let told = "the text has no flags, so wake-ups by interrupts cannot be told from those \
                        by the tasks that they interrupted: at regular intervals they were taken \
                        for a timer's, others for a task's; import perf.data itself, or the text \
                        of `trace-cmd report -l`";
            notes.push(told.to_owned());
        }
        if self.overwritten {
            let told = "the recorder has overwritten its oldest events: of each CPU, the time \
                        before the first that is left is not known";
            notes.push(told.to_owned());
        }
        if self.unread > 0 {
            let lines = counted(self.unread, "line about an event is", "lines about events are");
            let first = self.first_unread;
            notes
                .push(format!("{lines} left out, which cannot be read: the first is line {first}"));
        }
        notes
    }
}

/// Whether a line is about the event of this name.
fn names(line: &str, event: &str) -> bool {
    let mut parts = line.match_indices(event);
    parts.any(|(place, _)| {
        line[..place].ends_with([' ', ':']) && line[place + event.len()..].starts_with(": ")
    })
}

/// The number of CPUs, if a line tells it: in the head of tracefs, or in that of trace-cmd.
fn cpus(line: &str) -> Option<u16> {
    let number = line.strip_prefix("cpus=");
    let number = number.or_else(|| Some(line.strip_prefix('#')?.split_once("#P:")?.1))?;
    number.trim().parse().ok()
}

/// Whether a line of tracefs tells that older events were overwritten: fewer are in its buffers than were written, or a CPU's begin only here.
fn is_overwritten(line: &str) -> bool {
    let counts = line.strip_prefix("# entries-in-buffer/entries-written: ");
    let counts = counts.and_then(|rest| rest.split_whitespace().next()?.split_once('/'));
    counts.is_some_and(|(left, written)| left != written) || line.ends_with(" buffer started ####")
}

/// How many events were lost here: at least one if no number is told. `[LOST 7 EVENTS]` is of tracefs, `[7 EVENTS DROPPED]` of trace-cmd.
fn lost(line: &str) -> Option<u64> {
    let (told, _) = line.rsplit_once('[')?.1.split_once(']')?;
    let is_loss = told.contains("EVENTS") && (told.contains("LOST") || told.contains("DROPPED"));
    let number = told.split(' ').find_map(|word| word.parse().ok());
    is_loss.then(|| number.unwrap_or(1))
}

/// A line about an event.
struct Line<'a> {
    at: At,
    /// The task in whose context it happened, 0 for the idle task.
    by: u32,
    /// The process of that task, if the line tells it.
    process: Option<u32>,
    /// Whether it happened in an interrupt, among others; empty if the line does not tell.
    flags: &'a str,
    event: &'a str,
    fields: &'a str,
}

impl<'a> Line<'a> {
    fn read(line: &'a str) -> Option<Self> {
        // The head is what ends with a time.
        line.match_indices(": ")
            .find_map(|(place, _)| Self::split(&line[..place], &line[place + 2..]))
    }

    fn split(head: &'a str, rest: &'a str) -> Option<Self> {
        let (event, fields) = rest.trim_start().trim_start_matches("sched:").split_once(':')?;
        let (context, place) = head.rsplit_once('[')?;
        let (cpu, place) = place.split_once(']')?;
        let (flags, seconds) = place.trim().rsplit_once(' ').unwrap_or(("", place.trim()));
        let at = At { time: nanoseconds(seconds)?, cpu: cpu.trim().parse().ok()? };
        let mut context = context.trim_end();
        let mut process = None;
        if let Some((before, group)) =
            context.strip_suffix(')').and_then(|one| one.rsplit_once('('))
        {
            context = before.trim_end();
            process = group.trim().parse().ok();
        }
        let mut number = context.rsplit(['-', ' ']).next()?;
        if let Some((group, thread)) = number.split_once('/') {
            process = group.parse().ok();
            number = thread;
        }
        let by = number.parse().ok()?;
        Some(Self { at, by, process, flags: flags.trim(), event, fields: fields.trim() })
    }

    /// The interrupt in which it happened, as flags of the trace point.
    fn interrupt(&self) -> i64 {
        match self.flags {
            // What wakes a task while the CPU idles is an interrupt.
            "" if self.by == 0 => IN_HARD_INTERRUPT,
            flags if flags.contains(['h', 'H', 'z', 'Z']) => IN_HARD_INTERRUPT,
            flags if flags.contains('s') => IN_SOFT_INTERRUPT,
            _ => 0,
        }
    }

    /// Its event, if that is needed and can be read.
    fn event(&self, waking: &str) -> Option<Event> {
        let told = match self.event {
            "sched_switch" => {
                let (from, to) = self.fields.rsplit_once(" ==> ")?;
                let (previous, state) = party(from, "prev_")?;
                let (next, _) = party(to, "next_")?;
                Told::Switch { previous, next, state: state_of(state)? }
            }
            "sched_wakeup_new" => Told::Born(party(self.fields, "")?.0),
            "sched_process_fork" => {
                let (parent, child) = self.fields.rsplit_once(" child_comm=")?;
                let (_, parent) = parent.rsplit_once(" pid=")?;
                let (_, child) = child.rsplit_once(" child_pid=")?;
                Told::Fork { parent: parent.parse().ok()?, child: child.parse().ok()? }
            }
            event if event == waking => Told::Waking(party(self.fields, "")?.0),
            _ => return None,
        };
        let (at, by, process) = (self.at, self.by, self.process);
        Some(Event { at, by, process, interrupt: self.interrupt(), told })
    }
}

/// What a line tells.
struct Event {
    at: At,
    /// The task in whose context it happened, 0 for the idle task.
    by: u32,
    process: Option<u32>,
    /// The interrupt in which it happened, as flags of the trace point.
    interrupt: i64,
    told: Told,
}

/// What happened.
enum Told {
    Switch { previous: Party, next: Party, state: u32 },
    Waking(Party),
    Born(Party),
    Fork { parent: u32, child: u32 },
}

impl Event {
    /// What it says about who may have woken whom.
    fn sign(&self) -> Option<(u64, Sign)> {
        let sign = match &self.told {
            Told::Switch { previous, state, .. } if *state > 0 && state & COULD_GO_ON == 0 => {
                Sign::Sleep(previous.number)
            }
            Told::Waking(party) => Sign::Wake { task: party.number, by: self.by },
            _ => return None,
        };
        Some((self.at.time, sign))
    }

    /// Adds it to an import.
    fn take(self, import: &mut Import) {
        let Self { at, by, process, interrupt, told } = self;
        if let Some(process) = process.filter(|_| by > 0) {
            import.belongs(by, process);
        }
        match told {
            Told::Switch { previous, next, state } => import.switched(at, previous, next, state),
            Told::Born(party) => import.born(at, party, by),
            Told::Fork { parent, child } => import.forked(child, child, parent, parent),
            Told::Waking(Party { number: task, .. }) => {
                let context = import.context(task, interrupt);
                import.push(at, EntryKind::Waking { task, by, context });
            }
        }
    }
}

/// Seconds with a fraction, in nanoseconds.
fn nanoseconds(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once(['.', ','])?;
    if !seconds.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = fraction.len().min(9);
    let fraction: u64 = fraction[..digits].parse().ok()?;
    let seconds: u64 = seconds.parse().ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(fraction * 10_u64.pow(9 - digits as u32))
}

/// A task of an event, in either form, with the text behind it that may tell its state.
fn party<'a>(text: &'a str, prefix: &str) -> Option<(Party, &'a str)> {
    if let Some(rest) = text.strip_prefix(&format!("{prefix}comm=")) {
        let (name, rest) = rest.rsplit_once(&format!(" {prefix}pid="))?;
        let number = rest.split(' ').next()?.parse().ok()?;
        let priority = value(rest, &format!("{prefix}prio="))?.parse().ok()?;
        let state = value(rest, "prev_state=").unwrap_or_default();
        return Some((Party { number, name: name.to_owned(), priority }, state));
    }
    let (named, rest) = text.rsplit_once(']')?;
    let (named, priority) = named.rsplit_once(" [")?;
    let (name, number) = named.rsplit_once(':')?;
    let party = Party {
        number: number.trim().parse().ok()?,
        name: name.to_owned(),
        priority: priority.trim().parse().ok()?,
    };
    Some((party, rest.trim()))
}

/// The word behind a field's name.
fn value<'a>(fields: &'a str, name: &str) -> Option<&'a str> {
    fields.split_once(name)?.1.split(' ').next()
}

/// The state in the trace point (`include/trace/events/sched.h`) that stands for these letters, of which the first decides. `x`, `K`, `W` and
/// `N` are of kernels before 4.14.
fn state_of(letters: &str) -> Option<u32> {
    let state = match letters.split('|').next()?.trim_end_matches('+') {
        "R" => 0,
        "S" | "W" => 0x01,
        "D" | "K" | "N" => 0x02,
        "T" => 0x04,
        "t" => 0x08,
        "X" | "x" => 0x10,
        "Z" => 0x20,
        "P" => 0x40,
        "I" => 0x80,
        _ => return None,
    };
    Some(state | if letters.ends_with('+') { COULD_GO_ON } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_all_four_programs_are_read() {
        for (text, by, interrupt) in [
            (
                "  <idle>-0     [001] d.h2.  10.000001: sched_waking: comm=an app pid=41 prio=97 target_cpu=001",
                0,
                IN_HARD_INTERRUPT,
            ),
            (
                "  a-b c-7  (    5) [001] d.s2.  10.000001: sched_waking: comm=an app pid=41 prio=97 target_cpu=001",
                7,
                IN_SOFT_INTERRUPT,
            ),
            ("  a-7     [001]    10.000001000: sched_waking:   an app:41 [97] CPU:001", 7, 0),
            (
                "a b     3/7 [001]    10.000001:  sched:sched_waking: comm=an app pid=41 prio=97 target_cpu=001",
                7,
                0,
            ),
            (
                "swapper     0 [001]    10.000001: sched:sched_waking: an app:41 [97] CPU:001",
                0,
                IN_HARD_INTERRUPT,
            ),
        ] {
            let line = Line::read(text).expect(text);
            assert_eq!((line.at.time, line.at.cpu), (10_000_001_000, 1), "{text}");
            assert_eq!(
                (line.by, line.interrupt(), line.event),
                (by, interrupt, "sched_waking"),
                "{text}"
            );
            let (task, _) = party(line.fields, "").expect(text);
            assert_eq!(
                (task.number, task.name.as_str(), task.priority),
                (41, "an app", 97),
                "{text}"
            );
        }
        assert!(Line::read("# tracer: nop").is_none());
    }

    #[test]
    fn states_have_the_values_of_the_trace_point() {
        for (letters, state) in [
            ("R", 0),
            ("R+", COULD_GO_ON),
            ("S", 1),
            ("D", 2),
            ("I", 0x80),
            ("X", 0x10),
            ("D|W", 2),
            ("D|K", 2),
            ("x", 0x10),
        ] {
            assert_eq!(state_of(letters), Some(state), "{letters}");
        }
        for letters in ["", "?", "0x402", "RR"] {
            assert_eq!(state_of(letters), None, "{letters}");
        }
    }
}
