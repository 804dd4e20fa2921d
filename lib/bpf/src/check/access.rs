//! Which memory accesses are allowed, which are refused, and which are checked at run time.

use super::state::State;
use super::value::{Null, Offset, Pointer, Target, Value};
use super::{Facts, Guard, Origin, Verdict};
use crate::btf::TypeId;
use crate::special::SpecialKind;

/// An access to memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Access {
    /// Offset from the pointer.
    pub offset: i64,
    pub size: u64,
    pub writes: bool,
}

/// How many bytes of stack a function may use.
const STACK: i64 = 512;

impl Facts<'_> {
    /// Judges an access through a register.
    pub(super) fn access(&self, state: &State, register: u8, access: Access) -> Verdict {
        match state.registers[usize::from(register)] {
            Value::Any => Verdict::Fine,
            Value::Arena => Verdict::Guarded(Some(Guard::Arena)),
            Value::Unset => Verdict::refused(format!("r{register} is used before it is set")),
            value @ Value::Number(_) if value.is_null() => {
                Verdict::refused("NULL is used as a pointer")
            }
            Value::Number(_) => Verdict::refused("a number is used as a pointer"),
            Value::Pointer(pointer) => self.through(pointer, access),
        }
    }

    /// Judges an access through a pointer.
    pub(super) fn through(&self, pointer: Pointer, access: Access) -> Verdict {
        if pointer.null == Null::Untested {
            return Verdict::Refused {
                problem: format!("{} may be NULL and is not tested", self.name(pointer.target)),
                guard: Some(Guard::NotNull),
            };
        }
        if let Some(problem) = self.forbidden(pointer, access) {
            return Verdict::refused(problem);
        }
        match self.extent(pointer.target) {
            Some((start, end)) => self.within(pointer, access, start, end),
            None if pointer.null == Null::Unsure => Verdict::Guarded(Some(Guard::NotNull)),
            None => Verdict::Fine,
        }
    }

    fn within(&self, pointer: Pointer, access: Access, start: i64, end: i64) -> Verdict {
        let Offset { low, high, is_free } = pointer.offset;
        let size = i64::try_from(access.size).unwrap_or(i64::MAX);
        let low = low.saturating_add(access.offset);
        let high = high.saturating_add(access.offset);
        let last = end.saturating_sub(size);
        if low >= start && high <= last {
            return match pointer.null {
                Null::Unsure => Verdict::Guarded(Some(Guard::NotNull)),
                _ => Verdict::Fine,
            };
        }
        let guard = self.guard(pointer, start, last);
        let may_grow = matches!(pointer.target, Target::Section(slot) if self.may_grow(slot));
        if low > last && !may_grow || high < start {
            return Verdict::Refused {
                problem: format!(
                    "{} bytes at offset {low} are outside of {}, which has {}",
                    access.size,
                    self.name(pointer.target),
                    end - start
                ),
                guard,
            };
        }
        if is_free && !may_grow {
            return Verdict::Refused {
                problem: format!(
                    "nothing bounds an offset into {}, which has {} bytes",
                    self.name(pointer.target),
                    end - start
                ),
                guard,
            };
        }
        Verdict::Guarded(guard)
    }

    /// The run-time check that an access lies within its object.
    fn guard(&self, pointer: Pointer, start: i64, last: i64) -> Option<Guard> {
        let origin = match pointer.target {
            Target::Section(slot) => Origin::Slot(slot),
            Target::Stack => Origin::Stack,
            _ => Origin::Call(pointer.origin?),
        };
        Some(Guard::Within { origin, start, last })
    }

    /// Where objects begin and end.
    fn extent(&self, target: Target) -> Option<(i64, i64)> {
        let size = match target {
            Target::Arguments(count) => count as u64 * 8,
            Target::Stack => return Some((-STACK, 0)),
            Target::Section(slot) => self.section(slot)?.size,
            Target::MapValue(map) => u64::from(self.object.maps()[map].value_size),
            Target::Memory(size) => size,
            Target::Map(_) | Target::Kernel(_) | Target::Object => return None,
        };
        Some((0, i64::try_from(size).unwrap_or(i64::MAX)))
    }

    /// Why an access is not allowed anywhere in the object.
    fn forbidden(&self, pointer: Pointer, access: Access) -> Option<String> {
        let offset = pointer.offset.low.saturating_add(access.offset);
        let is_fixed = pointer.offset.low == pointer.offset.high;
        match pointer.target {
            Target::Arguments(_) if access.writes => {
                Some("the arguments of a callback cannot be written".to_owned())
            }
            Target::Map(map) if access.writes => Some(format!(
                "map {} is written as if it were a value",
                self.object.maps()[map].name
            )),
            Target::Section(slot) if access.writes && self.is_constant(slot) => {
                Some(format!("{} is constant and cannot be written", self.name(pointer.target)))
            }
            Target::Kernel(type_id) if access.writes => {
                let structure = self.structure(type_id)?;
                let allowed = is_fixed && self.linker.may_write(structure, offset, access.size);
                (!allowed).then(|| format!("this part of struct {structure} cannot be written"))
            }
            Target::MapValue(_) | Target::Section(_) if is_fixed => {
                self.special(pointer.target, offset, access)
            }
            _ => None,
        }
    }

    /// The fault of an access that touches a field of the kernel.
    fn special(&self, target: Target, offset: i64, access: Access) -> Option<String> {
        let end = offset.saturating_add_unsigned(access.size);
        let field = self.special_fields(target).iter().find(|field| {
            let start = field.offset.cast_signed();
            start < end && offset < start.saturating_add_unsigned(field.size)
        })?;
        let what = match &field.kind {
            SpecialKind::Pointer { .. } if !access.writes => return None,
            SpecialKind::Pointer { .. } => "a pointer that the kernel counts".to_owned(),
            SpecialKind::Structure(name) if access.writes => format!("struct {name}"),
            SpecialKind::Collection { name, .. } if access.writes => format!("struct {name}"),
            _ => return None,
        };
        Some(format!("{what} cannot be written"))
    }

    /// The type that the kernel pointer at a fixed offset of a value points to.
    pub(super) fn kernel_pointer(&self, pointer: Pointer, offset: i64) -> Option<TypeId> {
        let offset = pointer.offset.low.checked_add(offset)?;
        let field = self
            .special_fields(pointer.target)
            .iter()
            .find(|field| field.offset.cast_signed() == offset)?;
        match &field.kind {
            SpecialKind::Pointer { target, tag } if tag != "percpu_kptr" && tag != "uptr" => {
                Some(*target)
            }
            _ => None,
        }
    }

    /// How messages refer to an object.
    pub(super) fn name(&self, target: Target) -> String {
        match target {
            Target::Arguments(_) => "the callback's arguments".to_owned(),
            Target::Stack => "the stack".to_owned(),
            Target::Section(slot) => match self.section(slot) {
                Some(section) => format!("the global variables in {}", section.name),
                None => "the global variables".to_owned(),
            },
            Target::Map(map) => format!("map {}", self.object.maps()[map].name),
            Target::MapValue(map) => format!("a value of map {}", self.object.maps()[map].name),
            Target::Memory(_) => "the memory".to_owned(),
            Target::Kernel(type_id) => match self.structure(type_id) {
                Some(name) => format!("the pointer to struct {name}"),
                None => "the kernel's pointer".to_owned(),
            },
            Target::Object => "the object".to_owned(),
        }
    }
}
