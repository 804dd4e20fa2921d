//! The targets under libFuzzer: `FAIRGROUND_FUZZ` names one; `scripts/fuzz` runs them all.

#![no_main]

use std::sync::OnceLock;

use fairground_fuzz::Target;
use libfuzzer_sys::fuzz_target;

static TARGET: OnceLock<&Target> = OnceLock::new();

fuzz_target!(
    init: {
        let name = std::env::var("FAIRGROUND_FUZZ").unwrap_or_default();
        let target = fairground_fuzz::find(&name).expect("FAIRGROUND_FUZZ must name a target");
        TARGET.set(target).ok();
    },
    |bytes: &[u8]| {
        if let Some(target) = TARGET.get() {
            (target.run)(bytes);
        }
    }
);
