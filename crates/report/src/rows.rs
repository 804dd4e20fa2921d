//! Comparisons as rows of typed fields, for CSV and Parquet. The columns are the same for every workload.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Display, Formatter};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::LazyLock;

use fairground_results::{MEASURES, Measure, Measured, Unit};

use crate::Run;

/// The type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnType {
    Text,
    Integer,
    Real,
    /// Texts by name.
    Texts,
    /// Integers by name.
    Integers,
}

/// A column: its name, and the type of its values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: ColumnType,
}

/// A column that comes from no measure: its name, the type of its values, and their meaning.
type Fixed = (&'static str, ColumnType, &'static str);

/// The columns that identify a run, and how it ended.
const LABELS: [Fixed; 23] = [
    ("fairground", ColumnType::Text, "version of fairground, with its commit"),
    ("workload", ColumnType::Text, "name of the workload"),
    ("scheduler", ColumnType::Text, "name of the scheduler"),
    ("machine", ColumnType::Text, "description of the machine"),
    ("cost_model", ColumnType::Text, "name of the cost model"),
    ("noise", ColumnType::Text, "load by the kernel's own threads, as for `--noise`"),
    ("hotplug", ColumnType::Text, "CPUs that came and went, as for `--hotplug`"),
    ("seed", ColumnType::Integer, "seed of the simulation"),
    ("repeat", ColumnType::Integer, "which repetition, from 0"),
    ("hz", ColumnType::Integer, "timer ticks per second"),
    ("limit_ns", ColumnType::Integer, "length that was asked for; absent for until all tasks end"),
    (
        "settings",
        ColumnType::Integers,
        "tunables that were set, as numbers: times in nanoseconds, everything else in the tunable's unit",
    ),
    ("settings_given", ColumnType::Texts, "everything that was set, as it was written"),
    ("cell", ColumnType::Text, "identity of the run: a hash of everything that determines it"),
    (
        "scheduler_sha256",
        ColumnType::Text,
        "hash of the parts of the scheduler's object that a kernel sees",
    ),
    (
        "companion_sha256",
        ColumnType::Text,
        "hash of the file that describes its loader; absent if there is none",
    ),
    (
        "workload_sha256",
        ColumnType::Text,
        "hash of the workload, independent of its name and notation",
    ),
    ("machine_sha256", ColumnType::Text, "the same of the machine"),
    ("costs_sha256", ColumnType::Text, "the same of the costs"),
    ("status", ColumnType::Text, "how the run ended"),
    ("kind", ColumnType::Text, "the exact kind of the failure"),
    ("message", ColumnType::Text, "the same as a sentence"),
    ("failed_at_ns", ColumnType::Integer, "when, if known"),
];
/// The columns of a task apart from its measures.
const TASK: [Fixed; 3] = [
    ("task", ColumnType::Text, "name of the task"),
    ("nice", ColumnType::Integer, "its nice value at the start"),
    ("weight", ColumnType::Integer, "its weight"),
];
/// The columns that only a run has.
const RUN: [Fixed; 2] = [
    ("counters", ColumnType::Integers, "the scheduler's own counters"),
    (
        "notes",
        ColumnType::Text,
        "remarks for the reader, such as on features that were only approximated: a line each",
    ),
];

fn fixed(columns: &[Fixed]) -> Vec<Column> {
    columns.iter().map(|(name, kind, _)| Column { name: (*name).to_owned(), kind: *kind }).collect()
}

fn measured(which: impl Fn(&&'static Measure) -> bool) -> impl Iterator<Item = Column> {
    MEASURES
        .iter()
        .filter(which)
        .map(|measure| Column { name: measure.column(), kind: kind_of(measure) })
}

fn kind_of(measure: &Measure) -> ColumnType {
    match measure.unit {
        Unit::Time | Unit::Count => ColumnType::Integer,
        _ => ColumnType::Real,
    }
}

/// Columns of a row for a run.
pub(crate) fn run_columns() -> Vec<Column> {
    let mut columns = fixed(&LABELS);
    columns.extend(fixed(&RUN));
    columns.extend(measured(|measure| measure.of_run.is_some()));
    columns
}

/// Columns of a row for a task of a run.
pub(crate) fn task_columns() -> Vec<Column> {
    let mut columns = fixed(&LABELS);
    columns.extend(fixed(&TASK));
    columns.extend(measured(|measure| measure.of_task.is_some()));
    columns
}

/// Columns of both.
pub(crate) fn all_columns() -> Vec<Column> {
    let mut columns = fixed(&LABELS);
    columns.extend(fixed(&RUN));
    columns.extend(fixed(&TASK));
    columns.extend(measured(|_| true));
    columns
}

/// A field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Integer(i64),
    Real(f64),
    Texts(BTreeMap<String, String>),
    Integers(BTreeMap<String, i64>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Integer(whole(number))
    }
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl Display for Value {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        fn pairs<T: Display>(map: &BTreeMap<String, T>) -> String {
            let pairs: Vec<String> =
                map.iter().map(|(name, one)| format!("{name}={one}")).collect();
            pairs.join(" ")
        }
        match self {
            Self::Text(text) => formatter.write_str(text),
            Self::Integer(number) => number.fmt(formatter),
            Self::Real(number) => number.fmt(formatter),
            Self::Texts(map) => formatter.write_str(&pairs(map)),
            Self::Integers(map) => formatter.write_str(&pairs(map)),
        }
    }
}

/// Where rows hold the field of each column.
static PLACES: LazyLock<HashMap<String, usize>> = LazyLock::new(|| {
    let columns = all_columns().into_iter().zip(0..);
    columns.map(|(column, place)| (column.name, place)).collect()
});

/// Where rows hold the field of this column.
///
/// # Panics
///
/// If there is no such column.
pub(crate) fn place_of(column: &str) -> usize {
    *PLACES.get(column).unwrap_or_else(|| panic!("there is no column {column}"))
}

/// Whether there is such a column.
pub(crate) fn is_column(name: &str) -> bool {
    PLACES.contains_key(name)
}

/// A row: fields by column, so that no field can end up in the wrong one.
#[derive(Debug)]
pub(crate) struct Row {
    fields: Vec<Option<Value>>,
}

impl Default for Row {
    fn default() -> Self {
        let mut fields = Vec::new();
        fields.resize_with(PLACES.len(), || None);
        Self { fields }
    }
}

impl Row {
    pub(crate) fn set(&mut self, column: &str, value: impl Into<Value>) {
        self.fields[place_of(column)] = Some(value.into());
    }

    pub(crate) fn set_some(&mut self, column: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.set(column, value);
        }
    }

    /// The field of a column; `None` if the column does not apply to the row.
    pub(crate) fn get(&self, column: &str) -> Option<&Value> {
        self.at(place_of(column))
    }

    /// The field at this [place](place_of).
    pub(crate) fn at(&self, place: usize) -> Option<&Value> {
        self.fields[place].as_ref()
    }

    /// A number that is the same for all rows of the same result, whatever the names of its parts.
    pub(crate) fn fingerprint(&self) -> u64 {
        const NAMES: [&str; 8] = [
            "fairground",
            "workload",
            "scheduler",
            "machine",
            "repeat",
            "settings_given",
            "message",
            "notes",
        ];
        let mut hasher = DefaultHasher::new();
        for (column, value) in all_columns().iter().zip(&self.fields) {
            if !NAMES.contains(&column.name.as_str()) {
                value.as_ref().map(ToString::to_string).hash(&mut hasher);
            }
        }
        hasher.finish()
    }

    fn set_measures(&mut self, of: impl Fn(&Measure) -> Option<f64>) {
        // They are the last columns.
        let first = self.fields.len() - MEASURES.len();
        for (field, measure) in self.fields[first..].iter_mut().zip(MEASURES.iter()) {
            *field = of(measure).map(|number| match kind_of(measure) {
                ColumnType::Integer => Value::Integer(number.round() as i64),
                _ => Value::Real(number),
            });
        }
    }
}

fn labels(run: &Run, fairground: &str) -> Row {
    let mut row = Row::default();
    let labels = &run.labels;
    row.set("fairground", fairground);
    row.set("workload", labels.workload.as_str());
    row.set("scheduler", labels.scheduler.as_str());
    row.set("machine", labels.machine.as_str());
    row.set_some("cost_model", labels.cost_model.as_deref());
    row.set_some("noise", labels.noise.as_deref());
    let changes: Vec<String> = labels.hotplug.iter().map(ToString::to_string).collect();
    row.set_some("hotplug", (!changes.is_empty()).then(|| Value::Text(changes.join(" "))));
    row.set_some("seed", labels.seed);
    row.set("repeat", u64::from(labels.repeat));
    row.set_some("hz", labels.hz);
    row.set_some("limit_ns", labels.duration_ns);
    row.set("settings", Value::Integers(labels.numbers.clone()));
    row.set("settings_given", Value::Texts(labels.tunables.clone()));
    row.set_some("cell", labels.cell.as_deref());
    if let Some(hashes) = &labels.hashes {
        row.set_some("scheduler_sha256", hashes.scheduler.as_deref());
        row.set_some("companion_sha256", hashes.companion.as_deref());
        row.set("workload_sha256", hashes.workload.as_str());
        row.set("machine_sha256", hashes.machine.as_str());
        row.set("costs_sha256", hashes.costs.as_str());
    }
    row.set("status", run.status.name());
    if let Some(failure) = &run.failure {
        row.set("kind", failure.kind.as_str());
        row.set("message", failure.message.as_str());
        row.set_some("failed_at_ns", failure.at_ns);
    }
    row
}

/// The row of a run, made by this version of fairground.
pub(crate) fn run_row(run: &Run, fairground: &str) -> Row {
    let mut row = labels(run, fairground);
    let counters = run.counters.iter().map(|(name, count)| (name.clone(), whole(*count)));
    row.set("counters", Value::Integers(counters.collect()));
    row.set_some("notes", (!run.notes.is_empty()).then(|| Value::Text(run.notes.join("\n"))));
    if let Some(measured) = run.measured() {
        row.set_measures(|measure| measured.number(measure));
    }
    row
}

/// The rows of its tasks.
pub(crate) fn task_rows(run: &Run, fairground: &str) -> Vec<Row> {
    let row = |name: &str, nice: Option<i32>, weight: Option<u32>, task: &dyn Measured| {
        let mut row = labels(run, fairground);
        row.set("task", name);
        row.set_some("nice", nice.map(|nice| Value::Integer(nice.into())));
        row.set_some("weight", weight.map(u64::from));
        row.set_measures(|measure| task.number(measure));
        row
    };
    let own = run.metrics.iter().flat_map(|metrics| &metrics.tasks);
    let own = own.map(|task| row(&task.name, Some(task.nice), Some(task.weight), task));
    let read = run.figures.iter().flat_map(|figures| &figures.tasks);
    own.chain(read.map(|task| row(&task.name, task.nice, task.weight, task))).collect()
}

#[cfg(test)]
mod tests {
    use super::{
        ColumnType, Fixed, LABELS, RUN, Row, TASK, Value, all_columns, fixed, measured, run_row,
        task_rows,
    };
    use crate::restore::restored;

    /// The lines of that list.
    fn documented() -> Vec<String> {
        let line = |of: &str, (name, kind, doc): &Fixed| {
            let kind = match kind {
                ColumnType::Text => "text",
                ColumnType::Integer => "integer",
                ColumnType::Real => "real number",
                ColumnType::Texts => "map of texts",
                ColumnType::Integers => "map of integers",
            };
            format!("| `{name}` | {of} | {kind} | {doc} |")
        };
        let labels = LABELS.iter().map(|one| line("run, task", one));
        let counters = RUN.iter().map(|one| line("run", one));
        let task = TASK.iter().map(|one| line("task", one));
        labels.chain(counters).chain(task).collect()
    }

    #[test]
    fn the_list_in_the_documentation_is_this_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
        let text = std::fs::read_to_string(path).unwrap();
        let head = { text.lines() }.position(|line| line.starts_with("| column | of |"));
        let rows = text.lines().skip(head.unwrap() + 2);
        let listed: Vec<&str> = rows.take_while(|line| line.starts_with('|')).collect();
        let rows = documented();
        assert!(listed == rows, "docs/metrics.md should list\n{}", rows.join("\n"));
    }

    /// Whichever column a file lacks: what its rows do not have is in no output, and what they have is as it was.
    #[test]
    fn nothing_is_in_a_result_that_its_row_has_not() {
        let full = |lacking: &str| {
            let mut row = Row::default();
            for (place, column) in all_columns().into_iter().enumerate() {
                let number = place as i64 + 2;
                let value = match column.kind {
                    _ if column.name == lacking => continue,
                    ColumnType::Text => Value::Text(format!("text {place}")),
                    ColumnType::Integer => Value::Integer(number),
                    ColumnType::Real => Value::Real(number as f64 / 8.0),
                    ColumnType::Texts => {
                        Value::Texts([("a".into(), format!("text {place}"))].into())
                    }
                    ColumnType::Integers => Value::Integers([("a".into(), number)].into()),
                };
                row.fields[place] = Some(value);
            }
            row.set("status", "ejected");
            row
        };
        let optional = measured(|_| true).chain(fixed(&TASK));
        for lacking in optional.map(|column| column.name).chain([String::new()]) {
            let row = full(&lacking);
            let run = restored(&row, &[full(&lacking)]);
            let version = row.text("fairground");
            let again = std::iter::once(run_row(&run, &version)).chain(task_rows(&run, &version));
            for again in again {
                for (place, column) in all_columns().iter().enumerate() {
                    let (told, held) = (&again.fields[place], &row.fields[place]);
                    let is_name = lacking == "task" && column.name == "task";
                    assert!(told.is_none() || told == held || is_name, "{}: {told:?}", column.name);
                }
            }
        }
    }
}
