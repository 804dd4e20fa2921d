//! Loads: files that describe load, those of `workloads/` inside this program, and their parameters.

use std::path::Path;

use fairground_workload::{Arguments, Error, Template};

/// A name with its file in a folder of the project.
macro_rules! load {
    ($folder:literal, $name:literal) => {
        ($name, include_str!(concat!("../../../", $folder, "/", $name, ".json")))
    };
}

use crate::gauntlet;

/// Names and files, in alphabetical order.
const LOADS: [(&str, &str); 22] = [
    load!("loads", "audio"),
    load!("loads", "barrier"),
    load!("loads", "build"),
    load!("loads", "contest"),
    load!("loads", "desktop"),
    load!("loads", "encoder"),
    load!("loads", "game"),
    load!("loads", "hackbench"),
    load!("workloads", "hogs-five"),
    load!("workloads", "hogs-five-top"),
    load!("workloads", "hogs-nice"),
    load!("workloads", "hogs-three"),
    load!("loads", "interbench"),
    load!("workloads", "lock-contention"),
    load!("workloads", "mix-two"),
    load!("loads", "oltp"),
    load!("loads", "perf-pipe"),
    load!("workloads", "periodic-hogs"),
    load!("loads", "pods"),
    load!("loads", "schbench"),
    load!("workloads", "wakeup-chain"),
    load!("loads", "web-server"),
];

/// A file or the name of a load, with the values of parameters that the user wrote behind it: `schbench:threads=16,messages=2`.
pub struct Wanted<'a> {
    /// The file or name.
    pub path: &'a Path,
    /// Parameters and their values.
    pub values: Vec<(String, String)>,
}

impl<'a> Wanted<'a> {
    /// The user's words, taken apart. A path that exists is a file, whatever its name.
    pub fn parse(written: &'a Path) -> Result<Self, String> {
        let parts = written.to_str().and_then(|text| text.rsplit_once(':'));
        let parts = parts.filter(|(path, _)| !written.exists() && is_load(Path::new(path)));
        let Some((path, list)) = parts else {
            return Ok(Self { path: written, values: Vec::new() });
        };
        let value = |word: &str| match word.split_once('=') {
            Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
            None => Err(format!(
                "{}: {word:?} is no parameter with a value; write {path}:NAME=VALUE,NAME=VALUE",
                written.display()
            )),
        };
        let values = list.split(',').map(value).collect::<Result<Vec<_>, _>>()?;
        let names = || values.iter().map(|(name, _)| name);
        if let Some(twice) = names().find(|one| names().filter(|other| other == one).count() > 1) {
            return Err(format!("{}: {twice} is set twice; leave one out", written.display()));
        }
        Ok(Self { path: Path::new(path), values })
    }

    /// The values to fill in on a machine with this many CPUs.
    pub fn arguments(&self, cpus: u32) -> Arguments {
        Arguments { cpus: Some(cpus), values: self.values.clone() }
    }

    /// The load inside this program that it names, if it is not a file.
    pub fn named(&self) -> Option<Result<Template, Error>> {
        let text = text(self.path)?;
        Some(Template::parse(&format!("{}.json", self.path.display()), text))
    }

    /// The rt-app file or load.
    pub fn template(&self) -> Result<Template, Error> {
        self.named().unwrap_or_else(|| Template::read(self.path))
    }

    /// The error of a recording, which has no parameters, if it was given some.
    pub fn check_none(&self) -> Result<(), String> {
        match self.values.first() {
            None => Ok(()),
            Some((name, _)) => Err(format!(
                "{}: a recording has no parameters, so leave out `{name}`",
                self.path.display()
            )),
        }
    }
}

/// Whether a path is a file, or the name of a load.
fn is_load(path: &Path) -> bool {
    path.exists() || LOADS.iter().any(|(name, _)| path == Path::new(name))
}

/// The text of the load with this name, unless there is a file of that name.
fn text(path: &Path) -> Option<&'static str> {
    let found = LOADS.iter().find(|(name, _)| path == Path::new(name));
    let text = match found {
        Some((_, text)) => *text,
        None => gauntlet::text(path.to_str()?)?,
    };
    (!path.exists()).then_some(text)
}

/// The loads inside this program, in alphabetical order.
pub fn all() -> impl Iterator<Item = (&'static str, Template)> {
    LOADS.iter().map(|(name, text)| {
        let template = Template::parse(name, text);
        (*name, template.expect("the loads of this program are right"))
    })
}

/// The remark on a path that is neither a file nor the name of a load, if it looks like a name.
pub fn names(path: &Path) -> Option<String> {
    let name = path.to_str()?;
    let is_name = !path.exists() && !name.contains(['/', '.']);
    let names: Vec<&str> = LOADS.iter().map(|(name, _)| *name).collect();
    is_name.then(|| {
        format!(
            "{name}: there is no such file, and no load of this name; loads with names are {}",
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_has_a_name() {
        let project = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let entries = ["loads", "workloads"].map(|folder| std::fs::read_dir(project.join(folder)));
        let entries = entries.into_iter().flat_map(|entries| entries.expect("the folder is there"));
        let paths = entries.map(|entry| entry.expect("it can be read").path());
        let mut files: Vec<_> = paths
            .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
            .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
            .collect();
        files.sort();
        assert_eq!(files, LOADS.map(|(name, _)| name));
        for name in files {
            let wanted = Wanted::parse(Path::new(&name)).expect("it is a name");
            for cpus in [1, 8, 64] {
                let load = wanted.template().expect("it has a name");
                let load = load.workload(&wanted.arguments(cpus)).expect("it is a workload");
                assert_eq!(load.name, name);
            }
        }
    }
}
