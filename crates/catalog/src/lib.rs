//! The catalogue of schedulers.
//!
//! Every folder of `schedulers/` with a `scheduler.toml` is compiled to one BPF object when this crate is built; the object, the manifest, the
//! source and the README are embedded. The very same object is loaded into a kernel and into the simulator. A user's own source is compiled on
//! request, see [`open`].

mod cache;
mod clang;
mod diagnostics;
mod error;
mod inspect;
mod linker;
mod manifest;
mod object_file;
mod sources;
mod tunable;
mod user;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, OnceLock};

use fairground_bpf::Object;
use fairground_contract::attributes;

pub use cache::Cache;
pub use error::Error;
pub use manifest::{Manifest, Statistic};
pub use object_file::ObjectFile;
use sources::Sources;
pub use sources::compile_sources;
pub use tunable::{IntegerType, Tunable, Unit};
pub use user::{Build, CompiledSource, compile_source};

/// One scheduler, built in or a user's own.
#[derive(Clone, Debug)]
pub struct Scheduler {
    /// Its description.
    pub manifest: Manifest,
    /// The BPF object, as libbpf and the simulator load it.
    pub object: ObjectFile,
    /// Which of the object's tables of callbacks is meant, if the object has several schedulers.
    pub table: Option<String>,
    /// Where its source is: relative to the project for a built-in scheduler, otherwise as the user named it.
    pub source_file: PathBuf,
    /// Its C source; empty if only an object was given.
    pub source: Cow<'static, str>,
    /// Names of the headers that lie beside the source of a built-in scheduler, in order; [`header`] has their texts.
    pub headers: &'static [&'static str],
    /// Its README; empty if it has none.
    pub readme: Cow<'static, str>,
    /// Clang's warnings about a user's source; empty otherwise.
    pub warnings: String,
    /// Sources that were not named, but linked with a user's because those need them.
    pub linked: Vec<PathBuf>,
    /// The object as it was read, once that was done.
    parsed: Arc<OnceLock<Arc<Object>>>,
}

impl Scheduler {
    /// The scheduler's id.
    pub fn id(&self) -> &str {
        &self.manifest.id
    }

    /// Its object, which has no scheduler but the one that is meant. It is read once.
    ///
    /// # Errors
    ///
    /// [`Error::Object`] if it is not a BPF object, or has no such table.
    pub fn parse(&self) -> Result<Arc<Object>, Error> {
        if let Some(parsed) = self.parsed.get() {
            return Ok(parsed.clone());
        }
        let parsed = parse(&self.object, &self.source_file, self.table.as_deref())?;
        Ok(self.parsed.get_or_init(|| Arc::new(parsed)).clone())
    }

    /// The tunable with this name; the error lists the existing ones.
    pub fn tunable(&self, name: &str) -> Result<&Tunable, Error> {
        let tunables = &self.manifest.tunables;
        tunables.iter().find(|tunable| tunable.name == name).ok_or_else(|| {
            let names: Vec<&str> = tunables.iter().map(|t| t.name.as_str()).collect();
            let ending = format!("_{name}");
            let ends = names.iter().copied().find(|known| known.ends_with(&ending));
            let near = closest(name, names.iter().copied()).or(ends);
            let hint = match (near, names.is_empty()) {
                (_, true) => "; it has none".to_owned(),
                (Some(near), _) => format!(", did you mean {near}?"),
                (None, _) => format!("; it has {}", names.join(", ")),
            };
            Error::UnknownTunable {
                scheduler: self.manifest.id.clone(),
                tunable: name.to_owned(),
                hint,
            }
        })
    }
}

/// A built-in scheduler as the build script writes it.
struct Embedded {
    manifest_file: &'static str,
    manifest: &'static str,
    source_file: &'static str,
    source: &'static str,
    headers: &'static [&'static str],
    readme: &'static str,
    object: &'static [u8],
}

const EMBEDDED: &[Embedded] = include!(concat!(env!("OUT_DIR"), "/schedulers.rs"));

static SCHEDULERS: LazyLock<Vec<Scheduler>> = LazyLock::new(|| {
    let mut schedulers: Vec<Scheduler> = EMBEDDED
        .iter()
        .map(|embedded| Scheduler {
            manifest: Manifest::parse(embedded.manifest, embedded.manifest_file)
                .expect("the build script has read the same text"),
            object: ObjectFile::embedded(embedded.object),
            table: None,
            source_file: PathBuf::from(embedded.source_file),
            source: Cow::Borrowed(embedded.source),
            headers: embedded.headers,
            readme: Cow::Borrowed(embedded.readme),
            warnings: String::new(),
            linked: Vec::new(),
            parsed: Arc::default(),
        })
        .collect();
    schedulers
        .sort_by(|a, b| (a.manifest.year, &a.manifest.id).cmp(&(b.manifest.year, &b.manifest.id)));
    schedulers
});

/// All built-in schedulers, by year and then by id.
pub fn all() -> &'static [Scheduler] {
    &SCHEDULERS
}

/// Name and text of a header that comes with the program: one of the built-in schedulers' own, or one that they share.
pub fn header(name: &str) -> Option<(&'static str, &'static str)> {
    let mut headers = user::HEADERS.iter().copied();
    headers.find(|(known, _)| *known == name)
}

/// The built-in scheduler with this id; the error names the nearest one.
pub fn find(id: &str) -> Result<&'static Scheduler, Error> {
    all().iter().find(|scheduler| scheduler.manifest.id == id).ok_or_else(|| {
        Error::UnknownScheduler {
            id: id.to_owned(),
            hint: match closest(id, all().iter().map(Scheduler::id)) {
                Some(near) => format!(", did you mean {near}?"),
                None if Path::new(id).is_dir() => format!("; write {id}/ for the folder"),
                None => String::new(),
            },
        }
    })
}

/// A scheduler by id or by path: anything with a `/`, ending in `.c` or `.o`, or `.` or `..`, is a path.
///
/// Sources joined by `+` become one object, as do all `.bpf.c` files of a folder. They are compiled with [`compile_sources`]. Every `const
/// volatile` number in them is a tunable, whether a manifest lists it or not. If there is a `scheduler.toml` beside the file, or the first of
/// them, it is the manifest; without one, the id is the file's name up to the first dot or, for a `main.bpf.c`, the name of the project that it
/// belongs to. If an object has several tables of callbacks, the name of the one that is meant follows after a `#`.
pub fn open(reference: &str, build: &Build) -> Result<Scheduler, Error> {
    open_with(reference, build, |_, _| Vec::new())
}

/// The same with functions that something other than the sources wants, such as a loader that runs functions by name: `wanted` says which functions that
/// are, given the first source and the object made of all. If it does not have them, they are looked for like those that the sources use.
pub fn open_with(
    reference: &str,
    build: &Build,
    wanted: impl FnOnce(&Path, &Object) -> Vec<String>,
) -> Result<Scheduler, Error> {
    let (parts, table) = files_of(reference, Path::new(""));
    let reference = &reference[..reference.len() - table.len()];
    let table = table.strip_prefix('#').map(str::to_owned);
    let is_object = reference.ends_with(".o");
    let is_source = reference.ends_with(".c");
    let is_folder = matches!(reference, "." | "..");
    if !reference.contains('/') && !is_source && !is_object && !is_folder {
        let scheduler = find(reference)?;
        return match table {
            Some(table) => Err(Error::Object {
                path: PathBuf::from(reference),
                message: format!("it has one table of callbacks; leave #{table} out"),
            }),
            None => Ok(scheduler.clone()),
        };
    }
    let path = Path::new(reference);
    if !is_source && !is_object && path.is_file() {
        return Err(Error::Object {
            path: path.to_owned(),
            message: "neither a C source (.c) nor a BPF object (.o)".to_owned(),
        });
    }

    let read = |path: &Path| {
        fairground_files::read(path).map_err(|cause| Error::File {
            action: "read",
            path: path.to_owned(),
            cause,
        })
    };
    let mut sources = Vec::new();
    for part in parts.into_iter().map(Path::new) {
        if part.is_dir() {
            sources.extend(sources_of_folder(part)?);
        } else {
            sources.push(part.to_owned());
        }
    }
    let path = sources.first().map_or(Path::new(reference), |first| first);
    let parse = |object: &[u8]| parse(object, path, table.as_deref());
    let (compiled, parsed, source) = if is_object {
        let object = read(path)?;
        let parsed = parse(&object)?;
        wanted(path, &parsed);
        (CompiledSource::given(object), parsed, String::new())
    } else {
        let mut all = Sources::compile(&sources, build)?;
        let mut compiled = all.link()?;
        let mut parsed = parse(&compiled.object)?;
        if all.add(&wanted(path, &parsed)) {
            compiled = all.link()?;
            parsed = parse(&compiled.object)?;
        }
        let source = String::from_utf8_lossy(&read(path)?).into_owned();
        (compiled, parsed, source)
    };
    let manifest_file = path.with_file_name("scheduler.toml");
    let mut manifest = if manifest_file.is_file() {
        let text = String::from_utf8_lossy(&read(&manifest_file)?).into_owned();
        let manifest = Manifest::parse(&text, &manifest_file.display().to_string())?;
        inspect::check(&manifest, &manifest_file, &parsed)?;
        manifest
    } else {
        unknown_manifest(path)
    };
    for tunable in inspect::tunables(&parsed) {
        if !manifest.tunables.iter().any(|t| t.name == tunable.name) {
            manifest.tunables.push(tunable);
        }
    }
    Ok(Scheduler {
        manifest,
        object: ObjectFile::of(compiled.object),
        table,
        source_file: path.to_owned(),
        source: Cow::Owned(source),
        headers: &[],
        readme: Cow::Borrowed(""),
        warnings: compiled.warnings,
        linked: compiled.added,
        parsed: Arc::new(OnceLock::from(Arc::new(parsed))),
    })
}

fn parse(bytes: &[u8], path: &Path, table: Option<&str>) -> Result<Object, Error> {
    let wrong = |message| Error::Object { path: path.to_owned(), message };
    let mut object = Object::parse(bytes).map_err(|error| wrong(error.to_string()))?;
    if let Some(table) = table {
        object.choose(table).map_err(|names| {
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            wrong(format!("no table of callbacks is called {table}; it has {names}"))
        })?;
    }
    Ok(object)
}

/// The files and folders that `+` joins in a path, as they are found from the folder `home`, and what follows them: `#` and the name of a table, or
/// nothing. A `+` or `#` counts as part of a name if only that makes a name that exists.
pub fn files_of<'t>(reference: &'t str, home: &Path) -> (Vec<&'t str>, &'t str) {
    let table = reference.rfind('#').filter(|_| !home.join(reference).exists());
    let (files, table) = reference.split_at(table.unwrap_or(reference.len()));
    let mut parts = Vec::new();
    let mut rest = Some(files);
    while let Some(text) = rest {
        let ends: Vec<usize> = text.match_indices('+').map(|found| found.0).collect();
        let ends = [ends, vec![text.len()]].concat();
        let end = ends.iter().find(|&&end| home.join(&text[..end]).exists());
        let end = *end.unwrap_or(&ends[0]);
        parts.push(&text[..end]);
        rest = text.get(end + 1..);
    }
    (parts, table)
}

/// The `.bpf.c` files of a folder by name, but `main.bpf.c` first.
fn sources_of_folder(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let wrong = |cause| Error::File { action: "read", path: folder.to_owned(), cause };
    let mut sources = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        if path.to_string_lossy().ends_with(".bpf.c") {
            sources.push(path);
        }
    }
    sources.sort_by_key(|path| (!path.ends_with("main.bpf.c"), path.clone()));
    if sources.is_empty() {
        let cause = std::io::Error::new(std::io::ErrorKind::NotFound, "no .bpf.c in this folder");
        return Err(wrong(cause));
    }
    Ok(sources)
}

/// The name of a scheduler without a manifest: that of its file up to the first dot. If that says nothing, it is the name of the nearest folder
/// above that does.
fn name_of(path: &Path) -> String {
    let whole = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let parts = whole.ancestors().filter_map(Path::file_name);
    let mut names = parts.map(|part| {
        let part = part.to_string_lossy().into_owned();
        part.split('.').next().unwrap_or_default().to_owned()
    });
    let first = names.next().unwrap_or_default();
    if first != "main" {
        return first;
    }
    let says_nothing = |name: &String| ["", "assets", "bpf", "src"].contains(&name.as_str());
    names.find(|name| !says_nothing(name)).unwrap_or(first)
}

/// The manifest of a scheduler that has none.
fn unknown_manifest(path: &Path) -> Manifest {
    Manifest {
        id: name_of(path),
        title: format!("{}, a scheduler without a manifest", path.display()),
        year: 0,
        lineage: String::new(),
        source_document: String::new(),
        attributes: Vec::new(),
        history: String::new(),
        algorithm: String::new(),
        tunables: Vec::new(),
        statistics: Vec::new(),
    }
}

/// The candidate most similar to `name`, if any is similar.
fn closest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().div_ceil(3))
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedulers_are_sorted_by_year_and_found_by_id() {
        assert!(all().is_sorted_by_key(|s| (s.manifest.year, s.manifest.id.clone())));
        assert_eq!(find("linux24").unwrap().manifest.year, 2001);
        assert_eq!(
            find("bqms").unwrap_err().to_string(),
            "there is no scheduler \"bqms\", did you mean bmqs?; `fairground list` shows them all"
        );
    }

    #[test]
    fn a_plus_joins_sources_unless_it_is_part_of_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("c++");
        std::fs::create_dir(&home).unwrap();
        for name in ["a.bpf.c", "b.bpf.c"] {
            std::fs::write(home.join(name), "").unwrap();
        }
        let [a, b] = ["a.bpf.c", "b.bpf.c"].map(|name| home.join(name).display().to_string());
        let here = Path::new("");
        assert_eq!(files_of(&a, here), (vec![a.as_str()], ""));
        assert_eq!(files_of(&format!("{a}+{b}#two"), here), (vec![&*a, &*b], "#two"));
        assert_eq!(files_of("none.bpf.c+no.bpf.c", here).0, ["none.bpf.c", "no.bpf.c"]);
        let relative = files_of("c++/a.bpf.c+c++/b.bpf.c", folder.path()).0;
        assert_eq!(relative, ["c++/a.bpf.c", "c++/b.bpf.c"]);
    }

    #[test]
    fn every_folder_with_a_manifest_is_in_the_catalogue() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schedulers");
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            if entry.path().join("scheduler.toml").is_file() {
                assert!(find(&name).is_ok(), "schedulers/{name} was left out");
            }
        }
    }

    #[test]
    fn manifests_agree_with_their_objects() {
        for scheduler in all() {
            let object = Object::parse(&scheduler.object).unwrap();
            let manifest_file = scheduler.source_file.with_file_name("scheduler.toml");
            inspect::check(&scheduler.manifest, &manifest_file, &object).unwrap();
            for variable in inspect::tunables(&object) {
                assert!(
                    scheduler.tunable(&variable.name).is_ok(),
                    "{}: {} is not in the manifest",
                    scheduler.id(),
                    variable.name
                );
            }
            assert!(!scheduler.manifest.statistics.is_empty(), "{}", scheduler.id());
            assert_eq!(object.license(), "GPL");
        }
    }

    #[test]
    fn objects_and_sources_name_no_folder_of_this_machine() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let workspace = folder.ancestors().nth(2).unwrap().display().to_string();
        for scheduler in all() {
            let found = scheduler
                .object
                .windows(workspace.len())
                .any(|bytes| bytes == workspace.as_bytes());
            assert!(!found, "{} names {workspace}", scheduler.id());
        }
    }

    #[test]
    fn objects_carry_nothing_for_debuggers() {
        for scheduler in all() {
            let version = b"clang version";
            let mut places = scheduler.object.windows(version.len());
            assert!(!places.any(|bytes| bytes == version), "{}", scheduler.id());
        }
    }

    #[test]
    fn an_unknown_tunable_names_what_there_is() {
        let scheduler = find("linux24").unwrap();
        assert_eq!(
            scheduler.tunable("hzz").unwrap_err().to_string(),
            "scheduler linux24 has no tunable \"hzz\", did you mean hz?"
        );
        let message = scheduler.tunable("colour").unwrap_err().to_string();
        assert!(message.contains("it has hz, proc_change_penalty"), "{message}");
    }

    const SOURCE: &str = r#"#include "fairground.bpf.h"
#include "topology.h"
const volatile u64 slice = 5000000;
const volatile s32 margin = -3;
const volatile bool eager = true;
s32 BPF_STRUCT_OPS(mine_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return eager && slice && topology_nr_cpus ? prev_cpu : margin;
}
DEFINE_SCHEDULER(mine, .select_cpu = (void *)mine_select_cpu, .name = "mine");
"#;

    #[test]
    fn constants_of_a_users_source_are_tunables() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.bpf.c");
        std::fs::write(&path, SOURCE).unwrap();
        let scheduler = open(path.to_str().unwrap(), &Build::default()).unwrap();
        assert_eq!(scheduler.id(), "mine");
        let found: Vec<(&str, &str, i128)> = scheduler
            .manifest
            .tunables
            .iter()
            .map(|t| (t.name.as_str(), t.integer_type.name(), t.default))
            .collect();
        assert_eq!(
            found,
            [("slice", "u64", 5_000_000), ("margin", "s32", -3), ("eager", "bool", 1)]
        );
    }

    #[test]
    fn a_folder_is_one_scheduler_and_a_main_is_called_like_its_project() {
        let folder = tempfile::tempdir().unwrap();
        let sources = folder.path().join("scx_mine/src/bpf");
        std::fs::create_dir_all(&sources).unwrap();
        std::fs::write(sources.join("main.bpf.c"), SOURCE).unwrap();
        std::fs::write(sources.join("apart.bpf.c"), "int apart(void) { return 1; }\n").unwrap();
        let scheduler = open(&format!("{}/", sources.display()), &Build::default()).unwrap();
        assert_eq!(scheduler.id(), "scx_mine");
        assert!(scheduler.source_file.ends_with("main.bpf.c"));
        assert!(scheduler.tunable("slice").is_ok());
        let empty = open(&format!("{}/", folder.path().display()), &Build::default()).unwrap_err();
        assert!(empty.to_string().contains("no .bpf.c in this folder"), "{empty}");
    }

    #[test]
    fn a_users_manifest_must_agree_with_the_source() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.bpf.c");
        std::fs::write(&path, SOURCE).unwrap();
        let manifest = |default: u32| {
            format!(
                "id = \"mine\"\ntitle = \"t\"\nyear = 2026\nlineage = \"l\"\nsource_document = \"d\"\n\
                 history = \"h\"\nalgorithm = \"a\"\n[[tunable]]\nname = \"slice\"\ntype = \"u64\"\n\
                 unit = \"ns\"\ndefault = {default}\nrange = [1, \"1 s\"]\ndoc = \"d\"\n"
            )
        };
        let manifest_file = folder.path().join("scheduler.toml");
        std::fs::write(&manifest_file, manifest(5_000_000)).unwrap();
        let scheduler = open(path.to_str().unwrap(), &Build::default()).unwrap();
        assert_eq!(scheduler.manifest.tunables.len(), 3);
        assert_eq!(scheduler.tunable("slice").unwrap().parse_value("2 ms").unwrap(), 2_000_000);

        std::fs::write(&manifest_file, manifest(4_000_000)).unwrap();
        let error = open(path.to_str().unwrap(), &Build::default()).unwrap_err().to_string();
        assert!(
            error.ends_with("\"slice\" has the default 4000000 here and 5000000 in the source"),
            "{error}"
        );
    }
}
