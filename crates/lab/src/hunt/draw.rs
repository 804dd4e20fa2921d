//! The cases that hunts draw: machines, and tasks of the kinds with which schedulers have trouble.

use serde_json::{Map, Value, json};

use crate::dice::Dice;

/// Descriptions of machines, each with how often it is drawn: small ones most, since their runs are short.
pub(super) const MACHINES: &[(&str, usize)] = &[
    ("1", 5),
    ("2", 6),
    ("3", 2),
    ("4", 8),
    ("6", 1),
    ("8", 5),
    ("16", 2),
    ("64", 1),
    ("128", 1),
    ("512", 1),
    ("core:2 pu:2", 3),
    ("core:4 pu:2", 3),
    ("l3:2 core:2 pu:1", 2),
    ("l3:2 core:4 pu:1", 2),
    ("l3:4 core:4 pu:2", 1),
    ("numa:2 core:2 pu:1", 2),
    ("numa:2 core:4 pu:1", 2),
    ("numa:2 l3:2 core:2 pu:2", 2),
    ("numa:4 core:2 pu:1", 1),
    ("pu:4 capacity:256,256,1024,1024", 2),
    ("pu:6 capacity:512,512,512,512,1024,1024", 1),
];

/// On machines with more CPUs a run takes long, so it is short.
const MANY_CPUS: usize = 32;

/// The tasks of a kind, by their names.
type Tasks = Map<String, Value>;

/// A kind of tasks.
struct Family {
    draw: fn(&mut Draw) -> Tasks,
    /// How often it is drawn.
    weight: usize,
    /// Whether so much happens in them that a run is short.
    is_fine: bool,
}

const fn coarse(weight: usize, draw: fn(&mut Draw) -> Tasks) -> Family {
    Family { draw, weight, is_fine: false }
}

const fn fine(weight: usize, draw: fn(&mut Draw) -> Tasks) -> Family {
    Family { draw, weight, is_fine: true }
}

const FAMILIES: &[Family] = &[
    coarse(8, |draw| draw.hogs()),
    coarse(5, |draw| draw.sleepers()),
    coarse(3, |draw| draw.periodic()),
    coarse(2, |draw| draw.bursts()),
    coarse(2, |draw| draw.movers()),
    coarse(2, |draw| draw.released()),
    coarse(2, |draw| draw.nice_changers()),
    coarse(1, |draw| draw.policy_changers()),
    coarse(2, |draw| draw.parents()),
    coarse(3, |draw| draw.real_time()),
    coarse(1, |draw| draw.real_time_herd()),
    coarse(2, |draw| draw.barrier()),
    coarse(2, |draw| draw.herd()),
    coarse(1, |draw| draw.convoy()),
    fine(1, |draw| draw.short_sleepers()),
    fine(1, |draw| draw.ping_pong()),
    fine(1, |draw| draw.chain()),
    fine(1, |draw| draw.yielders()),
];

/// One of these, according to their weights.
fn weighted<'a, T>(dice: &mut Dice, all: &'a [T], weight: impl Fn(&T) -> usize) -> &'a T {
    let mut left = dice.below(all.iter().map(&weight).sum());
    let found = all.iter().find(|one| {
        let is_it = left < weight(one);
        left = left.saturating_sub(weight(one));
        is_it
    });
    found.unwrap_or(&all[0])
}

/// Index of a machine in [`MACHINES`].
pub(super) fn machine(dice: &mut Dice) -> usize {
    let all: Vec<usize> = (0..MACHINES.len()).collect();
    *weighted(dice, &all, |index| MACHINES[*index].1)
}

/// Tasks of some kind for a machine with this many CPUs, as the text of an rt-app file, and a fitting length of the run in nanoseconds.
pub(super) fn tasks(dice: &mut Dice, cpus: usize) -> (String, u64) {
    let kind = weighted(dice, FAMILIES, |kind| kind.weight);
    let mut draw = Draw { dice, cpus };
    let tasks = (kind.draw)(&mut draw);
    let milliseconds = match (kind.is_fine, cpus > MANY_CPUS) {
        (true, true) => 50,
        (true, false) => 300,
        (false, true) => 300,
        (false, false) => dice.one_of(&[600, 1200, 2400]),
    };
    let text = json!({ "tasks": tasks }).to_string();
    (text, milliseconds * 1_000_000)
}

struct Draw<'a> {
    dice: &'a mut Dice,
    cpus: usize,
}

impl Draw<'_> {
    /// A name that hardly any other task has.
    fn name(&mut self, kind: &str) -> String {
        format!("{kind}{}", self.dice.below(1000))
    }

    /// The number of equal tasks.
    fn instances(&mut self) -> usize {
        let cpus = self.cpus;
        let any = self.dice.magnitude(1, 3 * cpus as u64 + 8) as usize;
        let count = [1, 1, 2, 2, 3, cpus - 1, cpus, cpus + 1, 2 * cpus, any];
        self.dice.one_of(&count).max(1)
    }

    /// Some of the CPUs: mostly one.
    fn some_cpus(&mut self) -> Vec<usize> {
        let last = self.cpus - 1;
        let (one, other) = (self.dice.below(self.cpus), self.dice.below(self.cpus));
        let mut cpus = match self.dice.below(8) {
            0 | 1 => vec![0],
            2 => vec![last],
            3 | 4 => vec![one],
            5 => vec![one, other],
            6 => (0..self.cpus.div_ceil(2)).collect(),
            _ => (0..self.cpus).filter(|cpu| *cpu != one || last == 0).collect(),
        };
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }

    /// A nice level.
    fn nice(&mut self) -> i32 {
        self.dice.one_of(&[-20, -10, -5, -1, 1, 5, 10, 15, 19])
    }

    /// A control group with a weight, or a quota in microseconds of a period, as tasks are in one.
    fn group(&mut self) -> Value {
        let path = format!("/{}", self.name("group"));
        if self.dice.once_in(2) {
            let weight = self.dice.one_of(&[1, 10, 50, 200, 1_000, 10_000]);
            return json!({ "path": path, "cpu.weight": weight });
        }
        let period = self.dice.one_of(&[10_000, 100_000]);
        let most = period * self.cpus.min(4) as u64;
        let quota = self.dice.magnitude(period / 10, most);
        json!({ "path": path, "cpu.max": format!("{quota} {period}") })
    }

    /// A task with attributes that any task may have: several instances, CPUs, nice, a policy, a control group, a late start.
    fn task(&mut self, instances: usize, mut task: Tasks) -> Value {
        if instances > 1 {
            task.insert("instance".into(), json!(instances));
        }
        if self.dice.once_in(4) {
            task.insert("cpus".into(), json!(self.some_cpus()));
        }
        match self.dice.below(20) {
            0..=3 => {
                task.insert("priority".into(), json!(self.nice()));
            }
            4 => {
                task.insert("policy".into(), json!("SCHED_BATCH"));
            }
            5 => {
                task.insert("policy".into(), json!("SCHED_IDLE"));
            }
            _ => {}
        }
        if self.dice.once_in(10) {
            task.insert("taskgroup".into(), self.group());
        }
        if self.dice.once_in(6) {
            task.insert("delay".into(), json!(self.dice.magnitude(1_000, 1_000_000)));
        }
        Value::Object(task)
    }

    /// One task, or equal ones, that do this again and again.
    fn alike(&mut self, kind: &str, instances: usize, work: Value) -> Tasks {
        let work = match work {
            Value::Object(work) => work,
            _ => Map::new(),
        };
        let task = self.task(instances, work);
        Map::from_iter([(self.name(kind), task)])
    }

    fn hogs(&mut self) -> Tasks {
        let count = self.instances();
        self.alike("hog", count, json!({ "loop": -1, "run": 1_000_000 }))
    }

    fn sleepers(&mut self) -> Tasks {
        let count = self.instances();
        let (run, sleep) = (self.dice.magnitude(100, 20_000), self.dice.magnitude(500, 50_000));
        self.alike("sleeper", count, json!({ "run": run, "sleep": sleep }))
    }

    fn short_sleepers(&mut self) -> Tasks {
        let count = self.instances().min(32);
        let (run, sleep) = (self.dice.magnitude(2, 100), self.dice.magnitude(1, 100));
        self.alike("nap", count, json!({ "run": run, "sleep": sleep }))
    }

    fn periodic(&mut self) -> Tasks {
        let count = self.instances();
        let period = self.dice.one_of(&[1_000, 4_000, 5_000, 8_000, 10_000, 16_667, 100_000]);
        let run = self.dice.magnitude(50, period);
        let timer = json!({ "ref": "unique", "period": period });
        self.alike("periodic", count, json!({ "run": run, "timer": timer }))
    }

    fn bursts(&mut self) -> Tasks {
        let count = self.instances();
        let (run, sleep) =
            (self.dice.magnitude(20_000, 1_000_000), self.dice.magnitude(20_000, 1_000_000));
        self.alike("burst", count, json!({ "sleep": sleep, "run": run }))
    }

    /// Tasks whose CPUs change while they run.
    fn movers(&mut self) -> Tasks {
        let count = self.instances().min(64);
        let (times, run) =
            (self.dice.one_of(&[1, 1, 3, 10, 100]), self.dice.magnitude(500, 20_000));
        let mut phases = Map::new();
        for phase in 0..2 + self.dice.below(3) {
            let cpus = self.some_cpus();
            let work = json!({ "cpus": cpus, "loop": times, "run": run });
            phases.insert(format!("p{phase}"), work);
        }
        self.alike("mover", count, json!({ "phases": phases }))
    }

    /// Tasks that are bound for a while and then free.
    fn released(&mut self) -> Tasks {
        let count = self.instances().min(64);
        let cpus = self.some_cpus();
        let all: Vec<usize> = (0..self.cpus).collect();
        let times = self.dice.magnitude(10, 500);
        let phases = json!({
            "bound": { "cpus": cpus, "loop": times, "run": 1_000 },
            "free": { "cpus": all, "loop": 10_000, "run": 1_000 },
        });
        self.alike("released", count, json!({ "phases": phases }))
    }

    fn nice_changers(&mut self) -> Tasks {
        let count = self.instances().min(64);
        let mut phases = Map::new();
        for phase in 0..2 {
            let work = json!({
                "priority": self.nice(),
                "loop": self.dice.one_of(&[1, 5, 50]),
                "run": self.dice.magnitude(500, 20_000),
            });
            phases.insert(format!("p{phase}"), work);
        }
        self.alike("changer", count, json!({ "phases": phases }))
    }

    fn policy_changers(&mut self) -> Tasks {
        let count = self.instances().min(64);
        let mut phases = Map::new();
        for (phase, policy) in
            ["SCHED_OTHER", "SCHED_BATCH", "SCHED_IDLE", "SCHED_FIFO"].iter().enumerate()
        {
            let mut work = json!({
                "policy": policy,
                "loop": self.dice.one_of(&[1, 3, 10]),
                "run": self.dice.magnitude(100, 5_000),
            });
            if *policy == "SCHED_FIFO" {
                work["priority"] = json!(10);
            }
            phases.insert(format!("p{phase}"), work);
        }
        let mut tasks = self.alike("policy", count, json!({ "phases": phases }));
        // Control groups have no real-time tasks.
        let tasks_of = tasks.values_mut().filter_map(Value::as_object_mut);
        tasks_of.for_each(|task| drop(task.remove("taskgroup")));
        tasks
    }

    /// A task that forks others, which end.
    fn parents(&mut self) -> Tasks {
        let (parent, child) = (self.name("parent"), self.name("child"));
        let phase = json!({
            "loop": self.dice.magnitude(2, 300),
            "run": self.dice.magnitude(10, 2_000),
            "fork": child,
        });
        let once = json!({
            "loop": self.dice.one_of(&[1, 1, 5]),
            "run": self.dice.magnitude(200, 50_000),
        });
        let of_child = json!({ "instance": 0, "loop": 1, "phases": { "p": once } });
        let forking = json!({ "loop": 1, "phases": { "p": phase } });
        let forking = match forking {
            Value::Object(forking) => self.task(1, forking),
            other => other,
        };
        Map::from_iter([(parent, forking), (child, of_child)])
    }

    /// A real-time task that takes one CPU, or most of it.
    fn real_time(&mut self) -> Tasks {
        let cpus = match self.dice.below(3) {
            0 => (0..self.cpus).collect(),
            _ => vec![self.dice.below(self.cpus)],
        };
        let mut task = json!({
            "policy": "SCHED_FIFO",
            "priority": 50,
            "cpus": cpus,
        });
        if self.dice.once_in(2) {
            task["loop"] = json!(-1);
            task["run"] = json!(1_000_000);
        } else {
            let period = self.dice.one_of(&[1_000, 10_000, 100_000]);
            let part = self.dice.one_of(&[20, 50, 80, 95]);
            task["run"] = json!(period * part / 100);
            task["timer"] = json!({ "ref": "unique", "period": period });
        }
        Map::from_iter([(self.name("rt"), task)])
    }

    /// Real-time tasks that come and go on all CPUs, round robin or first come, first served.
    fn real_time_herd(&mut self) -> Tasks {
        let count = self.instances().min(64);
        let (run, sleep) = (self.dice.magnitude(100, 20_000), self.dice.magnitude(1_000, 50_000));
        let task = json!({
            "instance": count,
            "policy": self.dice.one_of(&["SCHED_FIFO", "SCHED_RR"]),
            "priority": self.dice.one_of(&[1, 50, 99]),
            "run": run,
            "sleep": sleep,
        });
        Map::from_iter([(self.name("rt"), task)])
    }

    fn barrier(&mut self) -> Tasks {
        let count = self.instances().clamp(2, 64);
        let barrier = self.name("barrier");
        let run = self.dice.magnitude(500, 20_000);
        let phases = json!({ "p": { "run": run, "barrier": barrier } });
        self.alike("rank", count, json!({ "phases": phases }))
    }

    /// Tasks that are woken all at once.
    fn herd(&mut self) -> Tasks {
        let (mutex, condition) = (self.name("m"), self.name("c"));
        let count = self.instances();
        let wait = json!({ "ref": condition, "mutex": mutex });
        let work = json!({
            "lock": mutex, "wait": wait, "unlock": mutex, "run": self.dice.magnitude(50, 5_000),
        });
        let wakes = json!({
            "lock": mutex, "broad": condition, "unlock": mutex,
            "sleep": self.dice.magnitude(2_000, 50_000),
        });
        let mut tasks = self.alike("herd", count, json!({ "phases": { "p": work } }));
        tasks.extend(self.alike("waker", 1, json!({ "phases": { "p": wakes } })));
        tasks
    }

    /// Tasks that pass a lock on.
    fn convoy(&mut self) -> Tasks {
        let count = self.instances().clamp(2, 32);
        let mutex = self.name("m");
        let work = json!({
            "run": self.dice.magnitude(20, 2_000),
            "lock": mutex,
            "run2": self.dice.magnitude(20, 2_000),
            "unlock": mutex,
        });
        self.alike("lock", count, json!({ "phases": { "p": work } }))
    }

    /// Two tasks that wake each other by pipes.
    fn ping_pong(&mut self) -> Tasks {
        let (there, back) = (self.name("there"), self.name("back"));
        let write = |pipe: &String| json!({ "pipe_write": { "pipe": pipe, "bytes": 1 } });
        let read = |pipe: &String| json!({ "pipe_read": { "pipe": pipe, "bytes": 1 } });
        let run = self.dice.magnitude(2, 500);
        let ping = json!({ "run": run, "fairground1": write(&there), "fairground2": read(&back) });
        let pong = json!({ "fairground0": read(&there), "run1": run, "fairground2": write(&back) });
        let mut tasks = self.alike("ping", 1, json!({ "phases": { "p": ping } }));
        tasks.extend(self.alike("pong", 1, json!({ "phases": { "p": pong } })));
        tasks
    }

    /// Tasks that wake one another in a ring.
    fn chain(&mut self) -> Tasks {
        let length = 2 + self.dice.below(5);
        let (ring, run) = (self.name("ring"), self.dice.magnitude(20, 1_000));
        let semaphore = |place: usize| format!("{ring}-{}", place % length);
        let mut tasks = Map::new();
        for place in 0..length {
            let work = json!({
                "sem_wait": semaphore(place), "run": run, "sem_post": semaphore(place + 1),
            });
            tasks.extend(self.alike(
                &format!("link{place}-"),
                1,
                json!({ "phases": { "p": work } }),
            ));
        }
        let first = json!({ "loop": 1, "phases": { "p": { "sem_post": semaphore(0) } } });
        tasks.insert(self.name("kick"), first);
        tasks
    }

    fn yielders(&mut self) -> Tasks {
        let count = self.instances().min(16);
        let run = self.dice.magnitude(1, 200);
        let work = json!({ "phases": { "p": { "run": run, "yield": "" } } });
        self.alike("yielder", count, work)
    }
}

#[cfg(test)]
mod tests {
    use fairground_machine::Machine;
    use fairground_workload::Workload;

    use super::*;
    use crate::plan::check_tasks;

    #[test]
    fn whatever_is_drawn_is_a_workload() {
        for (place, (description, _)) in MACHINES.iter().enumerate() {
            let machine = Machine::parse(description).unwrap();
            for number in 0..300 {
                let mut dice = Dice::new(place as u64, number);
                let (text, duration) = tasks(&mut dice, machine.cpu_count());
                let workload = Workload::parse("drawn.json", &text);
                let workload = workload.unwrap_or_else(|error| panic!("{error}\n{text}"));
                // A changer of nice values may have that policy.
                let mut notes = workload.notes.iter();
                let odd = notes.find(|note| !note.contains("has no effect with SCHED_IDLE"));
                assert_eq!(odd, None, "{text}");
                check_tasks(&workload, &machine).unwrap_or_else(|error| panic!("{error}\n{text}"));
                assert!(duration > 0);
            }
        }
    }
}
