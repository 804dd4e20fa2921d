//! The project's rules about itself are the tests of this crate: `tests/architecture.rs` says what must be absent, `tests/budget.rs` how much there may
//! be. Here is how they find files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The project's folder.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folders of all crates, by name: those of `crates/`, and the libraries.
pub fn crates() -> BTreeMap<String, PathBuf> {
    let folders = ["crates", "lib"].map(|place| fs::read_dir(root().join(place)));
    let entries = folders.into_iter().flat_map(|entries| entries.expect("the folder is there"));
    let paths = entries.map(|entry| entry.expect("it can be read").path());
    let named = paths.filter(|path| path.is_dir()).map(|path| {
        let name = path.file_name().expect("it is an entry").to_string_lossy().into_owned();
        (name, path)
    });
    named.collect()
}

/// The files below a folder whose names end like this, in order; none if there is no such folder.
pub fn files(folder: &Path, suffix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path, suffix));
        } else if path.to_string_lossy().ends_with(suffix) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The text of a source without the tests at its end.
pub fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
}

/// The modules that a source declares for tests only, as `mod NAME;` after `#[cfg(test)]`.
pub fn test_modules(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split("#[cfg(test)]\n").skip(1);
    parts.filter_map(|part| part.lines().next()?.strip_suffix(';')?.split("mod ").nth(1))
}
