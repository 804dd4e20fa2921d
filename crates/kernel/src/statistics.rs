//! Counters: the scheduler's own and the kernel's.

use std::fmt::Write as _;
use std::time::Duration;

/// Name of the per-CPU array in which a scheduler counts.
pub const STATISTICS_MAP: &str = "statistics";

/// All counters at one moment, in a fixed order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Time since the scheduler was enabled.
    pub age: Duration,
    /// Name and count: the scheduler's counters, then the kernel's.
    pub counts: Vec<(String, u64)>,
}

impl Counters {
    /// A table of the counters with their rates since `earlier`; the kernel's counters only if they are not 0.
    pub fn table(&self, earlier: &Self) -> String {
        let interval = self.age.saturating_sub(earlier.age).as_secs_f64();
        let before = |name: &str| {
            earlier.counts.iter().find(|(other, _)| other == name).map_or(0, |(_, count)| *count)
        };
        let shown = || self.counts.iter().filter(|(name, count)| *count != 0 || !is_kernel(name));
        let width = shown().map(|(name, _)| name.len()).max().unwrap_or(0).max(20);
        let mut table = format!(
            "{:<width$} {:>16} {:>16}\n",
            format!("after {:.1} s", self.age.as_secs_f64()),
            "total",
            "per second"
        );
        for (name, count) in shown() {
            #[expect(clippy::cast_precision_loss, reason = "a rate is shown in whole numbers")]
            let grown = count.saturating_sub(before(name)) as f64;
            let rate =
                if interval > 0.0 { format!("{:.0}", grown / interval) } else { "-".to_owned() };
            // Writing to a string cannot fail.
            let _ = writeln!(table, "{name:<width$} {count:>16} {rate:>16}");
        }
        table
    }
}

fn is_kernel(name: &str) -> bool {
    name.starts_with("SCX_EV_")
}

/// Sum over CPUs of one entry of a per-CPU array of 64-bit counters.
pub(crate) fn sum(per_cpu: &[Vec<u8>]) -> u64 {
    per_cpu
        .iter()
        .filter_map(|value| Some(u64::from_ne_bytes(value.get(..8)?.try_into().ok()?)))
        .fold(0, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_per_second_of_the_interval() {
        let at = |seconds, count| Counters {
            age: Duration::from_secs(seconds),
            counts: vec![("enqueued".to_owned(), count), ("SCX_EV_X".to_owned(), 0)],
        };
        let table = at(3, 700).table(&at(1, 100));
        let words: Vec<&str> = table.split_whitespace().collect();
        assert_eq!(
            words,
            ["after", "3.0", "s", "total", "per", "second", "enqueued", "700", "300"]
        );
    }

    #[test]
    fn cpus_are_summed() {
        assert_eq!(sum(&[5_u64.to_ne_bytes().to_vec(), 7_u64.to_ne_bytes().to_vec()]), 12);
        assert_eq!(sum(&[]), 0);
    }
}
