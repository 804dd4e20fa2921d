//! Compiles the BPF programs of the recorder and of the calibration.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    match compile() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Objects to make: name, source, definitions.
const OBJECTS: [(&str, &str, &[&str]); 7] = [
    ("recorder", "recorder", &[]),
    ("recorder_interrupts", "recorder", &["-DWATCH_INTERRUPTS"]),
    ("recording", "recording", &[]),
    ("recording_interrupts", "recording", &["-DWATCH_INTERRUPTS"]),
    ("calibrate_bare", "calibrate", &["-DBARE"]),
    ("calibrate_callbacks", "calibrate", &["-DCALLBACKS"]),
    ("calibrate_walk", "calibrate", &["-DWALK"]),
];

fn compile() -> Result<(), String> {
    println!("cargo:rerun-if-env-changed=CLANG");
    for input in ["build.rs", "bpf", "../../schedulers/include"] {
        println!("cargo:rerun-if-changed={input}");
    }
    OBJECTS
        .iter()
        .try_for_each(|(name, source, definitions)| compile_one(name, source, definitions))
}

fn compile_one(name: &str, source: &str, definitions: &[&str]) -> Result<(), String> {
    let headers = directory("DEP_BPF_INCLUDE")?;
    let object = directory("OUT_DIR")?.join(format!("{name}.bpf.o"));
    let source = format!("bpf/{source}.bpf.c");

    let named = env::var("CLANG").ok();
    let candidates = named.iter().map(String::as_str).chain(["clang-19", "clang"]);
    for clang in candidates {
        match Command::new(clang)
            .args(["-target", "bpf", "-mcpu=v3", "-g", "-O2", "-Wall", "-Werror"])
            .args(definitions)
            .args(["-c", &source])
            .arg("-I../../schedulers/include")
            .arg(include(&headers))
            .arg("-o")
            .arg(&object)
            .status()
        {
            Ok(status) if status.success() => return Ok(()),
            Ok(_) => {
                return Err(format!("{clang} cannot compile {source}; its messages are above"));
            }
            Err(_) => {}
        }
    }
    Err("no clang found: install clang 19 or newer (Debian: apt install clang-19), or name it in CLANG".to_owned())
}

fn directory(variable: &str) -> Result<PathBuf, String> {
    env::var_os(variable).map(PathBuf::from).ok_or_else(|| format!("cargo does not set {variable}"))
}

fn include(folder: &Path) -> std::ffi::OsString {
    let mut option = std::ffi::OsString::from("-I");
    option.push(folder);
    option
}
