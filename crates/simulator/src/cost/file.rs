//! Cost models as TOML: `tick = 1000`, or `tick = { ns = 1000, origin = "where the number comes from" }`.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{CostModel, CostValue, Fields};

/// Largest cost in nanoseconds: one second. More is a mistake in the unit, and sums of such costs could overflow.
const LARGEST: u64 = 1_000_000_000;

/// The fault in the text of a cost model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostError {
    /// Line and column, both from 1, if known.
    pub place: Option<(usize, usize)>,
    /// The fault there.
    pub message: String,
}

/// The value of one cost in a file: a number, or four.
pub(super) trait Value: Sized {
    const EXPECTED: &'static str;
    fn of_number(number: u64) -> Result<Self, String>;
    fn of_list(numbers: &[u64]) -> Result<Self, String>;
    fn take_over(&mut self, values: &[Option<u64>]);
}

fn in_range(number: u64) -> Result<u64, String> {
    if number <= LARGEST {
        Ok(number)
    } else {
        Err(format!("{number} is out of range: 0 to {LARGEST} (ns)"))
    }
}

impl Value for u64 {
    const EXPECTED: &'static str = "a whole number of nanoseconds";

    fn of_number(number: u64) -> Result<Self, String> {
        in_range(number)
    }

    fn of_list(_: &[u64]) -> Result<Self, String> {
        Err(format!("a list, where {} is expected", Self::EXPECTED))
    }

    fn take_over(&mut self, values: &[Option<u64>]) {
        if let Some(Some(value)) = values.first() {
            *self = (*value).min(LARGEST);
        }
    }
}

impl Value for [u64; 4] {
    const EXPECTED: &'static str =
        "four whole numbers of nanoseconds: sibling, cache, node, another node";

    fn of_number(_: u64) -> Result<Self, String> {
        Err(format!("a number, where a list is expected: {}", Self::EXPECTED))
    }

    fn of_list(numbers: &[u64]) -> Result<Self, String> {
        let four: [u64; 4] = numbers.try_into().map_err(|_| {
            format!("{} numbers, where {} are expected", numbers.len(), Self::EXPECTED)
        })?;
        for number in four {
            in_range(number)?;
        }
        Ok(four)
    }

    fn take_over(&mut self, values: &[Option<u64>]) {
        for (own, value) in self.iter_mut().zip(values) {
            if let Some(value) = value {
                *own = (*value).min(LARGEST);
            }
        }
    }
}

/// A cost as a file gives it.
pub(super) struct Given<T> {
    pub value: T,
    pub origin: Option<String>,
}

/// Either form of a value, without an origin.
struct Bare<T>(T);

impl<'de, T: Value> Deserialize<'de> for Bare<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = Given::<T>::read(deserializer, false)?;
        Ok(Bare(given.value))
    }
}

impl<'de, T: Value> Deserialize<'de> for Given<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Given::read(deserializer, true)
    }
}

impl<T: Value> Given<T> {
    fn read<'de, D: Deserializer<'de>>(
        deserializer: D,
        with_table: bool,
    ) -> Result<Self, D::Error> {
        deserializer.deserialize_any(GivenVisitor { with_table, value: PhantomData })
    }
}

struct GivenVisitor<T> {
    /// Whether the form with an origin is allowed here.
    with_table: bool,
    value: PhantomData<T>,
}

impl<'de, T: Value> Visitor<'de> for GivenVisitor<T> {
    type Value = Given<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(T::EXPECTED)?;
        if self.with_table {
            formatter.write_str(", or { ns = ..., origin = \"...\" }")?;
        }
        Ok(())
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Given<T>, E> {
        let number = u64::try_from(number)
            .map_err(|_| E::custom(format!("{number} is out of range: 0 to {LARGEST} (ns)")))?;
        self.visit_u64(number)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Given<T>, E> {
        let value = T::of_number(number).map_err(E::custom)?;
        Ok(Given { value, origin: None })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Given<T>, A::Error> {
        let mut numbers = Vec::new();
        while let Some(number) = list.next_element::<u64>()? {
            numbers.push(number);
        }
        let value = T::of_list(&numbers).map_err(A::Error::custom)?;
        Ok(Given { value, origin: None })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<Given<T>, A::Error> {
        if !self.with_table {
            return Err(A::Error::custom("a table inside a table"));
        }
        let (mut value, mut origin) = (None, None);
        while let Some(key) = table.next_key::<String>()? {
            match key.as_str() {
                "ns" => value = Some(table.next_value::<Bare<T>>()?.0),
                "origin" => origin = Some(table.next_value::<String>()?),
                _ => return Err(A::Error::unknown_field(&key, &["ns", "origin"])),
            }
        }
        let value = value.ok_or_else(|| A::Error::missing_field("ns"))?;
        let origin = origin.filter(|origin| !origin.trim().is_empty()).ok_or_else(|| {
            A::Error::custom("no origin; say where the number comes from, or give the plain number")
        })?;
        Ok(Given { value, origin: Some(origin) })
    }
}

impl CostModel {
    /// Reads a cost model called `name`. Costs that the text leaves out are taken from the default model, including its origin.
    pub fn parse(name: &str, text: &str) -> Result<Self, CostError> {
        let fields: Fields = toml::from_str(text).map_err(|error| CostError {
            place: error.span().map(|span| place(text, span.start)),
            message: error.message().to_owned(),
        })?;
        Ok(Self::default_with(name, fields))
    }

    fn default_with(name: &str, fields: Fields) -> Self {
        let mut model = CostModel::default_model();
        fields.apply(&mut model);
        model.name = name.to_owned();
        model
    }

    /// The model as the text of a file that [`CostModel::parse`] reads.
    pub fn to_toml(&self) -> String {
        self.values()
            .into_iter()
            .map(|(name, value)| {
                let value = match value {
                    CostValue::One(number) => number.to_string(),
                    CostValue::ByDistance(numbers) => format!("{numbers:?}"),
                };
                match self.origins.get(name) {
                    Some(origin) => {
                        let origin = toml::Value::from(origin.as_str());
                        format!("{name} = {{ ns = {value}, origin = {origin} }}\n")
                    }
                    None => format!("{name} = {value}\n"),
                }
            })
            .collect()
    }
}

/// A table of costs inside another file, such as that of a machine; its model has no name yet.
impl<'de> Deserialize<'de> for CostModel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::default_with("", Fields::deserialize(deserializer)?))
    }
}

/// Line and column of a byte offset.
fn place(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..offset];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    (line, column)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::GIVEN;

    #[test]
    fn absent_fields_keep_their_defaults() {
        let model = CostModel::parse("my.toml", "tick = 7\nmigration = [1, 2, 3, 4]\n").unwrap();
        let default = CostModel::default_model();
        assert_eq!(model.origins["tick"], GIVEN);
        assert_eq!(model.origins["migration"], GIVEN);
        assert_eq!(model.origins["callback"], default.origins["callback"]);
        let expected = CostModel {
            name: "my.toml".into(),
            tick: 7,
            migration: [1, 2, 3, 4],
            origins: model.origins.clone(),
            ..default
        };
        assert_eq!(model, expected);
    }

    #[test]
    fn every_number_may_have_an_origin() {
        let text = "tick = { ns = 7, origin = \"a clock\" }\nmigration = { ns = [1, 2, 3, 4], origin = \"a map\" }\n";
        let model = CostModel::parse("my.toml", text).unwrap();
        assert_eq!((model.tick, model.migration), (7, [1, 2, 3, 4]));
        assert_eq!(model.origins["tick"], "a clock");
        assert_eq!(model.origins["migration"], "a map");
    }

    #[test]
    fn every_default_has_an_origin() {
        let model = CostModel::default_model();
        for name in CostModel::NAMES {
            let origin = &model.origins[name];
            assert!(origin.len() > 10 && origin != GIVEN, "{name}: {origin}");
        }
    }

    #[test]
    fn a_model_survives_its_file() {
        let mut model = CostModel::default_model();
        model.origins.insert("tick", "a \"quoted\" origin with \\ and\nlines".to_owned());
        let read = CostModel::parse("default", &model.to_toml()).unwrap();
        assert_eq!(read, model);
    }

    #[test]
    fn measurements_take_the_place_of_defaults() {
        let mut model = CostModel::default_model();
        let before = model.clone();
        model.take_over("tick", &[Some(5)], "a stopwatch");
        model.take_over("migration", &[None, Some(7), None, Some(u64::MAX)], "a stopwatch");
        model.take_over("no such cost", &[Some(5)], "a stopwatch");
        assert_eq!((model.tick, model.origins["tick"].as_str()), (5, "a stopwatch"));
        assert_eq!(model.migration, [before.migration[0], 7, before.migration[2], LARGEST]);
        let expected = format!("a stopwatch; at other distances: {}", before.origins["migration"]);
        assert_eq!(model.origins["migration"], expected);
        assert_eq!(
            CostModel {
                tick: before.tick,
                migration: before.migration,
                origins: before.origins.clone(),
                ..model
            },
            before
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (text, place, expected) in [
            ("tick = 7\nticks = 8\n", (2, 1), "unknown field `ticks`"),
            ("\ntick = 2000000000\n", (2, 8), "2000000000 is out of range"),
            ("tick = -1\n", (1, 8), "-1 is out of range"),
            ("tick = \"7\"\n", (1, 8), "invalid type: string"),
            ("tick = [7]\n", (1, 8), "a list, where a whole number"),
            ("migration = 7\n", (1, 13), "a number, where a list"),
            ("migration = [1, 2]\n", (1, 13), "2 numbers, where four"),
            ("tick = { ns = 7 }\n", (1, 8), "no origin; say where"),
            ("tick = { ns = 7, origin = \" \" }\n", (1, 8), "no origin; say where"),
            ("tick = { origin = \"a clock\" }\n", (1, 8), "missing field `ns`"),
            ("tick = { ns = 7, source = \"a clock\" }\n", (1, 8), "unknown field `source`"),
        ] {
            let error = CostModel::parse("my.toml", text).unwrap_err();
            assert!(error.message.starts_with(expected), "{text:?}: {error:?}");
            assert_eq!(error.place, Some(place), "{text:?}: {error:?}");
        }
    }
}
