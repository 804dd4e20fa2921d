//! Whether the two worlds agree in a figure. The tolerances were fixed before the runs that they judge; beside each error stands how far the
//! kernel's own recordings are apart.

/// Tolerance for the CPU time of a task, as a fraction of the run's length, on one CPU.
pub const CPU_TIME_ONE_CPU: f64 = 0.02;
/// The same on several CPUs, where the kernel's figures depend on the load of its host.
pub const CPU_TIME_SEVERAL_CPUS: f64 = 0.10;
/// The same for all tasks of a control group together, on one CPU.
pub const CPU_TIME_OF_GROUP: f64 = 0.01;
/// Tolerance for the number of periods of a quota, and of those in which the group was throttled, as a fraction of the kernel's.
pub const PERIODS: f64 = 0.10;
/// Tolerance for the 99th percentile of the wakeup latency, as a fraction of the kernel's.
pub const LATENCY: f64 = 0.10;
/// How large a part of the percentiles that can be judged has to agree.
pub const LATENCIES_THAT_AGREE: f64 = 0.75;

/// The verdict on a figure of both worlds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The worlds are within the tolerance.
    Agree,
    /// They are not, and the kernel's spread does not explain it.
    Disagree,
    /// They are not, but neither are the kernel's recordings among themselves, and the simulator is where these are.
    Inconclusive,
    /// The figure is no measurement: too few samples, or a host that did not let the emulated CPUs run.
    Void,
}

impl Verdict {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Self; 4] = [Self::Agree, Self::Disagree, Self::Inconclusive, Self::Void];

    /// A word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Agree => "agree",
            Self::Disagree => "disagree",
            Self::Inconclusive => "inconclusive",
            Self::Void => "void",
        }
    }

    /// How often each occurs, in the order of [`Verdict::ALL`].
    pub fn count(verdicts: impl Iterator<Item = Self>) -> [usize; 4] {
        let mut counts = [0; 4];
        for verdict in verdicts {
            counts[verdict as usize] += 1;
        }
        counts
    }
}

/// A figure from the kernel and from the simulator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Median of the recordings on the kernel.
    pub kernel: f64,
    /// The lowest and the highest of them.
    pub spread: [f64; 2],
    /// Median of the simulations.
    pub simulator: f64,
}

impl Figure {
    /// Simulator minus kernel.
    pub fn error(&self) -> f64 {
        self.simulator - self.kernel
    }

    /// Judges a figure that is a measurement, by a tolerance in its own unit.
    pub fn judge(&self, tolerance: f64) -> Verdict {
        let [lowest, highest] = self.spread;
        let is_where_the_kernel_is =
            self.simulator >= lowest - tolerance && self.simulator <= highest + tolerance;
        if self.error().abs() <= tolerance {
            Verdict::Agree
        } else if highest - lowest > tolerance && is_where_the_kernel_is {
            Verdict::Inconclusive
        } else {
            Verdict::Disagree
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_spread_excuses_what_lies_in_it_and_nothing_else() {
        let judge = |spread, simulator| {
            let figure = Figure { kernel: 10.0, spread, simulator };
            figure.judge(1.0)
        };
        assert_eq!(judge([10.0, 10.0], 11.0), Verdict::Agree);
        assert_eq!(judge([10.0, 10.0], 11.5), Verdict::Disagree);
        assert_eq!(judge([9.9, 10.8], 11.5), Verdict::Disagree);
        assert_eq!(judge([4.0, 12.0], 6.0), Verdict::Inconclusive);
        assert_eq!(judge([4.0, 12.0], 13.0), Verdict::Inconclusive);
        assert_eq!(judge([4.0, 12.0], 13.5), Verdict::Disagree);
        assert_eq!(judge([4.0, 12.0], 2.5), Verdict::Disagree);
    }
}
