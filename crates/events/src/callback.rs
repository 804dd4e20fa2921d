//! The callbacks of a sched_ext scheduler.

macro_rules! callbacks {
    ($($variant:ident = $name:literal),* $(,)?) => {
        /// A callback of `struct sched_ext_ops`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub enum Callback { $($variant),* }

        impl Callback {
            /// All callbacks, in the order of their numbers.
            pub const ALL: &[Callback] = &[$(Callback::$variant),*];

            /// Its name in `struct sched_ext_ops`.
            pub const fn name(self) -> &'static str {
                match self { $(Callback::$variant => $name),* }
            }
        }
    };
}

callbacks! {
    SelectCpu = "select_cpu", Enqueue = "enqueue", Dequeue = "dequeue", Dispatch = "dispatch", Tick = "tick",
    Runnable = "runnable", Running = "running", Stopping = "stopping", Quiescent = "quiescent", Yield = "yield",
    CoreSchedBefore = "core_sched_before", SetWeight = "set_weight", SetCpumask = "set_cpumask",
    UpdateIdle = "update_idle", InitTask = "init_task", ExitTask = "exit_task", Enable = "enable",
    Disable = "disable", Dump = "dump", DumpCpu = "dump_cpu", DumpTask = "dump_task", CgroupInit = "cgroup_init",
    CgroupExit = "cgroup_exit", CgroupPrepMove = "cgroup_prep_move", CgroupMove = "cgroup_move",
    CgroupCancelMove = "cgroup_cancel_move", CgroupSetWeight = "cgroup_set_weight",
    CgroupSetBandwidth = "cgroup_set_bandwidth", CgroupSetIdle = "cgroup_set_idle", CpuOnline = "cpu_online",
    CpuOffline = "cpu_offline", InitCids = "init_cids", Init = "init", Exit = "exit", CpuAcquire = "cpu_acquire",
    CpuRelease = "cpu_release",
}

impl Callback {
    /// Whether it takes part in placing and running a runnable task, which is then its first argument.
    pub const fn is_of_a_task(self) -> bool {
        matches!(
            self,
            Self::SelectCpu
                | Self::Enqueue
                | Self::Dequeue
                | Self::Tick
                | Self::Runnable
                | Self::Running
                | Self::Stopping
                | Self::Quiescent
                | Self::Yield
                | Self::SetWeight
                | Self::SetCpumask
        )
    }
}
