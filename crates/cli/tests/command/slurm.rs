//! A sweep as a job array of Slurm, on a cluster of this machine alone.
//!
//! Slurm comes from Debian's packages (`scripts/install test`). Without it the test is skipped and says so; with `CI=true` in the environment that is
//! an error.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::support::{Ended, end_of, folder};

/// How many times to look for something: a count, not a time.
const LOOKS: u32 = 3000;

/// A cluster, which ends with this value.
struct Cluster {
    home: TempDir,
    child: Child,
}

impl Cluster {
    fn start() -> Option<Self> {
        let programs = ["slurmctld", "slurmd", "munged", "sbatch", "squeue"];
        let is_there = |program: &&str| {
            ["/usr/sbin", "/usr/bin"].iter().any(|folder| Path::new(folder).join(program).exists())
        };
        let is_required = std::env::var_os("CI").is_some_and(|value| value == "true");
        if !programs.iter().all(is_there) {
            assert!(!is_required, "Slurm is missing; run scripts/install test");
            eprintln!("skipped: Slurm is missing; run scripts/install test");
            return None;
        }
        let home = tempfile::tempdir().unwrap();
        let mut child = Command::new(folder().join("slurm/cluster"))
            .arg(home.path().join("slurm"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "the cluster does not begin to work");
        Some(Self { home, child })
    }

    fn command(&self, line: &str) -> Ended {
        let mut command = Command::new("sh");
        command
            .args(["-c", line])
            .current_dir(self.home.path())
            .env("FAIRGROUND", env!("CARGO_BIN_EXE_fairground"))
            .env("SLURM_CONF", self.home.path().join("slurm/slurm.conf"));
        end_of(&mut command)
    }

    fn succeed(&self, line: &str) -> String {
        let ended = self.command(line);
        assert_eq!(ended.code, Some(0), "{line}: {}", ended.stderr);
        ended.stdout
    }

    /// Submits the job array as `edit` makes it, and returns its number.
    fn submit(&self, edit: &str) -> String {
        let line = format!(
            "$FAIRGROUND sweep slurm S --tasks 2 --time 10 -- --output=%a.log | {edit} | sbatch --parsable"
        );
        self.succeed(&line).trim().to_owned()
    }

    fn until(&self, line: &str, mut is_so: impl FnMut(&str) -> bool) {
        for _ in 0..LOOKS {
            if is_so(&self.succeed(line)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let logs: PathBuf = self.home.path().join("slurm");
        panic!("never: {line}: {}", self.succeed(&format!("tail -n 20 {}/*.log", logs.display())));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Lets task 0 begin and not come to an end, however fast it is.
const HANGS: &str = r"sed 's/^exec \(.*\)/[ $SLURM_ARRAY_TASK_ID = 1 ] || { \1 --until 1ms; exec sleep 1000; }\n&/'";

#[test]
fn an_array_of_which_a_task_is_killed_is_submitted_again() {
    let Some(cluster) = Cluster::start() else { return };
    let text = "workloads = [\"mix-two\", \"hogs-three\"]\nmachines = [\"1\", \"2\"]\nseeds = 10\nduration = \"1s\"\n\
                [[scheduler]]\nid = \"cfs\"\n[[scheduler]]\nid = \"o1\"\n";
    std::fs::write(cluster.home.path().join("s.toml"), text).unwrap();
    cluster.succeed("$FAIRGROUND sweep plan s.toml -o whole && $FAIRGROUND sweep run whole");
    cluster.succeed("$FAIRGROUND sweep plan s.toml -o S");
    let job = cluster.submit(HANGS);
    cluster
        .until(&format!("squeue --noheader --states=running --jobs={job}_0 || true"), |running| {
            !running.is_empty()
        });
    cluster.succeed(&format!("scancel --full --signal=KILL {job}_0"));
    let is_over = |line: &str| line.is_empty();
    cluster.until("squeue --noheader", is_over);
    let status = cluster.command("$FAIRGROUND sweep status S");
    assert_eq!(status.code, Some(1), "{}", status.stdout);
    assert!(status.stdout.starts_with("80 cells: "), "{}", status.stdout);
    cluster.submit("cat");
    cluster.until("squeue --noheader", is_over);
    cluster.succeed("$FAIRGROUND sweep status S");
    let same = "for sweep in whole S; do $FAIRGROUND sweep table $sweep --format csv > $sweep.csv; done; cmp whole.csv S.csv";
    cluster.succeed(same);
}
