//! What can go wrong when an object is read or compiled.

use std::fmt;

/// Why an object could not be read or compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The file is not a well-formed BPF object.
    Malformed {
        /// Section, program and instruction, or whatever place is known.
        place: String,
        /// What is wrong there.
        problem: String,
    },
    /// The object uses something this crate does not translate.
    Unsupported {
        /// Section, program and instruction, or whatever place is known.
        place: String,
        /// What is not supported.
        problem: String,
    },
    /// The object needs helpers, kernel functions, variables or configuration
    /// values that the linker does not have. All of them are listed.
    Missing {
        /// One line per missing name, in the order in which they were met.
        names: Vec<Missing>,
    },
    /// Reachable instructions need structures, fields or enumerators that the
    /// linker's model of the kernel does not have. All of them are listed.
    Relocation {
        /// One line per place.
        problems: Vec<String>,
    },
    /// The code generator refused the translation: a defect of this crate.
    Generator {
        /// The function being compiled.
        place: String,
        /// The generator's own words.
        problem: String,
    },
}

/// A name the object needs and the linker does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// What kind of name is missing.
    pub kind: MissingKind,
    /// The name, or the number of a helper.
    pub name: String,
    /// Where it is first needed: program, and source line where known.
    pub place: String,
}

/// The kinds of names an object takes from its kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MissingKind {
    /// A helper, called by number.
    Helper,
    /// A kernel function (kfunc), called by name.
    Kfunc,
    /// A kernel variable (`__ksym`).
    Variable,
    /// A kernel configuration value (`__kconfig`).
    Configuration,
}

impl fmt::Display for MissingKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            MissingKind::Helper => "helper",
            MissingKind::Kfunc => "kernel function",
            MissingKind::Variable => "kernel variable",
            MissingKind::Configuration => "kernel configuration value",
        })
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} {} (needed in {})",
            self.kind, self.name, self.place
        )
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
            Error::Missing { names } => {
                write!(formatter, "this kernel model does not have")?;
                for (index, name) in names.iter().enumerate() {
                    let separator = if index == 0 { " " } else { "; " };
                    write!(formatter, "{separator}{name}")?;
                }
                Ok(())
            }
            Error::Relocation { problems } => formatter.write_str(&problems.join("; ")),
            Error::Generator { place, problem } => {
                write!(formatter, "code generation failed in {place}: {problem}")
            }
        }
    }
}

impl std::error::Error for Error {}

/// An object that is not well-formed.
pub(crate) fn malformed(place: impl Into<String>, problem: impl Into<String>) -> Error {
    Error::Malformed {
        place: place.into(),
        problem: problem.into(),
    }
}

/// An object that asks for something this crate does not translate.
pub(crate) fn unsupported(place: impl Into<String>, problem: impl Into<String>) -> Error {
    Error::Unsupported {
        place: place.into(),
        problem: problem.into(),
    }
}
