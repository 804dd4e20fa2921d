//! The BPF programs that watch the scheduler, attached while they are held.

use std::ffi::OsStr;

use libbpf_rs::{
    AsRawLibbpf as _, Link, MapCore as _, MapFlags, MapHandle, Object, ObjectBuilder, OpenMapMut,
    RingBuffer,
};

use crate::Error;
use crate::libbpf_messages::collect;

/// An object whose programs are attached while this lives.
pub(crate) struct Program {
    links: Vec<Link>,
    object: Object,
}

impl Program {
    /// Loads the first of `variants` that this kernel accepts and attaches those of its programs that are `wanted`; `prepare` sees its maps
    /// first. If the kernel accepts none, the error is that of the first.
    pub(crate) fn load(
        name: &str,
        variants: &[&[u8]; 2],
        wanted: fn(&str) -> bool,
        prepare: impl Fn(&mut OpenMapMut<'_>) -> libbpf_rs::Result<()>,
    ) -> Result<Self, Error> {
        let [usual, other] = variants;
        Self::load_one(name, usual, wanted, &prepare)
            .or_else(|failure| Self::load_one(name, other, wanted, &prepare).map_err(|_| failure))
    }

    fn load_one(
        name: &str,
        program: &[u8],
        wanted: fn(&str) -> bool,
        prepare: &impl Fn(&mut OpenMapMut<'_>) -> libbpf_rs::Result<()>,
    ) -> Result<Self, Error> {
        let (loaded, messages) = collect(|| {
            let mut open = ObjectBuilder::default().name(name)?.open_memory(program)?;
            for mut map in open.maps_mut() {
                prepare(&mut map)?;
            }
            let object = open.load()?;
            let links = object
                .progs_mut()
                .filter(|program| program.name().to_str().is_some_and(wanted))
                .map(|program| program.attach())
                .collect::<Result<_, _>>()?;
            Ok::<_, libbpf_rs::Error>(Self { links, object })
        });
        loaded.map_err(|error| failed(&format!("{error}{}", cause(&messages.concat()))))
    }

    /// Detaches all programs; their records can still be read.
    pub(crate) fn detach(&mut self) {
        self.links.clear();
    }

    /// The map whose name ends in `end`: libbpf puts the object's name before the names of its sections.
    pub(crate) fn map(&self, end: &str) -> Result<MapHandle, Error> {
        let map = self.object.maps().find(|map| ends(map.name(), end));
        map.ok_or_else(|| failed(&format!("it has no map {end}")))
            .and_then(|map| MapHandle::try_from(&map).map_err(|error| failed(&error.to_string())))
    }

    /// How much was lost so far because the buffer was full; the program's first variable.
    pub(crate) fn lost(&self) -> u64 {
        self.map(".bss")
            .ok()
            .and_then(|map| map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).ok()?)
            .and_then(|bytes| Some(u64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?)))
            .unwrap_or(0)
    }
}

/// Whether a name ends in `end`.
pub(crate) fn ends(name: &OsStr, end: &str) -> bool {
    name.to_string_lossy().ends_with(end)
}

/// Bytes of unread records in the only buffer of `ring`.
pub(crate) fn waiting(ring: &RingBuffer<'_>) -> usize {
    // SAFETY: the pointer is that of a live ring buffer manager, and its buffer lives as long.
    unsafe {
        let buffer = libbpf_sys::ring_buffer__ring(ring.as_libbpf_object().as_ptr(), 0);
        if buffer.is_null() {
            usize::MAX
        } else {
            usize::try_from(libbpf_sys::ring__avail_data_size(buffer)).unwrap_or(usize::MAX)
        }
    }
}

pub(crate) fn failed(reason: &str) -> Error {
    Error::Record { reason: reason.to_owned() }
}

/// The one line of libbpf's messages that says why, in brackets: the verifier's summary, or its last line before its statistics, or else the
/// first message.
fn cause(messages: &str) -> String {
    let lines: Vec<&str> =
        messages.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let summary = lines.iter().find_map(|line| line.strip_prefix("Verification failed: "));
    let statistics = lines.iter().position(|line| line.starts_with("processed "));
    let last = match statistics {
        Some(place) if place > 0 => lines.get(place - 1),
        _ => lines.first(),
    };
    let line = summary.or(last.map(|line| line.trim_start_matches("libbpf: ")));
    line.map_or_else(String::new, |line| format!(" ({line})"))
}

#[cfg(test)]
mod tests {
    use super::cause;

    #[test]
    fn a_failure_is_told_in_one_line() {
        let messages = "libbpf: prog 'record_waking': BPF program load failed: -ENOENT\n\
            libbpf: prog 'record_waking': -- BEGIN PROG LOAD LOG --\n\
            ldimm64 failed to find the address for kernel symbol '__preempt_count'.\n\
            processed 0 insns (limit 1000000) max_states_per_insn 0 total_states 0\n\
            -- END PROG LOAD LOG --\n";
        assert_eq!(
            cause(messages),
            " (ldimm64 failed to find the address for kernel symbol '__preempt_count'.)"
        );
        let messages = "libbpf: prog 'record_switch': -- BEGIN PROG LOAD LOG --\n\
            R2 pointer arithmetic with >>= operator prohibited\n\n\
            Verification failed: Register Type Safety: Invalid pointer arithmetic operator\n\n\
            Suggestion:\n  Use only supported operations.\n\nprocessed 455 insns (limit 1000000)\n";
        assert_eq!(cause(messages), " (Register Type Safety: Invalid pointer arithmetic operator)");
        assert_eq!(cause("libbpf: no BTF\nlibbpf: no object\n"), " (no BTF)");
        assert_eq!(cause(""), "");
    }
}
