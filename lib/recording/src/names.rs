//! Threads that a text tells only by their names: those of the kernel, and recorders.

/// Names of the kernel's own threads. Those with a sign at their end are beginnings; behind the others, a number may follow.
const KERNEL: &[&str] = &[
    "btrfs-",
    "card0-crtc",
    "cpuhp/",
    "dmcrypt_write/",
    "edac-poller",
    "ext4-rsv-conver",
    "f2fs_",
    "hwrng",
    "idle_inject/",
    "irq/",
    "jbd2/",
    "kauditd",
    "kblockd",
    "kcompactd",
    "kdevtmpfs",
    "khugepaged",
    "khungtaskd",
    "kintegrityd",
    "ksmd",
    "ksoftirqd/",
    "kswapd",
    "kthreadd",
    "kthrotld",
    "ktimers/",
    "kworker/",
    "migration/",
    "mm_percpu_wq",
    "netns",
    "oom_reaper",
    "pool_workqueue_",
    "psimon",
    "rcu_",
    "rcub/",
    "rcuc/",
    "rcuog/",
    "rcuop/",
    "rcuos/",
    "scsi_eh_",
    "scsi_tmf_",
    "slub_flushwq",
    "sugov:",
    "swapper/",
    "watchdog/",
    "watchdogd",
    "writeback",
    "xfs-",
    "xfsaild/",
];

/// Whether a thread of this name is most likely one of the kernel's own.
pub(crate) fn is_kernels(name: &str) -> bool {
    KERNEL.iter().any(|one| match name.strip_prefix(one) {
        Some(rest) => {
            one.ends_with(['/', '_', '-', ':']) || rest.bytes().all(|byte| byte.is_ascii_digit())
        }
        None => false,
    })
}

/// Whether a thread of this name is most likely the one that wrote the text down.
pub(crate) fn is_recorders(name: &str) -> bool {
    ["perf", "trace-cmd"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_kernels_up_to_their_numbers() {
        for name in ["kworker/u4:3", "kcompactd0", "rcu_preempt", "ksoftirqd/0", "writeback"] {
            assert!(is_kernels(name), "{name}");
        }
        for name in ["sh", "make", "kswapdx", "rcu", "IPC I/O Parent", "netnsd"] {
            assert!(!is_kernels(name), "{name}");
        }
    }
}
