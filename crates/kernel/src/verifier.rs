//! The verifier's log, reduced to the lines that explain a rejection.

use std::fmt;

/// libbpf encloses the log of a rejected program in these.
const BEGIN: &str = "-- BEGIN PROG LOAD LOG --\n";
const END: &str = "-- END PROG LOAD LOG --";

/// Number of lines shown from the end of the log. Enough for the last branches before the error, with their source lines.
const SHOWN: usize = 40;

/// A program that the verifier rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Name of the BPF program.
    pub program: String,
    /// The whole log.
    pub log: String,
}

impl Rejection {
    /// Finds the rejection among libbpf's messages.
    pub fn find(messages: &[String]) -> Option<Self> {
        messages.iter().find_map(|message| {
            let (head, rest) = message.split_once(BEGIN)?;
            let log = rest.rsplit_once(END).map_or(rest, |(log, _)| log);
            Some(Self {
                program: head.split('\'').nth(1).unwrap_or("unknown").to_owned(),
                log: log.trim_end().to_owned(),
            })
        })
    }

    /// The end of the log that explains the rejection, without the verifier's statistics: its summary, or the last lines, beginning with a source line.
    pub fn useful_end(&self) -> String {
        let lines: Vec<&str> = self.log.lines().filter(|line| !is_account(line)).collect();
        let earliest = lines.len().saturating_sub(SHOWN);
        // Newer kernels summarise the rejection at the end; older ones end with the last branch that was followed.
        let start = lines
            .iter()
            .rposition(|line| line.starts_with("Verification failed"))
            .or_else(|| (earliest..lines.len()).find(|index| lines[*index].starts_with("; ")))
            .unwrap_or(earliest);
        let mut end = lines[start..].join("\n");
        if start > 0 {
            end.insert_str(0, &format!("[{start} lines left out, --verbose shows all]\n"));
        }
        end
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the kernel's verifier did not accept the program `{}`; nothing was loaded. The end of its log:\n{}",
            self.program,
            self.useful_end()
        )
    }
}

/// Lines with statistics of the verifier's work, which explain nothing.
fn is_account(line: &str) -> bool {
    ["processed ", "verification time ", "stack depth ", "insns processed ", "mark_precise: "]
        .iter()
        .any(|beginning| line.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(log: &str) -> Vec<String> {
        vec![
            "prog 'bad_enqueue': BPF program load failed: Permission denied\n".to_owned(),
            format!(
                "prog 'bad_enqueue': -- BEGIN PROG LOAD LOG --\n{log}-- END PROG LOAD LOG --\n"
            ),
        ]
    }

    #[test]
    fn a_short_log_is_shown_whole() {
        let log = "0: R1=ctx()\n; p->pid; @ bad.bpf.c:7\n1: (61) r1 = *(u32 *)(r1 +0)\nR1 invalid mem access 'scalar'\n\
                   processed 2 insns (limit 1000000)\n";
        let rejection = Rejection::find(&messages(log)).expect("there is a log");
        assert_eq!(rejection.program, "bad_enqueue");
        let text = rejection.to_string();
        assert!(text.contains("bad.bpf.c:7") && text.contains("invalid mem access"), "{text}");
        assert!(!text.contains("processed 2 insns"), "{text}");
    }

    #[test]
    fn a_long_log_is_cut_at_a_source_line() {
        let mut log = String::new();
        for line in 0..500 {
            if line % 10 == 0 {
                log += &format!("; statement {line};\n");
            } else {
                log += &format!("{line}: (bf) r1 = r2\n");
            }
        }
        log += "the reason\n";
        let end = Rejection::find(&messages(&log)).expect("there is a log").useful_end();
        let mut lines = end.lines();
        assert!(lines.next().is_some_and(|line| line.contains("left out")));
        assert!(lines.next().is_some_and(|line| line.starts_with("; statement")));
        assert_eq!(end.lines().last(), Some("the reason"));
        assert!(end.lines().count() <= SHOWN + 1);
    }

    #[test]
    fn a_summary_is_shown_whole() {
        let summary =
            format!("Verification failed: unsafe\n{}the end", "because\n".repeat(2 * SHOWN));
        let log = format!("{}{summary}\n", "0: (bf) r1 = r2\n".repeat(9));
        let end = Rejection::find(&messages(&log)).expect("there is a log").useful_end();
        assert_eq!(end, format!("[9 lines left out, --verbose shows all]\n{summary}"));
    }

    #[test]
    fn other_failures_are_no_rejection() {
        assert!(Rejection::find(&["libbpf: failed to find BTF\n".to_owned()]).is_none());
    }
}
