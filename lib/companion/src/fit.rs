//! Whether a companion that comes with fairground is for an object. Schedulers keep their names from release to release, and the actions of their loaders
//! change; the contents of an object show how many of these it knows.

use std::collections::BTreeSet;
use std::path::Path;

use fairground_bpf::Object;

use crate::encode::{find_variable, in_some_releases};
use crate::error::Error;
use crate::file::Companion;

/// How well a companion fits an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// The object has all that the companion sets, fills and runs, or the user has chosen the companion.
    Whole,
    /// It has most of that: it is of another revision.
    Partly,
    /// It has less than half of that: it is another scheduler.
    Not,
}

impl Companion {
    /// The companion of `object`, a user's own scheduler with source or object file `source`: the file beside it, or that of the companions
    /// that come with fairground which knows the most of the object's release. If there is none, one that sets nothing.
    pub fn find(source: &Path, object: &Object) -> Result<Self, Error> {
        let file = source.file_name().unwrap_or_default().to_string_lossy();
        let stem = [".bpf.c", ".bpf.o", ".c", ".o"]
            .iter()
            .find_map(|ending| file.strip_suffix(ending))
            .unwrap_or(&file);
        let beside = source.with_file_name(format!("{stem}.companion.toml"));
        if beside.is_file() {
            return Self::read(&beside);
        }
        let releases: Vec<Self> =
            Self::built_in(&object.scheduler_name()).collect::<Result<_, _>>()?;
        let best = releases.into_iter().rev().max_by_key(|one| one.score(object));
        Ok(best.unwrap_or_else(Self::empty))
    }

    /// How well it fits the object.
    pub(crate) fn fit(&self, object: &Object) -> Fit {
        if !self.built_in {
            return Fit::Whole;
        }
        let (all, lacking) = self.compared_with(object);
        match lacking.len() {
            0 => Fit::Whole,
            some if 2 * some <= all => Fit::Partly,
            _ => Fit::Not,
        }
    }

    /// Whether it does anything for the object: it may be for another one that only has the same name.
    pub fn is_for(&self, object: &Object) -> bool {
        !self.name.is_empty() && self.fit(object) != Fit::Not
    }

    /// Whether it was made for another revision of the object, and does only a part of its settings.
    pub fn is_for_another_revision_of(&self, object: &Object) -> bool {
        self.fit(object) == Fit::Partly
    }

    /// Applies the loader's choice of programs to `object`. Names that the object lacks are left to [`prepare`](Self::prepare).
    pub fn choose_programs(&self, object: &mut Object) {
        if self.fit(object) == Fit::Not {
            return;
        }
        for (program, load) in &self.file.load {
            object.set_autoload(program.get_ref(), *load);
        }
    }

    /// How much of the object's release it knows: the number of things that it names and the object has, less of those that the object lacks.
    pub(crate) fn score(&self, object: &Object) -> isize {
        let (all, lacking) = self.compared_with(object);
        all as isize - 2 * lacking.len() as isize
    }

    /// Why it is not for the object at all, as a note; `None` if it is.
    pub(crate) fn misfit(&self, object: &Object) -> Option<String> {
        if self.fit(object) != Fit::Not {
            return None;
        }
        let (all, lacking) = self.compared_with(object);
        let some: Vec<&str> = lacking.iter().map(String::as_str).take(4).collect();
        let more = if lacking.len() > some.len() { ", …" } else { "" };
        Some(format!(
            "{} was left out, because it is for {}, and this source lacks {} of the {all} things that it sets, fills or runs: {}{more}; \
             a companion file of its own says what its loader does",
            self.name,
            self.file.from,
            lacking.len(),
            some.join(", "),
        ))
    }

    /// How many global variables, maps and programs it names, and those that the object lacks.
    fn compared_with(&self, object: &Object) -> (usize, BTreeSet<String>) {
        let file = &self.file;
        let globals = file.global.keys().map(|key| key.get_ref().as_str());
        let entries = file.entry.iter().map(|entry| entry.map.get_ref().as_str());
        let maps = file.map.keys().map(String::as_str).chain(entries);
        let chosen = file.load.keys().map(|key| key.get_ref().as_str());
        let has_map = |name: &str| object.maps().iter().any(|one| one.name == name);
        let has_program = |name: &str| object.programs().iter().any(|one| one.name == name);
        let has_global = |path: &str| find_variable(object, path).is_some();
        let named = globals
            .filter_map(|path| match in_some_releases(path) {
                Some(path) => has_global(path).then_some((path, true)),
                None => Some((path, has_global(path))),
            })
            .chain(maps.map(|name| (name, has_map(name))))
            .chain(self.programs().chain(chosen).map(|name| (name, has_program(name))));
        let named: BTreeSet<(&str, bool)> = named.collect();
        let lacking = named.iter().filter(|(_, is_there)| !is_there);
        let lacking = lacking.map(|(name, _)| (*name).to_owned()).collect();
        (named.len(), lacking)
    }
}
