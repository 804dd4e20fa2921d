//! Files with parameters: a part that is written once for all instances, or depends on the machine or the user's wishes, is filled in.
//!
//! In every string, `%(EXPRESSION)` stands for a number; a string that is nothing else becomes a number. `workloads/README.md` describes this.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::Path;

use crate::draft::Draft;
use crate::error::Error;
use crate::expression::{Evaluator, mentions};
use crate::json::{self, Departure, Member, Node, Position, Value};
use crate::model::Workload;
use crate::notes::Place;
use crate::object::{Object, Reader, probably_meant};
use crate::parameter::{self, CPUS, Parameter};
use crate::task::INSTANCES_MAX;

/// Maximum number of values in a file once it is filled in.
const VALUES_MAX: usize = 1_000_000;

/// The values with which a file is filled in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arguments {
    /// CPUs of the machine, for files that ask for them.
    pub cpus: Option<u32>,
    /// Parameters and their values, as written by the user.
    pub values: Vec<(String, String)>,
}

/// A file in rt-app's language that may have parameters.
#[derive(Clone, Debug)]
pub struct Template {
    file: String,
    root: Node,
    departures: Vec<(Departure, Position)>,
    parameters: Vec<Parameter>,
    doc: Option<String>,
}

impl Template {
    /// Reads a file.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        Self::of_bytes(&path.display().to_string(), fairground_files::read(path))
    }

    /// Reads the rest of an open file. `file` names it in messages; without folder and suffix it is the name of the workload.
    pub fn read_rest(file: &str, source: impl Read) -> Result<Self, Error> {
        Self::of_bytes(file, fairground_files::read_rest(source))
    }

    fn of_bytes(file: &str, bytes: io::Result<Vec<u8>>) -> Result<Self, Error> {
        let whole = |line, column, message| Error {
            file: file.to_owned(),
            line,
            column,
            json_path: String::new(),
            message,
        };
        let bytes = bytes.map_err(|error| {
            whole(0, 0, format!("cannot be read: {error}; {}", fairground_files::remedy(&error)))
        })?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let valid = error.utf8_error().valid_up_to();
            let before = String::from_utf8_lossy(&error.as_bytes()[..valid]).into_owned();
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
            whole(
                line as u32,
                column as u32,
                "not UTF-8 text from here on; rt-app files are JSON, so save it as UTF-8".into(),
            )
        })?;
        Self::parse(file, &text)
    }

    /// Reads the text of a file; `file` names it in messages, and without folder and suffix it is the name of the workload.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let mut departures = Vec::new();
        let root = json::parse(text, &mut departures).map_err(|error| Error {
            file: file.into(),
            line: error.position.line,
            column: error.position.column,
            json_path: String::new(),
            message: error.message,
        })?;
        let mut template =
            Self { file: file.into(), root, departures, parameters: Vec::new(), doc: None };
        let reader = template.reader();
        let root = Object::root(&reader, &template.root)?;
        let Some(field) = root.get("fairground") else { return Ok(template) };
        let settings = field.object()?;
        let doc = settings.string("doc")?.map(str::to_owned);
        let parameters = settings.get("parameters").map(|field| parameter::read_all(&field));
        let parameters = parameters.transpose()?.unwrap_or_default();
        template.doc = doc;
        template.parameters = parameters;
        Ok(template)
    }

    fn reader(&self) -> Reader<'_> {
        Reader::of(&self.file)
    }

    /// The parameters, in the order of the file.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// The file's description of itself.
    pub fn doc(&self) -> Option<&str> {
        self.doc.as_deref()
    }

    /// The workload for these arguments; those that the user gave are part of its name.
    pub fn workload(&self, arguments: &Arguments) -> Result<Workload, Error> {
        let filled = self.filled(arguments)?;
        let mut workload = Workload::of_node(&self.file, &filled, &self.departures)?;
        let given = arguments.values.iter();
        let given: Vec<String> = given.map(|(name, value)| format!("{name}={value}")).collect();
        if !given.is_empty() {
            workload.name = format!("{}:{}", workload.name, given.join(","));
        }
        Ok(workload)
    }

    /// The plain file for these arguments.
    pub fn fill(&self, arguments: &Arguments) -> Result<Draft, Error> {
        self.filled(arguments).map(Draft::of_node)
    }

    fn filled(&self, arguments: &Arguments) -> Result<Node, Error> {
        let reader = self.reader();
        self.check_names(&reader, arguments)?;
        let mut evaluator = Evaluator::new();
        let given = |name: &str| {
            let mut values = arguments.values.iter().rev();
            let (_, value) = values.find(|(given, _)| given == name)?;
            Some(value.as_str())
        };
        match given(CPUS) {
            Some(value) => evaluator.set(CPUS, parameter::cpus(&self.file, value)?),
            None => {
                if let Some(cpus) = arguments.cpus {
                    evaluator.set(CPUS, f64::from(cpus));
                }
            }
        }
        for parameter in &self.parameters {
            let value = match given(&parameter.name) {
                Some(value) => parameter.parse(&self.file, value)?,
                None => parameter.default_value(&reader, &mut evaluator)?,
            };
            evaluator.set(&parameter.name, value);
        }
        let mut filling = Filling { reader, evaluator, values: 0, renamed: Vec::new() };
        filling.root(&self.root)
    }

    /// Refuses values for parameters that the file does not have.
    fn check_names(&self, reader: &Reader, arguments: &Arguments) -> Result<(), Error> {
        let names = self.parameters.iter().map(|one| one.name.as_str());
        let known = names.clone().chain([CPUS]);
        for (name, _) in &arguments.values {
            if known.clone().any(|known| known == name) {
                continue;
            }
            let known: Vec<&str> = known.clone().collect();
            let way_out = match probably_meant(name, known.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("it has {}", known.join(", ")),
            };
            return Err(Error {
                file: reader.file.into(),
                line: 0,
                column: 0,
                json_path: String::new(),
                message: format!("there is no parameter `{name}`; {way_out}"),
            });
        }
        Ok(())
    }
}

/// A file while its parameters are filled in.
struct Filling<'a> {
    reader: Reader<'a>,
    evaluator: Evaluator,
    /// Values so far.
    values: usize,
    /// Keys of events of the current task that were repeated, and their new names.
    renamed: Vec<(String, String)>,
}

impl Filling<'_> {
    fn error(&self, position: Position, path: &str, message: impl Into<String>) -> Error {
        let place = Place { position, path: path.to_owned() };
        self.reader.error(&place, message)
    }

    fn root(&mut self, node: &Node) -> Result<Node, Error> {
        let Value::Object(members) = &node.value else { return self.node(node, "") };
        let mut filled = Vec::new();
        for member in members {
            let value = match (&member.value, member.key.as_str()) {
                (Some(tasks), "tasks") => Some(self.tasks(tasks)?),
                (Some(settings), "fairground") => {
                    let without = without(settings, &["parameters", "doc"]);
                    if matches!(&without.value, Value::Object(rest) if rest.is_empty()) {
                        continue;
                    }
                    Some(self.node(&without, &member.key)?)
                }
                (Some(other), key) => Some(self.node(other, key)?),
                (None, _) => None,
            };
            filled.push(Member { value, ..member.clone() });
        }
        Ok(Node { value: Value::Object(filled), ..node.clone() })
    }

    fn tasks(&mut self, tasks: &Node) -> Result<Node, Error> {
        let Value::Object(members) = &tasks.value else { return Ok(tasks.clone()) };
        let mut filled = Vec::new();
        for member in members {
            match &member.value {
                Some(task) => self.task(member, task, &mut filled)?,
                None => filled.push(member.clone()),
            }
        }
        Ok(Node { value: Value::Object(filled), ..tasks.clone() })
    }

    /// Adds a task: once, or for each of its instances if it depends on the instance. A task whose number of instances is computed as 0 is left out.
    fn task(
        &mut self,
        member: &Member,
        task: &Node,
        filled: &mut Vec<Member>,
    ) -> Result<(), Error> {
        let path = format!("tasks.{}", member.key);
        let instances = match &task.value {
            Value::Object(members) => members.iter().find(|member| member.key == "instance"),
            _ => None,
        };
        let written = instances.and_then(|instances| instances.value.as_ref());
        let number = match written {
            Some(node) => match self.node(node, &format!("{path}.instance"))?.value {
                Value::Number(number) => number.parse().ok(),
                _ => None,
            },
            None => Some(1),
        };
        let computed = written.is_some_and(|node| matches!(node.value, Value::String(_)));
        if computed && number == Some(0) {
            return Ok(());
        }
        let rest = without(task, &["instance"]);
        let by_instance = mentions(&member.key, "i") || mentioned(&rest, "i");
        let number = match number {
            Some(number @ 1..=INSTANCES_MAX) => number,
            // The reader reports any other fault of it.
            _ if !by_instance => return self.one(member, task, &path, filled),
            _ => {
                return Err(self.error(
                    member.position,
                    &path,
                    format!(
                        "uses the number of the instance, so it needs a whole number of instances from 1 to {INSTANCES_MAX}"
                    ),
                ));
            }
        };
        self.evaluator.set("n", number as f64);
        if !by_instance {
            return self.one(member, task, &path, filled);
        }
        for instance in 0..number {
            self.evaluator.set("i", instance as f64);
            let key = match number {
                1 => member.key.clone(),
                _ => format!("{}-{instance}", member.key),
            };
            let one = Member { key, ..member.clone() };
            self.one(&one, &rest, &path, filled)?;
        }
        self.evaluator.unset("i");
        Ok(())
    }

    fn one(
        &mut self,
        member: &Member,
        task: &Node,
        path: &str,
        filled: &mut Vec<Member>,
    ) -> Result<(), Error> {
        self.renamed.clear();
        let mut value = self.node(task, path)?;
        vary_repeated(&mut value, &self.renamed);
        filled.push(Member {
            key: self.name(&member.key, member.position, path)?,
            value: Some(value),
            ..member.clone()
        });
        Ok(())
    }

    fn node(&mut self, node: &Node, path: &str) -> Result<Node, Error> {
        self.values += 1;
        if self.values > VALUES_MAX {
            return Err(self.error(
                node.position,
                path,
                format!("the file has more than {VALUES_MAX} values when it is filled in; reduce its parameters"),
            ));
        }
        let value = match &node.value {
            Value::String(text) => self
                .evaluator
                .value(text)
                .map_err(|message| self.error(node.position, path, message))?,
            Value::Array(elements) => {
                let elements = elements.iter().enumerate();
                let filled =
                    elements.map(|(at, element)| self.node(element, &format!("{path}[{at}]")));
                Value::Array(filled.collect::<Result<_, _>>()?)
            }
            Value::Object(members) => {
                let mut filled = Vec::new();
                for member in members {
                    self.member(member, path, &mut filled)?;
                }
                Value::Object(filled)
            }
            plain => plain.clone(),
        };
        Ok(Node { value, ..node.clone() })
    }

    fn member(
        &mut self,
        member: &Member,
        path: &str,
        filled: &mut Vec<Member>,
    ) -> Result<(), Error> {
        let path = format!("{path}.{}", member.key);
        if let Some(repeat) = repeat_of(member) {
            return self.repeat(repeat, &path, filled);
        }
        let value = member.value.as_ref().map(|node| self.node(node, &path)).transpose()?;
        filled.push(Member {
            key: self.name(&member.key, member.position, &path)?,
            value,
            ..member.clone()
        });
        Ok(())
    }

    /// Adds the events of a `repeat` as often as it says.
    fn repeat(&mut self, repeat: &Node, path: &str, filled: &mut Vec<Member>) -> Result<(), Error> {
        const FORM: &str = "write { \"repeat\" : { \"times\" : NUMBER, \"events\" : { ... } } }";
        let find = |key: &str| match &repeat.value {
            Value::Object(members) if members.len() == 2 => {
                let found = members.iter().find(|member| member.key == key);
                found.and_then(|member| member.value.as_ref())
            }
            _ => None,
        };
        let (Some(times), Some(events)) = (find("times"), find("events")) else {
            return Err(self.error(repeat.position, path, FORM));
        };
        let number = match self.node(times, path)?.value {
            Value::Number(number) => number.parse::<u32>().ok(),
            _ => None,
        };
        let (Some(number), Value::Object(events)) = (number, &events.value) else {
            return Err(self.error(repeat.position, path, FORM));
        };
        let outer = self.evaluator.get("j");
        for pass in 0..number {
            self.evaluator.set("j", f64::from(pass));
            let mut once = Vec::new();
            for event in events {
                self.member(event, path, &mut once)?;
            }
            for event in &mut once {
                let key = format!("{}-{pass}", event.key);
                let before = std::mem::replace(&mut event.key, key.clone());
                self.renamed.push((before, key));
            }
            filled.append(&mut once);
        }
        match outer {
            Some(outer) => self.evaluator.set("j", outer),
            None => self.evaluator.unset("j"),
        }
        Ok(())
    }

    /// A key or name with its expressions filled in.
    fn name(&mut self, text: &str, position: Position, path: &str) -> Result<String, Error> {
        self.evaluator.text(text).map_err(|message| self.error(position, path, message))
    }
}

/// The object that a member repeats, if it is a `repeat`.
fn repeat_of(member: &Member) -> Option<&Node> {
    let is_extension = member.key.starts_with("fairground") && member.key != "fairground";
    match member.value.as_ref().map(|node| &node.value) {
        Some(Value::Object(inner))
            if is_extension && inner.len() == 1 && inner[0].key == "repeat" =>
        {
            inner[0].value.as_ref()
        }
        _ => None,
    }
}

/// An object without some of its members.
fn without(node: &Node, keys: &[&str]) -> Node {
    let mut node = node.clone();
    if let Value::Object(members) = &mut node.value {
        members.retain(|member| !keys.contains(&member.key.as_str()));
    }
    node
}

/// Whether an expression in a value mentions a name.
fn mentioned(node: &Node, name: &str) -> bool {
    match &node.value {
        Value::String(text) => mentions(text, name),
        Value::Array(elements) => elements.iter().any(|node| mentioned(node, name)),
        Value::Object(members) => members.iter().any(|member| {
            let value = member.value.as_ref();
            mentions(&member.key, name) || value.is_some_and(|node| mentioned(node, name))
        }),
        _ => false,
    }
}

/// The new names of keys that were repeated, by the key before.
type Renamed<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// Adds the names that an event's key has now: an event of a repeat within a repeat was renamed twice.
fn add_names<'a>(key: &'a str, renamed: &Renamed<'a>, names: &mut Vec<&'a str>) {
    match renamed.get(key) {
        None => names.push(key),
        Some(after) => after.iter().for_each(|key| add_names(key, renamed, names)),
    }
}

/// Lets events that were repeated vary as the event that was written.
fn vary_repeated(task: &mut Node, pairs: &[(String, String)]) {
    let mut renamed = Renamed::new();
    for (before, after) in pairs {
        renamed.entry(before).or_default().insert(after);
    }
    let Some(Value::Object(settings)) = member_mut(task, "fairground") else { return };
    let vary = settings.iter_mut().find(|member| member.key == "vary");
    let Some(Value::Object(varied)) =
        vary.and_then(|member| member.value.as_mut()).map(|node| &mut node.value)
    else {
        return;
    };
    let written = std::mem::take(varied);
    for member in &written {
        let mut names = Vec::new();
        add_names(&member.key, &renamed, &mut names);
        varied
            .extend(names.into_iter().map(|key| Member { key: key.to_owned(), ..member.clone() }));
    }
}

fn member_mut<'a>(node: &'a mut Node, key: &str) -> Option<&'a mut Value> {
    let Value::Object(members) = &mut node.value else { return None };
    let found = members.iter_mut().find(|member| member.key == key)?;
    Some(&mut found.value.as_mut()?.value)
}
