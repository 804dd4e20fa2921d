//! Errors of reading and compiling an object.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why an object could not be read or compiled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Error {
    /// The file is not a well-formed BPF object.
    Malformed {
        /// Section, program and instruction, as far as known.
        place: String,
        /// The fault.
        problem: String,
    },
    /// The object uses something that this crate does not translate.
    Unsupported {
        /// Section, program and instruction, as far as known.
        place: String,
        /// The unsupported feature.
        problem: String,
    },
    /// The object does something that a kernel's verifier does not allow.
    Refused {
        /// Function, and source line if known.
        place: String,
        /// The forbidden action.
        problem: String,
    },
    /// The object cannot do without something that its kernel does not have.
    Lacking(Vec<Missing>),
    /// The code generator refused the translation: a defect of this crate.
    Generator {
        /// The function being compiled.
        place: String,
        /// The generator's own words.
        problem: String,
    },
}

/// Something that an object needs and its kernel does not have: a helper, a kernel function, variable or configuration value,
/// a structure, a field, an enumerator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// The missing name, in a sentence.
    pub problem: String,
    /// Where it is first needed: program, and source line if known.
    pub place: String,
}

impl fmt::Display for Missing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}, needed in {}", self.problem, self.place)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Malformed { place, problem } => {
                write!(formatter, "malformed BPF object: {place}: {problem}")
            }
            Error::Unsupported { place, problem } => {
                write!(formatter, "{place}: {problem}")
            }
            Error::Refused { place, problem } => {
                write!(formatter, "{place}: a kernel would refuse this program: {problem}")
            }
            Error::Lacking(missing) => {
                let each: Vec<String> = missing.iter().map(ToString::to_string).collect();
                write!(
                    formatter,
                    "a kernel would not load this object, whether it gets there or not: {}; declare what the scheduler can do without \
                     as __weak, and test it with bpf_ksym_exists()",
                    each.join("; ")
                )
            }
            Error::Generator { place, problem } => {
                write!(formatter, "code generation failed in {place}: {problem}")
            }
        }
    }
}

impl std::error::Error for Error {}

/// An object that is not well-formed.
pub(crate) fn malformed(place: impl Into<String>, problem: impl Into<String>) -> Error {
    Error::Malformed { place: place.into(), problem: problem.into() }
}

/// An object that asks for something that this crate does not translate.
pub(crate) fn unsupported(place: impl Into<String>, problem: impl Into<String>) -> Error {
    Error::Unsupported { place: place.into(), problem: problem.into() }
}

/// An object that a kernel would refuse.
pub(crate) fn refused(place: impl Into<String>, problem: impl Into<String>) -> Error {
    Error::Refused { place: place.into(), problem: problem.into() }
}
