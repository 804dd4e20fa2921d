//! The part of Perfetto's trace format that the export needs, with Perfetto's published field numbers.
//!
//! Perfetto's `oneof data` is a set of optional fields here; a packet sets exactly one of them.

use prost::Message;

/// Messages with the number, the type and the rule of each field.
macro_rules! messages {
    ($($(#[$about:meta])* $name:ident {
        $($(#[$of_field:meta])* $tag:tt $kind:ident $rule:ident $field:ident: $type:ty,)*
    })*) => {$(
        $(#[$about])*
        #[derive(Clone, PartialEq, Message)]
        pub(super) struct $name {
            $($(#[$of_field])* #[prost($kind, $rule, tag = $tag)] pub(super) $field: $type,)*
        }
    )*};
}

messages! {
    /// A trace is a sequence of these, each in field [`PACKET_FIELD`] of the trace message.
    TracePacket {
        "1" message optional ftrace_events: Option<FtraceEventBundle>,
        "2" message optional process_tree: Option<ProcessTree>,
        "8" uint64 optional timestamp: Option<u64>,
        "10" uint32 optional trusted_packet_sequence_id: Option<u32>,
        "11" message optional track_event: Option<TrackEvent>,
        "13" uint32 optional sequence_flags: Option<u32>,
        "45" message optional system_info: Option<SystemInfo>,
        "60" message optional track_descriptor: Option<TrackDescriptor>,
    }
    SystemInfo {
        "1" message optional utsname: Option<Utsname>,
        "8" uint32 optional num_cpus: Option<u32>,
    }
    Utsname {
        "1" string optional sysname: Option<String>,
        "3" string optional release: Option<String>,
    }
    ProcessTree {
        "1" message repeated processes: Vec<Process>,
        "2" message repeated threads: Vec<Thread>,
    }
    Process {
        "1" int32 optional pid: Option<i32>,
        "3" string repeated cmdline: Vec<String>,
    }
    Thread {
        "1" int32 optional tid: Option<i32>,
        "2" string optional name: Option<String>,
        "3" int32 optional tgid: Option<i32>,
    }
    FtraceEventBundle {
        "1" uint32 optional cpu: Option<u32>,
        "2" message repeated event: Vec<FtraceEvent>,
    }
    FtraceEvent {
        "1" uint64 optional timestamp: Option<u64>,
        "2" uint32 optional pid: Option<u32>,
        "4" message optional sched_switch: Option<SchedSwitch>,
        "20" message optional sched_waking: Option<SchedWaking>,
        "491" message optional sched_migrate_task: Option<SchedMigrateTask>,
    }
    SchedSwitch {
        "1" string optional prev_comm: Option<String>,
        "2" int32 optional prev_pid: Option<i32>,
        "3" int32 optional prev_prio: Option<i32>,
        "4" int64 optional prev_state: Option<i64>,
        "5" string optional next_comm: Option<String>,
        "6" int32 optional next_pid: Option<i32>,
        "7" int32 optional next_prio: Option<i32>,
    }
    SchedWaking {
        "1" string optional comm: Option<String>,
        "2" int32 optional pid: Option<i32>,
        "3" int32 optional prio: Option<i32>,
        "5" int32 optional target_cpu: Option<i32>,
    }
    SchedMigrateTask {
        "1" string optional comm: Option<String>,
        "2" int32 optional pid: Option<i32>,
        "3" int32 optional prio: Option<i32>,
        "4" int32 optional orig_cpu: Option<i32>,
        "5" int32 optional dest_cpu: Option<i32>,
    }
    TrackDescriptor {
        "1" uint64 optional uuid: Option<u64>,
        "2" string optional name: Option<String>,
        "5" uint64 optional parent_uuid: Option<u64>,
        "4" message optional thread: Option<ThreadDescriptor>,
    }
    ThreadDescriptor {
        "1" int32 optional pid: Option<i32>,
        "2" int32 optional tid: Option<i32>,
    }
    TrackEvent {
        "9" int32 optional kind: Option<i32>,
        "11" uint64 optional track_uuid: Option<u64>,
        "23" string optional name: Option<String>,
    }
}

/// Field number and wire type of a packet in the trace message.
pub(super) const PACKET_FIELD: u8 = (1 << 3) | 2;

/// `SEQ_INCREMENTAL_STATE_CLEARED`: a reader does not need earlier packets of the sequence.
pub(super) const SEQUENCE_STARTS: u32 = 1;

/// `TYPE_SLICE_BEGIN`.
pub(super) const SLICE_BEGIN: i32 = 1;
/// `TYPE_SLICE_END`.
pub(super) const SLICE_END: i32 = 2;
/// `TYPE_INSTANT`.
pub(super) const INSTANT: i32 = 3;
