//! `fairground sweep`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Ended, end_of, folder, succeed};

/// A sweep's file, with the plan of it in a folder beside it.
struct Sweep {
    home: TempDir,
}

impl Sweep {
    fn of(text: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let sweep = Self { home };
        sweep.write(text);
        sweep
    }

    fn done(text: &str) -> Self {
        let sweep = Self::of(text);
        sweep.plan();
        sweep.succeed("run S");
        sweep
    }

    fn write(&self, text: &str) {
        fs::write(self.home.path().join("s.toml"), text).unwrap();
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fairground"));
        command.arg("sweep").args(line.split(' ')).current_dir(self.home.path());
        command
    }

    fn sweep(&self, line: &str) -> Ended {
        end_of(&mut self.command(line))
    }

    /// The output of a subcommand, which has to succeed.
    fn succeed(&self, line: &str) -> String {
        let ended = self.sweep(line);
        assert_eq!(ended.code, Some(0), "{line}: {}", ended.stderr);
        ended.stdout
    }

    fn plan(&self) -> String {
        self.succeed("plan s.toml -o S")
    }

    /// The identities of all cells.
    fn identities(&self) -> Vec<Vec<u8>> {
        self.plan();
        let list = fs::read(self.home.path().join("S/plan/cells")).unwrap();
        list.chunks(16).map(<[u8]>::to_vec).collect()
    }

    /// All files of results, and files that were left unfinished.
    fn files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.home.path().join("S/data")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                match entry.path().is_dir() {
                    true => folders.push(entry.path()),
                    false => found.push(entry.path()),
                }
            }
        }
        found
    }

    fn status(&self) -> Value {
        serde_json::from_str(&self.sweep("status S --format json").stdout).unwrap()
    }
}

/// Two settings, two workloads, two machines, three seeds.
const SMALL: &str = r#"
workloads = ["mix-two", "hogs-three"]
machines = ["1", "2"]
seeds = 3
duration = "1s"

[[scheduler]]
id = "cfs"
set.sched_latency = ["6ms", "24ms"]

[[scheduler]]
id = "o1"
"#;

#[test]
fn a_sweep_finds_what_compare_finds() {
    let sweep = Sweep::of(SMALL);
    let cells = "36 cells: 3 schedulers x 2 workloads x 2 machines x 1 condition x 3 seeds\n";
    assert_eq!(sweep.plan(), cells);
    let ended = sweep.sweep("status S");
    assert!(ended.stdout.starts_with("36 cells: 0 done, 36 left\n"), "{}", ended.stdout);
    assert_eq!(ended.code, Some(1));
    sweep.succeed("run S");
    let status = sweep.succeed("status S");
    let done = "36 cells: 36 done, 0 left\n  ok          36\nFiles with runs: 1, ";
    assert!(status.starts_with(done), "{status}");
    let compared = succeed(
        "compare mix-two hogs-three -m 1 -m 2 -s cfs,o1 --set cfs.sched_latency=6ms,24ms -d 1s --repeat 3",
    );
    assert_eq!(sweep.succeed("table S"), compared);
    // Nothing is left to do.
    let again = sweep.sweep("run S");
    assert!(
        again.stderr.contains("0 cells done, 0 of them failed; 36 were done before, 0 are left")
    );
    assert_eq!(sweep.files().len(), 2);
}

#[test]
fn what_changes_nothing_does_not_change_a_cell() {
    let sweep = Sweep::of("");
    let home = sweep.home.path();
    let source = fs::read_to_string(folder().join("schedulers/rotation.bpf.c")).unwrap();
    let with_header = format!("#include \"limits.bpf.h\"\n{source}");
    for place in ["a", "b"] {
        fs::create_dir_all(home.join(place).join("headers")).unwrap();
        fs::write(home.join(place).join("mine.bpf.c"), &with_header).unwrap();
        fs::write(
            home.join(place).join("headers/limits.bpf.h"),
            "#define LIMIT 7\nstatic const volatile int limit __attribute__((used)) = LIMIT;\n",
        )
        .unwrap();
        fs::write(home.join(place).join("costs.toml"), "tick = 2000\n").unwrap();
    }
    fs::copy(folder().join("workloads/hogs.json"), home.join("a/hogs.json")).unwrap();
    let text = fs::read_to_string(home.join("a/hogs.json")).unwrap();
    fs::write(home.join("b/hogs.json"), text.replace('\n', "\n  ")).unwrap();
    let toml = |place: &str, set: &str| {
        format!(
            "workloads = [\"{place}/hogs.json\"]\nmachines = [\"2\"]\ncosts = [\"{place}/costs.toml\"]\nseeds = 2\nduration = \"1s\"\n\
             [[scheduler]]\nid = \"cfs\"\n{set}\n\
             [[scheduler]]\nid = \"{place}/mine.bpf.c\"\ninclude = [\"{place}/headers\"]\n"
        )
    };
    let identities = |text: &str| {
        sweep.write(text);
        sweep.identities()
    };
    let before = identities(&toml(
        "a",
        "set = { sched_latency = \"6ms\", sched_min_granularity = \"1ms\" }",
    ));
    assert_eq!(before.len(), 4);
    // Units, the order of keys, files, folders and their names.
    let same =
        toml("b", "set = { sched_min_granularity = \"1000us\", sched_latency = \"6000000ns\" }");
    assert_eq!(identities(&same), before);
    let machine = same.replace("machines = [\"2\"]", "machines = [\"core:2 pu:1\"]");
    assert_eq!(identities(&machine), before);
    let all_differ = |text: &str| {
        let now = identities(text);
        assert!(now.iter().zip(&before).all(|(one, other)| one != other), "{text}");
    };
    all_differ(&same.replace("seeds = 2", "seeds = { from = 7, count = 2 }"));
    all_differ(&same.replace("machines = [\"2\"]", "machines = [\"3\"]"));
    all_differ(&same.replace("duration = \"1s\"", "duration = \"2s\""));
    all_differ(&format!("hz = [1000]\n{same}"));
    all_differ(&format!("hotplug = [[\"1:off@500ms\"]]\n{same}"));
    fs::write(home.join("b/costs.toml"), "tick = 2001\n").unwrap();
    all_differ(&same);
    fs::write(home.join("b/costs.toml"), "tick = 2000\n").unwrap();
    assert_eq!(identities(&same), before);
    // One byte of a header changes its scheduler's cells.
    let header = home.join("b/headers/limits.bpf.h");
    let text = fs::read_to_string(&header).unwrap();
    fs::write(&header, text.replace("LIMIT 7", "LIMIT 8")).unwrap();
    let now = identities(&same);
    assert_eq!(now[..2], before[..2]);
    assert!(now[2] != before[2] && now[3] != before[3]);
}

#[test]
fn a_plus_in_the_name_of_a_folder_joins_nothing() {
    let sweep = Sweep::of("");
    let home = sweep.home.path();
    fs::create_dir_all(home.join("c/c++")).unwrap();
    fs::copy(folder().join("schedulers/rotation.bpf.c"), home.join("c/c++/mine.bpf.c")).unwrap();
    let text = SMALL.replace("id = \"o1\"", "id = \"c++/mine.bpf.c\"");
    fs::write(home.join("c/s.toml"), text).unwrap();
    sweep.succeed("plan c/s.toml -o S");
}

#[test]
fn the_same_cell_twice_is_refused() {
    let sweep = Sweep::of(&SMALL.replace("[\"6ms\", \"24ms\"]", "[\"6ms\", \"6000us\"]"));
    let ended = sweep.sweep("plan s.toml -o S");
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("is given twice"), "{}", ended.stderr);
    let sweep = Sweep::of(&SMALL.replace("[\"1\", \"2\"]", "[\"2\", \"core:2 pu:1\"]"));
    let ended = sweep.sweep("plan s.toml -o S");
    assert!(ended.stderr.contains("are the same cell; leave one out"), "{}", ended.stderr);
}

#[test]
fn a_plan_needs_neither_sources_nor_a_compiler() {
    let sweep = Sweep::of(
        "workloads = [\"hogs.json\"]\nseeds = 2\nduration = \"1s\"\n[[scheduler]]\nid = \"mine.bpf.c\"\n",
    );
    let home = sweep.home.path();
    fs::copy(folder().join("workloads/hogs.json"), home.join("hogs.json")).unwrap();
    fs::copy(folder().join("schedulers/rotation.bpf.c"), home.join("mine.bpf.c")).unwrap();
    sweep.plan();
    for name in ["hogs.json", "mine.bpf.c", "s.toml"] {
        fs::remove_file(home.join(name)).unwrap();
    }
    let moved = home.join("moved");
    fs::rename(home.join("S"), &moved).unwrap();
    let ended = end_of(sweep.command("run moved").env("CLANG", "/nonexistent"));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let printed = sweep.succeed("table moved");
    assert!(
        printed
            .starts_with("hogs (machine 4, 1.00 s, cost model default, noise spread, seeds 0 to 1"),
        "{printed}"
    );
    assert!(printed.contains("\nmine "), "{printed}");
}

#[test]
fn cells_that_fail_are_results() {
    let sweep = Sweep::of("");
    let own = |name: &str| folder().join("schedulers").join(name).display().to_string();
    let endless = sweep.home.path().join("endless.bpf.c");
    fs::write(
        &endless,
        "#include \"fairground.bpf.h\"\n\
         u64 turns;\n\
         void BPF_STRUCT_OPS(endless_enqueue, struct task_struct *p, u64 enq_flags)\n\
         {\n\twhile (1)\n\t\t__sync_fetch_and_add(&turns, 1);\n}\n\
         DEFINE_SCHEDULER(endless, .enqueue = (void *)endless_enqueue, .name = \"endless\");\n",
    )
    .unwrap();
    let schedulers = [
        (own("forgetful.bpf.c"), "ejected"),
        (own("broken.bpf.c"), "invalid"),
        (own("futuristic.bpf.c"), "refused"),
        (own("wild.bpf.c"), "crashed"),
        (endless.display().to_string(), "timed-out"),
        ("cfs".to_owned(), "ok"),
    ];
    let mut text = format!(
        "workloads = [\"{}\"]\nmachines = [\"1\"]\nseeds = 2\nduration = \"40s\"\n",
        folder().join("workloads/hogs.json").display()
    );
    for (id, _) in &schedulers {
        text.push_str(&format!("[[scheduler]]\nid = \"{id}\"\n"));
    }
    sweep.write(&text);
    sweep.plan();
    let ended = sweep.sweep("run S");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("12 cells done, 10 of them failed"), "{}", ended.stderr);
    let status = sweep.status();
    for (id, status_of) in &schedulers {
        assert_eq!(status["statuses"][status_of], 2, "{id}: {status}");
    }
    let table = sweep.succeed("table S");
    assert!(table.contains("broken failed before it began: "), "{table}");
}

#[test]
fn shards_together_are_the_whole() {
    let sweep = Sweep::done(SMALL);
    let whole = sweep.succeed("table S --format csv");
    fs::remove_dir_all(sweep.home.path().join("S/data")).unwrap();
    for shard in 0..5 {
        let before = sweep.status()["done"].as_u64().unwrap();
        sweep.succeed(&format!("run S --shard {shard}/5"));
        let done = sweep.status()["done"].as_u64().unwrap() - before;
        // Those with hogs-three have more tasks.
        assert!((4..=10).contains(&done), "{done}");
    }
    assert_eq!(sweep.succeed("table S --format csv"), whole);
    assert_eq!(sweep.files().len(), 10);
    assert_eq!(sweep.succeed("pack S"), "5 files became 1; 0 cells were there twice\n");
    assert_eq!(sweep.files().len(), 2);
    assert_eq!(sweep.succeed("table S --format csv"), whole);
    // A cell that was run twice is there once.
    let data = sweep.home.path().join("S/data");
    let kept = sweep.home.path().join("kept");
    fs::rename(&data, &kept).unwrap();
    sweep.succeed("run S --shard 0/2");
    for file in sweep.files() {
        let place = kept.join(file.strip_prefix(&data).unwrap());
        fs::rename(&file, place).unwrap();
    }
    fs::remove_dir_all(&data).unwrap();
    fs::rename(&kept, &data).unwrap();
    assert_eq!(sweep.succeed("table S --format csv"), whole);
    let packed = sweep.succeed("pack S");
    assert!(packed.starts_with("2 files became 1; 1"), "{packed}");
    assert_eq!(sweep.succeed("table S --format csv"), whole);
}

/// Lets a process work for this long, measured in looks at whether it has ended.
fn let_run(child: &mut Child, looks: u32) {
    for _ in 0..looks {
        if child.try_wait().unwrap().is_some() {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until requests to end no longer kill the process: until then it has no work that could be lost.
///
/// It blocks them, to receive them as data. A process that is starting another one blocks all signals for a moment.
fn await_heed(child: &mut Child) {
    let blocks = |signals: u64, signal: libc::c_int| signals >> (signal - 1) & 1 == 1;
    let status = format!("/proc/{}/status", child.id());
    let is_heeded = || {
        let status = fs::read_to_string(&status).unwrap();
        let blocked = { status.lines() }.find_map(|line| line.strip_prefix("SigBlk:"));
        let blocked = u64::from_str_radix(blocked.unwrap().trim(), 16).unwrap();
        blocks(blocked, libc::SIGINT) && !blocks(blocked, libc::SIGUSR1)
    };
    while !is_heeded() {
        assert_eq!(child.try_wait().unwrap(), None);
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
}

#[test]
fn a_sweep_that_is_killed_goes_on() {
    let text = SMALL.replace("seeds = 3", "seeds = 60");
    let sweep = Sweep::done(&text);
    let undisturbed = sweep.succeed("table S --format csv");
    fs::remove_dir_all(sweep.home.path().join("S/data")).unwrap();
    let mut left = u64::MAX;
    for round in 0..20 {
        let mut child = sweep.command("run S --threads 2").stderr(Stdio::null()).spawn().unwrap();
        let_run(&mut child, 20 + round * 13 % 80);
        // A request to end leaves something of which the next process can make use.
        let name = if round % 4 == 3 { "TERM" } else { "KILL" };
        if child.try_wait().unwrap().is_none() {
            signal(&child, name);
        }
        let code = child.wait().unwrap().code();
        assert!([None, Some(0), Some(75)].contains(&code), "{code:?}");
        let now = sweep.status()["left"].as_u64().unwrap();
        assert!(now <= left);
        left = now;
    }
    sweep.succeed("run S");
    assert_eq!(sweep.succeed("table S --format csv"), undisturbed);
    let status = sweep.status();
    assert_eq!(status["done"], 720);
    let unfinished = |path: &&PathBuf| path.extension().is_none_or(|ending| ending != "parquet");
    assert_eq!(sweep.files().iter().find(unfinished), None);
}

#[test]
fn a_run_that_is_asked_to_end_keeps_what_it_has() {
    let text = SMALL.replace("seeds = 3", "seeds = 5000");
    let sweep = Sweep::of(&text);
    sweep.plan();
    let ended = sweep.sweep("run S --until 1ns");
    assert_eq!(ended.code, Some(75), "{}", ended.stderr);
    let scratch = tempfile::tempdir().unwrap();
    let mut child =
        sweep.command("run S").env("TMPDIR", scratch.path()).stderr(Stdio::null()).spawn().unwrap();
    await_heed(&mut child);
    let_run(&mut child, 400);
    signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(75));
    let done = sweep.status()["done"].as_u64().unwrap();
    assert!((1..60_000).contains(&done), "{done}");
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[test]
fn a_run_that_is_asked_twice_does_not_wait_for_its_cells() {
    let sweep = Sweep::of(&SMALL.replace("\"1s\"", "\"1000000s\""));
    sweep.plan();
    let scratch = tempfile::tempdir().unwrap();
    let mut child = sweep
        .command("run S --threads 1")
        .env("TMPDIR", scratch.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    await_heed(&mut child);
    // Two that come together would count as one.
    while child.try_wait().unwrap().is_none() {
        signal(&child, "INT");
        let_run(&mut child, 50);
    }
    assert_eq!(child.wait().unwrap().code(), Some(75));
    let said = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
    assert!(said.contains("at once if asked again\n"), "{said}");
    assert_eq!(sweep.status()["left"], 36);
}

#[test]
fn a_score_that_is_a_share_of_a_run_is_told_where_there_is_an_amount_of_work() {
    let text = SMALL.replace("\"mix-two\", \"hogs-three\"", "\"perf-pipe\"");
    let score = "[[score]]\nname = \"cost\"\nmeasure = \"overhead\"\n";
    let sweep = Sweep::done(&format!("{}\n{score}", text.replace("seeds = 3", "seeds = 2")));
    let ended = sweep.sweep("score S");
    // Two CPUs do not get to the end of it under cfs in a second.
    let told = "8 of 12 runs have an amount of work, of which overhead is a share of their length; overhead_per_work is per work";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
}

#[test]
fn noise_that_recordings_do_not_take_is_told() {
    let recording = crate::support::folder().join("../../../workloads/build.recording");
    let text = SMALL.replace("\"mix-two\", \"hogs-three\"", &format!("{recording:?}"));
    let sweep = Sweep::of(&format!("noise = \"spread\"\n{text}"));
    let ended = sweep.sweep("plan s.toml -o S");
    assert!(ended.stderr.contains("noise has no effect: recordings"), "{}", ended.stderr);
}

#[test]
fn scores_are_one_number() {
    let text = format!(
        "{SMALL}\n[[score]]\nname = \"switches\"\nmeasure = \"context_switches\"\ngoal = \"min\"\n\
         [[score]]\nname = \"waits\"\nmeasure = \"longest_wait\"\n\
         [[score]]\nname = \"answers\"\nmeasure = \"response_p99\"\n"
    );
    let sweep = Sweep::of(&text);
    sweep.plan();
    let before = sweep.sweep("score S");
    assert!(before.stderr.contains("which score? name one of switches, waits, answers"));
    sweep.succeed("run S");
    let ended = sweep.sweep("score S switches");
    assert!(ended.stderr.contains("each number is a mean over "), "{}", ended.stderr);
    // Hogs answer nobody.
    let ended = sweep.sweep("score S answers");
    assert!(ended.stderr.contains("18 runs came to their end without a "), "{}", ended.stderr);
    let scores = ended.stdout;
    let numbers: Vec<f64> =
        { scores.lines() }.map(|line| line.split('\t').next().unwrap().parse().unwrap()).collect();
    assert_eq!(numbers.len(), 3, "{scores}");
    assert!(numbers.is_sorted() && numbers[0] > 0.0);
    assert!(scores.contains("\tcfs sched_latency=24 ms\tplace "), "{scores}");
    let of_task = text.replace("\"longest_wait\"", "\"longest_wait of nobody\"");
    sweep.write(&of_task);
    sweep.plan();
    let nobody = sweep.sweep("score S waits");
    assert_eq!(nobody.code, Some(2));
    let message = "no run has a task nobody, but hog-0, ";
    assert!(nobody.stderr.contains(message), "{}", nobody.stderr);
    // A single one is nothing but the number.
    let one = text.replace("[\"6ms\", \"24ms\"]", "\"24ms\"");
    let one = one.replace("[[scheduler]]\nid = \"o1\"\n", "");
    sweep.write(&one);
    sweep.plan();
    let number = sweep.sweep("score S waits").stdout;
    assert!(number.trim().parse::<f64>().unwrap() > 1e6, "{number}");
}

/// What a score does not show: of percentiles from a few samples, of one seed, and of seeds that change nothing.
#[test]
fn scores_tell_what_their_places_are_worth() {
    let score = "\n[[score]]\nname = \"waits\"\nmeasure = \"wakeup_p99\"\n";
    let text = SMALL.replace("\"mix-two\", \"hogs-three\"", "\"mix-two\"") + score;
    let sweep = Sweep::done(&text);
    let said = sweep.sweep("score S").stderr;
    let few = "18 of 18 runs have fewer samples than the 500 that wakeup_p99 needs; ";
    assert!(said.contains(few), "{said}");
    assert!(!said.contains("seeds are one") && !said.contains("one seed"), "{said}");
    sweep.write(&text.replace("seeds = 3", "seeds = 1"));
    sweep.plan();
    sweep.succeed("run S");
    let ended = sweep.sweep("score S");
    assert!(ended.stderr.contains("places from one seed may be chance; "), "{}", ended.stderr);
    assert!(ended.stdout.contains(" with 1 seed\n"), "{}", ended.stdout);
    sweep.write(&format!("noise = \"none\"\n{text}"));
    sweep.plan();
    sweep.succeed("run S");
    let said = sweep.sweep("score S").stderr;
    let one = "the 3 seeds are one: none of them changes any number, ";
    assert!(said.contains(one) && said.contains("without noise = \"none\""), "{said}");
}

/// Whether a ranking comes from a sweep or from runs of its own makes no difference.
#[test]
fn a_sweep_is_ranked_as_its_runs_are() {
    let of_ids = SMALL.replace("set.sched_latency = [\"6ms\", \"24ms\"]\n", "");
    let sweep = Sweep::of(&of_ids);
    sweep.plan();
    let before = sweep.sweep("rank S");
    assert_eq!(before.code, Some(2));
    assert!(before.stderr.contains("24 of 24 cells have no result yet"), "{}", before.stderr);
    assert!(before.stderr.contains("fairground sweep status FOLDER"), "{}", before.stderr);
    sweep.succeed("run S");
    let line = "rank mix-two hogs-three -m 1 -m 2 -s cfs,o1 --repeat 3 -d 1s --format json";
    assert_eq!(sweep.succeed("rank S --format json"), succeed(line));
    // Those of other ticks are other cells.
    sweep.write(&format!("hz = [250, 1000]\n{of_ids}"));
    sweep.plan();
    sweep.succeed("run S");
    let both: Value = serde_json::from_str(&sweep.succeed("rank S --format json")).unwrap();
    assert_eq!(both["rankings"][0]["ranking"]["cells"], 8);
    let apart = sweep.succeed("rank S --held-out S --report board.html");
    assert!(apart.contains("Held-out loads"), "{apart}");
    assert!(sweep.home.path().join("board.html").is_file());
}

#[test]
fn conditions_have_tables_of_their_own() {
    let sweep = Sweep::of(&format!(
        "hz = [100, 1000]\nhotplug = [[], [\"0:off@500ms\"]]\n{}",
        SMALL.replace("[\"1\", \"2\"]", "[\"2\"]")
    ));
    assert!(sweep.plan().starts_with("72 cells: "));
    sweep.succeed("run S");
    let printed = sweep.succeed("table S");
    for heading in [
        "costs default, 100 ticks a second\n",
        "\ncosts default, 1000 ticks a second, 0:off@500ms\n",
    ] {
        assert!(printed.contains(heading), "{printed}");
    }
    assert_eq!(printed.matches("mix-two (machine 2").count(), 4);
}

#[test]
fn groups_of_cells_tell_that_there_are_notes() {
    let sweep = Sweep::done(&SMALL.replace("\"2\"", "\"phone\"").replace("\"o1\"", "\"kernel\""));
    let ended = sweep.sweep("table S --by scheduler");
    assert!(ended.stderr.contains("there are notes on these runs"), "{}", ended.stderr);
}

/// Every axis with several values, but not one that is named, and not the seeds.
#[test]
fn groups_of_cells_tell_what_they_mix() {
    let text = SMALL.replace("[\"mix-two\", \"hogs-three\"]", "[\"mix-two\"]");
    let text = text.replace("\"1s\"", "\"100ms\"").replace("[\"1\", \"2\"]", "[\"2\"]");
    let sweep = Sweep::done(&format!(
        "costs = [\"default\", \"zero\"]\nhz = [100, 1000]\nhotplug = [[], [\"0:off@50ms\"]]\n{text}"
    ));
    let said = sweep.sweep("table S --by scheduler").stderr;
    for line in [
        "over 2 costs; --by cost tells",
        "over 2 tick rates; --by hz tells",
        "over 2 alternatives of hotplug; --by hotplug tells",
        "over 2 values of sched_latency; --by sched_latency tells",
    ] {
        assert!(said.contains(&format!("fairground: medians are {line} them apart\n")), "{said}");
    }
    assert_eq!(said.matches("medians are over").count(), 4, "{said}");
    let all = sweep.sweep("table S --by scheduler,sched_latency,cost,hz,hotplug").stderr;
    assert!(!all.contains("medians are over"), "{all}");
    // One that is there twice has a setting once.
    sweep.write(&SMALL.replace("[\"6ms\", \"24ms\"]", "\"24ms\"").replace("\"o1\"", "\"cfs\""));
    sweep.plan();
    let said = sweep.sweep("table S --by scheduler,workload,machine").stderr;
    assert!(said.contains("medians are over 2 values of sched_latency; "), "{said}");
    assert!(!said.contains("2 schedulers"), "{said}");
}

#[test]
fn groups_of_cells_have_medians() {
    let sweep = Sweep::done(SMALL);
    let ended = sweep.sweep("table S --by scheduler,sched_latency,machine --format csv");
    assert!(ended.stderr.contains("medians are over 2 workloads; "), "{}", ended.stderr);
    let printed = ended.stdout;
    let lines: Vec<Vec<&str>> = printed.lines().map(|line| line.split(',').collect()).collect();
    let groups: Vec<[&str; 5]> =
        { lines[1..].iter() }.map(|line| line[..5].try_into().unwrap()).collect();
    // As in the plan; o1 has no such setting.
    assert_eq!(
        groups,
        [
            ["cfs", "6 ms", "1", "6", "0"],
            ["cfs", "24 ms", "1", "6", "0"],
            ["cfs", "6 ms", "2", "6", "0"],
            ["cfs", "24 ms", "2", "6", "0"],
            ["o1", "", "1", "6", "0"],
            ["o1", "", "2", "6", "0"],
        ]
    );
    // The median is what compare finds over the same seeds.
    let of_workload = sweep.succeed("table S --by workload,machine,scheduler --format csv");
    let place = { of_workload.lines().next().unwrap().split(',') }
        .position(|column| column == "context_switches")
        .unwrap();
    let line = { of_workload.lines() }.find(|line| line.starts_with("mix-two,2,o1,")).unwrap();
    let compared = succeed("compare mix-two -m 2 -s o1 -d 1s --repeat 3 --format json");
    let compared: Value = serde_json::from_str(&compared).unwrap();
    let mut switches: Vec<f64> = { compared["runs"].as_array().unwrap().iter() }
        .map(|run| run["metrics"]["context_switches"].as_f64().unwrap())
        .collect();
    switches.sort_by(f64::total_cmp);
    let median: f64 = line.split(',').nth(place).unwrap().parse().unwrap();
    assert_eq!(median, switches[1]);
    let told = sweep.succeed("table S --by workload,machine,scheduler");
    assert_eq!(told.matches("\n spread ").count(), of_workload.lines().count() - 1, "{told}");
    let of_seed = sweep.succeed("table S --by workload,machine,scheduler,sched_latency,seed");
    assert!(!of_seed.contains("spread"), "{of_seed}");
    for (line, message) in [
        ("table S --by colour", "seed, sched_latency"),
        ("table S --by seed --format json", "[possible values: table, csv, markdown]"),
    ] {
        let ended = sweep.sweep(line);
        assert!(ended.stderr.contains(message), "{line}: {}", ended.stderr);
        assert_eq!(ended.code, Some(2), "{line}");
    }
}

#[test]
fn the_script_for_slurm_is_short() {
    let sweep = Sweep::of(SMALL);
    sweep.plan();
    let script = sweep.succeed("slurm S --tasks 64 --cpus 4 --time 1:00:00 -- --partition=short");
    assert!(script.lines().count() <= 10, "{script}");
    for line in [
        "#SBATCH --array=0-63",
        "#SBATCH --signal=B:TERM@60",
        "#SBATCH --partition=short",
        "/S --shard \"$SLURM_ARRAY_TASK_ID/64\" --threads \"$SLURM_CPUS_PER_TASK\"",
    ] {
        assert!(script.contains(line), "{script}");
    }
    // As Slurm would run the second task of two.
    let script = sweep.succeed("slurm S --tasks 2 --time 1:00:00");
    let path = sweep.home.path().join("S.sh");
    fs::write(&path, script).unwrap();
    let run = |task: &str| {
        let mut command = Command::new("sh");
        command
            .arg(&path)
            .current_dir(Path::new("/"))
            .env("SLURM_ARRAY_TASK_ID", task)
            .env("SLURM_CPUS_PER_TASK", "1");
        end_of(&mut command)
    };
    assert_eq!(run("1").code, Some(0));
    let half = sweep.status()["done"].as_u64().unwrap();
    assert!((12..=28).contains(&half), "{half}");
    assert_eq!(run("0").code, Some(0));
    assert_eq!(sweep.status()["left"], 0);
}

#[test]
fn files_that_are_damaged_are_named_with_the_way_out() {
    let sweep = Sweep::done(SMALL);
    let whole = sweep.succeed("table S --format csv");
    let refuse = |line: &str, code: i32, messages: &[&str]| {
        let ended = sweep.sweep(line);
        assert_eq!(ended.code, Some(code), "{line}: {}", ended.stderr);
        for message in messages {
            assert!(ended.stderr.contains(message), "{line}: {}", ended.stderr);
        }
    };
    let remedy = "remove the files of this name in runs and tasks, and run the sweep again";
    for table in ["runs", "tasks"] {
        let of_table = |path: &&PathBuf| path.iter().any(|part| part == table);
        let file = sweep.files().iter().find(of_table).unwrap().clone();
        let bytes = fs::read(&file).unwrap();
        let name = format!("{}: cannot be read: ", file.file_name().unwrap().display());
        let place = format!("S/data/{table}/");
        let lines: &[&str] = match table {
            "runs" => &["table S", "pack S", "status S", "run S"],
            _ => &["table S", "pack S"],
        };
        for line in lines {
            fs::write(&file, &bytes[..1000]).unwrap();
            refuse(line, 1, &[&place, &name, remedy]);
        }
        if table == "tasks" {
            fs::remove_file(&file).unwrap();
            refuse("table S", 1, &[&place, &name, remedy]);
        }
        for file in sweep.files() {
            let _ = fs::remove_file(file);
        }
        sweep.succeed("run S");
        assert_eq!(sweep.succeed("table S --format csv"), whole);
    }
    let list = sweep.home.path().join("S/plan/cells");
    fs::write(&list, [0; 160]).unwrap();
    for line in ["status S", "run S", "table S"] {
        let messages = ["S/plan/cells: it has 160 bytes", "plan again, which keeps all"];
        refuse(line, 2, &messages);
    }
    fs::remove_file(&list).unwrap();
    refuse("status S", 2, &["S/plan/cells: ", "plan again"]);
    sweep.plan();
    assert_eq!(sweep.succeed("table S --format csv"), whole);
    let plan = sweep.home.path().join("S/plan/plan.json");
    let text = fs::read_to_string(&plan).unwrap();
    fs::write(&plan, text.replacen("\"engine\": \"", "\"engine\": \"0", 1)).unwrap();
    refuse("run S", 2, &["was made by", "or plan again"]);
    fs::write(&plan, "{").unwrap();
    refuse("run S", 2, &["its plan cannot be read"]);
}

#[test]
fn results_that_cannot_be_written_are_an_error_and_computed_again() {
    let sweep = Sweep::of(SMALL);
    sweep.plan();
    // Files have at most half a kilobyte, which stands for a disk that is full.
    let limited = |line: &str| {
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("ulimit -f 1; exec \"$0\" sweep {line}")])
            .arg(env!("CARGO_BIN_EXE_fairground"))
            .current_dir(sweep.home.path());
        end_of(&mut command)
    };
    let ended = limited("run S");
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let said = &ended.stderr;
    assert!(said.contains("cannot write S/data/") && said.contains("ulimit -f"), "{said}");
    assert_eq!(ended.stderr.trim().lines().count(), 1, "{}", ended.stderr);
    assert_eq!(sweep.files(), Vec::<PathBuf>::new());
    sweep.succeed("run S");
    let ended = limited("pack S");
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert_eq!(sweep.files().len(), 2);
    // A file where the folder of its results should be.
    fs::remove_dir_all(sweep.home.path().join("S/data")).unwrap();
    fs::write(sweep.home.path().join("S/data"), "").unwrap();
    let ended = sweep.sweep("run S");
    assert_eq!(ended.code, Some(1));
    let message = "name a folder, not a file";
    assert!(ended.stderr.contains(message), "{}", ended.stderr);
}

#[test]
fn two_that_do_the_same_shard_at_once_agree() {
    let sweep = Sweep::of(SMALL);
    sweep.plan();
    let start = || {
        let mut command = sweep.command("run S --threads 1");
        command.stderr(Stdio::null()).spawn().unwrap()
    };
    let mut both = [start(), start()];
    for child in &mut both {
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
    assert_eq!(sweep.status()["done"], 36);
    let table = sweep.succeed("table S --format csv");
    let packed = sweep.succeed("pack S");
    assert!(packed.contains(" files became 1; "), "{packed}");
    assert_eq!(sweep.succeed("table S --format csv"), table);
    let alone = Sweep::of(SMALL);
    alone.plan();
    alone.succeed("run S");
    assert_eq!(alone.succeed("table S --format csv"), table);
}

/// The blocks of a document that begin with this line.
fn blocks(text: &str, begin: &str) -> Vec<String> {
    let begin = format!("\n{begin}\n");
    text.split(&begin).skip(1).map(|part| part.split("\n```").next().unwrap().to_owned()).collect()
}

#[test]
fn the_first_steps_in_the_document_are_all_that_is_needed() {
    let path = folder().join("../../../docs/sweeps.md");
    let text = fs::read_to_string(path).unwrap();
    let toml = blocks(&text, "```toml").remove(0);
    let quick = toml.replace("\"2s\"", "\"100ms\"").replace("= 10 ", "= 1 ");
    assert_ne!(toml, quick);
    let sweep = Sweep::of("");
    fs::write(sweep.home.path().join("granularity.toml"), quick).unwrap();
    let steps = blocks(&text, "In an empty folder, a minute on two CPUs:\n\n```").remove(0);
    assert!(steps.lines().count() > 5, "{steps}");
    for line in steps.lines() {
        let line = line.split(" #").next().unwrap();
        let program = env!("CARGO_BIN_EXE_fairground");
        let line = line.replacen("fairground ", &format!("'{program}' "), 1);
        let ended = end_of(Command::new("sh").args(["-c", &line]).current_dir(sweep.home.path()));
        assert_eq!(ended.code, Some(0), "{line}: {}", ended.stderr);
    }
    assert_eq!(sweep.status()["statuses"].as_object().unwrap().len(), 1);
}

#[test]
fn mistakes_are_told() {
    let sweep = Sweep::of("");
    for (text, message) in [
        ("workloads = 3", "s.toml:1:13: invalid type"),
        ("workloads = [\"mix-two\"]\nscheduler = []", "at least one [[scheduler]]"),
        (&SMALL.replace("mix-two", "mix-three"), "there is no such file"),
        (&SMALL.replace("[\"1\", \"2\"]", "[\"host\"]"), "lstopo machine.xml"),
        (&SMALL.replace("\"cfs\"", "\"exec:scx_bpfland\""), "fairground capture"),
        (&SMALL.replace("sched_latency", "sched_latenzy"), "did you mean sched_latency?"),
        (&SMALL.replace("seeds = 3", "seeds = 0"), "seeds: there has to be one"),
        (&format!("window = \"3s\"\n{SMALL}"), "window: no run of 1s has one of 3s; leave it out"),
        (
            &SMALL.replace("id = \"o1\"", "id = \"o1\"\ndefine = [\"X=1\"]"),
            "o1: include and define are for sources of your own, which it is not; leave them out",
        ),
        (&format!("hz = [3]\n{SMALL}"), "hz: not a number from 10 to 10000"),
        (
            &format!("{SMALL}[[score]]\nname = \"x\"\nmeasure = \"speed\""),
            "there is no measure \"speed\"",
        ),
        (
            &format!("{SMALL}[[score]]\nname = \"x\"\nmeasure = \"wakeups\""),
            "goal = \"min\" or goal = \"max\"",
        ),
    ] {
        sweep.write(text);
        let ended = sweep.sweep("plan s.toml -o S");
        assert!(ended.stderr.contains(message), "{text}: {}", ended.stderr);
        assert_eq!(ended.code, Some(2), "{text}");
    }
    for line in ["run S", "status S", "table S", "slurm S --tasks 1 --time 1"] {
        let ended = sweep.sweep(line);
        assert!(ended.stderr.contains("this is no sweep"), "{line}: {}", ended.stderr);
        assert_eq!(ended.code, Some(2), "{line}");
    }
    let ended = sweep.sweep("run S --shard 4/4");
    assert!(ended.stderr.contains("3/4 for the last"), "{}", ended.stderr);
}

#[test]
fn mistakes_in_axes_are_told() {
    let sweep = Sweep::of("");
    for (text, message) in [
        (&format!("colour = 3\n{SMALL}"), "s.toml:1:1: unknown field `colour`"),
        (&SMALL.replace("[\"1\", \"2\"]", "[]"), "machines: an empty list makes no cells"),
        (&format!("costs = []\n{SMALL}"), "costs: an empty list makes no cells"),
        (&format!("hz = []\n{SMALL}"), "hz: an empty list makes no cells"),
        (&format!("hotplug = []\n{SMALL}"), "hotplug: an empty list makes no cells"),
        (
            &SMALL.replace("[\"6ms\", \"24ms\"]", "[]"),
            "cfs.sched_latency: an empty list makes no cells",
        ),
        (
            &SMALL.replace("[\"6ms\", \"24ms\"]", "\"1ms..8ms:+0ms\""),
            "cfs.sched_latency: 1ms..8ms:+0ms does not end",
        ),
        (
            &SMALL.replace("[\"6ms\", \"24ms\"]", "{ from = \"1ms\", to = \"8ms\", step = 3 }"),
            "s.toml:9:21: the values of a setting are one, a list of them, or { from = ",
        ),
        (
            &SMALL.replace("seeds = 3", "seeds = [3, 7]"),
            "s.toml:4:9: seeds are a number, such as 20, or { from = ",
        ),
        (
            &SMALL.replace("seeds = 3", "seeds = -3"),
            "s.toml:4:9: seeds are a number, such as 20, or { from = ",
        ),
        (
            &SMALL.replace("[\"6ms\", \"24ms\"]", "\"1h\""),
            "3600 s is out of range; it takes 0 ns to 100 ms",
        ),
    ] {
        sweep.write(text);
        let ended = sweep.sweep("plan s.toml -o S");
        assert!(ended.stderr.contains(message), "{text}: {}", ended.stderr);
        assert_eq!(ended.code, Some(2), "{text}");
    }
}

#[test]
fn two_scores_have_two_names() {
    let score = "[[score]]\nname = \"a\"\nmeasure = \"lag\"\n";
    let ended = Sweep::of(&format!("{SMALL}\n{score}{score}")).sweep("plan s.toml -o S");
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("two scores are called a; rename one"), "{}", ended.stderr);
}

/// Nothing is known of two that never met.
#[test]
fn only_cells_that_all_have_are_ranked() {
    let sweep = Sweep::done(&SMALL.replace("seeds = 3", "seeds = 2"));
    let beside = |machine: &str| {
        let text = format!(
            "workloads = [\"mix-two\"]\nmachines = [\"{machine}\"]\nseeds = 2\nduration = \"1s\"\n[[scheduler]]\nid = \"bfs\"\n"
        );
        fs::write(sweep.home.path().join("t.toml"), text).unwrap();
        sweep.succeed(&format!("plan t.toml -o T{machine}"));
        sweep.succeed(&format!("run T{machine}"));
        sweep.sweep(&format!("rank S T{machine}"))
    };
    let ended = beside("2");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let told = "bfs has no run in 3 cells, which are left out; first mix-two on 1";
    assert!(ended.stdout.contains(told), "{}", ended.stdout);
    assert!(ended.stdout.starts_with("Loads: 1 cell, "), "{}", ended.stdout);
    let ended = beside("4");
    assert_eq!(ended.code, Some(2), "{}", ended.stdout);
    assert!(ended.stderr.contains("Loads: none was run under all of these"), "{}", ended.stderr);
    let ended = sweep.sweep("rank S --held-out S --held-out T4");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("Held-out loads: none was run under all"), "{}", ended.stderr);
    let ended = sweep.sweep("rank S T2 --format csv");
    assert!(ended.stderr.contains("bfs has no run in 3 cells"), "{}", ended.stderr);
}

/// Results are kept by what was simulated; how a former plan called it does not matter.
#[test]
fn what_is_called_otherwise_now_has_the_name_of_the_plan() {
    let of = |names: [&str; 2], schedulers: [&str; 2]| {
        let mut text = "workloads = [\"mix-two\"]\nseeds = 1\nduration = \"50ms\"\n".to_owned();
        for (name, id) in names.into_iter().zip(schedulers) {
            text.push_str(&format!("[[scheduler]]\nid = \"{id}\"\nname = \"{name}\"\n"));
        }
        text
    };
    let sweep = Sweep::done(&of(["old", "new"], ["cfs", "o1"]));
    sweep.write(&of(["old", "new"], ["o1", "bfs"]));
    sweep.plan();
    sweep.succeed("run S");
    let table = sweep.succeed("table S --by scheduler");
    let names: Vec<&str> = ["old ", "new "].into_iter().filter(|one| table.contains(one)).collect();
    assert_eq!(names.len(), 2, "{table}");
}
