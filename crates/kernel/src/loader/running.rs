//! A scheduler in charge.

use std::time::{Duration, Instant};

use libbpf_rs::{Link, MapCore as _, MapFlags, MapType, Object};

use super::sections::holds_section;
use crate::exit::{ExitLayout, ExitReport};
use crate::setup::Repetition;
use crate::statistics::{self, Counters, STATISTICS_MAP};
use crate::{Error, host};

/// A scheduler that is in charge of this machine until it is stopped, dropped, or ejected by the kernel.
#[derive(Debug)]
pub struct Running {
    pub(super) name: String,
    /// The programs that its loader runs at an interval; ends before the links do.
    pub(super) repetition: Option<Repetition>,
    /// The scheduler's own link first, then those of its other programs.
    pub(super) links: Vec<Link>,
    pub(super) object: Object,
    pub(super) exit: Option<ExitLayout>,
    pub(super) statistics: Vec<String>,
    pub(super) warnings: Vec<String>,
    /// The kernel's count of enabled schedulers when this one was enabled.
    pub(super) sequence: Option<u64>,
    pub(super) started: Instant,
}

impl Running {
    /// Parts that had to be left out on this kernel.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Whether the kernel still runs it.
    pub fn is_in_charge(&self) -> bool {
        host::loaded_scheduler().is_some() && host::enable_sequence() == self.sequence
    }

    /// Why a program that its loader runs at an interval has stopped; the loader would give up.
    pub fn loader_failure(&self) -> Option<Error> {
        let reason = self.repetition.as_ref()?.failure()?;
        Some(Error::Setup { name: self.name.clone(), reason })
    }

    /// Why it ended; `None` while it has not, or if it keeps no record.
    pub fn exit_report(&self) -> Option<ExitReport> {
        let report = self.exit.as_ref()?.read(|section| {
            let map = self
                .object
                .maps()
                .find(|map| holds_section(&map.name().to_string_lossy(), section))?;
            map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).ok()?
        })?;
        (report.kind != 0).then_some(report)
    }

    /// The scheduler's counters and the kernel's.
    pub fn counters(&self) -> Counters {
        let mut counts = self.own_counters();
        counts.extend(host::kernel_events());
        Counters { age: self.started.elapsed(), counts }
    }

    fn own_counters(&self) -> Vec<(String, u64)> {
        let Some(map) = self
            .object
            .maps()
            .find(|map| map.name() == STATISTICS_MAP && map.map_type() == MapType::PercpuArray)
        else {
            return Vec::new();
        };
        (0..map.max_entries())
            .filter_map(|index| {
                let per_cpu = map.lookup_percpu(&index.to_ne_bytes(), MapFlags::ANY).ok()??;
                let name = self
                    .statistics
                    .get(index as usize)
                    .cloned()
                    .unwrap_or_else(|| format!("{STATISTICS_MAP}[{index}]"));
                Some((name, statistics::sum(&per_cpu)))
            })
            .collect()
    }

    /// Removes the scheduler; returns its exit report and whether the kernel has released it.
    #[must_use]
    pub fn stop(mut self) -> Stopped {
        self.repetition = None;
        self.links.clear();
        // Closing the last link may complete after the call returns.
        let deadline = Instant::now() + Duration::from_secs(10);
        while self.is_in_charge() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        Stopped { is_gone: !self.is_in_charge(), report: self.exit_report() }
    }
}

/// A scheduler that was removed.
#[derive(Debug)]
pub struct Stopped {
    /// Whether the kernel has been seen without it.
    pub is_gone: bool,
    /// Its exit report, if it keeps a record.
    pub report: Option<ExitReport>,
}
