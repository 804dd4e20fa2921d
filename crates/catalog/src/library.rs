//! Sources that become part of a scheduler because its other sources need them, as if from a library.

use std::path::{Path, PathBuf};

use fairground_bpf::Symbols;

use crate::error::Error;
use crate::user::{Build, CompiledSource, compile_source, home_of_scx};

/// A source and the result of compiling it.
pub(crate) struct Part {
    pub source: PathBuf,
    pub compiled: CompiledSource,
    symbols: Symbols,
}

impl Part {
    /// Compiles a source.
    pub fn new(source: &Path, build: &Build) -> Result<Self, Error> {
        let compiled = compile_source(source, build)?;
        let symbols = Symbols::of(&compiled.object).map_err(|error| Error::Object {
            path: source.to_owned(),
            message: error.to_string(),
        })?;
        Ok(Self {
            source: source.to_owned(),
            compiled,
            symbols,
        })
    }
}

/// Adds the sources that define what the others only use or what [`Build::wanted`] names, from the folder of the first one and, in a copy of
/// scx's repository, from its `lib`. What none of them defines is left to the loader of the object.
pub(crate) fn add_needed(parts: &mut Vec<Part>, build: &Build) {
    if missing(parts, &build.wanted).is_empty() {
        return;
    }
    let mut candidates = match parts.first() {
        Some(first) => candidates(&first.source, build),
        None => return,
    };
    candidates.retain(|one| {
        !parts
            .iter()
            .any(|part| same_file(&part.source, &one.source))
    });
    loop {
        let names = missing(parts, &build.wanted);
        let mut found = names
            .iter()
            .map(|name| provider(name, &mut candidates, build));
        match found.find_map(|part| part) {
            Some(part) => parts.push(part),
            None => return,
        }
    }
}

/// What the parts use, or others want, but none of the parts defines.
fn missing(parts: &[Part], wanted: &[String]) -> Vec<String> {
    let used = parts.iter().flat_map(|part| &part.symbols.missing);
    let used = used.chain(wanted);
    let is_defined = |name: &str| parts.iter().any(|part| part.symbols.defined.contains(name));
    used.filter(|name| !is_defined(name)).cloned().collect()
}

struct Candidate {
    source: PathBuf,
    text: String,
    /// Set once it was compiled: none if it does not compile.
    part: Option<Option<Part>>,
}

/// Takes the candidate that defines `name` out of the list. Only sources whose text contains the name are compiled.
fn provider(name: &str, candidates: &mut Vec<Candidate>, build: &Build) -> Option<Part> {
    let found = candidates.iter_mut().position(|one| {
        one.text.contains(name)
            && one
                .part
                .get_or_insert_with(|| Part::new(&one.source, build).ok())
                .as_ref()
                .is_some_and(|part| part.symbols.defined.contains(name))
    })?;
    candidates.swap_remove(found).part?
}

/// All sources that may be parts; a source with a table of callbacks is a scheduler of its own.
fn candidates(first: &Path, build: &Build) -> Vec<Candidate> {
    let beside = first.parent().map(Path::to_owned);
    let library = home_of_scx(first, &build.include).map(|home| home.with_file_name("lib"));
    let mut candidates = Vec::new();
    for folder in beside.into_iter().chain(library) {
        let folder = match folder.as_os_str().is_empty() {
            true => PathBuf::from("."),
            false => folder,
        };
        for source in crate::sources_of_folder(&folder).unwrap_or_default() {
            let text = std::fs::read_to_string(&source).unwrap_or_default();
            let is_scheduler = ["SCX_OPS_DEFINE", "DEFINE_SCHEDULER", ".struct_ops"]
                .iter()
                .any(|mark| text.contains(mark));
            if !is_scheduler {
                candidates.push(Candidate {
                    source,
                    text,
                    part: None,
                });
            }
        }
    }
    candidates
}

fn same_file(one: &Path, other: &Path) -> bool {
    match (std::fs::canonicalize(one), std::fs::canonicalize(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}
