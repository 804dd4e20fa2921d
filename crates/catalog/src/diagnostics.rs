//! Remedies for a source that does not compile, as far as the compiler's messages or the headers show them.

use std::collections::HashSet;
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

/// Whether something that may be the kernel's is not declared, as errors or warnings tell.
pub(crate) fn lacks_names(said: &str) -> bool {
    !missing(said).is_empty() || !undeclared(said).is_empty() || said.contains("-Wvisibility")
}

/// Whether a function is not declared that only older kernels have.
pub(crate) fn lacks_former_functions(said: &str) -> bool {
    let known = |name: &str| fairground_linux::function(name);
    undeclared(said)
        .iter()
        .any(|name| known(name).is_some_and(|one| one.replaced_since().is_some()))
}

/// A generated `vmlinux.h` that the source looks for under a path or with an addition of its own, as its project's build would make it.
pub(crate) fn missing_vmlinux(said: &str) -> Option<&str> {
    let path = said.split_once("fatal error: '")?.1.split_once("' file not found")?.0;
    let name = Path::new(path).file_name()?.to_str()?;
    (name.starts_with("vmlinux") && name.ends_with(".h")).then_some(path)
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
        let calls = miscounted(said, self.path);
        if !calls.is_empty() {
            lines.extend(calls);
            return lines.join("\n");
        }
        let missing = missing(said);
        match brought {
            Some((_, path)) => {
                let newer = self.of_newer_kernels(said);
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

    /// The names that clang does not find and that the kernel's types which come with the program declare: what else is not declared is a slip of
    /// the author, who may call a variable as a kernel calls some member or parameter.
    fn of_newer_kernels<'said>(&self, said: &'said str) -> Vec<&'said str> {
        let mut found = members(said, |name, owner| has_member(&self.known, owner, name));
        let declared = declared_names(&self.known);
        let names = missing_types(said).into_iter().chain(undeclared(said));
        found.extend(names.filter(|name| declared.contains(name)));
        found.dedup();
        found
    }
}

/// The functions, types, macros and enumerators that a header declares outside of all braces and parameter lists: structures as `struct page`,
/// because a name without that word is not theirs.
fn declared_names(header: &str) -> HashSet<&str> {
    let mut found = HashSet::new();
    let (mut braces, mut brackets, mut is_enum) = (0_usize, 0_usize, false);
    let is_kind = |word: &str| ["struct", "union", "enum"].contains(&word);
    for line in header.lines() {
        if let Some(rest) = line.trim_start().strip_prefix('#') {
            let rest = rest.trim_start();
            found.extend(rest.strip_prefix("define ").and_then(|rest| words(rest).next()));
            continue;
        }
        let (mut at, mut kind) = (0, None);
        while let Some(letter) = line[at..].chars().next() {
            let word = words(&line[at..]).next().unwrap_or_default();
            let after = line[at + word.len()..].trim_start();
            match letter {
                '{' => braces += 1,
                '}' => braces = braces.saturating_sub(1),
                '(' => brackets += 1,
                ')' => brackets = brackets.saturating_sub(1),
                ';' if braces == 0 => is_enum = false,
                _ => {}
            }
            let is_named = match (braces, brackets) {
                (0, 0) => true,
                (0, _) => after.starts_with('('),
                (1, 0) => is_enum,
                _ => false,
            };
            if !word.is_empty() {
                is_enum |= braces == 0 && brackets == 0 && word == "enum";
                let begins = kind.take().unwrap_or(at);
                kind = is_kind(word).then_some(at);
                if is_named {
                    found.insert(&line[begins..at + word.len()]);
                }
            }
            at += word.len().max(letter.len_utf8());
        }
    }
    found
}

/// Whether a header's structure has the member.
fn has_member(header: &str, owner: &str, name: &str) -> bool {
    let body = header.split_once(&format!("\nstruct {owner} {{")).map(|(_, rest)| rest);
    let body = body.and_then(|rest| rest.split("\n}").next());
    body.is_some_and(|body| words(body).any(|word| word == name))
}

/// The remedies for calls of a header's functions and macros with another number of arguments than they take: they changed with a release of
/// Linux, and the headers follow another one than the source.
fn miscounted(said: &str, source: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut gives = None;
    let mut lines = said.lines();
    while let Some(line) = lines.next() {
        if line.contains(": error: ") {
            let few = line.contains("too few arguments").then_some(("fewer", "newer"));
            gives = few.or(line.contains("too many arguments").then_some(("more", "older")));
        }
        let (Some((amount, age)), Some((place, note))) = (gives, line.split_once(": note: "))
        else {
            continue;
        };
        let name = note.strip_suffix(" defined here").or(note.strip_suffix(" declared here"));
        let name = name.and_then(|name| name.split('\'').nth(1)).unwrap_or_default();
        gives = None;
        if name.is_empty() || Path::new(place.split(':').next().unwrap_or_default()) == source {
            continue;
        }
        let shown = lines.next().unwrap_or_default();
        let parameters =
            shown.split_once(&format!("{name}(")).and_then(|(_, rest)| rest.split(')').next());
        let told = format!(
            "{name}({}) is declared so in {place}, and the source gives {amount} arguments: the headers are {age} than the source. Call it as they \
             declare it, or say with -I where the headers of the source's time are",
            parameters.unwrap_or("...")
        );
        if !found.contains(&told) {
            found.push(told);
        }
    }
    found
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

/// The members that clang does not find, as far as `is_meant` says so of the member and its structure, each once.
fn members(said: &str, is_meant: impl Fn(&str, &str) -> bool) -> Vec<&str> {
    let mut found = Vec::new();
    for line in said.lines() {
        let mut quoted = line
            .split_once("no member named ")
            .into_iter()
            .flat_map(|(_, rest)| rest.split('\'').skip(1).step_by(2));
        if let (Some(name), Some(owner)) = (quoted.next(), quoted.next())
            && is_meant(name, owner.trim_start_matches("struct "))
            && !found.contains(&name)
        {
            found.push(name);
        }
    }
    found
}

/// The members and types that clang does not find.
fn missing(said: &str) -> Vec<&str> {
    [members(said, |_, _| true), missing_types(said)].concat()
}

/// The types that clang does not find.
fn missing_types(said: &str) -> Vec<&str> {
    let kinds = [
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
            known: "\nstruct task_struct {\n\tu64 newest;\n\tu32 flags;\n};\n#define scx_newest 1\n\
                    extern s32 scx_bpf_newest(s32 cpu) __ksym;\nenum scx_kind {\n\tSCX_NEWEST = 1,\n};\n\
                    struct pid {\n\tu64 weight;\n};\ntypedef enum scx_kind scx_kind_t;\n"
                .to_owned(),
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

    #[test]
    fn what_the_author_did_not_declare_is_not_the_kernels() {
        let folder = tempfile::tempdir().unwrap();
        let folders = [folder.path().to_owned()];
        let whole = "struct task_struct {};\nstruct sched_ext_ops {};\n";
        std::fs::write(folder.path().join("vmlinux.h"), whole).unwrap();
        for name in ["cpu", "flags", "newest", "task_struct_of", "pid", "weight"] {
            let said = format!("a.c:6:3: error: use of undeclared identifier '{name}'");
            assert_eq!(explain(&folders, &said), said);
        }
        let said = "a.c:6:3: error: no member named 'flags' in 'struct own'";
        assert_eq!(explain(&folders, said), said);
        for name in ["scx_newest", "SCX_NEWEST", "scx_kind_t", "scx_bpf_newest", "struct pid"] {
            let kind =
                if name == "struct pid" { "incomplete type" } else { "undeclared identifier" };
            let said = format!("a.c:6:3: error: use of {kind} '{name}'");
            let told = format!("is of an older kernel, without {name};");
            assert!(explain(&folders, &said).contains(&told), "{name}");
        }
    }

    #[test]
    fn headers_of_another_month_are_told_by_the_arguments_of_their_functions() {
        let said = "a.c:4:26: error: too few arguments provided to function-like macro invocation\n\
                    \u{20}   4 | bool g(void) { return scx_bpf_move(9); }\n      |     ^\n\
                    scx/compat.bpf.h:48:9: note: macro 'scx_bpf_move' defined here\n\
                    \u{20}  48 | #define scx_bpf_move(dsq_id, enq_flags)  \\\n      |         ^\n\
                    a.c:4:22: error: use of undeclared identifier 'scx_bpf_move'";
        let told = explain(&[], said);
        let part = "scx_bpf_move(dsq_id, enq_flags) is declared so in scx/compat.bpf.h:48:9, and the source gives fewer arguments: \
                    the headers are newer than the source";
        assert!(told.starts_with(said) && told.contains(part), "{told}");
        let more = said.replace("too few", "too many");
        assert!(explain(&[], &more).contains("the headers are older than the source"));
        // A mistake in a call of the source's own function is clang's to tell.
        let own = said.replace("scx/compat.bpf.h", "/none.bpf.c");
        assert_eq!(explain(&[], &own), own);
    }
}
