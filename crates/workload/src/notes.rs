//! Notes: departures that were accepted but that the user should know about.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::json::{Departure, Position};

/// A place in a file: where it is in the text and in the tree of keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub position: Position,
    pub path: String,
}

/// A remark that is made in several places of the reader, or of several things.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Remark {
    Departure(Departure),
    RepeatedEvent,
    RepeatedPhase,
    SuspendWithoutName,
    SuspendOtherName,
    Null,
    CpuAsString,
    Resources,
    Frag,
    PriorityInheritance,
    Mem,
    MemRun,
    IoRun,
    UtilizationClamp,
    MemoryNodes,
    Ext,
    CustomSlice,
    EndlessRun,
}

impl Remark {
    fn sentence(self) -> &'static str {
        match self {
            Remark::Departure(Departure::Comment) => {
                "a comment, which JSON does not have and rt-app accepts"
            }
            Remark::Departure(Departure::TrailingComma) => {
                "a comma after the last entry, which JSON forbids and rt-app accepts"
            }
            Remark::Departure(Departure::SingleQuotes) => {
                "single quotes, which JSON forbids and rt-app accepts"
            }
            Remark::Departure(Departure::LiteralCase) => {
                "true, false or null in capitals, which JSON forbids and rt-app accepts"
            }
            Remark::RepeatedEvent => {
                "a repeated key, read as one more event, as workgen does (rt-app alone keeps only the last)"
            }
            Remark::RepeatedPhase => {
                "a repeated key, read as one more phase, as workgen does (rt-app alone keeps only the last)"
            }
            Remark::SuspendWithoutName => {
                "without a value, read as the name of the task, as workgen does (rt-app alone does not read it)"
            }
            Remark::SuspendOtherName => {
                "waits under the name written, as in rt-app 1.0 (later versions ignore it and wait under the name of the task)"
            }
            Remark::Null => "null, read as if the key were absent, as rt-app does",
            Remark::CpuAsString => "a CPU number in quotes, read as the number, as rt-app does",
            Remark::Resources => {
                "is not needed: like rt-app, this reader takes resources from the events that use them"
            }
            Remark::Frag => "has no meaning in any rt-app since 1.0 and is ignored",
            Remark::PriorityInheritance => {
                "priority inheritance is only approximated by a simulation, which has plain mutexes"
            }
            Remark::Mem => "mem is only approximated by a simulation",
            Remark::MemRun => "memrun is only approximated by a simulation",
            Remark::IoRun => "iorun is only approximated by a simulation",
            Remark::UtilizationClamp => {
                "utilization clamps have no effect in a simulation: neither frequencies nor schedulers depend on them"
            }
            Remark::MemoryNodes => {
                "binding memory to nodes has no effect in a simulation: memory is equally near to all CPUs"
            }
            Remark::Ext => "SCHED_EXT is a policy that the real rt-app does not read",
            Remark::EndlessRun => "-1, read as a run that does not end, as rt-app does",
            Remark::CustomSlice => {
                "a slice of the task's own (dl-runtime without SCHED_DEADLINE) has an effect only with schedulers that heed it"
            }
        }
    }
}

/// Collects notes while a file is read. Those that say the same are one, at the first of their places, with the number of places.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// The first place and how many there are, by what is said and the key of which it is said, if that tells it from others.
    found: BTreeMap<(Cow<'static, str>, String), (Place, u32)>,
}

impl Notes {
    /// Adds a note.
    pub fn add(&mut self, place: &Place, sentence: impl Into<Cow<'static, str>>) {
        self.note(place, sentence.into(), String::new());
    }

    /// Adds a remark.
    pub fn remark(&mut self, place: &Place, remark: Remark) {
        self.add(place, remark.sentence());
    }

    /// Notes a key that is ignored, with the one that was probably meant.
    pub fn ignored(&mut self, place: &Place, key: &str, meant: Option<&str>) {
        let meant = meant.map_or(String::new(), |meant| format!("; did you mean `{meant}`?"));
        let sentence = format!("an unknown key, ignored as rt-app does{meant}");
        self.note(place, sentence.into(), key.to_owned());
    }

    fn note(&mut self, place: &Place, sentence: Cow<'static, str>, key: String) {
        let (first, count) =
            self.found.entry((sentence, key)).or_insert_with(|| (place.clone(), 0));
        *count += 1;
        // Whole-file checks come after reading, so a later report can be for an earlier place.
        if place < first {
            *first = place.clone();
        }
    }

    /// The notes as sentences, in order of their places.
    pub fn into_sentences(self, file: &str) -> Vec<String> {
        let sentence = |((sentence, _), (place, count)): (_, (Place, u32))| match count {
            1 => (place, sentence),
            _ => (place, format!("{sentence} ({count} places, this is the first)").into()),
        };
        let mut sentences: Vec<(Place, Cow<str>)> = self.found.into_iter().map(sentence).collect();
        sentences.sort();
        sentences
            .into_iter()
            .map(|(place, sentence)| {
                let Position { line, column } = place.position;
                let path = match place.path.as_str() {
                    "" => String::new(),
                    path => format!("{path}: "),
                };
                format!("{file}:{line}:{column}: {path}{sentence}")
            })
            .collect()
    }
}
