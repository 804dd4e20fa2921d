//! The kernel of this machine: whether it can load a scheduler, and which one it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::path::Path;

use fairground_bpf::SCHEDULER_TABLES;
use libbpf_rs::btf::types::{Enum, Enum64, Struct};
use libbpf_rs::btf::{Btf, HasSize as _};
use nix::libc;

use crate::Error;

/// Oldest kernel (major, minor) that schedulers are written for.
pub const OLDEST_KERNEL: (u32, u32) = (6, 18);

/// The kernels of distributions, as the documents have them.
const DISTRIBUTIONS: &str = include_str!("../../../docs/kernels.md");

const SCHED_EXT: &str = "/sys/kernel/sched_ext";
const KERNEL_BTF: &str = "/sys/kernel/btf/vmlinux";
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// Checks everything that must hold before a scheduler can be loaded.
pub fn check_can_load() -> Result<(), Error> {
    check_can_verify()?;
    check_none_loaded()
}

/// Checks that the kernel's own scheduler is in charge.
///
/// # Errors
/// [`Error::AlreadyLoaded`], naming the other one.
pub fn check_none_loaded() -> Result<(), Error> {
    match loaded_scheduler() {
        Some(name) => Err(Error::AlreadyLoaded { name }),
        None => Ok(()),
    }
}

/// Checks whether this machine's kernel can load schedulers, whoever asks.
///
/// # Errors
/// A kernel that is too old or has no sched_ext.
pub fn check_this_kernel() -> Result<(), Error> {
    check_kernel(&release()?, Path::new("/"))
}

/// Checks everything that must hold before the verifier can be asked about a scheduler.
pub fn check_can_verify() -> Result<(), Error> {
    check_this_kernel()?;
    check_root("loading a scheduler")
}

/// Checks that the caller is root.
///
/// # Errors
/// [`Error::NotRoot`], naming the `action` (the beginning of a sentence).
pub fn check_root(action: &'static str) -> Result<(), Error> {
    if nix::unistd::geteuid().is_root() { Ok(()) } else { Err(Error::NotRoot { action }) }
}

/// The running kernel's release, as `uname -r` prints it.
pub fn release() -> Result<String, Error> {
    let path = "/proc/sys/kernel/osrelease";
    let text = fs::read_to_string(path).map_err(Error::system(format!("cannot read {path}")))?;
    Ok(text.trim().to_owned())
}

/// The running kernel, as far as a scheduler's loader depends on it.
#[derive(Clone, Debug, Default)]
pub struct KernelTypes {
    /// The constants of its enumerations, by name.
    pub constants: BTreeMap<String, u64>,
    /// The members of each structure that defines a scheduler, as structure and name.
    pub members: BTreeSet<(String, String)>,
    /// Number of CPUs that went online or offline since boot, from which the kernel sees whether the set has changed since; 0 if it does not count them.
    pub hotplug_sequence: u64,
}

impl KernelTypes {
    /// Reads the running kernel's type information.
    pub fn read() -> Result<Self, Error> {
        let kernel = Btf::from_vmlinux().map_err(|error| Error::System {
            what: format!("cannot read {KERNEL_BTF}"),
            source: std::io::Error::other(error),
        })?;
        let mut members = BTreeSet::new();
        for table in SCHEDULER_TABLES {
            let structure = kernel.type_by_name::<Struct<'_>>(table);
            for member in structure.iter().flat_map(|one| one.iter()) {
                let name = member.name.unwrap_or_default().to_string_lossy();
                members.insert((table.to_owned(), name.into_owned()));
            }
        }
        Ok(Self {
            constants: enumerators(&kernel),
            members,
            hotplug_sequence: hotplug_sequence().unwrap_or(0),
        })
    }

    pub(crate) fn has_member(&self, structure: &str, member: &str) -> bool {
        let known = (structure.to_owned(), member.to_owned());
        self.members.contains(&known)
    }
}

/// The enumerators of all enumerations, with their values.
///
/// Type information without 64-bit enumerations truncates large values. Those are not returned: a wrong constant in a scheduler is worse than none.
fn enumerators(btf: &Btf<'_>) -> BTreeMap<String, u64> {
    let mut values = BTreeMap::new();
    // Two's complement, as C converts it to u64.
    let mut insert = |name: Option<&OsStr>, value: i64| {
        let name = name.unwrap_or_default().to_string_lossy().into_owned();
        values.insert(name, value.cast_unsigned());
    };
    for enumeration in btf.type_by_kind::<Enum64<'_>>() {
        for member in enumeration.iter() {
            #[expect(clippy::cast_possible_truncation, reason = "a value of 64 bits")]
            insert(member.name, member.value as i64);
        }
    }
    for enumeration in btf.type_by_kind::<Enum<'_>>().filter(|e| e.size() <= 4) {
        for member in enumeration.iter() {
            insert(member.name, member.value);
        }
    }
    values
}

/// In words: the kernel, the processors, and their settings that affect results.
pub fn description() -> Result<String, Error> {
    let read = |path: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let release = release()?;
    let cpus = online_cpus();
    let information = read("/proc/cpuinfo").unwrap_or_default();
    let config = read(&format!("/boot/config-{release}")).unwrap_or_default();
    let ticks = value(&config, "CONFIG_HZ", '=');
    let governor = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    let threads = match read("/sys/devices/system/cpu/smt/active").as_deref() {
        Some("1") => "SMT on",
        Some("0") => "SMT off",
        _ => "SMT unknown",
    };
    Ok(format!(
        "Linux {release}, {cpus} CPU{} ({}), {}, {}, {threads}",
        if cpus == 1 { "" } else { "s" },
        value(&information, "model name", ':').unwrap_or("of an unknown model"),
        ticks.map_or_else(
            || "tick rate unknown".to_owned(),
            |ticks| format!("{ticks} ticks a second")
        ),
        governor.map_or_else(
            || "no frequency governor".to_owned(),
            |governor| format!("frequency governor {governor}")
        ),
    ))
}

/// Number of online CPUs.
pub fn online_cpus() -> usize {
    let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    information.lines().filter(|line| line.starts_with("processor")).count()
}

/// The value in the first line of the form `name SEPARATOR value`.
fn value<'t>(text: &'t str, name: &str, separator: char) -> Option<&'t str> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(separator));
    let (_, value) = pairs.find(|(key, _)| key.trim() == name)?;
    Some(value.trim())
}

/// Checks the kernel's version, and that it has sched_ext and type information under `root`.
fn check_kernel(release: &str, root: &Path) -> Result<(), Error> {
    let system = fs::read_to_string(root.join("etc/os-release")).unwrap_or_default();
    if version(release).is_some_and(|version| version < OLDEST_KERNEL) {
        return Err(Error::KernelTooOld { release: release.to_owned(), remedy: remedy(&system) });
    }
    for file in [SCHED_EXT, KERNEL_BTF] {
        if !root.join(&file[1..]).exists() {
            return Err(Error::NoSchedExt {
                release: release.to_owned(),
                missing: file.to_owned(),
                remedy: remedy(&system),
            });
        }
    }
    Ok(())
}

/// Where a system, described as in /etc/os-release, has a kernel that can load schedulers.
fn remedy(system: &str) -> String {
    let field = |name| value(system, name, '=').unwrap_or_default().trim_matches('"');
    // `opensuse-leap` and `arch` say in the one word what others say in two; what rolls may have a version or not.
    let id = field("ID").replace('-', " ");
    let names = [id.clone(), format!("{id} rolling"), format!("{id} {}", field("VERSION_ID"))];
    let mut rows = DISTRIBUTIONS.lines().map(|line| line.split('|').map(str::trim).collect());
    let found = rows.find_map(|row: Vec<&str>| match row[..] {
        [_, name, release, kernel, _, way, ..] => {
            let title = format!("{name} {release}");
            let is_it = names.contains(&title.to_lowercase());
            is_it.then(|| match way {
                "its own" => format!("{title} has it in its own kernel, {kernel} or newer"),
                way => format!("for {title} it is {way}"),
            })
        }
        _ => None,
    });
    found
        .unwrap_or_else(|| "docs/kernels.md names kernels of distributions that have it".to_owned())
}

/// Major and minor number of a release such as `7.3.4-1~bpo12-amd64`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Name of the scheduler in the kernel, if there is one.
pub fn loaded_scheduler() -> Option<String> {
    let state = read("state")?;
    if state == "disabled" {
        return None;
    }
    Some(read("root/ops").unwrap_or_else(|| format!("(name unknown, {state})")))
}

/// The scheduler in charge at some moment, to detect a change later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incumbent {
    name: Option<String>,
    sequence: Option<u64>,
}

impl Incumbent {
    /// The current one. One that the kernel is about to remove no longer counts as in charge.
    pub fn now() -> Self {
        let leaves = read("state").is_some_and(|state| state == "disabling");
        Self { name: loaded_scheduler().filter(|_| !leaves), sequence: enable_sequence() }
    }

    /// Its name; `None` for the kernel's own.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// A message if another scheduler is in charge now or the same one was reloaded; `during` names the activity in between.
    pub fn change(&self, during: &str) -> Option<String> {
        self.change_to(&Self::now(), during)
    }

    fn change_to(&self, now: &Self, during: &str) -> Option<String> {
        if self == now {
            return None;
        }
        Some(match (&self.name, &now.name) {
            (Some(before), Some(after)) if before == after => {
                format!("{after} was loaded again during the {during}")
            }
            (None, None) => format!("a scheduler was loaded and taken out during the {during}"),
            (before, after) => {
                let name =
                    |name: &Option<String>| name.clone().unwrap_or("the kernel's own".to_owned());
                format!(
                    "the scheduler changed during the {during}, from {} to {}",
                    name(before),
                    name(after)
                )
            }
        })
    }
}

/// The CPUs that are online at some moment, to detect a change later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Online {
    /// As the kernel lists them.
    list: String,
    /// Number of changes since boot, which also tells of one that was undone; `None` if the kernel does not count them.
    sequence: Option<u64>,
}

impl Online {
    /// The present ones.
    pub fn now() -> Self {
        let list = fs::read_to_string(ONLINE).unwrap_or_default();
        Self { list: list.trim().to_owned(), sequence: hotplug_sequence() }
    }

    /// A message if others are online now or some were not meanwhile; `during` names the activity in between.
    pub fn change(&self, during: &str) -> Option<String> {
        self.change_to(&Self::now(), during)
    }

    fn change_to(&self, now: &Self, during: &str) -> Option<String> {
        let (before, after) = (&self.list, &now.list);
        (self != now).then(|| {
            format!(
                "CPUs went offline or came online during the {during} ({before} at its beginning, {after} at its end): do not rely on figures about idle \
                 CPUs, ideal shares or lags"
            )
        })
    }
}

/// A file descriptor of a thread, the key of task storage.
pub(crate) fn thread_descriptor(pid: u32) -> Result<OwnedFd, Error> {
    /// `PIDFD_THREAD`: any thread, not only the first of its process.
    const THREAD: libc::c_int = libc::O_EXCL;
    // SAFETY: the call takes numbers and returns a new descriptor or an error.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, THREAD) };
    match i32::try_from(result) {
        // SAFETY: the descriptor is new and has no other owner.
        Ok(descriptor) if descriptor >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        _ => Err(no_thread(pid, &std::io::Error::last_os_error())),
    }
}

pub(crate) fn no_thread(pid: u32, error: &std::io::Error) -> Error {
    Error::Usage { reason: format!("there is no thread {pid}: {error}") }
}

/// Whether a thread has ended.
pub fn thread_is_gone(pid: u32) -> bool {
    !std::path::Path::new("/proc").join(pid.to_string()).exists()
}

/// Number of schedulers enabled since boot.
pub fn enable_sequence() -> Option<u64> {
    read("enable_seq")?.parse().ok()
}

fn hotplug_sequence() -> Option<u64> {
    read("hotplug_seq")?.parse().ok()
}

/// The kernel's own counters for the scheduler in place, in the kernel's order; empty if it has none.
pub fn kernel_events() -> Vec<(String, u64)> {
    parse_events(&read("root/events").unwrap_or_default())
}

fn parse_events(text: &str) -> Vec<(String, u64)> {
    text.lines()
        .filter_map(|line| {
            let (name, value) = line.split_once(' ')?;
            Some((name.to_owned(), value.trim().parse().ok()?))
        })
        .collect()
}

/// A file in sched_ext's sysfs folder without the trailing newline; `None` if it cannot be read.
fn read(name: &str) -> Option<String> {
    Some(fs::read_to_string(Path::new(SCHED_EXT).join(name)).ok()?.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_distributions() {
        assert_eq!(version("7.3.4-1~bpo12-amd64"), Some((7, 3)));
        assert_eq!(version("6.1.0-13-amd64"), Some((6, 1)));
        assert_eq!(version("6.18"), Some((6, 18)));
        assert_eq!(version("unknown"), None);
    }

    #[test]
    fn kernels_that_cannot_are_told_apart() {
        let nowhere = Path::new("/nonexistent");
        let old = check_kernel("6.12.1", nowhere).unwrap_err().to_string();
        assert!(old.contains("6.12.1") && old.contains("6.18 or newer"), "{old}");
        let without = check_kernel("7.3.4", nowhere).unwrap_err().to_string();
        assert!(without.contains("/sys/kernel/sched_ext is missing"), "{without}");
        assert!(without.contains("docs/kernels.md names kernels"), "{without}");
        let debian = remedy("PRETTY_NAME=\"Debian\"\nVERSION_ID=\"13\"\nID=debian\n");
        let expected = "for Debian 13 it is linux-image-amd64 of trixie-backports: 7.3.4, on";
        assert_eq!(debian, expected);
        for (system, expected) in [
            ("ID=fedora\nVERSION_ID=44\n", "Fedora 44 has it in its own kernel, 7.1.13 or newer"),
            ("ID=arch\n", "Arch rolling has it in its own kernel, 7.2.11 or newer"),
            (
                "ID=\"opensuse-leap\"\nVERSION_ID=\"16.0\"\n",
                "for openSUSE Leap 16.0 it is Tumbleweed",
            ),
            (
                "ID=\"opensuse-tumbleweed\"\nVERSION_ID=\"20261128\"\n",
                "openSUSE Tumbleweed has it in",
            ),
        ] {
            let said = remedy(system);
            assert!(said.starts_with(expected), "{system}: {said}");
        }
    }

    #[test]
    fn changes_of_the_scheduler_in_charge() {
        let incumbent = |name: Option<&str>, sequence| Incumbent {
            name: name.map(str::to_owned),
            sequence: Some(sequence),
        };
        let (own, bfs) = (incumbent(None, 0), incumbent(Some("bfs"), 1));
        let change = |one: &Incumbent, other: &Incumbent| one.change_to(other, "run");
        assert_eq!(change(&bfs, &bfs), None);
        let is =
            |change: Option<String>, expected: &str| assert_eq!(change.as_deref(), Some(expected));
        is(
            change(&bfs, &incumbent(None, 1)),
            "the scheduler changed during the run, from bfs to the kernel's own",
        );
        is(change(&bfs, &incumbent(Some("bfs"), 2)), "bfs was loaded again during the run");
        is(
            change(&own, &incumbent(None, 1)),
            "a scheduler was loaded and taken out during the run",
        );
    }

    #[test]
    fn changes_of_the_online_cpus() {
        let online = |list: &str, sequence| Online { list: list.to_owned(), sequence };
        let both = online("0-1", Some(1));
        assert_eq!(both.change_to(&both, "run"), None);
        let is_told = |other: Online, expected: &str| {
            let change = both.change_to(&other, "run").expect("it is one");
            assert!(change.contains(expected), "{change}");
        };
        is_told(online("0", Some(2)), "during the run (0-1 at its beginning, 0 at its end)");
        is_told(online("0-1", Some(3)), "(0-1 at its beginning, 0-1 at its end)");
    }

    #[test]
    fn values_of_lines() {
        let config = "CONFIG_HZ_250=y\n# CONFIG_HZ_1000 is not set\nCONFIG_HZ=250\n";
        assert_eq!(value(config, "CONFIG_HZ", '='), Some("250"));
        let processor = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz: fast\n";
        assert_eq!(value(processor, "model name", ':'), Some("Some CPU @ 2 GHz: fast"));
        assert_eq!(value(processor, "stepping", ':'), None);
    }

    #[test]
    fn events_of_the_kernel() {
        let text = "SCX_EV_SELECT_CPU_FALLBACK 3\nSCX_EV_REFILL_SLICE_DFL 456789\n";
        assert_eq!(
            parse_events(text),
            [
                ("SCX_EV_SELECT_CPU_FALLBACK".to_owned(), 3),
                ("SCX_EV_REFILL_SLICE_DFL".to_owned(), 456_789)
            ]
        );
        assert!(parse_events("").is_empty());
    }
}
