//! A user's own source, compiled on request.

use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;
use std::time::SystemTime;

use crate::cache::{Cache, Way, files_in, hash};
use crate::clang::Clang;
use crate::diagnostics;
use crate::error::Error;

/// Names of the headers that come with the program, with the lengths of their texts.
const HEADER_NAMES: &[(&str, usize)] = include!(concat!(env!("OUT_DIR"), "/headers.rs"));

/// That list as it is in its file.
const HEADER_LIST: &str = include_str!(concat!(env!("OUT_DIR"), "/headers.rs"));

/// Their texts one after the other, packed.
const HEADER_TEXTS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/headers.packed"));

/// The headers that come with the program: those of single schedulers, those that they share, and libbpf's under `bpf/`.
pub(crate) static HEADERS: LazyLock<Vec<(&'static str, &'static str)>> = LazyLock::new(|| {
    let texts = miniz_oxide::inflate::decompress_to_vec(HEADER_TEXTS)
        .ok()
        .and_then(|texts| String::from_utf8(texts).ok());
    // They stay as long as the program runs.
    let mut rest: &'static str = texts.expect("the build script has packed text").leak();
    let header = |&(name, length): &(&'static str, usize)| {
        let (text, others) = rest.split_at(length);
        rest = others;
        (name, text)
    };
    HEADER_NAMES.iter().map(header).collect()
});

/// Headers that replace those of a system, for sources that come without them.
const STAND_INS: &[(&str, &str)] = &[
    ("vmlinux.h", include_str!("../headers/vmlinux.h")),
    ("gnu/stubs.h", include_str!("../headers/gnu/stubs.h")),
];

/// All of the kernel's types, for sources that come without a `vmlinux.h` and for which the selection among the headers is not enough.
const WHOLE_TYPES: &[u8] = include_bytes!("../headers/whole/vmlinux.h.zst");

/// A compiled scheduler.
#[derive(Clone, Debug)]
pub struct CompiledSource {
    /// The BPF object.
    pub object: Vec<u8>,
    /// clang's warnings, empty if there are none.
    pub warnings: String,
    /// Sources that were not named, but that others need.
    pub added: Vec<PathBuf>,
}

impl CompiledSource {
    /// An object that was given as such.
    pub(crate) fn given(object: Vec<u8>) -> Self {
        Self { object, warnings: String::new(), added: Vec::new() }
    }
}

/// How a user's sources are compiled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Build {
    /// Folders with headers, searched before all others.
    pub include: Vec<PathBuf>,
    /// Macros, as `NAME` or `NAME=VALUE`.
    pub defines: Vec<String>,
    /// Whether places in the sources are told without the folders that these lie in, so that the object is the same wherever that is.
    pub without_folders: bool,
}

impl Build {
    /// The options that leave these folders out.
    fn mapping(&self, folders: &[PathBuf]) -> Vec<String> {
        if !self.without_folders {
            return Vec::new();
        }
        let mut folders: Vec<_> = folders.iter().map(|folder| folder.display()).collect();
        // The last that fits counts, which has to be the longest.
        folders.sort_by_key(|folder| folder.to_string().len());
        let maps = folders.iter().map(|folder| format!("-fdebug-prefix-map={folder}=sources"));
        maps.chain(["-fdebug-compilation-dir=.".to_owned()]).collect()
    }
}

/// Where scx's headers are, if the source or a folder of headers is in a copy of its repository: the first folder above it that has
/// `include/scx/common.bpf.h`, directly or in `scheds`. Links are followed only if the path as written leads to none.
pub(crate) fn home_of_scx(source: &Path, include: &[PathBuf]) -> Option<PathBuf> {
    let ways = std::iter::once(source).chain(include.iter().map(PathBuf::as_path));
    let ways: Vec<PathBuf> = ways
        .flat_map(|way| [std::path::absolute(way), std::fs::canonicalize(way)])
        .flatten()
        .collect();
    ways.iter()
        .flat_map(|way| way.ancestors())
        .flat_map(|folder| [folder.to_owned(), folder.join("scheds")])
        .find(|folder| folder.join("include/scx/common.bpf.h").is_file())
}

/// The folders that scx's own build searches for headers.
fn headers_of_scx(source: &Path, include: &[PathBuf]) -> Vec<PathBuf> {
    let folders = home_of_scx(source, include).into_iter().flat_map(|home| {
        ["include", "include/lib", "vmlinux", "../lib"].map(|folder| home.join(folder))
    });
    folders.filter(|folder| folder.is_dir()).collect()
}

/// Writes headers, named by their paths below `folder`.
fn write_headers<'a>(
    folder: &Path,
    headers: impl Iterator<Item = &'a (&'a str, &'a str)>,
) -> Result<(), Error> {
    for (name, text) in headers {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(folder))
            .and_then(|()| std::fs::write(&path, text))
            .map_err(|cause| Error::File { action: "write", path: path.clone(), cause })?;
    }
    Ok(())
}

pub(crate) fn scratch_folder() -> Result<tempfile::TempDir, Error> {
    tempfile::tempdir().map_err(|cause| Error::Scratch { cause })
}

/// Compiles a user's own sched_ext C source to a BPF object.
///
/// Headers are looked for in this order: the folders of `build`, the source's folder, its `include` folder and that of the folder above, those
/// of scx if the source or a folder of `build` is part of it, libbpf's headers as they come with this program, and finally the project's own.
/// A source that comes without a `vmlinux.h` gets a selection of the kernel's types and, if that is not enough, all of them.
pub fn compile_source(source: &Path, build: &Build) -> Result<CompiledSource, Error> {
    let unreadable = |cause| Error::File { action: "read", path: source.to_owned(), cause };
    if !std::fs::metadata(source).map_err(unreadable)?.is_file() {
        return Err(unreadable(std::io::Error::other("it is not a file")));
    }
    let clang = Clang::find()?;
    let folders = folders_of(source, build);
    let way = way(source, build, clang, &folders);
    let cache = Cache::find();
    if let Some((object, warnings)) = cache.as_ref().and_then(|cache| cache.find_object(&way)) {
        return Ok(CompiledSource { object, warnings, added: Vec::new() });
    }
    let started = SystemTime::now();
    let (compiled, inputs) = compile_anew(source, build, clang, &folders)?;
    if let (Some(cache), false) = (cache, inputs.is_empty()) {
        cache.keep(&way, &inputs, started, &compiled.object, &compiled.warnings);
    }
    Ok(compiled)
}

/// The user's folders in which headers are looked for, and those of scx, in this order.
fn folders_of(source: &Path, build: &Build) -> Vec<PathBuf> {
    let mut folders = build.include.clone();
    let folder = match source.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    folders.push(folder.clone());
    for candidate in [folder.join("include"), folder.join("../include")] {
        if candidate.is_dir() {
            folders.push(candidate);
        }
    }
    folders.extend(headers_of_scx(source, &build.include));
    folders
}

/// Everything that an object depends on besides the contents of the user's files. The source's path and the current folder are written into it.
fn way(source: &Path, build: &Build, clang: &Clang, folders: &[PathBuf]) -> Way {
    static OWN: LazyLock<[u8; 32]> = LazyLock::new(|| {
        let parts = STAND_INS.iter();
        let parts = parts.flat_map(|(name, text)| [name.as_bytes(), text.as_bytes()]);
        hash(parts.chain([HEADER_LIST.as_bytes(), HEADER_TEXTS, WHOLE_TYPES]))
    });
    let current = std::env::current_dir().unwrap_or_default();
    let paths = ["CPATH", "C_INCLUDE_PATH"].map(|name| std::env::var_os(name).unwrap_or_default());
    let identity = clang.identity();
    let mut parts = vec![
        env!("CARGO_PKG_VERSION").as_bytes(),
        &OWN[..],
        identity.as_bytes(),
        source.as_os_str().as_encoded_bytes(),
        current.as_os_str().as_encoded_bytes(),
    ];
    parts.extend(paths.iter().map(|path| path.as_encoded_bytes()));
    parts.extend(build.defines.iter().map(|define| define.as_bytes()));
    parts.push(if build.without_folders { b"without folders" } else { b"" });
    Way::new(&parts, folders.to_vec())
}

/// One source, and the folders in which clang finds its headers.
struct Compilation<'a> {
    source: &'a Path,
    clang: &'a Clang,
    folders: &'a [PathBuf],
    scratch: tempfile::TempDir,
    options: Vec<String>,
    /// What stands in for files that there are not.
    notes: String,
    /// Whether the kernel's types that come with the program are searched before those of the user.
    own_types_first: bool,
}

impl<'a> Compilation<'a> {
    fn new(
        source: &'a Path,
        build: &Build,
        clang: &'a Clang,
        folders: &'a [PathBuf],
    ) -> Result<Self, Error> {
        let scratch = scratch_folder()?;
        // The kernel's own build of such schedulers disables these, too: the first two warnings are about the macros that declare callbacks, and
        // newer versions of clang turn them into errors. The kernel's structures contain others without a name.
        let mut options = vec![
            "-Wno-compare-distinct-pointer-types".to_owned(),
            "-Wno-incompatible-function-pointer-types".to_owned(),
            "-fms-extensions".to_owned(),
            "-Wno-microsoft-anon-tag".to_owned(),
            // Places in the headers that come with the program have the same names in every run.
            format!("-fdebug-prefix-map={}=fairground", scratch.path().display()),
            "-MD".to_owned(),
            "-MF".to_owned(),
            scratch.path().join("inputs.d").display().to_string(),
        ];
        options.extend(build.defines.iter().map(|define| format!("-D{define}")));
        options.extend(build.mapping(folders));
        Ok(Self {
            source,
            clang,
            folders,
            scratch,
            options,
            notes: String::new(),
            own_types_first: false,
        })
    }

    /// The folders of the headers that come with the program, in the order in which clang searches them: libbpf's, those that stand in for a
    /// system's, and the project's own.
    fn own_folders(&self) -> [PathBuf; 3] {
        // Deep enough that the paths of a project's own `vmlinux.h`, which may lead up, stay inside.
        ["libbpf", "stand-ins/by/path/of/header", "include"]
            .map(|folder| self.scratch.path().join(folder))
    }

    fn write_headers(&self) -> Result<(), Error> {
        let [libbpf, stand_ins, ours] = self.own_folders();
        let is_libbpf = |header: &&(&str, &str)| header.0.starts_with("bpf/");
        write_headers(&libbpf, HEADERS.iter().filter(is_libbpf))?;
        write_headers(&stand_ins, STAND_INS.iter())?;
        write_headers(&ours, HEADERS.iter().filter(|header| !is_libbpf(header)))
    }

    /// Compiles the source to its object, with clang's warnings.
    fn run(&self) -> Result<CompiledSource, Error> {
        let own = self.own_folders();
        let folders = match self.own_types_first {
            true => [&own[1..], self.folders, &own[..1]].concat(),
            false => [self.folders, &own].concat(),
        };
        let object_file = self.scratch.path().join("object.o");
        // A fault of a header from elsewhere is not for the author of this source to mend.
        let include = ("-isystem", &folders[..]);
        let warnings = self.clang.compile(self.source, include, &self.options, &object_file)?;
        let object = std::fs::read(&object_file).map_err(|cause| Error::File {
            action: "read",
            path: object_file.clone(),
            cause,
        })?;
        Ok(CompiledSource { object, warnings, added: Vec::new() })
    }

    /// Compiles the source with the selection of the kernel's types, which takes clang a tenth of the time, or with all if it needs others. scx's
    /// sources always do. Types that the user brings come first, unless they lie in a folder with headers and lack what the source needs: such
    /// folders are of another month than the source more often than not.
    fn run_with_types(&mut self) -> Result<CompiledSource, Error> {
        let brought = diagnostics::brought(self.folders).map(|(_, path)| path);
        let mut first = None;
        if brought.is_some() || home_of_scx(self.source, self.folders).is_none() {
            let compiled = self.run_with_stand_ins();
            let is_final =
                |path: &PathBuf| compiled.is_ok() || path.parent() == self.source.parent();
            if brought.as_ref().is_some_and(is_final) || !lacks_names(&compiled) {
                return compiled.map_err(|error| self.explained(error));
            }
            if said(&compiled).is_some_and(diagnostics::lacks_former_functions) {
                self.options.push("-DFAIRGROUND_OLDER_KFUNCS".to_owned());
            }
            first = Some(compiled);
        }
        let [_, _, ours] = self.own_folders();
        write_headers(&ours, [("vmlinux.h", whole_types()?.as_str())].iter())?;
        let Some(path) = brought else {
            return self.run_with_stand_ins().map_err(|error| self.explained(error));
        };
        self.own_types_first = true;
        match (self.run_with_stand_ins(), first) {
            (Ok(mut compiled), _) => {
                compiled.warnings += &format!(
                    "{} lacks what {} needs: the vmlinux.h that comes with fairground stands in for it",
                    path.display(),
                    self.source.display()
                );
                Ok(compiled)
            }
            (Err(error), first) => {
                first.unwrap_or(Err(error)).map_err(|error| self.explained(error))
            }
        }
    }

    /// Compiles the source; a generated `vmlinux.h` that it has under a path of its own, and that was not generated, is the one that comes with the
    /// program.
    fn run_with_stand_ins(&mut self) -> Result<CompiledSource, Error> {
        loop {
            let mut compiled = self.run();
            let missing = match &compiled {
                Err(Error::DoesNotCompile { diagnostics, .. }) => {
                    diagnostics::missing_vmlinux(diagnostics)
                }
                _ => None,
            };
            let [_, stand_ins, _] = self.own_folders();
            let place = missing.map(|path| (path, stand_ins.join(path)));
            let Some((path, _)) =
                place.filter(|(_, place)| self.is_inside(place) && !place.exists())
            else {
                if let Ok(compiled) = &mut compiled {
                    compiled.warnings += &self.notes;
                }
                return compiled;
            };
            write_headers(&stand_ins, [(path, "#include <vmlinux.h>\n")].iter())?;
            self.notes += &format!(
                "There is no {path}: the vmlinux.h that comes with fairground stands in for it\n"
            );
        }
    }

    /// Whether a path that may lead up again stays in the scratch folder.
    fn is_inside(&self, path: &Path) -> bool {
        let Ok(rest) = path.strip_prefix(self.scratch.path()) else { return false };
        let depth = rest.components().try_fold(0_usize, |depth, part| match part {
            Component::ParentDir => depth.checked_sub(1),
            _ => Some(depth + 1),
        });
        depth.is_some()
    }

    /// The user's and the system's files that clang has read.
    fn inputs(&self) -> Vec<PathBuf> {
        let list = std::fs::read_to_string(self.scratch.path().join("inputs.d"));
        let mut inputs = files_in(&list.unwrap_or_default());
        inputs.retain(|input| !input.starts_with(self.scratch.path()));
        inputs
    }

    /// The error with the remedy.
    fn explained(&self, mut error: Error) -> Error {
        if let Error::DoesNotCompile { diagnostics, .. } = &mut error {
            let vmlinux = HEADERS.iter().chain(STAND_INS);
            let known = vmlinux.filter(|header| matches!(header.0, "vmlinux.h" | "kfuncs.bpf.h"));
            let types = whole_types().unwrap_or_default();
            let source = diagnostics::Source {
                path: self.source,
                folders: self.folders,
                known: known.map(|header| header.1).chain([types.as_str()]).collect(),
            };
            *diagnostics = source.explain(diagnostics);
        }
        error
    }
}

/// Whether clang says that names are not declared which a kernel's types may have.
fn lacks_names(compiled: &Result<CompiledSource, Error>) -> bool {
    said(compiled).is_some_and(diagnostics::lacks_names)
}

/// What clang says.
fn said(compiled: &Result<CompiledSource, Error>) -> Option<&str> {
    match compiled {
        Ok(CompiledSource { warnings, .. }) => Some(warnings),
        Err(Error::DoesNotCompile { diagnostics, .. }) => Some(diagnostics),
        Err(_) => None,
    }
}

/// All types of the newest kernel that is known, as `testbench/types` writes them.
fn whole_types() -> Result<String, Error> {
    let bytes = zstd::decode_all(WHOLE_TYPES).map_err(|cause| Error::Scratch { cause })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Compiles the source; also returns which of the user's and the system's files clang has read.
fn compile_anew(
    source: &Path,
    build: &Build,
    clang: &Clang,
    folders: &[PathBuf],
) -> Result<(CompiledSource, Vec<PathBuf>), Error> {
    let mut compilation = Compilation::new(source, build, clang, folders)?;
    compilation.write_headers()?;
    let mut compiled = compilation.run_with_types()?;
    if has_arena(&compiled.object) {
        // When older versions of clang combine accesses into one copy, it uses arena addresses that are not those of the kernel's own mapping,
        // and the verifier refuses the program.
        compilation
            .options
            .extend(["-fno-builtin-memset".to_owned(), "-fno-builtin-memcpy".to_owned()]);
        compiled.object = compilation.run()?.object;
    }
    Ok((compiled, compilation.inputs()))
}

/// Whether the object has an arena.
fn has_arena(object: &[u8]) -> bool {
    fairground_bpf::Object::parse(object).is_ok_and(|object| {
        let mut maps = object.maps().iter();
        maps.any(|map| map.kind == fairground_bpf::map_kind::ARENA)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_of_the_users_source_and_what_lies_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let foreign = folder.path().join("foreign");
        std::fs::create_dir(&foreign).unwrap();
        let write = |path: PathBuf, text: &str| {
            std::fs::write(&path, text).unwrap();
            path
        };
        let divides = |name: &str| format!("static int {name}(int a)\n{{\n\treturn a / 0;\n}}\n");
        write(foreign.join("foreign.h"), &divides("foreign"));
        write(folder.path().join("beside.h"), &divides("beside"));
        let source = write(
            folder.path().join("mine.bpf.c"),
            "#include \"fairground.bpf.h\"\n#include <foreign.h>\n#include \"beside.h\"\n\nint sum(int a)\n{\n\treturn foreign(a) + beside(a);\n}\n",
        );
        let build = Build { include: vec![foreign], ..Build::default() };
        let warnings = compile_source(&source, &build).unwrap().warnings;
        assert!(warnings.contains("beside.h"), "{warnings}");
        assert!(!warnings.contains("foreign.h"), "{warnings}");
    }

    #[test]
    fn a_source_without_headers_of_its_own_compiles_against_the_embedded_ones() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("mine.bpf.c");
        std::fs::write(
            &source,
            r#"#include "fairground.bpf.h"
DEFINE_SCHEDULER(mine, .name = "mine");
"#,
        )
        .unwrap();
        let compiled = compile_source(&source, &Build::default()).unwrap();
        assert!(compiled.object.starts_with(b"\x7fELF"));
        assert_eq!(compiled.warnings, "");
    }

    const NEEDS_OTHER_TYPES: &str = r#"#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
int seen;
SEC("struct_ops/mine_running") void BPF_PROG(mine_running, struct task_struct *p)
{
	seen = p->MEMBER;
	scx_bpf_kick_cpu(0, SCX_KICK_IDLE);
}
SEC(".struct_ops.link") struct sched_ext_ops mine = { .running = (void *)mine_running, .name = "mine" };
"#;

    #[test]
    fn a_source_that_brings_no_types_gets_any_of_the_kernels() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("mine.bpf.c");
        let compile = |member| {
            std::fs::write(&source, NEEDS_OTHER_TYPES.replace("MEMBER", member)).unwrap();
            compile_source(&source, &Build::default())
        };
        // That of struct mempolicy is in a structure that the selection does not have at all.
        for member in ["scx.dsq_vtime", "numa_preferred_nid", "mempolicy->mode"] {
            assert_eq!(compile(member).unwrap().warnings, "", "{member}");
        }
        let error = compile("preferred_planet").unwrap_err().to_string();
        let expected = format!(
            "is that of Linux {}, without preferred_planet",
            fairground_linux::Release::NEWEST
        );
        assert!(error.contains(&expected), "{error}");
    }

    #[test]
    fn generated_types_that_were_not_generated_are_those_that_come_with_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("mine.bpf.c");
        let paths = ["../headers/vmlinux.h", ".output/vmlinux.h", "vmlinux/vmlinux-6.12.h"];
        for path in paths {
            let text = NEEDS_OTHER_TYPES.replace("MEMBER", "numa_preferred_nid");
            std::fs::write(&source, text.replace("\"vmlinux.h\"", &format!("\"{path}\""))).unwrap();
            let warnings = compile_source(&source, &Build::default()).unwrap().warnings;
            assert!(warnings.contains(&format!("There is no {path}: ")), "{warnings}");
        }
        std::fs::write(&source, "#include \"../../../../../../../etc/vmlinux.h\"\n").unwrap();
        assert!(compile_source(&source, &Build::default()).is_err());
    }

    #[test]
    fn types_of_a_folder_with_headers_that_lack_something_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let headers = folder.path().join("headers");
        std::fs::create_dir(&headers).unwrap();
        let types = "struct task_struct { int pid; };\nstruct sched_ext_ops { int none; };\n";
        std::fs::write(headers.join("vmlinux.h"), types).unwrap();
        let source = folder.path().join("mine.bpf.c");
        std::fs::write(&source, NEEDS_OTHER_TYPES.replace("MEMBER", "numa_preferred_nid")).unwrap();
        let build = Build { include: vec![headers], ..Build::default() };
        let warnings = compile_source(&source, &build).unwrap().warnings;
        assert!(warnings.contains("vmlinux.h lacks what"), "{warnings}");
        std::fs::write(&source, NEEDS_OTHER_TYPES.replace("MEMBER", "nowhere")).unwrap();
        let error = compile_source(&source, &build).unwrap_err().to_string();
        assert!(!error.contains("comes with fairground"), "{error}");
    }

    #[test]
    fn the_types_that_come_with_a_source_are_taken() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("mine.bpf.c");
        std::fs::write(&source, NEEDS_OTHER_TYPES.replace("MEMBER", "numa_preferred_nid")).unwrap();
        let types = "struct task_struct { int pid; };\nstruct sched_ext_ops { int none; };\n";
        std::fs::write(folder.path().join("vmlinux.h"), types).unwrap();
        let error = compile_source(&source, &Build::default()).unwrap_err();
        assert!(!error.to_string().contains("comes with fairground"), "{error}");
    }

    #[test]
    fn a_copy_of_a_built_in_source_compiles_without_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let scheduler = crate::find("ule").unwrap();
        assert!(!scheduler.headers.is_empty());
        let source = folder.path().join("mine.bpf.c");
        std::fs::write(&source, scheduler.source.as_bytes()).unwrap();
        let compiled = compile_source(&source, &Build::default()).unwrap();
        assert_eq!(compiled.warnings, "");
    }

    #[test]
    fn a_source_becomes_the_same_object_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("mine.bpf.c");
        let text = "#include \"fairground.bpf.h\"\nDEFINE_SCHEDULER(mine, .name = \"mine\");\n";
        std::fs::write(&source, text).unwrap();
        let compile = || compile_source(&source, &Build::default()).unwrap().object;
        assert!(compile() == compile());
    }

    #[test]
    fn what_was_compiled_before_comes_again_with_its_warnings_until_it_is_edited() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("mine.bpf.c");
        let header = folder.path().join("own.h");
        // Only a file that has not changed for a while is kept.
        let write = |path: &Path, text: &str| {
            std::fs::write(path, text).unwrap();
            let file = std::fs::File::options().append(true).open(path).unwrap();
            let before = SystemTime::now() - std::time::Duration::from_secs(1);
            file.set_modified(before).unwrap();
        };
        let text = "#include \"fairground.bpf.h\"\n#include \"own.h\"\n#warning by hand\n\
                    const volatile u64 own = OWN;\nDEFINE_SCHEDULER(mine, .name = \"mine\");\n";
        write(&source, text);
        write(&header, "#define OWN 1\n");
        let compile = || compile_source(&source, &Build::default()).unwrap();
        let first = compile();
        let again = compile();
        assert!(first.object == again.object);
        assert!(again.warnings.contains("by hand"), "{}", again.warnings);
        assert_eq!(first.warnings, again.warnings);
        write(&header, "#define OWN 2\n");
        assert!(compile().object != first.object);
        std::fs::remove_file(&header).unwrap();
        assert!(compile_source(&source, &Build::default()).is_err());
    }

    #[test]
    fn a_vmlinux_that_was_not_brought_has_the_kernels_functions_and_libcs_errors_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("small.bpf.c");
        std::fs::write(
            &source,
            r#"#include <vmlinux.h>
#include <errno.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

extern s32 scx_bpf_dsq_nr_queued(u64 dsq_id) __ksym;

char _license[] SEC("license") = "GPL";

SEC("struct_ops/enqueue")
int BPF_PROG(enqueue, struct task_struct *p, u64 enq_flags)
{
	if (scx_bpf_dsq_nr_queued(SCX_DSQ_GLOBAL) == EBUSY)
		bpf_printk("many");
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
	return 0;
}

SEC(".struct_ops.link")
struct sched_ext_ops small = {
	.enqueue = (void *)enqueue,
	.name = "small",
};
"#,
        )
        .unwrap();
        let compiled = compile_source(&source, &Build::default()).unwrap();
        assert_eq!(compiled.warnings, "");
    }

    #[test]
    fn the_users_headers_come_first() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("include")).unwrap();
        std::fs::write(folder.path().join("include/vmlinux.h"), "#error the user's own\n").unwrap();
        let source = folder.path().join("mine.bpf.c");
        std::fs::write(&source, "#include \"vmlinux.h\"\n").unwrap();
        let error = compile_source(&source, &Build::default()).unwrap_err().to_string();
        assert!(error.contains("the user's own"), "{error}");
    }

    #[test]
    fn what_does_not_compile_shows_what_clang_says_and_where() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("broken.bpf.c");
        std::fs::write(&source, "int a;\nint f(void) { return b; }\n").unwrap();
        let error = compile_source(&source, &Build::default()).unwrap_err().to_string();
        assert!(error.contains("does not compile to BPF"), "{error}");
        assert!(error.contains("broken.bpf.c:2:22: error"), "{error}");
    }

    #[test]
    fn for_what_often_goes_wrong_the_way_out_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let says = |text: &str| {
            let source = folder.path().join("mine.bpf.c");
            std::fs::write(&source, text).unwrap();
            compile_source(&source, &Build::default()).unwrap_err().to_string()
        };
        let headers = says("#include <scx/common.bpf.h>\n");
        assert!(headers.contains("with -I in which folder"), "{headers}");
        let old = says("int f(void) { return scx_bpf_consume(0); }\n");
        let new = "scx_bpf_consume() is called scx_bpf_dsq_move_to_local()";
        assert!(old.contains(new), "{old}");
    }

    #[test]
    fn a_missing_source_is_named() {
        let error = compile_source(Path::new("nowhere.bpf.c"), &Build::default()).unwrap_err();
        assert!(error.to_string().starts_with("cannot read nowhere.bpf.c"));
    }
}
