//! The keys of events.

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
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
const BEGINNINGS: [(&str, KeyKind); 20] = [
    ("runtime", KeyKind::Runtime),
    ("run", KeyKind::Run),
    ("sleep", KeyKind::Sleep),
    ("timer", KeyKind::Timer),
    ("lock", KeyKind::Lock),
    ("unlock", KeyKind::Unlock),
    ("wait", KeyKind::Wait),
    ("signal", KeyKind::Signal),
    ("broad", KeyKind::Broadcast),
    ("sync", KeyKind::Sync),
    ("barrier", KeyKind::Barrier),
    ("suspend", KeyKind::Suspend),
    ("resume", KeyKind::Resume),
    ("sem_post", KeyKind::SemPost),
    ("sem_wait", KeyKind::SemWait),
    ("memrun", KeyKind::MemRun),
    ("mem", KeyKind::Mem),
    ("iorun", KeyKind::IoRun),
    ("yield", KeyKind::Yield),
    ("fork", KeyKind::Fork),
];

/// The kind of event that has this key, if it is one.
pub(crate) fn kind_of(key: &str) -> Option<KeyKind> {
    // The bare word is for settings of a whole task.
    let suffix = key.strip_prefix("fairground");
    if suffix.is_some_and(|suffix| !suffix.is_empty()) {
        return Some(KeyKind::Extension);
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
