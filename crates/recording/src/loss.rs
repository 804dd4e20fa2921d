//! How much of a workload was recorded, and how much was made up.

use std::fmt::{self, Display, Formatter};

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
    /// Places where entries contradict each other.
    pub gaps: u64,
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

    /// The share of each, in percent.
    fn percent(parts: [u64; 3]) -> [f64; 3] {
        let sum = parts.iter().sum::<u64>().max(1);
        parts.map(|part| 100.0 * part as f64 / sum as f64)
    }
}

/// One line, which results repeat.
impl Display for Loss {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let [exact, approximated, assumed] = Self::percent(self.cpu_time);
        let [exact_waits, approximated_waits, assumed_waits] = Self::percent(self.waits);
        write!(
            formatter,
            "of {:.3} s CPU time and {} waits, {exact:.0} % and {exact_waits:.0} % are exact, {approximated:.0} % and \
             {approximated_waits:.0} % approximated, {assumed:.0} % and {assumed_waits:.0} % assumed",
            self.cpu_time.iter().sum::<u64>() as f64 / 1e9,
            self.waits.iter().sum::<u64>(),
        )?;
        if self.going_on > 0 {
            write!(formatter, "; {} tasks continue as they were", self.going_on)?;
        }
        if self.cut_off > 0 {
            write!(formatter, "; {} tasks end with the recording", self.cut_off)?;
        }
        if self.without_calls {
            formatter.write_str(
                "; imported: without system calls, which would tell mutexes, yields and arrivals apart, and without CPU affinity",
            )?;
        }
        if self.lost > 0 {
            write!(formatter, "; {} entries were LOST", self.lost)?;
        }
        if self.gaps > 0 {
            write!(formatter, "; {} gaps", self.gaps)?;
        }
        Ok(())
    }
}
