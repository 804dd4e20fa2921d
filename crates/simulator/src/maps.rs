//! BPF maps. Storage never moves: schedulers keep pointers into it.

use std::collections::{BTreeSet, VecDeque};
use std::ops::{Index, IndexMut};

use fairground_bpf::{ArrayHead, MapOperation, map_kind as kind};
use indexmap::IndexMap;

use crate::dsq_table::FixedState;
use crate::elements::Elements;
use crate::kfunc::{copy, load, read_bytes, write_bytes};
use crate::prefixes::{Prefixes, is_key};

const BPF_NOEXIST: u64 = 1;
const BPF_EXIST: u64 = 2;
const BPF_F_LOCK: u64 = 4;
const BPF_F_NO_PREALLOC: u32 = 1;

/// Error numbers that map operations return, positive.
pub type Errno = i64;

const ENOENT: Errno = crate::constants::ENOENT;
const E2BIG: Errno = crate::constants::E2BIG;
const EEXIST: Errno = crate::constants::EEXIST;
const EINVAL: Errno = crate::constants::EINVAL;
const ENOSPC: Errno = crate::constants::ENOSPC;
const EOPNOTSUPP: Errno = crate::constants::EOPNOTSUPP;

/// A value removed from its map. The running program may keep using it until it ends, as under RCU.
pub type Retired = Box<[u64]>;

/// Maximum memory that one map may take when it is created.
const LARGEST: usize = 1 << 30;

/// Where a map keeps its values.
pub enum Store {
    /// One value per index; in a per-CPU array, all values of one CPU precede those of the next.
    Array(Box<[u64]>),
    /// Values by key.
    Hash(Elements),
    /// Values by key and CPU, one after the other.
    PerCpuHash(Elements),
    /// Values by prefixes of their keys.
    Prefixes(Prefixes),
    /// The values that a Bloom filter was given. It takes no others for one of them, as a kernel's seldom does.
    Filter(BTreeSet<Box<[u8]>>),
    /// First in first out, or last in first out.
    Queue(VecDeque<Box<[u8]>>),
    /// Records for a reader that does not exist: counted, then dropped.
    Records {
        /// Records submitted.
        submitted: u64,
        /// Records reserved and not yet submitted, by address.
        reserved: Vec<Box<[u64]>>,
    },
    /// Values kept with their tasks.
    Task,
    /// Values by cgroup.
    Cgroup(Vec<Option<Box<[u64]>>>),
    /// Slots for performance counters, which do not exist here.
    Counters,
    /// Other maps by index; 0 is none.
    Maps(Box<[u64]>),
    /// Other maps by key.
    HashOfMaps(IndexMap<Box<[u8]>, u64, FixedState>),
    /// Memory shared by address; kept by the kernel.
    Arena,
}

/// A map. Its size is a power of two, so that an array of them is searched fast. The code of a scheduler knows its beginning.
#[repr(C, align(256))]
pub struct Map {
    /// Where an array has its values; a map of another kind has none here.
    head: ArrayHead,
    /// Its name in the object.
    pub name: String,
    /// Number among the object's maps; inner maps share their outer map's.
    pub number: usize,
    /// Type number.
    pub kind: u32,
    /// Key size in bytes.
    pub key_size: usize,
    /// Value size in bytes.
    pub value_size: usize,
    /// Capacity.
    pub max_entries: usize,
    /// CPUs of the machine.
    pub cpus: usize,
    words: usize,
    /// Values.
    pub store: Store,
}

/// All maps of a simulation. Schedulers hold their addresses.
pub struct Maps {
    /// Those of the object, in its order. They are together, so that an address is found fast.
    own: Box<[Map]>,
    /// Those that the loader puts into maps of maps, by their addresses.
    added: IndexMap<u64, Box<Map>, FixedState>,
}

impl Maps {
    /// The maps of an object.
    pub fn new(own: Vec<Map>) -> Maps {
        Maps { own: own.into(), added: IndexMap::default() }
    }

    /// Adds a map that is not one of the object's; returns its address.
    pub fn add(&mut self, map: Map) -> u64 {
        let map = Box::new(map);
        let address = &raw const *map as u64;
        self.added.insert(address, map);
        address
    }

    /// The place of the map at `address`, if there is one there.
    #[inline(always)]
    pub fn find(&self, address: u64) -> Option<usize> {
        self.find_own(address).or_else(|| self.find_added(address))
    }

    /// The same for the maps of the object only.
    #[inline(always)]
    pub fn find_own(&self, address: u64) -> Option<usize> {
        const { assert!(size_of::<Map>().is_power_of_two()) };
        let size = size_of::<Map>() as u64;
        let offset = address.wrapping_sub(self.own.as_ptr() as u64);
        let place = (offset / size) as usize;
        (offset.is_multiple_of(size) && place < self.own.len()).then_some(place)
    }

    #[cold]
    fn find_added(&self, address: u64) -> Option<usize> {
        let place = self.added.get_index_of(&address)?;
        Some(self.own.len() + place)
    }

    /// The object's maps in their order.
    pub fn own(&self) -> &[Map] {
        &self.own
    }

    /// All maps.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut Map> {
        let added = self.added.values_mut().map(|map| &mut **map);
        self.own.iter_mut().chain(added)
    }
}

impl Index<usize> for Maps {
    type Output = Map;
    #[inline]
    fn index(&self, place: usize) -> &Map {
        let own = self.own.get(place);
        own.unwrap_or_else(|| &self.added[place - self.own.len()])
    }
}

impl IndexMut<usize> for Maps {
    #[inline]
    fn index_mut(&mut self, place: usize) -> &mut Map {
        let count = self.own.len();
        let own = self.own.get_mut(place);
        own.unwrap_or_else(|| &mut self.added[place - count])
    }
}

impl Map {
    /// An empty map, or the reason why there cannot be one.
    pub fn new(
        definition: &fairground_bpf::Map,
        number: usize,
        cpus: usize,
    ) -> Result<Map, String> {
        let value_size = definition.value_size as usize;
        let max_entries = definition.max_entries as usize;
        if memory_for(definition, cpus).is_none_or(|size| size > LARGEST) {
            return Err(format!(
                "map {} is larger than the {} MiB that the simulator gives to one map",
                definition.name,
                LARGEST >> 20
            ));
        }
        if definition.kind == kind::LPM_TRIE && definition.flags & BPF_F_NO_PREALLOC == 0 {
            return Err(format!(
                "map {} is of type BPF_MAP_TYPE_LPM_TRIE, which a kernel refuses without the flag BPF_F_NO_PREALLOC",
                definition.name
            ));
        }
        let words = words(value_size);
        let zeros = |count: usize| vec![0; count].into_boxed_slice();
        let mut store = match definition.kind {
            kind::ARRAY => Store::Array(zeros(words * max_entries)),
            kind::PERCPU_ARRAY => Store::Array(zeros(words * max_entries * cpus)),
            kind::HASH | kind::LRU_HASH => Store::Hash(Elements::default()),
            kind::PERCPU_HASH | kind::LRU_PERCPU_HASH => Store::PerCpuHash(Elements::default()),
            kind::LPM_TRIE => Store::Prefixes(Prefixes::default()),
            kind::BLOOM_FILTER => Store::Filter(BTreeSet::new()),
            kind::QUEUE | kind::STACK => Store::Queue(VecDeque::new()),
            kind::RINGBUF | kind::USER_RINGBUF => {
                Store::Records { submitted: 0, reserved: Vec::new() }
            }
            kind::TASK_STORAGE => Store::Task,
            kind::CGROUP_STORAGE => Store::Cgroup(Vec::new()),
            kind::ARRAY_OF_MAPS => Store::Maps(zeros(max_entries)),
            kind::HASH_OF_MAPS => Store::HashOfMaps(IndexMap::default()),
            kind::PERF_EVENT_ARRAY => Store::Counters,
            kind::ARENA => Store::Arena,
            other => {
                return Err(format!(
                    "map {} is of type {}, which the simulator does not have",
                    definition.name,
                    kind::name(other)
                ));
            }
        };
        let counts = !matches!(
            definition.kind,
            kind::TASK_STORAGE | kind::CGROUP_STORAGE | kind::PERF_EVENT_ARRAY | kind::ARENA
        );
        if counts && max_entries == 0 {
            return Err(format!(
                "map {0} has room for nothing, which a kernel refuses; \
                 give it a max_entries in the source, or set map.{0}.max_entries as its loader does",
                definition.name
            ));
        }
        let head = match &mut store {
            Store::Array(values) => ArrayHead {
                elements: values.as_mut_ptr() as u64,
                count: u64::from(definition.max_entries),
                stride: words as u64 * 8,
                cpu_stride: match definition.kind {
                    kind::PERCPU_ARRAY => words as u64 * 8 * u64::from(definition.max_entries),
                    _ => 0,
                },
            },
            _ => ArrayHead::default(),
        };
        Ok(Map {
            head,
            name: definition.name.clone(),
            number,
            kind: definition.kind,
            key_size: definition.key_size as usize,
            value_size,
            max_entries,
            cpus,
            words,
            store,
        })
    }

    /// Whether it is an array, also one for each CPU.
    pub fn is_array(&self) -> bool {
        matches!(self.store, Store::Array(_))
    }

    /// Words from the values of one CPU to those of the next; 0 if all CPUs share them.
    fn cpu_stride(&self) -> usize {
        self.head.cpu_stride as usize / 8
    }

    fn key(&self, address: u64) -> Box<[u8]> {
        read_bytes(address, self.key_size).into()
    }

    fn index(&self, address: u64) -> usize {
        load::<u32>(address) as usize
    }

    /// Address of the value for the key at `key`, seen from `cpu`; 0 if there is none.
    #[inline]
    pub fn lookup(&mut self, key: u64, cpu: usize) -> u64 {
        if !self.is_array() {
            return self.lookup_by_key(key, cpu);
        }
        let (head, index) = (self.head, u64::from(load::<u32>(key)));
        if index >= head.count {
            return 0;
        }
        assert!(cpu < self.cpus || head.cpu_stride == 0, "no CPU {cpu}");
        head.elements + cpu as u64 * head.cpu_stride + index * head.stride
    }

    /// The same for maps that are not arrays. Separate, so that the most frequent look-ups stay short.
    #[inline(never)]
    fn lookup_by_key(&mut self, key: u64, cpu: usize) -> u64 {
        if let Store::Maps(maps) = &self.store {
            return maps.get(self.index(key)).copied().unwrap_or(0);
        }
        let key = match self.store {
            Store::Hash(_) | Store::PerCpuHash(_) | Store::HashOfMaps(_) | Store::Prefixes(_) => {
                self.key(key)
            }
            _ => return 0,
        };
        match &mut self.store {
            Store::Prefixes(values) => {
                values.longest(&key).map_or(0, |value| value.as_mut_ptr() as u64)
            }
            Store::Hash(values) => {
                values.get_mut(&key).map_or(0, |value| value.as_mut_ptr() as u64)
            }
            Store::PerCpuHash(values) => values
                .get_mut(&key)
                .map_or(0, |value| value[cpu * self.words..].as_mut_ptr() as u64),
            Store::HashOfMaps(maps) => maps.get(&key).copied().unwrap_or(0),
            _ => 0,
        }
    }

    /// Sets the value for the key at `key` from the bytes at `value`. Returns the value removed from the map in its favour: hash maps replace
    /// elements, and LRU maps make room.
    pub fn update(
        &mut self,
        key: u64,
        value: u64,
        flags: u64,
        cpu: usize,
    ) -> Result<Option<Retired>, Errno> {
        let (value_size, words, cpus) = (self.value_size, self.words, self.cpus);
        let mut retired = None;
        match self.kind {
            kind::ARRAY | kind::PERCPU_ARRAY => {
                if self.index(key) >= self.max_entries {
                    return Err(E2BIG);
                }
                if flags & BPF_NOEXIST != 0 {
                    return Err(EEXIST);
                }
            }
            kind::HASH | kind::LRU_HASH | kind::PERCPU_HASH | kind::LRU_PERCPU_HASH => {
                let owned = self.key(key);
                let lru = matches!(self.kind, kind::LRU_HASH | kind::LRU_PERCPU_HASH);
                let per_cpu = matches!(self.kind, kind::PERCPU_HASH | kind::LRU_PERCPU_HASH);
                let (Store::Hash(values) | Store::PerCpuHash(values)) = &mut self.store else {
                    return Err(EINVAL);
                };
                if let Some(old) = values.get_mut(&owned) {
                    if flags & BPF_NOEXIST != 0 {
                        return Err(EEXIST);
                    }
                    // Of a per-CPU element, the kernel writes this CPU's part in place.
                    if !per_cpu && flags & BPF_F_LOCK == 0 {
                        retired = Some(std::mem::replace(old, vec![0; words].into_boxed_slice()));
                    }
                } else {
                    if flags & BPF_EXIST != 0 {
                        return Err(ENOENT);
                    }
                    if values.len() >= self.max_entries {
                        if !lru {
                            return Err(E2BIG);
                        }
                        retired = values.remove_oldest();
                    }
                    let size = if per_cpu { words * cpus } else { words };
                    values.push(owned, vec![0; size].into_boxed_slice());
                }
            }
            kind::LPM_TRIE => {
                let owned = self.key(key);
                return self.update_prefix(&owned, value, flags);
            }
            _ => return Err(EINVAL),
        }
        let target = self.lookup(key, cpu);
        if target != 0 {
            // The scheduler may pass the value itself.
            copy(value, target, value_size);
        }
        Ok(retired)
    }

    /// The same for a map of prefixes, whose elements are replaced as those of hash maps are.
    fn update_prefix(
        &mut self,
        key: &[u8],
        value: u64,
        flags: u64,
    ) -> Result<Option<Retired>, Errno> {
        let (size, words, room) = (self.value_size, self.words, self.max_entries);
        let Store::Prefixes(values) = &mut self.store else {
            return Err(EINVAL);
        };
        if !is_key(key) || flags > BPF_EXIST {
            return Err(EINVAL);
        }
        let is_there = values.get_mut(key).is_some();
        match () {
            () if is_there && flags == BPF_NOEXIST => return Err(EEXIST),
            () if !is_there && flags == BPF_EXIST => return Err(ENOENT),
            () if !is_there && values.len() >= room => return Err(ENOSPC),
            () => {}
        }
        let mut new = vec![0; words].into_boxed_slice();
        copy(value, new.as_mut_ptr() as u64, size);
        Ok(values.insert(key, new))
    }

    /// Puts the map at `address` into this map of maps.
    pub fn put_map(&mut self, key: &[u8], address: u64) -> Result<(), Errno> {
        let full = self.max_entries;
        match &mut self.store {
            Store::Maps(maps) => {
                let index = key.try_into().map(u32::from_le_bytes).map_err(|_| EINVAL)?;
                *maps.get_mut(index as usize).ok_or(E2BIG)? = address;
            }
            Store::HashOfMaps(maps) if maps.len() < full || maps.contains_key(key) => {
                maps.insert(key.into(), address);
            }
            Store::HashOfMaps(_) => return Err(E2BIG),
            _ => return Err(EINVAL),
        }
        Ok(())
    }

    /// Removes the value for the key at `key`.
    pub fn delete(&mut self, key: u64) -> Result<Retired, Errno> {
        let key = match self.store {
            Store::Hash(_) | Store::PerCpuHash(_) | Store::Prefixes(_) => self.key(key),
            _ => return Err(EINVAL),
        };
        if let Store::Prefixes(values) = &mut self.store {
            return values.remove(&key).ok_or(ENOENT);
        }
        let (Store::Hash(values) | Store::PerCpuHash(values)) = &mut self.store else {
            return Err(EINVAL);
        };
        values.remove(&key).ok_or(ENOENT)
    }

    /// Carries out a system call's operation on the map, except [`MapOperation::Insert`]. Returns the value or key that was asked for, and the value
    /// removed from the map.
    pub fn operate(
        &mut self,
        operation: &MapOperation,
    ) -> Result<(Vec<u8>, Option<Retired>), Errno> {
        let is_queue = matches!(self.store, Store::Queue(_));
        let (MapOperation::LookUp(key)
        | MapOperation::Take(key)
        | MapOperation::Delete(key)
        | MapOperation::Update { key, .. }
        | MapOperation::Insert { key, .. }
        | MapOperation::NextKey(Some(key))) = operation
        else {
            let first = self.keys().into_iter().next().ok_or(ENOENT)?;
            return Ok((first.into_vec(), None));
        };
        if key.len() != self.key_size {
            return Err(EINVAL);
        }
        let at = key.as_ptr() as u64;
        match operation {
            MapOperation::LookUp(_) | MapOperation::Take(_) if is_queue => {
                let mut value = vec![0; self.value_size];
                let remove = matches!(operation, MapOperation::Take(_));
                self.pop(value.as_mut_ptr() as u64, remove)?;
                Ok((value, None))
            }
            MapOperation::LookUp(_) => Ok((self.values(at)?, None)),
            MapOperation::Take(_) => {
                let value = self.values(at)?;
                Ok((value, Some(self.delete(at)?)))
            }
            MapOperation::Delete(_) => Ok((Vec::new(), Some(self.delete(at)?))),
            MapOperation::Insert { .. } => Err(EINVAL),
            MapOperation::NextKey(_) => {
                let keys = self.keys();
                let place = keys.iter().position(|one| **one == **key);
                let next = keys.into_iter().nth(place.map_or(0, |place| place + 1));
                Ok((next.ok_or(ENOENT)?.into_vec(), None))
            }
            MapOperation::Update { value, flags, .. } => {
                let stride = self.words * 8;
                let copies = if self.is_per_cpu() { self.cpus } else { 1 };
                if value.len() < stride * (copies - 1) + self.value_size {
                    return Err(EINVAL);
                }
                if is_queue || matches!(self.store, Store::Filter(_)) {
                    self.push(value.as_ptr() as u64, *flags)?;
                    return Ok((Vec::new(), None));
                }
                let mut retired = None;
                for cpu in 0..copies {
                    let flags = if cpu == 0 { *flags } else { 0 };
                    let from = value[cpu * stride..].as_ptr() as u64;
                    retired = retired.or(self.update(at, from, flags, cpu)?);
                }
                Ok((Vec::new(), retired))
            }
        }
    }

    fn is_per_cpu(&self) -> bool {
        matches!(self.kind, kind::PERCPU_ARRAY | kind::PERCPU_HASH | kind::LRU_PERCPU_HASH)
    }

    /// The value for the key at `key` as a system call returns it: if each CPU has its own, those of all CPUs, each rounded up to 8 bytes.
    fn values(&mut self, key: u64) -> Result<Vec<u8>, Errno> {
        if !matches!(
            self.store,
            Store::Array(_) | Store::Hash(_) | Store::PerCpuHash(_) | Store::Prefixes(_)
        ) {
            return Err(EINVAL);
        }
        let (copies, size) = match self.is_per_cpu() {
            true => (self.cpus, self.words * 8),
            false => (1, self.value_size),
        };
        let mut bytes = Vec::with_capacity(copies * size);
        for cpu in 0..copies {
            let value = self.lookup(key, cpu);
            if value == 0 {
                return Err(ENOENT);
            }
            // SAFETY: values are whole words, so that `size` bytes are there.
            bytes
                .extend_from_slice(unsafe { std::slice::from_raw_parts(value as *const u8, size) });
        }
        Ok(bytes)
    }

    /// The keys that an iteration over the map visits, as bytes, in order.
    pub fn keys(&self) -> Vec<Box<[u8]>> {
        match &self.store {
            Store::Array(_) => (0..self.max_entries as u32)
                .map(|index| index.to_le_bytes().to_vec().into_boxed_slice())
                .collect(),
            Store::Hash(values) | Store::PerCpuHash(values) => {
                values.iter().map(|(key, _)| key.clone()).collect()
            }
            Store::Prefixes(values) => values.keys().collect(),
            _ => Vec::new(),
        }
    }

    /// The key under which the value that contains `address` is kept.
    pub fn key_of_value(&mut self, address: u64) -> Option<Box<[u8]>> {
        let size = (self.words * 8) as u64;
        match &mut self.store {
            Store::Array(values) if self.head.cpu_stride == 0 => {
                let offset = address.checked_sub(values.as_ptr() as u64)?;
                let index = offset / size.max(1);
                (index < self.max_entries as u64)
                    .then(|| (index as u32).to_le_bytes().to_vec().into_boxed_slice())
            }
            Store::Hash(values) => values.key_at(address).map(Box::from),
            _ => None,
        }
    }

    /// Adds a value to a queue, stack or Bloom filter.
    pub fn push(&mut self, value: u64, flags: u64) -> Result<(), Errno> {
        let bytes = read_bytes(value, self.value_size).into();
        let (full, exist) = (self.max_entries, flags & BPF_EXIST != 0);
        if let Store::Filter(values) = &mut self.store {
            if flags != 0 {
                return Err(EINVAL);
            }
            values.insert(bytes);
            return Ok(());
        }
        let Store::Queue(queue) = &mut self.store else {
            return Err(EINVAL);
        };
        if queue.len() >= full {
            if !exist {
                return Err(E2BIG);
            }
            queue.pop_front();
        }
        queue.push_back(bytes);
        Ok(())
    }

    /// Copies the next value of a queue or stack to `target`, and removes it if `remove`. Of a Bloom filter, it tells whether the value at
    /// `target` is there.
    pub fn pop(&mut self, target: u64, remove: bool) -> Result<(), Errno> {
        let last_first = self.kind == kind::STACK;
        if let Store::Filter(values) = &self.store {
            let value = read_bytes(target, self.value_size);
            return match values.contains(&value[..]) {
                _ if remove => Err(EOPNOTSUPP),
                true => Ok(()),
                false => Err(ENOENT),
            };
        }
        let Store::Queue(queue) = &mut self.store else {
            return Err(EINVAL);
        };
        let value = if last_first { queue.back() } else { queue.front() }.ok_or(ENOENT)?;
        write_bytes(target, value.len(), value);
        if remove {
            if last_first {
                queue.pop_back()
            } else {
                queue.pop_front()
            };
        }
        Ok(())
    }

    /// The values of an array, as words; none if it is not an array of one copy for all CPUs.
    pub fn records(&self) -> impl Iterator<Item = &[u64]> {
        let values: &[u64] = match &self.store {
            Store::Array(values) if self.cpu_stride() == 0 => values,
            _ => &[],
        };
        values.chunks(self.words.max(1))
    }

    /// The 64-bit counters of an array, each summed over the CPUs; none if it is not an array.
    pub fn counters(&self) -> Vec<u64> {
        let Store::Array(values) = &self.store else {
            return Vec::new();
        };
        let of_cpu =
            |cpu: usize| &values[cpu * self.cpu_stride()..][..self.max_entries * self.words];
        if self.cpu_stride() == 0 && self.words == 1 {
            return of_cpu(0).to_vec();
        }
        let copies = if self.cpu_stride() == 0 { 1 } else { self.cpus };
        (0..self.max_entries)
            .map(|index| (0..copies).map(|cpu| of_cpu(cpu)[index * self.words]).sum())
            .collect()
    }
}

/// Bytes that a kernel allocates when it creates this map; `None` if the number overflows.
fn memory_for(definition: &fairground_bpf::Map, cpus: usize) -> Option<usize> {
    let value = words(definition.value_size as usize).max(1) * 8;
    let key = definition.key_size as usize;
    let grows = definition.flags & BPF_F_NO_PREALLOC != 0;
    let element = match definition.kind {
        kind::RINGBUF | kind::USER_RINGBUF => 1,
        kind::ARRAY | kind::ARRAY_OF_MAPS | kind::QUEUE | kind::STACK => value,
        kind::PERCPU_ARRAY => value.checked_mul(cpus)?,
        kind::PERCPU_HASH | kind::LRU_PERCPU_HASH if !grows => value.checked_mul(cpus)? + key,
        kind::HASH | kind::LRU_HASH | kind::HASH_OF_MAPS if !grows => value + key,
        _ => return Some(value),
    };
    element.checked_mul(definition.max_entries as usize)
}

/// 64-bit words that a value takes.
pub fn words(bytes: usize) -> usize {
    bytes.div_ceil(8)
}
