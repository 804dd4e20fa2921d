//! A user's own scheduler: compiled when it is asked for.

use std::path::{Path, PathBuf};

use crate::clang::Clang;
use crate::error::Error;

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

/// Compiles a sched_ext C source of the user's own to a BPF object.
///
/// Headers are looked for in this order: `include_directories`, the source's folder, its `include` folder and that of
/// the folder above, libbpf's headers as they come with this program, and last the project's own, which bring a `vmlinux.h`
/// for sources that come without one.
pub fn compile_source(
    source: &Path,
    include_directories: &[PathBuf],
) -> Result<CompiledSource, Error> {
    std::fs::metadata(source).map_err(|cause| Error::File {
        action: "read",
        path: source.to_owned(),
        cause,
    })?;
    let clang = Clang::find()?;
    let scratch = tempfile::tempdir().map_err(|cause| Error::File {
        action: "write",
        path: std::env::temp_dir(),
        cause,
    })?;
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

    let mut directories = include_directories.to_vec();
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
    directories.push(libbpf);
    directories.push(ours);

    // What the kernel's own build of such schedulers switches off: the two warnings are about the macros that declare
    // callbacks, and newer versions of clang make errors of them.
    let options = [
        "-Wno-compare-distinct-pointer-types".to_owned(),
        "-Wno-incompatible-function-pointer-types".to_owned(),
    ];
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
        let compiled = compile_source(&source, &[]).unwrap();
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
        let error = compile_source(&source, &[]).unwrap_err().to_string();
        assert!(error.contains("the user's own"), "{error}");
    }

    #[test]
    fn what_does_not_compile_shows_what_clang_says_and_where() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("broken.bpf.c");
        std::fs::write(&source, "int a;\nint f(void) { return b; }\n").unwrap();
        let error = compile_source(&source, &[]).unwrap_err().to_string();
        assert!(error.contains("does not compile to BPF"), "{error}");
        assert!(error.contains("broken.bpf.c:2:22: error"), "{error}");
    }

    #[test]
    fn a_missing_source_is_named() {
        let error = compile_source(Path::new("nowhere.bpf.c"), &[]).unwrap_err();
        assert!(error.to_string().starts_with("cannot read nowhere.bpf.c"));
    }
}
