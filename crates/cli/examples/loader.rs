//! A small loader for tests: opens the object that its first argument names, makes the usual settings of loaders, runs programs and attaches.

use std::ffi::{CStr, CString};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use libbpf::Object;
use libbpf_sys as bpf;

mod libbpf;

fn main() -> ExitCode {
    match load() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("loader: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// The arguments of the two programs of the test's scheduler.
#[repr(C)]
struct Pair {
    cpu: i32,
    sibling: i32,
    token: u64,
}

impl Pair {
    fn of(cpu: i32) -> Self {
        Self { cpu, sibling: cpu ^ 1, token: 0 }
    }
}

fn load() -> Result<(), String> {
    let path = std::env::args().nth(1).ok_or("the first argument is the object")?;
    let slice: u64 =
        std::env::args().nth(2).and_then(|text| text.parse().ok()).unwrap_or(3_000_000);
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online")
        .map_err(|error| error.to_string())?;
    let last = online.trim().rsplit('-').next().and_then(|text| text.parse().ok());
    let last: u32 = last.ok_or("how many CPUs are there?")?;
    println!("CPUs {online}");
    let path = CString::new(path).map_err(|error| error.to_string())?;
    // SAFETY: all calls get valid pointers of libbpf's own, or of memory that lives as long as the call; names are texts with an end.
    unsafe {
        let opened = Object::open(&path)?;
        let object = opened.0;
        let map = |name: &CStr| opened.map(name);
        // The scheduler's first constant is its slice, the next may be the process that decides.
        let constants = opened.image(c".rodata");
        constants[..8].copy_from_slice(&slice.to_ne_bytes());
        if !map(c"queued").is_null() {
            constants[8..12].copy_from_slice(&std::process::id().to_ne_bytes());
        }
        if !map(c"domains").is_null() {
            bpf::bpf_map__set_max_entries(map(c"domains"), last + 1);
        }
        let program = |name: &CStr| bpf::bpf_object__find_program_by_name(object, name.as_ptr());
        if !program(c"count_switch").is_null() {
            bpf::bpf_program__set_autoload(program(c"count_switch"), true);
            bpf::bpf_program__set_autoload(program(c"count_wakeup"), false);
            // A callback is left out by a NULL in the table, where libbpf keeps the addresses of its programs.
            let left_out = (program(c"loaded_running") as usize).to_ne_bytes();
            let table = opened.image(c"loaded_ops");
            let callbacks = table.chunks_exact_mut(size_of::<usize>());
            for callback in callbacks.filter(|callback| *callback == left_out) {
                callback.fill(0);
            }
        }
        opened.load()?;
        if !map(c"queued").is_null() {
            let mut place = 0_u64;
            run(object, c"make_counts", &mut place)?;
            let counts = place as *mut Counts;
            *counts = Counts { queued: FIRST, decided: FIRST };
            put_map(map(c"shelves"))?;
            return decide(map, counts);
        }
        put_map(map(c"shelves"))?;
        for cpu in 0..=last {
            let value = [u64::from(cpu) << 8, u64::from(cpu)];
            let written = bpf::bpf_map__update_elem(
                map(c"domains"),
                (&raw const cpu).cast(),
                size_of_val(&cpu) as _,
                value.as_ptr().cast(),
                size_of_val(&value) as _,
                0,
            );
            if written != 0 {
                return Err("an entry cannot be written".to_owned());
            }
            run(object, c"tell_sibling", &mut Pair::of(cpu as i32))?;
        }
        if bpf::bpf_program__attach(program(c"count_switch")).is_null() {
            return Err("a program cannot be attached".to_owned());
        }
        let link = bpf::bpf_map__attach_struct_ops(map(c"loaded_ops"));
        if link.is_null() {
            return Err("the scheduler cannot be attached".to_owned());
        }
        run(object, c"look", &mut Pair::of(last as i32))?;
        println!("attached");
    }
    std::thread::sleep(std::time::Duration::from_secs(100));
    Ok(())
}

/// Puts a map with one entry into a map of maps.
///
/// # Safety
///
/// The map is libbpf's.
unsafe fn put_map(outer: *mut bpf::bpf_map) -> Result<(), String> {
    let (kind, key) = (bpf::BPF_MAP_TYPE_HASH, 1_u32);
    let (inside, value) = (7_u32, [5_u64, 3]);
    // SAFETY: key and value are as large as the map's own, and live as long as the calls.
    let put = unsafe {
        let inner = bpf::bpf_map_create(kind, c"shelf".as_ptr(), 4, 16, 3, std::ptr::null());
        let (at, kept) = ((&raw const inside).cast(), value.as_ptr().cast());
        if bpf::bpf_map_update_elem(inner, at, kept, 0) != 0 {
            return Err("an entry of the new map cannot be written".to_owned());
        }
        let (key, inner) = ((&raw const key).cast(), (&raw const inner).cast());
        bpf::bpf_map_update_elem(bpf::bpf_map__fd(outer), key, inner, 0)
    };
    match put {
        0 => Ok(()),
        _ => Err("a map cannot be put into another".to_owned()),
    }
}

/// The error with which the scheduler refuses a thread.
const EINVAL: i32 = 22;

/// Where the counts begin.
const FIRST: u64 = 1000;

/// The counters of this loader and its scheduler in the arena.
#[repr(C)]
struct Counts {
    queued: u64,
    decided: u64,
}

/// Decisions after which a thread has had its turn.
const ENOUGH: u64 = FIRST + 20;

/// Goes on after attaching: makes a thread, which the scheduler refuses the first time, and hands every task that the scheduler queues back to it, first come, first served, and yields when there is none.
///
/// # Safety
///
/// The maps are libbpf's, and `counts` is in the arena.
unsafe fn decide(
    map: impl Fn(&CStr) -> *mut bpf::bpf_map,
    counts: *mut Counts,
) -> Result<(), String> {
    // SAFETY: values are as large as the maps' own, and live as long as the calls.
    unsafe {
        if bpf::bpf_map__attach_struct_ops(map(c"served_ops")).is_null() {
            return Err("the scheduler cannot be attached".to_owned());
        }
        let has_run = Arc::new(AtomicBool::new(false));
        let runs = Arc::clone(&has_run);
        let made = std::thread::Builder::new().spawn(|| ());
        if made.map_or_else(|error| error.raw_os_error(), |_| None) != Some(EINVAL) {
            return Err("the first thread was not refused".to_owned());
        }
        let rings = bpf::bpf_map__fd(map(c"rings"));
        std::thread::spawn(move || {
            let events = libc::POLLIN;
            let mut waits = libc::pollfd { fd: rings, events, revents: 0 };
            let ready = libc::poll(&raw mut waits, 1, 2);
            runs.store(ready == 0, Ordering::Relaxed);
        });
        let [queued, decided] = [c"queued", c"decided"].map(|name| bpf::bpf_map__fd(map(name)));
        loop {
            let mut pid = 0_i32;
            let value: *mut std::ffi::c_void = (&raw mut pid).cast();
            while bpf::bpf_map_lookup_and_delete_elem(queued, std::ptr::null(), value) == 0 {
                bpf::bpf_map_update_elem(decided, std::ptr::null(), value, 0);
                (*counts).decided += 1;
            }
            let handed_over = (&raw const (*counts).queued).read_volatile();
            if handed_over != (*counts).decided {
                return Err(format!("the scheduler has counted {handed_over}"));
            }
            if handed_over > ENOUGH && !has_run.load(Ordering::Relaxed) {
                return Err(
                    "the second thread does not run, or its ring buffer is not empty".to_owned()
                );
            }
            std::thread::yield_now();
        }
    }
}

/// Runs a program, which may write into its context.
///
/// # Safety
///
/// `object` is one of libbpf's.
unsafe fn run<T>(object: *mut bpf::bpf_object, name: &CStr, context: &mut T) -> Result<(), String> {
    // SAFETY: the options are all integers and pointers, and the context lives as long as the call.
    unsafe {
        let program = bpf::bpf_object__find_program_by_name(object, name.as_ptr());
        let mut options: bpf::bpf_test_run_opts = std::mem::zeroed();
        options.sz = size_of_val(&options) as _;
        options.ctx_in = (&raw mut *context).cast();
        options.ctx_size_in = size_of_val(context) as _;
        let ran = bpf::bpf_prog_test_run_opts(bpf::bpf_program__fd(program), &raw mut options);
        if ran != 0 || options.retval != 0 {
            return Err(format!("program {name:?} failed"));
        }
    }
    Ok(())
}
