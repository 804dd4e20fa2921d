//! Kinds of files that people have at hand, and that are read in another way than where they were given.

/// What a file is, with the way to what is read; `None` if nothing shows it. The beginning of the file is enough.
///
/// The text goes on behind the name of the file: "it is ...".
pub fn recognised(bytes: &[u8]) -> Option<&'static str> {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(1 << 16)]);
    let has = |word: &str| text.contains(word);
    let told = match () {
        () if bytes.starts_with(b"\x17\x08\x44tracing") => {
            "it is a trace.dat of trace-cmd; `trace-cmd report trace.dat > trace.txt` makes a text that `fairground import` reads"
        }
        () if bytes.starts_with(b"PERFILE2") => {
            "it is a file of perf; `fairground import` makes a recording of it"
        }
        () if has("Machine (") && has("L#0") => {
            "it is the text of lstopo; `lstopo machine.xml` writes the file that -m reads"
        }
        () if has("Architecture:") && has("CPU(s):") => {
            "it is the text of lscpu, which does not tell which CPUs share caches; `lstopo machine.xml` writes the file that -m reads"
        }
        () if text.starts_with("version ") && has("\ncpu0 ") => {
            "it is /proc/schedstat, whose sums do not tell when tasks ran; `perf sched record` or `fairground record` do"
        }
        () if has("sched_switch: ") => {
            "it is the text of ftrace; `fairground import` makes a recording of it"
        }
        () if has("sched_ext: BPF scheduler") || has("runnable task stall (") => {
            "it tells that the kernel unloaded a scheduler, and lacks the debug dump with its tasks: that is in the output of the scheduler's loader \
             (`journalctl -u scx` or -u scx_loader), between \"DEBUG DUMP\" and the next line of ="
        }
        // A trace of Perfetto is a message of packets, of which the first are about clocks and the tracer itself.
        () if bytes.starts_with(b"\x0a")
            && (has("perfetto") || has("linux.ftrace") || has("traced")) =>
        {
            "it is a trace of Perfetto; `traceconv systrace TRACE trace.txt` makes a text that `fairground import` reads"
        }
        () => return None,
    };
    Some(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_other_programs_are_told_with_what_is_read_instead() {
        for (bytes, part) in [
            (&b"\x17\x08\x44tracing6"[..], "trace-cmd report"),
            (b"Machine (31GB total)\n  Package L#0\n", "lstopo machine.xml"),
            (b"Architecture:  x86_64\nCPU(s):  8\n", "lscpu"),
            (b"version 17\ntimestamp 1\ncpu0 0 0\n", "perf sched record"),
            (b" a-1 [000] 1.0: sched_switch: a", "ftrace"),
            (b"sched_ext: BPF scheduler \"x\" disabled (runnable task stall)\n", "debug dump"),
            (b"\x0a\x10traced", "Perfetto"),
        ] {
            assert!(recognised(bytes).is_some_and(|told| told.contains(part)), "{part}");
        }
        assert_eq!(recognised(b"{ \"tasks\": {} }"), None);
    }
}
