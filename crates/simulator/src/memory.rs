//! The memory that a simulation gives its scheduler: maps, global variables, an arena.

use fairground_bpf::{Context, InitialValue, NULL_PAGE, NullPage, Prepared, Slot, Stack, map_kind};

use crate::beside::LoaderBeside;
use crate::cost::CostModel;
use crate::kfunc::arena::Arena;
use crate::maps::{Map, Maps, Store, words};
use crate::scheduler::{LoadError, Scheduler};

/// The memory that the scheduler's code addresses. It never moves, because code and values hold addresses in it.
pub struct Memory {
    /// The maps, in the order of the object.
    pub maps: Maps,
    /// The arena, if the object has one.
    pub arena: Option<Arena>,
    /// The global variables, by section.
    _sections: Vec<Box<[u64]>>,
    /// Where the code finds maps and sections.
    slots: Vec<*mut u8>,
    /// Bytes of the sections in the same order; 0 for a map.
    slot_sizes: Vec<u64>,
    /// For the stacks of functions.
    stack: Stack,
    /// The memory that a kernel's loads read where they find none. On the heap, where addresses are the same in every run.
    zeros: Box<NullPage>,
}

impl Memory {
    /// Memory of a scheduler as it was `prepared`, on a machine with so many CPUs. Sections and an arena that a loader shares are in the loader's memory.
    pub fn new(
        scheduler: &Scheduler,
        prepared: &Prepared,
        cpus: usize,
        mut companion: Option<&mut LoaderBeside>,
    ) -> Result<Self, LoadError> {
        let (mut maps, mut arena) = maps(scheduler, prepared, cpus, companion.as_deref_mut())?;
        let mut sections = Vec::new();
        let mut places = Vec::new();
        let known = scheduler.object.sections().iter();
        for (number, (section, bytes)) in known.zip(&prepared.sections).enumerate() {
            let mut memory = section_memory(bytes);
            let place = match (&mut arena, section.name.as_str()) {
                (Some(arena), ".addr_space.1") => {
                    let offset = arena.place(bytes).ok_or_else(|| {
                        let message =
                            "the arena is too small for the scheduler's global variables in it";
                        LoadError::Map(message.into())
                    })?;
                    arena.user(offset) as *mut u8
                }
                _ => {
                    let shared = companion.as_mut().and_then(|one| one.section(number, bytes));
                    shared.unwrap_or(memory.as_mut_ptr().cast())
                }
            };
            sections.push(memory);
            places.push((place, bytes.len() as u64));
        }
        let slots = scheduler.object.slots().into_iter();
        let (slots, slot_sizes) = slots
            .map(|slot| match slot {
                Slot::Map(number) => ((&raw mut maps[number]).cast(), 0),
                Slot::Section(number) => places[number],
            })
            .unzip();
        Ok(Self {
            maps,
            arena,
            _sections: sections,
            slots,
            slot_sizes,
            stack: Stack::new(),
            zeros: Box::new(NULL_PAGE),
        })
    }

    /// The address of a page of zeros.
    pub fn zeros(&self) -> u64 {
        self.zeros.as_ptr() as u64
    }

    /// The context with which the code is called, on a machine with so many CPUs. It points into this memory.
    pub fn context(&mut self, cpus: usize, cost: &CostModel) -> Context {
        let arena = self.arena.as_mut();
        let (arena, arena_user) =
            arena.map_or((std::ptr::null_mut(), 0), |arena| (arena.base(), arena.user(0)));
        Context {
            kernel: std::ptr::null_mut(),
            instructions: 0,
            instruction_limit: u64::MAX,
            arena,
            arena_user,
            null_page: &raw const NULL_PAGE,
            stack: self.stack.top(),
            slots: self.slots.as_ptr(),
            slot_sizes: self.slot_sizes.as_ptr(),
            cpu: 0,
            cpus,
            spent: 0,
            call_cost: cost.kfunc,
            null_accesses: 0,
            null_access_place: 0,
        }
    }
}

/// The maps of the object, and its arena.
fn maps(
    scheduler: &Scheduler,
    prepared: &Prepared,
    cpus: usize,
    mut companion: Option<&mut LoaderBeside>,
) -> Result<(Maps, Option<Arena>), LoadError> {
    let definitions = scheduler.object.maps();
    let mut maps = Vec::new();
    let mut arena = None;
    for (number, definition) in definitions.iter().enumerate() {
        let mut definition = definition.clone();
        definition.max_entries = prepared.map_entries[number];
        if definition.kind == map_kind::ARENA {
            let pages = definition.max_entries as usize;
            let loader = companion.as_deref_mut();
            arena = Some(Arena::new(pages, loader).map_err(LoadError::Map)?);
        }
        let map = Map::new(&definition, number, cpus).map_err(LoadError::Map)?;
        maps.push(map);
    }
    let mut maps = Maps::new(maps);
    // Maps of maps get the maps that the object names.
    for (number, definition) in definitions.iter().enumerate() {
        for (index, value) in &definition.initial {
            if let InitialValue::Map(inner) = value {
                let address = &raw const maps[*inner] as u64;
                if let Store::Maps(slots) = &mut maps[number].store
                    && let Some(slot) = slots.get_mut(*index as usize)
                {
                    *slot = address;
                }
            }
        }
    }
    Ok((maps, arena))
}

/// Memory with these bytes at its beginning.
fn section_memory(bytes: &[u8]) -> Box<[u64]> {
    let mut memory = vec![0u64; words(bytes.len()).max(1)].into_boxed_slice();
    for (word, chunk) in memory.iter_mut().zip(bytes.chunks(8)) {
        let mut padded = [0; 8];
        padded[..chunk.len()].copy_from_slice(chunk);
        *word = u64::from_le_bytes(padded);
    }
    memory
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fairground_machine::Machine;

    use super::*;
    use crate::simulation::Options;

    #[test]
    fn every_scheduler_begins_with_what_was_prepared() {
        for scheduler in fairground_catalog::all() {
            let loaded = Scheduler::load_object(scheduler.parse().unwrap(), None).unwrap();
            for machine in ["1", "numa:2 l3:1 core:2 pu:2"] {
                let options = Options::new(Machine::parse(machine).unwrap(), Arc::default());
                let cpus = options.machine.cpus.len();
                let prepared = loaded.prepared(&options).unwrap();
                let memory = Memory::new(&loaded, &prepared, cpus, None).unwrap();
                let entries = memory.maps.own().iter().map(|map| map.max_entries as u32);
                assert_eq!(entries.collect::<Vec<_>>(), prepared.map_entries);
                let first = memory.slots.len() - prepared.sections.len();
                for (number, bytes) in prepared.sections.iter().enumerate() {
                    let (place, size) = (memory.slots[first + number], bytes.len());
                    assert_eq!(memory.slot_sizes[first + number], size as u64);
                    // SAFETY: the memory of a section is at least as long as its bytes, and nothing runs.
                    let held = unsafe { std::slice::from_raw_parts(place, size) };
                    assert_eq!(held, bytes, "{}, section {number}", scheduler.id());
                }
            }
        }
    }
}
