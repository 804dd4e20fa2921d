//! Trace files: event streams stored whole.
//!
//! # Format, version 9
//!
//! A *number* is unsigned LEB128: seven bits per byte, lowest first, the top bit set in all bytes but the last, in as few bytes
//! as possible. A *signed number* `n` is the number `2n` for `n >= 0` and `-2n - 1` for `n < 0`. A *text* is its length in bytes,
//! then UTF-8. An *optional task* is 0 for none, otherwise the task's number plus 1; an optional group likewise.
//!
//! | part | content |
//! | --- | --- |
//! | magic | 8 bytes: `fgtrace` and a line feed |
//! | version | number, 9 |
//! | machine | number of CPUs, then the capacity of each as a number |
//! | records | each: a byte for its kind, the nanoseconds since the previous record as a number, its fields |
//! | end | a record of kind 0 whose field is the number of records before it |
//! | checksum | CRC-32 (IEEE) of all bytes before it, 4 bytes, lowest first |
//!
//! | kind | record | fields |
//! | --- | --- | --- |
//! | 1 | task | task; name (text); policy (0 normal, 1 batch, 2 idle, 3 ext, 4 fifo, 5 round-robin, 6 deadline); nice (signed); real-time priority; weight; number of allowed CPUs, then each; optional parent task; 1 if the run does not wait for it, else 0; optional control group |
//! | 2 | wake | task; CPU; optional waking task |
//! | 3 | sleep | task |
//! | 4 | switch | CPU; optional task that leaves it; optional task that gets it |
//! | 5 | migrate | task; CPU it was on; CPU it is on |
//! | 6 | exit | task |
//! | 7 | job release | task; nominal time and deadline, as signed differences from the time of the record |
//! | 8 | job complete | task; deadline, as signed difference from the time of the record |
//! | 9 | overhead | CPU; kind (0 scheduling, 1 switch, 2 migration, 3 interrupt); duration |
//! | 10 | CPU online | CPU; 1 online, 0 offline |
//! | 11 | pass through the scheduler | CPU; duration |
//! | 12 | job skip | task; nominal time of the first, as signed difference from the time of the record; period; count |
//! | 13 | lap | task; time, as signed difference from the time of the record; 1 begin, 0 end |
//! | 14 | callback | CPU; number of the callback; optional task; optional chosen CPU (its number plus 1); duration |
//! | 15 | insert | optional task, none for a thread outside the run; queue; slice; 1 and the virtual time, or 0 without one |
//! | 16 | remove | optional task, as for 15; queue |
//! | 17 | outside | CPU; who has it besides the tasks: 0 nobody, 1 the scheduler's loader, 2 other programs, 3 real-time threads of others |
//! | 18 | control group | group; path (text); optional group that it is in; shares; mode (0 up, 1 smp, 2 concur, 3 max, 4 tasks); 1, quota, period and burst, or 0 without a quota |
//! | 19 | throttle | task; 1 it may not run, 0 it may |
//! | 20 | quota use | group; periods; throttled periods; throttled time |
//! | 21 | energy | CPU; nanojoules |
//! | 22 | condition | task; which (0 it is in the scheduler's class, 1 its slice never ends, 2 its deadline runtime is used up, 3 a deadline server has it run); 1 begin, 0 end |
//!
//! A queue is 0 and a CPU for the local queue of that CPU, 1 and a node for the global queue of that node, 2 and an id for a queue of the scheduler.
//!
//! Tasks are numbered from 0 in order of their first task record, and groups likewise. No record names one before that.

mod reader;
mod writer;

pub use reader::{TraceError, TraceReader};
pub use writer::TraceWriter;

const MAGIC: &[u8; 8] = b"fgtrace\n";
const VERSION: u64 = 9;

/// Maximum number of CPUs in a trace file.
const MOST_CPUS: u64 = 1 << 16;
/// Maximum length of a name, in bytes.
const LONGEST_NAME: u64 = 1 << 16;

const END: u8 = 0;
const TASK: u8 = 1;
const WAKE: u8 = 2;
const SLEEP: u8 = 3;
const SWITCH: u8 = 4;
const MIGRATE: u8 = 5;
const EXIT: u8 = 6;
const JOB_RELEASE: u8 = 7;
const JOB_COMPLETE: u8 = 8;
const OVERHEAD: u8 = 9;
const CPU_ONLINE: u8 = 10;
const PASS: u8 = 11;
const JOB_SKIP: u8 = 12;
const LAP: u8 = 13;
const CALLBACK: u8 = 14;
const INSERT: u8 = 15;
const REMOVE: u8 = 16;
const OUTSIDE: u8 = 17;
const GROUP: u8 = 18;
const THROTTLE: u8 = 19;
const QUOTA_USE: u8 = 20;
const ENERGY: u8 = 21;
const CONDITION: u8 = 22;

const LOCAL: u64 = 0;
const GLOBAL: u64 = 1;
const USER: u64 = 2;

/// Policies by their number in the file.
const POLICIES: [crate::Policy; 7] = {
    use crate::Policy::*;
    [Normal, Batch, Idle, Ext, Fifo, RoundRobin, Deadline]
};

/// Kinds of overhead by their number in the file.
const OUTSIDERS: [Option<crate::Outsider>; 4] = {
    use crate::Outsider::*;
    [None, Some(Loader), Some(Other), Some(RealTime)]
};

const OVERHEAD_KINDS: [crate::OverheadKind; 4] = {
    use crate::OverheadKind::*;
    [Scheduling, Switch, Migration, Interrupt]
};

/// Conditions by their number in the file.
const CONDITIONS: [crate::Condition; 4] = {
    use crate::Condition::*;
    [Ext, Endless, UsedUp, Served]
};
