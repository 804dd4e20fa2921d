//! How much there may be of everything: `tidy.toml`. Code grows faster than anybody can read it, unless something asks for whom.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use fairground_tidy::{crates, files, root, test_modules, without_tests};

/// Files of more bytes are in the list of large ones.
const LARGE: u64 = 200_000;
/// The columns of a line of C, in which a tab goes to the next multiple of eight.
const COLUMNS: usize = 100;
/// A number of lines or words may be this much too high, by which it is rounded up when it is written.
const GRAIN: usize = 50;
/// The release of Linux that the model follows; a new one has to replace its name everywhere.
const RELEASE: &str = "7.3";

/// Folders whose files are found by looking into them, and files that tools look for by their names.
const FOUND: [&str; 22] = [
    "companions/",
    "crates/fuzz/corpus/",
    "crates/simulator/tests/accepted/",
    "crates/simulator/tests/refused/",
    "docs/schema/",
    "experiments/",
    "loads/",
    "python/tests/",
    "workloads/check/",
    "/main.rs",
    "/lib.rs",
    "/mod.rs",
    "/build.rs",
    "Cargo.toml",
    "Cargo.lock",
    "README.md",
    "CITATION.cff",
    "LICENSE",
    "SECURITY.md",
    "action.yml",
    "pyproject.toml",
    "rustfmt.toml",
];

/// The beginning of `tidy.toml`.
const HEAD: &str = "\
# How much there may be: crates/tidy/tests/budget.rs. Written by FAIRGROUND_REFRESH=1 cargo test -p fairground-tidy; a number goes up in a
# commit of its own, whose message says for whom.
";

/// The project's files by their paths, in order; `None` without a repository, as in a release.
fn tracked() -> Option<Vec<String>> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output().ok()?;
    let text = String::from_utf8(listed.stdout).ok().filter(|_| listed.status.success())?;
    let names = text.split_terminator('\0').map(str::to_owned);
    Some(names.filter(|name| root().join(name).is_file()).collect())
}

/// Lines of Rust of a folder: source, and tests.
fn lines(folder: &Path) -> [usize; 2] {
    let sources = files(folder, ".rs");
    let mut tests = BTreeSet::new();
    for path in &sources {
        let text = fs::read_to_string(path).unwrap();
        let home = match path.file_stem().unwrap().to_str().unwrap() {
            "lib" | "main" | "mod" => path.parent().unwrap().to_owned(),
            _ => path.with_extension(""),
        };
        for module in test_modules(&text) {
            tests.extend([home.join(format!("{module}.rs")), home.join(module).join("mod.rs")]);
        }
    }
    let mut counts = [0; 2];
    for path in &sources {
        let text = fs::read_to_string(path).unwrap();
        let all = text.lines().count();
        let is_source =
            path.strip_prefix(folder).unwrap().starts_with("src") && !tests.contains(path);
        let source = if is_source { without_tests(&text).lines().count() } else { 0 };
        counts[0] += source;
        counts[1] += all - source;
    }
    counts
}

/// The numbers that have an upper bound.
fn numbers() -> BTreeMap<String, usize> {
    let mut numbers = BTreeMap::new();
    let mut tests = lines(&root().join("schedulers"))[1];
    for (name, folder) in crates() {
        let [source, of_tests] = lines(&folder);
        numbers.insert(name, source);
        tests += of_tests;
    }
    let read = |path: &PathBuf| fs::read_to_string(path).unwrap();
    let of_c = [".c", ".h"].map(|suffix| files(&root().join("schedulers"), suffix)).concat();
    let of_c = of_c.iter().map(read).collect::<String>();
    let mut documents = files(&root().join("docs"), ".md");
    documents.extend(["README.md", "ARCHITECTURE.md"].map(|name| root().join(name)));
    numbers.insert("tests in Rust".to_owned(), tests);
    numbers.insert("C of the schedulers".to_owned(), of_c.lines().count());
    let columns = |line: &str| {
        line.chars().fold(0, |at, one| if one == '\t' { at / 8 * 8 + 8 } else { at + 1 })
    };
    let is_long = |line: &&str| columns(line) > COLUMNS;
    numbers
        .insert(format!("C of more than {COLUMNS} columns"), of_c.lines().filter(is_long).count());
    let words = documents.iter().map(|path| read(path).split_whitespace().count());
    numbers.insert("words of the documents".to_owned(), words.sum());
    numbers
}

/// The files that are too large to read.
fn large(tracked: &[String]) -> BTreeSet<String> {
    let size = |name: &String| fs::metadata(root().join(name)).unwrap().len();
    tracked.iter().filter(|name| size(name) > LARGE).cloned().collect()
}

/// The sources that name the release, which is no part of a longer number.
fn of_release(tracked: &[String]) -> BTreeSet<String> {
    let is_source = |name: &&String| {
        let kinds = [".rs", ".c", ".h", ".txt", ".py", ".sh", ".toml"];
        !name.contains("Cargo")
            && kinds.iter().any(|kind| name.ends_with(kind))
            && !name.starts_with("experiments/")
            || ["scripts/", "testbench/"].iter().any(|folder| name.starts_with(folder))
    };
    let names_it = |name: &&String| {
        let text = fs::read_to_string(root().join(name)).unwrap_or_default();
        text.match_indices(RELEASE).any(|(place, _)| {
            let before = text[..place].chars().next_back();
            let after = text[place + RELEASE.len()..].chars().next();
            !before.is_some_and(|one| one.is_ascii_digit() || one == '.')
                && !after.is_some_and(|one| one.is_ascii_digit())
        })
    };
    tracked.iter().filter(is_source).filter(names_it).cloned().collect()
}

/// The files whose names, with or without an ending, occur in no other file. Files that are found by looking into their folder are not looked at.
fn unused(tracked: &[String]) -> BTreeSet<String> {
    let is_word = |one: char| one.is_ascii_alphanumeric() || "-_".contains(one);
    // The only file in which a word occurs, or none if there are several.
    let mut users: HashMap<String, Option<usize>> = HashMap::new();
    for (number, name) in tracked.iter().enumerate().filter(|(_, name)| *name != "tidy.toml") {
        let text = fs::read_to_string(root().join(name)).unwrap_or_default();
        for word in text.split(|one| !is_word(one)).filter(|word| !word.is_empty()) {
            match users.get_mut(word) {
                Some(user) if *user != Some(number) => *user = None,
                Some(_) => {}
                None => _ = users.insert(word.to_owned(), Some(number)),
            }
        }
    }
    let is_found_by_its_folder = |name: &str| {
        let is_test_program = name.split("/tests/").nth(1);
        name.starts_with('.')
            || FOUND.iter().any(|place| name.starts_with(place) || name.ends_with(place))
            || is_test_program.is_some_and(|rest| name.ends_with(".rs") && !rest.contains('/'))
    };
    let is_used = |number: usize, name: &str| {
        let file = name.rsplit('/').next().unwrap_or_default();
        let stem = file.split('.').next().unwrap_or_default();
        users.get(stem).is_some_and(|user| *user != Some(number))
    };
    let named = tracked.iter().enumerate().filter(|(_, name)| !is_found_by_its_folder(name));
    named.filter(|(number, name)| !is_used(*number, name)).map(|(_, name)| name.clone()).collect()
}

/// The text of `tidy.toml` for the project as it is.
fn present() -> Option<String> {
    let tracked = tracked()?;
    let mut text = HEAD.to_owned();
    text.push_str("\n[at-most]\n");
    for (name, number) in numbers() {
        let key = if name.contains(' ') { format!("{name:?}") } else { name };
        writeln!(text, "{key} = {}", number.next_multiple_of(GRAIN)).unwrap();
    }
    let lists = [
        (format!("Files of more than {LARGE} bytes."), "large", large(&tracked)),
        ("Files that no other file names.".to_owned(), "unused", unused(&tracked)),
        (
            "Sources that name the newest release of Linux.".to_owned(),
            "release",
            of_release(&tracked),
        ),
    ];
    for (what, name, list) in lists {
        let list: String = list.iter().map(|file| format!("    {file:?},\n")).collect();
        write!(text, "\n# {what}\n[{name}]\nfiles = [\n{list}]\n").unwrap();
    }
    Some(text)
}

#[test]
fn there_is_no_more_than_the_budget_allows() {
    let path = root().join("tidy.toml");
    let Some(now) = present() else { return };
    if std::env::var_os("FAIRGROUND_REFRESH").is_some() {
        fs::write(&path, now).unwrap();
        return;
    }
    let told = fs::read_to_string(&path).unwrap();
    let [told, now] = [told, now].map(|text| text.parse::<toml::Table>().unwrap());
    let mut problems = String::new();
    for (name, number) in now["at-most"].as_table().unwrap() {
        let number = number.as_integer().unwrap();
        let most = told["at-most"].get(name).and_then(toml::Value::as_integer).unwrap_or(0);
        if number > most {
            writeln!(problems, "{name}: {number} lines or words, {most} are allowed").unwrap();
        } else if number + number / 20 + 4 * GRAIN as i64 <= most {
            writeln!(problems, "{name}: only {number} are left of {most}, which is to be told")
                .unwrap();
        }
    }
    for list in ["large", "unused", "release"] {
        let files = |table: &toml::Table| -> BTreeSet<String> {
            let files = table[list]["files"].as_array().unwrap().iter();
            files.map(|file| file.as_str().unwrap().to_owned()).collect()
        };
        let [told, now] = [files(&told), files(&now)];
        for file in now.difference(&told) {
            writeln!(problems, "{list}: {file} is new").unwrap();
        }
        for file in told.difference(&now) {
            writeln!(problems, "{list}: {file} need not be listed any more").unwrap();
        }
    }
    assert!(
        problems.is_empty(),
        "{problems}FAIRGROUND_REFRESH=1 cargo test -p fairground-tidy writes tidy.toml as it is now; numbers go up in a commit of their own that says for whom"
    );
}

#[test]
fn tests_are_told_from_sources() {
    let text = "use a;\n#[cfg(test)]\nmod cases;\nfn f() {}\n#[cfg(test)]\nmod tests {\n}\n";
    assert_eq!(without_tests(text).lines().count(), 4);
    assert_eq!(test_modules(text).collect::<Vec<_>>(), ["cases"]);
}
