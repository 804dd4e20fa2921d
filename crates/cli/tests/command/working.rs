//! `fairground work`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{folder, json, succeed};

/// A command that waits for cells.
struct Worker {
    child: Child,
    cells: Option<ChildStdin>,
    results: BufReader<ChildStdout>,
}

impl Worker {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_fairground"))
            .arg("work")
            .args(arguments)
            .current_dir(folder())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            cells: child.stdin.take(),
            results: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.cells.as_mut().unwrap(), "{line}").unwrap();
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.results.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
    }

    fn ask(&mut self, cell: &Value) -> Value {
        self.tell(&cell.to_string());
        self.hear()
    }

    /// Ends the input, and returns the exit code.
    fn end(mut self) -> Option<i32> {
        drop(self.cells.take());
        self.child.wait().unwrap().code()
    }
}

#[test]
fn a_cell_has_the_result_that_compare_gives() {
    let compared = json(
        "compare workloads/hogs.json -m 2 -s cfs -d 2s --set sched_latency=12ms --hz 1000 --seed 7 --format json",
    );
    let mut worker = Worker::start(&[]);
    let cell = json!({
        "id": ["any", 1], "workload": "workloads/hogs.json", "machine": "2", "scheduler": "cfs", "duration": "2s",
        "set": {"sched_latency": "12ms"}, "hz": 1000, "seed": 7
    });
    for _ in 0..2 {
        let answer = worker.ask(&cell);
        assert_eq!(answer["id"], json!(["any", 1]));
        assert_eq!(answer["run"], compared["runs"][0]);
        assert_eq!(answer["error"], Value::Null);
    }
    assert_eq!(worker.end(), Some(0));
}

#[test]
fn whatever_goes_wrong_is_a_line() {
    let mut worker = Worker::start(&[]);
    let with = |member: &str, value: &str| {
        let mut cell =
            json!({"id": member, "workload": "mix-two", "scheduler": "cfs", "duration": "1s"});
        cell[member] = value.into();
        cell
    };
    let refused = [
        (with("scheduler", "cfx"), "did you mean cfs?"),
        (with("workload", "nothing"), "there is no such file"),
        (with("machine", "0"), "0"),
        (with("duration", "3"), "duration: 3 of what?"),
        (with("surprise", "1"), "unknown field `surprise`"),
        (json!({"id": 1, "set": 1}), "this is no cell"),
    ];
    for (cell, message) in &refused {
        let answer = worker.ask(cell);
        let error = answer["error"].as_str().unwrap();
        assert!(error.contains(message), "{cell}: {error}");
        assert_eq!(answer["run"], Value::Null);
        assert_eq!(answer["id"], cell["id"]);
    }
    for (line, message) in [
        ("no JSON", "this is no cell"),
        ("[1, 2]", "an object is expected"),
        (
            r#"{"workload":"mix-two","scheduler":"cfs","set":{"a":1,"a":2}}"#,
            "duplicate setting `a`",
        ),
    ] {
        worker.tell(line);
        let answer = worker.hear();
        assert_eq!(answer["id"], Value::Null);
        assert!(answer["error"].as_str().unwrap().contains(message), "{answer}");
    }
    for (scheduler, status) in [
        ("schedulers/forgetful.bpf.c", "ejected"),
        ("schedulers/broken.bpf.c", "invalid"),
        ("schedulers/wild.bpf.c", "crashed"),
        ("cfs", "ok"),
    ] {
        let cell = json!({"workload": "workloads/hogs.json", "scheduler": scheduler, "machine": "1", "duration": "40s"});
        assert_eq!(worker.ask(&cell)["run"]["status"], *status, "{scheduler}");
    }
    assert_eq!(worker.end(), Some(0));
}

#[test]
fn what_has_no_effect_is_refused_or_noted() {
    let mut worker = Worker::start(&[]);
    let recording = "../../../workloads/build.recording";
    let quiet = json!({"workload": recording, "scheduler": "o1", "duration": "100ms"});
    assert_eq!(worker.ask(&quiet)["run"]["status"], "ok");
    let noisy =
        json!({"workload": recording, "scheduler": "o1", "duration": "100ms", "noise": "default"});
    let answer = worker.ask(&noisy);
    let error = answer["error"].as_str().unwrap();
    assert!(error.contains("noise: it has no effect on a recording"), "{error}");
    for (window, is_noted) in [("50ms", false), ("200ms", true)] {
        let cell = json!({"workload": "mix-two", "scheduler": "o1", "duration": "100ms", "window": window});
        let notes = worker.ask(&cell)["run"]["notes"].to_string();
        let note = "window 200000000ns has no effect: the run is not that long";
        assert_eq!(notes.contains(note), is_noted, "{notes}");
    }
    assert_eq!(worker.end(), Some(0));
}

#[test]
fn a_file_that_has_changed_is_read_again() {
    let files = tempfile::tempdir().unwrap();
    let home = files.path().join("c++");
    std::fs::create_dir(&home).unwrap();
    let path = home.join("mine.bpf.c");
    let source = std::fs::read_to_string(folder().join("schedulers/rotation.bpf.c")).unwrap();
    std::fs::write(&path, &source).unwrap();
    let mut worker = Worker::start(&[]);
    let cell = json!({"workload": "workloads/hogs.json", "scheduler": path, "machine": "1", "duration": "1s"});
    assert_eq!(worker.ask(&cell)["run"]["status"], "ok");
    std::fs::write(&path, source + "\nnonsense\n").unwrap();
    assert_eq!(worker.ask(&cell)["run"]["status"], "invalid");
    // A load with the values of its parameters is no file of that name.
    let load = files.path().join("t.json");
    let of = |run: u32| {
        let parameter = r#""fairground": { "parameters": { "tasks": { "default": 1, "from": 1, "to": 9, "doc": "x" } } }"#;
        format!(
            r#"{{ {parameter}, "tasks": {{ "t": {{ "instance": "%(tasks)", "run": {run} }} }} }}"#
        )
    };
    let named = format!("{}:tasks=3", load.display());
    let cell = json!({"workload": named, "scheduler": "cfs", "machine": "1", "duration": "1s"});
    let hashes = [1000, 2000].map(|run| {
        std::fs::write(&load, of(run)).unwrap();
        worker.ask(&cell)["run"]["labels"]["hashes"]["workload"].clone()
    });
    assert!(hashes[0].is_string() && hashes[0] != hashes[1], "{hashes:?}");
    assert_eq!(worker.end(), Some(0));
}

#[test]
fn several_threads_answer_every_cell() {
    let mut worker = Worker::start(&["--threads", "3"]);
    let mut cells = worker.cells.take().unwrap();
    let lines: String = (0..40)
        .map(|seed| {
            let cell = json!({"id": seed, "seed": seed, "workload": "mix-two", "scheduler": "o1", "duration": "10ms"});
            format!("{cell}\n")
        })
        .collect();
    let writer = std::thread::spawn(move || cells.write_all(lines.as_bytes()));
    let mut ids: Vec<u64> = (0..40)
        .map(|_| {
            let answer = worker.hear();
            assert_eq!(answer["run"]["labels"]["seed"], answer["id"]);
            answer["id"].as_u64().unwrap()
        })
        .collect();
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..40));
    writer.join().unwrap().unwrap();
    assert_eq!(worker.end(), Some(0));
}

#[test]
fn a_worker_that_is_asked_to_end_finishes_what_it_has_begun() {
    let mut worker = Worker::start(&[]);
    let cell = json!({"workload": "mix-two", "scheduler": "o1", "duration": "10ms"});
    assert_eq!(worker.ask(&cell)["run"]["status"], "ok");
    let sent = Command::new("kill").args(["-s", "TERM", &worker.child.id().to_string()]).status();
    assert!(sent.unwrap().success());
    // Its input is still open.
    assert_eq!(worker.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_worker_that_is_asked_twice_does_not_wait_for_its_cells() {
    let mut worker = Worker::start(&[]);
    let cell = json!({"workload": "mix-two", "scheduler": "o1", "duration": "10ms"});
    worker.ask(&cell);
    let endless = json!({"workload": "mix-two", "scheduler": "o1", "duration": "1000000s"});
    // Clock ticks of CPU time, behind the name in brackets.
    let used = |child: &Child| -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        let mut fields = stat.rsplit(')').next().unwrap().split_whitespace();
        fields.nth(11).unwrap().parse().unwrap()
    };
    let before = used(&worker.child);
    worker.tell(&endless.to_string());
    // It has begun.
    while used(&worker.child) < before + 10 {
        std::thread::sleep(Duration::from_millis(5));
    }
    // Two that come together would count as one.
    while worker.child.try_wait().unwrap().is_none() {
        let pid = worker.child.id().to_string();
        let _ = Command::new("kill").args(["-s", "TERM", &pid]).status();
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(worker.child.wait().unwrap().code(), Some(75));
}

#[test]
fn a_line_without_end_is_not_read_to_its_end() {
    let mut worker = Worker::start(&[]);
    let mut cells = worker.cells.take().unwrap();
    let writer = std::thread::spawn(move || cells.write_all(&vec![b'x'; 3 << 20]).is_err());
    let answer = worker.hear();
    let error = answer["error"].as_str().unwrap();
    assert!(error.contains("a line has more than 1048576 bytes"), "{error}");
    assert_eq!(worker.child.wait().unwrap().code(), Some(1));
    assert!(writer.join().unwrap());
}

#[test]
fn shards_of_a_sweep_are_written_into_its_folder() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("s.toml");
    let text = "workloads = [\"mix-two\"]\nmachines = [\"1\"]\nseeds = 8\nduration = \"100ms\"\n\
                [[scheduler]]\nid = \"cfs\"\n[[scheduler]]\nid = \"cfs\"\nname = \"slow\"\nset.sched_latency = \"60ms\"\n";
    std::fs::write(&file, text).unwrap();
    let folder = home.path().join("S");
    succeed(&format!("sweep plan {} -o {}", file.display(), folder.display()));
    let mut worker = Worker::start(&[]);
    let shard = |shard: &str| json!({"id": shard, "sweep": folder, "shard": shard});
    for number in ["0/2", "1/2", "1/2"] {
        let answer = worker.ask(&shard(number));
        assert_eq!(answer["id"], number);
        let progress = &answer["progress"];
        assert_eq!((&progress["done"], &progress["left"]), (&json!(8), &json!(0)), "{answer}");
        assert_eq!(progress["statuses"], json!({"ok": 8}));
    }
    for (wanted, message) in [
        (shard("2/2"), "shard 2/2: not NUMBER/COUNT"),
        (json!({"id": "2/2", "sweep": home.path(), "shard": "0/1"}), "this is no sweep"),
        (json!({"id": "2/2", "sweep": folder}), "this is no shard: missing field `shard`"),
    ] {
        let answer = worker.ask(&wanted);
        let error = answer["error"].as_str().unwrap();
        assert!(error.contains(message), "{error}");
        assert_eq!(answer["id"], "2/2");
    }
    assert_eq!(worker.end(), Some(0));
    // Each shard that had something to do has its two files.
    let counted = walk(&folder.join("data"));
    assert_eq!(counted, 4);
    succeed(&format!("sweep status {}", folder.display()));
}

/// Number of files in a folder and those below it.
fn walk(folder: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { walk(&path) } else { 1 }).sum()
}
