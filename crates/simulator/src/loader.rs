//! A loader's actions in the simulated kernel: map entries, and programs that it runs before the scheduler is attached, afterwards,
//! and at intervals of virtual time. The loader's own CPU time is not simulated; that of its programs is.

use fairground_bpf::{MapEntry, NewMap, ProgramRun, RunTime};
use fairground_events::OverheadKind;

use crate::clock::Due;
use crate::constants::{EINVAL, ENOMEM};
use crate::kernel::Kernel;
use crate::maps::Map;

/// Writes an entry, with a value for each CPU if the map has per-CPU values.
fn write_entry(map: &mut Map, key: &[u8], values: &[Vec<u8>]) -> Result<(), i64> {
    for (cpu, value) in values.iter().enumerate() {
        map.update(key.as_ptr() as u64, value.as_ptr() as u64, 0, cpu)?;
    }
    Ok(())
}

impl Kernel<'_> {
    /// The loader's actions before it attaches the scheduler. `false` if it would give up.
    pub(crate) fn load(&mut self) -> bool {
        self.write_entries() && self.run_once(RunTime::BeforeAttach) && self.await_attachment()
    }

    /// Writes the loader's entries into the maps. `false` if it would give up.
    pub(crate) fn write_entries(&mut self) -> bool {
        let setup = self.settings.setup.clone();
        for entry in &setup.entries {
            if let Err(errno) = self.fill(entry) {
                let map = &self.memory.maps[entry.map].name;
                self.programs.failure = Some(format!(
                    "{}: an entry of map {map} cannot be written (-{errno})",
                    entry.place
                ));
                return false;
            }
        }
        true
    }

    fn fill(&mut self, entry: &MapEntry) -> Result<(), i64> {
        match &entry.inner {
            Some(new) => self.fill_with_map(entry.map, &entry.key, new),
            None => write_entry(&mut self.memory.maps[entry.map], &entry.key, &entry.values),
        }
    }

    /// Puts a new map into a map of maps.
    pub(crate) fn fill_with_map(
        &mut self,
        map: usize,
        key: &[u8],
        new: &NewMap,
    ) -> Result<(), i64> {
        let definition = &self.scheduler.object.maps()[map];
        let mut inner = *definition.inner.clone().ok_or(EINVAL)?;
        inner.max_entries = new.max_entries;
        let mut inner = Map::new(&inner, map, self.cpus.len()).map_err(|_| ENOMEM)?;
        for (key, values) in &new.entries {
            write_entry(&mut inner, key, values)?;
        }
        let address = self.memory.maps.add(inner);
        self.memory.maps[map].put_map(key, address)
    }

    /// The loader's actions once the scheduler is attached.
    pub(crate) fn begin_loader(&mut self) {
        if !self.run_once(RunTime::AfterAttach) {
            return;
        }
        let setup = self.settings.setup.clone();
        let load = self.restarts.all.len() as u32;
        for (number, run) in setup.runs.iter().enumerate() {
            if let (RunTime::Every(interval), false) = (run.time, run.follows) {
                let run = number as u32;
                self.clock.at(self.clock.now() + interval, Due::Loader { run, load });
            }
        }
    }

    /// Runs the programs that are due at this time, at no cost: the machine is idle. `false` if the loader would give up.
    fn run_once(&mut self, time: RunTime) -> bool {
        let setup = self.settings.setup.clone();
        let mut before = Vec::new();
        for run in setup.runs.iter().filter(|run| run.time == time) {
            self.enter(run.cpu);
            let ran = self.run_loader_program(run, &mut before);
            self.deliver_kicks(run.cpu);
            self.forget_costs();
            if !ran {
                return false;
            }
        }
        true
    }

    /// Makes a run at an interval that is due, if the scheduler has not been unloaded since the loader began with it.
    pub(crate) fn handle_loader(&mut self, number: u32, load: u32, due: Due) {
        if load as usize != self.restarts.all.len() {
            return;
        }
        let setup = self.settings.setup.clone();
        let number = number as usize;
        let first = &setup.runs[number];
        if self.postponed(first.cpu, due) {
            return;
        }
        if let RunTime::Every(interval) = first.time {
            self.clock.at(self.clock.now() + interval, due);
        }
        self.interrupt(first.cpu);
        self.cpus[first.cpu].account_progress(self.clock.now());
        let followers = setup.runs[number + 1..].iter().take_while(|run| run.follows);
        let mut before = Vec::new();
        for run in std::iter::once(first).chain(followers) {
            if !self.run_loader_program(run, &mut before) {
                break;
            }
        }
        self.settle(OverheadKind::Interrupt);
        self.leave(OverheadKind::Scheduling);
    }

    /// Runs one program; `before` is the context that the previous one left, and is replaced by that of this one.
    fn run_loader_program(&mut self, run: &ProgramRun, before: &mut Vec<u8>) -> bool {
        let Some(entry) = self.scheduler.code.entry(&run.program) else {
            self.programs.failure =
                Some(format!("{}: program {} was not loaded", run.place, run.program));
            return false;
        };
        // Aligned like the kernel's copy of a context.
        let mut words = vec![0_u64; run.context.len().div_ceil(8).max(1)];
        // SAFETY: the vector is at least as long as the context; any bytes are valid.
        let context = unsafe {
            std::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), run.context.len())
        };
        context.copy_from_slice(&run.context);
        for passed in &run.passed {
            if let Some(bytes) = before.get(passed.from..passed.from + passed.size) {
                context[passed.to..passed.to + passed.size].copy_from_slice(bytes);
            }
        }
        let result = self.run_program(entry, [context.as_mut_ptr() as u64, 0, 0, 0, 0]) as i32;
        if self.exit.is_some() {
            return false;
        }
        if result != 0 {
            self.programs.failure = Some(format!(
                "{}: program {} returned {result}, with which its loader gives up",
                run.place, run.program
            ));
            return false;
        }
        for (offset, bytes) in &run.writes {
            let mut address = [0; 8];
            address.copy_from_slice(&context[*offset..*offset + 8]);
            if !self.write_to_arena(u64::from_le_bytes(address), bytes) {
                self.programs.failure = Some(format!(
                    "{}: program {} left no address in the arena to write to",
                    run.place, run.program
                ));
                return false;
            }
        }
        before.clear();
        before.extend_from_slice(context);
        true
    }

    fn write_to_arena(&mut self, address: u64, bytes: &[u8]) -> bool {
        let arena = self.memory.arena.as_mut();
        match arena.and_then(|arena| arena.memory(address, bytes.len())) {
            Some(memory) => {
                memory.copy_from_slice(bytes);
                true
            }
            None => false,
        }
    }
}
