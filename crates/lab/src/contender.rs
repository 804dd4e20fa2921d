//! A scheduler that takes part in an experiment.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;

use fairground_simulator::Scheduler;

use crate::error::Error;
use crate::parallel;

/// A scheduler, compiled for the simulator, with the tunables that were set.
#[derive(Clone)]
pub struct Contender {
    name: String,
    entry: fairground_catalog::Scheduler,
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) variables: Vec<(String, Vec<u8>)>,
    pub(crate) tunables: BTreeMap<String, String>,
}

impl Contender {
    /// The scheduler with this id, or the user's own at this path, with its tunables at their defaults.
    ///
    /// # Errors
    ///
    /// If there is no such scheduler, if it does not compile, or if the simulated kernel would refuse it.
    pub fn open(reference: &str, include_directories: &[PathBuf]) -> Result<Self, Error> {
        let entry = fairground_catalog::open(reference, include_directories)?;
        let scheduler = Scheduler::load(&entry.object).map_err(|reason| Error::Load {
            scheduler: reference.to_owned(),
            reason,
        })?;
        Ok(Self {
            name: reference.to_owned(),
            entry,
            scheduler: Arc::new(scheduler),
            variables: Vec::new(),
            tunables: BTreeMap::new(),
        })
    }

    /// The same for several at once, in their order; `threads` as in [`Plan::threads`](crate::Plan::threads).
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open), of the first one that has any.
    pub fn open_all(
        references: &[String],
        include_directories: &[PathBuf],
        threads: Option<NonZero<usize>>,
    ) -> Result<Vec<Self>, Error> {
        let order: Vec<usize> = (0..references.len()).collect();
        let opened = parallel::map(&order, threads, |index| {
            Self::open(&references[index], include_directories)
        });
        opened.into_iter().collect()
    }

    /// The id, or the path as it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Ticks a second that it was made for: its tunable `hz`, as set or by default. `None` if it has none, or 0 there, which is any rate.
    pub fn native_hz(&self) -> Option<u64> {
        let tunable = self.entry.tunable("hz").ok()?;
        let set = self.tunables.get(&tunable.name);
        let value = match set {
            Some(text) => tunable.parse_value(text).ok()?,
            None => tunable.default,
        };
        u64::try_from(value).ok().filter(|rate| *rate > 0)
    }

    /// The scheduler's counters by the names that its manifest gives them.
    pub(crate) fn name_counters(&self, values: &[u64]) -> BTreeMap<String, u64> {
        let names = self.entry.manifest.statistics.iter();
        names
            .zip(values)
            .map(|(statistic, value)| (statistic.name.clone(), *value))
            .collect()
    }

    /// What the compiler warned about; empty for a built-in scheduler.
    pub fn warnings(&self) -> &str {
        self.entry.warnings.trim_end()
    }

    /// Whether `name` means this scheduler: its id, its name in the kernel, or its path.
    pub fn is_called(&self, name: &str) -> bool {
        name == self.name || name == self.entry.id() || name == self.scheduler.name()
    }

    /// Sets a tunable to a value as people write it. Setting one twice leaves the last value.
    ///
    /// # Errors
    ///
    /// If there is no such tunable, or the value does not fit; the error says what does.
    pub fn set(&mut self, tunable: &str, text: &str) -> Result<(), Error> {
        let tunable = self.entry.tunable(tunable)?;
        let value = tunable.parse_value(text)?;
        self.variables.retain(|(name, _)| *name != tunable.name);
        self.variables
            .push((tunable.name.clone(), tunable.encode(value)));
        self.tunables
            .insert(tunable.name.clone(), tunable.format_value(value));
        Ok(())
    }
}
