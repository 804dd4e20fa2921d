//! Waiting and the time, for a loader whose time is virtual.
//!
//! A thread that would wait is not let into the kernel: another thread of the loader ends its wait, or the time does.

use std::io;

use crate::process::{self, Answer, Call};

/// The system calls that are answered here.
#[cfg(target_arch = "x86_64")]
pub(crate) const CALLS: [i64; 23] = [
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
    libc::SYS_time,
    libc::SYS_epoll_wait,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_pause,
];
#[cfg(not(target_arch = "x86_64"))]
pub(crate) const CALLS: [i64; 18] = [
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
];

/// Seconds since 1970 when the kernel's clock was at 0.
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
    /// When it goes on at the latest.
    pub until: Option<u64>,
    /// What else lets it go on.
    pub cause: Cause,
}

/// What lets a thread go on, besides the time.
#[derive(Clone, Debug)]
pub(crate) enum Cause {
    /// Nothing.
    Time,
    /// Somebody says so for this word; `value` is what was in it.
    Word { address: u64, bits: u32, value: u32 },
    /// One of these descriptors has one of these events.
    Files(Vec<(i32, i16)>),
}

impl Waiter {
    /// What a thread is answered whose time is up.
    pub(crate) fn timed_out(&self) -> Answer {
        match self.cause {
            Cause::Word { .. } => Answer::Error(libc::ETIMEDOUT),
            Cause::Time | Cause::Files(_) => Answer::Value(0),
        }
    }

    /// What a thread is answered that was let go on.
    pub(crate) fn woken(&self) -> Answer {
        match self.cause {
            Cause::Word { .. } | Cause::Time => Answer::Value(0),
            // The kernel knows what is there.
            Cause::Files(_) => Answer::Continue,
        }
    }
}

/// What a call of [`CALLS`] comes to.
pub(crate) enum Outcome {
    /// It is answered at once.
    Answer(Answer),
    /// The thread waits.
    Wait(Waiter),
    /// The thread gives up its CPU.
    Yield,
    /// It wakes those who wait for a word.
    Wake(Wake),
}

/// Who is woken: up to `most` threads that wait for a word; up to `moved` others wait for another word from now on.
pub(crate) struct Wake {
    pub address: u64,
    pub bits: u32,
    pub most: u64,
    pub moved: u64,
    pub target: u64,
}

/// Carries out one of [`CALLS`] at the time `now`; `None` if it is none of them.
pub(crate) fn carry_out(process: i32, call: &Call, now: u64) -> Option<io::Result<Outcome>> {
    let [first, second, third, fourth, fifth, _] = call.arguments;
    let thread = call.thread;
    Some(match call.number {
        libc::SYS_clock_gettime => tell_time(thread, first, second, now),
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
            let written = targets.try_for_each(|at| process::write(thread, at, &zero));
            written.map(|()| done(0))
        }
        libc::SYS_getrandom => {
            // The same in every run, and different from byte to byte.
            let byte = |at: u64| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
            let bytes: Vec<u8> = (1..=second.min(1 << 20)).map(byte).collect();
            process::write(thread, first, &bytes).map(|()| done(bytes.len() as i64))
        }
        libc::SYS_nanosleep => duration(thread, first).map(|time| match time {
            Some(time) => wait(Some(now + time), Cause::Time),
            None => Outcome::Answer(Answer::Error(libc::EINVAL)),
        }),
        libc::SYS_clock_nanosleep => duration(thread, third).map(|time| {
            let absolute = second & libc::TIMER_ABSTIME as u64 != 0;
            match time {
                Some(time) if absolute => wait(Some(on_our_clock(first, time)), Cause::Time),
                Some(time) => wait(Some(now + time), Cause::Time),
                None => Outcome::Answer(Answer::Error(libc::EINVAL)),
            }
        }),
        libc::SYS_sched_yield => Ok(Outcome::Yield),
        libc::SYS_futex => word(call, now),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_pause => Ok(wait(None, Cause::Time)),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_epoll_wait => {
            let until = milliseconds(fourth, now);
            Ok(files(process, vec![(first as i32, libc::POLLIN)], until))
        }
        libc::SYS_epoll_pwait => {
            let until = milliseconds(fourth, now);
            Ok(files(process, vec![(first as i32, libc::POLLIN)], until))
        }
        libc::SYS_epoll_pwait2 => duration(thread, fourth).map(|time| {
            let until = time.map(|time| now + time);
            files(process, vec![(first as i32, libc::POLLIN)], until)
        }),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll => {
            polled(thread, first, second).map(|list| files(process, list, milliseconds(third, now)))
        }
        libc::SYS_ppoll => polled(thread, first, second).and_then(|list| {
            let time = duration(thread, third)?;
            Ok(files(process, list, time.map(|time| now + time)))
        }),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_select => selected(thread, &call.arguments).and_then(|list| {
            let time = match fifth {
                0 => None,
                at => {
                    read_pair(thread, at)?.map(|[seconds, micros]| seconds * SECOND + micros * 1000)
                }
            };
            Ok(files(process, list, time.map(|time| now + time)))
        }),
        libc::SYS_pselect6 => selected(thread, &call.arguments).and_then(|list| {
            let time = duration(thread, fifth)?;
            Ok(files(process, list, time.map(|time| now + time)))
        }),
        libc::SYS_read
        | libc::SYS_readv
        | libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_accept
        | libc::SYS_accept4 => {
            let file = first as i32;
            Ok(match process::never_waits(process, file) {
                true => Outcome::Answer(Answer::Continue),
                false => files(process, vec![(file, libc::POLLIN)], None),
            })
        }
        _ => return None,
    })
}

fn done(value: i64) -> Outcome {
    Outcome::Answer(Answer::Value(value))
}

fn wait(until: Option<u64>, cause: Cause) -> Outcome {
    Outcome::Wait(Waiter { until, cause })
}

/// What is there already the kernel hands over.
fn files(process: i32, list: Vec<(i32, i16)>, until: Option<u64>) -> Outcome {
    if until == Some(0) || process::is_ready(process, &list) {
        return Outcome::Answer(Answer::Continue);
    }
    wait(until, Cause::Files(list))
}

fn milliseconds(timeout: u64, now: u64) -> Option<u64> {
    match timeout as i32 {
        ..0 => None,
        0 => Some(0),
        some => Some(now + some as u64 * 1_000_000),
    }
}

fn is_real_time(clock: u64) -> bool {
    [
        libc::CLOCK_REALTIME,
        libc::CLOCK_REALTIME_COARSE,
        libc::CLOCK_TAI,
    ]
    .contains(&(clock as i32))
}

/// A time of the loader's clock on the kernel's.
fn on_our_clock(clock: u64, time: u64) -> u64 {
    match is_real_time(clock) {
        true => time.saturating_sub(EPOCH * SECOND),
        false => time,
    }
}

fn tell_time(thread: i32, clock: u64, target: u64, now: u64) -> io::Result<Outcome> {
    let time = match is_real_time(clock) {
        true => EPOCH * SECOND + now,
        false => now,
    };
    write_pair(thread, target, [time / SECOND, time % SECOND])?;
    Ok(done(0))
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
    Ok(number(0)
        .zip(number(8))
        .map(|(first, second)| [first, second]))
}

/// A `timespec` in nanoseconds; `None` for none, or one that is no time.
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
    let entries = bytes.chunks_exact(8).map(entry);
    Ok(entries.filter(|(file, _)| *file >= 0).collect())
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

fn word(call: &Call, now: u64) -> io::Result<Outcome> {
    let [address, operation, value, fourth, fifth, sixth] = call.arguments;
    let bits = |given: u64| given as u32;
    Ok(match operation & FUTEX_COMMAND {
        command @ (FUTEX_WAIT | FUTEX_WAIT_BITSET) => {
            if read_word(call.thread, address)? != Some(value as u32) {
                return Ok(Outcome::Answer(Answer::Error(libc::EAGAIN)));
            }
            let time = duration(call.thread, fourth)?;
            let clock = match operation & FUTEX_CLOCK_REALTIME {
                0 => libc::CLOCK_MONOTONIC,
                _ => libc::CLOCK_REALTIME,
            };
            let (until, bits) = match command {
                FUTEX_WAIT => (time.map(|time| now + time), ANY),
                _ => (
                    time.map(|time| on_our_clock(clock as u64, time)),
                    bits(sixth),
                ),
            };
            let value = value as u32;
            wait(
                until,
                Cause::Word {
                    address,
                    bits,
                    value,
                },
            )
        }
        command @ (FUTEX_WAKE | FUTEX_WAKE_BITSET) => Outcome::Wake(Wake {
            address,
            bits: if command == FUTEX_WAKE {
                ANY
            } else {
                bits(sixth)
            },
            most: value,
            moved: 0,
            target: 0,
        }),
        command @ (FUTEX_REQUEUE | FUTEX_CMP_REQUEUE) => {
            let as_expected = read_word(call.thread, address)? == Some(sixth as u32);
            if command == FUTEX_CMP_REQUEUE && !as_expected {
                return Ok(Outcome::Answer(Answer::Error(libc::EAGAIN)));
            }
            Outcome::Wake(Wake {
                address,
                bits: ANY,
                most: value,
                moved: fourth,
                target: fifth,
            })
        }
        _ => Outcome::Answer(Answer::Error(libc::ENOSYS)),
    })
}

pub(crate) fn read_word(thread: i32, address: u64) -> io::Result<Option<u32>> {
    let bytes = process::read(thread, address, 4)?;
    Ok(bytes.try_into().ok().map(u32::from_le_bytes))
}
