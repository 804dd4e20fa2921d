//! Waits and the time, for a loader whose time is virtual.
//!
//! A thread that would wait does not enter the kernel: another thread of the loader ends its wait, or time does.

use std::io;

use crate::process::{self, Answer, Call};

/// The system calls that are answered here.
pub(crate) const CALLS: &[i64] = &[
    libc::SYS_clock_gettime,
    libc::SYS_gettimeofday,
    libc::SYS_getcpu,
    libc::SYS_getrandom,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_sched_yield,
    libc::SYS_futex,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_accept,
    libc::SYS_accept4,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_time,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_select,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_pause,
];

/// Seconds since 1970 at time 0 of the kernel's clock.
const EPOCH: u64 = 1_800_000_000;
const SECOND: u64 = 1_000_000_000;

const FUTEX_COMMAND: u64 = 0x7f;
const FUTEX_WAIT: u64 = 0;
const FUTEX_WAKE: u64 = 1;
const FUTEX_REQUEUE: u64 = 3;
const FUTEX_CMP_REQUEUE: u64 = 4;
const FUTEX_WAIT_BITSET: u64 = 9;
const FUTEX_WAKE_BITSET: u64 = 10;
const FUTEX_CLOCK_REALTIME: u64 = 0x100;
const ANY: u32 = u32::MAX;

/// A thread that waits.
#[derive(Clone, Debug)]
pub(crate) struct Waiter {
    /// When it continues at the latest.
    pub until: Option<u64>,
    /// The event, besides the time, that lets it continue.
    pub cause: Cause,
}

/// The event, besides the time, that lets a thread continue.
#[derive(Clone, Debug)]
pub(crate) enum Cause {
    /// Nothing.
    Time,
    /// Another thread wakes it for this word; `value` is the word's content then.
    Word { address: u64, bits: u32, value: u32 },
    /// One of these descriptors has one of these events.
    Files(Vec<(i32, i16)>),
}

impl Waiter {
    /// The answer for a thread whose time is up.
    pub(crate) fn timed_out(&self) -> Answer {
        match self.cause {
            Cause::Word { .. } => Answer::Error(libc::ETIMEDOUT),
            Cause::Time | Cause::Files(_) => Answer::Value(0),
        }
    }

    /// The answer for a thread that has been woken.
    pub(crate) fn woken(&self) -> Answer {
        match self.cause {
            Cause::Word { .. } | Cause::Time => Answer::Value(0),
            // The kernel knows the ready descriptors.
            Cause::Files(_) => Answer::Continue,
        }
    }
}

/// The treatment of one of [`CALLS`].
pub(crate) enum Treatment {
    /// It is answered at once.
    Answer(Answer),
    /// The thread waits.
    Wait(Waiter),
    /// The thread gives up its CPU.
    Yield,
    /// It wakes threads that wait for a word.
    Wake(Wake),
}

/// Which threads are woken: up to `most` that wait for a word; up to `moved` others wait for another word from then on.
pub(crate) struct Wake {
    pub address: u64,
    pub bits: u32,
    pub most: u64,
    pub moved: u64,
    pub target: u64,
}

/// Carries out one of [`CALLS`] at the time `now`; `None` if it is not one of them.
pub(crate) fn carry_out(process: i32, call: &Call, now: u64) -> Option<io::Result<Treatment>> {
    let [first, second, ..] = call.arguments;
    let thread = call.thread;
    Some(match call.number {
        libc::SYS_nanosleep | libc::SYS_clock_nanosleep => sleep(call, now),
        libc::SYS_sched_yield => Ok(Treatment::Yield),
        libc::SYS_futex => word(call, now),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_pause => Ok(wait(None, Cause::Time)),
        libc::SYS_getrandom => {
            // The same in every run, but different from byte to byte.
            let byte = |at: u64| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
            let bytes: Vec<u8> = (1..=second.min(1 << 20)).map(byte).collect();
            process::write(thread, first, &bytes).map(|()| done(bytes.len() as i64))
        }
        _ => return tell(call, now).or_else(|| wait_for_files(process, call, now)),
    })
}

/// Reports the time, or the CPU.
fn tell(call: &Call, now: u64) -> Option<io::Result<Treatment>> {
    let [first, second, ..] = call.arguments;
    let thread = call.thread;
    Some(match call.number {
        libc::SYS_clock_gettime => {
            let time = if is_real_time(first) { EPOCH * SECOND + now } else { now };
            write_pair(thread, second, [time / SECOND, time % SECOND]).map(|()| done(0))
        }
        libc::SYS_gettimeofday => {
            let time = [EPOCH + now / SECOND, now % SECOND / 1000];
            write_pair(thread, first, time).map(|()| done(0))
        }
        #[cfg(target_arch = "x86_64")]
        libc::SYS_time => {
            let seconds = EPOCH + now / SECOND;
            let written = match first {
                0 => Ok(()),
                at => process::write(thread, at, &seconds.to_le_bytes()),
            };
            written.map(|()| done(seconds as i64))
        }
        libc::SYS_getcpu => {
            let zero = [0; 4];
            let mut targets = [first, second].into_iter().filter(|at| *at != 0);
            targets.try_for_each(|at| process::write(thread, at, &zero)).map(|()| done(0))
        }
        _ => return None,
    })
}

fn sleep(call: &Call, now: u64) -> io::Result<Treatment> {
    let [first, second, third, ..] = call.arguments;
    let (address, is_absolute) = match call.number {
        libc::SYS_clock_nanosleep => (third, second & libc::TIMER_ABSTIME as u64 != 0),
        _ => (first, false),
    };
    Ok(match duration(call.thread, address)? {
        Some(time) if is_absolute => wait(Some(on_our_clock(first, time)), Cause::Time),
        Some(time) => wait(Some(now + time), Cause::Time),
        None => Treatment::Answer(Answer::Error(libc::EINVAL)),
    })
}

/// Waits until descriptors are ready.
fn wait_for_files(process: i32, call: &Call, now: u64) -> Option<io::Result<Treatment>> {
    let [first, second, third, fourth, fifth, _] = call.arguments;
    let thread = call.thread;
    let one = || vec![(first as i32, libc::POLLIN)];
    let at_latest = |address: u64| Ok(duration(thread, address)?.map(|time| now + time));
    let wanted = match call.number {
        #[cfg(target_arch = "x86_64")]
        libc::SYS_epoll_wait => Ok((one(), milliseconds(fourth, now))),
        libc::SYS_epoll_pwait => Ok((one(), milliseconds(fourth, now))),
        libc::SYS_epoll_pwait2 => at_latest(fourth).map(|until| (one(), until)),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll => {
            polled(thread, first, second).map(|list| (list, milliseconds(third, now)))
        }
        libc::SYS_ppoll => {
            polled(thread, first, second).and_then(|list| Ok((list, at_latest(third)?)))
        }
        #[cfg(target_arch = "x86_64")]
        libc::SYS_select => selected(thread, &call.arguments)
            .and_then(|list| Ok((list, microseconds(thread, fifth)?.map(|time| now + time)))),
        libc::SYS_pselect6 => {
            selected(thread, &call.arguments).and_then(|list| Ok((list, at_latest(fifth)?)))
        }
        libc::SYS_read
        | libc::SYS_readv
        | libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_accept
        | libc::SYS_accept4 => match process::never_waits(process, first as i32) {
            true => return Some(Ok(Treatment::Answer(Answer::Continue))),
            false => Ok((one(), None)),
        },
        _ => return None,
    };
    Some(wanted.map(|(mut list, until)| {
        // A map is a memfd here, which would always be readable.
        list.retain(|(file, _)| !is_map(process, *file));
        files(process, list, until, now)
    }))
}

/// Whether a descriptor belongs to a map.
fn is_map(process: i32, descriptor: i32) -> bool {
    let link = std::fs::read_link(format!("/proc/{process}/fd/{descriptor}"));
    let name = link.ok().and_then(|link| link.into_os_string().into_string().ok());
    name.is_some_and(|name| {
        let name = name.strip_prefix("/memfd:");
        name.is_some_and(|name| name.starts_with(crate::calls::PREFIX))
    })
}

fn done(value: i64) -> Treatment {
    Treatment::Answer(Answer::Value(value))
}

fn wait(until: Option<u64>, cause: Cause) -> Treatment {
    Treatment::Wait(Waiter { until, cause })
}

/// Waits for files; the kernel carries out the call if they are ready or the time is up.
fn files(process: i32, list: Vec<(i32, i16)>, until: Option<u64>, now: u64) -> Treatment {
    if until.is_some_and(|until| until <= now) || process::is_ready(process, &list) {
        return Treatment::Answer(Answer::Continue);
    }
    wait(until, Cause::Files(list))
}

fn milliseconds(timeout: u64, now: u64) -> Option<u64> {
    match timeout as i32 {
        ..0 => None,
        some => Some(now + some as u64 * 1_000_000),
    }
}

/// A `timeval` in nanoseconds; `None` if there is none.
#[cfg(target_arch = "x86_64")]
fn microseconds(thread: i32, address: u64) -> io::Result<Option<u64>> {
    let pair = match address {
        0 => None,
        at => read_pair(thread, at)?,
    };
    Ok(pair.map(|[seconds, rest]| seconds * SECOND + rest * 1000))
}

fn is_real_time(clock: u64) -> bool {
    [libc::CLOCK_REALTIME, libc::CLOCK_REALTIME_COARSE, libc::CLOCK_TAI].contains(&(clock as i32))
}

/// Converts a time of one of the loader's clocks to the kernel's.
fn on_our_clock(clock: u64, time: u64) -> u64 {
    if is_real_time(clock) { time.saturating_sub(EPOCH * SECOND) } else { time }
}

fn write_pair(thread: i32, target: u64, pair: [u64; 2]) -> io::Result<()> {
    match target {
        0 => Ok(()),
        _ => process::write(thread, target, &pair.map(u64::to_le_bytes).concat()),
    }
}

fn read_pair(thread: i32, address: u64) -> io::Result<Option<[u64; 2]>> {
    let bytes = process::read(thread, address, 16)?;
    let number = |at: usize| {
        let bytes = bytes.get(at..at + 8).and_then(|part| part.try_into().ok());
        bytes.map(u64::from_le_bytes)
    };
    Ok(number(0).zip(number(8)).map(|(first, second)| [first, second]))
}

/// A `timespec` in nanoseconds; `None` if there is none or it is invalid.
fn duration(thread: i32, address: u64) -> io::Result<Option<u64>> {
    if address == 0 {
        return Ok(None);
    }
    let pair = read_pair(thread, address)?;
    let valid = pair.filter(|[seconds, rest]| *seconds < 1 << 33 && *rest < SECOND);
    Ok(valid.map(|[seconds, rest]| seconds * SECOND + rest))
}

fn polled(thread: i32, address: u64, count: u64) -> io::Result<Vec<(i32, i16)>> {
    let bytes = process::read(thread, address, count.min(4096) as usize * 8)?;
    let entry = |part: &[u8]| {
        let file = i32::from_le_bytes([part[0], part[1], part[2], part[3]]);
        (file, i16::from_le_bytes([part[4], part[5]]))
    };
    Ok(bytes.chunks_exact(8).map(entry).filter(|(file, _)| *file >= 0).collect())
}

/// The descriptors of the three sets of `select`.
fn selected(thread: i32, arguments: &[u64; 6]) -> io::Result<Vec<(i32, i16)>> {
    let count = (arguments[0] as usize).min(1024);
    let mut list = Vec::new();
    let sets = [libc::POLLIN, libc::POLLOUT, libc::POLLPRI];
    for (address, events) in arguments[1..4].iter().zip(sets) {
        if *address == 0 {
            continue;
        }
        let bits = process::read(thread, *address, count.div_ceil(64) * 8)?;
        let set = (0..count).filter(|file| bits[file / 8] >> (file % 8) & 1 == 1);
        list.extend(set.map(|file| (file as i32, events)));
    }
    Ok(list)
}

fn word(call: &Call, now: u64) -> io::Result<Treatment> {
    let [address, operation, value, fourth, fifth, sixth] = call.arguments;
    let bits = |given: u64| given as u32;
    Ok(match operation & FUTEX_COMMAND {
        command @ (FUTEX_WAIT | FUTEX_WAIT_BITSET) => {
            if process::read_word(call.thread, address)? != value as u32 {
                return Ok(Treatment::Answer(Answer::Error(libc::EAGAIN)));
            }
            let time = duration(call.thread, fourth)?;
            let clock = match operation & FUTEX_CLOCK_REALTIME {
                0 => libc::CLOCK_MONOTONIC,
                _ => libc::CLOCK_REALTIME,
            };
            let (until, bits) = match command {
                FUTEX_WAIT => (time.map(|time| now + time), ANY),
                _ => (time.map(|time| on_our_clock(clock as u64, time)), bits(sixth)),
            };
            let value = value as u32;
            wait(until, Cause::Word { address, bits, value })
        }
        command @ (FUTEX_WAKE | FUTEX_WAKE_BITSET) => Treatment::Wake(Wake {
            address,
            bits: if command == FUTEX_WAKE { ANY } else { bits(sixth) },
            most: value,
            moved: 0,
            target: 0,
        }),
        command @ (FUTEX_REQUEUE | FUTEX_CMP_REQUEUE) => {
            let as_expected = process::read_word(call.thread, address)? == sixth as u32;
            if command == FUTEX_CMP_REQUEUE && !as_expected {
                return Ok(Treatment::Answer(Answer::Error(libc::EAGAIN)));
            }
            Treatment::Wake(Wake { address, bits: ANY, most: value, moved: fourth, target: fifth })
        }
        _ => Treatment::Answer(Answer::Error(libc::ENOSYS)),
    })
}
