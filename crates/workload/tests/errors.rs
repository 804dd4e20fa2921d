//! Every kind of unusable file, with the place and the way out it is answered with.

use fairground_workload::{Error, Workload};

fn fails(text: &str) -> Error {
    match Workload::parse("w.json", text) {
        Ok(workload) => panic!("{text}\nwas accepted: {workload:#?}"),
        Err(error) => error,
    }
}

/// The texts of `refused.txt`, each in the file of the heading above it in place of `@`, are refused with the line below them. With
/// `FAIRGROUND_REFRESH=1` in the environment that line is written.
#[test]
fn each_fault_has_one_message_with_its_place_and_the_way_out() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/refused.txt");
    let expected = std::fs::read_to_string(path).unwrap();
    let (mut file, mut told) = ("@", String::new());
    for line in expected.lines().filter(|line| !line.starts_with("  ")) {
        told += &format!("{line}\n");
        match line.strip_prefix("# ") {
            Some(heading) => file = heading,
            None => {
                let error = fails(&file.replacen('@', line, 1));
                assert!(error.line > 0 && error.column > 0, "{line}: {error}");
                told += &format!("  {error}\n");
            }
        }
    }
    if std::env::var_os("FAIRGROUND_REFRESH").is_some() {
        std::fs::write(path, &told).unwrap();
    }
    assert_eq!(told, expected);
}

#[test]
fn a_task_is_in_few_groups() {
    let groups: Vec<_> =
        (0..33).map(|i| format!(r#""p{i}": {{ "run": 1, "taskgroup": "/{i}" }}"#)).collect();
    let phases = groups.join(", ");
    let error = fails(&format!(r#"{{ "tasks": {{ "t": {{ "phases": {{ {phases} }} }} }} }}"#));
    assert_eq!(error.json_path, "tasks.t");
    assert!(error.message.contains("more than 32 taskgroups"), "{error}");
}

#[test]
fn an_error_is_displayed_with_place_path_and_way_out() {
    let error = fails(
        "{\n\t\"tasks\" : {\n\t\t\"thread0\" : { \"phases\" : { \"p1\" : { \"run\" : -5 } } }\n\t}\n}",
    );
    assert_eq!(
        error.to_string(),
        "w.json:3:47: tasks.thread0.phases.p1.run: -5 is not possible here; write an integer from -1 to 2147483647"
    );
    let quoted = fails(r#"{ "tasks": { "mp3.decoder": { "run": true } } }"#);
    assert_eq!(quoted.json_path, r#"tasks["mp3.decoder"].run"#);
}

#[test]
fn a_file_that_cannot_be_read() {
    let error = Workload::read("/nonexistent/w.json").unwrap_err();
    assert_eq!((error.line, error.column), (0, 0));
    assert!(error.to_string().starts_with("/nonexistent/w.json: cannot be read: "), "{error}");
    let file =
        std::env::temp_dir().join(format!("fairground-not-utf8-{}.json", std::process::id()));
    std::fs::write(&file, b"{\n \"\xff\": 1 }").unwrap();
    let error = Workload::read(&file).unwrap_err();
    std::fs::remove_file(&file).unwrap();
    assert_eq!((error.line, error.column), (2, 3));
    assert!(error.message.contains("UTF-8"), "{error}");
}

#[test]
fn characters_that_cannot_be_shown() {
    for escape in ["0000", "001b", "0085"] {
        let text = format!(r#"{{"tasks": {{"a\u{escape}": {{"run": 1}}}}}}"#);
        let error = Workload::parse("w.json", &text).expect_err(escape);
        assert!(error.to_string().contains("a control character"), "{error}");
    }
}

/// How long this thread has had a processor.
fn seconds_of_this_thread() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    let nanoseconds = text.split(' ').next().expect("its first number");
    nanoseconds.parse::<f64>().expect("its first number") / 1e9
}

#[test]
fn many_tasks_take_no_time() {
    let tasks: Vec<String> =
        (0..100_000).map(|number| format!(r#""task {number}": {{"run": 1, "loop": 1}}"#)).collect();
    let text = format!(r#"{{"tasks": {{{}}}}}"#, tasks.join(","));
    let before = seconds_of_this_thread();
    // Whether so many are allowed is not the question.
    let _ = Workload::parse("w.json", &text);
    // Seconds, where one look at all others for each took minutes.
    let took = seconds_of_this_thread() - before;
    assert!(took < 20.0, "{took} s");
}
