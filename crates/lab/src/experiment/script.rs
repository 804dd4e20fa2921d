//! The expressions of an experiment: measures over one run, acceptance lines over all runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use fairground_companion::{SECONDS, takes_too_long};
use fairground_metrics::{RunMetrics, TaskRecords};
use rhai::serde::to_dynamic;
use rhai::{AST, Array, Dynamic, Engine, EvalAltResult, Map, OptimizationLevel, Scope};

use super::samples::{self, Evidence, Samples, digits};

/// The units that expressions may use, in nanoseconds.
const UNITS: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];

/// Maximum number of operations of an expression, some seconds' worth.
const STEPS: u64 = 10_000_000;

/// A compiled expression.
#[derive(Clone)]
pub(crate) struct Expression {
    ast: AST,
}

/// An engine without access to any data outside the scope.
pub(crate) fn engine() -> Engine {
    let mut engine = Engine::new();
    fairground_companion::bound(&mut engine);
    engine.set_max_operations(STEPS);
    engine.on_progress(|step| takes_too_long(step).then_some(Dynamic::UNIT));
    engine.set_optimization_level(OptimizationLevel::Simple);
    samples::register(&mut engine);
    engine.register_fn("named", named);
    engine.register_type_with_name::<Recorded>("records");
    engine.register_indexer_get(Recorded::list);
    engine.register_fn("response_times", Recorded::response_times);
    engine.register_fn("numbers", |text: &str, pattern: &str| {
        let found = numbers_in(text, pattern)?.into_iter();
        Ok::<Array, Box<EvalAltResult>>(found.map(Dynamic::from).collect())
    });
    engine.register_fn("number", |text: &str, pattern: &str| {
        let found = numbers_in(text, pattern)?;
        let nothing = || format!("nothing in the output matches {pattern}").into();
        found.first().copied().ok_or_else(nothing).map_err(|error: Box<EvalAltResult>| error)
    });
    engine.register_fn("fixed", |value: f64, decimals: i64| {
        format!("{value:.*}", decimals.max(0) as usize)
    });
    engine.register_fn("to_string", |value: &mut f64| digits(*value));
    engine
}

/// The tasks of a definition: the one with this name, or its instances `name-0`, `name-1`.
fn named(tasks: &mut Array, name: &str) -> Result<Array, Box<EvalAltResult>> {
    let is_instance = |full: &str| {
        full.strip_prefix(name).is_some_and(|rest| {
            rest.is_empty()
                || rest.strip_prefix('-').is_some_and(|number| {
                    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
                })
        })
    };
    let mut found = Array::new();
    for task in tasks.iter() {
        let map = task.read_lock::<Map>().ok_or("named() takes tasks")?;
        let full = map.get("name").cloned().unwrap_or_default();
        if is_instance(&full.into_string().unwrap_or_default()) {
            found.push(task.clone());
        }
    }
    if found.is_empty() {
        return Err(format!("there is no task {name:?}").into());
    }
    Ok(found)
}

/// The records of a task. Expressions copy the values that they touch, so a list becomes a value of theirs only where one asks for it.
#[derive(Clone)]
struct Recorded(Arc<TaskRecords>);

impl Recorded {
    fn list(&mut self, name: &str) -> Result<Dynamic, Box<EvalAltResult>> {
        let records = &*self.0;
        let mut list = match name {
            "laps" => to_dynamic(&records.laps),
            "jobs" => to_dynamic(&records.jobs),
            "windows" => to_dynamic(&records.windows),
            "stretches" => to_dynamic(records.stretches),
            "wakeup_latency_histogram" => to_dynamic(&records.wakeup_latency_histogram),
            "response_time_histogram" => to_dynamic(&records.response_time_histogram),
            _ => Err(format!("there are no records called {name}").into()),
        }?;
        make_real(&mut list);
        Ok(list)
    }

    /// Nanoseconds from the release to the completion of each job that was released at `from` or later and completed.
    fn response_times(&mut self, from: f64) -> Array {
        let jobs = self.0.jobs.iter().filter(|job| !job.skipped && job.due_ns as f64 >= from);
        let times = jobs.filter_map(|job| Some(job.completed_ns?.saturating_sub(job.due_ns)));
        times.map(|time| Dynamic::from_float(time as f64)).collect()
    }
}

/// The numbers matched by the first group of a regular expression in `text`.
fn numbers_in(text: &str, pattern: &str) -> Result<Vec<f64>, Box<EvalAltResult>> {
    let pattern = regex_lite::Regex::new(pattern).map_err(|error| error.to_string())?;
    let found = pattern.captures_iter(text);
    Ok(found.filter_map(|captures| captures.get(1)?.as_str().parse().ok()).collect())
}

impl Expression {
    /// Compiles `text`.
    pub(crate) fn compile(engine: &Engine, text: &str) -> Result<Self, String> {
        let ast = engine.compile(text).map_err(|error| error.to_string())?;
        Ok(Self { ast })
    }

    /// Its value; its definitions are gone from `scope` afterwards.
    fn evaluate(&self, engine: &Engine, scope: &mut Scope<'_>) -> Result<Dynamic, String> {
        let given = scope.len();
        let value = engine.eval_ast_with_scope::<Dynamic>(scope, &self.ast);
        scope.rewind(given);
        value.map_err(|error| match *error {
            EvalAltResult::ErrorTerminated(..) => {
                format!("it takes more than {SECONDS} s of CPU time")
            }
            other => other.to_string(),
        })
    }

    /// Its value as a number.
    pub(crate) fn number(&self, engine: &Engine, scope: &mut Scope<'_>) -> Result<f64, String> {
        let value = self.evaluate(engine, scope)?;
        as_number(&value).ok_or_else(|| format!("a number was expected, not {}", value.type_name()))
    }

    /// Its value as numbers.
    pub(crate) fn numbers(
        &self,
        engine: &Engine,
        scope: &mut Scope<'_>,
    ) -> Result<Vec<f64>, String> {
        let value = self.evaluate(engine, scope)?;
        let array = value
            .into_array()
            .map_err(|kind| format!("a list of numbers was expected, not {kind}"))?;
        let number = |value: &Dynamic| as_number(value).ok_or("a list of numbers was expected");
        array.iter().map(|value| number(value).map_err(str::to_owned)).collect()
    }

    /// Its value as true or false.
    pub(crate) fn truth(&self, engine: &Engine, scope: &mut Scope<'_>) -> Result<bool, String> {
        let value = self.evaluate(engine, scope)?;
        value.as_bool().map_err(|kind| format!("true or false was expected, not {kind}"))
    }

    /// Its value in words, with `between` the elements of a list.
    pub(crate) fn text(
        &self,
        engine: &Engine,
        scope: &mut Scope<'_>,
        between: &str,
    ) -> Result<String, String> {
        let value = self.evaluate(engine, scope)?;
        Ok(in_words(value, between))
    }
}

fn as_number(value: &Dynamic) -> Option<f64> {
    let number = value.as_float().or_else(|_| value.as_int().map(|int| int as f64));
    number.ok().filter(|number| number.is_finite())
}

/// A value in readable form: arrays with `between` their elements, numbers with four digits.
fn in_words(mut value: Dynamic, between: &str) -> String {
    if let Some(array) = value.read_lock::<Array>() {
        let parts = array.iter().map(|one| in_words(one.clone(), ", "));
        return parts.collect::<Vec<_>>().join(between);
    }
    if let Some(mut samples) = value.write_lock::<Samples>() {
        return samples.text();
    }
    match value.as_float() {
        Ok(number) => digits(number),
        Err(_) => value.to_string(),
    }
}

/// The names that every expression of an experiment may use: units, the point, the fitted values.
pub(crate) fn constants(point: &str, fits: &BTreeMap<String, f64>) -> Scope<'static> {
    let mut scope = Scope::new();
    for (name, value) in UNITS {
        scope.push_constant(name, value);
    }
    scope.push_constant("point", point.to_owned());
    if let Ok(number) = point.parse::<f64>() {
        scope.push_constant("x", number);
    }
    for (name, value) in fits {
        scope.push_constant(name.as_str(), *value);
    }
    scope
}

/// The names that a measure may also use: the run's metrics, its tasks, the scheduler's counters, and the machine's clock in cycles per nanosecond.
pub(crate) fn scope_of_run(
    metrics: RunMetrics,
    counters: &BTreeMap<String, u64>,
    point: &str,
    fits: &BTreeMap<String, f64>,
    mhz: Option<f64>,
) -> Result<Scope<'static>, String> {
    let mut scope = scope_of_metrics(metrics, point, fits)?;
    let mut counters = to_dynamic(counters).map_err(|error| error.to_string())?;
    make_real(&mut counters);
    scope.push_constant_dynamic("counters", counters);
    if let Some(mhz) = mhz {
        scope.push_constant("cycle", 1e3 / mhz);
    }
    Ok(scope)
}

/// The same for a run on a kernel, without the counters, which cover all tasks of the machine, and without the clock, which changes.
pub(crate) fn scope_of_metrics(
    mut metrics: RunMetrics,
    point: &str,
    fits: &BTreeMap<String, f64>,
) -> Result<Scope<'static>, String> {
    let mut scope = constants(point, fits);
    let records = metrics.tasks.iter_mut().map(|task| task.records.take());
    let records: Vec<Option<Box<TaskRecords>>> = records.collect();
    let mut metrics = to_dynamic(metrics).map_err(|error| error.to_string())?;
    make_real(&mut metrics);
    let mut tasks = Array::new();
    if let Some(mut run) = metrics.write_lock::<Map>()
        && let Some(mut all) = run.get_mut("tasks").and_then(|all| all.write_lock::<Array>())
    {
        for (task, records) in all.iter_mut().zip(records) {
            if let (Some(mut task), Some(records)) = (task.write_lock::<Map>(), records) {
                let recorded = Recorded(Arc::new(*records));
                task.insert("records".into(), Dynamic::from(recorded));
            }
        }
        tasks.clone_from(&all);
    }
    scope.push_constant_dynamic("run", metrics);
    scope.push_constant("tasks", tasks);
    Ok(scope)
}

/// The name that a measure of a command may use: the command's output.
pub(crate) fn scope_of_output(
    output: &str,
    point: &str,
    fits: &BTreeMap<String, f64>,
) -> Scope<'static> {
    let mut scope = constants(point, fits);
    scope.push_constant("output", output.to_owned());
    scope
}

/// Converts all integers to reals: in an expression, `/` is real division.
fn make_real(value: &mut Dynamic) {
    if let Ok(number) = value.as_int() {
        *value = Dynamic::from_float(number as f64);
    } else if let Some(mut array) = value.write_lock::<Array>() {
        array.iter_mut().for_each(make_real);
    } else if let Some(mut map) = value.write_lock::<Map>() {
        map.values_mut().for_each(make_real);
    }
}

/// All figures of an experiment, by the names of column, point and measure.
pub(crate) type Table = BTreeMap<(String, String, String), Option<Samples>>;

/// The engine for acceptance lines: `at(column, point, measure)` and `printed(column, point, measure)`, without the point if there is only one.
/// `fewest` is lowered to the number of runs of a figure that `at` finds. Without `evidence` it is for numbers and words.
pub(crate) fn engine_of_verdicts(
    table: Arc<Table>,
    printed: Arc<BTreeMap<(String, String, String), f64>>,
    evidence: Option<Evidence>,
    fewest: Arc<AtomicU32>,
) -> Engine {
    let mut engine = engine();
    samples::register_comparisons(&mut engine, evidence.unwrap_or(Evidence::Shown));
    if evidence.is_some() {
        samples::refuse_statistics(&mut engine);
    }
    let find = move |column: &str, point: &str, measure: &str| {
        let key = (column.to_owned(), point.to_owned(), measure.to_owned());
        match table.get(&key) {
            Some(Some(samples)) => {
                fewest.fetch_min(samples.0.len() as u32, Ordering::Relaxed);
                Ok(samples.clone())
            }
            Some(None) => Err(missing(format!("{measure} of {column} at {point}"))),
            None => Err(missing(format!(
                "{measure} of {column} at {point} (there is no such column, point or measure here)"
            ))),
        }
    };
    let here = find.clone();
    engine.register_fn("at", move |column: &str, measure: &str| here(column, "", measure));
    engine.register_fn("at", move |column: &str, point: &str, measure: &str| {
        find(column, point, measure)
    });
    engine.register_fn("printed", move |column: &str, point: &str, measure: &str| {
        let key = (column.to_owned(), point.to_owned(), measure.to_owned());
        printed
            .get(&key)
            .copied()
            .ok_or_else(|| missing(format!("the document's {measure} of {column} at {point}")))
    });
    engine
}

/// Prefix of errors that mean that something was not measured.
const NOT_MEASURED: &str = "not measured: ";

fn missing(what: String) -> Box<EvalAltResult> {
    format!("{NOT_MEASURED}{what}").into()
}

/// The value that was not measured, if that is why an expression has no value.
pub(crate) fn not_measured(error: &str) -> Option<&str> {
    let rest = error.split_once(NOT_MEASURED)?.1;
    Some(rest.split(" (line ").next().unwrap_or(rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairground_metrics::JobRecord;

    #[test]
    fn expressions_cannot_take_everything() {
        for (text, problem) in [
            ("loop {}", "Too many operations"),
            (
                "let a = []; for i in 0..9000000 { a.push(i) } 1",
                "it takes more than 5 s of CPU time",
            ),
        ] {
            let engine = engine();
            let expression = Expression::compile(&engine, text).expect("it is one");
            let error = expression.number(&engine, &mut Scope::new());
            let error = error.expect_err("it has no end");
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn every_list_of_records_is_there() {
        let records = TaskRecords::default();
        let serde_json::Value::Object(lists) = serde_json::to_value(&records).unwrap() else {
            panic!("records are an object");
        };
        let mut scope = Scope::new();
        scope.push("records", Recorded(Arc::new(records)));
        let engine = engine();
        assert!(lists.len() > 5);
        for name in lists.keys() {
            let list = Expression::compile(&engine, &format!("records.{name}")).unwrap();
            let read = list.evaluate(&engine, &mut scope);
            assert!(read.is_ok(), "{name}: {read:?}");
        }
        let other = Expression::compile(&engine, "records.lap").unwrap();
        let error = other.evaluate(&engine, &mut scope).unwrap_err();
        assert!(error.contains("no records called lap"), "{error}");
    }

    #[test]
    fn response_times_are_those_of_jobs_that_were_done() {
        let job = |due_ns, completed_ns, skipped| JobRecord {
            due_ns,
            first_run_ns: None,
            completed_ns,
            deadline_ns: due_ns + 10,
            skipped,
        };
        let jobs = vec![
            job(0, Some(4), false),
            job(10, Some(17), false),
            job(20, None, true),
            job(30, Some(39), false),
            job(40, None, false),
        ];
        let mut scope = Scope::new();
        let records = TaskRecords { jobs, ..TaskRecords::default() };
        scope.push("records", Recorded(Arc::new(records)));
        let engine = engine();
        let times = Expression::compile(&engine, "let from = 10.0; records.response_times(from)");
        let times = times.unwrap();
        // Definitions of an expression do not stay.
        for _ in 0..2 {
            assert_eq!(times.numbers(&engine, &mut scope).unwrap(), [7.0, 9.0]);
            assert_eq!(scope.len(), 1);
        }
    }
}
