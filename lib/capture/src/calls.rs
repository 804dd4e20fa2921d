//! bpf(2) as far as loaders use it before they attach: maps, programs, types and links that exist only here.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use fairground_bpf::{BpfCall, MapOperation, NewMap, Object, TypeKind, map_kind};

use crate::maps::{Map, STRUCT_OPS, by_cpu, holds_maps, is_per_cpu};
use crate::process::{self, Answer};
use crate::trials;

/// `enum bpf_cmd`.
mod command {
    pub const MAP_CREATE: u64 = 0;
    pub const LOOK_UP: u64 = 1;
    pub const UPDATE: u64 = 2;
    pub const DELETE: u64 = 3;
    pub const NEXT_KEY: u64 = 4;
    pub const PROG_LOAD: u64 = 5;
    pub const RUN: u64 = 10;
    pub const PROG_GET_NEXT_ID: u64 = 11;
    pub const MAP_GET_NEXT_ID: u64 = 12;
    pub const PROG_GET_FD_BY_ID: u64 = 13;
    pub const MAP_GET_FD_BY_ID: u64 = 14;
    pub const OBJ_GET_INFO_BY_FD: u64 = 15;
    pub const RAW_TRACEPOINT_OPEN: u64 = 17;
    pub const BTF_LOAD: u64 = 18;
    pub const BTF_GET_FD_BY_ID: u64 = 19;
    pub const TAKE: u64 = 21;
    pub const MAP_FREEZE: u64 = 22;
    pub const BTF_GET_NEXT_ID: u64 = 23;
    pub const LINK_CREATE: u64 = 28;
    pub const LINK_GET_FD_BY_ID: u64 = 30;
    pub const LINK_GET_NEXT_ID: u64 = 31;
    pub const PROG_BIND_MAP: u64 = 35;
    pub const PROG_ASSOC_STRUCT_OPS: u64 = 38;

    /// Commands on elements of maps.
    pub const ON_ELEMENTS: [u64; 5] = [LOOK_UP, UPDATE, DELETE, NEXT_KEY, TAKE];
}

/// Memory that a loader shares with a kernel.
pub struct Memory {
    /// Its content.
    pub place: Place,
    /// The memory.
    pub file: File,
}

/// The content of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Global variables: the section of the object with this number.
    Section(usize),
    /// The arena, which the loader has mapped at this address.
    Arena(u64),
}

/// Where a kernel's answer to a call goes.
pub(crate) struct Ask {
    /// Address for the value, the key or the context.
    pub target: u64,
    /// Address for the value that a program returned, if one ran.
    pub returned: Option<u64>,
}

/// `enum bpf_attach_type`.
const STRUCT_OPS_ATTACH: u32 = 44;
const UPROBE_MULTI_ATTACH: u32 = 48;
/// `BPF_F_LINK`: the table is attached through its own link.
const LINK_FLAG: u32 = 1 << 13;
/// Objects of this process are recognised by the names of their files.
pub(crate) const PREFIX: &str = "fairground-capture:";

const PAGE: u64 = 4096;

enum Thing {
    Map(Map),
    /// A program by its name.
    Program {
        name: String,
        kind: u32,
    },
    Types(Vec<u8>),
    Link,
}

struct Entry {
    file: File,
    thing: Thing,
    /// Whether it belongs to the scheduler before the one that is being loaded.
    is_former: bool,
}

impl Entry {
    fn as_map(&self) -> Option<&Map> {
        match &self.thing {
            Thing::Map(map) => Some(map),
            _ => None,
        }
    }
}

/// One run of a program.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub program: String,
    pub context: Vec<u8>,
    pub after_attach: bool,
    pub cpu: usize,
}

/// The objects that the loader has created so far.
pub(crate) struct State {
    things: BTreeMap<u32, Entry>,
    next: u32,
    pub cpus: usize,
    /// Programs of the object that were loaded.
    pub loaded: Vec<String>,
    /// Programs that were run.
    pub runs: Vec<Run>,
    /// Map whose table of callbacks is attached.
    attached: Option<u32>,
    /// CPU to which the loader has bound itself.
    pub cpu: usize,
    /// Contents of arrays, by number, at the time when a kernel took over.
    handed_over: Option<BTreeMap<u32, Vec<u8>>>,
    /// Whether the scheduler has been unloaded, and the loader has not begun to load it again.
    unloaded: bool,
}

/// A call for which the scheduler has to be in a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// It runs one of its programs.
    Run,
    /// It attaches the scheduler.
    Attach,
}

/// The arguments of a bpf(2) call.
struct Attributes([u8; 256]);

impl Attributes {
    fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }

    fn long(&self, at: usize) -> u64 {
        u64::from(self.word(at)) | u64::from(self.word(at + 4)) << 32
    }

    fn name(&self, at: usize) -> String {
        let bytes = &self.0[at..at + 16];
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(16);
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }
}

impl State {
    pub(crate) fn new(cpus: usize) -> Self {
        Self {
            things: BTreeMap::new(),
            next: 1,
            cpus,
            loaded: Vec::new(),
            runs: Vec::new(),
            attached: None,
            cpu: 0,
            handed_over: None,
            unloaded: false,
        }
    }

    /// Whether the maps belong to a kernel.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.handed_over.is_some()
    }

    /// The scheduler has been unloaded, and may be loaded again.
    pub(crate) fn unload(&mut self) {
        self.attached = None;
        self.unloaded = true;
    }

    /// Begins anew with the first map of a scheduler that is loaded again; its maps are kept here until a kernel takes over.
    fn begin_anew(&mut self) {
        self.unloaded = false;
        self.handed_over = None;
        self.loaded.clear();
        self.runs.clear();
        for entry in self.things.values_mut() {
            entry.is_former = true;
        }
    }

    /// What a call needs of a kernel that has the scheduler.
    pub(crate) fn need(
        &self,
        thread: i32,
        arguments: &[u64; 6],
        object: &Object,
    ) -> io::Result<Option<Need>> {
        let [command, address, size, ..] = *arguments;
        if ![command::RUN, command::LINK_CREATE, command::UPDATE].contains(&command) {
            return Ok(None);
        }
        let a = attributes(thread, address, size)?;
        let number = self.number_of(thread, a.word(0));
        let entry = number.and_then(|number| self.things.get(&number));
        let is_table = |map: &Map| map.kind == STRUCT_OPS;
        Ok(match (command, entry.map(|entry| &entry.thing)) {
            (command::RUN, Some(Thing::Program { name, .. })) => {
                object.programs().iter().any(|one| one.name == *name).then_some(Need::Run)
            }
            (command::LINK_CREATE, _) if a.word(8) == STRUCT_OPS_ATTACH => Some(Need::Attach),
            (command::UPDATE, Some(Thing::Map(map))) if is_table(map) => {
                (map.flags & LINK_FLAG == 0).then_some(Need::Attach)
            }
            _ => None,
        })
    }

    /// Keeps the present result of [`maps`](Self::maps): from here on the maps belong to a kernel.
    pub(crate) fn hand_over(&mut self) {
        let contents = self.things.iter().filter_map(|(number, entry)| match &entry.thing {
            Thing::Map(map) => Some((*number, map.contents(&entry.file).unwrap_or_default())),
            _ => None,
        });
        self.handed_over = Some(contents.collect());
    }

    /// The attached table, as the kernel would have received it.
    pub(crate) fn table(&self) -> Option<&[u8]> {
        Some(&self.inner_map(self.attached?)?.table)
    }

    /// The table of callbacks that a call is about to attach.
    pub(crate) fn note_table(&mut self, thread: i32, arguments: &[u64; 6]) -> io::Result<()> {
        let [command, address, size, ..] = *arguments;
        let a = attributes(thread, address, size)?;
        if let Some(number) = self.number_of(thread, a.word(0)) {
            if command == command::UPDATE {
                let length = self.inner_map(number).map_or(0, |map| map.value_size);
                let value = process::read(thread, a.long(16), length as usize)?;
                if let Some((map, _)) = self.map(thread, a.word(0)) {
                    map.table = value;
                }
            }
            self.attached = Some(number);
        }
        Ok(())
    }

    /// The maps in the order of their creation, with the contents of arrays.
    pub(crate) fn maps(&self) -> impl Iterator<Item = (&Map, io::Result<Vec<u8>>)> {
        let present = self.things.iter().filter(|(_, entry)| !entry.is_former);
        present.filter_map(|(number, entry)| {
            let map = entry.as_map()?;
            let kept = self.handed_over.as_ref().and_then(|kept| kept.get(number));
            Some((map, kept.map_or_else(|| map.contents(&entry.file), |kept| Ok(kept.clone()))))
        })
    }

    fn add(&mut self, thing: Thing, size: u64) -> io::Result<Answer> {
        let number = self.next;
        let file = process::memory(&format!("{PREFIX}{number}"), size)?;
        let descriptor = file.as_raw_fd();
        self.next += 1;
        let entry = Entry { file, thing, is_former: false };
        self.things.insert(number, entry);
        Ok(Answer::Shared(descriptor))
    }

    /// A map that takes the place of its predecessor in the scheduler before, if both share memory with a kernel: the kernel cannot get other
    /// memory once it runs. `None` if there is no such map.
    fn replace(&mut self, map: Map, size: u64, object: &Object) -> io::Result<Result<Answer, Map>> {
        let place = |map: &Map| match map.kind {
            map_kind::ARENA => map.definition(object).map(|one| one.name.as_str()),
            _ => map.section(object).map(|one| one.name.as_str()),
        };
        let is_predecessor = |entry: &&mut Entry| {
            let before = entry.as_map().and_then(place);
            entry.is_former && before.is_some() && before == place(&map)
        };
        let Some(entry) = self.things.values_mut().find(is_predecessor) else {
            return Ok(Err(map));
        };
        process::clear(&entry.file)?;
        let length = entry.file.metadata()?.len();
        entry.file.set_len(length.max(size))?;
        entry.thing = Thing::Map(map);
        entry.is_former = false;
        Ok(Ok(Answer::Shared(entry.file.as_raw_fd())))
    }

    /// The number of the thing behind a thread's descriptor.
    pub(crate) fn number_of(&self, thread: i32, descriptor: u32) -> Option<u32> {
        let link = std::fs::read_link(format!("/proc/{thread}/fd/{descriptor}")).ok()?;
        let name = link.to_str()?.strip_prefix("/memfd:")?.strip_prefix(PREFIX)?;
        let digits: String = name.chars().take_while(char::is_ascii_digit).collect();
        let number = digits.parse().ok()?;
        self.things.contains_key(&number).then_some(number)
    }

    /// The program that a call is to run.
    fn program(&self, thread: i32, a: &Attributes) -> Option<String> {
        match &self.things.get(&self.number_of(thread, a.word(0))?)?.thing {
            Thing::Program { name, .. } => Some(name.clone()),
            _ => None,
        }
    }

    fn map(&mut self, thread: i32, descriptor: u32) -> Option<(&mut Map, &File)> {
        let number = self.number_of(thread, descriptor)?;
        let entry = self.things.get_mut(&number)?;
        match &mut entry.thing {
            Thing::Map(map) => Some((map, &entry.file)),
            _ => None,
        }
    }

    /// The memory that `process`, the loader, shares with a kernel: the object's sections of global variables, in files that are at least
    /// as long, and its arena.
    pub(crate) fn memory(&self, process: i32, object: &Object) -> io::Result<Vec<Memory>> {
        let mut found = Vec::new();
        for (number, entry) in self.things.iter().filter(|(_, entry)| !entry.is_former) {
            let Some(map) = entry.as_map() else { continue };
            if map.kind == map_kind::ARENA && map.definition(object).is_some() {
                let address = process::address_of(process, &format!("{PREFIX}{number}"))?;
                if let Some(address) = address {
                    found.push(Memory {
                        place: Place::Arena(address),
                        file: entry.file.try_clone()?,
                    });
                }
                continue;
            }
            let Some(section) = map.section(object) else { continue };
            let place = object.sections().iter().position(|one| one.name == section.name);
            let length = section.size.next_multiple_of(PAGE).max(entry.file.metadata()?.len());
            entry.file.set_len(length)?;
            if let Some(place) = place {
                found.push(Memory { place: Place::Section(place), file: entry.file.try_clone()? });
            }
        }
        Ok(found)
    }

    /// The request that a call makes of the kernel that has the scheduler: an operation on one of its maps or programs.
    pub(crate) fn ask(
        &mut self,
        thread: i32,
        arguments: &[u64; 6],
        object: &Object,
    ) -> io::Result<Option<(BpfCall, Ask)>> {
        let [command, address, size, ..] = *arguments;
        let a = attributes(thread, address, size)?;
        if command == command::RUN {
            return self.ask_for_run(thread, address, &a, object);
        }
        // Other commands have something else in place of the key.
        if !command::ON_ELEMENTS.contains(&command) {
            return Ok(None);
        }
        let cpus = self.cpus;
        let number = self.number_of(thread, a.word(0));
        let entry = number.and_then(|number| self.things.get(&number));
        let present = entry.filter(|entry| !entry.is_former);
        let Some(map) = present.and_then(Entry::as_map) else { return Ok(None) };
        let length = map.value_length(cpus);
        let Some(definition) = map.definition(object) else { return Ok(None) };
        let number = object.maps().iter().position(|one| one.name == definition.name);
        let key = match a.long(8) {
            0 => Vec::new(),
            at => process::read(thread, at, map.key_size as usize)?,
        };
        let operation = match command {
            command::LOOK_UP => MapOperation::LookUp(key),
            command::TAKE => MapOperation::Take(key),
            command::UPDATE if holds_maps(map.kind) => {
                let descriptor = process::read(thread, a.long(16), length)?;
                let inner = self.number_inside(thread, &descriptor);
                let Some(map) = inner.and_then(|number| self.new_map(number)) else {
                    return Ok(None);
                };
                MapOperation::Insert { key, map }
            }
            command::UPDATE => MapOperation::Update {
                key,
                value: process::read(thread, a.long(16), length)?,
                flags: a.long(24),
            },
            command::DELETE => MapOperation::Delete(key),
            command::NEXT_KEY => MapOperation::NextKey((!key.is_empty()).then_some(key)),
            _ => return Ok(None),
        };
        let ask = Ask { target: a.long(16), returned: None };
        Ok(number.map(|map| (BpfCall::Map { map, operation }, ask)))
    }

    fn ask_for_run(
        &mut self,
        thread: i32,
        address: u64,
        a: &Attributes,
        object: &Object,
    ) -> io::Result<Option<(BpfCall, Ask)>> {
        let known = |name: &String| object.programs().iter().any(|one| one.name == *name);
        let Some(program) = self.program(thread, a).filter(known) else { return Ok(None) };
        let context = context(thread, a)?;
        let ask = Ask { target: a.long(48), returned: Some(address + 4) };
        Ok(Some((BpfCall::Run { program, context }, ask)))
    }

    /// Answers a call.
    pub(crate) fn bpf(
        &mut self,
        thread: i32,
        arguments: &[u64; 6],
        object: &Object,
    ) -> io::Result<Answer> {
        let [command, address, size, ..] = *arguments;
        let a = &attributes(thread, address, size)?;
        match command {
            command::MAP_CREATE => self.make_map(a, object),
            command::LOOK_UP | command::TAKE => self.look_up(thread, a),
            command::UPDATE => self.update(thread, a),
            command::DELETE => self.delete(thread, a),
            command::NEXT_KEY => self.next_key(thread, a),
            command::PROG_LOAD => self.load_program(thread, a, object),
            command::RUN => self.run_program(thread, address, a, object),
            // There was nothing before, and there is nobody else.
            command::PROG_GET_NEXT_ID
            | command::MAP_GET_NEXT_ID
            | command::BTF_GET_NEXT_ID
            | command::LINK_GET_NEXT_ID => Ok(Answer::Error(libc::ENOENT)),
            command::PROG_GET_FD_BY_ID
            | command::MAP_GET_FD_BY_ID
            | command::BTF_GET_FD_BY_ID
            | command::LINK_GET_FD_BY_ID => Ok(self.by_number(a.word(0))),
            command::OBJ_GET_INFO_BY_FD => self.information(thread, address, a),
            command::RAW_TRACEPOINT_OPEN => self.add(Thing::Link, 0),
            command::BTF_LOAD => {
                let types = process::read(thread, a.long(0), a.word(16) as usize)?;
                self.add(Thing::Types(types), 0)
            }
            command::MAP_FREEZE => match self.map(thread, a.word(0)) {
                Some((map, _)) => {
                    map.frozen = true;
                    Ok(Answer::Value(0))
                }
                None => Ok(Answer::Error(libc::EBADF)),
            },
            command::LINK_CREATE => self.link(thread, a),
            command::PROG_BIND_MAP | command::PROG_ASSOC_STRUCT_OPS => Ok(Answer::Value(0)),
            _ => Ok(Answer::Error(libc::EINVAL)),
        }
    }

    fn by_number(&self, number: u32) -> Answer {
        match self.things.get(&number) {
            Some(entry) => Answer::Shared(entry.file.as_raw_fd()),
            None => Answer::Error(libc::ENOENT),
        }
    }

    fn make_map(&mut self, a: &Attributes, object: &Object) -> io::Result<Answer> {
        let (value_size, max_entries) = (u64::from(a.word(8)), u64::from(a.word(12)));
        let size = match a.word(0) {
            map_kind::ARRAY => value_size.next_multiple_of(8) * max_entries,
            map_kind::RINGBUF | map_kind::USER_RINGBUF => 2 * PAGE + 2 * max_entries,
            map_kind::ARENA => max_entries * PAGE,
            _ => 0,
        };
        let map = Map {
            name: a.name(28),
            kind: a.word(0),
            key_size: a.word(4),
            value_size: a.word(8),
            max_entries: a.word(12),
            flags: a.word(16),
            extra: a.long(64),
            value_type: a.word(56),
            types: a.word(48),
            kernel_value_type: a.word(60),
            frozen: false,
            entries: Vec::new(),
            table: Vec::new(),
        };
        let size = size.next_multiple_of(PAGE);
        let is_own = |map: &Map| map.definition(object).is_some() || map.section(object).is_some();
        if self.unloaded && is_own(&map) {
            self.begin_anew();
        }
        match self.replace(map, size, object)? {
            Ok(answer) => Ok(answer),
            Err(map) => self.add(Thing::Map(map), size),
        }
    }

    fn look_up(&mut self, thread: i32, a: &Attributes) -> io::Result<Answer> {
        let cpus = self.cpus;
        let Some((map, file)) = self.map(thread, a.word(0)) else {
            return Ok(Answer::Error(libc::EBADF));
        };
        let key = process::read(thread, a.long(8), map.key_size as usize)?;
        let known = map.entries.iter().find(|(known, _)| *known == key);
        let value = match (map.kind, known) {
            (map_kind::ARRAY, _) => map.element(file, index(&key))?,
            (_, Some((_, value))) => value.clone(),
            (map_kind::PERCPU_ARRAY, None) => {
                vec![0; (map.value_size as usize).next_multiple_of(8) * cpus]
            }
            _ => return Ok(Answer::Error(libc::ENOENT)),
        };
        process::write(thread, a.long(16), &value)?;
        Ok(Answer::Value(0))
    }

    fn update(&mut self, thread: i32, a: &Attributes) -> io::Result<Answer> {
        let Some(number) = self.number_of(thread, a.word(0)) else {
            return Ok(Answer::Error(libc::EBADF));
        };
        let Some(Entry { thing: Thing::Map(map), .. }) = self.things.get(&number) else {
            return Ok(Answer::Error(libc::EBADF));
        };
        let length = map.value_length(self.cpus);
        let (kind, frozen, key_size) = (map.kind, map.frozen, map.key_size as usize);
        if frozen {
            return Ok(Answer::Error(libc::EPERM));
        }
        let key = process::read(thread, a.long(8), key_size)?;
        let mut value = process::read(thread, a.long(16), length)?;
        if holds_maps(kind) {
            let Some(inner) = self.number_inside(thread, &value) else {
                return Ok(Answer::Error(libc::EBADF));
            };
            value = inner.to_le_bytes().to_vec();
        }
        let Some((map, file)) = self.map(thread, a.word(0)) else {
            return Ok(Answer::Error(libc::EBADF));
        };
        if map.kind == STRUCT_OPS {
            map.table = value;
            if map.flags & LINK_FLAG == 0 {
                self.attached = Some(number);
            }
            return Ok(Answer::Value(0));
        }
        if map.kind == map_kind::ARRAY {
            if index(&key) >= u64::from(map.max_entries) {
                return Ok(Answer::Error(libc::E2BIG));
            }
            let stride = u64::from(map.value_size).next_multiple_of(8);
            file.write_all_at(&value, index(&key) * stride)?;
        }
        match map.entries.iter_mut().find(|(known, _)| *known == key) {
            Some(known) => known.1 = value,
            None => map.entries.push((key, value)),
        }
        Ok(Answer::Value(0))
    }

    /// The number of a map that the loader puts into another by its descriptor.
    fn number_inside(&mut self, thread: i32, descriptor: &[u8]) -> Option<u32> {
        let descriptor = u32::from_le_bytes(descriptor.try_into().ok()?);
        self.map(thread, descriptor)?;
        self.number_of(thread, descriptor)
    }

    /// The map with this number.
    pub(crate) fn inner_map(&self, number: u32) -> Option<&Map> {
        match &self.things.get(&number)?.thing {
            Thing::Map(map) => Some(map),
            _ => None,
        }
    }

    /// The map with this number as it is now, as a new one inside another.
    fn new_map(&self, number: u32) -> Option<NewMap> {
        let map = self.inner_map(number)?;
        let values = |value: &[u8]| match is_per_cpu(map.kind) {
            true => by_cpu(map.value_size as usize, value).map(<[u8]>::to_vec).collect(),
            false => vec![value.to_vec()],
        };
        let entries = map.entries.iter();
        Some(NewMap {
            max_entries: map.max_entries,
            entries: entries.map(|(key, value)| (key.clone(), values(value))).collect(),
        })
    }

    fn delete(&mut self, thread: i32, a: &Attributes) -> io::Result<Answer> {
        let Some((map, _)) = self.map(thread, a.word(0)) else {
            return Ok(Answer::Error(libc::EBADF));
        };
        let key = process::read(thread, a.long(8), map.key_size as usize)?;
        let before = map.entries.len();
        map.entries.retain(|(known, _)| *known != key);
        Ok(match map.entries.len() < before {
            true => Answer::Value(0),
            false => Answer::Error(libc::ENOENT),
        })
    }

    fn next_key(&mut self, thread: i32, a: &Attributes) -> io::Result<Answer> {
        let Some((map, _)) = self.map(thread, a.word(0)) else {
            return Ok(Answer::Error(libc::EBADF));
        };
        let key = match a.long(8) {
            0 => None,
            address => Some(process::read(thread, address, map.key_size as usize)?),
        };
        let next = if matches!(map.kind, map_kind::ARRAY | map_kind::PERCPU_ARRAY) {
            let next = key.map_or(0, |key| index(&key) + 1);
            (next < u64::from(map.max_entries)).then(|| (next as u32).to_le_bytes().to_vec())
        } else {
            let place = key.and_then(|key| map.entries.iter().position(|(known, _)| *known == key));
            let next = place.map_or(0, |place| place + 1);
            map.entries.get(next).map(|(key, _)| key.clone())
        };
        let Some(next) = next else { return Ok(Answer::Error(libc::ENOENT)) };
        process::write(thread, a.long(16), &next)?;
        Ok(Answer::Value(0))
    }

    fn load_program(&mut self, thread: i32, a: &Attributes, object: &Object) -> io::Result<Answer> {
        let mut name = a.name(48);
        // The name is truncated; the types have the full one.
        if a.word(88) > 0 {
            let first = process::read(thread, a.long(80) + 4, 4)?;
            let id = index(&first) as usize;
            if let Some(one) = object.btf().types().get(id)
                && matches!(one.kind, TypeKind::Function { .. })
                && one.name.starts_with(&name)
            {
                name.clone_from(&one.name);
            }
        }
        let instructions = process::read(thread, a.long(8), a.word(4) as usize * 8)?;
        let is_own = object.programs().iter().any(|one| one.name == name);
        let refusal = trials::refusal(&name, &instructions).filter(|_| !is_own);
        let log = refusal.unwrap_or_default().to_bytes_with_nul();
        if a.long(32) != 0 && a.word(28) as usize >= log.len() {
            process::write(thread, a.long(32), log)?;
        }
        if refusal.is_some() {
            return Ok(Answer::Error(libc::EACCES));
        }
        if is_own {
            self.loaded.push(name.clone());
        }
        let kind = a.word(0);
        self.add(Thing::Program { name, kind }, 0)
    }

    fn run_program(
        &mut self,
        thread: i32,
        address: u64,
        a: &Attributes,
        object: &Object,
    ) -> io::Result<Answer> {
        let Some(program) = self.program(thread, a) else { return Ok(Answer::Error(libc::EBADF)) };
        let context = context(thread, a)?;
        process::write(thread, address + 4, &0_u32.to_le_bytes())?;
        // libbpf's own trial runs do not belong to the scheduler.
        if object.programs().iter().any(|one| one.name == program) {
            self.runs.push(Run {
                program,
                context,
                after_attach: self.attached.is_some(),
                cpu: self.cpu,
            });
        }
        Ok(Answer::Value(0))
    }

    fn link(&mut self, thread: i32, a: &Attributes) -> io::Result<Answer> {
        match a.word(8) {
            UPROBE_MULTI_ATTACH => return Ok(Answer::Error(libc::EBADF)),
            STRUCT_OPS_ATTACH => self.attached = self.number_of(thread, a.word(0)),
            _ => {}
        }
        self.add(Thing::Link, 0)
    }

    /// `BPF_OBJ_GET_INFO_BY_FD`.
    fn information(&mut self, thread: i32, address: u64, a: &Attributes) -> io::Result<Answer> {
        let (length, target) = (a.word(4) as usize, a.long(8));
        let Some(number) = self.number_of(thread, a.word(0)) else {
            return Ok(Answer::Error(libc::EBADF));
        };
        let mut bytes = [0_u8; 256];
        let mut put = |at: usize, word: u32| bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        let size = match &self.things[&number].thing {
            Thing::Map(map) => {
                let words =
                    [map.kind, number, map.key_size, map.value_size, map.max_entries, map.flags];
                for (place, word) in words.into_iter().enumerate() {
                    put(4 * place, word);
                }
                put(44, map.kernel_value_type);
                // Types are given by number, not by descriptor.
                put(64, u32::from(map.types != 0));
                put(72, map.value_type);
                put(80, map.extra as u32);
                put(84, (map.extra >> 32) as u32);
                let name = map.name.as_bytes();
                bytes[24..24 + name.len()].copy_from_slice(name);
                96
            }
            Thing::Program { name, kind } => {
                put(0, *kind);
                put(4, number);
                let name = &name.as_bytes()[..name.len().min(15)];
                bytes[64..64 + name.len()].copy_from_slice(name);
                232
            }
            Thing::Types(types) => {
                let given = process::read(thread, target, 16)?;
                let buffer = u64::from_le_bytes(given[..8].try_into().unwrap_or_default());
                let room = index(&given[8..12]) as usize;
                if buffer != 0 {
                    process::write(thread, buffer, &types[..types.len().min(room)])?;
                }
                put(0, buffer as u32);
                put(4, (buffer >> 32) as u32);
                put(8, types.len() as u32);
                put(12, number);
                32
            }
            Thing::Link => {
                put(0, 9);
                put(4, number);
                16
            }
        };
        let size = size.min(length);
        process::write(thread, target, &bytes[..size])?;
        process::write(thread, address + 4, &(size as u32).to_le_bytes())?;
        Ok(Answer::Value(0))
    }
}

/// What a call passes to the program that it runs.
fn context(thread: i32, a: &Attributes) -> io::Result<Vec<u8>> {
    match a.long(48) {
        0 => Ok(Vec::new()),
        at => process::read(thread, at, a.word(40) as usize),
    }
}

/// The arguments of a call.
fn attributes(thread: i32, address: u64, size: u64) -> io::Result<Attributes> {
    let mut attributes = Attributes([0; 256]);
    let given = process::read(thread, address, (size as usize).min(256))?;
    attributes.0[..given.len()].copy_from_slice(&given);
    Ok(attributes)
}

/// The number in a key of an array.
fn index(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let length = key.len().min(8);
    bytes[..length].copy_from_slice(&key[..length]);
    u64::from_le_bytes(bytes)
}
