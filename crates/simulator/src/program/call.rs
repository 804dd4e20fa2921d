//! The system calls in which tasks sleep, as their registers show them.

use fairground_workload::Waiting;

/// No system call.
const NONE: u64 = u64::MAX;
// Numbers of x86.
const READ: u64 = 0;
const WRITE: u64 = 1;
const RECVFROM: u64 = 45;
const FUTEX: u64 = 202;
const CLOCK_NANOSLEEP: u64 = 230;
const EPOLL_WAIT: u64 = 232;

/// The number of the call in which a task waits for this; `choices` has the services of each choice. Services are sockets, and who takes requests of
/// several asks which one is ready.
pub(crate) fn call_of(waiting: Waiting, choices: &[Vec<usize>]) -> u64 {
    match waiting {
        Waiting::Nothing => NONE,
        Waiting::Time => CLOCK_NANOSLEEP,
        Waiting::Disk | Waiting::Data(_) => READ,
        Waiting::Room(_) | Waiting::Writeback => WRITE,
        Waiting::Mutex(_) | Waiting::Condition(_) | Waiting::Barrier(_) | Waiting::Semaphore(_) => {
            FUTEX
        }
        Waiting::Request(choice) if choices[choice].len() > 1 => EPOLL_WAIT,
        Waiting::Request(_) | Waiting::Answer(_) => RECVFROM,
    }
}
