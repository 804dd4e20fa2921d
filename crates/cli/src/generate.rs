//! `fairground generate`: the files that are installed beside the command, made from its own definition.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;
use fairground_report::Document as _;
use schemars::Schema;

use crate::list::{Listed, ListedLoads};
use crate::output;
use crate::play::Played;
use crate::recording::Description;
use crate::show::Shown;
use crate::sweep::Progress;
use crate::work::{Answer, Request, ShardRequest};

/// The shells for which there are completions, and the folder and the name under which each looks for those of a command.
const SHELLS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions/fairground"),
    (Shell::Zsh, "zsh/site-functions/_fairground"),
    (Shell::Fish, "fish/vendor_completions.d/fairground.fish"),
];

/// Write the manual pages, the shells' completions, and the schemas of `--format json`
///
/// They come from the same definitions as `--help` and the results. Under FOLDER they lie as under /usr/share, so that `make install` and packages copy it whole.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fairground generate target/share")]
pub struct Arguments {
    /// Where to write them
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments, command: Command) -> ExitCode {
    let written = write_all(&arguments.folder, command);
    written.err().unwrap_or(ExitCode::SUCCESS)
}

/// The schemas of all documents, with the names of their files.
fn schemas() -> Vec<(String, Schema)> {
    let mut all = fairground_report::schemas();
    all.extend([
        Listed::schema(),
        ListedLoads::schema(),
        Shown::schema(),
        Description::schema(),
        Played::schema(),
        Progress::schema(),
        Request::schema(),
        ShardRequest::schema(),
        Answer::schema(),
    ]);
    all
}

fn write_all(folder: &Path, mut command: Command) -> Result<(), ExitCode> {
    for (shell, file) in SHELLS {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut command, "fairground", &mut text);
        output::write(&folder.join(file), &text)?;
    }
    for (file, schema) in schemas() {
        let text = format!("{:#}\n", schema.as_value());
        output::write(&folder.join("fairground/schema").join(file), text)?;
    }
    let pages = folder.join("man/man1");
    std::fs::create_dir_all(&pages)
        .and_then(|()| clap_mangen::generate_to(command, &pages))
        .map_err(|error| output::unwritten(&pages, error))
}
