//! A user's own scheduler: compiled when it is asked for.

use std::path::{Path, PathBuf};

use crate::clang::Clang;
use crate::error::Error;
use crate::linker::Linker;

/// The headers that come with the program: ours, with the fallback `vmlinux.h`, and libbpf's under `bpf/`.
const HEADERS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/headers.rs"));

/// A compiled scheduler.
#[derive(Clone, Debug)]
pub struct CompiledSource {
    /// The BPF object.
    pub object: Vec<u8>,
    /// clang's warnings, empty if there are none.
    pub warnings: String,
}

/// How a user's sources are compiled.
#[derive(Clone, Debug, Default)]
pub struct Build {
    /// Folders with headers, searched before all others.
    pub include: Vec<PathBuf>,
    /// Macros, as `NAME` or `NAME=VALUE`.
    pub defines: Vec<String>,
}

/// Compiles sched_ext C sources of the user's own to one BPF object: what several define together is linked as libbpf does it.
///
/// # Errors
///
/// If a source cannot be read or does not compile, or if they cannot be linked.
pub fn compile_sources(sources: &[PathBuf], build: &Build) -> Result<CompiledSource, Error> {
    let [first, others @ ..] = sources else {
        return Err(Error::Link {
            message: "no sources".to_owned(),
        });
    };
    let mut compiled = compile_source(first, build)?;
    if others.is_empty() {
        return Ok(compiled);
    }
    let scratch = scratch_folder()?;
    let linked = scratch.path().join("linked.o");
    let mut linker = Linker::new(&linked)?;
    for (number, source) in sources.iter().enumerate() {
        let one = match number {
            0 => std::mem::take(&mut compiled.object),
            _ => {
                let one = compile_source(source, build)?;
                compiled.warnings += &one.warnings;
                one.object
            }
        };
        // The linker names files in its messages.
        let name = source.file_name().unwrap_or_default().to_string_lossy();
        let file = scratch.path().join(format!("{number}-{name}.o"));
        std::fs::write(&file, one).map_err(|cause| Error::File {
            action: "write",
            path: file.clone(),
            cause,
        })?;
        linker.add_file(&file)?;
    }
    linker.link()?;
    compiled.object = std::fs::read(&linked).map_err(|cause| Error::File {
        action: "read",
        path: linked.clone(),
        cause,
    })?;
    Ok(compiled)
}

/// The headers of scx, if the source lies in a copy of its repository: `include` and `vmlinux` of the first folder above, or of
/// its `scheds`, that has `include/scx/common.bpf.h`. Links are followed only where the way as it is written has none.
fn headers_of_scx(source: &Path) -> Vec<PathBuf> {
    let written = std::path::absolute(source).unwrap_or_else(|_| source.to_owned());
    let whole = std::fs::canonicalize(source).unwrap_or_else(|_| source.to_owned());
    let above = written.ancestors().chain(whole.ancestors());
    let home = above
        .flat_map(|folder| [folder.to_owned(), folder.join("scheds")])
        .find(|folder| folder.join("include/scx/common.bpf.h").is_file());
    let folders = home.into_iter().flat_map(|home| {
        ["include", "include/bpf-compat", "vmlinux"].map(|folder| home.join(folder))
    });
    folders.filter(|folder| folder.is_dir()).collect()
}

fn scratch_folder() -> Result<tempfile::TempDir, Error> {
    tempfile::tempdir().map_err(|cause| Error::File {
        action: "write",
        path: std::env::temp_dir(),
        cause,
    })
}

/// Compiles a sched_ext C source of the user's own to a BPF object.
///
/// Headers are looked for in this order: the folders of `build`, the source's folder, its `include` folder and that of
/// the folder above, those of scx if the source is part of it, libbpf's headers as they come with this program, and last the
/// project's own, which bring a `vmlinux.h` for sources that come without one.
///
/// # Errors
///
/// If the source cannot be read or does not compile.
pub fn compile_source(source: &Path, build: &Build) -> Result<CompiledSource, Error> {
    std::fs::metadata(source).map_err(|cause| Error::File {
        action: "read",
        path: source.to_owned(),
        cause,
    })?;
    let clang = Clang::find()?;
    let scratch = scratch_folder()?;
    let libbpf = scratch.path().join("libbpf");
    let ours = scratch.path().join("include");
    for (name, text) in HEADERS {
        let root = if name.starts_with("bpf/") {
            &libbpf
        } else {
            &ours
        };
        let path = root.join(name);
        let folder = path.parent().unwrap_or(root);
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&path, text))
            .map_err(|cause| Error::File {
                action: "write",
                path: path.clone(),
                cause,
            })?;
    }

    let mut directories = build.include.clone();
    let folder = match source.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    directories.push(folder.clone());
    for candidate in [folder.join("include"), folder.join("../include")] {
        if candidate.is_dir() {
            directories.push(candidate);
        }
    }
    directories.extend(headers_of_scx(source));
    directories.push(libbpf);
    directories.push(ours);

    // What the kernel's own build of such schedulers switches off: the two warnings are about the macros that declare
    // callbacks, and newer versions of clang make errors of them.
    let mut options = vec![
        "-Wno-compare-distinct-pointer-types".to_owned(),
        "-Wno-incompatible-function-pointer-types".to_owned(),
    ];
    options.extend(build.defines.iter().map(|define| format!("-D{define}")));
    let object_file = scratch.path().join("object.o");
    let warnings = clang.compile(source, &directories, &options, &object_file)?;
    let object = std::fs::read(&object_file).map_err(|cause| Error::File {
        action: "read",
        path: object_file.clone(),
        cause,
    })?;
    Ok(CompiledSource { object, warnings })
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn the_users_headers_come_first() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("include")).unwrap();
        std::fs::write(
            folder.path().join("include/vmlinux.h"),
            "#error the user's own\n",
        )
        .unwrap();
        let source = folder.path().join("mine.bpf.c");
        std::fs::write(&source, "#include \"vmlinux.h\"\n").unwrap();
        let error = compile_source(&source, &Build::default())
            .unwrap_err()
            .to_string();
        assert!(error.contains("the user's own"), "{error}");
    }

    #[test]
    fn what_does_not_compile_shows_what_clang_says_and_where() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("broken.bpf.c");
        std::fs::write(&source, "int a;\nint f(void) { return b; }\n").unwrap();
        let error = compile_source(&source, &Build::default())
            .unwrap_err()
            .to_string();
        assert!(error.contains("does not compile to BPF"), "{error}");
        assert!(error.contains("broken.bpf.c:2:22: error"), "{error}");
    }

    #[test]
    fn sources_are_linked_and_macros_set() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (
            folder.path().join("one.bpf.c"),
            folder.path().join("two.bpf.c"),
        );
        let first = r#"#include "fairground.bpf.h"
int chosen(void);
s32 BPF_STRUCT_OPS(mine_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags) { return chosen(); }
DEFINE_SCHEDULER(mine, .select_cpu = (void *)mine_select_cpu, .name = "mine");
"#;
        std::fs::write(&one, first).unwrap();
        let second = "#include \"vmlinux.h\"\nint chosen(void) { return CHOICE; }\n";
        std::fs::write(&two, second).unwrap();
        let build = Build {
            defines: vec!["CHOICE=3".to_owned()],
            ..Build::default()
        };
        let compiled = compile_sources(&[one.clone(), two], &build).unwrap();
        let object = fairground_bpf::Object::parse(&compiled.object).unwrap();
        assert!(object.externs().iter().all(|one| one.name != "chosen"));
        let twice = compile_sources(&[one.clone(), one], &build).unwrap_err();
        assert!(twice.to_string().starts_with("cannot link"), "{twice}");
    }

    #[test]
    fn a_missing_source_is_named() {
        let error = compile_source(Path::new("nowhere.bpf.c"), &Build::default()).unwrap_err();
        assert!(error.to_string().starts_with("cannot read nowhere.bpf.c"));
    }
}
