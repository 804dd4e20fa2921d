//! How schedulers end, by the kernel's `enum scx_exit_kind`.

/// Why a scheduler was unloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ExitKind {
    /// It was not unloaded.
    None = 0,
    /// It was unloaded, and the kernel is done with it.
    Done = 1,
    /// User space unloaded it; the normal end.
    Unregistered = 64,
    /// It called `scx_bpf_exit`.
    UnregisteredBpf = 65,
    /// The kernel unloaded it, for example because of hotplug.
    UnregisteredKernel = 66,
    /// The console unloaded it, with SysRq-S.
    SysRq = 67,
    /// The scheduler that it is part of ended.
    Parent = 68,
    /// The scheduler that it is part of unloaded it.
    ParentKilled = 69,
    /// It broke a rule of sched_ext.
    Error = 1024,
    /// It called `scx_bpf_error`.
    ErrorBpf = 1025,
    /// A runnable task did not run within the timeout.
    ErrorStall = 1026,
    /// A task was reenqueued too often without running.
    ErrorReenqueue = 1027,
    /// It overloaded the rescue of stalled tasks.
    ErrorRescue = 1028,
}

impl ExitKind {
    /// All kinds.
    pub const ALL: [Self; 13] = [
        Self::None,
        Self::Done,
        Self::Unregistered,
        Self::UnregisteredBpf,
        Self::UnregisteredKernel,
        Self::SysRq,
        Self::Parent,
        Self::ParentKilled,
        Self::Error,
        Self::ErrorBpf,
        Self::ErrorStall,
        Self::ErrorReenqueue,
        Self::ErrorRescue,
    ];

    /// The kernel's number for the kind.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// The kernel's name for the kind.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "SCX_EXIT_NONE",
            Self::Done => "SCX_EXIT_DONE",
            Self::Unregistered => "SCX_EXIT_UNREG",
            Self::UnregisteredBpf => "SCX_EXIT_UNREG_BPF",
            Self::UnregisteredKernel => "SCX_EXIT_UNREG_KERN",
            Self::SysRq => "SCX_EXIT_SYSRQ",
            Self::Parent => "SCX_EXIT_PARENT",
            Self::ParentKilled => "SCX_EXIT_PARENT_KILL",
            Self::Error => "SCX_EXIT_ERROR",
            Self::ErrorBpf => "SCX_EXIT_ERROR_BPF",
            Self::ErrorStall => "SCX_EXIT_ERROR_STALL",
            Self::ErrorReenqueue => "SCX_EXIT_ERROR_REENQ",
            Self::ErrorRescue => "SCX_EXIT_ERROR_RESCUE",
        }
    }

    /// Whether it is a failure of the scheduler.
    pub const fn is_error(self) -> bool {
        self.number() >= Self::Error.number()
    }
}

/// Name of the kind with this number; kinds added by later kernels are named by number.
pub fn kind_name(number: i64) -> String {
    let kinds = ExitKind::ALL.into_iter();
    let known = kinds.into_iter().find(|kind| i64::from(kind.number()) == number);
    known.map_or_else(|| format!("kind {number}"), |kind| kind.name().to_owned())
}

/// An exit in words: `runtime error (SCX_EXIT_ERROR): invalid CPU 5`. `reason` is the kernel's text for the kind, `message` says exactly what
/// happened; both may be empty.
pub fn describe(kind: &str, reason: &str, message: &str) -> String {
    let what = match reason {
        "" => kind.to_owned(),
        _ => format!("{reason} ({kind})"),
    };
    match message {
        "" => what,
        _ => format!("{what}: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_the_kernels_names_and_later_ones_their_numbers() {
        assert_eq!(kind_name(1026), "SCX_EXIT_ERROR_STALL");
        assert_eq!(kind_name(4711), "kind 4711");
    }

    #[test]
    fn what_is_not_known_of_an_exit_is_left_out() {
        assert_eq!(
            describe("SCX_EXIT_ERROR", "runtime error", "invalid CPU 5"),
            "runtime error (SCX_EXIT_ERROR): invalid CPU 5"
        );
        assert_eq!(describe("SCX_EXIT_NONE", "", ""), "SCX_EXIT_NONE");
    }
}
