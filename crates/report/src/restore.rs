//! Runs from rows of a data set. Measures without a column are as if they had not been measured.

use std::collections::BTreeMap;

use fairground_metrics::{
    CpuTime, Distribution, Energy, Fairness, IdleBeside, IdleCpu, Lag, LongWait, OverheadTime,
    Periods, RunMetrics, Share, ShareRange, TaskMetrics, Throughput, WindowShare, WindowSpread,
};
use fairground_results::{Failure, Hashes, Labels, Recipe, Shared, Status};

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

    fn real(&self, column: &str) -> Option<f64> {
        match self.get(column) {
            Some(Value::Real(number)) => Some(*number),
            _ => None,
        }
    }

    fn distribution(&self, name: &str) -> Option<Distribution> {
        let part = |part: &str| self.whole(&format!("{name}_{part}_ns"));
        let middle = part("p50")?;
        Some(Distribution {
            samples: self.whole(&format!("{name}_samples"))?,
            mean_ns: part("mean")? as f64,
            p1_ns: middle,
            p5_ns: middle,
            p50_ns: middle,
            p95_ns: part("p95")?,
            p99_ns: part("p99")?,
            p999_ns: part("p999")?,
            max_ns: part("max")?,
        })
    }

    fn periods(&self) -> Option<Periods> {
        Some(Periods {
            released: self.whole("periods_released")?,
            completed: self.whole("periods_completed")?,
            missed: self.whole("periods_missed")?,
            skipped: self.whole("periods_skipped")?,
        })
    }

    fn lag(&self) -> Option<Lag> {
        Some(Lag { ahead_ns: self.whole("lag_ahead_ns")?, behind_ns: self.whole("lag_behind_ns")? })
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
        metrics: row.whole("duration_ns").map(|length| Box::new(metrics(row, length, tasks))),
        shares: None,
        counters: counters.collect(),
        notes: Shared::from(row.text("notes").lines().map(str::to_owned).collect::<Vec<String>>()),
    }
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
        hotplug: Vec::new(),
        hashes,
    };
    Labels {
        recipe: recipe.into(),
        seed: row.whole("seed"),
        repeat: row.count("repeat") as u32,
        cell,
    }
}

fn metrics(row: &Row, duration_ns: u64, tasks: &[Row]) -> RunMetrics {
    let overhead = row.real("overhead").map(|part| OverheadTime {
        scheduling_ns: row.count("overhead_scheduling_ns"),
        switch_ns: row.count("overhead_switch_ns"),
        migration_ns: row.count("overhead_migration_ns"),
        interrupt_ns: row.count("overhead_interrupt_ns"),
        total_ns: row.count("overhead_total_ns"),
        percent: 100.0 * part,
    });
    let fairness = row.real("jain_index").zip(row.lag());
    RunMetrics {
        duration_ns,
        cpus: row.count("cpus") as u32,
        cpu_time: CpuTime {
            available_ns: row.count("available_ns"),
            busy_ns: row.count("busy_ns"),
            overhead_ns: row.count("overhead_booked_ns"),
            others_ns: row.whole("others_ns"),
            others_wanted_ns: row.whole("others_wanted_ns"),
            idle_ns: row.count("idle_ns"),
            idle_while_runnable_ns: row.count("idle_while_runnable_ns"),
        },
        busy_cpus_ns: Vec::new(),
        throughput: row.real("throughput").map(|ratio| Throughput {
            work_ns: row.count("work_ns"),
            ideal_work_ns: row.count("ideal_work_ns"),
            ratio,
        }),
        fairness: fairness.map(|(jain_index, lag)| Fairness {
            jain_index,
            lag,
            worst_window: row.real("window_spread").map(|spread| WindowSpread {
                window_ns: 0,
                start_ns: 0,
                spread,
            }),
        }),
        wakeup_latency: row.distribution("wakeup"),
        response_time: row.distribution("response"),
        periods: row.periods(),
        laps: row.distribution("lap"),
        slowest_laps_ns: row.real("lap_low").map(|rate| 1e9 / rate),
        context_switches: row.count("context_switches"),
        preemptions: row.count("preemptions"),
        wakeups: row.count("wakeups"),
        migrations: row.count("migrations"),
        overhead,
        scheduler_pass: row.distribution("pass"),
        idle_beside: row.whole("idle_beside_waiting_ns").map(|length_ns| IdleCpu {
            cpu: 0,
            from_ns: 0,
            length_ns,
        }),
        longest_wait_ns: row.whole("longest_wait_ns"),
        makespan_ns: row.whole("makespan_ns"),
        energy: row.real("energy").map(|joules| Energy { joules, cpus: Vec::new() }),
        inconsistent_events: row.count("inconsistent_events"),
        tasks: tasks.iter().map(task).collect(),
        groups: Vec::new(),
    }
}

fn task(row: &Row) -> TaskMetrics {
    let share = row.real("share").zip(row.real("ideal_share"));
    let range = row.real("window_share_min").zip(row.real("window_share_max"));
    let switches = row.count("context_switches");
    let involuntary = row.count("preemptions");
    TaskMetrics {
        name: row.text("task"),
        nice: row.signed("nice").unwrap_or(0) as i32,
        weight: row.count("weight") as u32,
        cpu_time_ns: row.count("busy_ns"),
        work_ns: row.count("work_ns"),
        share: share.map(|(actual, ideal)| Share { actual, ideal }),
        lag: row.lag(),
        windows: range.map(|(min, max)| ShareRange {
            windows: 0,
            min,
            max,
            mean: row.real("window_share_mean").unwrap_or(0.0),
            standard_deviation: row.real("window_share_standard_deviation").unwrap_or(0.0),
        }),
        wakeup_latency: row.distribution("wakeup"),
        response_time: row.distribution("response").map(Box::new),
        periods: row.periods(),
        laps: row.distribution("lap").map(Box::new),
        wait_ns: row.count("wait_ns"),
        throttled_ns: row.count("throttled_ns"),
        longest_wait_ns: row.whole("longest_wait_ns"),
        longest_wait: None,
        worst_wait: row.whole("due_ns").map(|entitled_ns| LongWait {
            from_ns: 0,
            length_ns: 0,
            entitled_ns,
            ended: true,
        }),
        idle_beside: row.whole("idle_beside_waiting_ns").map(|length_ns| IdleBeside {
            cpu: 0,
            from_ns: 0,
            length_ns,
            wait_from_ns: 0,
        }),
        worst_share: row.real("share_error").map(|error| WindowShare {
            window_ns: 0,
            start_ns: 0,
            actual: 1.0 + error,
            ideal: 1.0,
        }),
        wakeups: row.count("wakeups"),
        voluntary_switches: switches.saturating_sub(involuntary),
        longest_wait_of_equals_ns: None,
        involuntary_switches: involuntary,
        migrations: row.count("migrations"),
        ended_ns: row.whole("makespan_ns"),
        records: None,
    }
}
