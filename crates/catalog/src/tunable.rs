//! Tunables: a scheduler's constants that may be set before it is loaded.

use crate::error::Error;

/// The C type of a tunable: a `const volatile` global variable of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntegerType {
    /// Size in bytes: 1, 2, 4 or 8.
    pub size: u32,
    /// Whether it can hold negative numbers.
    pub signed: bool,
    /// Whether it is `bool`; then size is 1.
    pub boolean: bool,
}

impl IntegerType {
    /// The type by its kernel name: `u8` to `u64`, `s8` to `s64`, `bool`.
    pub fn from_name(name: &str) -> Option<Self> {
        let (size, signed, boolean) = match name {
            "bool" => (1, false, true),
            "u8" => (1, false, false),
            "u16" => (2, false, false),
            "u32" => (4, false, false),
            "u64" => (8, false, false),
            "s8" => (1, true, false),
            "s16" => (2, true, false),
            "s32" => (4, true, false),
            "s64" => (8, true, false),
            _ => return None,
        };
        Some(Self { size, signed, boolean })
    }

    /// Its kernel name, as in a manifest.
    pub fn name(self) -> &'static str {
        match (self.boolean, self.signed, self.size) {
            (true, ..) => "bool",
            (_, false, 1) => "u8",
            (_, false, 2) => "u16",
            (_, false, 4) => "u32",
            (_, false, _) => "u64",
            (_, true, 1) => "s8",
            (_, true, 2) => "s16",
            (_, true, 4) => "s32",
            (_, true, _) => "s64",
        }
    }

    /// The smallest number it holds.
    pub fn minimum(self) -> i128 {
        if self.signed { -(1_i128 << (self.size * 8 - 1)) } else { 0 }
    }

    /// The largest number it holds.
    pub fn maximum(self) -> i128 {
        if self.boolean { 1 } else { (1_i128 << (self.size * 8 - u32::from(self.signed))) - 1 }
    }

    /// The bytes of a number in memory, as BPF reads them on this machine. The number must lie between
    /// [`minimum`](Self::minimum) and [`maximum`](Self::maximum).
    pub fn encode(self, value: i128) -> Vec<u8> {
        let size = self.size as usize;
        if cfg!(target_endian = "little") {
            value.to_le_bytes()[..size].to_vec()
        } else {
            value.to_be_bytes()[16 - size..].to_vec()
        }
    }
}

/// The unit of a tunable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A plain number.
    None,
    /// Time, in multiples of the given number of nanoseconds: 1, 10³, 10⁶ or 10⁹.
    Time(i128),
    /// Hundredths.
    Percent,
    /// Named things: `ticks`, `Hz`, `tasks`.
    Named(String),
}

/// Units of time by suffix, in nanoseconds.
const TIME_SUFFIXES: [(&str, i128); 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

impl Unit {
    /// The unit by its text in a manifest; the empty text is no unit.
    pub fn from_name(name: &str) -> Self {
        if let Some((_, scale)) = TIME_SUFFIXES.iter().find(|(suffix, _)| *suffix == name) {
            return Self::Time(*scale);
        }
        match name {
            "" => Self::None,
            "%" => Self::Percent,
            other => Self::Named(other.to_owned()),
        }
    }

    /// The unit of a variable that ends with one, such as `slice_us`; otherwise none.
    pub fn of_name(variable: &str) -> Self {
        match variable.rsplit_once('_') {
            Some((_, unit @ ("ns" | "us" | "ms"))) => Self::from_name(unit),
            _ => Self::None,
        }
    }

    /// The text behind a number of this unit, without the space between: `ms`, `%`, `ticks`.
    pub fn suffix(&self) -> &str {
        match self {
            Self::None => "",
            Self::Time(scale) => TIME_SUFFIXES
                .iter()
                .find(|(_, known)| known == scale)
                .map_or("ns", |(suffix, _)| suffix),
            Self::Percent => "%",
            Self::Named(name) => name,
        }
    }

    /// Factor and divisor that convert a number with `suffix` to this unit.
    fn ratio(&self, suffix: &str) -> Option<(i128, i128)> {
        if suffix.is_empty() || suffix == self.suffix() {
            return Some((1, 1));
        }
        let Self::Time(scale) = self else { return None };
        TIME_SUFFIXES
            .iter()
            .find(|(known, _)| *known == suffix)
            .map(|(_, nanoseconds)| (*nanoseconds, *scale))
    }

    /// `number` with its unit: `20 ms`, `30%`, `6`. Times are in the largest unit up to seconds in which they are whole numbers.
    pub fn format(&self, number: i128) -> String {
        match self {
            Self::None => number.to_string(),
            Self::Percent => format!("{number}%"),
            Self::Time(scale) if number != 0 => {
                let units = TIME_SUFFIXES.iter().take(4).rev();
                let whole = |(_, unit): &&(&str, i128)| (number * scale) % unit == 0;
                let (suffix, unit) = units.clone().find(whole).unwrap_or(&TIME_SUFFIXES[0]);
                format!("{} {suffix}", number * scale / unit)
            }
            _ => format!("{number} {}", self.suffix()),
        }
    }
}

/// One constant of a scheduler that may be set before it is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunable {
    /// Name of the variable in the scheduler's source.
    pub name: String,
    /// Its C type.
    pub integer_type: IntegerType,
    /// Its unit.
    pub unit: Unit,
    /// Its value if it is not set, in `unit`.
    pub default: i128,
    /// Smallest value allowed, in `unit`.
    pub minimum: i128,
    /// Largest value allowed, in `unit`.
    pub maximum: i128,
    /// If it is a choice: the names of the values 0, 1, 2, …; otherwise empty.
    pub choices: Vec<String>,
    /// One line for people.
    pub doc: String,
}

impl Tunable {
    /// A value as a plain number: times in nanoseconds, everything else in the tunable's unit.
    pub fn number(&self, value: i128) -> i128 {
        match self.unit {
            Unit::Time(scale) => value.saturating_mul(scale),
            _ => value,
        }
    }

    /// Reads a value as people write it, and checks it: a number with a suffix (`20ms`, `0.5 s`, `30%`, `6 ticks`), a whole number in the
    /// tunable's unit if it is not a time or its unit is part of the tunable's name (`slice_us`), `true` or `false`, or the name of a choice. The
    /// result is in the tunable's unit and within its range.
    pub fn parse_value(&self, text: &str) -> Result<i128, Error> {
        let text = text.trim();
        let value = self.read_value(text)?;
        if value != 0 && text.bytes().all(|byte| !byte.is_ascii_alphabetic()) && self.is_unclear() {
            let complaint = format!("has no unit; write {text}ns, {text}us, {text}ms or {text}s");
            return Err(self.refuse(text, &complaint));
        }
        self.check(value)
    }

    /// Like [`parse_value`](Self::parse_value), where it is plain that a number without a unit is in the tunable's.
    pub(crate) fn read_value(&self, text: &str) -> Result<i128, Error> {
        let text = text.trim();
        let value = if let Some(index) = self.choices.iter().position(|choice| choice == text) {
            index as i128
        } else if self.integer_type.boolean {
            parse_boolean(text).ok_or_else(|| self.refuse(text, "is neither true nor false"))?
        } else {
            self.parse_number(text)?
        };
        self.check(value)
    }

    /// `value` if it is in range, otherwise an error that names the range.
    pub fn check(&self, value: i128) -> Result<i128, Error> {
        if (self.minimum..=self.maximum).contains(&value) {
            Ok(value)
        } else {
            Err(self.refuse(&self.unit.format(value), "is out of range"))
        }
    }

    /// The bytes of the variable for a value that [`parse_value`](Self::parse_value) returned.
    pub fn encode(&self, value: i128) -> Vec<u8> {
        self.integer_type.encode(value)
    }

    /// `value` as people read it: with its unit, or the name of the choice.
    pub fn format_value(&self, value: i128) -> String {
        if self.integer_type.boolean {
            return (value != 0).to_string();
        }
        usize::try_from(value)
            .ok()
            .and_then(|index| self.choices.get(index))
            .cloned()
            .unwrap_or_else(|| self.unit.format(value))
    }

    /// The possible values, as people read them.
    pub fn format_range(&self) -> String {
        if self.integer_type.boolean {
            "true or false".to_owned()
        } else if !self.choices.is_empty() {
            format!("one of {}", self.choices.join(", "))
        } else {
            let (low, high) = (self.minimum, self.unit.format(self.maximum));
            match self.unit {
                Unit::Time(_) => format!("{} to {high}", self.unit.format(low)),
                _ => format!("{low} to {high}"),
            }
        }
    }

    fn parse_number(&self, text: &str) -> Result<i128, Error> {
        let end = text
            .find(|character: char| !matches!(character, '0'..='9' | '.' | '_' | '-' | '+'))
            .unwrap_or(text.len());
        let (number, suffix) = (&text[..end], text[end..].trim());

        let (numerator, denominator) =
            parse_decimal(number).ok_or_else(|| self.refuse(text, "is not a number"))?;
        let (multiply, divide) = self
            .unit
            .ratio(suffix)
            .ok_or_else(|| self.refuse(text, &format!("has an unknown unit {suffix:?}")))?;

        let scaled =
            numerator.checked_mul(multiply).ok_or_else(|| self.refuse(text, "is out of range"))?;
        let divisor = denominator * divide;
        if scaled % divisor != 0 {
            return Err(self.refuse(text, &self.not_whole()));
        }
        Ok(scaled / divisor)
    }

    /// Whether a number without a unit can be mistaken: it is a time, and the tunable's name does not end with its unit.
    fn is_unclear(&self) -> bool {
        matches!(self.unit, Unit::Time(_)) && Unit::of_name(&self.name) != self.unit
    }

    fn not_whole(&self) -> String {
        match self.unit {
            Unit::None => "is not a whole number".to_owned(),
            _ => format!("is not a whole number of {}", self.unit.suffix()),
        }
    }

    fn refuse(&self, value: &str, complaint: &str) -> Error {
        Error::Value {
            tunable: self.name.clone(),
            message: format!("{value} {complaint}; it takes {}", self.format_range()),
        }
    }
}

fn parse_boolean(text: &str) -> Option<i128> {
    match text {
        "true" | "yes" | "on" | "1" => Some(1),
        "false" | "no" | "off" | "0" => Some(0),
        _ => None,
    }
}

/// A decimal number as a fraction; `_` may separate digits. At most 12 digits may follow the point and 19 come before it.
fn parse_decimal(text: &str) -> Option<(i128, i128)> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let digits = digits.replace('_', "");
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() && fraction.is_empty()
        || !all_digits(whole)
        || !all_digits(fraction)
        || whole.len() > 20
        || fraction.len() > 12
    {
        return None;
    }
    let denominator = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
    let numerator: i128 = format!("{whole}{fraction}").parse().ok()?;
    Some((sign * numerator, denominator))
}

#[cfg(test)]
mod tests {
    use fairground_bpf::{Variable, VariableKind};

    use super::*;

    fn tunable(type_name: &str, unit: &str, minimum: i128, maximum: i128) -> Tunable {
        Tunable {
            name: "example".to_owned(),
            integer_type: IntegerType::from_name(type_name).unwrap(),
            unit: Unit::from_name(unit),
            default: minimum,
            minimum,
            maximum,
            choices: Vec::new(),
            doc: String::new(),
        }
    }

    #[test]
    fn numbers_are_read_in_the_unit_of_the_tunable() {
        let slice = Tunable { name: "slice_us".to_owned(), ..tunable("u64", "us", 0, 1_000_000) };
        for (text, expected) in [
            ("20", 20),
            ("20us", 20),
            ("20 ms", 20_000),
            ("0.5ms", 500),
            ("1s", 1_000_000),
            ("3000ns", 3),
            ("1_000", 1000),
        ] {
            assert_eq!(slice.parse_value(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn refusals_name_the_value_the_range_and_the_unit() {
        let hz = tunable("u32", "Hz", 1, 1000);
        for (text, message) in [
            ("5000", "example: 5000 Hz is out of range; it takes 1 to 1000 Hz"),
            ("abc", "example: abc is not a number; it takes 1 to 1000 Hz"),
            ("-", "example: - is not a number; it takes 1 to 1000 Hz"),
            ("10ms", "example: 10ms has an unknown unit \"ms\"; it takes 1 to 1000 Hz"),
            ("1.5", "example: 1.5 is not a whole number of Hz; it takes 1 to 1000 Hz"),
        ] {
            assert_eq!(hz.parse_value(text).unwrap_err().to_string(), message);
        }
        assert_eq!(hz.parse_value("250 Hz").unwrap(), 250);
    }

    #[test]
    fn a_time_needs_a_unit_that_something_says() {
        let slice = tunable("u64", "ns", 0, 1_000_000_000);
        assert_eq!(
            slice.parse_value("6").unwrap_err().to_string(),
            "example: 6 has no unit; write 6ns, 6us, 6ms or 6s; it takes 0 ns to 1 s"
        );
        assert_eq!(slice.parse_value("0").unwrap(), 0);
        assert_eq!(Unit::of_name("slice_us"), Unit::Time(1_000));
        assert_eq!(Unit::of_name("status"), Unit::None);
    }

    #[test]
    fn times_are_shown_in_the_unit_that_needs_the_fewest_digits() {
        let nanoseconds = Unit::Time(1);
        for (number, text) in [
            (24_000_000, "24 ms"),
            (1_500_000, "1500 us"),
            (2_000_000_000, "2 s"),
            (120_000_000_000, "120 s"),
            (7, "7 ns"),
            (0, "0 ns"),
            (-3_000, "-3 us"),
        ] {
            assert_eq!(nanoseconds.format(number), text);
        }
        assert_eq!(Unit::Time(1_000_000).format(5), "5 ms");
    }

    #[test]
    fn a_fraction_of_a_nanosecond_is_refused() {
        let slice = tunable("u64", "ns", 0, 1_000_000);
        assert!(slice.parse_value("0.0001us").is_err());
        assert_eq!(slice.parse_value("0.001us").unwrap(), 1);
    }

    #[test]
    fn signed_numbers_and_percents() {
        let margin = tunable("s32", "", -10, 10);
        assert_eq!(margin.parse_value("-3").unwrap(), -3);
        assert!(margin.parse_value("-11").is_err());
        let share = tunable("u8", "%", 0, 100);
        assert_eq!(share.parse_value("30%").unwrap(), 30);
        assert_eq!(share.parse_value("30").unwrap(), 30);
    }

    #[test]
    fn booleans_and_choices_are_read_by_name() {
        let flag = tunable("bool", "", 0, 1);
        assert_eq!(flag.parse_value("on").unwrap(), 1);
        assert_eq!(flag.parse_value("false").unwrap(), 0);
        assert!(flag.parse_value("2").is_err());

        let version = Tunable {
            choices: vec!["2.4.20".to_owned(), "2.4.0".to_owned()],
            ..tunable("u32", "", 0, 1)
        };
        assert_eq!(version.parse_value("2.4.0").unwrap(), 1);
        assert_eq!(version.parse_value("0").unwrap(), 0);
        assert_eq!(version.format_value(1), "2.4.0");
        assert_eq!(
            version.parse_value("2").unwrap_err().to_string(),
            "example: 2 is out of range; it takes one of 2.4.20, 2.4.0"
        );
    }

    #[test]
    fn huge_numbers_are_refused_not_wrapped() {
        let seconds = Tunable {
            name: "delay_ns".to_owned(),
            ..tunable("u64", "ns", 0, i128::from(u64::MAX))
        };
        assert_eq!(seconds.parse_value("18446744073709551615").unwrap(), i128::from(u64::MAX));
        assert!(seconds.parse_value("18446744073709551616").is_err());
        assert!(seconds.parse_value("99999999999999999999s").is_err());
        assert!(seconds.parse_value("999999999999999999999999").is_err());
    }

    #[test]
    fn a_variable_holds_the_number_that_was_encoded() {
        for name in ["bool", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64"] {
            let integer_type = IntegerType::from_name(name).unwrap();
            assert_eq!(integer_type.name(), name);
            let signed = integer_type.signed;
            let variable = Variable {
                name: name.to_owned(),
                offset: 0,
                size: integer_type.size.into(),
                type_id: 0,
                kind: match integer_type.boolean {
                    true => VariableKind::Boolean,
                    false => VariableKind::Integer { signed },
                },
                tunable: true,
            };
            for value in [integer_type.minimum(), 0, 1, integer_type.maximum()] {
                let bytes = integer_type.encode(value);
                assert_eq!(bytes.len(), integer_type.size as usize);
                assert_eq!(variable.number(&bytes), Some(value), "{name} {value}");
            }
        }
    }
}
