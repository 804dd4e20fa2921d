//! The trace of the random scheduler.

/// Words of a record.
const WORDS: usize = 6;

/// Declares the kinds of records once, with their numbers.
macro_rules! kinds {
    ($($kind:ident = $number:literal,)*) => {
        /// The kinds of records, with the numbers of `random.bpf.c`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub enum Kind {
            $($kind,)*
        }

        impl Kind {
            fn of(number: u64) -> Option<Self> {
                match number {
                    $($number => Some(Self::$kind),)*
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    SelectCpuBegin = 1,
    SelectCpuEnd = 2,
    EnqueueBegin = 3,
    EnqueueEnd = 4,
    Dequeue = 5,
    DispatchBegin = 6,
    DispatchEnd = 7,
    TickBegin = 8,
    TickEnd = 9,
    Runnable = 10,
    Running = 11,
    Stopping = 12,
    Quiescent = 13,
    Yield = 14,
    Idle = 15,
    InitTask = 16,
    ExitTask = 17,
    Enable = 18,
    Disable = 19,
    Online = 20,
    Offline = 21,
    SetWeight = 22,
    SetCpumask = 23,
    Insert = 30,
    InsertOrdered = 31,
    ToLocalBegin = 32,
    ToLocalEnd = 33,
    MoveBegin = 34,
    MoveEnd = 35,
    Length = 36,
    Kick = 37,
    SetSlice = 38,
    DefaultCpu = 39,
    Taken = 40,
    Left = 41,
}

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
            kind: Kind::of(words[0] & 0xff).expect("a kind that the scheduler writes"),
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
