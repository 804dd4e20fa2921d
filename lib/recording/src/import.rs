//! Imports the files of `perf sched record`. They have no system calls, so they do not show for which things tasks waited.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufReader, BufWriter, Cursor, Read, Seek, SeekFrom};
use std::path::Path;

use fairground_files::Unfinished;
use linux_perf_data::linux_perf_event_reader::{EventRecord, RawEventRecord, SampleRecord};
use linux_perf_data::{Endianness, Feature, PerfFile, PerfFileReader, PerfFileRecord};

use crate::error::Error;
use crate::file::{Ending, Header, LONGEST, Roots, Writer};
use crate::pipe;
use crate::record::{Context, Description, Entry, EntryKind};
use crate::tracing_data::{Format, formats};

/// Number of kthreadd, the thread that creates all kernel threads.
const KTHREADD: u32 = 2;
/// Flags of an event: it happened in a hard or a soft interrupt.
pub(crate) const IN_HARD_INTERRUPT: i64 = 0x08;
pub(crate) const IN_SOFT_INTERRUPT: i64 = 0x10;
/// States in the trace point: uninterruptible sleep, sleep that does not count as load, and still runnable.
const UNINTERRUPTIBLE: u32 = 0x02;
const IDLE: u32 = 0x80;
pub(crate) const COULD_GO_ON: u32 = 0x100;
/// State of a task that has ended.
const DEAD: u32 = 0x80;
/// How the trace point reports a task that has ended: EXIT_DEAD and EXIT_ZOMBIE.
const ENDED: u32 = 0x30;
/// Priority of an ordinary task at nice 0, and the first one that is not real-time.
const USUAL: i64 = 120;
const ORDINARY: i64 = 100;

/// The result of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// From the first event to the last, nanoseconds.
    pub length: u64,
    /// Entries written.
    pub entries: u64,
    /// Events that the recorder lost.
    pub lost: u64,
    /// What its source does not tell.
    pub notes: Vec<String>,
}

/// The beginning of what perf writes.
pub const PERF: &[u8] = b"PERFILE2";
/// So many bytes of a source are read first, to recognise it.
pub const RECOGNISED_BY: usize = pipe::HEADER;

/// Makes the recording `to` from a file of `perf sched record`, or from what perf writes into a pipe (`-o -`): of the process `chosen` and all that it
/// creates, or of everything. Of `opened`, which is called `from`, the [`RECOGNISED_BY`] bytes have been read.
pub fn import_perf(
    from: &Path,
    (first, mut opened): (Vec<u8>, File),
    to: &Path,
    chosen: Option<u32>,
) -> Result<Imported, Error> {
    let file = from.display().to_string();
    let wrong = |what: String| Error::Import { file: file.clone(), what };
    let unreadable = |error: linux_perf_data::Error| wrong(error.to_string());
    let importing = Importing { wrong: &wrong, to };
    if !first.starts_with(PERF) {
        let what = "not a file of `perf record` on a little-endian machine, no text of ftrace, and \
                    no debug dump";
        return Err(wrong(what.to_owned()));
    }
    if !pipe::is_stream(&first) {
        check_sections(&mut opened).map_err(&wrong)?;
        let reader = PerfFileReader::parse_file(BufReader::new(opened)).map_err(unreadable)?;
        let tracing =
            reader.perf_file.feature_section_data(Feature::TRACING_DATA).map(<[u8]>::to_vec);
        return importing.all(reader, chosen, tracing.as_deref());
    }
    let stream = Cursor::new(first).chain(BufReader::new(opened));
    let (stream, tracing) = pipe::Stream::new(stream);
    let reader = PerfFileReader::parse_pipe(stream).map_err(unreadable)?;
    let tracing = tracing.take();
    importing.all(reader, chosen, Some(&tracing))
}

/// Where an import goes, and the name of its source in messages.
struct Importing<'a> {
    wrong: &'a dyn Fn(String) -> Error,
    to: &'a Path,
}

impl Importing<'_> {
    /// Imports all records; `tracing` is perf's description of the formats of trace points.
    fn all<R: Read>(
        &self,
        reader: PerfFileReader<R>,
        chosen: Option<u32>,
        tracing: Option<&[u8]>,
    ) -> Result<Imported, Error> {
        let wrong = self.wrong;
        let PerfFileReader { mut perf_file, mut record_iter } = reader;
        let (mut header, available, formats) =
            header(&perf_file, chosen, tracing).map_err(wrong)?;
        let events = Events::new(formats, available).map_err(wrong)?;
        header.notes.extend(note_on_wakings(events.waking));
        write(self.to, header, wrong, |import| {
            let record = record_iter.next_record(&mut perf_file);
            let Some(record) = record.map_err(|error| error.to_string())? else {
                return Ok(false);
            };
            if let PerfFileRecord::EventRecord { record, .. } = record {
                events.take(&record, import)?;
            }
            Ok(true)
        })
    }
}

/// Writes the recording `to` from the events that `next` adds, one at a time, until it says that there are no more.
pub(crate) fn write(
    to: &Path,
    mut header: Header,
    wrong: &dyn Fn(String) -> Error,
    mut next: impl FnMut(&mut Import) -> Result<bool, String>,
) -> Result<Imported, Error> {
    let cannot_write = |source| Error::Write { file: to.display().to_string(), source };
    let output = Unfinished::create(to).map_err(cannot_write)?;
    let mut import = Import { first: u64::MAX, ..Import::default() };
    // The header comes first in the file, and is known last.
    let mut body = Vec::new();
    let mut writer = Writer::headless(&mut body).map_err(cannot_write)?;
    let mut bytes = Vec::new();
    while next(&mut import).map_err(wrong)? {
        if import.entries.is_empty() {
            continue;
        }
        if import.first == u64::MAX {
            header.recorder = import.recorder();
        }
        import.drain(&mut bytes);
        writer.add(&bytes).map_err(cannot_write)?;
        bytes.clear();
    }
    if import.first == u64::MAX {
        return Err(wrong("it has no scheduling events".to_owned()));
    }
    if import.last - import.first > LONGEST {
        return Err(wrong("its events are more than a year apart".to_owned()));
    }
    if let Roots::Tasks(chosen) = &header.roots
        && !chosen.iter().any(|chosen| import.ran.contains(chosen))
    {
        return Err(wrong("no task of the chosen process (--pid) ran in it".to_owned()));
    }
    header.origin = import.first;
    header.cpus = header.cpus.max(import.cpus);
    let ending = Ending { end: import.last, lost: import.lost.saturating_add(writer.late()) };
    let entries = writer.finish(&ending).map_err(cannot_write)?;
    let mut file = Writer::new(BufWriter::new(output.file()), &header).map_err(cannot_write)?;
    file.follow(&body).map_err(cannot_write)?;
    drop(file);
    output.finish().map_err(cannot_write)?;
    let length = import.last - import.first;
    Ok(Imported { length, entries, lost: ending.lost, notes: header.notes })
}

/// The note on the event that tells who woke whom.
pub(crate) fn note_on_wakings(waking: &str) -> Option<String> {
    (waking != "sched_waking").then(|| {
        format!(
            "who woke a task is not reliable: {waking} is of the CPU that ends the wake-up; record \
             sched_waking, too"
        )
    })
}

/// Checks that the sections lie inside the file: the reader trusts their lengths and allocates memory for them.
fn check_sections(file: &mut File) -> Result<(), String> {
    const NUMBERS: usize = 13;
    let cannot = |error: std::io::Error| error.to_string();
    let length = file.metadata().map_err(cannot)?.len();
    let mut head = [0; 8 * NUMBERS];
    file.rewind().map_err(|_| {
        "this cannot come from a pipe; name the file, or record with `-o -`, as for a pipe"
            .to_owned()
    })?;
    file.read_exact(&mut head).ok().ok_or("it ends within its header")?;
    let number = |bytes: &[u8], place: usize| {
        let bytes = bytes[8 * place..8 * place + 8].try_into();
        u64::from_le_bytes(bytes.unwrap_or_default())
    };
    // The size of the first version of `struct perf_event_attr`.
    if number(&head, 2) < 64 {
        return Err("it is damaged: its event descriptions have no size".to_owned());
    }
    let cut = "it is cut off or damaged: a section lies beyond its end";
    let inside = |start: u64, size: u64| {
        let end = start.checked_add(size);
        end.filter(|end| *end <= length).ok_or(cut)
    };
    for section in [3, 5, 7] {
        inside(number(&head, section), number(&head, section + 1))?;
    }
    let table = inside(number(&head, 5), number(&head, 6))?;
    let features: u32 = (9..NUMBERS).map(|place| number(&head, place).count_ones()).sum();
    let mut sections = vec![0; 16 * features as usize];
    inside(table, sections.len() as u64)?;
    file.seek(SeekFrom::Start(table)).map_err(cannot)?;
    file.read_exact(&mut sections).map_err(cannot)?;
    for section in sections.chunks_exact(16) {
        inside(number(section, 0), number(section, 1))?;
    }
    file.rewind().map_err(cannot)
}

/// The header, from the file's sections, the number of CPUs that may come, and the formats of its events.
fn header(
    file: &PerfFile,
    chosen: Option<u32>,
    tracing: Option<&[u8]>,
) -> Result<(Header, u32, HashMap<u16, Format>), String> {
    if file.endian() != Endianness::LittleEndian {
        return Err("it is from a big-endian machine".to_owned());
    }
    let cannot = |error: linux_perf_data::Error| error.to_string();
    let cpus = file.nr_cpus().map_err(cannot)?;
    let cpus = cpus.ok_or("it does not say how many CPUs the machine has")?;
    let formats = tracing
        .and_then(formats)
        .ok_or("it has no trace point events; `perf sched record` records the ones needed")?;
    Ok((
        Header {
            // Others may be available and have never been there.
            cpus: cpus.nr_cpus_online.max(1),
            roots: chosen.map_or(Roots::All, |process| Roots::Tasks(vec![process])),
            kernel: file.os_release().map_err(cannot)?.unwrap_or("").to_owned(),
            source: "perf sched record".to_owned(),
            without_calls: true,
            ..Header::default()
        },
        cpus.nr_cpus_available.max(1),
        formats,
    ))
}

/// The state of a task so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    pub(crate) description: Description,
    /// Whether the recording has it already.
    told: bool,
    /// The state in which the task last left its CPU.
    state: u32,
}

/// Events that are being imported.
#[derive(Default)]
pub(crate) struct Import {
    tasks: HashMap<u32, Known>,
    entries: Vec<Entry>,
    first: u64,
    last: u64,
    /// As many CPUs as entries show.
    cpus: u32,
    /// Tasks that were described, and their processes.
    ran: HashSet<u32>,
    /// How many events the recorder has lost.
    pub(crate) lost: u64,
}

impl Import {
    /// Moves the entries so far to the end of `bytes`.
    fn drain(&mut self, bytes: &mut Vec<u8>) {
        for entry in self.entries.drain(..) {
            self.first = self.first.min(entry.time);
            self.last = self.last.max(entry.time);
            self.cpus = self.cpus.max(u32::from(entry.cpu) + 1);
            entry.write(bytes);
        }
    }

    /// The process of perf itself: the first of that name, because the recorded command also has that name until it is executed.
    fn recorder(&self) -> u32 {
        self.tasks
            .values()
            .map(|known| &known.description)
            .filter(|description| description.name == "perf")
            .map(|description| description.process)
            .min()
            .unwrap_or(0)
    }

    pub(crate) fn known(&mut self, task: u32) -> &mut Known {
        self.tasks.entry(task).or_insert_with(|| Known {
            description: Description {
                process: task,
                kernel: task == KTHREADD,
                ..Description::default()
            },
            ..Known::default()
        })
    }

    /// A new task of a process, which inherits from the task that created it.
    pub(crate) fn forked(&mut self, task: u32, process: u32, by: u32, parent: u32) {
        let inherited = self.known(by).description.clone();
        let kernel =
            task == KTHREADD || parent == KTHREADD && self.known(parent).description.kernel;
        *self.known(task) = Known {
            description: Description { process, parent, kernel, ..inherited },
            ..Known::default()
        };
    }

    /// Takes note of the process of a task.
    pub(crate) fn belongs(&mut self, task: u32, process: u32) {
        let known = self.known(task);
        known.told &= known.description.process == process;
        known.description.process = process;
    }

    /// A new task that another one has created.
    pub(crate) fn born(&mut self, at: At, party: Party, by: u32) {
        let task = party.number;
        self.push(at, EntryKind::Born { task, by });
        self.learn(party);
        self.tell(at, task);
    }

    /// The context of a wake-up. A wake-up of an interruptible task from a hard interrupt is, with few exceptions, a timer's.
    pub(crate) fn context(&mut self, task: u32, flags: i64) -> Context {
        if flags & IN_HARD_INTERRUPT != 0 {
            return match self.known(task).state {
                UNINTERRUPTIBLE => Context::Device,
                _ => Context::Timer,
            };
        }
        match flags & IN_SOFT_INTERRUPT {
            0 => Context::Task,
            _ => Context::SoftInterrupt,
        }
    }

    /// A switch from one task to another; `told` is the former one's state in the trace point.
    pub(crate) fn switched(&mut self, at: At, previous: Party, next: Party, told: u32) {
        let (task, next_task) = (previous.number, next.number);
        for party in [previous, next] {
            if party.number != 0 {
                let number = party.number;
                self.learn(party);
                self.tell(at, number);
            }
        }
        let preempted = told & COULD_GO_ON != 0;
        let state = match told & !COULD_GO_ON {
            ended if ended & ENDED != 0 => DEAD,
            IDLE => UNINTERRUPTIBLE,
            other => other,
        };
        if task != 0 {
            self.known(task).state = state;
        }
        self.push(
            at,
            EntryKind::Switch {
                task,
                next: next_task,
                state,
                preempted,
                disk: state == UNINTERRUPTIBLE,
                call: -1,
                first: 0,
                second: 0,
            },
        );
        if state == DEAD {
            self.tasks.remove(&task);
        }
    }

    fn learn(&mut self, Party { number, name, priority }: Party) {
        let known = self.known(number);
        let mut description = known.description.clone();
        description.name = name;
        // In the traces of a simulator and of a container, another task may have its number.
        description.kernel &= number != KTHREADD || description.name == "kthreadd";
        if priority >= ORDINARY {
            description.policy = 0;
            description.nice = i32::try_from(priority - USUAL).unwrap_or(0).clamp(-20, 19);
            description.rt_priority = 0;
        } else {
            // Nothing shows which of the two real-time policies it is.
            description.policy = 1;
            description.rt_priority = u32::try_from(ORDINARY - 1 - priority).unwrap_or(1);
        }
        if description != known.description {
            known.description = description;
            known.told = false;
        }
    }

    pub(crate) fn tell(&mut self, at: At, task: u32) {
        let known = self.known(task);
        if std::mem::replace(&mut known.told, true) {
            return;
        }
        let description = known.description.clone();
        self.ran.extend([task, description.process]);
        self.push(at, EntryKind::Task { task, description });
    }

    pub(crate) fn push(&mut self, at: At, kind: EntryKind) {
        self.entries.push(Entry { time: at.time, cpu: at.cpu, kind });
    }
}

/// When and where something happened.
#[derive(Clone, Copy)]
pub(crate) struct At {
    pub time: u64,
    pub cpu: u16,
}

/// A task of a switch or a wake-up, with its priority in the kernel's numbers.
pub(crate) struct Party {
    pub number: u32,
    pub name: String,
    pub priority: i64,
}

/// The events of a file of perf.
struct Events {
    formats: HashMap<u16, Format>,
    /// The number of CPUs that the machine may have.
    available: u32,
    /// The wake-up event. `sched_waking` has the context of the waker even if another CPU completes the wake-up.
    waking: &'static str,
}

impl Events {
    fn new(formats: HashMap<u16, Format>, available: u32) -> Result<Self, String> {
        let has = |name: &str| formats.values().any(|format| format.name == name);
        let waking = ["sched_waking", "sched_wakeup"].into_iter().find(|name| has(name));
        let (true, Some(waking)) = (has("sched_switch"), waking) else {
            return Err(
                "it has no switches or no wake-ups; `perf sched record` records both".to_owned()
            );
        };
        Ok(Self { formats, available, waking })
    }

    fn take(&self, record: &RawEventRecord<'_>, import: &mut Import) -> Result<(), String> {
        let number = |number: i32| u32::try_from(number).unwrap_or(0);
        match record.parse().map_err(|error| error.to_string())? {
            EventRecord::Comm(comm) => {
                let name = String::from_utf8_lossy(&comm.name.as_slice()).into_owned();
                let process = number(comm.pid);
                let known = import.known(number(comm.tid));
                known.description.name = name;
                known.description.process = process;
                known.told = false;
            }
            EventRecord::Fork(fork) => {
                let (task, process) = (number(fork.tid), number(fork.pid));
                import.forked(task, process, number(fork.ptid), number(fork.ppid));
            }
            EventRecord::Lost(lost) => import.lost = import.lost.saturating_add(lost.count),
            EventRecord::Sample(sample) => self.sample(&sample, import)?,
            _ => {}
        }
        Ok(())
    }

    fn sample(&self, sample: &SampleRecord<'_>, import: &mut Import) -> Result<(), String> {
        let (Some(time), Some(cpu), Some(by), Some(raw)) =
            (sample.timestamp, sample.cpu, sample.tid, sample.raw)
        else {
            return Err(
                "its events lack times, CPUs or contents; `perf sched record` records them"
                    .to_owned(),
            );
        };
        let available = self.available;
        let cpu = Some(cpu).filter(|cpu| *cpu < available).and_then(|cpu| u16::try_from(cpu).ok());
        let cpu = cpu.ok_or_else(|| {
            format!("an event of a CPU that is not among the machine's {available}")
        })?;
        let bytes = raw.as_slice();
        let Some(number) = bytes.first_chunk().map(|number| u16::from_le_bytes(*number)) else {
            return Err("an event has no contents".to_owned());
        };
        let Some(format) = self.formats.get(&number) else { return Ok(()) };
        let by = u32::try_from(by).unwrap_or(0);
        if let (true, Ok(process)) = (by > 0, u32::try_from(sample.pid.unwrap_or(0))) {
            import.belongs(by, process);
        }
        let at = At { time, cpu };
        let lacks = || format!("event {} lacks a field", format.name);
        let party = |number: &str, name: &str, priority: &str| {
            Some(Party {
                number: format.task(&bytes, number)?,
                name: format.text(&bytes, name)?,
                priority: format.number(&bytes, priority)?,
            })
        };
        match format.name.as_str() {
            "sched_switch" => {
                let previous = party("prev_pid", "prev_comm", "prev_prio").ok_or_else(lacks)?;
                let next = party("next_pid", "next_comm", "next_prio").ok_or_else(lacks)?;
                let state = format.number(&bytes, "prev_state");
                let state = state.and_then(|state| u32::try_from(state).ok()).ok_or_else(lacks)?;
                import.switched(at, previous, next, state);
            }
            "sched_wakeup_new" => {
                import.born(at, party("pid", "comm", "prio").ok_or_else(lacks)?, by);
            }
            name if name == self.waking => {
                let task = format.task(&bytes, "pid").ok_or_else(lacks)?;
                let flags = format.number(&bytes, "common_flags").unwrap_or(0);
                let context = import.context(task, flags);
                import.push(at, EntryKind::Waking { task, by, context });
            }
            _ => {}
        }
        Ok(())
    }
}
