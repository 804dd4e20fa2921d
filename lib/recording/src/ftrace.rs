//! Imports the text of ftrace: `trace` and `trace_pipe` of tracefs, `trace-cmd report` and `perf script`. They are what Android, LISA and scxtop have.
//!
//! All have a line for each event: the task, its number, the CPU in brackets, the time in seconds, and the event with its fields. `trace-cmd` and
//! older versions of perf print the fields of some events in a form of their own.

use std::path::Path;

use crate::error::Error;
use crate::file::{Header, Roots};
use crate::import::{
    At, COULD_GO_ON, IN_HARD_INTERRUPT, IN_SOFT_INTERRUPT, Import, Imported, Party, write,
};
use crate::record::EntryKind;

/// The letters of states in the trace point, from the state of value 1 on (`include/trace/events/sched.h`).
const STATES: &str = "SDTtXZPI";

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
    let lines = || text.lines().filter_map(Line::read);
    let header = Header {
        cpus: lines().map(|line| u32::from(line.at.cpu) + 1).max().unwrap_or(0),
        roots: chosen.map_or(Roots::All, |process| Roots::Tasks(vec![process])),
        source: "text of ftrace".to_owned(),
        without_calls: true,
        ..Header::default()
    };
    let mut rest = text.lines();
    write(to, header, &wrong, |import| {
        let Some(line) = rest.next() else { return Ok(false) };
        if let Some((_, lost)) = line.split_once("[LOST ") {
            let lost = lost.split(' ').next().and_then(|lost| lost.parse::<u64>().ok());
            import.lost += lost.unwrap_or(0);
        }
        if let Some(line) = Line::read(line) {
            line.take(waking, import);
        }
        Ok(true)
    })
}

/// A line about an event.
struct Line<'a> {
    at: At,
    /// The task in whose context it happened, 0 for the idle task.
    by: u32,
    /// The process of that task, if the line tells it.
    process: Option<u32>,
    /// The interrupt in which it happened, as flags of the trace point.
    interrupt: i64,
    event: &'a str,
    fields: &'a str,
}

impl<'a> Line<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let (head, rest) = line.split_once(": ")?;
        let (event, fields) =
            rest.split_once(": ").or(rest.trim_end().strip_suffix(':').map(|event| (event, "")))?;
        let event = event.trim().trim_start_matches("sched:");
        let (context, place) = head.rsplit_once('[')?;
        let (cpu, place) = place.split_once(']')?;
        let (flags, seconds) = place.trim().rsplit_once(' ').unwrap_or(("", place.trim()));
        let mut context = context.trim_end();
        let mut process = None;
        if let Some((before, group)) =
            context.strip_suffix(')').and_then(|one| one.rsplit_once('('))
        {
            context = before.trim_end();
            process = group.trim().parse().ok();
        }
        let number = context.rsplit(['-', ' ', '/']).next()?;
        let by = number.parse().ok()?;
        let interrupt = match flags {
            // perf script does not tell. What wakes a task while the CPU idles is an interrupt.
            "" if by == 0 => IN_HARD_INTERRUPT,
            _ if flags.contains(['h', 'H', 'z', 'Z']) => IN_HARD_INTERRUPT,
            _ if flags.contains('s') => IN_SOFT_INTERRUPT,
            _ => 0,
        };
        let at = At { time: nanoseconds(seconds)?, cpu: cpu.trim().parse().ok()? };
        Some(Self { at, by, process, interrupt, event, fields: fields.trim() })
    }

    /// Adds the event to an import; one that it does not need is passed over.
    fn take(&self, waking: &str, import: &mut Import) -> Option<()> {
        if let Some(process) = self.process.filter(|_| self.by > 0) {
            import.known(self.by).description.process = process;
        }
        match self.event {
            "sched_switch" => {
                let (from, to) = self.fields.split_once(" ==> ")?;
                let (previous, state) = party(from, "prev_")?;
                let (next, _) = party(to, "next_")?;
                import.switched(self.at, previous, next, state_of(state));
            }
            "sched_wakeup_new" => {
                let (task, _) = party(self.fields, "")?;
                import.push(self.at, EntryKind::Born { task: task.number, by: self.by });
                import.tell(self.at, task.number);
            }
            "sched_process_fork" => {
                let child = value(self.fields, "child_pid=")?.parse().ok()?;
                let parent = value(self.fields, " pid=")?.parse().ok()?;
                import.forked(child, child, parent, parent);
            }
            event if event == waking => {
                let (task, _) = party(self.fields, "")?;
                let context = import.context(task.number, self.interrupt);
                import.push(self.at, EntryKind::Waking { task: task.number, by: self.by, context });
            }
            _ => {}
        }
        Some(())
    }
}

/// Seconds with a fraction, in nanoseconds.
fn nanoseconds(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once(['.', ','])?;
    let digits = fraction.len().min(9);
    let fraction: u64 = fraction[..digits].parse().ok()?;
    let seconds: u64 = seconds.parse().ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(fraction * 10_u64.pow(9 - digits as u32))
}

/// A task of an event, in either form, with the text behind it that may tell its state.
fn party<'a>(text: &'a str, prefix: &str) -> Option<(Party, &'a str)> {
    if let Some(rest) = text.strip_prefix(&format!("{prefix}comm=")) {
        let (name, rest) = rest.split_once(&format!(" {prefix}pid="))?;
        let number = rest.split(' ').next()?.parse().ok()?;
        let priority = value(rest, &format!("{prefix}prio="))?.parse().ok()?;
        let state = value(rest, "prev_state=").unwrap_or_default();
        return Some((Party { number, name: name.to_owned(), priority }, state));
    }
    let (named, rest) = text.split_once(" [")?;
    let (name, number) = named.rsplit_once(':')?;
    let (priority, rest) = rest.split_once(']')?;
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

/// The state in the trace point that stands for these letters.
fn state_of(letters: &str) -> u32 {
    let states =
        letters.split('|').filter_map(|one| STATES.find(one.trim_end_matches('+').chars().next()?));
    let state = states.fold(0, |state, place| state | 1 << place);
    state | if letters.ends_with('+') { COULD_GO_ON } else { 0 }
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
                (line.by, line.interrupt, line.event),
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
        ] {
            assert_eq!(state_of(letters), state, "{letters}");
        }
    }
}
