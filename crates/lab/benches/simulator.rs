//! How fast the simulator is: next to a bare event loop, under each scheduler with and without metrics, on large machines, in parallel.
//!
//! CPU time of the thread is measured, and of several runs or stretches of a run the fastest counts, so that a busy machine
//! disturbs little. Figures that are put in relation are measured in turns, since the speed of a machine changes over minutes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
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
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
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
    let mut heap: BinaryHeap<Reverse<(u64, u64)>> =
        (0..256).map(|number| Reverse((random() % 1_000_000, number))).collect();
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

/// Context switches and the CPU time that they took, in seconds.
fn run(
    scheduler: &Arc<Scheduler>,
    machine: &str,
    workload: &str,
    milliseconds: u64,
    sinks: Vec<&mut dyn fairground_events::Sink>,
) -> (u64, f64) {
    let workload =
        Arc::new(Workload::parse("bench.json", workload).expect("the workload is well-formed"));
    let mut options = Options::new(Machine::parse(machine).expect("the machine exists"), workload);
    options.duration = Some(milliseconds * 1_000_000);
    let start = thread_seconds();
    let outcome = simulate(scheduler, &options, sinks).expect("the scheduler can be set up");
    let seconds = thread_seconds() - start;
    assert!(!outcome.exit.kind.is_error(), "{}: {}", outcome.exit.reason, outcome.exit.message);
    (outcome.context_switches, seconds)
}

/// Context switches a second of CPU time.
fn measure(
    scheduler: &Arc<Scheduler>,
    machine: &str,
    workload: &str,
    milliseconds: u64,
    sinks: Vec<&mut dyn fairground_events::Sink>,
) -> f64 {
    let (switches, seconds) = run(scheduler, machine, workload, milliseconds, sinks);
    switches as f64 / seconds
}

/// The same with all metrics, for 32 tasks on 8 CPUs.
fn measure_with_metrics(scheduler: &Arc<Scheduler>, milliseconds: u64) -> f64 {
    let machine = Machine::parse("8").expect("the machine exists");
    let facts = MachineFacts { capacities: machine.cpus.iter().map(|cpu| cpu.capacity).collect() };
    let mut metrics = Metrics::new(facts, MetricsOptions::default());
    measure(scheduler, "8", SMALL, milliseconds, vec![&mut metrics])
}

/// A scheduler as it is simulated, and without the checks of its accesses.
fn load(reference: &str) -> [Arc<Scheduler>; 2] {
    let scheduler = fairground_catalog::open(reference, &Default::default())
        .unwrap_or_else(|error| panic!("{error}"));
    [Scheduler::load, Scheduler::load_unguarded]
        .map(|load| Arc::new(load(&scheduler.object).unwrap_or_else(|error| panic!("{error}"))))
}

/// Where the thread was whenever the timer rang, and how often it did.
static SAMPLES: [AtomicUsize; 1 << 16] = [const { AtomicUsize::new(0) }; 1 << 16];
static SAMPLE_COUNT: AtomicUsize = AtomicUsize::new(0);

extern "C" fn sample(
    _signal: libc::c_int,
    _info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel hands a handler with SA_SIGINFO a ucontext_t.
    let context = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext };
    #[cfg(target_arch = "x86_64")]
    let address = context.gregs[libc::REG_RIP as usize] as usize;
    #[cfg(target_arch = "aarch64")]
    let address = context.pc as usize;
    let number = SAMPLE_COUNT.fetch_add(1, Relaxed);
    SAMPLES[number % SAMPLES.len()].store(address, Relaxed);
}

/// Part of a run's time that is spent in the scheduler's own code, by samples; kernel functions that it calls are not its own.
fn part_in_callbacks(scheduler: &Arc<Scheduler>, run: impl FnOnce()) -> f64 {
    let every = |microseconds| {
        let time = libc::timeval { tv_sec: 0, tv_usec: microseconds };
        let timer = libc::itimerval { it_interval: time, it_value: time };
        // SAFETY: both structures are valid, and the handler only stores numbers.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = sample as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            libc::sigaction(libc::SIGPROF, &action, std::ptr::null_mut());
            libc::setitimer(libc::ITIMER_PROF, &timer, std::ptr::null_mut());
        }
    };
    SAMPLE_COUNT.store(0, Relaxed);
    every(1000);
    run();
    every(0);
    let count = SAMPLE_COUNT.load(Relaxed).min(SAMPLES.len());
    let samples = SAMPLES[..count].iter();
    let own = samples.filter(|address| scheduler.locate(address.load(Relaxed)).is_some());
    own.count() as f64 / count.max(1) as f64
}

/// The cost of a million switches under a scheduler, in nanoseconds for each, and the part of the metrics in it.
fn print_costs(name: &str, scheduler: &Arc<Scheduler>) {
    let [with, without] = fastest([&|| measure_with_metrics(scheduler, 3_000), &|| {
        measure(scheduler, "8", SMALL, 3_000, vec![])
    }]);
    let (switches, _) = run(scheduler, "8", SMALL, 1_000, vec![]);
    let milliseconds = 1_000 * 1_000_000 / switches;
    let callbacks = part_in_callbacks(scheduler, || {
        run(scheduler, "8", SMALL, milliseconds, vec![]);
    });
    let (all, alone) = (1e9 / with, 1e9 / without);
    println!(
        "{name:<12} {all:8.0} {:10.0} {:8.0} {:8.0}   {:.2} times the engine alone",
        alone * callbacks,
        alone * (1.0 - callbacks),
        all - alone,
        all / alone
    );
}

/// How often each figure is measured.
const TURNS: usize = 7;

/// The fastest of several runs of each, which is the least disturbed one.
fn fastest<const COUNT: usize>(runs: [&dyn Fn() -> f64; COUNT]) -> [f64; COUNT] {
    let mut best = [0.0; COUNT];
    for _ in 0..TURNS {
        for (best, run) in best.iter_mut().zip(runs) {
            *best = f64::max(*best, run());
        }
    }
    best
}

/// Finds the stretch of simulated time in which context switches cost least.
struct Stopwatch {
    /// Simulated time from which stretches count.
    from: u64,
    /// End of the present stretch, and how it began: switches and CPU time of the thread.
    until: u64,
    since: (u64, f64),
    switches: u64,
    rate: f64,
}

impl Stopwatch {
    /// Length of a stretch in simulated nanoseconds.
    const STRETCH: u64 = 10_000_000;

    fn new(from: u64) -> Self {
        Self { from, until: 0, since: (0, 0.0), switches: 0, rate: 0.0 }
    }
}

impl fairground_events::Sink for Stopwatch {
    fn task(
        &mut self,
        _time: u64,
        _task: fairground_events::TaskId,
        _info: &fairground_events::TaskInfo,
    ) {
    }

    fn event(&mut self, event: &fairground_events::Event) {
        if !matches!(event.kind, fairground_events::EventKind::Switch { .. }) {
            return;
        }
        self.switches += 1;
        if event.time < self.from || event.time < self.until {
            return;
        }
        let now = (self.switches, thread_seconds());
        if self.until > 0 {
            let rate = (now.0 - self.since.0) as f64 / (now.1 - self.since.1);
            self.rate = self.rate.max(rate);
        }
        self.since = now;
        self.until = event.time + Self::STRETCH;
    }

    fn finish(&mut self, _end: u64) {}
}

/// The time of two simulations on two cores.
fn print_two_at_once(scheduler: &Arc<Scheduler>) {
    let one = || {
        measure(scheduler, "8", SMALL, 5_000, vec![]);
    };
    let two = || {
        std::thread::scope(|scope| {
            scope.spawn(one);
            scope.spawn(one);
        });
    };
    // On the wall's clock: once each, and how often a second.
    let rate = |run: &dyn Fn()| {
        let start = Instant::now();
        run();
        1.0 / start.elapsed().as_secs_f64()
    };
    let [alone, both] = fastest([&|| rate(&one), &|| rate(&two)]);
    println!("two simulations on two cores         {:8.2} times the time of one", alone / both);
}

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let testbench =
        std::env::var_os("FAIRGROUND_TESTBENCH").map_or(root.join("target/testbench"), Into::into);
    let sample = testbench.join("samples/scx_simple.bpf.c");
    let [simple, simple_unguarded] = if sample.exists() {
        load(&sample.to_string_lossy())
    } else {
        eprintln!("the kernel's scx_simple is missing (scripts/install bench fetches it)");
        std::process::exit(2);
    };
    let [cfs, cfs_unguarded] = load("cfs");

    let [bare, plain, with_metrics, fair] = fastest([
        &bare_loop,
        &|| measure(&simple, "8", SMALL, 3_000, vec![]),
        &|| measure_with_metrics(&simple, 3_000),
        &|| measure(&cfs, "8", SMALL, 3_000, vec![]),
    ]);
    println!("bare event loop, 256 pending         {:8.2} M events/s", bare / 1e6);
    let row = |name: &str, rate: f64, against: f64, what: &str| {
        println!("{name:<36} {:8.2} M switches/s   1/{:.1} of {what}", rate / 1e6, against / rate);
    };
    row("scx_simple, 8 CPUs, no sinks", plain, bare, "the bare loop");
    row("scx_simple, 8 CPUs, all metrics", with_metrics, bare, "the bare loop");
    row("cfs, 8 CPUs, no sinks", fair, plain, "scx_simple");

    println!("ns a switch       all  callbacks   engine  metrics");
    print_costs("scx_simple", &simple);
    for scheduler in fairground_catalog::all() {
        let [loaded, _] = load(scheduler.id());
        print_costs(scheduler.id(), &loaded);
    }

    for (name, guarded, unguarded) in
        [("scx_simple", &simple, &simple_unguarded), ("cfs", &cfs, &cfs_unguarded)]
    {
        let [with, without] = fastest([&|| measure(guarded, "8", SMALL, 3_000, vec![]), &|| {
            measure(unguarded, "8", SMALL, 3_000, vec![])
        }]);
        println!(
            "checks of accesses, {name:<16} {:8.1} % of a switch   {:.0} of {:.0} ns",
            (without / with - 1.0) * 100.0,
            1e9 / with - 1e9 / without,
            1e9 / with
        );
    }

    let before = peak_memory();
    measure_with_metrics(&simple, 60_000);
    println!(
        "memory, 60 s after 3 s of simulated time: {:.1} MiB after {:.1} MiB",
        peak_memory(),
        before
    );

    print_two_at_once(&simple);

    // Starting 10,000 tasks one after the other, with a scan of all CPUs each as in the original, takes nearly two seconds of
    // simulated time; the cost of a switch is measured after that.
    let machine = "numa:8 core:64 pu:2";
    let mut stopwatch = Stopwatch::new(2_000_000_000);
    measure(&cfs, machine, LARGE, 2_400, vec![&mut stopwatch]);
    println!(
        "cfs, 1024 CPUs, 10000 tasks          {:8.2} M switches/s   {:.2} times the cost of a switch on 8 CPUs, peak {:.0} MiB",
        stopwatch.rate / 1e6,
        fair / stopwatch.rate,
        peak_memory()
    );
}
