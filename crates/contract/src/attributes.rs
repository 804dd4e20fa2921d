//! Task attributes that no kernel policy can express, as laid out in `schedulers/include/task_attributes.h`.
//!
//! Workload files have them under a task's `fairground` key, `fairground task` takes them as options; both mean the same.

/// Name of the task storage map that holds them.
pub const MAP: &str = "task_attributes";

/// Their names, by which a scheduler's manifest lists those that it reads.
pub const NAMES: [&str; 6] =
    ["shares", "hard_cap", "soft_cap", "isochronous", "background", "realtime"];

/// A fraction of one CPU: numerator and denominator, both at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fraction {
    /// Numerator.
    pub numerator: u32,
    /// Denominator.
    pub denominator: u32,
}

/// Kind of a real-time task in the sense of BMQS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Realtime {
    /// Stays on its CPU.
    Local,
    /// Runs on any CPU.
    Global,
}

/// The attributes of one task; `None` leaves the scheduler's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Shares (EBS), 1 to 420.
    pub shares: Option<u32>,
    /// Cap that always holds (EBS).
    pub hard_cap: Option<Fraction>,
    /// Cap that holds unless a CPU would idle (EBS).
    pub soft_cap: Option<Fraction>,
    /// Isochronous (BFS).
    pub isochronous: Option<bool>,
    /// Runs only when nothing else would.
    pub background: Option<bool>,
    /// Real-time kind (BMQS).
    pub realtime: Option<Realtime>,
    /// Priority among real-time tasks, 1 to 99.
    pub realtime_priority: Option<u32>,
}

/// Length of `struct task_attributes` in bytes.
pub const SIZE: usize = 40;

const PRESENT_SHARES: u32 = 1 << 0;
const PRESENT_HARD_CAP: u32 = 1 << 1;
const PRESENT_SOFT_CAP: u32 = 1 << 2;
const PRESENT_ISOCHRONOUS: u32 = 1 << 3;
const PRESENT_BACKGROUND: u32 = 1 << 4;
const PRESENT_REALTIME: u32 = 1 << 5;

impl Attributes {
    /// Reads attributes as workload files write them.
    ///
    /// # Errors
    ///
    /// One sentence that names the attribute, what is wrong with it, and its possible values.
    pub fn parse(written: &[(String, String)]) -> Result<Attributes, String> {
        let mut attributes = Attributes::default();
        for (name, value) in written {
            attributes.set(name, value)?;
        }
        if attributes.realtime_priority.is_some() && attributes.realtime.is_none() {
            return Err("\"realtime_priority\" needs \"realtime\": \"local\" or \"global\"".into());
        }
        Ok(attributes)
    }

    /// Sets one attribute from its text.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "shares" => self.shares = Some(number(name, value, 1, 420)?),
            "cap" => {
                // The task's only cap: soft unless it ends with "!".
                (self.hard_cap, self.soft_cap) = match value.strip_suffix('!') {
                    Some(value) => (Some(hard_cap(name, value)?), None),
                    None => (None, Some(fraction(name, value)?)),
                }
            }
            "hard_cap" => self.hard_cap = Some(hard_cap(name, value)?),
            "soft_cap" => self.soft_cap = Some(fraction(name, value)?),
            "isochronous" => self.isochronous = Some(truth(name, value)?),
            "background" => self.background = Some(truth(name, value)?),
            "realtime" => {
                self.realtime = match value {
                    "local" => Some(Realtime::Local),
                    "global" => Some(Realtime::Global),
                    "none" => None,
                    _ => {
                        return Err(format!(
                            "\"realtime\" is {value:?}; it may be \"local\", \"global\" or \"none\""
                        ));
                    }
                }
            }
            "realtime_priority" => self.realtime_priority = Some(number(name, value, 1, 99)?),
            _ => {
                return Err(format!(
                    "there is no attribute {name:?}; there are shares, cap, hard_cap, soft_cap, isochronous, background, \
                     realtime and realtime_priority"
                ));
            }
        }
        Ok(())
    }

    /// The names of the attributes that are set.
    pub fn names(&self) -> Vec<&'static str> {
        let set = [
            self.shares.is_some(),
            self.hard_cap.is_some(),
            self.soft_cap.is_some(),
            self.isochronous.is_some(),
            self.background.is_some(),
            self.realtime.is_some(),
        ];
        NAMES.into_iter().zip(set).filter_map(|(name, set)| set.then_some(name)).collect()
    }

    /// The weight that the task is to have relative to others, on the scale where 20 shares, the default, equal 1024, the load weight of nice
    /// 0: proportional to its shares, and `idle` for background tasks and for soft caps of 0; `None` leaves it to nice.
    pub fn weight(&self, idle: u32) -> Option<u32> {
        let nothing = self.soft_cap.is_some_and(|cap| cap.numerator == 0);
        if nothing || self.background == Some(true) {
            return Some(idle);
        }
        self.shares.map(|shares| (shares * 1024 / 20).max(1))
    }

    /// The nice value that shares amount to, to be set before the shares, because a new nice value sets the shares (Lee 2004:
    /// 20 - nice, or 20 + nice * nice for negative ones; of two values as near the one closer to 0). `None` leaves it as it is.
    pub fn nice(&self) -> Option<i32> {
        let shares = i64::from(self.shares?);
        let shares_of = |nice: i64| 20 - nice + if nice < 0 { nice * nice + nice } else { 0 };
        (-20..=19).min_by_key(|nice| {
            let nice = i64::from(*nice);
            ((shares_of(nice) - shares).abs(), nice.abs())
        })
    }

    /// The bytes of `struct task_attributes`.
    pub fn encode(&self) -> [u8; SIZE] {
        let mut words = [0u32; SIZE / 4];
        if let Some(shares) = self.shares {
            words[0] |= PRESENT_SHARES;
            words[1] = shares;
        }
        if let Some(cap) = self.hard_cap {
            words[0] |= PRESENT_HARD_CAP;
            (words[2], words[3]) = (cap.numerator, cap.denominator);
        }
        if let Some(cap) = self.soft_cap {
            words[0] |= PRESENT_SOFT_CAP;
            (words[4], words[5]) = (cap.numerator, cap.denominator);
        }
        if let Some(isochronous) = self.isochronous {
            words[0] |= PRESENT_ISOCHRONOUS;
            words[6] = isochronous.into();
        }
        if let Some(background) = self.background {
            words[0] |= PRESENT_BACKGROUND;
            words[7] = background.into();
        }
        if let Some(realtime) = self.realtime {
            words[0] |= PRESENT_REALTIME;
            words[8] = if realtime == Realtime::Local { 1 } else { 2 };
            words[9] = self.realtime_priority.unwrap_or(1);
        }
        let mut bytes = [0; SIZE];
        for (target, word) in bytes.chunks_exact_mut(4).zip(words) {
            target.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// Reads the bytes of `struct task_attributes`; `None` if they are too few.
    pub fn decode(bytes: &[u8]) -> Option<Attributes> {
        let words: Vec<u32> = bytes
            .get(..SIZE)?
            .chunks_exact(4)
            .map(|chunk| u32::from_ne_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]))
            .collect();
        let has = |bit| words[0] & bit != 0;
        let cap = |at: usize| Fraction { numerator: words[at], denominator: words[at + 1] };
        let realtime = match words[8] {
            1 => Some(Realtime::Local),
            2 => Some(Realtime::Global),
            _ => None,
        };
        Some(Attributes {
            shares: has(PRESENT_SHARES).then_some(words[1]),
            hard_cap: has(PRESENT_HARD_CAP).then(|| cap(2)),
            soft_cap: has(PRESENT_SOFT_CAP).then(|| cap(4)),
            isochronous: has(PRESENT_ISOCHRONOUS).then_some(words[6] != 0),
            background: has(PRESENT_BACKGROUND).then_some(words[7] != 0),
            realtime: realtime.filter(|_| has(PRESENT_REALTIME)),
            realtime_priority: (has(PRESENT_REALTIME) && realtime.is_some()).then_some(words[9]),
        })
    }
}

fn number(name: &str, value: &str, low: u32, high: u32) -> Result<u32, String> {
    match value.parse() {
        Ok(number) if (low..=high).contains(&number) => Ok(number),
        _ => Err(format!("\"{name}\" is {value:?}; it may be {low} to {high}")),
    }
}

fn truth(name: &str, value: &str) -> Result<bool, String> {
    match value {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(format!("\"{name}\" is {value:?}; it may be true or false")),
    }
}

fn hard_cap(name: &str, value: &str) -> Result<Fraction, String> {
    let cap = fraction(name, value)?;
    match cap.numerator {
        0 => Err(format!(
            "\"{name}\" is {value:?}; a hard cap of nothing is not permitted, a soft one makes a background task"
        )),
        _ => Ok(cap),
    }
}

fn fraction(name: &str, value: &str) -> Result<Fraction, String> {
    let wrong = || {
        format!("\"{name}\" is {value:?}; it is a fraction of one CPU, at most 1, such as 1/4 or 1")
    };
    let (numerator, denominator) = value.split_once('/').unwrap_or((value, "1"));
    let numerator: u32 = numerator.trim().parse().map_err(|_| wrong())?;
    let denominator: u32 = denominator.trim().parse().map_err(|_| wrong())?;
    if denominator == 0 || denominator > 1_000_000 || numerator > denominator {
        return Err(wrong());
    }
    Ok(Fraction { numerator, denominator })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Attributes, String> {
        let owned: Vec<_> =
            pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Attributes::parse(&owned)
    }

    #[test]
    fn shares_amount_to_the_nearest_nice_value() {
        let nice = |shares: u32| {
            let attributes = Attributes { shares: Some(shares), ..Attributes::default() };
            attributes.nice()
        };
        for (shares, expected) in [
            (420, -20),
            (381, -19),
            (101, -9),
            (95, -9),
            (92, -8),
            (21, -1),
            (20, 0),
            (5, 15),
            (1, 19),
        ] {
            assert_eq!(nice(shares), Some(expected), "{shares} shares");
        }
        assert_eq!(Attributes::default().nice(), None);
    }

    #[test]
    fn shares_are_weights_around_those_of_nice_0() {
        let weight = |pairs: &[(&str, &str)]| parse(pairs).unwrap().weight(3);
        assert_eq!(weight(&[("shares", "20")]), Some(1024));
        assert_eq!(weight(&[("shares", "420")]), Some(21504));
        assert_eq!(weight(&[("shares", "1")]), Some(51));
        assert_eq!(weight(&[("background", "true")]), Some(3));
        assert_eq!(weight(&[("soft_cap", "0")]), Some(3));
        assert_eq!(weight(&[("soft_cap", "1/4")]), None);
        assert_eq!(weight(&[]), None);
    }

    #[test]
    fn what_is_written_comes_back() {
        let attributes = parse(&[
            ("shares", "60"),
            ("cap", "1/4!"),
            ("soft_cap", "1/2"),
            ("isochronous", "true"),
            ("background", "false"),
            ("realtime", "global"),
            ("realtime_priority", "7"),
        ])
        .unwrap();
        assert_eq!(attributes.hard_cap, Some(Fraction { numerator: 1, denominator: 4 }));
        assert_eq!(Attributes::decode(&attributes.encode()), Some(attributes));
        let nothing = Attributes::default();
        assert_eq!(Attributes::decode(&nothing.encode()), Some(nothing));
    }

    #[test]
    fn a_task_has_one_cap_and_a_possible_one() {
        let mut attributes = parse(&[("cap", "1/4!")]).unwrap();
        attributes.set("cap", "1/2").unwrap();
        assert_eq!(attributes.hard_cap, None);
        assert!(attributes.soft_cap.is_some());
        attributes.set("cap", "1/3!").unwrap();
        assert_eq!(attributes.soft_cap, None);
        for impossible in ["0!", "3/2!", "3", "1/0", "-1/2"] {
            assert!(parse(&[("cap", impossible)]).is_err(), "{impossible}");
        }
        assert!(parse(&[("hard_cap", "0")]).is_err());
        assert!(parse(&[("cap", "0")]).is_ok());
    }

    #[test]
    fn wrong_values_are_named() {
        for (name, value, part) in [
            ("shares", "0", "1 to 420"),
            ("cap", "1/0", "fraction"),
            ("realtime", "yes", "local"),
            ("speed", "1", "no attribute"),
            ("isochronous", "maybe", "true or false"),
        ] {
            let message = parse(&[(name, value)]).unwrap_err();
            assert!(message.contains(part), "{message}");
        }
        assert!(parse(&[("realtime_priority", "5")]).unwrap_err().contains("realtime"));
    }
}
