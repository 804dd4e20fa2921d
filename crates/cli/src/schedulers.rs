//! The values of `-s`: schedulers with names and settings of their own.

use std::path::{Path, PathBuf};

use fairground_catalog::Build;
use fairground_lab::{Contender, Error, KERNEL, LOADER};
use fairground_machine::Machine;
use fairground_results::short_name;

use crate::output;

/// A scheduler as the user asks for it: `NAME=REFERENCE{SETTING,...}`, where only the reference has to be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its name in results, if it was given one.
    label: Option<String>,
    /// An id, a path, or `exec:` and a loader with its arguments.
    pub reference: String,
    /// Its own settings: names with values.
    pub settings: Vec<(String, String)>,
    /// Macros and folders with headers for it alone.
    build: Build,
}

impl Wanted {
    /// A scheduler without a name or settings of its own.
    pub fn plain(reference: &str) -> Self {
        Self {
            label: None,
            reference: reference.to_owned(),
            settings: Vec::new(),
            build: Build::default(),
        }
    }

    /// A scheduler that may have a name.
    pub fn called(label: Option<String>, reference: &str) -> Self {
        Self { label, ..Self::plain(reference) }
    }

    /// Whether it is a loader that is followed.
    pub fn is_loader(&self) -> bool {
        self.reference.starts_with(LOADER)
    }

    fn parse(text: &str) -> Result<Self, String> {
        if Path::new(text).exists() {
            return Ok(Self::plain(text));
        }
        let (label, rest) = match text.split_once('=') {
            Some((label, rest)) if is_label(label) => (Some(label.to_owned()), rest),
            _ => (None, text),
        };
        let is_loader = rest.starts_with(LOADER);
        let (reference, inside) = match rest.split_once('{').filter(|_| !is_loader) {
            None => (rest, ""),
            Some((reference, inside)) => match inside.strip_suffix('}') {
                Some(inside) => (reference, inside),
                None => return Err(format!("{text}: a }} is missing at its end")),
            },
        };
        if reference.is_empty() {
            return Err(format!("{text}: names no scheduler"));
        }
        if reference == "all" && (label.is_some() || !inside.is_empty()) {
            return Err(format!("{text}: all are many; give names and settings to one at a time"));
        }
        let mut wanted = Self { label, ..Self::plain(reference) };
        for item in split(inside).into_iter().filter(|item| !item.is_empty()) {
            if let Some(define) = item.strip_prefix("-D") {
                wanted.build.defines.push(define.trim().to_owned());
            } else if let Some(folder) = item.strip_prefix("-I") {
                wanted.build.include.push(folder.trim().into());
            } else if let Some((name, value)) = item.split_once('=') {
                let setting = (name.trim().to_owned(), value.trim().to_owned());
                if wanted.settings.iter().any(|(other, _)| *other == setting.0) {
                    return Err(format!("{text}: {} is set twice; leave one out", setting.0));
                }
                wanted.settings.push(setting);
            } else {
                return Err(format!(
                    "{text}: {item} is none of NAME=VALUE, -DMACRO and -IFOLDER; lists of values are for --set"
                ));
            }
        }
        if wanted.build != Build::default() && is_compiled(reference) {
            return Err(format!(
                "{text}: {reference} comes compiled; -D and -I are for sources of your own"
            ));
        }
        Ok(wanted)
    }
}

/// Whether this is the id of a scheduler that comes with fairground, or the name of the kernel's own.
pub fn is_ours(reference: &str) -> bool {
    reference == KERNEL || fairground_catalog::find(reference).is_ok()
}

/// Whether it is compiled already, so that it reads neither macros nor headers.
pub fn is_compiled(reference: &str) -> bool {
    let path = reference.split('#').next().unwrap_or_default();
    is_ours(reference) || reference.starts_with(LOADER) || path.ends_with(".o")
}

/// Whether a text in front of a `=` names a scheduler, rather than being part of a path or of a loader's arguments.
fn is_label(text: &str) -> bool {
    let is_plain = |one: char| one.is_alphanumeric() || "-_.+@".contains(one);
    !text.is_empty() && text.chars().all(is_plain)
}

/// The parts of a list between commas that are not inside brackets or quotation marks, without blanks around them.
pub fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth, mut quoted) = (Vec::new(), 0, 0_usize, false);
    for (at, one) in text.char_indices() {
        match one {
            '"' => quoted = !quoted,
            '(' | '[' | '{' if !quoted => depth += 1,
            ')' | ']' | '}' if !quoted => depth = depth.saturating_sub(1),
            ',' if depth == 0 && !quoted => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts
}

/// The schedulers of all `-s` options, with `all` replaced by those of the catalogue.
pub fn parse(texts: &[String]) -> Result<Vec<Wanted>, Error> {
    let mut all_wanted = Vec::new();
    for text in texts {
        // A comma may also be part of a file's name.
        let parts = if Path::new(text).exists() { vec![text.as_str()] } else { split(text) };
        for part in parts {
            let wanted =
                Wanted::parse(part).map_err(|message| Error::Plan(format!("-s {message}")))?;
            if wanted.reference == "all" {
                let all = fairground_catalog::all().iter();
                all_wanted.extend(all.map(|scheduler| Wanted::plain(scheduler.id())));
            } else {
                all_wanted.push(wanted);
            }
        }
    }
    Ok(all_wanted)
}

/// How the user's own sources are compiled: folders with headers, and macros.
pub fn build(include: &[PathBuf], defines: &[String]) -> Result<Build, Error> {
    if let Some(folder) = include.iter().find(|folder| !folder.is_dir()) {
        let folder = folder.display();
        return Err(Error::Plan(format!("-I {folder}: there is no such folder")));
    }
    Ok(Build { include: include.to_vec(), defines: defines.to_vec(), ..Build::default() })
}

/// Opens the schedulers for each of the machines. Macros and headers of `base` are for all that are compiled, after their own. Each source is compiled once; loaders are followed one after the other, on each machine.
/// The compiler's warnings are printed.
pub fn open(
    all_wanted: &[Wanted],
    base: &Build,
    threads: Option<std::num::NonZero<usize>>,
    machines: &[&Machine],
) -> Result<Vec<Vec<Contender>>, Error> {
    let takes_none = |wanted: &Wanted| is_compiled(&wanted.reference);
    if *base != Build::default() && all_wanted.iter().all(takes_none) {
        let names: Vec<&str> = all_wanted.iter().map(|one| one.reference.as_str()).collect();
        return Err(Error::Plan(format!(
            "-I and -D are for sources of your own, which {} are not; leave them out",
            names.join(", ")
        )));
    }
    let build_of = |wanted: &Wanted| match takes_none(wanted) {
        true => Ok(Build::default()),
        false => build(
            &[&wanted.build.include[..], &base.include].concat(),
            &[&base.defines[..], &wanted.build.defines].concat(),
        ),
    };
    let builds = all_wanted.iter().map(build_of).collect::<Result<Vec<_>, _>>()?;
    let compiled: Vec<(&str, &Build)> = { all_wanted.iter() }
        .zip(&builds)
        .filter(|(wanted, _)| !wanted.is_loader())
        .map(|(wanted, build)| (wanted.reference.as_str(), build))
        .collect();
    let opened = Contender::open_all(&compiled, threads)?;
    tell_warnings(&opened);
    let names = names(all_wanted);
    let mut sites = Vec::new();
    for machine in machines {
        let mut rest = opened.iter();
        let mut contenders = Vec::new();
        for (wanted, name) in all_wanted.iter().zip(&names) {
            let mut contender = match wanted.is_loader() {
                true => capture(&wanted.reference, machine)?,
                false => rest.next().expect("one for each").clone(),
            };
            contender.set_name(name.clone());
            contenders.push(contender);
        }
        sites.push(contenders);
    }
    Ok(sites)
}

/// Prints the compiler's warnings, each text once.
pub fn tell_warnings(opened: &[Contender]) {
    let mut warned: Vec<&str> = Vec::new();
    for warnings in opened.iter().map(Contender::warnings) {
        if !warnings.is_empty() && !warned.contains(&warnings) {
            output::say!("fairground: {warnings}");
            warned.push(warnings);
        }
    }
}

fn capture(reference: &str, machine: &Machine) -> Result<Contender, Error> {
    if reference[LOADER.len()..].trim().is_empty() {
        let message = "names no loader; write exec:LOADER, with the loader's arguments behind";
        return Err(Error::Plan(format!("{reference} {message}")));
    }
    Contender::capture(reference, machine)
}

/// The names of the schedulers in results: those that the user gave, and otherwise ids and short names; the path where different files have
/// the same short name.
pub fn names(all_wanted: &[Wanted]) -> Vec<String> {
    let is_shared = |reference: &str| {
        let others = all_wanted.iter().filter(|other| {
            let taken = other.label.as_deref();
            other.reference != reference
                && taken.unwrap_or(short_name(&other.reference)) == short_name(reference)
        });
        others.count() > 0
    };
    let name = |wanted: &Wanted| match &wanted.label {
        Some(label) => label.clone(),
        None if is_shared(&wanted.reference) => wanted.reference.clone(),
        None => short_name(&wanted.reference).to_owned(),
    };
    all_wanted.iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(text: &str) -> Wanted {
        Wanted::parse(text).unwrap()
    }

    #[test]
    fn names_and_settings_are_told_from_paths_and_loaders() {
        assert_eq!(wanted("cfs"), Wanted::plain("cfs"));
        let fine = wanted("fine=cfs{sched_min_granularity=0.25ms, hz=100}");
        assert_eq!(fine.label.as_deref(), Some("fine"));
        assert_eq!(fine.reference, "cfs");
        let settings = [("sched_min_granularity", "0.25ms"), ("hz", "100")];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(fine.settings, settings);
        let new = wanted("new=./mine.bpf.c{-DNEW,-DLIMIT=5}");
        assert_eq!(new.build.defines, ["NEW", "LIMIT=5"]);
        let old = wanted("old=./mine.bpf.c{-I scx/include,-Ibeside,slice_ns=5ms}");
        assert_eq!(old.build.include, ["scx/include", "beside"].map(PathBuf::from));
        // A = behind a : or a / is no name's.
        let loader = "exec:scx_bpfland --slice-us=5000";
        assert_eq!(wanted(loader), Wanted::plain(loader));
        assert_eq!(wanted("a/b=c.bpf.c"), Wanted::plain("a/b=c.bpf.c"));
        let named = wanted("land=exec:scx_bpfland --slice-us=5000");
        assert_eq!(named.label.as_deref(), Some("land"));
        assert_eq!(named.reference, loader);
    }

    #[test]
    fn what_is_incomplete_is_refused() {
        for (text, message) in [
            ("a=", "names no scheduler"),
            ("cfs{hz=100", "a } is missing"),
            ("cfs{hz}", "hz is none of NAME=VALUE, -DMACRO and -IFOLDER"),
            ("some=all", "all are many"),
            ("cfs{-DX}", "cfs comes compiled"),
            ("kernel{-Iinclude}", "kernel comes compiled"),
            ("a/mine.bpf.o#mine{-Iinclude}", "mine.bpf.o#mine comes compiled"),
        ] {
            let refused = Wanted::parse(text).unwrap_err();
            assert!(refused.contains(message), "{refused}");
        }
    }

    #[test]
    fn lists_are_split_outside_brackets() {
        assert_eq!(split("a{b,c},d"), ["a{b,c}", "d"]);
        assert_eq!(split("min(1, 2), [3, 4]"), ["min(1, 2)", "[3, 4]"]);
        assert_eq!(split("\"a,b\",c"), ["\"a,b\"", "c"]);
    }

    #[test]
    fn names_are_short_where_that_tells_them_apart() {
        let all = [
            wanted("a/x.bpf.c"),
            wanted("b/x.bpf.c"),
            wanted("old=a/x.bpf.c"),
            wanted("a/y.bpf.c"),
        ];
        assert_eq!(names(&all), ["a/x.bpf.c", "b/x.bpf.c", "old", "y"]);
        // A name that the user gave is not given to another.
        let all = [wanted("y=a/x.bpf.c"), wanted("a/y.bpf.c")];
        assert_eq!(names(&all), ["y", "a/y.bpf.c"]);
    }
}
