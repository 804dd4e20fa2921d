//! Runs from rows of a data set: their labels and how they ended, and of what was measured the numbers that have a column.

use std::collections::BTreeMap;

use fairground_metrics::Share;
use fairground_results::{
    CpuChange, Failure, Figures, Hashes, Labels, MEASURES, Measure, Recipe, Shared, Status,
    TaskShare,
};

use crate::Run;
use crate::rows::{Row, Value};

impl Row {
    /// A text; empty if it is absent.
    pub(crate) fn text(&self, column: &str) -> String {
        self.some_text(column).unwrap_or_default()
    }

    fn some_text(&self, column: &str) -> Option<String> {
        match self.get(column) {
            Some(Value::Text(text)) => Some(text.clone()),
            _ => None,
        }
    }

    fn signed(&self, column: &str) -> Option<i64> {
        match self.get(column) {
            Some(Value::Integer(number)) => Some(*number),
            _ => None,
        }
    }

    fn whole(&self, column: &str) -> Option<u64> {
        u64::try_from(self.signed(column)?).ok()
    }

    /// A number that is there in every row.
    pub(crate) fn count(&self, column: &str) -> u64 {
        self.whole(column).unwrap_or(0)
    }

    fn number(&self, measure: &Measure) -> Option<f64> {
        match self.get(&measure.column())? {
            Value::Integer(number) => Some(*number as f64),
            Value::Real(number) => Some(*number),
            _ => None,
        }
    }

    fn figures(&self, tasks: &[Self]) -> Figures {
        Figures {
            name: self.text("task"),
            nice: self.signed("nice").map(|nice| nice as i32),
            weight: self.whole("weight").map(|weight| weight as u32),
            numbers: MEASURES.iter().map(|measure| self.number(measure)).collect(),
            tasks: tasks.iter().map(|task| task.figures(&[])).collect(),
        }
    }

    /// A task's share; `None` if it has no nice value beside it, as tables show them.
    fn task_share(&self) -> Option<TaskShare> {
        let number = |id| self.number(Measure::find(id)?);
        let share = number("share").zip(number("ideal_share"));
        Some(TaskShare {
            task: self.text("task").into(),
            nice: self.signed("nice")? as i32,
            share: share.map(|(actual, ideal)| Share { actual, ideal }),
        })
    }
}

/// The run of a row, with the tasks of these rows.
pub(crate) fn restored(row: &Row, tasks: &[Row]) -> Run {
    let name = row.text("status");
    let status = Status::ALL.into_iter().find(|status| status.name() == name);
    let status = status.unwrap_or(Status::Crashed);
    let failure = (status != Status::Ok).then(|| Failure {
        kind: row.text("kind"),
        message: row.text("message"),
        at_ns: row.whole("failed_at_ns"),
        explain: None,
    });
    let counters = match row.get("counters") {
        Some(Value::Integers(map)) => map.clone(),
        _ => BTreeMap::new(),
    };
    let counters = counters.into_iter().map(|(name, count)| (name, count.unsigned_abs()));
    Run {
        labels: labels(row),
        status,
        failure,
        metrics: None,
        figures: row.whole("duration_ns").map(|_| Box::new(row.figures(tasks))),
        shares: Some(tasks.iter().filter_map(Row::task_share).collect()),
        counters: counters.collect(),
        notes: Shared::from(row.text("notes").lines().map(str::to_owned).collect::<Vec<String>>()),
    }
}

/// A change as it is written in a row.
fn change(text: &str) -> Option<CpuChange> {
    let (cpu, rest) = text.split_once(':')?;
    let (state, at) = rest.split_once('@')?;
    let at_ns = at.strip_suffix("ns")?.parse().ok()?;
    Some(CpuChange { at_ns, cpu: cpu.parse().ok()?, online: state == "on" })
}

fn labels(row: &Row) -> Labels {
    let cell = row.some_text("cell");
    let hashes = cell.is_some().then(|| Hashes {
        scheduler: row.some_text("scheduler_sha256"),
        companion: row.some_text("companion_sha256"),
        workload: row.text("workload_sha256"),
        machine: row.text("machine_sha256"),
        costs: row.text("costs_sha256"),
    });
    let recipe = Recipe {
        workload: row.text("workload"),
        scheduler: row.text("scheduler"),
        reference: None,
        machine: row.text("machine"),
        cost_model: row.some_text("cost_model"),
        tunables: match row.get("settings_given") {
            Some(Value::Texts(map)) => map.clone(),
            _ => BTreeMap::new(),
        },
        numbers: match row.get("settings") {
            Some(Value::Integers(map)) => map.clone(),
            _ => BTreeMap::new(),
        },
        hz: row.whole("hz"),
        duration_ns: row.whole("limit_ns"),
        noise: row.some_text("noise"),
        hotplug: row.text("hotplug").split_whitespace().filter_map(change).collect(),
        hashes,
    };
    Labels {
        recipe: recipe.into(),
        seed: row.whole("seed"),
        repeat: row.count("repeat") as u32,
        cell,
    }
}
