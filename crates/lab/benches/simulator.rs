//! How fast the simulator is, in ratios of one run: next to a bare event loop, with all metrics, on large machines, in parallel.
//!
//! CPU time of the thread is measured, so that a busy machine disturbs little.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use fairground_machine::Machine;
use fairground_metrics::{MachineFacts, Metrics, Options as MetricsOptions};
use fairground_simulator::{Options, Scheduler, simulate};
use fairground_workload::Workload;

/// 32 tasks that run 300 us and sleep 700 us.
const SMALL: &str = r#"{"tasks": {"t": {"instance": 32, "loop": -1, "run": 300, "sleep": 700}}}"#;
const LARGE: &str =
    r#"{"tasks": {"t": {"instance": 10000, "loop": -1, "run": 300, "sleep": 700}}}"#;

fn thread_seconds() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structure is ours and the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Largest memory the process has had, in MiB.
fn peak_memory() -> f64 {
    // SAFETY: the structure is ours; zero is a value of every field.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    usage.ru_maxrss as f64 / 1024.0
}

/// Events a second of a loop that does nothing but take the next of 256 pending events and queue another.
fn bare_loop() -> f64 {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut heap: BinaryHeap<Reverse<(u64, u64)>> = (0..256)
        .map(|number| Reverse((random() % 1_000_000, number)))
        .collect();
    const EVENTS: u64 = 10_000_000;
    let start = thread_seconds();
    for _ in 0..EVENTS {
        if let Some(Reverse((time, number))) = heap.pop() {
            heap.push(Reverse((time + 1 + random() % 1_000_000, number)));
        }
    }
    let seconds = thread_seconds() - start;
    assert_eq!(heap.len(), 256);
    EVENTS as f64 / seconds
}

struct Measured {
    switches: u64,
    seconds: f64,
}

impl Measured {
    fn rate(&self) -> f64 {
        self.switches as f64 / self.seconds
    }
}

fn measure(
    scheduler: &Arc<Scheduler>,
    machine: &str,
    workload: &str,
    milliseconds: u64,
    metrics: bool,
) -> Measured {
    let workload =
        Arc::new(Workload::parse("bench.json", workload).expect("the workload is well-formed"));
    let mut options = Options::new(
        Machine::parse(machine).expect("the machine exists"),
        workload,
    );
    options.duration = Some(milliseconds * 1_000_000);
    let facts = MachineFacts {
        capacities: options
            .machine
            .cpus
            .iter()
            .map(|cpu| cpu.capacity)
            .collect(),
    };
    let mut sink = Metrics::new(facts, MetricsOptions::default());
    let start = thread_seconds();
    let sinks: Vec<&mut dyn fairground_events::Sink> =
        if metrics { vec![&mut sink] } else { Vec::new() };
    let outcome = simulate(scheduler, &options, sinks).expect("the scheduler can be set up");
    let seconds = thread_seconds() - start;
    assert!(
        !outcome.exit.kind.is_error(),
        "{}: {}",
        outcome.exit.reason,
        outcome.exit.message
    );
    Measured {
        switches: outcome.context_switches,
        seconds,
    }
}

fn load(reference: &str) -> Arc<Scheduler> {
    let scheduler =
        fairground_catalog::open(reference, &[]).unwrap_or_else(|error| panic!("{error}"));
    Arc::new(Scheduler::load(&scheduler.object).unwrap_or_else(|error| panic!("{error}")))
}

/// The best of three, which is the least disturbed.
fn best(run: impl Fn() -> Measured) -> Measured {
    (0..3)
        .map(|_| run())
        .reduce(|a, b| if a.rate() > b.rate() { a } else { b })
        .expect("three runs")
}

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let testbench =
        std::env::var_os("FAIRGROUND_TESTBENCH").map_or(root.join("target/testbench"), Into::into);
    let sample = testbench.join("samples/scx_simple.bpf.c");
    let simple = if sample.exists() {
        load(&sample.to_string_lossy())
    } else {
        eprintln!("the kernel's scx_simple is missing (scripts/install bench fetches it)");
        std::process::exit(2);
    };
    let cfs = load("cfs");

    let bare = (0..3).map(|_| bare_loop()).fold(0.0, f64::max);
    println!(
        "bare event loop, 256 pending         {:8.2} M events/s",
        bare / 1e6
    );
    let row = |name: &str, measured: &Measured, against: f64, what: &str| {
        println!(
            "{name:<36} {:8.2} M switches/s   1/{:.1} of {what}",
            measured.rate() / 1e6,
            against / measured.rate()
        );
    };
    let plain = best(|| measure(&simple, "8", SMALL, 10_000, false));
    row(
        "scx_simple, 8 CPUs, no sinks",
        &plain,
        bare,
        "the bare loop",
    );
    let with_metrics = best(|| measure(&simple, "8", SMALL, 10_000, true));
    row(
        "scx_simple, 8 CPUs, all metrics",
        &with_metrics,
        bare,
        "the bare loop",
    );
    let fair = best(|| measure(&cfs, "8", SMALL, 10_000, false));
    row("cfs, 8 CPUs, no sinks", &fair, plain.rate(), "scx_simple");

    let before = peak_memory();
    measure(&simple, "8", SMALL, 60_000, true);
    println!(
        "memory, 60 s after 10 s of simulated time: {:.1} MiB after {:.1} MiB",
        peak_memory(),
        before
    );

    let start = Instant::now();
    measure(&simple, "8", SMALL, 30_000, false);
    let alone = start.elapsed().as_secs_f64();
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| measure(&simple, "8", SMALL, 30_000, false));
        }
    });
    println!(
        "two simulations on two cores         {:8.2} times the time of one",
        start.elapsed().as_secs_f64() / alone
    );

    // Starting 10,000 tasks one after the other, with a scan of all CPUs each as in the original, takes nearly two seconds of
    // simulated time; the cost of a switch is what comes after.
    let machine = "numa:8 core:64 pu:2";
    let (start, whole) = (
        measure(&cfs, machine, LARGE, 2_000, false),
        measure(&cfs, machine, LARGE, 2_500, false),
    );
    let large = Measured {
        switches: whole.switches - start.switches,
        seconds: whole.seconds - start.seconds,
    };
    println!(
        "cfs, 1024 CPUs, 10000 tasks          {:8.2} M switches/s   {:.2} times the cost of a switch on 8 CPUs, peak {:.0} MiB",
        large.rate() / 1e6,
        fair.rate() / large.rate(),
        peak_memory()
    );
}
