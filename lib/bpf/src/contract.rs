//! A kernel verifier's knowledge of the functions that programs call.

/// The requirements of a helper or kernel function on its callers, and the effects of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Contract {
    /// The required arguments.
    pub arguments: [Argument; 5],
    /// The result.
    pub result: CallResult,
    /// The effect of the call besides the result.
    pub effect: Effect,
    /// Whether it may sleep.
    pub sleeps: bool,
    /// Whether it may be called while a spin lock is held.
    pub in_spin_lock: bool,
}

/// The required argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Argument {
    /// The declared type in the object; a pointer is not NULL.
    #[default]
    Declared,
    /// Not checked.
    Any,
    /// A map.
    Map,
    /// A key for the map in the first argument.
    Key,
    /// A value for the map in the first argument, to be read, or NULL.
    Value,
    /// Room for a value of the map in the first argument.
    Room,
    /// Memory of as many bytes as the next argument says, or NULL if that is 0.
    Sized,
    /// A kernel object, not NULL.
    Object,
    /// A place in a value of a map, not NULL.
    Place,
}

/// The result of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CallResult {
    /// The declared type in the object; a pointer is not NULL.
    #[default]
    Declared,
    /// The declared type, or NULL.
    OrNull,
    /// Nothing is known.
    Any,
    /// A number.
    Number,
    /// A value of the map in the first argument, or NULL.
    MapValue,
    /// A kernel object, or NULL.
    Object,
    /// As many bytes as the second argument says, or NULL.
    Memory,
}

/// The effect of a call besides the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Effect {
    /// Nothing that has to be undone.
    #[default]
    None,
    /// The result is a reference that has to be released.
    Acquire,
    /// Releases the reference in the argument of that number, from 0.
    Release(usize),
    /// Takes over the reference in the argument of that number, from 0.
    Keep(usize),
    /// Takes over the reference in the second argument, and returns another.
    Exchange,
    /// Enters a region.
    Enter(Region),
    /// Leaves it.
    Leave(Region),
    /// Begins an iteration with the iterator in the first argument.
    Iterate,
    /// Continues it.
    Next,
    /// Ends it.
    EndIteration,
}

/// A region that a program can be inside, and has to leave before it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Region {
    /// An RCU critical section.
    Rcu,
    /// A spin lock is held; one at a time.
    SpinLock,
    /// Preemption is disabled.
    NoPreemption,
    /// Interrupts are disabled.
    NoInterrupts,
}

impl Region {
    /// Its name in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Region::Rcu => "the critical section of RCU",
            Region::SpinLock => "the spin lock",
            Region::NoPreemption => "the section without preemption",
            Region::NoInterrupts => "the section without interrupts",
        }
    }
}
