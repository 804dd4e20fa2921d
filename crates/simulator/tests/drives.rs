//! Drives: read-ahead, the elevator, and writes in the background.

mod common;

use common::{free, run, scheduler};

const MS: u64 = 1_000_000;

/// When a workload ends on this machine without costs. Its drive takes 10 ms to move its head and 1 ms to read 128 KiB, in a machine with 1 MiB of
/// memory.
fn end(machine: &str, tasks: &str) -> u64 {
    let text = format!(
        r#"{{"fairground": {{"drives": {{"drive": {{"positioning": 10000, "rate": 131.072, "memory": 1048576}}}}}}, "tasks": {{{tasks}}}}}"#
    );
    let outcome = run(&scheduler("bare", &[]), &free(machine, &text));
    assert_eq!(outcome.failure, None);
    outcome.end
}

#[test]
fn a_lone_reader_gets_what_passes_under_the_head() {
    // A window of 64 KiB after a movement, then eight of 128 KiB, the last of which ends after the megabyte.
    let reader =
        r#""reader": {"loop": 1, "phases": {"p": {"fairground1": {"read": {"bytes": 1048576}}}}}"#;
    assert_eq!(end("1", reader), 10 * MS + MS / 2 + 8 * MS);
    // The same in events of 4 KiB, and with the CPU's part of it, which the drive does not wait for: 15 us for each of 255 pages and the last.
    let reader = r#""reader": {"loop": 256, "phases": {"p": {"fairground1": {"read": {"bytes": 4096}}, "run": 15}}}"#;
    let after_last_window = 16 * 15_000;
    assert_eq!(end("1", reader), 10 * MS + MS / 2 + 8 * MS + after_last_window);
}

#[test]
fn a_reader_that_computes_longer_than_the_drive_reads_never_waits_again() {
    // 2 ms for each 128 KiB, of which the drive has the next in 1 ms. The first event waits for both windows.
    let reader = r#""reader": {"loop": 10, "phases": {"p": {"fairground1": {"read": {"bytes": 131072}}, "run": 2000}}}"#;
    assert_eq!(end("1", reader), 10 * MS + MS / 2 + MS + 10 * 2 * MS);
}

#[test]
fn small_files_move_the_head_each() {
    let reader = r#""reader": {"loop": 5, "phases": {"p": {"fairground1": {"read": {"bytes": 65536, "place": "new"}}}}}"#;
    assert_eq!(end("1", reader), 5 * (10 * MS + MS / 2));
}

#[test]
fn a_reader_that_comes_back_too_late_loses_the_drive_to_another() {
    // Each reads 256 KiB in events of 64 KiB and computes after each, on a CPU of its own.
    let readers = |think: u64| {
        format!(
            r#""a": {{"cpus": [0], "loop": 4, "phases": {{"p": {{"fairground1": {{"read": {{"bytes": 65536}}}}, "run": {think}}}}}}},
               "b": {{"cpus": [1], "loop": 4, "phases": {{"p": {{"fairground1": {{"read": {{"bytes": 65536}}}}, "run": {think}}}}}}}"#
        )
    };
    // Without a pause, `a` reads its 64 and 3 windows, and then `b`: two movements, and the wait for a further read of `a`.
    let quick = end("2", &readers(1));
    assert!(quick < 2 * (10 * MS + MS / 2 + 3 * MS) + 7 * MS, "{quick}");
    // With 7 ms it comes back too late.
    let slow = end("2", &readers(7000));
    assert!(slow > 4 * 10 * MS + 4 * 7 * MS, "{slow}");
}

#[test]
fn files_that_were_pushed_out_of_memory_are_read_back() {
    let tasks = r#""taker": {"loop": 1, "phases": {"p": {"fairground1": {"evict": {"memory": "ram", "pages": 7}}}}},
        "reader": {"loop": 5, "phases": {"p": {"run": 1000, "fairground1": {"fault": {"memory": "ram", "bytes": 65536, "most": 2}}}}}"#;
    assert_eq!(end("2", tasks), 5 * MS + 7 * (10 * MS + MS / 2));
}

#[test]
fn a_writer_waits_when_memory_is_full_of_writes() {
    // 40 % of 1 MiB are 3.2 requests of 128 KiB. The fourth write waits until one of them has reached the drive, and so does each after it.
    let writer =
        r#""writer": {"loop": 4, "phases": {"p": {"fairground1": {"write": {"bytes": 131072}}}}}"#;
    assert_eq!(end("1", writer), 11 * MS);
    let writer =
        r#""writer": {"loop": 3, "phases": {"p": {"fairground1": {"write": {"bytes": 131072}}}}}"#;
    assert_eq!(end("1", writer), 0);
}

#[test]
fn sleepers_are_seen_in_their_calls() {
    let text = r#"{"fairground": {"drives": {"drive": {"memory": 1048576}}}, "tasks": {
        "reader": {"loop": 1, "phases": {"p": {"fairground1": {"read": {"bytes": 4096}}}}},
        "writer": {"loop": 1, "phases": {"p": {"fairground1": {"write": {"bytes": 1048576}}}}}}}"#;
    let outcome = run(&scheduler("waits", &[]), &free("2", text));
    for line in [
        "reader sleeps in state 2, for a disk 1, in call 0",
        "writer sleeps in state 2, for a disk 1, in call 1",
    ] {
        let seen = outcome.messages.iter().any(|message| message == line);
        assert!(seen, "{:?}", outcome.messages);
    }
}
