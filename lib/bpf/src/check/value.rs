//! The known facts about the value of a register.

use crate::btf::TypeId;

/// Where a value comes from: an instruction, or a cell of constant memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Root {
    Instruction(usize),
    Cell { slot: usize, offset: u64, size: u8 },
}

/// The known facts about a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    /// Nothing has been written there.
    Unset,
    /// Nothing is known: all checks of its uses are left to run time.
    Any,
    Number(Number),
    Pointer(Pointer),
    /// An address in the arena, in the kernel's form, or NULL. Nothing else is known about it.
    Arena,
}

/// A number between two others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number {
    pub low: u64,
    pub high: u64,
    /// Where it comes from.
    pub root: Option<Root>,
    /// Whether it still is the value made there.
    pub is_root: bool,
    /// Whether nothing has bounded it since.
    pub is_free: bool,
}

/// An address within an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pointer {
    pub target: Target,
    pub null: Null,
    pub offset: Offset,
    /// The instruction that made the pointer to the object.
    pub origin: Option<usize>,
}

/// The target of a pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// The arguments of a callback: this many.
    Arguments(usize),
    /// The function's own stack; offsets are from its end.
    Stack,
    /// A section of global variables, by slot.
    Section(usize),
    /// A map.
    Map(usize),
    /// A value of a map.
    MapValue(usize),
    /// This many bytes.
    Memory(u64),
    /// A kernel structure, by its type in the object.
    Kernel(TypeId),
    /// An object that the program has allocated.
    Object,
}

/// Whether a pointer is NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Null {
    No,
    /// It may be, and was not tested.
    Untested,
    /// It is on some paths and not on others.
    Unsure,
}

/// Distance from the start of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Offset {
    pub low: i64,
    pub high: i64,
    /// Whether it includes a number that nothing has bounded.
    pub is_free: bool,
}

impl Number {
    pub(super) const fn constant(value: u64) -> Number {
        Number::between(value, value)
    }

    pub(super) const fn between(low: u64, high: u64) -> Number {
        Number { low, high, root: None, is_root: false, is_free: false }
    }

    /// Any number of at most `size` bytes, made at `root`.
    pub(super) fn fresh(size: u8, root: Root) -> Number {
        Number {
            root: Some(root),
            is_root: true,
            is_free: size >= 4,
            ..Number::between(0, largest(size))
        }
    }

    pub(super) fn value(self) -> Option<u64> {
        (self.low == self.high).then_some(self.low)
    }

    fn join(self, other: Number, widen: bool) -> Number {
        if self == other {
            return self;
        }
        let same_root = self.root == other.root;
        let grows = other.low < self.low || other.high > self.high;
        let (low, high) = if widen && grows {
            (0, u64::MAX)
        } else {
            (self.low.min(other.low), self.high.max(other.high))
        };
        Number {
            low,
            high,
            root: if same_root { self.root } else { None },
            is_root: same_root && self.is_root && other.is_root,
            is_free: self.is_free && other.is_free,
        }
    }
}

/// The largest number that fits into this many bytes.
pub(super) fn largest(size: u8) -> u64 {
    u64::MAX >> (64 - 8 * u32::from(size.clamp(1, 8)))
}

impl Offset {
    pub(super) const ZERO: Offset = Offset { low: 0, high: 0, is_free: false };
    const UNKNOWN: Offset = Offset { low: i64::MIN, high: i64::MAX, is_free: false };

    /// The offset moved by a number.
    pub(super) fn add(self, number: Number, subtract: bool) -> Offset {
        let is_free = self.is_free || number.is_free;
        let unknown = Offset { is_free, ..Offset::UNKNOWN };
        let (low, high) = (number.low.cast_signed(), number.high.cast_signed());
        // The bounds also hold for the signed number if both have the same sign.
        if low > high {
            return unknown;
        }
        let (low, high) = if subtract {
            (high.checked_neg(), low.checked_neg())
        } else {
            (Some(low), Some(high))
        };
        let sum = |a: i64, b: Option<i64>| b.and_then(|b| a.checked_add(b));
        match (sum(self.low, low), sum(self.high, high)) {
            (Some(low), Some(high)) => Offset { low, high, is_free },
            _ => unknown,
        }
    }

    fn join(self, other: Offset, widen: bool) -> Offset {
        let is_free = self.is_free && other.is_free;
        let grows = other.low < self.low || other.high > self.high;
        if widen && grows {
            return Offset { is_free, ..Offset::UNKNOWN };
        }
        Offset { low: self.low.min(other.low), high: self.high.max(other.high), is_free }
    }
}

impl Pointer {
    pub(super) const fn to(target: Target) -> Pointer {
        Pointer { target, null: Null::No, offset: Offset::ZERO, origin: None }
    }
}

impl Value {
    pub(super) const ZERO: Value = Value::Number(Number::constant(0));

    /// The facts about it in another function: not its origin.
    pub(super) fn elsewhere(self) -> Value {
        match self {
            Value::Pointer(pointer) => Value::Pointer(Pointer { origin: None, ..pointer }),
            Value::Number(number) => {
                Value::Number(Number { root: None, is_root: false, is_free: false, ..number })
            }
            Value::Unset | Value::Any | Value::Arena => self,
        }
    }

    /// The facts if the value is one or the other. `widen` gives up bounds that still change.
    pub(super) fn join(self, other: Value, widen: bool) -> Value {
        match (self, other) {
            _ if self == other => self,
            (Value::Number(a), Value::Number(b)) => Value::Number(a.join(b, widen)),
            (Value::Pointer(a), Value::Pointer(b)) if a.target == b.target => {
                let null = if a.null == b.null { a.null } else { Null::Unsure };
                Value::Pointer(Pointer {
                    target: a.target,
                    null,
                    offset: a.offset.join(b.offset, widen),
                    origin: a.origin.filter(|_| a.origin == b.origin),
                })
            }
            (Value::Pointer(pointer), null) | (null, Value::Pointer(pointer)) if null.is_null() => {
                Value::Pointer(Pointer { null: Null::Unsure, ..pointer })
            }
            (Value::Arena, null) | (null, Value::Arena) if null.is_null() => Value::Arena,
            _ => Value::Any,
        }
    }

    /// Whether the value is NULL, or may be and was not tested.
    pub(super) fn is_untested(self) -> bool {
        match self {
            Value::Pointer(pointer) => pointer.null == Null::Untested,
            _ => self.is_null(),
        }
    }

    pub(super) fn is_null(self) -> bool {
        self.constant() == Some(0)
    }

    pub(super) fn pointer(self) -> Option<Pointer> {
        match self {
            Value::Pointer(pointer) => Some(pointer),
            _ => None,
        }
    }

    pub(super) fn constant(self) -> Option<u64> {
        match self {
            Value::Number(number) => number.value(),
            _ => None,
        }
    }
}
