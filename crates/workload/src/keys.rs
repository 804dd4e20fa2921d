//! The keys of events.

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Run,
    Runtime,
    Sleep,
    Timer,
    Lock,
    Unlock,
    Wait,
    Signal,
    Broadcast,
    Sync,
    Barrier,
    Suspend,
    Resume,
    SemPost,
    SemWait,
    Mem,
    MemRun,
    IoRun,
    Yield,
    Fork,
    /// An event of fairground's own.
    Extension,
}

/// How keys of events begin; a longer beginning comes before a shorter one that it starts with.
const BEGINNINGS: [(&str, Kind); 20] = [
    ("runtime", Kind::Runtime),
    ("run", Kind::Run),
    ("sleep", Kind::Sleep),
    ("timer", Kind::Timer),
    ("lock", Kind::Lock),
    ("unlock", Kind::Unlock),
    ("wait", Kind::Wait),
    ("signal", Kind::Signal),
    ("broad", Kind::Broadcast),
    ("sync", Kind::Sync),
    ("barrier", Kind::Barrier),
    ("suspend", Kind::Suspend),
    ("resume", Kind::Resume),
    ("sem_post", Kind::SemPost),
    ("sem_wait", Kind::SemWait),
    ("memrun", Kind::MemRun),
    ("mem", Kind::Mem),
    ("iorun", Kind::IoRun),
    ("yield", Kind::Yield),
    ("fork", Kind::Fork),
];

/// The kind of event that has this key, if it is one.
pub(crate) fn kind_of(key: &str) -> Option<Kind> {
    // The bare word is for settings of a whole task.
    let suffix = key.strip_prefix("fairground");
    if suffix.is_some_and(|suffix| !suffix.is_empty()) {
        return Some(Kind::Extension);
    }
    BEGINNINGS.iter().find(|(beginning, _)| key.starts_with(beginning)).map(|(_, kind)| *kind)
}

/// Whether a key is that of an event, which its beginning decides, as in rt-app.
pub(crate) fn is_event(key: &str) -> bool {
    kind_of(key).is_some()
}

/// How keys of events begin.
pub(crate) fn beginnings<'a>() -> impl Iterator<Item = &'a str> + Clone {
    BEGINNINGS.iter().map(|(beginning, _)| *beginning)
}
