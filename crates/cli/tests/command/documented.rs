//! The examples in the documents that show a command show its real output.
//!
//! With `FAIRGROUND_REFRESH=1` in the environment the documents get the output as it is now.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The project's folder, from which the commands of the examples run.
fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// README.md, the documents in docs/ and the guide, sorted.
fn documents() -> Vec<PathBuf> {
    let folders = ["docs", "docs/guide"].map(|folder| project().join(folder));
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
    found.push(project().join("README.md"));
    found.sort();
    found
}

/// The output of a shell for a line that begins with `fairground`.
fn output_of(line: &str) -> String {
    let program = env!("CARGO_BIN_EXE_fairground");
    let output = Command::new("bash")
        .args(["-c", &format!("fairground() {{ {program:?} \"$@\"; }}; {line}")])
        .current_dir(project())
        .output()
        .unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(errors, "", "{line}");
    String::from_utf8(output.stdout).unwrap()
}

/// The document with the output as it is now behind each line `$ fairground ...` of its blocks of code. A line `...` stands for the rest.
fn refreshed(text: &str, examples: &mut usize) -> String {
    let mut result = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        result.push_str(line);
        result.push('\n');
        let Some(command) = line.strip_prefix("$ ") else {
            continue;
        };
        *examples += 1;
        let is_end = |line: &&str| line.starts_with("```") || line.starts_with("$ ");
        let mut shown = Vec::new();
        while let Some(line) = lines.next_if(|line| !is_end(line)) {
            shown.push(line);
        }
        let printed = output_of(command);
        match shown.last() {
            Some(&"...") => {
                let count = shown.len() - 1;
                let part = printed.lines().take(count);
                part.for_each(|line| result.push_str(&format!("{line}\n")));
                result.push_str("...\n");
            }
            _ => result.push_str(&printed),
        }
    }
    result
}

#[test]
fn examples_print_what_the_documents_show() {
    let refresh = std::env::var_os("FAIRGROUND_REFRESH").is_some();
    let mut examples = 0;
    for path in documents() {
        let text = fs::read_to_string(&path).unwrap();
        let now = refreshed(&text, &mut examples);
        if refresh {
            fs::write(&path, &now).unwrap();
            continue;
        }
        let mut lines = text.lines().zip(now.lines()).enumerate();
        if let Some((number, (shown, printed))) =
            lines.find(|(_, (shown, printed))| shown != printed)
        {
            panic!(
                "{}:{}: it shows\n{shown}\nand the command prints\n{printed}\nFAIRGROUND_REFRESH=1 in the environment of this test mends it",
                path.display(),
                number + 1
            );
        }
        assert_eq!(text, now, "{}", path.display());
    }
    assert!(examples >= 2, "{examples} examples were found");
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
            let help = output_of(&format!("fairground {command} --help"));
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
