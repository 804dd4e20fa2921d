//! How much of a workload is what was recorded, and how much was made up.

use std::fmt::{self, Display, Formatter};

/// How sure something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sure {
    /// It happened like this, and would under any scheduler.
    Exact,
    /// It happened, and why was inferred.
    Approximated,
    /// It happened, and that it would happen at the same time under another scheduler is an assumption.
    Assumed,
}

/// Counts of waits and nanoseconds of CPU time, by how sure they are. A run is as sure as the wait before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// CPU time: exact, approximated, assumed.
    pub cpu_time: [u64; 3],
    /// Waits: exact, approximated, assumed.
    pub waits: [u64; 3],
    /// Entries that found no room while this was recorded.
    pub lost: u64,
    /// Places where entries contradict each other.
    pub gaps: u64,
    /// Whether the recording does not tell system calls, yields and affinities.
    pub without_calls: bool,
    /// Tasks that go on beyond the end of the recording as they were.
    pub going_on: usize,
    /// Tasks of which the recording does not tell how they would have gone on: they end with it.
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

/// In one line, as results repeat it.
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
            write!(formatter, "; {} tasks go on as they were", self.going_on)?;
        }
        if self.cut_off > 0 {
            write!(formatter, "; {} tasks end with the recording", self.cut_off)?;
        }
        if self.without_calls {
            formatter.write_str(
                "; imported: without system calls, so mutexes, yields and arrivals are not told apart, and without CPUs that tasks may use",
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
