//! Commands that are asked to end while cells run.

use std::time::Duration;

use fairground_kernel::supervise::Signals;

use crate::output;

/// How long to wait for a signal before waiting again.
const WAIT: Duration = Duration::from_secs(60);

/// Waits for requests to end this process: at the first it calls `stop`, after which no further cell is to begin, and at the second `abandon`, which is
/// not to wait for those that run. One more does not kill a process that cleans up.
pub fn heed(mut signals: Signals, stop: impl FnOnce(), abandon: impl FnOnce()) {
    while let Ok(None) = signals.wait(WAIT) {}
    stop();
    output::say!("fairground: ends with the cells that run now, and at once if asked again");
    while let Ok(None) = signals.wait(WAIT) {}
    abandon();
    while signals.wait(WAIT).is_ok() {}
}
