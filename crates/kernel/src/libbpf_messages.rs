//! The messages of libbpf.
//!
//! libbpf reports through one callback per process. The messages are collected, so that a failure is reported as a whole and a success prints
//! nothing; with [`set_verbose`] they also go to standard error as they arrive.

use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use libbpf_rs::PrintLevel;

static MESSAGES: Mutex<Vec<String>> = Mutex::new(Vec::new());
static VERBOSE: AtomicBool = AtomicBool::new(false);

/// Whether all of libbpf's messages, including debugging messages, also go to standard error.
pub fn set_verbose(verbose: bool) {
    VERBOSE.store(verbose, Ordering::Relaxed);
}

/// Runs `action` and returns its result with libbpf's warnings in the meantime, one entry per message.
pub fn collect<T>(action: impl FnOnce() -> T) -> (T, Vec<String>) {
    libbpf_rs::set_print(Some((PrintLevel::Debug, receive)));
    messages().clear();
    let result = action();
    let warnings = std::mem::take(&mut *messages());
    (result, warnings)
}

fn receive(level: PrintLevel, message: String) {
    if VERBOSE.load(Ordering::Relaxed) {
        let _ = write!(std::io::stderr().lock(), "libbpf: {message}");
    }
    if matches!(level, PrintLevel::Warn) {
        messages().push(message);
    }
}

fn messages() -> std::sync::MutexGuard<'static, Vec<String>> {
    MESSAGES.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
