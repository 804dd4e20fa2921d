//! Values that are in memory once, however many results have them.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

use schemars::generate::SchemaGenerator;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value that equal results share. It is written and read like the value itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shared<T>(Arc<T>);

impl<T: PartialEq> Shared<T> {
    /// Gives up the own value for that of another one if they are equal.
    pub fn share(&mut self, other: &Self) {
        if self == other {
            self.0.clone_from(&other.0);
        }
    }
}

impl<T: Clone> Shared<T> {
    /// The value, to change it here alone.
    pub fn make_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T: Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::from)
    }
}

impl<T: JsonSchema> JsonSchema for Shared<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}
