//! A scheduler together with its loader's actions, for any kernel.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use fairground_bpf::Object;
use fairground_catalog::Build;
use fairground_companion::{Companion, Prepared, Setting};
use fairground_machine::Online;

use crate::error::Error;

/// A scheduler with its loader's actions, and with the user's settings.
#[derive(Clone)]
pub struct Accompanied {
    entry: Arc<fairground_catalog::Scheduler>,
    companion: Companion,
    values: Vec<(String, i128)>,
    /// Settings other than tunables.
    settings: Vec<Setting>,
    /// All settings, as the user writes them.
    tunables: BTreeMap<String, String>,
}

impl Accompanied {
    /// Opens the scheduler with this id, or the user's own at this path, with the companion found for it.
    pub fn open(reference: &str, build: &Build) -> Result<Self, Error> {
        let mut companion = Ok(Companion::empty());
        // Nothing in the sources asks for programs that only the loader calls.
        let wanted = |file: &Path, object: &Object| {
            companion = Companion::find(file, object);
            let is_there = |name: &&str| object.programs().iter().any(|one| one.name == *name);
            let programs = companion.iter().flat_map(Companion::programs);
            programs.filter(|name| !is_there(name)).map(str::to_owned).collect()
        };
        let entry = fairground_catalog::open_with(reference, build, wanted)?;
        let companion = match fairground_catalog::find(entry.id()) {
            // A copy of a scheduler of the catalogue.
            Ok(_) => Companion::empty(),
            Err(_) => companion?,
        };
        Ok(Self {
            entry: Arc::new(entry),
            companion,
            values: Vec::new(),
            settings: Vec::new(),
            tunables: BTreeMap::new(),
        })
    }

    /// The scheduler's object, with the programs that its loader selects.
    pub fn object(&self) -> Result<Arc<Object>, Error> {
        let mut object = self.entry.parse()?;
        if !self.companion.chooses_as(&Companion::empty()) {
            self.companion.choose_programs(Arc::make_mut(&mut object));
        }
        Ok(object)
    }

    /// The scheduler itself.
    pub fn entry(&self) -> &fairground_catalog::Scheduler {
        &self.entry
    }

    /// Takes `companion` for the scheduler's loader.
    pub fn set_companion(&mut self, companion: Companion) {
        self.companion = companion;
    }

    /// The companion that describes its loader.
    pub fn companion(&self) -> &Companion {
        &self.companion
    }

    /// The actions of its loader with `object`, the scheduler's object, while these CPUs are `online`. `constants` knows the kernel's constants by name.
    pub fn prepare(
        &self,
        object: &Object,
        constants: &dyn Fn(&str) -> Option<u64>,
        online: &Online,
    ) -> Result<Prepared, Error> {
        let settings = &self.settings;
        Ok(self.companion.prepare(object, constants, online, settings)?)
    }

    /// The tunables that were set.
    pub fn values(&self) -> impl Iterator<Item = (&str, i128)> {
        self.values.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// The bytes of the tunables that were set.
    pub fn variables(&self) -> Vec<(String, Vec<u8>)> {
        let values = self.values().filter_map(|(name, value)| {
            let tunable = self.entry.tunable(name).ok()?;
            Some((name.to_owned(), tunable.encode(value)))
        });
        values.collect()
    }

    /// All settings, as the user writes them.
    pub fn tunables(&self) -> &BTreeMap<String, String> {
        &self.tunables
    }

    /// Whether a setting that is no tunable can mean something: in a scheduler of the catalogue global variables are its own.
    fn may_set(&self, object: &Object, key: &str) -> bool {
        let is_ours = self.entry.object.is_built_in();
        let is_variable = !key.starts_with("ops.") && !key.starts_with("map.");
        fairground_companion::names(object, key) && !(is_ours && is_variable)
    }

    /// Sets the thing of this name that the scheduler or its loader has: a tunable, to a value as a user writes it; otherwise an option of the
    /// companion, `ops.MEMBER`, `map.NAME.max_entries` or a global variable with a path into it, to an expression. The last of several values
    /// counts. `object` is the scheduler's object; `place` says where the value comes from, for errors.
    pub fn set(
        &mut self,
        object: &Object,
        key: &str,
        text: &str,
        place: String,
    ) -> Result<(), Error> {
        let is_option = self.companion.has_option(key);
        let unknown = match self.entry.tunable(key) {
            Ok(tunable) if !is_option => {
                let value = tunable.parse_value(text)?;
                self.values.retain(|(name, _)| *name != tunable.name);
                self.values.push((tunable.name.clone(), value));
                self.tunables.insert(tunable.name.clone(), tunable.format_value(value));
                return Ok(());
            }
            Ok(_) => None,
            Err(error) => Some(error),
        };
        if let Some(error) = unknown {
            if !is_option && !self.may_set(object, key) {
                return Err(error.into());
            }
            if !is_option && has_time_unit(text) {
                return Err(Error::Plan(format!(
                    "{key} is no tunable (no const volatile number), so {text} cannot be converted; write a plain number or an expression"
                )));
            }
        }
        self.settings.retain(|setting| setting.key != key);
        self.settings.push(Setting { key: key.to_owned(), value: text.to_owned(), place });
        self.tunables.insert(key.to_owned(), text.to_owned());
        Ok(())
    }
}

/// Whether a value is a number with a unit of time.
fn has_time_unit(text: &str) -> bool {
    let digits = text.trim_start_matches(|one: char| one.is_ascii_digit() || one == '.');
    digits.len() < text.len() && ["ns", "us", "ms", "s"].contains(&digits.trim())
}
