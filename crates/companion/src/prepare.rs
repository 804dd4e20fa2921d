//! From a companion to what is set, filled in and run for one object on one machine.

use std::collections::BTreeMap;

use fairground_bpf::{
    Btf, Kind, MapEntry, Object, Passed, ProgramRun, RunTime, Setup, StructOps, StructOpsValue,
    TypeId, VariablePatch,
};
use fairground_machine::Machine;
use rhai::{Array, Dynamic, Engine, EvalAltResult, INT, Map, Scope};
use toml::{Spanned, Value};

use crate::encode::{self, Spot};
use crate::error::Error;
use crate::file::{self, Companion, Values, When};
use crate::scope;

/// A value that the command line gives instead of the companion's, or besides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// An option of the companion, `ops.MEMBER`, `map.NAME.max_entries`, or a global variable with a path into it.
    pub key: String,
    /// Its value: an expression as in a companion.
    pub value: String,
    /// Where it stands, for errors.
    pub place: String,
}

/// A companion made ready for one object on one machine.
#[derive(Clone, Debug, Default)]
pub struct Prepared {
    /// What is to be done.
    pub setup: Setup,
    /// What the reader of a result should know: what the loader does besides, and what the object does not have.
    pub notes: Vec<String>,
}

/// Bits of `enum bpf_map_type` that have a value for each CPU.
const PER_CPU_MAPS: [u32; 3] = [5, 6, 10];

impl Companion {
    /// What the companion and the settings mean for `object` on `machine`. `constants` knows the kernel's constants by name.
    ///
    /// # Errors
    ///
    /// The first key that cannot be, with its place and what could stand there. What a companion that comes with fairground sets, and
    /// an object of another revision does not have, is a note instead.
    pub fn prepare(
        &self,
        object: &Object,
        constants: &dyn Fn(&str) -> Option<u64>,
        machine: &Machine,
        settings: &[Setting],
    ) -> Result<Prepared, Error> {
        let mut text = self.text.clone();
        for setting in settings {
            text.push(' ');
            text.push_str(&setting.value);
        }
        let mut preparation = Preparation {
            companion: self,
            object,
            machine,
            engine: scope::engine(&text, object),
            scope: scope::scope(&text, object, constants, machine),
            sections: BTreeMap::new(),
            bytes: 0,
            done: Prepared::default(),
        };
        preparation.apply(settings)?;
        Ok(preparation.done)
    }
}

/// Bytes that a companion may set in all.
const MOST_BYTES: usize = 256 << 20;

struct Preparation<'a> {
    companion: &'a Companion,
    object: &'a Object,
    machine: &'a Machine,
    engine: Engine,
    scope: Scope<'static>,
    /// Sections of global variables as they are so far.
    sections: BTreeMap<usize, Vec<u8>>,
    /// Bytes of all values so far.
    bytes: usize,
    done: Prepared,
}

/// The entries of a table in the order of the file.
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
            self.scope
                .push_constant_dynamic(name.get_ref().as_str(), value);
        }
        for (name, value) in in_order(&companion.file.ops) {
            let what = format!("ops.{}", name.get_ref());
            let place = companion.place(name);
            let value = self.value(value, &what)?;
            let result = self.set_operation(name.get_ref(), &value, &place, &what)?;
            self.note_absent(result, &place)?;
        }
        for (path, value) in in_order(&companion.file.global) {
            let what = format!("global.{}", path.get_ref());
            let place = companion.place(path);
            let value = self.value(value, &what)?;
            let result = self.set_variable(path.get_ref(), &value, &place, &what)?;
            self.note_absent(result, &place)?;
        }
        for (name, change) in &companion.file.map {
            let what = format!("map.{name}.max_entries");
            let place = companion.place(&change.max_entries);
            let value = self.value(&change.max_entries, &what)?;
            let result = self.set_map_size(name, &value, &place, &what)?;
            self.note_absent(result, &place)?;
        }
        for setting in others {
            self.apply_setting(setting)?;
        }
        for entry in &companion.file.entry {
            let result = self.add_entries(entry)?;
            self.note_absent(result, &companion.place(&entry.map))?;
        }
        for run in &companion.file.run {
            let result = self.add_runs(run)?;
            self.note_absent(result, &companion.place(&run.program))?;
        }
        let missing = companion.file.missing.iter();
        self.done.notes.extend(missing.map(|what| {
            format!(
                "its loader does besides what {} says: {what}",
                companion.name
            )
        }));
        Ok(())
    }

    fn apply_setting(&mut self, setting: &Setting) -> Result<(), Error> {
        let value = self.expression(&setting.value, &setting.place)?;
        let (key, place) = (setting.key.as_str(), setting.place.as_str());
        let result = if let Some(member) = key.strip_prefix("ops.") {
            self.set_operation(member, &value, place, key)?
        } else if let Some(map) = key
            .strip_prefix("map.")
            .and_then(|rest| rest.strip_suffix(".max_entries"))
        {
            self.set_map_size(map, &value, place, key)?
        } else {
            let path = key.strip_prefix("global.").unwrap_or(key);
            self.set_variable(path, &value, place, key)?
        };
        result.map_err(|Absent(message)| wrong(place, message))
    }

    /// What to do about a name that the object lacks: a note if the companion is ours and may be of another revision, else an error.
    fn note_absent(&mut self, result: Result<(), Absent>, place: &str) -> Result<(), Error> {
        let Err(Absent(message)) = result else {
            return Ok(());
        };
        if self.companion.built_in {
            self.done.notes.push(format!(
                "{place} was left out: {message}; the companion is for {}",
                self.companion.file.from
            ));
            return Ok(());
        }
        Err(wrong(place, message))
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
        self.evaluate(text)
            .map_err(|error| wrong(place, format!("{text:?}: {error}")))
    }

    fn evaluate(&mut self, text: &str) -> Result<Dynamic, String> {
        let level = self.scope.len();
        let value = self.engine.eval_with_scope(&mut self.scope, text);
        // What the expression names for itself ends with it.
        self.scope.rewind(level);
        value.map_err(|error| match *error {
            EvalAltResult::ErrorTerminated(..) => format!(
                "it has no end, or is too long: all expressions together may take {} million steps",
                scope::STEPS / 1_000_000
            ),
            other => other.to_string(),
        })
    }

    /// The value at a key: a text is an expression, lists and tables hold values.
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
                let values: Result<Array, Error> = list
                    .iter()
                    .map(|one| self.plain_value(one, place, key))
                    .collect();
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
                return Err(wrong(place, format!("{key}: a date has no use here")));
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

    fn table(&self) -> Option<&StructOps> {
        self.object.schedulers().next()
    }

    fn set_operation(
        &mut self,
        member: &str,
        value: &Dynamic,
        place: &str,
        key: &str,
    ) -> Result<Result<(), Absent>, Error> {
        let Some(table) = self.table() else {
            return Ok(Err(Absent(format!(
                "{key}: the object has no sched_ext_ops table"
            ))));
        };
        let found = table.members.iter().find(|one| one.name == member);
        let Some(found) = found else {
            let known = table
                .members
                .iter()
                .filter(|one| matches!(one.value, StructOpsValue::Data(_)));
            let known: Vec<&str> = known.map(|one| one.name.as_str()).collect();
            return Ok(Err(Absent(format!(
                "sched_ext_ops has no member {member:?}; it has {}",
                known.join(", ")
            ))));
        };
        let btf = self.object.btf();
        let StructOpsValue::Data(_) = &found.value else {
            return Err(wrong(
                place,
                format!("{key} is a callback, which stays as the source has it"),
            ));
        };
        let size = btf.size_of(found.type_id).unwrap_or(0) as usize;
        let mut bytes = vec![0; size];
        encode::write(btf, Spot::of(found.type_id), value, &mut bytes)
            .map_err(|problem| wrong(place, format!("{key}: {problem}")))?;
        self.done
            .setup
            .operations
            .retain(|(name, _)| name != member);
        self.done.setup.operations.push((member.to_owned(), bytes));
        Ok(Ok(()))
    }

    fn set_variable(
        &mut self,
        path: &str,
        value: &Dynamic,
        place: &str,
        key: &str,
    ) -> Result<Result<(), Absent>, Error> {
        let Some((number, index, rest)) = find_variable(self.object, path) else {
            let name = path.split(['.', '[']).next().unwrap_or(path);
            return Ok(Err(Absent(format!(
                "there is no global variable {name:?}{}",
                self.nearest_variable(name)
            ))));
        };
        let btf = self.object.btf();
        let section = &self.object.sections()[number];
        let variable = &section.variables[index];
        let start = variable.offset as usize;
        let spot = match encode::follow(btf, variable.type_id, rest) {
            Ok(spot) => spot,
            Err(problem) => return Ok(Err(Absent(format!("{key}: {problem}")))),
        };
        // An array that lies alone in its section is as long as its loader makes it.
        let mut size = variable.size as usize;
        let mut spot = spot;
        if let (true, Some(list)) = (rest.is_empty(), value.read_lock::<Array>())
            && let Kind::Array { element, count } = *btf.resolved(variable.type_id)
            && list.len() > count as usize
            && section.variables.len() == 1
        {
            size = list
                .len()
                .saturating_mul(btf.size_of(element).unwrap_or(0) as usize);
            spot = Spot {
                type_id: element,
                ..spot
            };
        }
        self.take(size, place)?;
        let bytes = self.sections.entry(number).or_insert_with(|| {
            let mut bytes = section.data.clone();
            bytes.resize(section.size as usize, 0);
            bytes
        });
        if bytes.len() < start + size {
            bytes.resize(start + size, 0);
        }
        let target = &mut bytes[start..start + size];
        let written = if size > variable.size as usize {
            write_long_array(btf, spot.type_id, value, target)
        } else {
            encode::write(btf, spot, value, target)
        };
        written.map_err(|problem| wrong(place, format!("{key}: {problem}")))?;
        let bytes = target.to_vec();
        let patches = &mut self.done.setup.variables;
        patches.retain(|patch| (patch.section, patch.offset) != (number, start));
        patches.push(VariablePatch {
            section: number,
            offset: start,
            bytes,
        });
        Ok(Ok(()))
    }

    fn nearest_variable(&self, name: &str) -> String {
        let sections = self.object.sections().iter();
        let names =
            sections.flat_map(|section| section.variables.iter().map(|one| one.name.as_str()));
        nearest(name, names)
    }

    fn find_map(&self, name: &str) -> Result<usize, Absent> {
        let maps = self.object.maps();
        maps.iter().position(|map| map.name == name).ok_or_else(|| {
            let names = maps.iter().map(|map| map.name.as_str());
            Absent(format!("there is no map {name:?}{}", nearest(name, names)))
        })
    }

    fn set_map_size(
        &mut self,
        name: &str,
        value: &Dynamic,
        place: &str,
        key: &str,
    ) -> Result<Result<(), Absent>, Error> {
        let map = match self.find_map(name) {
            Ok(map) => map,
            Err(absent) => return Ok(Err(absent)),
        };
        let entries = value
            .as_int()
            .ok()
            .and_then(|number| u32::try_from(number).ok());
        let entries = entries
            .filter(|entries| *entries > 0)
            .ok_or_else(|| wrong(place, format!("{key}: {value} is no number of entries")))?;
        let sizes = &mut self.done.setup.map_sizes;
        sizes.retain(|(known, _)| *known != map);
        sizes.push((map, entries));
        Ok(Ok(()))
    }

    /// The elements that an entry or a run is for; without `each` a single one.
    fn elements(
        &mut self,
        each: Option<&Spanned<Value>>,
        what: &str,
    ) -> Result<Vec<Option<Dynamic>>, Error> {
        let Some(each) = each else {
            return Ok(vec![None]);
        };
        let list = self.value(each, &format!("{what}.each"))?;
        let list = list.into_array().map_err(|kind| {
            wrong(
                &self.companion.place(each),
                format!("{what}.each: a list is needed, not {kind}"),
            )
        })?;
        Ok(list.into_iter().map(Some).collect())
    }

    fn holds(&mut self, condition: Option<&Spanned<Value>>, what: &str) -> Result<bool, Error> {
        let Some(condition) = condition else {
            return Ok(true);
        };
        let value = self.value(condition, &format!("{what}.if"))?;
        value.as_bool().map_err(|kind| {
            wrong(
                &self.companion.place(condition),
                format!("{what}.if: true or false is needed, not {kind}"),
            )
        })
    }

    fn add_entries(&mut self, entry: &file::MapEntry) -> Result<Result<(), Absent>, Error> {
        let map = match self.find_map(entry.map.get_ref()) {
            Ok(map) => map,
            Err(absent) => return Ok(Err(absent)),
        };
        let definition = &self.object.maps()[map];
        let place = self.companion.place(&entry.map);
        for element in self.elements(entry.each.as_ref(), "entry")? {
            let level = self.scope.len();
            if let Some(element) = element {
                self.scope.push_constant_dynamic("it", element);
            }
            if self.holds(entry.condition.as_ref(), "entry")? {
                let key = self.value(&entry.key, "entry.key")?;
                let key = self.encode_whole(
                    definition.key_type,
                    definition.key_size,
                    &key,
                    &place,
                    "entry.key",
                )?;
                let (values, inner) = match &definition.inner {
                    Some(inner) => (Vec::new(), Some(self.new_map(entry, inner, &place)?)),
                    None => (self.entry_values(entry, definition, &place)?, None),
                };
                self.done.setup.entries.push(MapEntry {
                    place: place.clone(),
                    map,
                    key,
                    values,
                    inner,
                });
            }
            self.scope.rewind(level);
        }
        Ok(Ok(()))
    }

    /// The value of an entry, or one for each CPU.
    fn entry_values(
        &mut self,
        entry: &file::MapEntry,
        definition: &fairground_bpf::Map,
        place: &str,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let Some(expression) = &entry.value else {
            return Err(wrong(
                place,
                "an entry of this map needs a value".to_owned(),
            ));
        };
        if entry.max_entries.is_some() {
            let message = "entry.max_entries is for maps in maps".to_owned();
            return Err(wrong(place, message));
        }
        let copies = if PER_CPU_MAPS.contains(&definition.kind) {
            self.machine.cpus.len()
        } else {
            1
        };
        let sizes = definition.key_size as usize + definition.value_size as usize * copies;
        self.take(sizes, place)?;
        let mut values = Vec::with_capacity(copies);
        for cpu in 0..copies {
            let level = self.scope.len();
            if copies > 1 {
                let cpus: Array = self.scope.get_value("cpus").unwrap_or_default();
                let cpu = cpus.get(cpu).cloned().unwrap_or_default();
                self.scope.push_constant_dynamic("cpu", cpu);
            }
            let value = self.value(expression, "entry.value")?;
            self.scope.rewind(level);
            values.push(self.encode_whole(
                definition.value_type,
                definition.value_size,
                &value,
                place,
                "entry.value",
            )?);
        }
        Ok(values)
    }

    /// The capacity of a new map in a map of maps.
    fn new_map(
        &mut self,
        entry: &file::MapEntry,
        inner: &fairground_bpf::Map,
        place: &str,
    ) -> Result<u32, Error> {
        if entry.value.is_some() {
            let message = "the value in a map of maps is a new map; leave value out".to_owned();
            return Err(wrong(place, message));
        }
        let entries = match &entry.max_entries {
            Some(expression) => self.whole(expression, "entry.max_entries")?,
            None => INT::from(inner.max_entries),
        };
        let entries = u32::try_from(entries).ok().filter(|entries| *entries > 0);
        let entries = entries.ok_or_else(|| {
            wrong(
                place,
                "entry.max_entries is no number of entries".to_owned(),
            )
        })?;
        let size = (inner.value_size as usize).saturating_mul(entries as usize);
        self.take(size, place)?;
        Ok(entries)
    }

    /// A value of a type of the object; if the object names none, the value is a number of `size` bytes.
    fn encode_whole(
        &self,
        type_id: Option<TypeId>,
        size: u32,
        value: &Dynamic,
        place: &str,
        key: &str,
    ) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; size as usize];
        let Some(type_id) = type_id else {
            let number = value.as_int().map_err(|kind| {
                wrong(
                    place,
                    format!("{key}: a whole number is needed, not {kind}"),
                )
            })?;
            let encoded = i128::from(number).to_le_bytes();
            let length = bytes.len().min(encoded.len());
            bytes[..length].copy_from_slice(&encoded[..length]);
            return Ok(bytes);
        };
        encode::write(self.object.btf(), Spot::of(type_id), value, &mut bytes)
            .map_err(|problem| wrong(place, format!("{key}: {problem}")))?;
        Ok(bytes)
    }

    fn add_runs(&mut self, run: &file::Run) -> Result<Result<(), Absent>, Error> {
        let context_type = match self.context_type(run.program.get_ref()) {
            Ok(found) => found,
            Err(absent) => return Ok(Err(absent)),
        };
        for then in &run.then {
            if let Err(absent) = self.context_type(then.program.get_ref()) {
                return Ok(Err(absent));
            }
        }
        let time = match &run.every {
            Some(every) => {
                let interval = self.whole(every, "run.every")?;
                let interval = u64::try_from(interval).ok().filter(|time| *time >= 1_000);
                RunTime::Every(interval.ok_or_else(|| {
                    wrong(
                        &self.companion.place(every),
                        "run.every: the time from one run to the next, such as \"100*ms\""
                            .to_owned(),
                    )
                })?)
            }
            None if run.when == When::AfterAttach => RunTime::AfterAttach,
            None => RunTime::BeforeAttach,
        };
        for element in self.elements(run.each.as_ref(), "run")? {
            let level = self.scope.len();
            if let Some(element) = element {
                self.scope.push_constant_dynamic("it", element);
            }
            if self.holds(run.condition.as_ref(), "run")? {
                let cpu = match &run.cpu {
                    Some(cpu) => self.whole(cpu, "run.cpu")?,
                    None => 0,
                };
                let cpu = usize::try_from(cpu)
                    .ok()
                    .filter(|cpu| *cpu < self.machine.cpus.len());
                let cpu = cpu.ok_or_else(|| {
                    wrong(
                        &self.companion.place(&run.program),
                        format!(
                            "run.cpu: the machine has CPUs 0 to {}",
                            self.machine.cpus.len() - 1
                        ),
                    )
                })?;
                self.add_run(
                    &run.program,
                    context_type,
                    (&run.context, &[], &run.write),
                    (cpu, time),
                    None,
                )?;
                let mut before = context_type;
                for then in &run.then {
                    let of_then = self.context_type(then.program.get_ref()).ok().flatten();
                    let parts = (&then.context, then.pass.as_slice(), &then.write);
                    self.add_run(&then.program, of_then, parts, (cpu, time), Some(before))?;
                    before = of_then;
                }
            }
            self.scope.rewind(level);
        }
        Ok(Ok(()))
    }

    fn add_run(
        &mut self,
        program: &Spanned<String>,
        context_type: Option<TypeId>,
        (context, pass, write): (&Values, &[Spanned<String>], &Values),
        (cpu, time): (usize, RunTime),
        before: Option<Option<TypeId>>,
    ) -> Result<(), Error> {
        let place = self.companion.place(program);
        let btf = self.object.btf();
        let size = context_type.and_then(|id| btf.size_of(id)).unwrap_or(0);
        self.take(size as usize, &place)?;
        let mut bytes = vec![0; size as usize];
        let name = program.get_ref();
        let spot_of = |type_id: Option<TypeId>, member: &str, place: &str| {
            let type_id = type_id.ok_or_else(|| {
                wrong(
                    place,
                    format!("{name} takes no context of its own type; leave {member:?} out"),
                )
            })?;
            encode::follow(btf, type_id, &format!(".{member}"))
                .map_err(|problem| wrong(place, format!("context of {name}: {problem}")))
        };
        for (member, value) in in_order(context) {
            let place = self.companion.place(member);
            let spot = spot_of(context_type, member.get_ref(), &place)?;
            let value = self.value(value, &format!("context.{}", member.get_ref()))?;
            encode::write(btf, spot, &value, &mut bytes).map_err(|problem| {
                wrong(&place, format!("context.{}: {problem}", member.get_ref()))
            })?;
        }
        let mut passed = Vec::new();
        for member in pass {
            let place = self.companion.place(member);
            let (from, to) = (
                spot_of(before.flatten(), member.get_ref(), &place)?,
                spot_of(context_type, member.get_ref(), &place)?,
            );
            passed.push(Passed {
                from: from.offset(),
                to: to.offset(),
                size: btf.size_of(to.type_id).unwrap_or(0) as usize,
            });
        }
        let mut writes = Vec::new();
        for (member, value) in in_order(write) {
            let place = self.companion.place(member);
            let spot = spot_of(context_type, member.get_ref(), &place)?;
            let words = self.value(value, &format!("write.{}", member.get_ref()))?;
            let words = words.into_typed_array::<INT>().map_err(|_| {
                wrong(
                    &place,
                    "write: a list of 64-bit words is needed, such as mask(it.cpus)".to_owned(),
                )
            })?;
            let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            writes.push((spot.offset(), bytes));
        }
        self.done.setup.runs.push(ProgramRun {
            place,
            program: name.clone(),
            context: bytes,
            passed,
            writes,
            cpu,
            time,
            follows: before.is_some(),
        });
        Ok(())
    }

    /// The type that the context of a program has: what its only parameter points to.
    fn context_type(&self, program: &str) -> Result<Option<TypeId>, Absent> {
        let programs = self.object.programs();
        let Some(found) = programs.iter().find(|one| one.name == program) else {
            let runnable = programs.iter().filter(|one| one.section == "syscall");
            let names: Vec<&str> = runnable.map(|one| one.name.as_str()).collect();
            return Err(Absent(format!(
                "there is no program {program:?}; those that can be run are: {}",
                if names.is_empty() {
                    "none".to_owned()
                } else {
                    names.join(", ")
                }
            )));
        };
        if found.section != "syscall" {
            return Err(Absent(format!(
                "program {program:?} is of section {:?}, and only those of section \"syscall\" can be run",
                found.section
            )));
        }
        let btf = self.object.btf();
        let prototype = btf.types().iter().find_map(|one| match one.kind {
            Kind::Function { prototype, .. } if one.name == program => Some(prototype),
            _ => None,
        });
        let Some(Kind::Prototype { parameters, .. }) = prototype.map(|id| btf.resolved(id)) else {
            return Ok(None);
        };
        let Some((_, parameter)) = parameters.first() else {
            return Ok(None);
        };
        Ok(match *btf.resolved(*parameter) {
            Kind::Pointer(target) => Some(target).filter(|id| btf.size_of(*id).is_some()),
            _ => None,
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

/// The variable that `path` begins with: section, variable, and the rest of the path.
fn find_variable<'p>(object: &Object, path: &'p str) -> Option<(usize, usize, &'p str)> {
    // Static variables of functions have a dot in their names: the longest name wins.
    let ends = path
        .char_indices()
        .filter(|(_, character)| matches!(character, '.' | '['))
        .map(|(at, _)| at)
        .chain([path.len()]);
    let mut ends: Vec<usize> = ends.collect();
    ends.reverse();
    for end in ends {
        for (number, section) in object.sections().iter().enumerate() {
            let variables = &section.variables;
            if let Some(index) = variables.iter().position(|one| one.name == path[..end]) {
                return Some((number, index, &path[end..]));
            }
        }
    }
    None
}

/// An array that is longer than its type says.
fn write_long_array(
    btf: &Btf,
    element: TypeId,
    value: &Dynamic,
    bytes: &mut [u8],
) -> Result<(), String> {
    let list = value.read_lock::<Array>().ok_or("a list is needed")?;
    let size = btf.size_of(element).unwrap_or(0) as usize;
    for (index, value) in list.iter().enumerate() {
        let spot = Spot {
            type_id: element,
            bit_offset: index * size * 8,
            bit_size: 0,
        };
        encode::write(btf, spot, value, bytes)
            .map_err(|problem| format!("[{index}]: {problem}"))?;
    }
    Ok(())
}

fn wrong(place: &str, message: String) -> Error {
    Error::Wrong {
        place: place.to_owned(),
        message,
    }
}

/// `, did you mean X?` if there is something like `name`.
fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> String {
    candidates
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().div_ceil(3))
        .min()
        .map_or_else(String::new, |(_, candidate)| {
            format!(", did you mean {candidate}?")
        })
}
