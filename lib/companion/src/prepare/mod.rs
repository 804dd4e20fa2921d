//! From a companion to the settings, entries and program runs for one object on one machine.

mod maps;
mod runs;
mod variables;

use std::collections::BTreeMap;

use fairground_bpf::{Object, Setup};
use fairground_machine::Online;
use rhai::{Array, Dynamic, Engine, EvalAltResult, INT, Map, Scope};
use toml::{Spanned, Value};

use crate::bounds;
use crate::encode::{find_variable, in_some_releases};
use crate::error::Error;
use crate::file::{Companion, Values};
use crate::fit::Fit;
use crate::scope;

/// A value from the command line, which replaces one of the companion's or adds to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// An option of the companion, `ops.MEMBER`, `map.NAME.max_entries`, or a global variable with a path into it.
    pub key: String,
    /// Its value: an expression, as in a companion.
    pub value: String,
    /// Where it is written, for errors.
    pub place: String,
}

/// A companion made ready for one object on one machine.
#[derive(Clone, Debug, Default)]
pub struct Prepared {
    /// The actions.
    pub setup: Setup,
    /// Remarks for the reader of a result: other actions of the loader, and settings that the object lacks.
    pub notes: Vec<String>,
}

impl Companion {
    /// The actions of the companion with these settings for `object` on the CPUs that are `online`. `constants` looks up the kernel's constants by name.
    ///
    /// # Errors
    ///
    /// The first invalid key, with its place and the possible keys there. If a companion that comes with fairground sets something that an
    /// object of another revision does not have, that is a note instead; if the object has less than half of its settings, nothing is set.
    pub fn prepare(
        &self,
        object: &Object,
        constants: &dyn Fn(&str) -> Option<u64>,
        online: &Online,
        settings: &[Setting],
    ) -> Result<Prepared, Error> {
        let mut text = self.text.clone();
        for setting in settings {
            text.push(' ');
            text.push_str(&setting.value);
        }
        let mut preparation = self.preparation(object, constants, online, &text);
        preparation.apply(settings)?;
        Ok(preparation.done)
    }

    /// What evaluates the expressions in `text` for `object` on the CPUs that are `online`.
    fn preparation<'a>(
        &'a self,
        object: &'a Object,
        constants: &'a dyn Fn(&str) -> Option<u64>,
        online: &'a Online,
        text: &str,
    ) -> Preparation<'a> {
        Preparation {
            companion: self,
            object,
            online,
            engine: scope::engine(text, object, online),
            scope: scope::scope(text, object, constants, online),
            constants,
            sections: BTreeMap::new(),
            bytes: 0,
            fit: self.fit(object),
            left_out: Vec::new(),
            done: Prepared::default(),
        }
    }
}

/// Flags of `ops` that came after schedulers had been written, and that change the tasks of callbacks.
const RECENT_FLAGS: [&str; 2] = ["SCX_OPS_ALWAYS_ENQ_IMMED", "SCX_OPS_TID_TO_TASK"];
/// How many of the things that an object lacks a note names.
const MOST_TOLD: usize = 4;
/// Maximum bytes that a companion may set in all.
const MOST_BYTES: usize = 256 << 20;

struct Preparation<'a> {
    companion: &'a Companion,
    object: &'a Object,
    online: &'a Online,
    engine: Engine,
    scope: Scope<'static>,
    /// The kernel's constants.
    constants: &'a dyn Fn(&str) -> Option<u64>,
    /// Sections of global variables with the values that have been set so far.
    sections: BTreeMap<usize, Vec<u8>>,
    /// Total bytes of values so far.
    bytes: usize,
    /// How well the companion fits the object.
    fit: Fit,
    /// What a companion that comes with fairground names and the object lacks.
    left_out: Vec<String>,
    done: Prepared,
}

/// The entries of a table in file order.
fn in_order(values: &Values) -> Vec<(&Spanned<String>, &Spanned<Value>)> {
    let mut entries: Vec<_> = values.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

/// A name that the object does not have.
struct Absent(String);

impl Preparation<'_> {
    fn apply(&mut self, settings: &[Setting]) -> Result<(), Error> {
        let companion = self.companion;
        let (options, others): (Vec<&Setting>, Vec<&Setting>) = settings.iter().partition(|one| {
            let name = one.key.strip_prefix("option.").unwrap_or(&one.key);
            let known = &companion.file.option;
            known.keys().any(|key| key.get_ref() == name)
        });
        for (name, value) in in_order(&companion.file.option) {
            let set = options
                .iter()
                .rev()
                .find(|one| one.key.strip_prefix("option.").unwrap_or(&one.key) == name.get_ref());
            let value = match set {
                Some(setting) => self.expression(&setting.value, &setting.place)?,
                None => self.value(value, &format!("option.{}", name.get_ref()))?,
            };
            self.scope.push_constant_dynamic(name.get_ref().as_str(), value);
        }
        match companion.misfit(self.object) {
            Some(note) => self.done.notes.push(note),
            None => self.set_all()?,
        }
        for setting in others {
            self.apply_setting(setting)?;
        }
        if self.fit != Fit::Not {
            self.fill_and_run()?;
        }
        self.tell_left_out();
        Ok(())
    }

    /// Sets operations, global variables and sizes of maps.
    fn set_all(&mut self) -> Result<(), Error> {
        let companion = self.companion;
        for name in companion.file.load.keys() {
            self.attempt(&companion.place(name), |this| Ok(this.has_free_program(name.get_ref())))?;
        }
        for (name, value) in in_order(&companion.file.ops) {
            let what = format!("ops.{}", name.get_ref());
            let place = companion.place(name);
            self.attempt(&place, |this| {
                let value = this.value(value, &what)?;
                let value = this.without_recent_flags(name.get_ref(), value);
                this.set_operation(name.get_ref(), &value, &place, &what)
            })?;
        }
        for (path, value) in in_order(&companion.file.global) {
            let what = format!("global.{}", path.get_ref());
            let place = companion.place(path);
            self.attempt(&place, |this| {
                let value = this.value(value, &what)?;
                match in_some_releases(path.get_ref()) {
                    Some(path) => this.set_variable(path, &value, &place, &what).map(|_| Ok(())),
                    None => this.set_variable(path.get_ref(), &value, &place, &what),
                }
            })?;
        }
        for (name, change) in &companion.file.map {
            let what = format!("map.{name}.max_entries");
            let place = companion.place(&change.max_entries);
            self.attempt(&place, |this| {
                let value = this.value(&change.max_entries, &what)?;
                this.set_map_size(name, &value, &place, &what)
            })?;
        }
        Ok(())
    }

    /// Writes entries of maps, and returns the programs to run and the remaining notes.
    fn fill_and_run(&mut self) -> Result<(), Error> {
        let companion = self.companion;
        for entry in &companion.file.entry {
            self.attempt(&companion.place(&entry.map), |this| this.add_entries(entry))?;
        }
        for run in &companion.file.run {
            self.attempt(&companion.place(&run.program), |this| this.add_runs(run))?;
        }
        let missing = companion.file.missing.iter();
        self.done.notes.extend(missing.map(|what| {
            format!("{} leaves out other actions of its loader: {what}", companion.name)
        }));
        Ok(())
    }

    fn apply_setting(&mut self, setting: &Setting) -> Result<(), Error> {
        let value = self.expression(&setting.value, &setting.place)?;
        let (key, place) = (setting.key.as_str(), setting.place.as_str());
        let result = if let Some(member) = key.strip_prefix("ops.") {
            self.set_operation(member, &value, place, key)?
        } else if let Some(map) =
            key.strip_prefix("map.").and_then(|rest| rest.strip_suffix(".max_entries"))
        {
            self.set_map_size(map, &value, place, key)?
        } else {
            let path = key.strip_prefix("global.").unwrap_or(key);
            self.set_variable(path, &value, place, key)?
        };
        result.map_err(|Absent(message)| wrong(place, message))
    }

    /// Carries out one setting of the companion. A setting that the object lacks, or has in another form, becomes a note if the companion is built in and
    /// may be for another revision; otherwise it is an error.
    fn attempt(
        &mut self,
        place: &str,
        work: impl FnOnce(&mut Self) -> Result<Result<(), Absent>, Error>,
    ) -> Result<(), Error> {
        let (place, message) = match work(self) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(Absent(message))) => (place.to_owned(), message),
            Err(Error::Wrong { place, message }) => (place, message),
            Err(other) => return Err(other),
        };
        if !self.companion.built_in {
            return Err(Error::Wrong { place, message });
        }
        // What there is instead helps those alone who can change the companion.
        let what = message.split("; ").next().unwrap_or_default();
        self.left_out.push(what.to_owned());
        Ok(())
    }

    /// Tells in one note all that was left out.
    fn tell_left_out(&mut self) {
        let more = match self.left_out.len() {
            0 => return,
            some if some > MOST_TOLD => format!(", and {} more", some - MOST_TOLD),
            _ => String::new(),
        };
        self.left_out.truncate(MOST_TOLD);
        self.done.notes.push(format!(
            "{} is for {}, and leaves out what this source lacks: {}{more}",
            self.companion.name,
            self.companion.file.from,
            self.left_out.join(", ")
        ));
    }

    /// The value of `ops.flags` without flags that change the kernel's requests to a scheduler and that its revision may not know.
    fn without_recent_flags(&mut self, member: &str, value: Dynamic) -> Dynamic {
        let (Ok(flags), Fit::Partly, "flags") = (value.as_int(), self.fit, member) else {
            return value;
        };
        let mut left = flags;
        for name in RECENT_FLAGS {
            let bit = (self.constants)(name).map_or(0, u64::cast_signed);
            if left & bit != 0 {
                left &= !bit;
                self.done.notes.push(format!(
                    "{} sets {name}, which was left out, because the source is of another revision than {}",
                    self.companion.name, self.companion.file.from
                ));
            }
        }
        Dynamic::from_int(left)
    }

    /// Counts the bytes of a value before it is made.
    fn take(&mut self, bytes: usize, place: &str) -> Result<(), Error> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > MOST_BYTES {
            let most = MOST_BYTES >> 20;
            return Err(wrong(
                place,
                format!("the companion sets more than {most} MiB in all; set less"),
            ));
        }
        Ok(())
    }

    fn expression(&mut self, text: &str, place: &str) -> Result<Dynamic, Error> {
        self.evaluate(text).map_err(|error| wrong(place, format!("{text:?}: {error}")))
    }

    fn evaluate(&mut self, text: &str) -> Result<Dynamic, String> {
        if shifts_unclearly(text) {
            return Err("a shift binds more tightly here than *, /, %, + and -, and less in C; write brackets".to_owned());
        }
        let level = self.scope.len();
        let value = self.engine.eval_with_scope(&mut self.scope, text);
        // Names that the expression defines end with it.
        self.scope.rewind(level);
        value.map_err(|error| match *error {
            EvalAltResult::ErrorTerminated(..) => format!(
                "it has no end, or is too long: all expressions together may take {} million steps, and each {} s",
                scope::STEPS / 1_000_000,
                bounds::SECONDS
            ),
            other => other.to_string(),
        })
    }

    /// The value of a key: a text is an expression; lists and tables contain values.
    fn value(&mut self, value: &Spanned<Value>, key: &str) -> Result<Dynamic, Error> {
        let place = self.companion.place(value);
        self.plain_value(value.get_ref(), &place, key)
    }

    fn plain_value(&mut self, value: &Value, place: &str, key: &str) -> Result<Dynamic, Error> {
        Ok(match value {
            Value::String(text) => self
                .evaluate(text)
                .map_err(|error| wrong(place, format!("{key} = {text:?}: {error}")))?,
            Value::Integer(number) => Dynamic::from_int(*number),
            Value::Float(number) => Dynamic::from_float(*number),
            Value::Boolean(truth) => Dynamic::from_bool(*truth),
            Value::Array(list) => {
                let values: Result<Array, Error> =
                    list.iter().map(|one| self.plain_value(one, place, key)).collect();
                Dynamic::from_array(values?)
            }
            Value::Table(table) => {
                let mut map = Map::new();
                for (name, one) in table {
                    map.insert(name.as_str().into(), self.plain_value(one, place, key)?);
                }
                Dynamic::from_map(map)
            }
            Value::Datetime(_) => {
                return Err(wrong(place, format!("{key}: a date makes no sense here")));
            }
        })
    }

    fn whole(&mut self, value: &Spanned<Value>, key: &str) -> Result<INT, Error> {
        let found = self.value(value, key)?;
        found.as_int().map_err(|kind| {
            wrong(
                &self.companion.place(value),
                format!("{key}: a whole number is needed, not {kind}"),
            )
        })
    }

    /// The elements that an entry or a run is for; a single one without `each`.
    fn elements(
        &mut self,
        each: Option<&Spanned<Value>>,
        what: &str,
    ) -> Result<Vec<Option<Dynamic>>, Error> {
        let Some(each) = each else { return Ok(vec![None]) };
        let list = self.value(each, &format!("{what}.each"))?;
        let list = list.into_array().map_err(|kind| {
            wrong(&self.companion.place(each), format!("{what}.each: a list is needed, not {kind}"))
        })?;
        Ok(list.into_iter().map(Some).collect())
    }

    fn holds(&mut self, condition: Option<&Spanned<Value>>, what: &str) -> Result<bool, Error> {
        let Some(condition) = condition else { return Ok(true) };
        let value = self.value(condition, &format!("{what}.if"))?;
        value.as_bool().map_err(|kind| {
            wrong(
                &self.companion.place(condition),
                format!("{what}.if: true or false is needed, not {kind}"),
            )
        })
    }
}

/// Whether `key` can name something of `object` that a [`Setting`] sets.
pub fn names(object: &Object, key: &str) -> bool {
    if key.starts_with("ops.") || key.starts_with("map.") {
        return true;
    }
    let path = key.strip_prefix("global.").unwrap_or(key);
    find_variable(object, path).is_some()
}

/// Whether an expression has a shift beside arithmetic without brackets between them: here `1 << a % 8` is `(1 << a) % 8`.
fn shifts_unclearly(text: &str) -> bool {
    // Whether the part of each open bracket has a shift, and arithmetic.
    let mut parts = vec![(false, false)];
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_double = letters.next_if_eq(&letter).is_some();
        let Some(part) = parts.last_mut() else { return false };
        match letter {
            '(' | '[' | '{' => {
                parts.extend(vec![(false, false); 1 + usize::from(is_double)]);
                continue;
            }
            ')' | ']' | '}' => {
                parts.truncate(parts.len().saturating_sub(1 + usize::from(is_double)));
                continue;
            }
            '"' | '`' if !is_double => while letters.next().is_some_and(|other| other != letter) {},
            ',' | ';' | '=' | '&' | '|' | '?' | ':' => *part = (false, false),
            '<' | '>' if is_double => part.0 = true,
            '*' | '/' | '%' | '+' | '-' => part.1 = true,
            _ => {}
        }
        if *part == (true, true) {
            return true;
        }
    }
    false
}

fn wrong(place: &str, message: String) -> Error {
    Error::Wrong { place: place.to_owned(), message }
}

/// `, did you mean X?` if something is similar to `name`.
fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> String {
    candidates
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().div_ceil(3))
        .min()
        .map_or_else(String::new, |(_, candidate)| format!(", did you mean {candidate}?"))
}

#[cfg(test)]
mod machines;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shift_beside_arithmetic_needs_brackets() {
        for text in ["1 << cpu % 8", "bytes[a / 8] |= 1 << a % 8", "f((a + 1 << 2))", "a * 2 >> b"]
        {
            assert!(shifts_unclearly(text), "{text}");
        }
        for text in [
            "1 << (cpu % 8)",
            "bytes[a / 8] |= 1 << (a % 8)",
            "f(a + 1, 1 << 2)",
            "`1 << a % 8`",
            "a[b - 1] << 3; c - 1",
            "((a * 2)) << b",
        ] {
            assert!(!shifts_unclearly(text), "{text}");
        }
    }
}
