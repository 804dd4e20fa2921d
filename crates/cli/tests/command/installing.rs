//! The files that are installed beside the command.

use std::fs;

use crate::support::succeed;

/// The subcommands that `--help` lists.
fn listed_subcommands() -> Vec<String> {
    let help = succeed("--help");
    let is_entry =
        |line: &&str| line.starts_with("  ") && line[2..].starts_with(char::is_alphabetic);
    let first_word = |line: &str| line.trim_start().split(' ').next().map(str::to_owned);
    help.lines().filter(is_entry).filter_map(first_word).filter(|word| word != "help").collect()
}

#[test]
fn manual_pages_and_completions_know_every_subcommand() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    assert_eq!(succeed(&format!("generate {path}")), "");
    let read = |file: &str| fs::read_to_string(folder.path().join(file)).unwrap();
    let completions = [
        read("bash-completion/completions/fairground"),
        read("zsh/site-functions/_fairground"),
        read("fish/vendor_completions.d/fairground.fish"),
    ];
    let main_page = read("man/man1/fairground.1");
    let subcommands = listed_subcommands();
    assert!(subcommands.contains(&"compare".to_owned()), "{subcommands:?}");
    for subcommand in subcommands {
        let page = read(&format!("man/man1/fairground-{subcommand}.1"));
        assert!(page.contains("Examples:"), "{page}");
        assert!(main_page.contains(&format!(r"fairground\-{subcommand}(1)")), "{main_page}");
        for text in &completions {
            assert!(text.contains(&subcommand), "{subcommand} is not in {text}");
        }
    }
}
