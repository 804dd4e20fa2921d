//! Wake-ups of another CPU.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::threads::{Futex, Helper, clock_cost, pause, undisturbed};
use super::{Basis, Calibration};
use crate::clock;

/// Wake-ups that are measured.
const WAKEUPS: usize = 301;

/// Waking a thread on another CPU that is busy with less important work: the cost for the waker, and the time until the thread runs.
pub fn measure(result: &mut Calibration, from: u32, to: u32, basis: Basis) -> io::Result<()> {
    let bound = super::OnCpu::bind(from)?;
    let spinner = Helper::spinner(to)?;
    let (futex, ran) = (Arc::new(Futex::default()), Arc::new(AtomicU64::new(0)));
    let sleeper = {
        let (own, ran) = (Arc::clone(&futex), Arc::clone(&ran));
        Helper::start(to, None, Some(Arc::clone(&futex)), move || {
            own.wait();
            ran.store(clock::monotonic(), Ordering::Release);
        })?
    };
    let (mut calls, mut latencies) = (Vec::new(), Vec::new());
    for _ in 0..WAKEUPS {
        pause(2);
        ran.store(0, Ordering::Release);
        let begin = clock::monotonic();
        futex.post();
        let end = clock::monotonic();
        pause(2);
        let woken = ran.load(Ordering::Acquire);
        if woken != 0 {
            calls.push(end - begin);
            latencies.push(woken.saturating_sub(begin));
        }
    }
    drop((sleeper, spinner, bound));
    let paid = undisturbed(calls).saturating_sub(basis.empty_wake + clock_cost());
    result.add(
        "wakeup_remote",
        paid,
        format!("fairground calibrate: futex wake from CPU {from} of a thread that preempts on CPU {to}, less one of nobody"),
    );
    let path = basis.empty_wake + paid + basis.switch;
    result.add(
        "interrupt",
        undisturbed(latencies).saturating_sub(path),
        format!("fairground calibrate: from a futex wake on CPU {from} to the woken thread's first instruction on busy CPU {to}, less wakeup_remote, context_switch and the futex call"),
    );
    Ok(())
}
