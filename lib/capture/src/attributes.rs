//! The scheduling attributes that a loader sets for its threads: kept here, because these threads are tasks of the simulation.

use std::io;

use fairground_bpf::ThreadAttributes;

use crate::process::{self, Answer, Call};
use crate::tree::Tree;

/// The system calls that are answered here.
pub(crate) const CALLS: &[i64] = &[
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
    libc::SYS_setpriority,
    libc::SYS_getpriority,
    libc::SYS_mlock,
    libc::SYS_mlockall,
];

/// `SCHED_RESET_ON_FORK`.
const RESET_ON_FORK: u32 = 0x4000_0000;

/// Carries out one of [`CALLS`] for a thread with these attributes on this machine; `None` if it is not one of them.
pub(crate) fn carry_out(
    call: &Call,
    attributes: &mut ThreadAttributes,
    machine: &Tree,
) -> Option<io::Result<Answer>> {
    let [_, second, third, ..] = call.arguments;
    Some(match call.number {
        libc::SYS_sched_getaffinity => affinity(call, attributes, machine),
        libc::SYS_sched_setaffinity => set_affinity(call, attributes, machine.cpus()),
        libc::SYS_sched_setscheduler => process::read_word(call.thread, third).map(|priority| {
            attributes.policy = second as u32 & !RESET_ON_FORK;
            attributes.priority = priority;
            Answer::Value(0)
        }),
        libc::SYS_sched_setparam => process::read_word(call.thread, second).map(|priority| {
            attributes.priority = priority;
            Answer::Value(0)
        }),
        libc::SYS_sched_getscheduler => Ok(Answer::Value(i64::from(attributes.policy))),
        libc::SYS_sched_setattr => process::read(call.thread, second, 24).map(|bytes| {
            let word = |at: usize| {
                let bytes = bytes.get(at..at + 4).and_then(|part| part.try_into().ok());
                bytes.map_or(0, u32::from_le_bytes)
            };
            attributes.policy = word(4);
            attributes.nice = word(16).cast_signed();
            attributes.priority = word(20);
            Answer::Value(0)
        }),
        libc::SYS_setpriority => {
            attributes.nice = (third as i32).clamp(-20, 19);
            Ok(Answer::Value(0))
        }
        libc::SYS_getpriority => Ok(Answer::Value(i64::from(20 - attributes.nice))),
        // Memory is always resident.
        libc::SYS_mlock | libc::SYS_mlockall => Ok(Answer::Value(0)),
        _ => return None,
    })
}

/// A kernel reports the CPUs that are online among those that a thread may use.
fn affinity(call: &Call, attributes: &ThreadAttributes, machine: &Tree) -> io::Result<Answer> {
    let [_, room, target, ..] = call.arguments;
    let cpus = machine.cpus();
    let mut bytes = vec![0_u8; cpus.div_ceil(64) * 8];
    let allowed = |cpu: usize| {
        let list = attributes.cpus.as_ref();
        machine.is_online(cpu) && list.is_none_or(|list| list.contains(&(cpu as u32)))
    };
    for cpu in (0..cpus).filter(|cpu| allowed(*cpu)) {
        bytes[cpu / 8] |= 1 << (cpu % 8);
    }
    if (room as usize) < bytes.len() {
        return Ok(Answer::Error(libc::EINVAL));
    }
    process::write(call.thread, target, &bytes)?;
    Ok(Answer::Value(bytes.len() as i64))
}

fn set_affinity(call: &Call, attributes: &mut ThreadAttributes, cpus: usize) -> io::Result<Answer> {
    let [_, length, source, ..] = call.arguments;
    let bytes = process::read(call.thread, source, (length as usize).min(1024))?;
    let set = (0..bytes.len() * 8).filter(|cpu| bytes[cpu / 8] >> (cpu % 8) & 1 == 1);
    let list: Vec<u32> = set.filter(|cpu| *cpu < cpus).map(|cpu| cpu as u32).collect();
    if list.is_empty() {
        return Ok(Answer::Error(libc::EINVAL));
    }
    attributes.cpus = (list.len() < cpus).then_some(list);
    Ok(Answer::Value(0))
}
