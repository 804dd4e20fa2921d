//! Comparisons as rows of typed fields, for CSV and Parquet. The columns are the same for every workload.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use fairground_metrics::TaskMetrics;
use fairground_results::{MEASURES, Measure, Unit};

use crate::Run;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Integer,
    Real,
    /// Texts by name.
    Texts,
    /// Integers by name.
    Integers,
}

/// A column: its name, and what it holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

/// What identifies a run, and how it ended.
const LABELS: [(&str, Kind); 13] = [
    ("workload", Kind::Text),
    ("scheduler", Kind::Text),
    ("machine", Kind::Text),
    ("cost_model", Kind::Text),
    ("seed", Kind::Integer),
    ("repeat", Kind::Integer),
    ("hz", Kind::Integer),
    ("limit_ns", Kind::Integer),
    ("settings", Kind::Texts),
    ("status", Kind::Text),
    ("kind", Kind::Text),
    ("message", Kind::Text),
    ("failed_at_ns", Kind::Integer),
];
/// What a task is, apart from its measures.
const TASK: [(&str, Kind); 3] = [
    ("task", Kind::Text),
    ("nice", Kind::Integer),
    ("weight", Kind::Integer),
];
const COUNTERS: (&str, Kind) = ("counters", Kind::Integers);

fn fixed(columns: &[(&str, Kind)]) -> Vec<Column> {
    let columns = columns.iter();
    columns
        .map(|(name, kind)| Column {
            name: (*name).to_owned(),
            kind: *kind,
        })
        .collect()
}

fn measured(which: impl Fn(&&'static Measure) -> bool) -> impl Iterator<Item = Column> {
    MEASURES.iter().filter(which).map(|measure| Column {
        name: measure.column(),
        kind: kind_of(measure),
    })
}

fn kind_of(measure: &Measure) -> Kind {
    match measure.unit {
        Unit::Time | Unit::Count => Kind::Integer,
        _ => Kind::Real,
    }
}

/// Columns of a row for a run.
pub(crate) fn run_columns() -> Vec<Column> {
    let mut columns = fixed(&LABELS);
    columns.extend(fixed(&[COUNTERS]));
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
    columns.extend(fixed(&[COUNTERS]));
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

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
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

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Integer(number.into())
    }
}

impl From<i32> for Value {
    fn from(number: i32) -> Self {
        Self::Integer(number.into())
    }
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl Display for Value {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        fn pairs<T: Display>(map: &BTreeMap<String, T>) -> String {
            let pairs: Vec<String> = map
                .iter()
                .map(|(name, one)| format!("{name}={one}"))
                .collect();
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

/// A row: fields by column name, so that no field can end up in the wrong column.
#[derive(Debug, Default)]
pub(crate) struct Row {
    fields: BTreeMap<String, Value>,
}

impl Row {
    pub(crate) fn set(&mut self, column: impl Into<String>, value: impl Into<Value>) {
        self.fields.insert(column.into(), value.into());
    }

    pub(crate) fn set_some(&mut self, column: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.set(column, value);
        }
    }

    /// The field of a column; `None` if the column does not apply to the row.
    pub(crate) fn get(&self, column: &str) -> Option<&Value> {
        self.fields.get(column)
    }

    fn set_measures(&mut self, of: impl Fn(&Measure) -> Option<f64>) {
        for measure in MEASURES.iter() {
            let Some(number) = of(measure) else {
                continue;
            };
            let value = match kind_of(measure) {
                Kind::Integer => Value::Integer(number.round() as i64),
                _ => Value::Real(number),
            };
            self.fields.insert(measure.column(), value);
        }
    }
}

fn labels(run: &Run) -> Row {
    let mut row = Row::default();
    let labels = &run.labels;
    row.set("workload", labels.workload.as_str());
    row.set("scheduler", labels.scheduler.as_str());
    row.set("machine", labels.machine.as_str());
    row.set_some("cost_model", labels.cost_model.as_deref());
    row.set_some("seed", labels.seed);
    row.set("repeat", labels.repeat);
    row.set_some("hz", labels.hz);
    row.set_some("limit_ns", labels.duration_ns);
    let settings = Value::Texts(labels.tunables.clone());
    row.fields.insert("settings".to_owned(), settings);
    row.set("status", run.status.name());
    if let Some(failure) = &run.failure {
        row.set("kind", failure.kind.as_str());
        row.set("message", failure.message.as_str());
        row.set_some("failed_at_ns", failure.at_ns);
    }
    row
}

/// The row of a run.
pub(crate) fn run_row(run: &Run) -> Row {
    let mut row = labels(run);
    let counters = run.counters.iter();
    let counters = counters.map(|(name, count)| (name.clone(), whole(*count)));
    let counters = Value::Integers(counters.collect());
    row.fields.insert("counters".to_owned(), counters);
    if let Some(metrics) = &run.metrics {
        row.set_measures(|measure| measure.run(metrics));
    }
    row
}

/// The row of a task.
pub(crate) fn task_row(run: &Run, task: &TaskMetrics) -> Row {
    let mut row = labels(run);
    row.set("task", task.name.as_str());
    row.set("nice", task.nice);
    row.set("weight", task.weight);
    row.set_measures(|measure| measure.task(task));
    row
}
