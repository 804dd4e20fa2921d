//! `fairground generate`: the files that are installed beside the command, made from its own definition.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;
use fairground_report::Document as _;
use serde_json::{Map, Value, json};

use crate::list::{Listed, ListedLoads};
use crate::output::{self, Stop};
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

/// The file with the parts that several schemas have in common.
const COMMON: &str = "common.json";

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

pub fn main(arguments: &Arguments, command: Command) -> Result<ExitCode, Stop> {
    write_all(&arguments.folder, command).map(|()| ExitCode::SUCCESS)
}

/// The schemas of all documents, with the names of their files. Definitions that several have in common are in a file beside them, to which they refer.
fn schemas() -> Vec<(String, Value)> {
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
    let mut all: Vec<(String, Value)> =
        all.into_iter().map(|(file, schema)| (file, schema.to_value())).collect();
    let mut users: BTreeMap<String, usize> = BTreeMap::new();
    for name in all.iter().flat_map(|(_, schema)| definitions(schema)).map(|(name, _)| name) {
        *users.entry(name.clone()).or_default() += 1;
    }
    // All that a common definition refers to is common, too.
    let is_common = |name: &str| users.get(name).is_some_and(|users| *users > 1);
    let mut common = Map::new();
    for (_, schema) in &mut all {
        if let Some(Value::Object(own)) = schema.get_mut("$defs") {
            let (shared, rest) =
                std::mem::take(own).into_iter().partition(|(name, _)| is_common(name));
            *own = rest;
            common.extend::<Map<String, Value>>(shared);
        }
        refer(schema, &is_common);
    }
    let common = json!({ "$schema": all[0].1["$schema"], "title": "Parts of several documents", "$defs": common });
    all.push((COMMON.to_owned(), common));
    all
}

fn definitions(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["$defs"].as_object().into_iter().flatten()
}

/// Makes references to common definitions lead to their file.
fn refer(schema: &mut Value, is_common: &impl Fn(&str) -> bool) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::String(place)) = members.get_mut("$ref")
                && place.strip_prefix("#/$defs/").is_some_and(is_common)
            {
                place.insert_str(0, COMMON);
            }
            members.values_mut().for_each(|member| refer(member, is_common));
        }
        Value::Array(entries) => entries.iter_mut().for_each(|entry| refer(entry, is_common)),
        _ => {}
    }
}

fn write_all(folder: &Path, mut command: Command) -> Result<(), Stop> {
    for (shell, file) in SHELLS {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut command, "fairground", &mut text);
        output::write(&folder.join(file), &text)?;
    }
    for (file, schema) in schemas() {
        let text = format!("{schema:#}\n");
        output::write(&folder.join("fairground/schema").join(file), text)?;
    }
    let pages = folder.join("man/man1");
    std::fs::create_dir_all(&pages)
        .and_then(|()| clap_mangen::generate_to(command, &pages))
        .map_err(|error| output::unwritten(&pages, error))
}
