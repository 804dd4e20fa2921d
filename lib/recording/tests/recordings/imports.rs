//! Recordings made of perf's files.
//!
//! `sched.data.zst` was written by `perf sched record sh w.sh` of perf 6.1 on Linux 7.3.4 with one CPU, where `w.sh` was
//!
//! ```sh
//! for i in 1 2 3; do sh -c 'i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done' & done; sleep 0.05; wait
//! perf bench -f simple sched pipe -l 200
//! ```

use std::fs;
use std::io::{Seek as _, SeekFrom};

use fairground_recording::{
    Imported, RECOGNISED_BY, Recording, import_ftrace, import_perf, is_ftrace,
};
use fairground_workload::Event;
use proptest::prelude::*;
use tempfile::TempDir;

fn sample() -> Vec<u8> {
    let compressed: &[u8] = include_bytes!("sched.data.zst");
    zstd::decode_all(compressed).expect("it is compressed")
}

/// The result of importing a file with these bytes: the recording, or the message.
fn import(bytes: &[u8]) -> Result<(Imported, Recording), String> {
    let folder = TempDir::new().expect("there is room");
    let (from, to) = (folder.path().join("perf.data"), folder.path().join("x"));
    fs::write(&from, bytes).expect("there is room");
    let first = bytes[..bytes.len().min(RECOGNISED_BY)].to_vec();
    let mut opened = fs::File::open(&from).expect("it was written");
    opened.seek(SeekFrom::Start(first.len() as u64)).expect("it is as long");
    let imported =
        import_perf(&from, (first, opened), &to, None).map_err(|error| error.to_string())?;
    let recording = Recording::read(&to).expect("what was written can be read");
    Ok((imported, recording))
}

#[test]
fn a_file_of_perf_is_a_workload() {
    let (imported, recording) = import(&sample()).expect("it is a file of perf");
    assert_eq!((recording.header.cpus, imported.lost), (1, 0));
    assert!(recording.header.kernel.starts_with("7.3.4"));
    let load = recording.load().expect("it has tasks");
    let task = |name: &str| {
        let mut tasks = load.workload.tasks.iter();
        tasks.find(|task| task.name == name)
    };
    assert!(task("sh#4").is_some(), "one shell and the three that it creates");
    assert!(task("perf#2").is_none(), "who recorded is no part of it");
    // The two ends of the pipe wake each other, 200 times each.
    for name in ["sched-pipe#1", "sched-pipe#2"] {
        let events = &task(name).expect("it ran").phases[0].events;
        let count = |wanted: fn(&Event) -> bool| events.iter().filter(wanted).count();
        let waits = count(|event| matches!(event, Event::SemWait(_)));
        let posts = count(|event| matches!(event, Event::SemPost(_)));
        assert!(waits.min(posts) >= 190, "{name}: {waits} and {posts}");
    }
    assert!(load.others.iter().any(|other| other.kernel));
}

/// What ftrace tells of a task that runs for 4 of each 10 ms: the wake-up, the switch to it, and that away from it.
fn periods(event: impl Fn(u64, [String; 3]) -> String) -> String {
    let period = |number: u64| {
        let task = |prefix: &str| format!("{prefix}comm=app {prefix}pid=41 {prefix}prio=120");
        let idle = |prefix: &str| format!("{prefix}comm=swapper/1 {prefix}pid=0 {prefix}prio=120");
        let wakes = format!("sched_waking: {} target_cpu=001", task(""));
        let runs = format!("sched_switch: {} prev_state=R ==> {}", idle("prev_"), task("next_"));
        let sleeps = format!("sched_switch: {} prev_state=S ==> {}", task("prev_"), idle("next_"));
        event(number, [wakes, runs, sleeps])
    };
    (0..200).map(period).collect()
}

#[test]
fn the_text_of_ftrace_is_a_workload() {
    let time = |number: u64, offset: u64| {
        let microseconds = number * 10_000 + offset;
        format!("{}.{:06}", 10 + microseconds / 1_000_000, microseconds % 1_000_000)
    };
    let pipe = periods(|number, [wakes, runs, sleeps]| {
        format!(
            "  <idle>-0     [001] d.h2.  {}: {wakes}\n  <idle>-0     [001] d..2.  {}: {runs}\n     app-41    [001] d..2.  {}: {sleeps}\n",
            time(number, 0),
            time(number, 5),
            time(number, 4_005)
        )
    });
    let script = periods(|number, [wakes, runs, sleeps]| {
        format!(
            "swapper     0 [001]  {}: sched:{wakes}\nswapper     0 [001]  {}: sched:{runs}\napp    41 [001]  {}: sched:{sleeps}\n",
            time(number, 0),
            time(number, 5),
            time(number, 4_005)
        )
    });
    let command = periods(|number, _| {
        format!(
            "  <idle>-0 [001] d.h2 {}: sched_waking: app:41 [120] CPU:001\n  <idle>-0 [001] d..2 {}: sched_switch: swapper/1:0 [120] R ==> app:41 [120]\n  \
             app-41 [001] d..2 {}: sched_switch: app:41 [120] S ==> swapper/1:0 [120]\n",
            time(number, 0),
            time(number, 5),
            time(number, 4_005)
        )
    });
    let folder = TempDir::new().expect("there is room");
    for text in [pipe, script, command] {
        let text = format!("# tracer: nop\n#\n{text}CPU:1 [LOST 7 EVENTS]\n");
        assert!(is_ftrace(&text));
        let to = folder.path().join("x.recording");
        let imported = import_ftrace("trace.txt".as_ref(), &text, &to, None);
        assert_eq!(imported.expect("it has switches").lost, 7);
        let recording = Recording::read(&to).expect("what was written can be read");
        let load = recording.load().expect("it has tasks");
        let [task] = &load.workload.tasks[..] else { panic!("{:?}", load.workload.tasks) };
        let events = task.phases.iter().flat_map(|phase| phase.events.iter());
        let run = |event: Event| if let Event::Run(run) = event { run } else { 0 };
        let runs = events.map(run).max().unwrap_or_default();
        assert!(runs.abs_diff(4_000_000) < 50_000, "{runs}");
    }
    let none = import_ftrace(
        "trace.txt".as_ref(),
        "a-1 [0] 1.0: sched_switch: x",
        &folder.path().join("y"),
        None,
    );
    assert!(none.unwrap_err().to_string().contains("no wake-ups"));
}

/// The same as perf would have written it into a pipe.
fn as_stream(file: &[u8]) -> Vec<u8> {
    const TRACING_DATA: usize = 1;
    let number = |bytes: &[u8], place: usize| {
        let bytes = bytes[8 * place..8 * place + 8].try_into().unwrap();
        u64::from_le_bytes(bytes) as usize
    };
    let section = |table: &[u8], place: usize| {
        let (start, size) = (number(table, place), number(table, place + 1));
        &file[start..start + size]
    };
    let mut stream = b"PERFILE2".to_vec();
    stream.extend(16_u64.to_le_bytes());
    let record = |stream: &mut Vec<u8>, kind: u32, parts: &[&[u8]]| {
        let length = 8 + parts.iter().map(|part| part.len()).sum::<usize>();
        stream.extend(kind.to_le_bytes());
        stream.extend([0, 0]);
        stream.extend((length as u16).to_le_bytes());
        stream.extend(parts.concat());
    };
    for attribute in section(file, 3).chunks_exact(number(file, 2)) {
        let (attribute, ids) = attribute.split_at(attribute.len() - 16);
        record(&mut stream, 64, &[attribute, section(ids, 0)]);
    }
    let features = (0..256).filter(|bit| number(file, 9 + bit / 64) >> (bit % 64) & 1 == 1);
    let table = &file[number(file, 5) + number(file, 6)..];
    let mut formats: &[u8] = &[];
    for (place, feature) in features.enumerate() {
        let contents = section(table, 2 * place);
        match feature {
            TRACING_DATA => formats = contents,
            _ => record(&mut stream, 80, &[&(feature as u64).to_le_bytes(), contents]),
        }
    }
    record(&mut stream, 66, &[&(formats.len() as u64).to_le_bytes()]);
    stream.extend(formats);
    stream.resize(stream.len().next_multiple_of(8), 0);
    stream.extend(section(file, 5));
    stream
}

#[test]
fn what_perf_writes_into_a_pipe_is_the_same_workload() {
    let (imported, recording) = import(&sample()).expect("it is a file of perf");
    let stream = as_stream(&sample());
    let (as_imported, as_recording) = import(&stream).expect("it is what perf writes");
    assert_eq!(as_imported, imported);
    assert!(recording.entries().eq(as_recording.entries()));
    // And cut off within the formats, or at the end.
    for length in [20, 200, stream.len() / 50] {
        import(&stream[..length]).expect_err("it is cut off");
    }
    let message = import(&stream[..stream.len() - 3]).expect_err("it is cut off");
    assert!(message.contains("cut off"), "{message}");
}

#[test]
fn cpus_that_never_were_there_do_not_count() {
    const NRCPUS: usize = 7;
    let mut file = sample();
    let number = |place: usize| {
        let bytes = file[place..place + 8].try_into().expect("they are 8 bytes");
        u64::from_le_bytes(bytes) as usize
    };
    let before = (number(72) & ((1 << NRCPUS) - 1)).count_ones() as usize;
    let section = number(number(40) + number(48) + 16 * before);
    for (available, online) in [(16_u32, 1_u32), (16, 2)] {
        file[section..section + 4].copy_from_slice(&available.to_le_bytes());
        file[section + 4..section + 8].copy_from_slice(&online.to_le_bytes());
        let (_, recording) = import(&file).expect("it is a file of perf");
        assert_eq!(recording.header.cpus, online);
    }
}

#[test]
fn what_it_does_not_tell_is_in_the_notes() {
    let (_, recording) = import(&sample()).expect("it is a file of perf");
    let load = recording.load().expect("it has tasks");
    assert!(
        load.workload.notes[0].contains("imported: without system calls"),
        "{:?}",
        load.workload.notes
    );
    let [exact, ..] = load.loss.waits;
    assert!(exact * 50 < load.loss.waits.iter().sum(), "{:?}", load.loss);
}

#[test]
fn what_cannot_be_imported_is_said_in_one_line() {
    let bytes = sample();
    let message = |bytes: &[u8]| {
        let message = import(bytes).expect_err("it cannot be imported");
        assert!(message.contains("perf.data: cannot be imported: "));
        assert!(!message.contains('\n'), "{message}");
        message
    };
    assert!(message(b"").contains("not a file of `perf record`"));
    assert!(message(&[b'{'; 500]).contains("not a file of `perf record`"));
    assert!(message(&bytes[..bytes.len() / 2]).contains("cut off"));
    // A part that claims to be huge finds no memory made for it.
    let mut other = bytes.clone();
    other[48..56].copy_from_slice(&(u64::MAX / 2).to_le_bytes());
    assert!(message(&other).contains("beyond its end"));
    // Without the formats of its events.
    let mut other = bytes;
    let place = other.windows(10).position(|bytes| bytes == b"\x17\x08\x44tracing");
    other[place.expect("it has them")] = 0;
    assert!(message(&other).contains("no trace point events"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Any bytes become a recording or give a message.
    #[test]
    fn any_bytes_are_imported_or_refused(
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        head in prop::collection::vec((0..2000_usize, any::<u8>()), 0..4),
        is_stream in any::<bool>(),
    ) {
        let mut bytes = if is_stream { as_stream(&sample()) } else { sample() };
        for (place, value) in places {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        for (place, value) in head {
            bytes[place] = value;
        }
        if let Ok((_, recording)) = import(&bytes) {
            let _ = recording.load();
        }
    }
}
