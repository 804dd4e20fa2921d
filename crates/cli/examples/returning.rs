//! A loader for tests that loads its scheduler again whenever the scheduler asks for it, as those of scx do: opens the object that its first argument
//! names, tells it how many CPUs are online, attaches it, and looks every few milliseconds whether it is still there.

use std::ffi::{CStr, CString};
use std::process::ExitCode;
use std::time::Duration;

use libbpf::Object;
use libbpf_sys as bpf;

mod libbpf;

/// `SCX_ECODE_ACT_RESTART`.
const RESTART: u64 = 1 << 48;

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1).and_then(|path| CString::new(path).ok()) else {
        eprintln!("loader: the first argument is the object");
        return ExitCode::FAILURE;
    };
    for load in 1.. {
        match attach_once(&path, load) {
            Ok(code) if code & RESTART != 0 => println!("loading it again"),
            Ok(_) => break,
            Err(problem) => {
                eprintln!("loader: {problem}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// Number of CPUs in a list such as `0-3,6`.
fn online() -> Result<u32, String> {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/online");
    let list = list.map_err(|error| error.to_string())?;
    let parts = list.trim().split(',').map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        Some(last + 1 - first)
    });
    parts.sum::<Option<u32>>().ok_or(format!("CPUs {list}"))
}

/// The context of the scheduler's program.
#[repr(C)]
struct Told {
    online: u32,
    known: u32,
}

/// Loads the scheduler for the `load`th time; returns its exit code.
fn attach_once(path: &CStr, load: u32) -> Result<u64, String> {
    let online = online()?;
    // SAFETY: all calls get valid pointers of libbpf's own, or of memory that lives as long as the call; names are texts with an end.
    unsafe {
        let opened = Object::open(path)?;
        let constants = opened.image(c".rodata");
        constants[..8].copy_from_slice(&1_000_000_u64.to_ne_bytes());
        constants[8..12].copy_from_slice(&online.to_ne_bytes());
        opened.load()?;
        let (key, size) = (0_u32, size_of::<u32>());
        let (at, value) = ((&raw const key).cast(), (&raw const load).cast());
        if bpf::bpf_map__update_elem(opened.map(c"loads"), at, size as _, value, size as _, 0) != 0
        {
            return Err("an entry cannot be written".to_owned());
        }
        tell(opened.0, online)?;
        let link = bpf::bpf_map__attach_struct_ops(opened.map(c"returning_ops"));
        if link.is_null() {
            return Err("the scheduler cannot be attached".to_owned());
        }
        // The scheduler's record of its exit, of which the kind comes first and then the code.
        let record = opened.image(c".data").as_ptr();
        while record.cast::<u32>().read_volatile() == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        let code = record.cast::<u64>().add(1).read_volatile();
        bpf::bpf_link__destroy(link);
        bpf::bpf_object__close(opened.0);
        Ok(code)
    }
}

/// Runs the scheduler's program, which has to know the number of CPUs already.
///
/// # Safety
///
/// `object` is one of libbpf's.
unsafe fn tell(object: *mut bpf::bpf_object, online: u32) -> Result<(), String> {
    let mut told = Told { online, known: 0 };
    // SAFETY: the options are all integers and pointers, and the context lives as long as the call.
    let ran = unsafe {
        let program = bpf::bpf_object__find_program_by_name(object, c"tell".as_ptr());
        let mut options: bpf::bpf_test_run_opts = std::mem::zeroed();
        options.sz = size_of_val(&options) as _;
        options.ctx_in = (&raw mut told).cast();
        options.ctx_out = (&raw mut told).cast();
        options.ctx_size_in = size_of_val(&told) as _;
        options.ctx_size_out = size_of_val(&told) as _;
        bpf::bpf_prog_test_run_opts(bpf::bpf_program__fd(program), &raw mut options)
    };
    match (ran, told.known) {
        (0, known) if known == online => Ok(()),
        (ran, known) => Err(format!("told of {online} CPUs ({ran}), it knows {known}")),
    }
}
