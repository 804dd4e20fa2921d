//! What the random scheduler wrote down.

/// Words of a record.
const WORDS: usize = 6;

/// What a record is about, with the numbers of `random.bpf.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    SelectCpuBegin = 1,
    SelectCpuEnd,
    EnqueueBegin,
    EnqueueEnd,
    Dequeue,
    DispatchBegin,
    DispatchEnd,
    TickBegin,
    TickEnd,
    Runnable,
    Running,
    Stopping,
    Quiescent,
    Yield,
    Idle,
    InitTask,
    ExitTask,
    Enable,
    Disable,
    Online,
    Offline,
    Insert = 30,
    InsertOrdered,
    ToLocalBegin,
    ToLocalEnd,
    MoveBegin,
    MoveEnd,
    Length,
    Kick,
    SetSlice,
    DefaultCpu,
}

const KINDS: [Kind; 31] = {
    use Kind::*;
    [
        SelectCpuBegin,
        SelectCpuEnd,
        EnqueueBegin,
        EnqueueEnd,
        Dequeue,
        DispatchBegin,
        DispatchEnd,
        TickBegin,
        TickEnd,
        Runnable,
        Running,
        Stopping,
        Quiescent,
        Yield,
        Idle,
        InitTask,
        ExitTask,
        Enable,
        Disable,
        Online,
        Offline,
        Insert,
        InsertOrdered,
        ToLocalBegin,
        ToLocalEnd,
        MoveBegin,
        MoveEnd,
        Length,
        Kick,
        SetSlice,
        DefaultCpu,
    ]
};

/// A callback, or a call of the scheduler's.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    pub kind: Kind,
    /// The CPU that ran it.
    pub cpu: usize,
    /// The task that it is about; 0 if none.
    pub pid: u32,
    pub time: u64,
    /// Arguments or results.
    pub a: u64,
    pub b: u64,
    pub c: u64,
    pub d: u64,
}

impl Record {
    /// The slice of the task, for callbacks about a task.
    pub fn slice(&self) -> u64 {
        self.c
    }

    /// The CPU of the task, for callbacks about a task.
    pub fn task_cpu(&self) -> usize {
        (self.d >> 32) as usize
    }
}

/// The records in the words of the scheduler's log, and whether these are all.
pub fn records(words: &[u64]) -> (Vec<Record>, bool) {
    let count = words.first().copied().unwrap_or(0) as usize;
    let kept = words[1..].chunks_exact(WORDS).take(count);
    let records: Vec<Record> = kept
        .take_while(|words| words[0] != 0)
        .map(|words| Record {
            kind: *KINDS
                .iter()
                .find(|kind| **kind as u64 == words[0] & 0xff)
                .expect("a kind that the scheduler writes"),
            cpu: (words[0] >> 8) as usize & 0xff_ffff,
            pid: (words[0] >> 32) as u32,
            time: words[1],
            a: words[2],
            b: words[3],
            c: words[4],
            d: words[5],
        })
        .collect();
    let whole = records.len() == count;
    (records, whole)
}
