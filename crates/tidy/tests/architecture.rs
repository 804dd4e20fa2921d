//! The invariants of `ARCHITECTURE.md`: things that must be absent.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use fairground_tidy::{crates, files, root, test_modules, without_tests};

/// The code of a file without comments.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

/// The engine's sources, without modules that are tests.
fn engine() -> Vec<PathBuf> {
    let folder = root().join("crates/simulator/src");
    let modules = fs::read_to_string(folder.join("lib.rs")).unwrap();
    let is_test = |path: &PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy();
        test_modules(&modules).any(|module| module == name)
    };
    let mut found = files(&folder, ".rs");
    found.retain(|path| !is_test(path));
    assert!(found.len() > 15, "the engine's sources were not found");
    found
}

#[test]
fn files_that_the_architecture_names_are_there() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let folders = [
        "crates/",
        "docs/",
        "experiments/",
        "lib/",
        "schedulers/",
        "scripts/",
        "testbench/",
        "workloads/",
    ];
    let names: Vec<&str> = text
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|name| folders.iter().any(|folder| name.starts_with(folder)))
        .filter(|name| !name.contains(['<', ' ', '*']))
        .collect();
    assert!(names.len() > 30, "{names:?}");
    for name in names {
        assert!(root().join(name).exists(), "{name}");
    }
}

#[test]
fn the_engine_reads_no_wall_clock_and_no_environment() {
    for path in engine() {
        let code = code(&path);
        for word in ["Instant", "SystemTime", "std::time", "std::env", "thread_rng", "getrandom"] {
            assert!(!code.contains(word), "{} uses {word}", path.display());
        }
    }
}

#[test]
fn the_engine_iterates_no_unordered_map() {
    for path in engine() {
        let code = code(&path);
        // Hash maps are for look-ups, with a fixed hasher, in one place that offers no iteration.
        let may = ["dsq_table.rs"];
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if may.contains(&name.as_str()) {
            for method in [".iter()", ".values()", ".keys()", ".drain("] {
                assert!(!code.contains(method), "{} iterates", path.display());
            }
        } else {
            assert!(
                !code.contains("HashMap") && !code.contains("HashSet"),
                "{} uses an unordered map",
                path.display()
            );
        }
    }
}

#[test]
fn the_engine_names_no_scheduler() {
    let folder = root().join("schedulers");
    let mut ids = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.path().join("scheduler.toml").is_file() {
            ids.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    assert!(ids.len() >= 3);
    for path in engine() {
        let text = fs::read_to_string(&path).unwrap();
        for id in &ids {
            let names_it =
                text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| word == id);
            assert!(!names_it, "{} names {id}", path.display());
        }
    }
}

#[test]
fn metrics_and_engine_do_not_know_each_other() {
    assert!(!manifest("metrics").contains("fairground-simulator"));
    assert!(!manifest("report").contains("fairground-simulator"));
    let engine = manifest("simulator");
    let dependencies = engine.split("[dev-dependencies]").next().unwrap();
    assert!(!dependencies.contains("fairground-metrics"));
    assert!(!manifest("events").contains("fairground-simulator"));
}

/// The manifest of a crate.
fn manifest(name: &str) -> String {
    fs::read_to_string(crates()[name].join("Cargo.toml")).unwrap()
}

/// The crates of the project that a crate's manifest names, without those of its tests.
fn used_by(name: &str) -> BTreeSet<String> {
    let text = manifest(name);
    let ours = text.split("[dev-dependencies]").next().unwrap().lines();
    ours.filter_map(|line| line.strip_prefix("fairground-")?.split('.').next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn crates_use_each_other_as_the_table_says() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let mut found = 0;
    for line in text.lines().filter(|line| line.starts_with("| `")) {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let folder = columns[1].trim_matches('`');
        let name = folder.strip_prefix("crates/").or(folder.strip_prefix("lib/"));
        let Some(name) = name.filter(|name| !name.is_empty()) else { continue };
        let uses = columns[3].split(", ").filter(|one| !one.is_empty());
        let told: BTreeSet<String> = uses.map(str::to_owned).collect();
        assert_eq!(used_by(name), told, "{name}");
        found += 1;
    }
    assert_eq!(found, crates().len(), "a crate has no room in the table");
}

#[test]
fn libraries_know_nothing_of_schedulers_under_test() {
    let may = ["bpf", "events", "files", "machine", "workload"].map(str::to_owned);
    for (name, folder) in
        crates().iter().filter(|(_, folder)| folder.starts_with(root().join("lib")))
    {
        let used = used_by(name);
        assert!(used.is_subset(&BTreeSet::from(may.clone())), "{name} uses {used:?}");
        let page = fs::read_to_string(folder.join("README.md")).unwrap();
        let told = ["Interface: **stable**", "Interface: **never a boundary**"];
        assert!(told.iter().any(|words| page.contains(words)), "{name}: what is its interface?");
    }
}

/// Circles of modules, by crate: the only ones there may be, until somebody cuts them. A module is a file of `src` or a folder with all of its files, and
/// it uses the modules whose names follow `crate::` in its code.
const CIRCLES: [(&str, &str); 3] = [
    ("bpf", "blocks check constants frame kernel_loads link"),
    ("bpf", "code translated"),
    (
        "simulator",
        "beside clock core deadline_server dispatch_queue dsq_table elements exit groups hardware idle kernel kfunc linker maps memory \
         operations preparation program restart scheduler shortfalls simulation strays surroundings task tasks timers tracing",
    ),
];

/// The modules that follow `crate::` in the code: one, or several in braces.
fn names_after_crate(code: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let first =
        |text: &str| -> String { text.trim_start().chars().take_while(|c| is_name(*c)).collect() };
    let mut found = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        let Some(group) = rest.strip_prefix('{') else {
            found.insert(first(rest));
            continue;
        };
        let mut depth = 1;
        found.insert(first(group));
        for (place, character) in group.char_indices() {
            match character {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => _ = found.insert(first(&group[place + 1..])),
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    found
}

/// The modules of a crate, each with those that it uses itself.
fn modules(name: &str) -> BTreeMap<String, BTreeSet<String>> {
    let folder = crates()[name].join("src");
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in files(&folder, ".rs") {
        let inner = path.strip_prefix(&folder).unwrap();
        let first = inner.iter().next().unwrap().to_string_lossy();
        let module = first.trim_end_matches(".rs").to_owned();
        if module == "lib" || module == "main" {
            continue;
        }
        let code = code(&path);
        found.entry(module).or_default().extend(names_after_crate(without_tests(&code)));
    }
    let names: BTreeSet<String> = found.keys().cloned().collect();
    for (module, used) in &mut found {
        used.retain(|one| one != module && names.contains(one));
    }
    found
}

/// Each set of modules that all reach one another, their names in order.
fn circles(modules: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let reached = |from: &String| {
        let mut seen = BTreeSet::new();
        let mut left = vec![from];
        while let Some(next) = left.pop() {
            left.extend(modules[next].iter().filter(|one| seen.insert((*one).clone())));
        }
        seen
    };
    let reach: BTreeMap<&String, BTreeSet<String>> =
        modules.keys().map(|one| (one, reached(one))).collect();
    let in_circle = modules.keys().filter(|one| reach[one].contains(*one));
    let circle = |one: &String| {
        let others = reach[one].iter().filter(|other| reach[other].contains(one));
        others.cloned().collect::<Vec<_>>().join(" ")
    };
    in_circle.map(circle).collect()
}

#[test]
fn modules_use_each_other_in_no_circles_but_the_known_ones() {
    for name in crates().into_keys() {
        let own = CIRCLES.iter().filter(|(of, _)| *of == name);
        let known: BTreeSet<String> = own.map(|(_, circle)| (*circle).to_owned()).collect();
        assert_eq!(
            circles(&modules(&name)),
            known,
            "{name}: a new circle is to be cut; one that has become smaller is to be told so in the list"
        );
    }
}

#[test]
fn circles_are_found() {
    let code = "use crate::a::{b, c};\nuse crate::{\n    d::{e, f},\n    g,\n};\ncrate::h(1, 2)";
    let expected = ["a", "d", "g", "h"].map(str::to_owned);
    let mut names = names_after_crate(code);
    names.remove("");
    assert_eq!(names, BTreeSet::from(expected));
    let uses = [("a", "b"), ("b", "c"), ("c", "a"), ("d", "a"), ("e", "f")];
    let mut modules: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (from, to) in uses {
        modules.entry(to.to_owned()).or_default();
        modules.entry(from.to_owned()).or_default().insert(to.to_owned());
    }
    assert_eq!(circles(&modules), BTreeSet::from(["a b c".to_owned()]));
}

#[test]
fn who_produces_results_does_not_know_how_they_look() {
    for producer in ["metrics", "results", "simulator", "lab", "kernel"] {
        assert!(!used_by(producer).contains("report"), "{producer}");
    }
}

#[test]
fn none_but_the_command_prints() {
    for path in crates().values().flat_map(|folder| files(folder, ".rs")) {
        let place = path.display().to_string();
        let is_source = place.contains("/src/") && !place.contains("crates/cli/");
        for word in ["println!", "print!(", "dbg!("] {
            assert!(!is_source || !code(&path).contains(word), "{place}: {word}");
        }
    }
}

#[test]
fn schedulers_do_not_know_their_world() {
    let mut own = files(&root().join("schedulers"), ".bpf.c");
    assert!(own.len() >= 3);
    own.extend(files(&root().join("schedulers"), ".h"));
    own.retain(|path| !path.starts_with(root().join("schedulers/include")));
    for path in own {
        let text = fs::read_to_string(&path).unwrap();
        for line in text.lines() {
            let line = line.trim();
            assert!(
                !line.starts_with("#ifdef") && !line.starts_with("#ifndef"),
                "{}: {line}",
                path.display()
            );
            if let Some(header) = line.strip_prefix("#include ") {
                assert!(header.starts_with('"'), "{}: {line}", path.display());
            }
        }
    }
}

/// The embedded ones are one folder to a copy of a scheduler's source.
#[test]
fn no_two_headers_have_the_same_name() {
    let mut seen = BTreeSet::new();
    for path in files(&root().join("schedulers"), ".h") {
        let name = path.file_name().unwrap().to_owned();
        assert!(seen.insert(name), "{} is the second one", path.display());
    }
}

#[test]
fn a_header_that_one_scheduler_uses_lies_in_its_folder() {
    let includes = |path: &Path, name: &str| {
        let text = fs::read_to_string(path).unwrap();
        text.lines().any(|line| line == format!("#include \"{name}\""))
    };
    let mut sources = files(&root().join("schedulers"), ".bpf.c");
    sources.extend(files(&root().join("schedulers"), ".h"));
    for path in files(&root().join("schedulers/include"), ".h") {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let mut users = sources.iter().filter(|one| includes(one, &name));
        let Some(first) = users.next() else { continue };
        assert!(
            users.next().is_some() || first.starts_with(root().join("schedulers/include")),
            "{name} belongs beside {}",
            first.display()
        );
    }
}

/// The functions that a row of the table of mechanisms names, and the files in which it says they are.
#[test]
fn mechanisms_are_in_the_files_that_the_tables_name() {
    let schedulers = root().join("schedulers");
    let mut rows = 0;
    for readme in files(&schedulers, "README.md") {
        let folder = readme.parent().unwrap();
        let id = folder.file_name().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&readme).unwrap();
        let table = text.lines().skip_while(|line| !line.starts_with("| mechanism"));
        for row in table.take_while(|line| line.starts_with('|')).skip(2) {
            let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
            let named = cells.get(2).copied().unwrap_or_default();
            let mut code = fs::read_to_string(folder.join(format!("{id}.bpf.c"))).unwrap();
            for header in named.split('`').filter(|part| part.ends_with(".h")) {
                let own = folder.join(header);
                let shared = schedulers.join("include").join(header);
                code += &fs::read_to_string(if own.is_file() { own } else { shared })
                    .unwrap_or_else(|error| panic!("{id}: {header}: {error}"));
            }
            for name in cells[1].split('`').filter_map(|part| part.strip_suffix("()")) {
                let is_there = code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                assert!(
                    is_there.into_iter().any(|word| word == name),
                    "{id}: {name}() is not where the row says: {row}"
                );
            }
            rows += 1;
        }
    }
    assert!(rows > 300, "{rows} rows");
}
