//! Source lines of instructions.

use crate::btf_ext::Line;
use crate::instruction::SIZE;
use crate::object::{Function, Object};

/// A place in the source of a scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The function.
    pub program: String,
    /// The source file as the compiler was given it; empty if unknown.
    pub file: String,
    /// Line, from 1; 0 if unknown.
    pub line: u32,
    /// Column, from 1; 0 if unknown.
    pub column: u32,
    /// The text of the line; empty if unknown.
    pub source_text: String,
}

impl std::fmt::Display for Location {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.line == 0 {
            return write!(formatter, "{}", self.program);
        }
        write!(formatter, "{} at {}:{}:{}", self.program, self.file, self.line, self.column)
    }
}

/// The places of all instructions of one function.
#[derive(Debug)]
pub(crate) struct Places {
    program: String,
    /// First instruction of each source line, counted from the start of the
    /// function; sorted.
    lines: Vec<(usize, Line)>,
}

impl Places {
    /// The place of an instruction.
    pub(crate) fn at(&self, instruction: usize) -> Location {
        let after = self.lines.partition_point(|line| line.0 <= instruction);
        let line = after.checked_sub(1).map(|index| &self.lines[index].1);
        Location {
            program: self.program.clone(),
            file: line.map(|line| line.file.clone()).unwrap_or_default(),
            line: line.map_or(0, |line| line.line),
            column: line.map_or(0, |line| line.column),
            source_text: line.map(|line| line.text.clone()).unwrap_or_default(),
        }
    }
}

impl Object {
    /// The places of the instructions of a function.
    pub(crate) fn places(&self, function: &Function) -> Places {
        let end = function.start + function.instructions.len();
        let sections = self.ext().lines.iter();
        let mut lines: Vec<(usize, Line)> = sections
            .filter(|(section, _)| *section == function.section)
            .flat_map(|(_, lines)| lines)
            .map(|line| (line.offset as usize / SIZE, line))
            .filter(|(instruction, _)| (function.start..end).contains(instruction))
            .map(|(instruction, line)| (instruction - function.start, line.clone()))
            .collect();
        lines.sort_by_key(|line| line.0);
        Places { program: function.name.clone(), lines }
    }

    /// The place of one instruction of a function.
    pub(crate) fn location(&self, function: &Function, instruction: usize) -> Location {
        self.places(function).at(instruction)
    }
}
