//! Sources that become one object: those of a user's own scheduler, and those that they need, as if from a library.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use fairground_bpf::Symbols;

use crate::error::Error;
use crate::linker::Linker;
use crate::user::{Build, CompiledSource, compile_source, home_of_scx, scratch_folder};

/// Sources that become one object, compiled one by one.
pub(crate) struct Sources<'a> {
    parts: Vec<Part>,
    /// How many of them were named.
    named: usize,
    /// Remarks on sources that may have been needed, and do not compile.
    passed_over: Vec<String>,
    build: &'a Build,
}

impl<'a> Sources<'a> {
    /// Compiles the sources, and those that they need.
    pub(crate) fn compile(sources: &[PathBuf], build: &'a Build) -> Result<Self, Error> {
        let mut all = Self {
            parts: compile_all(sources, build)?,
            named: sources.len(),
            passed_over: Vec::new(),
            build,
        };
        all.add(&[]);
        Ok(all)
    }

    /// Adds sources that define these functions; returns whether there are any.
    pub(crate) fn add(&mut self, wanted: &[String]) -> bool {
        let before = self.parts.len();
        self.passed_over = add_needed(&mut self.parts, wanted, self.build);
        self.parts.len() > before
    }

    /// Links them.
    pub(crate) fn link(&self) -> Result<CompiledSource, Error> {
        let added = self.parts.iter().skip(self.named);
        let added = added.map(|part| part.source.clone()).collect();
        let warnings = self.parts.iter().map(|part| part.compiled.warnings.as_str());
        let warnings = warnings.chain(self.passed_over.iter().map(String::as_str));
        Ok(CompiledSource {
            object: match &self.parts[..] {
                [only] => only.compiled.object.clone(),
                parts => link(parts)?,
            },
            warnings: warnings.collect(),
            added,
        })
    }
}

/// Compiles a user's own sched_ext C sources to one BPF object; several are linked as by libbpf.
///
/// Names that the named sources use but do not define are looked for in the sources beside the first one and, if that is in a copy of scx's
/// repository, in its `lib`: those that are needed are added, as if from a library.
pub fn compile_sources(sources: &[PathBuf], build: &Build) -> Result<CompiledSource, Error> {
    Sources::compile(sources, build)?.link()
}

fn link(parts: &[Part]) -> Result<Vec<u8>, Error> {
    let scratch = scratch_folder()?;
    let linked = scratch.path().join("linked.o");
    let mut linker = Linker::new(&linked)?;
    for (number, part) in parts.iter().enumerate() {
        // The linker names files in its messages.
        let name = part.source.file_name().unwrap_or_default().to_string_lossy();
        let file = scratch.path().join(format!("{number}-{name}.o"));
        std::fs::write(&file, &part.compiled.object).map_err(|cause| Error::File {
            action: "write",
            path: file.clone(),
            cause,
        })?;
        linker.add_file(&file)?;
    }
    linker.link()?;
    std::fs::read(&linked).map_err(|cause| Error::File {
        action: "read",
        path: linked.clone(),
        cause,
    })
}

/// A source and the result of compiling it.
struct Part {
    source: PathBuf,
    compiled: CompiledSource,
    symbols: Symbols,
}

impl Part {
    /// Compiles a source.
    fn new(source: &Path, build: &Build) -> Result<Self, Error> {
        let compiled = compile_source(source, build)?;
        let symbols = Symbols::of(&compiled.object).map_err(|error| Error::Object {
            path: source.to_owned(),
            message: error.to_string(),
        })?;
        Ok(Self { source: source.to_owned(), compiled, symbols })
    }
}

/// Compiles sources, several at once; the result has their order.
fn compile_all(sources: &[PathBuf], build: &Build) -> Result<Vec<Part>, Error> {
    at_once(sources, |source| Part::new(source, build)).into_iter().collect()
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
        let helpers: Vec<_> = (1..threads.min(items.len())).map(|_| scope.spawn(take)).collect();
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
fn add_needed(parts: &mut Vec<Part>, wanted: &[String], build: &Build) -> Vec<String> {
    if missing(parts, wanted).is_empty() {
        return Vec::new();
    }
    let mut candidates = match parts.first() {
        Some(first) => candidates(&first.source, build),
        None => return Vec::new(),
    };
    candidates.retain(|one| !parts.iter().any(|part| same_file(&part.source, &one.source)));
    loop {
        let names = missing(parts, wanted);
        compile_likely(&names, &mut candidates, build);
        let mut found = names.iter().map(|name| provider(name, &mut candidates, build));
        match found.find_map(|part| part) {
            Some(part) => parts.push(part),
            None => return passed_over(&names, &candidates),
        }
    }
}

/// The sources whose text contains one of the names, which nothing else defines, and that do not compile.
fn passed_over(names: &[String], candidates: &[Candidate]) -> Vec<String> {
    let told = candidates.iter().filter_map(|one| {
        let Some(Err(problem)) = &one.part else { return None };
        let names: Vec<&str> =
            names.iter().filter(|name| one.text.contains(*name)).map(String::as_str).collect();
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
        likely.extend(first.filter(|(_, one)| one.part.is_none()).map(|first| first.0));
    }
    let likely: Vec<usize> = likely.into_iter().collect();
    let parts = at_once(&likely, |place| candidates[*place].compile(build));
    for (place, part) in likely.into_iter().zip(parts) {
        candidates[place].part = Some(part);
    }
}

/// Names that the parts use, or others want, but none of the parts defines.
fn missing(parts: &[Part], wanted: &[String]) -> Vec<String> {
    let used = parts.iter().flat_map(|part| &part.symbols.missing).chain(wanted);
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
        let folder = if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder };
        for source in crate::sources_of_folder(&folder).unwrap_or_default() {
            let text = std::fs::read_to_string(&source).unwrap_or_default();
            let is_scheduler = ["SCX_OPS_DEFINE", "DEFINE_SCHEDULER", ".struct_ops"]
                .iter()
                .any(|mark| text.contains(mark));
            if !is_scheduler {
                candidates.push(Candidate { source, text, part: None });
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A scheduler that calls a function which it does not define.
    const USES_LEVEL: &str = r#"int level(int number);
int BPF_STRUCT_OPS(mine_select_cpu, struct task_struct *p, s32 prev_cpu, u64 flags) { return level(prev_cpu); }
DEFINE_SCHEDULER(mine, .select_cpu = (void *)mine_select_cpu, .name = "mine");
"#;

    /// Writes a part of a scheduler that includes the project's header.
    fn write_part(folder: &Path, name: &str, text: &str) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, format!("#include \"fairground.bpf.h\"\n{text}")).unwrap();
        path
    }

    #[test]
    fn a_neighbour_that_is_needed_and_does_not_compile_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| write_part(folder.path(), name, text);
        let mine = write("mine.bpf.c", USES_LEVEL);
        write("level.bpf.c", "int level(int number) { return nothing; }\n");
        let compiled = compile_sources(&[mine], &Build::default());
        let warnings = compiled.map(|one| one.warnings).unwrap();
        assert!(
            warnings.contains("level.bpf.c, which may define level, is left out"),
            "{warnings}"
        );
        assert!(warnings.contains("undeclared identifier 'nothing'"), "{warnings}");
    }

    #[test]
    fn what_a_source_uses_and_a_neighbour_defines_is_linked_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| write_part(folder.path(), name, text);
        let mine = write("mine.bpf.c", USES_LEVEL);
        let level = write(
            "level.bpf.c",
            "int depth;\nint half(int number);\nint level(int number) { return half(number) + depth; }\n",
        );
        let half = write("other.bpf.c", "int half(int number) { return number / 2u; }\n");
        write("unused.bpf.c", "int level(int number);\nint most(void) { return level(1); }\n");
        write(
            "scheduler.bpf.c",
            "int level(int number) { return 0; }\nDEFINE_SCHEDULER(other, .name = \"other\");\n",
        );
        let compiled = compile_sources(&[mine], &Build::default()).unwrap();
        assert_eq!(compiled.added, [level, half]);
        let symbols = fairground_bpf::Symbols::of(&compiled.object).unwrap();
        assert!(symbols.missing.is_empty(), "{symbols:?}");
    }

    #[test]
    fn sources_are_linked_and_macros_set() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one.bpf.c"), folder.path().join("two.bpf.c"));
        let first = r#"#include "fairground.bpf.h"
int chosen(void);
s32 BPF_STRUCT_OPS(mine_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags) { return chosen(); }
DEFINE_SCHEDULER(mine, .select_cpu = (void *)mine_select_cpu, .name = "mine");
"#;
        std::fs::write(&one, first).unwrap();
        let second = "#include \"vmlinux.h\"\nint chosen(void) { return CHOICE; }\n";
        std::fs::write(&two, second).unwrap();
        let build = Build { defines: vec!["CHOICE=3".to_owned()], ..Build::default() };
        let compiled = compile_sources(&[one.clone(), two], &build).unwrap();
        let object = fairground_bpf::Object::parse(&compiled.object).unwrap();
        assert!(object.externs().iter().all(|one| one.name != "chosen"));
        let twice = compile_sources(&[one.clone(), one], &build).unwrap_err();
        assert!(twice.to_string().starts_with("cannot link"), "{twice}");
    }
}
