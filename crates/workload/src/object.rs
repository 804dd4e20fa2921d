//! Typed, strict access to the objects of a file.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::RangeInclusive;

use crate::error::Error;
use crate::json::{Member, Node, Value};
use crate::keys;
use crate::notes::{Notes, Place, Remark};

/// Highest CPU and node number that a file may name; the largest machine has 4096 CPUs.
pub(crate) const CPU_MAX: u32 = 4095;

/// The state that all readers of a file need: its name for errors, and the notes.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    pub file: &'a str,
    notes: RefCell<Notes>,
}

impl<'a> Reader<'a> {
    pub fn of(file: &'a str) -> Self {
        Self { file, notes: RefCell::default() }
    }

    /// Adds a note.
    pub fn note(&self, place: &Place, sentence: impl Into<Cow<'static, str>>) {
        self.notes.borrow_mut().add(place, sentence);
    }

    /// Adds a remark that can occur many times.
    pub fn remark(&self, place: &Place, remark: Remark) {
        self.notes.borrow_mut().remark(place, remark);
    }

    /// The notes as sentences, in order of their places.
    pub fn into_sentences(self) -> Vec<String> {
        self.notes.into_inner().into_sentences(self.file)
    }

    /// An error at a place.
    pub fn error(&self, place: &Place, message: impl Into<String>) -> Error {
        Error {
            file: self.file.into(),
            line: place.position.line,
            column: place.position.column,
            json_path: place.path.clone(),
            message: message.into(),
        }
    }
}

/// An object of the file.
#[derive(Clone, Debug)]
pub(crate) struct Object<'a> {
    pub reader: &'a Reader<'a>,
    pub place: Place,
    members: &'a [Member],
}

/// A key of an object together with its value.
#[derive(Clone, Debug)]
pub(crate) struct Field<'a> {
    reader: &'a Reader<'a>,
    pub key: &'a str,
    /// Where the key is.
    pub key_place: Place,
    /// Where the value is, or the key if it has none.
    pub place: Place,
    /// `None` for a key without a value.
    pub value: Option<&'a Value>,
}

/// Appends a key to a path; keys that would be ambiguous in it are quoted.
fn join(path: &str, key: &str) -> String {
    let plain = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
    match (path.is_empty(), plain) {
        (true, true) => key.into(),
        (false, true) => format!("{path}.{key}"),
        (_, false) => format!("{path}[{key:?}]"),
    }
}

impl<'a> Object<'a> {
    /// The object at the top of a file.
    pub fn root(reader: &'a Reader<'a>, node: &'a Node) -> Result<Self, Error> {
        let place = Place { position: node.position, path: String::new() };
        match &node.value {
            Value::Object(members) => Ok(Self { reader, place, members }),
            value => {
                let message =
                    format!("the file holds {value}; write an object: {{ \"tasks\" : {{ ... }} }}");
                Err(reader.error(&place, message))
            }
        }
    }

    /// An error at its place.
    pub fn error(&self, message: impl Into<String>) -> Error {
        self.reader.error(&self.place, message)
    }

    /// Adds a note there.
    pub fn note(&self, sentence: impl Into<Cow<'static, str>>) {
        self.reader.note(&self.place, sentence);
    }

    /// All keys in order.
    pub fn fields(&self) -> impl Iterator<Item = Field<'a>> + use<'_, 'a> {
        self.members.iter().map(|member| self.field(member))
    }

    fn field(&self, member: &'a Member) -> Field<'a> {
        let path = join(&self.place.path, &member.key);
        let key_place = Place { position: member.position, path: path.clone() };
        Field {
            reader: self.reader,
            key: &member.key,
            place: Place {
                position: member.value.as_ref().map_or(member.position, |v| v.position),
                path,
            },
            key_place,
            value: member.value.as_ref().map(|node| &node.value),
        }
    }

    /// Whether the object has the key at all.
    pub fn has(&self, key: &str) -> bool {
        self.members.iter().any(|member| member.key == key)
    }

    /// The field with this key, unless it is absent or null; null is noted.
    pub fn get(&self, key: &str) -> Option<Field<'a>> {
        let member = self.members.iter().find(|member| member.key == key)?;
        let field = self.field(member);
        if field.value == Some(&Value::Null) {
            field.remark(Remark::Null);
            return None;
        }
        Some(field)
    }

    /// The field with this key, or an error with the key's purpose.
    pub fn require(&self, key: &str, example: &str) -> Result<Field<'a>, Error> {
        self.get(key)
            .ok_or_else(|| self.lacks(key, format!("`{key}` is missing; add it: {example}")))
    }

    /// The error of an object without this key: that it is written otherwise, if a key looks like it.
    pub fn lacks(&self, key: &str, message: impl Into<String>) -> Error {
        let written = |field: &Field| probably_meant(field.key, [key].into_iter()).is_some();
        match self.fields().find(written) {
            Some(field) => field.key_error(unknown_key(field.key, &[key])),
            None => self.error(message),
        }
    }

    /// Checks an object of fairground's own: every key must be one of `known`, and none may occur twice.
    pub fn check_keys(&self, known: &[&str]) -> Result<(), Error> {
        for (index, field) in self.fields().enumerate() {
            if !known.contains(&field.key) {
                return Err(field.key_error(unknown_key(field.key, known)));
            }
            self.check_unique(index, &field)?;
        }
        Ok(())
    }

    /// Checks an object of rt-app's language: none of the `known` keys may occur twice. A key that is neither known nor, if the object `has_events`,
    /// that of an event is ignored, as rt-app does, with a note.
    pub fn check_keys_as_rt_app(&self, known: &[&str], has_events: bool) -> Result<(), Error> {
        for (index, field) in self.fields().enumerate() {
            if known.contains(&field.key) {
                self.check_unique(index, &field)?;
            } else if field.key == "fairground" {
                return Err(field.key_error(unknown_key(field.key, known)));
            } else if !(has_events && keys::is_event(field.key)) {
                let events = keys::beginnings().filter(|_| has_events);
                let candidates = known.iter().copied().chain(events);
                let meant = probably_meant(field.key, candidates);
                self.reader.notes.borrow_mut().ignored(&field.key_place, field.key, meant);
            }
        }
        Ok(())
    }

    /// Checks that the field at `index` does not repeat an earlier key.
    pub fn check_unique(&self, index: usize, field: &Field) -> Result<(), Error> {
        match self.members[index].repeats {
            None => Ok(()),
            Some(first) => Err(field.key_error(format!(
                "the key is already at line {}, column {}; keep one of the two or rename one",
                first.line, first.column
            ))),
        }
    }

    /// The number with this key as an integer within `range`, if there is one.
    pub fn integer(&self, key: &str, range: RangeInclusive<i64>) -> Result<Option<i64>, Error> {
        self.get(key).map(|field| field.integer(range)).transpose()
    }

    /// The boolean with this key, if there is one.
    pub fn boolean(&self, key: &str) -> Result<Option<bool>, Error> {
        self.get(key).map(|field| field.boolean()).transpose()
    }

    /// The string with this key, if there is one.
    pub fn string(&self, key: &str) -> Result<Option<&'a str>, Error> {
        self.get(key).map(|field| field.string()).transpose()
    }
}

impl<'a> Field<'a> {
    /// An error at its value.
    pub fn error(&self, message: impl Into<String>) -> Error {
        self.reader.error(&self.place, message)
    }

    /// An error at its key.
    pub fn key_error(&self, message: impl Into<String>) -> Error {
        self.reader.error(&self.key_place, message)
    }

    /// Adds a note at its value.
    pub fn note(&self, sentence: impl Into<Cow<'static, str>>) {
        self.reader.note(&self.place, sentence);
    }

    /// The same at its key.
    pub fn key_note(&self, sentence: impl Into<Cow<'static, str>>) {
        self.reader.note(&self.key_place, sentence);
    }

    /// Adds a remark at its value that can occur many times.
    pub fn remark(&self, remark: Remark) {
        self.reader.remark(&self.place, remark);
    }

    /// The same at its key.
    pub fn key_remark(&self, remark: Remark) {
        self.reader.remark(&self.key_place, remark);
    }

    /// The error of a value of the wrong type.
    pub fn mismatch(&self, expected: &str) -> Error {
        let message = match self.value {
            Some(value) => format!("{value} is not possible here; write {expected}"),
            None => format!("the key has no value; write {expected}"),
        };
        self.error(message)
    }

    /// The value as an integer within `range`.
    pub fn integer(&self, range: RangeInclusive<i64>) -> Result<i64, Error> {
        let expected = || format!("an integer from {} to {}", range.start(), range.end());
        let Some(Value::Number(number)) = self.value else {
            return Err(self.mismatch(&expected()));
        };
        match number.parse::<i64>() {
            Ok(value) if range.contains(&value) => Ok(value),
            _ => Err(self.mismatch(&expected())),
        }
    }

    /// The value as a number that is `valid`; `expected` says which numbers are.
    pub fn decimal(&self, expected: &str, valid: impl Fn(f64) -> bool) -> Result<f64, Error> {
        let number = match self.value {
            Some(Value::Number(text)) => text.parse().ok(),
            _ => None,
        };
        number.filter(|number| valid(*number)).ok_or_else(|| self.mismatch(expected))
    }

    /// The value as a boolean.
    pub fn boolean(&self) -> Result<bool, Error> {
        match self.value {
            Some(Value::Boolean(value)) => Ok(*value),
            _ => Err(self.mismatch("true or false")),
        }
    }

    /// The value as a string.
    pub fn string(&self) -> Result<&'a str, Error> {
        match self.value {
            Some(Value::String(text)) => Ok(text),
            _ => Err(self.mismatch("a string")),
        }
    }

    /// What the value, one of these strings, stands for.
    pub fn choice<T: Copy, const N: usize>(&self, choices: [(&str, T); N]) -> Result<T, Error> {
        let text = self.string()?;
        if let Some((_, meant)) = choices.iter().find(|(name, _)| *name == text) {
            return Ok(*meant);
        }
        let names = choices.map(|(name, _)| format!("{name:?}"));
        let (last, others) = names.split_last().expect("there are some");
        Err(self.mismatch(&format!("{} or {last}", others.join(", "))))
    }

    /// The value as a string that is not empty.
    pub fn name(&self) -> Result<&'a str, Error> {
        match self.value {
            Some(Value::String(text)) if !text.is_empty() => Ok(text),
            _ => Err(self.mismatch("a name in quotes")),
        }
    }

    /// The value as an object.
    pub fn object(&self) -> Result<Object<'a>, Error> {
        match self.value {
            Some(Value::Object(members)) => {
                Ok(Object { reader: self.reader, place: self.place.clone(), members })
            }
            _ => Err(self.mismatch("an object: { ... }")),
        }
    }

    /// The value as a list of objects.
    pub fn objects(&self) -> Result<Vec<Object<'a>>, Error> {
        let Some(Value::Array(elements)) = self.value else {
            return Err(self.mismatch("a list of objects: [ { ... } ]"));
        };
        let object = |(index, element): (usize, &'a Node)| {
            let place =
                Place { position: element.position, path: format!("{}[{index}]", self.place.path) };
            match &element.value {
                Value::Object(members) => Ok(Object { reader: self.reader, place, members }),
                value => Err(self.reader.error(
                    &place,
                    format!("{value} is not possible here; write an object: {{ ... }}"),
                )),
            }
        };
        elements.iter().enumerate().map(object).collect()
    }

    /// The value as a list of numbers up to `max`, at least one, such as CPU and node lists. Like rt-app, it accepts numbers in quotes.
    pub fn numbers(&self, max: u32) -> Result<Vec<u32>, Error> {
        let expected = format!("a list of numbers from 0 to {max}, such as [0, 1]");
        let elements = match self.value {
            Some(Value::Array(elements)) if !elements.is_empty() => elements,
            Some(Value::Array(_)) => {
                return Err(self.error("an empty list allows nothing; name at least one, or remove the key to allow all"));
            }
            _ => return Err(self.mismatch(&expected)),
        };
        let mut numbers = Vec::with_capacity(elements.len());
        for (index, element) in elements.iter().enumerate() {
            let place =
                Place { position: element.position, path: format!("{}[{index}]", self.place.path) };
            let text = match &element.value {
                Value::Number(text) => text,
                Value::String(text) => {
                    self.reader.remark(&place, Remark::CpuAsString);
                    text
                }
                value => {
                    return Err(self
                        .reader
                        .error(&place, format!("{value} is not possible here; write {expected}")));
                }
            };
            match text.parse() {
                Ok(number) if number <= max => numbers.push(number),
                _ => {
                    return Err(self.reader.error(
                        &place,
                        format!("{} is not possible here; write {expected}", element.value),
                    ));
                }
            }
        }
        Ok(numbers)
    }
}

/// Names under which other tools and older versions of rt-app know the key that rt-app now calls by the second name.
const OTHER_NAMES: [(&str, &str); 17] = [
    ("sched_slice", "dl-runtime"),
    ("slice", "dl-runtime"),
    ("sched_runtime", "dl-runtime"),
    ("exec_time", "run"),
    ("wcet", "run"),
    ("usleep", "sleep"),
    ("spacing", "delay"),
    ("start", "delay"),
    ("offset", "delay"),
    ("prio", "priority"),
    ("nice", "priority"),
    ("affinity", "cpus"),
    ("cpuset", "cpus"),
    ("count", "instance"),
    ("threads", "instance"),
    ("cgroup", "taskgroup"),
    ("iterations", "loop"),
];

/// The candidate that was probably meant by `key`.
pub(crate) fn probably_meant<'a>(
    key: &str,
    candidates: impl Iterator<Item = &'a str> + Clone,
) -> Option<&'a str> {
    let nearest = candidates
        .clone()
        .map(|candidate| (strsim::damerau_levenshtein(key, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len() / 3)
        .min();
    let renamed = || {
        let (_, name) = OTHER_NAMES.iter().find(|(other, _)| *other == key)?;
        candidates.clone().find(|candidate| candidate == name)
    };
    nearest.map(|(_, nearest)| nearest).or_else(renamed)
}

/// The message for an unknown key, with the one that was probably meant.
fn unknown_key(key: &str, known: &[&str]) -> String {
    match (probably_meant(key, known.iter().copied()), known) {
        (Some(meant), _) => format!("unknown key; did you mean `{meant}`?"),
        (None, []) => "unknown key; nothing is defined here, so remove it".into(),
        (None, known) => format!("unknown key; known here are {}", known.join(", ")),
    }
}
