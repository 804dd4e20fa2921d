//! Timers, the idle state and the tick.

use std::io;
use std::time::Duration;

use nix::libc;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use super::threads::{Helper, pause, undisturbed};
use super::{Basis, Calibration};
use crate::clock;

/// Number of sleeps whose lateness is measured.
const SLEEPS: u64 = 301;

/// How long the CPU is watched for ticks, nanoseconds.
const WATCHED: u64 = 2_000_000_000;

/// Lateness of a sleep without slack.
fn lateness() -> io::Result<u64> {
    let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::empty())?;
    let mut late = Vec::new();
    for number in 0..SLEEPS {
        // A different distance from ticks each time.
        let target = clock::monotonic() + 2_000_000 + 37_000 * (number % 60);
        let until = Duration::from_nanos(target).into();
        timer.set(Expiration::OneShot(until), TimerSetTimeFlags::TFD_TIMER_ABSTIME)?;
        timer.wait()?;
        late.push(clock::monotonic().saturating_sub(target));
    }
    Ok(undisturbed(late))
}

/// When a thread that only reads the clock was held up, and for how long, without the reading itself.
fn hold_ups() -> Vec<(u64, u64)> {
    let begin = clock::monotonic();
    let mut last = begin;
    let mut steps = Vec::new();
    for _ in 0..1001 {
        let now = clock::monotonic();
        steps.push(now - last);
        last = now;
    }
    let step = undisturbed(steps);
    let mut found = Vec::new();
    while last < begin + WATCHED {
        let now = clock::monotonic();
        if now - last > 3 * step + 200 {
            found.push((last, now - last - step));
        }
        last = now;
    }
    found
}

/// Number of parts of a tick's length in which hold-ups are counted.
const PLACES: u64 = 40;

/// The length of a hold-up that is as frequent as ticks: an undisturbed one of those in the same part of a tick's length. Ticks may fall on
/// the border between two parts, so two neighbours count together.
fn tick() -> Option<u64> {
    let found = hold_ups();
    [1_000, 300, 250, 100].iter().find_map(|hz| {
        let (length, expected) = (1_000_000_000 / hz, WATCHED / 1_000_000_000 * hz);
        let held_at = |first: u64| -> Vec<u64> {
            let is_there = |time: u64| {
                let place = time % length * PLACES / length;
                place == first || place == (first + 1) % PLACES
            };
            let there = found.iter().filter(|(time, _)| is_there(*time));
            there.map(|(_, held)| *held).collect()
        };
        let most = (0..PLACES).map(held_at).max_by_key(Vec::len)?;
        (most.len() as u64 * 10 >= expected * 7).then(|| undisturbed(most))
    })
}

pub fn measure(result: &mut Calibration, cpu: u32, basis: Basis) -> io::Result<()> {
    // SAFETY: the call takes only numbers. It concerns this thread and cannot fail with them.
    let slack = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) };
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) };
    let idle = lateness()?;
    let spinner = Helper::spinner(cpu)?;
    pause(20);
    let busy = lateness()?;
    drop(spinner);
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack.max(1)) };
    result.add(
        "idle_exit",
        idle.saturating_sub(busy),
        "fairground calibrate: lateness of a timer without slack on an idle CPU, less that on a CPU busy with a task of policy idle",
    );
    result.add(
        "timer",
        busy.saturating_sub(basis.wakeup + basis.switch),
        "fairground calibrate: lateness of a timer without slack on a CPU busy with a task of policy idle, less wakeup and context_switch",
    );
    match tick() {
        Some(ns) => result.add(
            "tick",
            ns,
            "fairground calibrate: how long a thread that only reads the clock is held up where hold-ups come once a tick",
        ),
        None => result
            .notes
            .push("tick: no hold-ups that come at the rate of a tick were seen".to_owned()),
    }
    Ok(())
}
