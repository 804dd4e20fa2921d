//! What a kernel's verifier knows of the functions that programs call.

/// What is asked of the callers of a helper or kernel function, and what is known after the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Contract {
    /// What the arguments have to be.
    pub arguments: [Argument; 5],
    /// What comes back.
    pub result: Outcome,
    /// What the call does beside.
    pub effect: Effect,
    /// Whether it may sleep.
    pub sleeps: bool,
    /// Whether it may be called while a spin lock is held.
    pub in_spin_lock: bool,
}

/// What an argument has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Argument {
    /// What the declaration in the object says; a pointer is not NULL.
    #[default]
    Declared,
    /// Not looked at.
    Any,
    /// A map.
    Map,
    /// A key of the map that is the first argument.
    Key,
    /// A value of the map that is the first argument, to be read, or NULL.
    Value,
    /// Room for a value of the map that is the first argument.
    Room,
    /// Memory, as many bytes as the argument after this one says, or NULL if that is 0.
    Sized,
    /// A kernel object, not NULL.
    Object,
    /// A place in a value of a map, not NULL.
    Place,
}

/// What a call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Outcome {
    /// What the declaration in the object says; a pointer is not NULL.
    #[default]
    Declared,
    /// What the declaration says, or NULL.
    OrNull,
    /// Nothing is known.
    Any,
    /// A number.
    Number,
    /// A value of the map that is the first argument, or NULL.
    MapValue,
    /// A kernel object, or NULL.
    Object,
    /// As many bytes as the second argument says, or NULL.
    Memory,
}

/// What a call does beside returning something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Effect {
    /// Nothing that has to be undone.
    #[default]
    None,
    /// The result is a reference that has to be given back.
    Acquire,
    /// Gives the reference in the argument of that number, from 0, back.
    Release(usize),
    /// Takes the reference in the argument of that number, from 0, over.
    Keep(usize),
    /// Takes the reference in the second argument over, and returns another.
    Exchange,
    /// Begins something.
    Enter(Region),
    /// Ends it.
    Leave(Region),
    /// Begins an iteration with the iterator in the first argument.
    Iterate,
    /// Goes on with it.
    Next,
    /// Ends it.
    EndIteration,
}

/// What a program can be within, and has to leave before it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Region {
    /// A critical section of RCU.
    Rcu,
    /// A spin lock is held; one at a time.
    SpinLock,
    /// Preemption is switched off.
    NoPreemption,
    /// Interrupts are switched off.
    NoInterrupts,
}

impl Region {
    /// How a message calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Region::Rcu => "the critical section of RCU",
            Region::SpinLock => "the spin lock",
            Region::NoPreemption => "the section without preemption",
            Region::NoInterrupts => "the section without interrupts",
        }
    }
}
