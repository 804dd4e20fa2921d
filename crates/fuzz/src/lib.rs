//! Fuzzing: what reads a file that somebody else may have written, as functions of any bytes.
//!
//! A target takes bytes, hands them to a parser, and goes on with what the parser accepts as far as the command would. It panics where a
//! promise is broken; what it must not do besides is to hang, or to take memory without bound. `corpus/NAME/` has inputs for each target.
//! The tests run small changes of these, the same every time; `make fuzz` lets libFuzzer go on from them for as long as one likes.

mod events;
mod mutation;
mod objects;
mod texts;

use std::path::PathBuf;

pub use mutation::{Edit, apply};

/// A parser with what follows it.
pub struct Target {
    /// Its name, and that of its folder in `corpus/`.
    pub name: &'static str,
    /// Runs it on an input.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "workload",
        run: texts::workload,
    },
    Target {
        name: "machine",
        run: texts::machine,
    },
    Target {
        name: "hwloc",
        run: texts::hwloc,
    },
    Target {
        name: "cost",
        run: texts::cost,
    },
    Target {
        name: "manifest",
        run: texts::manifest,
    },
    Target {
        name: "experiment",
        run: texts::experiment,
    },
    Target {
        name: "description",
        run: texts::description,
    },
    Target {
        name: "companion",
        run: objects::companion,
    },
    Target {
        name: "object",
        run: objects::object,
    },
    Target {
        name: "recording",
        run: events::recording,
    },
    Target {
        name: "entries",
        run: events::entries,
    },
    Target {
        name: "trace",
        run: events::trace,
    },
];

/// The target of this name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

impl Target {
    /// Where its inputs are.
    pub fn corpus(&self) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("corpus")
            .join(self.name)
    }
}

/// What every message must be: there. The command makes signs visible that a terminal would obey.
fn check_message(message: &str) {
    assert!(!message.trim().is_empty(), "an empty message");
}
