//! Writes a recording of a million waits, to measure the time and memory that it takes: `scripts/recording-limits` does.
//!
//! Four pairs of tasks on two CPUs wake each other, with runs of lengths that do not repeat soon, and each pair waits for a timer after so
//! many rounds.

use std::fs::File;
use std::io::{self, BufWriter};

use fairground_recording::{Context, Description, Ending, Entry, EntryKind, Header, Writer};

const WAITS: u64 = 1_000_000;
const CPUS: u16 = 2;
const PAIRS: u32 = 4;
/// Rounds of a pair before it waits for a timer.
const ROUNDS: u64 = 25;
/// `clock_nanosleep()` and `read()` on x86.
const SLEEP: i32 = 230;
const READ: i32 = 0;

/// The state of one CPU.
struct Machine {
    cpu: u16,
    time: u64,
    /// The running task.
    task: u32,
    seed: u64,
    bytes: Vec<u8>,
}

impl Machine {
    fn add(&mut self, kind: EntryKind) {
        let entry = Entry { time: self.time, cpu: self.cpu, kind };
        entry.write(&mut self.bytes);
    }

    /// Lets time pass, 5 to 37 us.
    fn run(&mut self) {
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.time += 5_000 + (self.seed >> 49);
    }

    /// The task falls asleep in a system call, and the CPU goes to `next`.
    fn sleep(&mut self, call: i32, next: u32) {
        let task = std::mem::replace(&mut self.task, next);
        self.add(EntryKind::Switch {
            task,
            next,
            state: u32::from(task != 0),
            preempted: false,
            disk: false,
            call,
            first: u64::from(task),
            second: 0,
        });
    }

    fn wake(&mut self, task: u32, context: Context) {
        let by = self.task;
        self.add(EntryKind::Waking { task, by, context });
    }

    /// Two tasks take turns, and then one of them waits for a timer.
    fn turn(&mut self, pair: u32) {
        let (one, other) = (2 * pair + 1, 2 * pair + 2);
        self.wake(one, Context::Timer);
        self.sleep(-1, one);
        for _ in 0..ROUNDS {
            self.run();
            self.wake(other, Context::Task);
            self.sleep(READ, other);
            self.run();
            self.wake(one, Context::Task);
            self.sleep(READ, one);
        }
        self.run();
        self.sleep(SLEEP, 0);
        self.time += 20_000;
    }
}

fn main() -> io::Result<()> {
    let path = std::env::args_os().nth(1).ok_or_else(|| io::Error::other("usage: long FILE"))?;
    let header = Header { cpus: u32::from(CPUS), source: "long".to_owned(), ..Header::default() };
    let mut writer = Writer::new(BufWriter::new(File::create(path)?), &header)?;
    let mut machines: Vec<Machine> = (0..CPUS)
        .map(|cpu| Machine { cpu, time: 0, task: 0, seed: u64::from(cpu) + 1, bytes: Vec::new() })
        .collect();
    for task in 1..=2 * PAIRS {
        let description = Description {
            process: 1000 + task,
            parent: 1,
            name: format!("task-{task}"),
            allowed: u32::from(CPUS),
            first_allowed: 3,
            ..Description::default()
        };
        machines[0].add(EntryKind::Task { task, description });
    }
    let mut waits = 0;
    while waits < WAITS {
        for machine in &mut machines {
            for pair in (u32::from(machine.cpu)..PAIRS).step_by(usize::from(CPUS)) {
                machine.turn(pair);
                waits += 2 * ROUNDS + 1;
            }
        }
        let all: Vec<u8> =
            machines.iter_mut().flat_map(|machine| std::mem::take(&mut machine.bytes)).collect();
        writer.add(&all)?;
    }
    let end = machines.iter().map(|machine| machine.time).max();
    let lost = writer.late();
    writer.finish(&Ending { end: end.unwrap_or(0), lost })?;
    Ok(())
}
