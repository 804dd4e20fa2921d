//! Fuzzing: everything that reads a file which others may have written, as functions of arbitrary bytes.
//!
//! A target takes bytes, passes them to a parser, and goes on with the accepted value as far as the command would. It panics if a
//! promise is broken; it must also neither hang nor use unbounded memory. `corpus/NAME/` has inputs for each target. The tests run small
//! changes of these, the same every time; `make fuzz` lets libFuzzer continue from them for as long as desired.

mod events;
mod mutation;
mod objects;
mod texts;

use std::path::PathBuf;

pub use mutation::{Edit, apply};

/// A parser and the steps after it.
pub struct Target {
    /// Its name, and that of its folder in `corpus/`.
    pub name: &'static str,
    /// Runs it on an input.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "workload", run: texts::workload },
    Target { name: "machine", run: texts::machine },
    Target { name: "hwloc", run: texts::hwloc },
    Target { name: "machine_file", run: texts::machine_file },
    Target { name: "cost", run: texts::cost },
    Target { name: "manifest", run: texts::manifest },
    Target { name: "experiment", run: texts::experiment },
    Target { name: "description", run: texts::description },
    Target { name: "companion", run: objects::companion },
    Target { name: "object", run: objects::object },
    Target { name: "recording", run: events::recording },
    Target { name: "entries", run: events::entries },
    Target { name: "trace", run: events::trace },
];

/// The target with this name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

impl Target {
    /// Where its inputs are.
    pub fn corpus(&self) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(self.name)
    }
}

/// Checks that a message is not empty. The command escapes characters that a terminal would obey.
fn check_message(message: &str) {
    assert!(!message.trim().is_empty(), "an empty message");
}
