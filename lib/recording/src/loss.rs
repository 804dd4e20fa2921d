//! How much of a workload was recorded, and how much was made up.

use std::fmt::{self, Display, Formatter};

use crate::lives::Gaps;

/// How certain something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sure {
    /// It happened like this, and would under any scheduler.
    Exact,
    /// It happened; its cause was inferred.
    Approximated,
    /// It happened; that it would happen at the same time under another scheduler is assumed.
    Assumed,
}

/// Counts of waits and nanoseconds of CPU time, by certainty. A run is as certain as the wait before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// CPU time: exact, approximated, assumed.
    pub cpu_time: [u64; 3],
    /// Waits: exact, approximated, assumed.
    pub waits: [u64; 3],
    /// Entries lost during the recording for lack of room.
    pub lost: u64,
    /// Where something is missing.
    pub gaps: Gaps,
    /// Whether the recording lacks system calls, yields and affinity.
    pub without_calls: bool,
    /// Tasks that continue as before after the end of the recording.
    pub going_on: usize,
    /// Tasks that end with the recording, because it does not show how they would have continued.
    pub cut_off: usize,
}

impl Loss {
    /// Counts a wait.
    pub(crate) fn wait(&mut self, sure: Sure) {
        self.waits[sure as usize] += 1;
    }

    /// Counts a run.
    pub(crate) fn run(&mut self, sure: Sure, time: u64) {
        self.cpu_time[sure as usize] += time;
    }

    /// The share of each, in words; those that round to nothing are left out.
    fn shares(parts: [u64; 3]) -> String {
        let sum = parts.iter().sum::<u64>().max(1);
        let shares = parts.into_iter().zip(["exact", "approximated", "assumed"]);
        let shares: Vec<String> = shares
            .map(|(part, sure)| (100.0 * part as f64 / sum as f64, sure))
            .filter(|(percent, _)| *percent >= 0.5)
            .map(|(percent, sure)| format!("{percent:.0} % {sure}"))
            .collect();
        match shares.as_slice() {
            [] => String::new(),
            [..] => format!(" ({})", shares.join(", ")),
        }
    }
}

/// A number of things, with their name in the singular or the plural.
pub fn counted(count: u64, one: &str, several: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        _ => format!("{count} {several}"),
    }
}

impl Loss {
    /// Whether there are few enough gaps, and little enough time of which nothing is known, to rely on the recording.
    pub fn is_reliable(&self) -> bool {
        let known: u64 = self.cpu_time.iter().sum();
        !self.gaps.are_many() && self.gaps.unknown as f64 <= Gaps::MOST * known as f64
    }
}

/// One line, which results repeat.
impl Display for Loss {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{:.3} s of CPU time{}, {}{}",
            self.cpu_time.iter().sum::<u64>() as f64 / 1e9,
            Self::shares(self.cpu_time),
            counted(self.waits.iter().sum(), "wait", "waits"),
            Self::shares(self.waits),
        )?;
        match self.going_on {
            0 => {}
            1 => formatter.write_str("; 1 task continues as it was")?,
            several => write!(formatter, "; {several} tasks continue as they were")?,
        }
        match self.cut_off {
            0 => {}
            1 => formatter.write_str("; 1 task ends with the recording")?,
            several => write!(formatter, "; {several} tasks end with the recording")?,
        }
        if self.without_calls {
            formatter.write_str(
                "; imported: without system calls, which would tell mutexes, yields and arrivals apart, and without CPU affinity and control groups",
            )?;
        }
        if self.lost > 0 {
            let lost = counted(self.lost, "entry was LOST", "entries were LOST");
            write!(formatter, "; {lost}")?;
        }
        if self.gaps.are_notable() {
            write!(formatter, "; {}", self.gaps)?;
        }
        Ok(())
    }
}

/// The kinds of gaps, and how much they matter.
impl Display for Gaps {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} in {}, where an entry is missing",
            counted(self.count, "gap", "gaps"),
            counted(self.switches, "switch", "switches"),
        )?;
        if self.cpu_time > 0 {
            let seconds = self.cpu_time as f64 / 1e9;
            write!(
                formatter,
                ", so that it is not certain which task had {seconds:.3} s of CPU time"
            )?;
        }
        let unknown = self.unknown as f64 / 1e9;
        if unknown >= 0.001 {
            write!(
                formatter,
                "; the oldest entries were overwritten: it is not known who had {unknown:.3} s of \
                 CPU time before"
            )?;
        }
        if self.are_many() {
            let percent = 100.0 * self.share();
            write!(
                formatter,
                "; with gaps at {percent:.1} % of the switches, DO NOT RELY on this recording"
            )?;
        }
        Ok(())
    }
}
