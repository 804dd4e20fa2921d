//! Kinds of files that people have at hand, and that are read in another way than where they were given.

/// What a file is, with the way to what is read; `None` if nothing shows it. The beginning of the file is enough.
///
/// The text goes on behind the name of the file: "it is ...".
pub fn recognised(bytes: &[u8]) -> Option<&'static str> {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(1 << 16)]);
    let has = |word: &str| text.contains(word);
    let told = match () {
        () if bytes.iter().all(u8::is_ascii_whitespace) => {
            "it is empty; what wrote it has perhaps been stopped"
        }
        () if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") => {
            "it is text in UTF-16; `iconv -f UTF-16 -t UTF-8 FILE > text` makes UTF-8 of it, which is read"
        }
        () if [&b"\x1f\x8b"[..], b"\x28\xb5\x2f\xfd", b"\xfd7zXZ", b"BZh", b"PK\x03\x04"]
            .iter()
            .any(|magic| bytes.starts_with(magic)) =>
        {
            "it is compressed; unpack it first"
        }
        () if bytes.starts_with(b"\x89FGREC\r\n") => {
            "it is a recording of fairground already; `fairground show` and `fairground compare` take it as it is"
        }
        () if bytes.starts_with(b"\x17\x08\x44tracing") => {
            "it is a trace.dat of trace-cmd; `trace-cmd report trace.dat > trace.txt` makes a text that `fairground import` reads"
        }
        () if bytes.starts_with(b"PERFILE2") => {
            "it is a file of perf; `fairground import` makes a recording of it"
        }
        () if has("Machine (") && (has("L#0") || has("PU P#")) => {
            "it is the text of lstopo; `lstopo machine.xml` writes the file that -m reads"
        }
        () if has("Architecture:") && has("CPU(s):")
            || has("# CPU,") && has(",Socket")
            || text.starts_with("CPU NODE ") =>
        {
            "it is the text of lscpu, which does not tell which CPUs share caches; `lstopo machine.xml` writes the file that -m reads"
        }
        () if text.starts_with("processor\t: ") || has("node 0 cpus: ") => {
            "it tells of CPUs, but not how they share caches; `lstopo machine.xml` writes the file that -m reads"
        }
        () if has("\"traceEvents\"") => {
            "it is a trace in the JSON of Chrome, which has slices of programs and no wake-ups; the text of ftrace, or `perf sched record`, is read"
        }
        () if text.starts_with("version ") && has("\ncpu0 ") => {
            "it is /proc/schedstat, whose sums do not tell when tasks ran; `perf sched record` or `fairground record` do"
        }
        () if has("sched_switch: ") => {
            "it has events of ftrace; `fairground import` reads lines such as `app-41 [001] d..2. 10.004001: sched_switch: ...`"
        }
        () if has("sched_waking: ") || has("sched_wakeup: ") => {
            "it has wake-ups of ftrace and no sched_switch, which says when tasks ran; record both"
        }
        () if text.trim_start().starts_with('{') && has("\"tasks\"") => {
            "it is an rt-app file, a load that `fairground show` and `fairground compare` take as it is"
        }
        () if has("sched_ext: BPF scheduler") || has("runnable task stall (") => {
            "it tells that the kernel unloaded a scheduler, and lacks the debug dump with its tasks: that is in the output of the scheduler's loader \
             (`journalctl -u scx` or -u scx_loader), between \"DEBUG DUMP\" and the next line of ="
        }
        // A trace of Perfetto is a message of packets, of which the first are about clocks and the tracer itself.
        () if bytes.starts_with(b"\x0a")
            && (has("perfetto")
                || has("linux.ftrace")
                || has("traced")
                || has("\x0a\x05Linux")) =>
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
            (b"\x0a\x16\xea\x02\x13\x0a\x0f\x0a\x05Linux\x1a\x066.18.0", "Perfetto"),
            (b"\x89FGREC\r\n\x02\0\0\0", "a recording"),
            (b" a-1 [000] 1.0: sched_waking: a", "no sched_switch"),
            (b"{ \"tasks\": {} }", "rt-app"),
            (b" \n", "empty"),
            (b"\xff\xfeD\0E\0", "UTF-16"),
            (b"\x1f\x8b\x08", "unpack"),
            (b"Machine (P#0 total=1GB)\n  PU P#0\n", "lstopo machine.xml"),
            (b"# CPU,Core,Socket,Node\n0,0,0,0\n", "lscpu"),
            (b"CPU NODE SOCKET CORE\n  0    0\n", "lscpu"),
            (b"processor\t: 0\nmodel name\t: x\n", "lstopo machine.xml"),
            (b"available: 1 nodes (0)\nnode 0 cpus: 0 1\n", "lstopo machine.xml"),
            (b"{\"traceEvents\": []}", "Chrome"),
        ] {
            assert!(recognised(bytes).is_some_and(|told| told.contains(part)), "{part}");
        }
        assert_eq!(recognised(b"{ \"words\": {} }"), None);
    }
}
