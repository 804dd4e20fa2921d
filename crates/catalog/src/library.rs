//! Sources that become part of a scheduler because its other sources need them, as if from a library.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

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

/// Compiles sources, several at once; the result has their order.
pub(crate) fn compile_all(sources: &[PathBuf], build: &Build) -> Result<Vec<Part>, Error> {
    at_once(sources, |source| Part::new(source, build))
        .into_iter()
        .collect()
}

/// The results of `work` on each item, in their order; on as many threads as there are CPUs.
fn at_once<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            match items.get(place) {
                Some(item) => done.push((place, work(item))),
                None => return done,
            }
        }
    };
    let mut done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads.min(items.len()))
            .map(|_| scope.spawn(take))
            .collect();
        let mut done = take();
        for helper in helpers {
            match helper.join() {
                Ok(part) => done.extend(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_by_key(|one| one.0);
    done.into_iter().map(|one| one.1).collect()
}

/// Adds the sources that define names that the others only use or that are `wanted`, from the folder of the first one and, in a copy of scx's
/// repository, from its `lib`. Names that none of them defines are left to the loader of the object. Returns remarks on those that may define them
/// and do not compile.
pub(crate) fn add_needed(parts: &mut Vec<Part>, wanted: &[String], build: &Build) -> Vec<String> {
    if missing(parts, wanted).is_empty() {
        return Vec::new();
    }
    let mut candidates = match parts.first() {
        Some(first) => candidates(&first.source, build),
        None => return Vec::new(),
    };
    candidates.retain(|one| {
        !parts
            .iter()
            .any(|part| same_file(&part.source, &one.source))
    });
    loop {
        let names = missing(parts, wanted);
        compile_likely(&names, &mut candidates, build);
        let mut found = names
            .iter()
            .map(|name| provider(name, &mut candidates, build));
        match found.find_map(|part| part) {
            Some(part) => parts.push(part),
            None => return passed_over(&names, &candidates),
        }
    }
}

/// The sources whose text contains one of the names, which nothing else defines, and that do not compile.
fn passed_over(names: &[String], candidates: &[Candidate]) -> Vec<String> {
    let told = candidates.iter().filter_map(|one| {
        let Some(Err(problem)) = &one.part else {
            return None;
        };
        let names: Vec<&str> = names
            .iter()
            .filter(|name| one.text.contains(*name))
            .map(String::as_str)
            .collect();
        let first = problem.lines().find(|line| line.contains("error"));
        let first = first.or_else(|| problem.lines().next()).unwrap_or_default();
        (!names.is_empty()).then(|| {
            format!(
                "{}, which may define {}, is left out because it does not compile: {first}\n",
                one.source.display(),
                names.join(", ")
            )
        })
    });
    told.collect()
}

/// Compiles, at once, the sources that are looked at first for these names.
fn compile_likely(names: &[String], candidates: &mut [Candidate], build: &Build) {
    let mut likely = BTreeSet::new();
    for name in names {
        let mut containing = candidates.iter().enumerate();
        let first = containing.find(|(_, one)| one.may_define(name));
        likely.extend(
            first
                .filter(|(_, one)| one.part.is_none())
                .map(|first| first.0),
        );
    }
    let likely: Vec<usize> = likely.into_iter().collect();
    let parts = at_once(&likely, |place| candidates[*place].compile(build));
    for (place, part) in likely.into_iter().zip(parts) {
        candidates[place].part = Some(part);
    }
}

/// Names that the parts use, or others want, but none of the parts defines.
fn missing(parts: &[Part], wanted: &[String]) -> Vec<String> {
    let used = parts.iter().flat_map(|part| &part.symbols.missing);
    let used = used.chain(wanted);
    let is_defined = |name: &str| parts.iter().any(|part| part.symbols.defined.contains(name));
    used.filter(|name| !is_defined(name)).cloned().collect()
}

struct Candidate {
    source: PathBuf,
    text: String,
    /// Set once it was compiled: why it does not compile, if it does not.
    part: Option<Result<Part, String>>,
}

impl Candidate {
    fn compile(&self, build: &Build) -> Result<Part, String> {
        Part::new(&self.source, build).map_err(|error| error.to_string())
    }

    /// Whether it may define the name: its text contains it, and nothing else is known.
    fn may_define(&self, name: &str) -> bool {
        match &self.part {
            None => self.text.contains(name),
            Some(part) => (part.as_ref()).is_ok_and(|part| part.symbols.defined.contains(name)),
        }
    }
}

/// Takes the candidate that defines `name` out of the list. Only sources whose text contains the name are compiled.
fn provider(name: &str, candidates: &mut Vec<Candidate>, build: &Build) -> Option<Part> {
    let found = candidates.iter_mut().position(|one| {
        if one.part.is_none() && one.text.contains(name) {
            one.part = Some(one.compile(build));
        }
        one.text.contains(name) && one.may_define(name)
    })?;
    candidates.swap_remove(found).part?.ok()
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
