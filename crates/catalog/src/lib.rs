//! The catalogue of schedulers.
//!
//! Every folder of `schedulers/` with a `scheduler.toml` is compiled to one BPF object when this crate is built; the
//! object, the manifest, the source and the README are embedded. The very same object is loaded into a kernel and into the
//! simulator. A user's own source is compiled when it is asked for, see [`open`].

mod clang;
mod error;
mod manifest;
pub mod topology;
mod tunable;
mod user;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

pub use error::Error;
pub use manifest::{Manifest, Statistic};
pub use tunable::{IntegerType, Tunable, Unit};
pub use user::{CompiledSource, compile_source};

/// One scheduler, built in or a user's own.
#[derive(Clone, Debug)]
pub struct Scheduler {
    /// What is known about it.
    pub manifest: Manifest,
    /// The BPF object, as libbpf and the simulator load it.
    pub object: Cow<'static, [u8]>,
    /// Where its source is: relative to the project for a built-in scheduler, otherwise as the user named it.
    pub source_file: PathBuf,
    /// Its C source; empty if only an object was given.
    pub source: Cow<'static, str>,
    /// Its README; empty if it has none.
    pub readme: Cow<'static, str>,
    /// What clang warned about when it compiled a user's source; empty otherwise.
    pub warnings: String,
}

impl Scheduler {
    /// The scheduler's id.
    pub fn id(&self) -> &str {
        &self.manifest.id
    }

    /// The tunable with this name; the error lists those that there are.
    pub fn tunable(&self, name: &str) -> Result<&Tunable, Error> {
        let tunables = &self.manifest.tunables;
        tunables
            .iter()
            .find(|tunable| tunable.name == name)
            .ok_or_else(|| {
                let names: Vec<&str> = tunables.iter().map(|t| t.name.as_str()).collect();
                let hint = match (closest(name, names.iter().copied()), names.is_empty()) {
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
            object: Cow::Borrowed(embedded.object),
            source_file: PathBuf::from(embedded.source_file),
            source: Cow::Borrowed(embedded.source),
            readme: Cow::Borrowed(embedded.readme),
            warnings: String::new(),
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

/// The built-in scheduler with this id; the error names the nearest one.
pub fn find(id: &str) -> Result<&'static Scheduler, Error> {
    all()
        .iter()
        .find(|scheduler| scheduler.manifest.id == id)
        .ok_or_else(|| Error::UnknownScheduler {
            id: id.to_owned(),
            hint: closest(id, all().iter().map(Scheduler::id))
                .map_or_else(String::new, |near| format!(", did you mean {near}?")),
        })
}

/// A scheduler by id or by path: what has a `/` or ends in `.c` or `.o` is a path.
///
/// A C source is compiled with [`compile_source`]. If a `scheduler.toml` lies beside the file it is its manifest; without one the id is
/// the file's name up to the first dot.
pub fn open(reference: &str, include_directories: &[PathBuf]) -> Result<Scheduler, Error> {
    let path = Path::new(reference);
    let is_object = reference.ends_with(".o");
    if !reference.contains('/') && !reference.ends_with(".c") && !is_object {
        return find(reference).cloned();
    }

    let read = |path: &Path| {
        std::fs::read(path).map_err(|cause| Error::File {
            action: "read",
            path: path.to_owned(),
            cause,
        })
    };
    let (object, source, warnings) = if is_object {
        (read(path)?, String::new(), String::new())
    } else {
        let compiled = compile_source(path, include_directories)?;
        let source = String::from_utf8_lossy(&read(path)?).into_owned();
        (compiled.object, source, compiled.warnings)
    };

    let manifest_file = path.with_file_name("scheduler.toml");
    let manifest = if manifest_file.is_file() {
        let text = String::from_utf8_lossy(&read(&manifest_file)?).into_owned();
        Manifest::parse(&text, &manifest_file.display().to_string())?
    } else {
        unknown_manifest(path)
    };
    Ok(Scheduler {
        manifest,
        object: Cow::Owned(object),
        source_file: path.to_owned(),
        source: Cow::Owned(source),
        readme: Cow::Borrowed(""),
        warnings,
    })
}

/// The manifest of a scheduler that has none.
fn unknown_manifest(path: &Path) -> Manifest {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Manifest {
        id: name.split('.').next().unwrap_or_default().to_owned(),
        title: format!("{}, a scheduler without a manifest", path.display()),
        year: 0,
        lineage: String::new(),
        source_document: String::new(),
        history: String::new(),
        algorithm: String::new(),
        tunables: Vec::new(),
        statistics: Vec::new(),
    }
}

/// The candidate that is most like `name`, if one is.
fn closest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().div_ceil(3))
        .min()
        .map(|(_, candidate)| candidate)
}
