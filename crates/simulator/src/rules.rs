//! The kernel's rules in which older releases of Linux differ from 7.3. Their functions and members are in the tables of `fairground-linux`, in
//! `constants.rs` and in `structures.rs`; everything that is named in none of them is simulated for all releases as in 7.3.

use std::sync::LazyLock;

use fairground_linux::Release;

use crate::constants::*;

/// Whether sched_ext has a deadline server, without which real-time tasks can keep its tasks from running for ever.
pub fn has_deadline_server(release: Release) -> bool {
    release >= Release::new(7, 0)
}

/// Whether `ops.dequeue()` tells of every task that the scheduler was given and no longer has, also when it has dispatched it itself, and whether
/// that is because a property of the task changes. Before, it only tells of tasks that the scheduler has not dispatched.
pub fn tells_of_custody(release: Release) -> bool {
    release >= Release::new(7, 1)
}

/// Whether the default choice of a CPU takes an idle sibling of the previous one before it looks for another idle CPU.
pub fn prefers_siblings(release: Release) -> bool {
    release >= Release::new(7, 1)
}

/// Whether, to functions that look at `SCX_DSQ_LOCAL`, it is the queue of the CPU whose run queue is locked, as for insertions, or that of the CPU
/// on which they are called.
pub fn local_is_locked(release: Release) -> bool {
    release >= Release::new(7, 3)
}

/// Whether an insertion from `ops.select_cpu()` or `ops.enqueue()` sets the task's slice only when the task gets to its queue, after the callback.
pub fn sets_slices_late(release: Release) -> bool {
    release >= Release::new(7, 3)
}

/// The rules of a release that are not those of the newest, in words.
pub fn differing(release: Release) -> impl Iterator<Item = &'static str> {
    let rules = [
        (tells_of_custody(release), "its rule when ops.dequeue() is called"),
        (has_deadline_server(release), "without a deadline server for sched_ext"),
        (prefers_siblings(release), "without preferring an idle sibling of the previous CPU"),
        (sets_slices_late(release), "with slices that an insertion sets at once"),
        (local_is_locked(release), "with SCX_DSQ_LOCAL as the queue of the CPU on which one asks"),
    ];
    rules.into_iter().filter(|(is_as_newest, _)| !is_as_newest).map(|(_, words)| words)
}

/// Flags for an insertion as the kernel's functions get them from a program, in 7.3's numbers. Those that a release does not know, it ignores.
#[cold]
pub fn from_program(flags: u64, release: Release) -> u64 {
    let mut known = flags;
    for one in ENQUEUE_FLAGS.iter() {
        let (number, newest) = (one.value(release), one.value(Release::NEWEST));
        if number != newest {
            known &= !(newest.unwrap_or(0) | number.unwrap_or(0));
            if number.is_some_and(|number| flags & number != 0) {
                known |= newest.unwrap_or(0);
            }
        }
    }
    known
}

/// Flags of an enqueued task as callbacks get them.
#[inline(always)]
pub fn for_program(flags: u64, release: Release) -> u64 {
    if release == Release::NEWEST { flags } else { for_old_program(flags, release) }
}

#[cold]
fn for_old_program(flags: u64, release: Release) -> u64 {
    let mut told = flags;
    for one in ENQUEUE_FLAGS.iter() {
        let (number, newest) = (one.value(release), one.value(Release::NEWEST).unwrap_or(0));
        if number != Some(newest) && flags & newest != 0 {
            told = told & !newest | number.unwrap_or(0);
        }
    }
    told
}

/// Flags that are not the same in all releases.
static ENQUEUE_FLAGS: LazyLock<Vec<&Enumerator>> = LazyLock::new(|| {
    let flags = ENUMERATORS.iter().filter(|one| one.name.starts_with("SCX_ENQ_"));
    let differs = |one: &&Enumerator| one.value(Release::OLDEST) != one.value(Release::NEWEST);
    flags.filter(differs).collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_have_the_numbers_of_the_release() {
        let (old, new) = (Release::new(6, 18), Release::NEWEST);
        let flags = SCX_ENQ_HEAD | SCX_ENQ_PREEMPT;
        assert_eq!(from_program(flags, new), flags);
        assert_eq!(for_program(flags, new), flags);
        assert_eq!(for_program(flags, old), 0x10 | SCX_ENQ_PREEMPT);
        assert_eq!(from_program(0x10 | SCX_ENQ_PREEMPT, old), flags);
        // A number that means nothing yet.
        assert_eq!(from_program(SCX_ENQ_HEAD | SCX_ENQ_IMMED, old), 0);
    }
}
