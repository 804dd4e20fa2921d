//! Topological CPU ids (`cid.c`): the position of every CPU in an order in which cores, caches and nodes are ranges, and masks of such ids.

use crate::constants::{SCX_CID_SHARD_MAX_CPUS, SCX_CID_SHARD_SIZE_DFL};
use crate::structures::{CidTopology, CpuMask};
use crate::topology::Topology;

/// The topology of an id whose CPU has none: it was offline when the scheduler was loaded, or the scheduler has its own order.
pub const NO_TOPOLOGY: CidTopology = CidTopology {
    core_cid: -1,
    core_idx: -1,
    llc_cid: -1,
    llc_idx: -1,
    node_cid: -1,
    node_idx: -1,
    shard_cid: -1,
    shard_idx: -1,
};

/// The ids of a machine's CPUs.
#[derive(Default)]
pub struct Cids {
    /// CPU of each id.
    pub to_cpu: Vec<usize>,
    /// Id of each CPU.
    pub of_cpu: Vec<usize>,
    /// Core, cache, node and shard of each id.
    pub topology: Vec<CidTopology>,
    /// Whether the scheduler may use them: `ops.init_cids` has returned.
    pub published: bool,
    /// Arena address of one mask of ids per CPU, used to tell the scheduler which CPUs a task may use, and one of the online CPUs; 0 if there are none.
    pub masks: u64,
}

impl Cids {
    /// The kernel's order (`scx_cid_init`): node by node, cache by cache, core by core, then the offline CPUs. Caches are divided into shards
    /// of about `shard_size` ids; 0 stands for the kernel's own size.
    pub fn new(topology: &Topology, online: &CpuMask, shard_size: u32) -> Cids {
        let count = topology.node_of.len();
        let mut order = Order {
            cids: Cids { of_cpu: vec![usize::MAX; count], ..Cids::default() },
            limit: match shard_size {
                0 => SCX_CID_SHARD_SIZE_DFL,
                size => size,
            },
            cores: 0,
            shards: 0,
        };
        let mut caches = 0;
        let mut to_walk = *online;
        for node_idx in 0.. {
            let Some(first) = to_walk.first() else { break };
            let node_cid = order.next();
            let node = &topology.nodes[topology.node_of[first]];
            while let Some(first) = to_walk.first_common(node) {
                let cache = topology.caches[topology.cache_of[first]].common(node);
                let cache = cache.common(&to_walk);
                let place = CidTopology {
                    llc_cid: order.next(),
                    llc_idx: caches,
                    node_cid,
                    node_idx,
                    ..NO_TOPOLOGY
                };
                order.add_cache(topology, &cache, place);
                caches += 1;
                for cpu in cache.iter() {
                    to_walk.clear(cpu);
                }
            }
        }
        order.add_offline(count);
        order.cids
    }

    /// Takes over the scheduler's own order (`scx_bpf_cid_override`). An error, in the kernel's words, leaves everything unchanged.
    pub fn replace(&mut self, of_cpu: &[i32], shards: &[i32]) -> Result<(), String> {
        let count = self.of_cpu.len();
        check_shards(shards, count)?;
        let mut to_cpu = vec![usize::MAX; count];
        for (cpu, &cid) in of_cpu.iter().enumerate() {
            let place = usize::try_from(cid).ok().and_then(|cid| to_cpu.get_mut(cid));
            let place = place.ok_or_else(|| format!("invalid cid {cid}"))?;
            if *place != usize::MAX {
                return Err(format!("cid {cid} assigned to multiple cpus"));
            }
            *place = cpu;
        }
        self.to_cpu = to_cpu;
        self.of_cpu = of_cpu.iter().map(|&cid| cid as usize).collect();
        for (shard_idx, &shard_cid) in shards.iter().enumerate() {
            for place in &mut self.topology[shard_cid as usize..] {
                *place = CidTopology { shard_cid, shard_idx: shard_idx as i32, ..NO_TOPOLOGY };
            }
        }
        Ok(())
    }
}

fn check_shards(shards: &[i32], count: usize) -> Result<(), String> {
    let first = shards[0];
    if first != 0 {
        return Err(format!("scx_bpf_cid_override: shard_start[0] must be 0, got {first}"));
    }
    for (number, pair) in shards.windows(2).enumerate() {
        if pair[1] <= pair[0] {
            return Err(format!(
                "scx_bpf_cid_override: shard_start not increasing at [{}]",
                number + 1
            ));
        }
        if pair[1] as usize >= count {
            return Err(format!(
                "scx_bpf_cid_override: shard_start[{}]={} >= {count}",
                number + 1,
                pair[1]
            ));
        }
    }
    let ends = shards[1..].iter().copied().chain([count as i32]);
    for (number, (start, end)) in shards.iter().zip(ends).enumerate() {
        if end - start > SCX_CID_SHARD_MAX_CPUS as i32 {
            return Err(format!(
                "scx_bpf_cid_override: shard[{number}] span {} exceeds max {SCX_CID_SHARD_MAX_CPUS}",
                end - start
            ));
        }
    }
    Ok(())
}

/// The order while it is being built.
struct Order {
    cids: Cids,
    /// Number of ids that a shard should have.
    limit: u32,
    cores: i32,
    shards: i32,
}

impl Order {
    fn next(&self) -> i32 {
        self.cids.to_cpu.len() as i32
    }

    fn add(&mut self, cpu: usize, place: CidTopology) {
        self.cids.of_cpu[cpu] = self.cids.to_cpu.len();
        self.cids.to_cpu.push(cpu);
        self.cids.topology.push(place);
    }

    /// Adds the CPUs of a cache, with its cores spread evenly over as few shards as hold them.
    fn add_cache(&mut self, topology: &Topology, cache: &CpuMask, mut place: CidTopology) {
        let cores = cores_of(topology, cache);
        let shards = cache.weight().div_ceil(self.limit.min(SCX_CID_SHARD_MAX_CPUS)) as usize;
        let (small, larger) = (cores.len() / shards, cores.len() % shards);
        let most = self.limit.min(SCX_CID_SHARD_MAX_CPUS) as usize;
        let (mut shard, mut cores_here, mut cids_here) = (0, 0, 0);
        for core in &cores {
            let full = cores_here >= small + usize::from(shard < larger);
            if cores_here > 0 && (full || cids_here + core.len() > most) {
                shard += 1;
                (cores_here, cids_here) = (0, 0);
            }
            if cores_here == 0 {
                place.shard_cid = self.next();
                place.shard_idx = self.shards;
                self.shards += 1;
            }
            cores_here += 1;
            cids_here += core.len();
            place.core_cid = self.next();
            place.core_idx = self.cores;
            self.cores += 1;
            for &cpu in core {
                self.add(cpu, place);
            }
        }
    }

    /// Adds the remaining CPUs, which were not online.
    fn add_offline(&mut self, count: usize) {
        let most = self.limit.min(SCX_CID_SHARD_MAX_CPUS) as usize;
        let left: Vec<usize> =
            (0..count).filter(|&cpu| self.cids.of_cpu[cpu] == usize::MAX).collect();
        for shard in left.chunks(most) {
            let place =
                CidTopology { shard_cid: self.next(), shard_idx: self.shards, ..NO_TOPOLOGY };
            self.shards += 1;
            for &cpu in shard {
                self.add(cpu, place);
            }
        }
    }
}

/// The CPUs of a cache by core, cores and CPUs in ascending order.
fn cores_of(topology: &Topology, cache: &CpuMask) -> Vec<Vec<usize>> {
    let mut left = *cache;
    let mut cores = Vec::new();
    while let Some(first) = left.first() {
        let core: Vec<usize> = left.common(&topology.siblings[first]).iter().collect();
        for &cpu in &core {
            left.clear(cpu);
        }
        cores.push(core);
    }
    cores
}

/// Bytes before the words of a mask of ids (`struct scx_cmask`): its base, its length, its number of words, and padding.
pub const HEADER: usize = 16;

/// 64-bit words that a mask of `count` ids has (`SCX_CMASK_NR_WORDS`).
pub fn mask_words(count: usize) -> usize {
    count.div_ceil(64) + 1
}

/// Bytes of a mask of all ids of a machine with `count` CPUs.
pub fn mask_size(count: usize) -> usize {
    HEADER + 8 * mask_words(count)
}

/// A mask of all ids of a machine as it is laid out in memory, containing those for which `is_set` holds.
pub fn mask_bytes(count: usize, is_set: impl Fn(usize) -> bool) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(mask_size(count));
    for word in [0, count as u32, mask_words(count) as u32, 0] {
        bytes.extend(word.to_le_bytes());
    }
    for word in 0..mask_words(count) {
        let ids = word * 64..count.min(word * 64 + 64);
        let bits = ids.filter(|&id| is_set(id)).fold(0_u64, |bits, id| bits | 1 << (id % 64));
        bytes.extend(bits.to_le_bytes());
    }
    bytes
}

/// A number of a mask's header.
fn field(mask: &[u8], number: usize) -> Option<usize> {
    let bytes = mask.get(number * 4..number * 4 + 4)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
}

/// Length in bytes of the mask with that header, up to its last id; `None` if it is not a mask of a machine with `count` CPUs.
pub fn mask_length(header: &[u8], count: usize) -> Option<usize> {
    let (base, length, words) = (field(header, 0)?, field(header, 1)?, field(header, 2)?);
    let fits = base < count && length <= count - base && mask_words(length) <= words;
    fits.then(|| HEADER + 8 * mask_words(length))
}

/// Sets or clears all ids of a mask in memory whose header [`mask_length`] has approved. `false` if memory is missing.
pub fn fill_mask(mask: &mut [u8], count: usize, set: bool) -> bool {
    let (Some(base), Some(length)) = (field(mask, 0), field(mask, 1)) else {
        return false;
    };
    for id in base..count.min(base + length) {
        let Some(byte) = mask.get_mut(HEADER + id / 8 - base / 64 * 8) else {
            return false;
        };
        *byte = *byte & !(1 << (id % 8)) | u8::from(set) << (id % 8);
    }
    true
}
