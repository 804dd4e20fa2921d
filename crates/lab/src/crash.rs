//! Crashes in the machine code of schedulers.
//!
//! A scheduler's code runs without having passed the kernel's verifier, so a stray pointer is a fatal signal here. The process does not
//! survive it (which is why each scheduler of the user's own has its own process), but a message names the scheduler and the place in its
//! source.

use std::cell::Cell;

use fairground_simulator::{Scheduler, recover};

use crate::memory;

/// Stack size for the handler, which locates and formats a source line.
const STACK: usize = 256 * 1024;
/// A handler that hangs is killed after this many seconds.
const PATIENCE: u32 = 5;
/// A fault this close to the stack pointer is a stack overflow.
const NEAR: usize = 64 << 10;
const PAGE: usize = 4096;
/// Exit code of a process in which a scheduler crashed.
const FAILED: libc::c_int = 1;

const SIGNALS: [libc::c_int; 5] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT];

thread_local! {
    static RUNNING: Cell<Option<Running>> = const { Cell::new(None) };
}

/// The simulation of a thread.
#[derive(Clone, Copy)]
struct Running {
    name: *const str,
    scheduler: *const Scheduler,
    /// The thread's stack pointer when the simulation began.
    stack: usize,
}

/// Names `scheduler` in the report of a crash during `simulation`.
pub(crate) fn while_running<T>(
    name: &str,
    scheduler: &Scheduler,
    simulation: impl FnOnce() -> T,
) -> T {
    /// Clears the simulation, even after a panic.
    struct Forget;
    impl Drop for Forget {
        fn drop(&mut self) {
            RUNNING.set(None);
        }
    }
    let forget = Forget;
    RUNNING.set(Some(Running { name, scheduler, stack: &raw const forget as usize }));
    simulation()
}

/// Reports crashes of this thread for as long as the value lives.
pub(crate) struct Reporter {
    previous: libc::stack_t,
    _stack: Box<[u8]>,
}

impl Reporter {
    /// Installs the handler, and a stack for it.
    ///
    /// Each time: another thread may be in the middle of a thing that is done once for all while this one forks, and in the child it would never be done.
    pub(crate) fn install() -> Self {
        for signal in SIGNALS {
            // SAFETY: the structure is all integers, for which zero is a value; the handler has the signature that SA_SIGINFO demands.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = report as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                libc::sigaction(signal, &action, std::ptr::null_mut());
            }
        }
        let mut stack = vec![0; STACK].into_boxed_slice();
        let ours =
            libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: stack.len() };
        // SAFETY: the structure is all integers and pointers; the new stack lives until the old one is restored.
        let previous = unsafe {
            let mut previous: libc::stack_t = std::mem::zeroed();
            libc::sigaltstack(&ours, &mut previous);
            previous
        };
        Self { previous, _stack: stack }
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        // SAFETY: the previous stack belongs to the thread, which still lives.
        unsafe {
            libc::sigaltstack(&self.previous, std::ptr::null_mut());
        }
    }
}

/// Program counter and stack pointer at the signal.
#[cfg(target_arch = "x86_64")]
fn registers(context: &libc::ucontext_t) -> (usize, usize) {
    let registers = &context.uc_mcontext.gregs;
    (registers[libc::REG_RIP as usize] as usize, registers[libc::REG_RSP as usize] as usize)
}

/// Program counter and stack pointer at the signal.
#[cfg(target_arch = "aarch64")]
fn registers(context: &libc::ucontext_t) -> (usize, usize) {
    (context.uc_mcontext.pc as usize, context.uc_mcontext.sp as usize)
}

/// Limits the time of a handler. With a memory reserve the handler can only loop, which takes CPU time, so CPU time is limited, and a slow
/// machine does not matter. Without one, the crash may have been inside the system's allocator, and the handler then waits for its lock.
fn limit(has_reserve: bool) {
    // SAFETY: setting alarms is allowed in handlers; zero is a value of the structure, which is all integers.
    unsafe {
        if has_reserve {
            let mut timer: libc::itimerval = std::mem::zeroed();
            timer.it_value.tv_sec = PATIENCE.into();
            libc::setitimer(libc::ITIMER_PROF, &timer, std::ptr::null_mut());
        } else {
            libc::alarm(PATIENCE);
        }
    }
}

extern "C" fn report(
    signal: libc::c_int,
    information: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel passes valid structures.
    let (fault, (counter, mut stack)) = unsafe {
        ((*information).si_addr() as usize, registers(&*context.cast::<libc::ucontext_t>()))
    };
    if signal == libc::SIGSEGV && recover(fault, counter) {
        return;
    }
    for signal in SIGNALS {
        // SAFETY: resetting a handler is allowed in handlers.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    limit(memory::use_reserve());
    let Some(running) = RUNNING.get() else {
        // Not in a simulation: the instruction is retried and ends the process as it would have without the handler.
        return;
    };
    // SAFETY: both outlive the simulation, which this thread is in.
    let (name, scheduler) = unsafe { (&*running.name, &*running.scheduler) };
    let is_fault = matches!(signal, libc::SIGSEGV | libc::SIGBUS);
    let is_overflow = is_fault && fault.abs_diff(stack) < NEAR && fault < running.stack;
    if is_overflow {
        // Memory below the next page cannot be read.
        stack = stack.max(fault).next_multiple_of(PAGE);
    }
    // The crash may be in a kernel function that the scheduler called with a bad argument: then the nearest return address into its code is
    // the place of the call.
    let place = scheduler.locate(counter).or_else(|| {
        (stack..running.stack).step_by(size_of::<usize>()).find_map(|address| {
            // SAFETY: the address is between the current stack pointer and the one at the beginning of the simulation.
            let word = unsafe { (address as *const usize).read_volatile() };
            scheduler.locate(word.wrapping_sub(1))
        })
    });
    let place = place.map_or_else(String::new, |place| format!(" in {place}"));
    let what = match signal {
        _ if is_overflow => "overflowed its stack",
        libc::SIGSEGV | libc::SIGBUS => "accessed memory that is not there",
        libc::SIGABRT => "made the simulator abort",
        libc::SIGFPE => "made a division that is not possible",
        _ => "ran into an illegal instruction",
    };
    let message = format!(
        "fairground: scheduler {name} {what}{place}; a kernel would have refused the program, \
         or have read 0 there: check the pointers it uses\n"
    );
    // SAFETY: the bytes are valid; both calls are allowed in handlers.
    unsafe {
        libc::write(libc::STDERR_FILENO, message.as_ptr().cast(), message.len());
        libc::_exit(FAILED);
    }
}
