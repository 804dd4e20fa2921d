//! Remedies for a source that does not compile, as far as the compiler's messages or the headers show them.

use std::path::{Path, PathBuf};

use fairground_linux::{Function, Release, Successor};

/// How to get all types of a kernel.
const MAKE_WHOLE: &str = "bpftool btf dump file /sys/kernel/btf/vmlinux format c > vmlinux.h";

/// The facts for a message about a source that does not compile.
pub(crate) struct Source<'a> {
    /// The source itself.
    pub path: &'a Path,
    /// The user's folders with headers, in the order in which clang searches them.
    pub folders: &'a [PathBuf],
    /// The kernel's types and functions that come with the program.
    pub known: String,
}

/// The first `vmlinux.h` in the user's folders, with its text.
pub(crate) fn brought(folders: &[PathBuf]) -> Option<(String, PathBuf)> {
    let mut paths = folders.iter().map(|folder| folder.join("vmlinux.h"));
    paths.find_map(|path| Some((std::fs::read_to_string(&path).ok()?, path)))
}

/// Whether something that may be the kernel's is not declared.
pub(crate) fn lacks_names(said: &str) -> bool {
    !missing_types(said).is_empty() || !undeclared(said).is_empty()
}

impl Source<'_> {
    /// Clang's messages, with the remedy; or the remedy instead, if clang's messages only follow from the cause.
    pub fn explain(&self, said: &str) -> String {
        let brought = brought(self.folders);
        if let Some((text, path)) = &brought
            && let Some(problem) = unusable(text)
        {
            return format!(
                "{} {problem}; make one with {MAKE_WHOLE}, or remove it: the one that comes with fairground then stands in for it",
                path.display()
            );
        }
        let mut lines = vec![said.to_owned()];
        if said.contains("fatal error: 'scx/") {
            lines.push(
                "The missing header is one of scx's: say with -I in which folder they are (scheds/include of scx, \
                 tools/sched_ext/include of the kernel's sources)"
                    .to_owned(),
            );
        }
        let former = self.former(said);
        if !former.is_empty() {
            let told = former.iter().filter_map(|one| {
                let successor = one.successor.as_ref()?;
                Some(history(one.name, successor, one.replaced_since()?))
            });
            lines.extend(told);
            lines.push(renamed(&former, said));
            return lines.join("\n");
        }
        let missing = missing_types(said);
        match brought {
            Some((_, path)) => {
                let newer: Vec<&str> = (missing.iter().chain(&undeclared(said)))
                    .copied()
                    .filter(|name| self.knows(name))
                    .collect();
                if !newer.is_empty() {
                    lines.push(format!(
                        "{} is of an older kernel, without {}; make a new one with {MAKE_WHOLE}",
                        path.display(),
                        newer.join(", ")
                    ));
                }
            }
            None if !missing.is_empty() => lines.push(format!(
                "The vmlinux.h that comes with fairground is that of Linux {}, without {}. If your kernel has that, say with -I in which folder \
                 its vmlinux.h is: {MAKE_WHOLE}",
                Release::NEWEST,
                missing.join(", ")
            )),
            None => {}
        }
        lines.join("\n")
    }

    /// The functions that no kernel has any more among those that clang does not find. clang stops after some errors, so that others are looked
    /// for in the source.
    fn former(&self, said: &str) -> Vec<&'static Function> {
        let names = undeclared(said);
        let is_meant = |one: &&Function| names.contains(&one.name);
        let all = || fairground_linux::functions().filter(|one| one.successor.is_some());
        if !all().any(|one| is_meant(&one)) {
            return Vec::new();
        }
        let text = std::fs::read_to_string(self.path).unwrap_or_default();
        all().filter(|one| is_meant(one) || words(&text).any(|word| word == one.name)).collect()
    }

    /// Whether the kernel's types and functions that come with the program have the name.
    fn knows(&self, name: &str) -> bool {
        words(&self.known).any(|word| word == name)
    }
}

/// Why a `vmlinux.h` can only be one by mistake.
fn unusable(text: &str) -> Option<&'static str> {
    let has = |what: &str| text.contains(what);
    match () {
        () if text.trim().is_empty() => Some("is empty"),
        // It is put together from others, or is meant to fail.
        () if has("#include") || has("#error") => None,
        () if !has("struct task_struct {") => Some("has no struct task_struct"),
        () if !has("struct sched_ext_ops {") => {
            Some("is of a kernel without sched_ext, which has no struct sched_ext_ops")
        }
        () => None,
    }
}

/// The history of a function, as a sentence.
fn history(name: &str, successor: &Successor, since: Release) -> String {
    let Successor { name: newer, remark } = successor;
    match remark.is_empty() {
        true => format!("Since Linux {since}, {name}() is called {newer}()"),
        false => format!("Since Linux {since}, there is no {name}(): use {newer}(), {remark}"),
    }
}

/// The remedy for renamed functions.
fn renamed(former: &[&Function], said: &str) -> String {
    let alike = former.iter().filter_map(|one| {
        let successor = one.successor.as_ref();
        let successor = successor.filter(|successor| successor.remark.is_empty())?;
        Some(format!("-D {}={}", one.name, successor.name))
    });
    let options: Vec<String> = alike.collect();
    let mut advice = match options.is_empty() {
        true => String::new(),
        false => format!("Write the new names, or add {}", options.join(" ")),
    };
    let macros = macros(said);
    if !macros.is_empty() {
        let verb = match macros.len() {
            1 => "stands",
            _ => "stand",
        };
        advice += &format!(
            "{}{} {verb} for old names here: change or remove their definitions",
            if advice.is_empty() { "" } else { ". " },
            macros.join(" and ")
        );
    }
    advice
}

/// The macros that errors come from, with the places of their definitions, each once.
fn macros(said: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    // Notes may say that of other things, such as of a similar name's declaration.
    let mut is_of_error = false;
    for line in said.lines() {
        let Some((place, rest)) = line.split_once(": note: expanded from macro '") else {
            is_of_error = line.contains(": error: ") || is_of_error && !line.contains(": note: ");
            continue;
        };
        if !is_of_error {
            continue;
        }
        let name = rest.trim_end_matches('\'');
        let place = place.rsplit_once(':').map_or(place, |(line, _)| line);
        let one = format!("{name} ({place})");
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

/// The functions and constants that clang does not find.
fn undeclared(said: &str) -> Vec<&str> {
    let kinds =
        ["undeclared function '", "undeclared library function '", "undeclared identifier '"];
    quoted(said, &kinds)
}

/// The members and types that clang does not find.
fn missing_types(said: &str) -> Vec<&str> {
    let kinds = [
        "no member named '",
        "unknown type name '",
        "incomplete definition of type '",
        "incomplete type '",
        "has incomplete type '",
    ];
    quoted(said, &kinds)
}

/// The texts between one of the beginnings and the next quote, each once.
fn quoted<'a>(said: &'a str, beginnings: &[&str]) -> Vec<&'a str> {
    let mut found = Vec::new();
    for line in said.lines() {
        for beginning in beginnings {
            let rest = line.split_once(beginning).map(|(_, rest)| rest);
            let name = rest.and_then(|rest| rest.split('\'').next());
            found.extend(name.filter(|name| !found.contains(name)));
        }
    }
    found
}

/// The words of a C text.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| letter != '_' && !letter.is_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explain(folders: &[PathBuf], said: &str) -> String {
        let source = Source {
            path: Path::new("/none.bpf.c"),
            folders,
            known: "struct task_struct { u64 newest; }; s32 scx_bpf_newest(void);".to_owned(),
        };
        source.explain(said)
    }

    #[test]
    fn every_renamed_function_is_named_with_the_macros_that_write_it() {
        let said = "a.c:9:3: error: call to undeclared function 'scx_bpf_dispatch'; ISO C99 does not\n\
                    a.c:6:16: note: expanded from macro 'insert'\n    6 | #define insert scx_bpf_dispatch\n\
                    a.c:10:3: error: call to undeclared function 'scx_bpf_consume'; ISO C99 does not\n\
                    a.c:7:14: note: expanded from macro 'take'\n\
                    v.h:30:1: note: 'scx_bpf_create' declared here\nv.h:17:3: note: expanded from macro 'kfunc'\n\
                    a.c:12:3: error: call to undeclared function 'scx_bpf_cpu_rq'; ISO C99 does not";
        let told = explain(&[], said);
        assert!(told.starts_with(said));
        for part in [
            "Since Linux 6.13, scx_bpf_dispatch() is called scx_bpf_dsq_insert()",
            "Since Linux 6.13, scx_bpf_consume() is called scx_bpf_dsq_move_to_local()",
            "there is no scx_bpf_cpu_rq(): use scx_bpf_locked_rq(), which",
            "-D scx_bpf_consume=scx_bpf_dsq_move_to_local -D scx_bpf_dispatch=scx_bpf_dsq_insert. ",
            "insert (a.c:6) and take (a.c:7) stand for old names here",
        ] {
            assert!(told.contains(part), "{part}:\n{told}");
        }
        assert!(!told.contains("kfunc (v.h:17)"), "{told}");
    }

    #[test]
    fn what_the_kernel_does_not_have_is_named() {
        let said = "a.c:6:3: error: no member named 'numa_preferred_nid' in 'struct task_struct'";
        let told = explain(&[], said);
        assert!(told.contains("is that of Linux 7.3, without numa_preferred_nid"), "{told}");
        assert!(told.contains("-I") && told.contains("bpftool btf dump"), "{told}");
        assert_eq!(explain(&[], "a.c:6:3: error: expected ';'"), "a.c:6:3: error: expected ';'");
    }

    #[test]
    fn a_vmlinux_that_is_none_is_all_that_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let folders = [folder.path().to_owned()];
        let whole = "struct task_struct {};\nstruct sched_ext_ops {};\n";
        for (text, problem) in [
            (" \n", "is empty;"),
            ("typedef int s32;", "has no struct task_struct;"),
            ("struct task_struct {};", "is of a kernel without sched_ext"),
        ] {
            std::fs::write(folder.path().join("vmlinux.h"), text).unwrap();
            let told = explain(&folders, "a.c:6:3: error: many");
            assert!(told.contains(problem) && !told.contains("many"), "{told}");
        }
        std::fs::write(folder.path().join("vmlinux.h"), whole).unwrap();
        let said = "a.c:6:3: error: call to undeclared function 'scx_bpf_newest'; ISO\n\
                    a.c:7:3: error: no member named 'newest' in 'struct task_struct'\n\
                    a.c:8:3: error: no member named 'mine' in 'struct own'";
        let told = explain(&folders, said);
        assert!(
            told.contains("vmlinux.h is of an older kernel, without newest, scx_bpf_newest;"),
            "{told}"
        );
    }
}
