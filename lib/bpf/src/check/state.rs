//! The known facts at one point of a function.

use super::value::{Null, Number, Pointer, Root, Target, Value};
use crate::contract::Region;

/// Something that has to be released or left before the program returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Held {
    /// A reference that the call at this instruction returned.
    Reference(usize),
    /// Something that the call at this instruction began.
    Region(Region, usize),
    /// The iterator at this stack offset, begun by the call at this instruction.
    Iterator(i64, usize),
}

impl Held {
    /// Whether this is the same thing as the other, no matter where it was acquired.
    fn is(self, other: Held) -> bool {
        match (self, other) {
            (Held::Region(one, _), Held::Region(other, _)) => one == other,
            (Held::Iterator(one, _), Held::Iterator(other, _)) => one == other,
            _ => self == other,
        }
    }

    /// The instruction that acquired it.
    pub(super) fn taken_at(self) -> usize {
        match self {
            Held::Reference(at) | Held::Region(_, at) | Held::Iterator(_, at) => at,
        }
    }
}

/// The things that are held; `None` if unknown.
pub(super) type Holding = Option<Vec<Held>>;

/// The facts at one point, on the paths to it that hold the same things.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct State {
    pub registers: [Value; 11],
    /// Values on the stack, eight bytes each, by offset from its end. Nothing is known about the rest.
    slots: Vec<(i64, Value)>,
    /// Four-byte constants on the stack, by offset from its end: the verifier knows which element of an array they select.
    words: Vec<(i64, u32)>,
    /// Results of tests of constants that the loader sets.
    cells: Vec<(Root, u64, u64)>,
    pub holding: Holding,
    /// Whether every path to here passed a test whose outcome the verifier may know, such as one of a constant that the loader sets.
    pub is_doubtful: bool,
}

impl State {
    pub(super) fn new(arguments: [Value; 5]) -> State {
        let mut registers = [Value::Unset; 11];
        registers[1..6].copy_from_slice(&arguments);
        registers[10] = Value::Pointer(Pointer::to(Target::Stack));
        State {
            registers,
            slots: Vec::new(),
            words: Vec::new(),
            cells: Vec::new(),
            holding: Some(Vec::new()),
            is_doubtful: false,
        }
    }

    /// Keeps the facts that hold on both paths; returns whether anything was lost.
    pub(super) fn join(&mut self, other: &State, widen: bool) -> bool {
        let mut changed = false;
        let mut join = |mine: &mut Value, theirs: Value| {
            if *mine != theirs {
                let both = mine.join(theirs, widen);
                changed |= both != *mine;
                *mine = both;
            }
        };
        for (mine, theirs) in self.registers.iter_mut().zip(other.registers) {
            join(mine, theirs);
        }
        self.slots.retain_mut(|(offset, value)| {
            join(value, other.slot(*offset));
            *value != Value::Any
        });
        let known = self.words.len() + self.cells.len();
        self.words.retain(|word| other.words.contains(word));
        self.cells.retain(|cell| other.cells.contains(cell));
        changed |= known != self.words.len() + self.cells.len();
        changed |= self.is_doubtful && !other.is_doubtful;
        self.is_doubtful &= other.is_doubtful;
        changed
    }

    pub(super) fn slot(&self, offset: i64) -> Value {
        self.slots.iter().find(|slot| slot.0 == offset).map_or(Value::Any, |slot| slot.1)
    }

    /// Writes a value of eight bytes to the stack.
    pub(super) fn set_slot(&mut self, offset: i64, value: Value) {
        self.forget_stack(offset, offset + 8);
        if offset % 8 == 0 && value != Value::Any {
            self.slots.push((offset, value));
            self.slots.sort_unstable_by_key(|slot| slot.0);
        }
    }

    /// The four-byte constant at an offset of the stack, if one is known to be there.
    pub(super) fn word(&self, offset: i64) -> Option<u32> {
        self.words.iter().find(|word| word.0 == offset).map(|word| word.1)
    }

    /// Writes four bytes to the stack, and remembers them if they are a constant.
    pub(super) fn set_word(&mut self, offset: i64, value: Value) {
        self.forget_stack(offset, offset + 4);
        if let Some(constant) = value.constant() {
            // The upper half of the register is not stored.
            self.words.push((offset, constant as u32));
            self.words.sort_unstable();
        }
    }

    /// Forgets the contents of the stack between two offsets.
    pub(super) fn forget_stack(&mut self, low: i64, high: i64) {
        let stays = |offset: i64, size| offset >= high || offset.saturating_add(size) <= low;
        self.slots.retain(|&(offset, _)| stays(offset, 8));
        self.words.retain(|&(offset, _)| stays(offset, 4));
    }

    pub(super) fn values(&mut self) -> impl Iterator<Item = &mut Value> {
        let slots = self.slots.iter_mut().map(|slot| &mut slot.1);
        self.registers.iter_mut().chain(slots)
    }

    /// Forgets the origin of values that this instruction made earlier: it is about to make a new one.
    pub(super) fn renew(&mut self, at: usize) {
        for value in self.values() {
            match value {
                Value::Number(number) if number.root == Some(Root::Instruction(at)) => {
                    number.root = None;
                    number.is_free = false;
                }
                Value::Pointer(pointer) if pointer.origin == Some(at) => {
                    pointer.origin = None;
                    pointer.offset.is_free = false;
                    if pointer.null == Null::Untested {
                        pointer.null = Null::Unsure;
                    }
                }
                _ => {}
            }
        }
    }

    /// A constant that the loader sets, with the results of tests about it.
    pub(super) fn cell(&self, root: Root, size: u8) -> Value {
        let known = self.cells.iter().find(|cell| cell.0 == root);
        let number = Number {
            // The verifier knows its value.
            is_free: false,
            ..Number::fresh(size, root)
        };
        Value::Number(match known {
            Some(&(_, low, high)) => Number { low, high, ..number },
            None => number,
        })
    }

    /// Records that a test has found a number between two others.
    pub(super) fn bound(&mut self, register: usize, low: u64, high: u64) {
        let Value::Number(tested) = self.registers[register] else { return };
        let narrow = |number: &mut Number| {
            number.low = number.low.max(low);
            number.high = number.high.min(high).max(number.low);
            number.is_free = false;
        };
        if let Some(root @ Root::Cell { .. }) = tested.root
            && tested.is_root
        {
            self.cells.retain(|cell| cell.0 != root);
            let high = tested.high.min(high);
            self.cells.push((root, tested.low.max(low).min(high), high));
        }
        for value in self.values() {
            match value {
                Value::Number(number) if number.root.is_some() && number.root == tested.root => {
                    if number.is_root && tested.is_root {
                        narrow(number);
                    }
                    number.is_free = false;
                }
                _ => {}
            }
        }
        if let Value::Number(number) = &mut self.registers[register] {
            narrow(number);
        }
    }

    /// Records that a test has found a pointer to be NULL or not; `false` if it cannot have (`reg_not_null`).
    pub(super) fn tell_null(&mut self, register: usize, is_null: bool) -> bool {
        let Value::Pointer(tested) = self.registers[register] else { return true };
        if tested.null == Null::No {
            return !is_null;
        }
        let told = |value: &mut Value| {
            if is_null {
                *value = Value::ZERO;
            } else if let Value::Pointer(pointer) = value {
                pointer.null = Null::No;
            }
        };
        for value in self.values() {
            match value {
                Value::Pointer(pointer)
                    if tested.origin.is_some() && pointer.origin == tested.origin =>
                {
                    told(value);
                }
                // Possibly a copy.
                Value::Pointer(pointer) if *pointer == tested => pointer.null = Null::Unsure,
                _ => {}
            }
        }
        told(&mut self.registers[register]);
        if is_null && let (Some(origin), Some(holding)) = (tested.origin, &mut self.holding) {
            holding.retain(|held| *held != Held::Reference(origin));
        }
        true
    }

    pub(super) fn holds(&self, what: Held) -> Option<bool> {
        Some(self.holding.as_ref()?.iter().any(|held| held.is(what)))
    }

    pub(super) fn take(&mut self, what: Held) {
        // A second acquisition cannot be told apart from the first.
        let may_repeat = matches!(
            what,
            Held::Region(Region::Rcu | Region::NoPreemption | Region::NoInterrupts, _)
        );
        let repeats = self.holds(what) == Some(true) && !may_repeat;
        match &mut self.holding {
            Some(holding) if !repeats && holding.len() < 16 => {
                holding.push(what);
                holding.sort_unstable();
            }
            _ => self.holding = None,
        }
    }

    /// Releases a thing; returns whether it was held, if that is known.
    pub(super) fn give_back(&mut self, what: Held) -> Option<bool> {
        let holding = self.holding.as_mut()?;
        let place = holding.iter().position(|held| held.is(what));
        if let Some(place) = place {
            holding.remove(place);
        }
        Some(place.is_some())
    }

    /// Forgets a released reference: nothing may be done with it any more.
    pub(super) fn forget_reference(&mut self, origin: usize, value: Value) {
        for one in self.values() {
            if one.pointer().and_then(|pointer| pointer.origin) == Some(origin) {
                *one = value;
            }
        }
    }
}
