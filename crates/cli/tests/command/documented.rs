//! Commands and what they print, in the documents that show some, and in `tests/texts`, where they are the test.
//!
//! With `FAIRGROUND_REFRESH=1` in the environment the files get the output as it is now.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{end_of, folder};

/// The project's folder, from which the commands of the examples run.
fn project() -> PathBuf {
    folder().join("../../..")
}

/// The Markdown files of these folders, sorted.
fn markdown(folders: &[PathBuf]) -> Vec<PathBuf> {
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
    found.sort();
    found
}

/// README.md, the documents in docs/ and the guide.
fn documents() -> Vec<PathBuf> {
    let mut found = markdown(&["docs", "docs/guide"].map(|folder| project().join(folder)));
    found.push(project().join("README.md"));
    found
}

/// What a terminal shows of a line that begins with `fairground`, run in `place`: the output, the messages, and before them `? STATUS` unless it is 0,
/// which documents leave out.
fn shown_by(line: &str, place: &Path) -> String {
    let program = env!("CARGO_BIN_EXE_fairground");
    let script = format!("fairground() {{ {program:?} \"$@\"; }}; {line}");
    let ended = end_of(Command::new("bash").args(["-c", &script]).current_dir(place));
    let status = match ended.code {
        Some(0) => String::new(),
        _ if place == project() => String::new(),
        code => format!("? {}\n", code.unwrap_or(-1)),
    };
    let place = place.display().to_string();
    [status, ended.stdout, ended.stderr].concat().replace(&format!("{place}/"), "")
}

/// Whether lines are those that a file shows, where `...` stands for any lines and `[..]` for any text in a line.
fn fits(shown: &[&str], lines: &[&str]) -> bool {
    match (shown.split_first(), lines.split_first()) {
        (None, _) => lines.is_empty(),
        (Some((&"...", rest)), _) => (0..=lines.len()).any(|skipped| fits(rest, &lines[skipped..])),
        (Some((pattern, rest)), Some((line, lines))) => {
            fits_line(pattern, line) && fits(rest, lines)
        }
        (Some(_), None) => false,
    }
}

fn fits_line(pattern: &str, line: &str) -> bool {
    match pattern.split_once("[..]") {
        None => pattern == line,
        Some((start, rest)) => line.strip_prefix(start).is_some_and(|line| {
            let mut ends = line.char_indices().map(|(at, _)| at).chain([line.len()]);
            ends.any(|at| fits_line(rest, &line[at..]))
        }),
    }
}

/// A file with the output as it is now behind each line `$ fairground ...` of its blocks of code, unless it already shows that. A block whose first line
/// has a name after its language, as in ```` ```json one.json ````, is a file that later commands find.
fn refreshed(text: &str, place: &Path, examples: &mut usize) -> String {
    let mut result = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        result.push_str(line);
        result.push('\n');
        if let Some((_, name)) = line.strip_prefix("```").and_then(|rest| rest.split_once(' ')) {
            let content = lines.clone().take_while(|line| !line.starts_with("```"));
            fs::write(place.join(name), content.flat_map(|line| [line, "\n"]).collect::<String>())
                .unwrap();
        }
        let Some(command) = line.strip_prefix("$ ") else { continue };
        *examples += 1;
        let is_end = |line: &&str| line.starts_with("```") || line.starts_with("$ ");
        let mut shown = Vec::new();
        while let Some(line) = lines.next_if(|line| !is_end(line)) {
            shown.push(line);
        }
        let printed = shown_by(command, place);
        let printed: Vec<&str> = printed.lines().collect();
        let now = match shown.last() {
            _ if fits(&shown, &printed) => shown,
            Some(&"...") => {
                let count = (shown.len() - 1).min(printed.len());
                [&printed[..count], &["..."]].concat()
            }
            _ => printed,
        };
        result.extend(now.iter().flat_map(|line| [line, "\n"]));
    }
    result
}

/// Asserts that a file shows what its commands print in this place, or lets it show that; adds the number of its examples.
fn check(path: &Path, place: &Path, examples: &mut usize) {
    let text = fs::read_to_string(path).unwrap();
    let now = refreshed(&text, place, examples);
    if std::env::var_os("FAIRGROUND_REFRESH").is_some() {
        fs::write(path, now).unwrap();
        return;
    }
    let mut lines = text.lines().zip(now.lines()).enumerate();
    if let Some((number, (shown, printed))) = lines.find(|(_, (shown, printed))| shown != printed) {
        panic!(
            "{}:{}: it shows\n{shown}\nand the command prints\n{printed}\nFAIRGROUND_REFRESH=1 in the environment of this test mends it",
            path.display(),
            number + 1
        );
    }
    assert_eq!(text, now, "{}", path.display());
}

#[test]
fn examples_print_what_the_documents_show() {
    let mut examples = 0;
    documents().iter().for_each(|path| check(path, &project(), &mut examples));
    assert!(examples >= 2, "{examples} examples were found");
}

#[test]
fn commands_print_what_the_texts_say() {
    let texts = markdown(&[folder().join("texts")]);
    assert!(!texts.is_empty());
    std::thread::scope(|scope| {
        for path in &texts {
            scope.spawn(move || {
                // What the commands write is nobody else's.
                let place = tempfile::tempdir().unwrap();
                for name in ["workloads", "schedulers"] {
                    std::os::unix::fs::symlink(folder().join(name), place.path().join(name))
                        .unwrap();
                }
                std::os::unix::fs::symlink(project(), place.path().join("project")).unwrap();
                check(path, place.path(), &mut 0);
            });
        }
    });
}

#[test]
fn dots_stand_for_any_lines_and_any_text() {
    let lines = ["one", "two 2.5 s", "three"];
    for (shown, expected) in [
        (&["one", "...", "three"][..], true),
        (&["...", "two [..] s", "..."], true),
        (&["one", "two [..]", "three", "..."], true),
        (&["one", "two"], false),
        (&["...", "three", "one"], false),
        (&["one", "[..] ms", "three"], false),
    ] {
        assert_eq!(fits(shown, &lines), expected, "{shown:?}");
    }
}

#[test]
fn the_commands_that_documents_name_are_taken() {
    let mut named = 0;
    for path in documents() {
        let text = fs::read_to_string(&path).unwrap();
        let mut is_code = false;
        for line in text.lines() {
            is_code ^= line.starts_with("```");
            let line = line.strip_prefix("$ ").unwrap_or(line);
            let line = line.strip_prefix("sudo ").unwrap_or(line);
            let Some(rest) = line.strip_prefix("fairground ").filter(|_| is_code) else {
                continue;
            };
            // Remarks follow two blanks or a number sign; the words after -- are another command.
            let rest = rest.split("  ").next().unwrap_or_default();
            let rest = rest.split(" #").next().unwrap_or_default();
            let rest = rest.split(" -- ").next().unwrap_or_default();
            let rest = rest.split(['|', '&', ';']).next().unwrap_or_default();
            let rest: String = rest.split('\'').step_by(2).collect();
            let mut words = rest.split(' ').filter(|word| !word.is_empty());
            let mut command = words.next().unwrap_or_default().to_owned();
            if command == "sweep" {
                command = format!("{command} {}", words.next().unwrap_or_default());
            }
            let help = shown_by(&format!("fairground {command} --help"), &project());
            for word in rest.split(' ').filter(|word| word.starts_with('-')) {
                let option = word.split('=').next().unwrap_or_default();
                let option = match option.starts_with("--") {
                    true => option,
                    // A value may follow a letter at once: -DNAME.
                    false => &option[..option.len().min(2)],
                };
                let is_there = { help.split([' ', ',', '\n', '[', '=']) }.any(|one| one == option);
                assert!(is_there, "{}: {line}: no option {option}", path.display());
            }
            named += 1;
        }
    }
    assert!(named >= 20, "{named} commands were found");
}
