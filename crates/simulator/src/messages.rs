//! The output of the scheduler and the kernel.

/// Maximum number of lines that are kept.
const MOST: usize = 100_000;

/// Lines in their order; those after the first [`MOST`] are only counted.
#[derive(Default)]
pub struct Messages {
    lines: Vec<String>,
    unkept: u64,
}

impl Messages {
    /// Adds a line.
    pub fn add(&mut self, line: String) {
        if self.lines.len() < MOST {
            self.lines.push(line);
        } else {
            self.unkept += 1;
        }
    }

    /// Whether a line is among them.
    pub fn has(&self, line: &String) -> bool {
        self.lines.contains(line)
    }

    /// The lines, and one that says how many more there were.
    pub fn finish(mut self) -> Vec<String> {
        if self.unkept > 0 {
            let more = format!("{} more lines were not kept", self.unkept);
            self.lines.push(more);
        }
        self.lines
    }
}
