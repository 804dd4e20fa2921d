//! What became of kernel functions that no longer exist.

/// A kernel function that current kernels do not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Former {
    /// Its name.
    pub name: &'static str,
    /// Which kernels do not have it, such as `since Linux 6.13`.
    pub gone: &'static str,
    /// The function to use instead.
    pub successor: &'static str,
    /// What else to know about the successor; empty if it is called alike.
    pub remark: &'static str,
}

impl Former {
    /// What to do, as the rest of a sentence about the function.
    #[must_use]
    pub fn remedy(&self) -> String {
        let Former {
            gone,
            successor,
            remark,
            ..
        } = self;
        match remark.is_empty() {
            true => format!("{gone} it is called {successor}"),
            false => format!("{gone} there is {successor}, {remark}"),
        }
    }
}

const fn renamed(name: &'static str, gone: &'static str, successor: &'static str) -> Former {
    Former {
        name,
        gone,
        successor,
        remark: "",
    }
}

/// The functions that schedulers have used and that kernels have lost.
const FORMER: &[Former] = &[
    renamed(
        "scx_bpf_consume",
        "since Linux 6.13",
        "scx_bpf_dsq_move_to_local",
    ),
    renamed("scx_bpf_dispatch", "since Linux 6.13", "scx_bpf_dsq_insert"),
    renamed(
        "scx_bpf_dispatch_from_dsq",
        "since Linux 6.13",
        "scx_bpf_dsq_move",
    ),
    renamed(
        "scx_bpf_dispatch_from_dsq_set_slice",
        "since Linux 6.13",
        "scx_bpf_dsq_move_set_slice",
    ),
    renamed(
        "scx_bpf_dispatch_from_dsq_set_vtime",
        "since Linux 6.13",
        "scx_bpf_dsq_move_set_vtime",
    ),
    renamed(
        "scx_bpf_dispatch_vtime",
        "since Linux 6.13",
        "scx_bpf_dsq_insert_vtime",
    ),
    renamed(
        "scx_bpf_dispatch_vtime_from_dsq",
        "since Linux 6.13",
        "scx_bpf_dsq_move_vtime",
    ),
    Former {
        name: "scx_bpf_cpu_rq",
        gone: "after Linux 6.18",
        successor: "scx_bpf_locked_rq",
        remark: "which returns the run queue that the program holds the lock of, and scx_bpf_cpu_curr, which returns what a CPU runs",
    },
    renamed(
        "bpf_stream_vprintk_impl",
        "after Linux 6.18",
        "bpf_stream_vprintk",
    ),
    renamed(
        "bpf_wq_set_callback_impl",
        "after Linux 6.18",
        "bpf_wq_set_callback",
    ),
    renamed(
        "bpf_task_work_schedule_signal_impl",
        "after Linux 6.18",
        "bpf_task_work_schedule_signal",
    ),
    renamed(
        "bpf_task_work_schedule_resume_impl",
        "after Linux 6.18",
        "bpf_task_work_schedule_resume",
    ),
];

/// What became of the kernel function of this name, if it is one that kernels have had but no longer have.
#[must_use]
pub fn former(name: &str) -> Option<&'static Former> {
    FORMER.iter().find(|one| one.name == name)
}

/// The kernel functions that kernels have had but no longer have.
#[must_use]
pub fn all_former() -> &'static [Former] {
    FORMER
}
