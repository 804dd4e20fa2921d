//! Releases of Linux, and ranges of them.

use std::fmt;
use std::str::FromStr;

/// A release of Linux, such as 6.18, with all its stable updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release {
    major: u8,
    minor: u8,
}

impl Release {
    /// The releases with sched_ext, from the first to the one that the model follows.
    pub const ALL: [Release; 12] = [
        Release::new(6, 12),
        Release::new(6, 13),
        Release::new(6, 14),
        Release::new(6, 15),
        Release::new(6, 16),
        Release::new(6, 17),
        Release::new(6, 18),
        Release::new(6, 19),
        Release::new(7, 0),
        Release::new(7, 1),
        Release::new(7, 2),
        Release::new(7, 3),
    ];
    /// The first one with sched_ext.
    pub const OLDEST: Release = Release::ALL[0];
    /// The one that the model follows.
    pub const NEWEST: Release = Release::ALL[Release::ALL.len() - 1];

    /// The release with this number.
    pub const fn new(major: u8, minor: u8) -> Release {
        Release { major, minor }
    }

    /// Its number as the kernel encodes it (`KERNEL_VERSION`), without stable updates.
    pub fn code(self) -> u64 {
        u64::from(self.major) << 16 | u64::from(self.minor) << 8
    }

    /// How deep the functions of a BPF program may call one another (`MAX_CALL_FRAMES`): tried on 6.18 and 7.3, and taken to be the larger number
    /// in between.
    pub fn call_frames(self) -> usize {
        if self <= Release::new(6, 18) { 8 } else { 16 }
    }

    const fn is_before(self, other: Release) -> bool {
        self.major < other.major || self.major == other.major && self.minor < other.minor
    }
}

impl fmt::Display for Release {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for Release {
    type Err = String;

    /// Reads a release that has sched_ext and is not newer than the model.
    fn from_str(text: &str) -> Result<Release, String> {
        let found = Release::ALL.into_iter().find(|one| one.to_string() == text);
        found.ok_or_else(|| {
            format!(
                "a release of Linux from {} to {}, such as 6.18",
                Release::OLDEST,
                Release::NEWEST
            )
        })
    }
}

/// The releases that have something: from one on, or from the first, up to the last one or the last before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Releases {
    /// The first, if that is newer than [`Release::OLDEST`].
    pub since: Option<Release>,
    /// The first that no longer has it.
    pub until: Option<Release>,
}

impl Releases {
    /// All of them.
    pub const ALL: Releases = Releases { since: None, until: None };

    /// Whether `release` is among them.
    pub const fn contains(self, release: Release) -> bool {
        if let Some(since) = self.since
            && release.is_before(since)
        {
            return false;
        }
        match self.until {
            Some(until) => release.is_before(until),
            None => true,
        }
    }

    /// The way to a release that has it, on one that has not, as the rest of a sentence about it; `None` if no known release has it.
    pub fn way(self) -> Option<String> {
        let mut all = Release::ALL.into_iter().filter(|one| self.contains(*one));
        let first = all.next()?;
        let last = all.next_back().unwrap_or(first);
        Some(match first == last {
            true => format!("Linux {first} has it: --kernel {first}"),
            false => format!("Linux {first} to {last} have it: --kernel {last}"),
        })
    }

    /// Those in a table: `6.13..` for all since that release, `..6.18` for all before that one, `6.13..7.0` for those between, `..` for all.
    ///
    /// # Panics
    ///
    /// If the text is none of these. The tables are part of the program, and each is read by a test.
    pub const fn read(text: &str) -> Releases {
        let bytes = text.as_bytes();
        let mut dots = 0;
        while !(bytes[dots] == b'.' && bytes[dots + 1] == b'.') {
            dots += 1;
        }
        Releases {
            since: release_in(bytes, 0, dots),
            until: release_in(bytes, dots + 2, bytes.len()),
        }
    }
}

/// The release in a part of a text, which may be empty.
const fn release_in(bytes: &[u8], mut from: usize, to: usize) -> Option<Release> {
    if from == to {
        return None;
    }
    let mut numbers = [0_u8; 2];
    let mut which = 0;
    while from < to {
        match bytes[from] {
            b'.' => which += 1,
            digit => {
                assert!(digit.is_ascii_digit(), "a release is made of digits");
                numbers[which] = numbers[which] * 10 + (digit - b'0');
            }
        }
        from += 1;
    }
    Some(Release::new(numbers[0], numbers[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read_in_their_order() {
        assert!(Release::ALL.is_sorted());
        for release in Release::ALL {
            assert_eq!(release.to_string().parse(), Ok(release));
        }
        for wrong in ["6.11", "7.4", "6", "6.18.2", ""] {
            assert!(wrong.parse::<Release>().is_err(), "{wrong}");
        }
        assert_eq!(Release::new(6, 18).code(), 0x6_1200);
    }

    #[test]
    fn a_range_ends_before_its_second_release() {
        let count = |text| {
            let releases = Releases::read(text);
            Release::ALL.into_iter().filter(|one| releases.contains(*one)).count()
        };
        assert_eq!(["..", "6.13..", "..6.18", "6.17..7.0", "7.3.."].map(count), [12, 11, 6, 3, 1]);
    }
}
