//! What there is besides the threads of a run: the process that creates them, and everybody else.
//!
//! What a thread inherits, and who else calls the scheduler, is part of what many schedulers decide by. A simulation that is held
//! against the run has to know it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use nix::sys::resource::{UsageWho, getrusage};
use nix::unistd::{SysconfVar, sysconf};
use serde::Serialize;

use crate::clock;

/// What the process had done when it created the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Creator {
    /// How long it had lived.
    pub age_ns: u64,
    /// CPU time that its first thread had used of this.
    pub cpu_time_ns: u64,
    /// Times it had waited.
    pub waits: u64,
    /// CPU time that a thread of the run used before it waited for the common start, on average.
    pub preparation_ns: u64,
}

impl Creator {
    /// What the calling thread, the first of its process, has done so far. [`Creator::preparation_ns`] is not known yet.
    pub fn so_far() -> Self {
        let cpu_time_ns = clock::thread_cpu_time();
        let waits = getrusage(UsageWho::RUSAGE_THREAD)
            .map(|usage| usage.voluntary_context_switches())
            .unwrap_or(0);
        Self {
            age_ns: age().unwrap_or(0).max(cpu_time_ns),
            cpu_time_ns,
            waits: u64::try_from(waits).unwrap_or(0),
            preparation_ns: 0,
        }
    }
}

/// What the threads of the machine that are not part of the run did meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Others {
    /// How often one of them got a CPU.
    pub turns: u64,
    /// CPU time that they used.
    pub cpu_time_ns: u64,
}

/// What each thread has got so far.
#[derive(Clone, Debug, Default)]
pub struct Account(BTreeMap<u32, Others>);

impl Account {
    /// Reads the kernel's accounts of all threads but these.
    pub fn read(left_out: &BTreeSet<u32>) -> Self {
        let mut account = Self::default();
        for process in numbers(Path::new("/proc")) {
            let threads = format!("/proc/{process}/task");
            for thread in numbers(Path::new(&threads)) {
                let path = format!("{threads}/{thread}/schedstat");
                // A thread may end while this goes on.
                let text = fs::read_to_string(path).unwrap_or_default();
                if let (false, Some(got)) = (left_out.contains(&thread), parse(&text)) {
                    account.0.insert(thread, got);
                }
            }
        }
        account
    }

    /// What happened since an earlier account.
    pub fn since(&self, earlier: &Self) -> Others {
        let mut sum = Others::default();
        for (thread, now) in &self.0 {
            let then = earlier.0.get(thread).copied().unwrap_or_default();
            sum.turns += now.turns.saturating_sub(then.turns);
            sum.cpu_time_ns += now.cpu_time_ns.saturating_sub(then.cpu_time_ns);
        }
        sum
    }
}

/// The fields of a `schedstat` file: CPU time, time waited for a CPU, turns on a CPU.
fn parse(text: &str) -> Option<Others> {
    let mut fields = text.split_ascii_whitespace().map(str::parse);
    let cpu_time_ns = fields.next()?.ok()?;
    let turns = fields.nth(1)?.ok()?;
    Some(Others { turns, cpu_time_ns })
}

/// Entries of a folder whose names are numbers.
fn numbers(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// How long this process has lived, to the kernel's hundredth of a second.
fn age() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    // proc_pid_stat(5): starttime is field 22, and the text goes on with field 3.
    let start: u64 = fields.split_ascii_whitespace().nth(19)?.parse().ok()?;
    let second = u64::try_from(sysconf(SysconfVar::CLK_TCK).ok()??).ok()?;
    Some(clock::since_boot().saturating_sub(start * (1_000_000_000 / second.max(1))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_older_than_what_it_used() {
        let creator = Creator::so_far();
        assert!(creator.age_ns >= creator.cpu_time_ns);
        let hour = 3_600_000_000_000;
        assert!(creator.age_ns < hour, "{creator:?}");
    }

    #[test]
    fn accounts_count_what_others_did() {
        assert_eq!(
            parse("1500 20 3\n"),
            Some(Others {
                turns: 3,
                cpu_time_ns: 1500
            })
        );
        assert_eq!(parse(""), None);
        let (before, after) = (
            Account(BTreeMap::from([(1, parse("100 0 2").expect("an account"))])),
            Account(BTreeMap::from([
                (1, parse("150 0 3").expect("an account")),
                (2, parse("7 0 1").expect("an account")),
            ])),
        );
        let expected = Others {
            turns: 2,
            cpu_time_ns: 57,
        };
        assert_eq!(after.since(&before), expected);
    }

    #[test]
    fn threads_of_the_run_are_left_out() {
        let own = u32::try_from(nix::unistd::gettid().as_raw()).expect("a number");
        assert!(Account::read(&BTreeSet::new()).0.contains_key(&own));
        assert!(!Account::read(&BTreeSet::from([own])).0.contains_key(&own));
    }
}
