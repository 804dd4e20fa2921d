//! Compiles every scheduler to BPF and embeds it, with its manifest, its texts, its own headers, and those that a user's own
//! scheduler is compiled against.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[allow(dead_code)]
#[path = "../contract/src/attributes.rs"]
mod attributes;
#[allow(dead_code)]
#[path = "src/clang.rs"]
mod clang;
#[allow(dead_code)]
#[path = "src/error.rs"]
mod error;
#[allow(dead_code)]
#[path = "src/manifest.rs"]
mod manifest;
mod strip;
#[allow(dead_code)]
#[path = "src/tunable.rs"]
mod tunable;

use clang::Clang;
use error::Error;
use manifest::Manifest;

fn main() -> ExitCode {
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<(), Error> {
    let package = directory("CARGO_MANIFEST_DIR");
    let output = directory("OUT_DIR");
    let libbpf = directory("DEP_BPF_INCLUDE");
    let workspace = package.join("../..").canonicalize().unwrap_or(package);
    let schedulers = workspace.join("schedulers");
    let headers = schedulers.join("include");

    println!("cargo:rerun-if-env-changed=CLANG");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=strip.rs");
    // Not the whole folder: tests lie in it, too. The list of tests has a line for each scheduler, so it changes with a new one.
    println!("cargo:rerun-if-changed={}", schedulers.join("tests.rs").display());
    println!("cargo:rerun-if-changed={}", headers.display());

    let clang = Clang::find()?;
    let mut code = String::from("&[\n");
    let mut texts = Headers::default();
    for folder in entries(&schedulers)? {
        if !folder.is_dir() || folder == headers {
            continue;
        }
        let id = name_of(&folder);
        let parts = ["scheduler.toml", &format!("{id}.bpf.c"), "README.md"];
        if let Some(part) = parts.iter().find(|part| !folder.join(part).is_file()) {
            println!("cargo:warning=schedulers/{id} has no {part} and is left out");
            continue;
        }
        // A copy of a scheduler's source is compiled against its headers, too.
        let own = texts.add(&folder, "")?;
        embed(clang, &workspace, &folder, &own, &libbpf, &output, &mut code)?;
    }
    code.push_str("]\n");
    write(&output.join("schedulers.rs"), code.as_bytes())?;

    texts.add(&headers, "")?;
    texts.add(&libbpf.join("bpf"), "bpf/")?;
    texts.write(&output)
}

/// Checks and compiles one scheduler and writes its entry of the table.
fn embed(
    clang: &Clang,
    workspace: &Path,
    folder: &Path,
    headers: &[String],
    libbpf: &Path,
    output: &Path,
    code: &mut String,
) -> Result<(), Error> {
    let id = name_of(folder);
    let manifest_name = format!("schedulers/{id}/scheduler.toml");
    let manifest_file = folder.join("scheduler.toml");
    let text = std::fs::read_to_string(&manifest_file).map_err(|cause| Error::File {
        action: "read",
        path: manifest_file.clone(),
        cause,
    })?;
    let manifest = Manifest::parse(&text, &manifest_name)?;
    if manifest.id != id {
        return Err(Error::Manifest {
            place: manifest_name,
            message: format!("the id is {:?}, the folder's name is {id:?}", manifest.id),
        });
    }

    let source = folder.join(format!("{id}.bpf.c"));
    let readme = folder.join("README.md");
    for file in [&manifest_file, &source, &readme] {
        println!("cargo:rerun-if-changed={}", file.display());
    }
    // The object carries no path of this machine, so that it is the same wherever it is built.
    let prefix = |name: &str| format!("-ffile-prefix-map={name}");
    let options = [
        "-Wall".to_owned(),
        "-Werror".to_owned(),
        "-fdebug-compilation-dir=.".to_owned(),
        prefix(&format!("{}/=", workspace.display())),
        prefix(&format!("{}/=", libbpf.display())),
    ];
    let object = output.join(format!("{id}.bpf.o"));
    let includes = [workspace.join("schedulers/include"), libbpf.to_owned()];
    clang.compile(&source, ("-I", &includes), &options, &object)?;
    let whole = std::fs::read(&object).map_err(|cause| Error::File {
        action: "read",
        path: object.clone(),
        cause,
    })?;
    let packed = miniz_oxide::deflate::compress_to_vec(&strip::without_dwarf(&whole), 6);
    write(&object, &packed)?;

    let _ = writeln!(
        code,
        "    Embedded {{ manifest_file: {manifest_name:?}, manifest: include_str!({manifest_file:?}), \
         source_file: \"schedulers/{id}/{id}.bpf.c\", source: include_str!({source:?}), \
         headers: &{headers:?}, readme: include_str!({readme:?}), object: include_bytes!({object:?}) }},"
    );
    Ok(())
}

/// The headers that come with the program: names with the lengths of their texts, and the texts one after the other, which are packed together.
#[derive(Default)]
struct Headers {
    names: Vec<(String, usize)>,
    texts: Vec<u8>,
}

impl Headers {
    /// Adds the headers of a folder; returns their names in the folder.
    fn add(&mut self, folder: &Path, prefix: &str) -> Result<Vec<String>, Error> {
        let mut added = Vec::new();
        for file in entries(folder)? {
            if file.extension().is_some_and(|extension| extension == "h") {
                println!("cargo:rerun-if-changed={}", file.display());
                let text = std::fs::read(&file).map_err(|cause| Error::File {
                    action: "read",
                    path: file.clone(),
                    cause,
                })?;
                let name = name_of(&file);
                self.names.push((format!("{prefix}{name}"), text.len()));
                self.texts.extend(text);
                added.push(name);
            }
        }
        Ok(added)
    }

    fn write(&self, output: &Path) -> Result<(), Error> {
        let packed = miniz_oxide::deflate::compress_to_vec(&self.texts, 9);
        write(&output.join("headers.packed"), &packed)?;
        let names = format!("&{:?}\n", self.names);
        write(&output.join("headers.rs"), names.as_bytes())
    }
}

fn directory(variable: &str) -> PathBuf {
    PathBuf::from(std::env::var_os(variable).unwrap_or_else(|| panic!("cargo sets {variable}")))
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The contents of a folder, sorted by name.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |cause| Error::File { action: "read", path: folder.to_owned(), cause };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort();
    Ok(paths)
}

fn write(path: &Path, content: &[u8]) -> Result<(), Error> {
    std::fs::write(path, content).map_err(|cause| Error::File {
        action: "write",
        path: path.to_owned(),
        cause,
    })
}
