//! The extension of rt-app's language: the events and settings under keys that begin with `fairground`.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::events::{Event, Place as Where, Source};
use crate::groups;
use crate::json::Value;
use crate::model::{Arrivals, Drive, Elevator, Pipe, PipeKind, Workload};
use crate::names::{Shared, Use};
use crate::object::{CPU_MAX, Field, Object};
use crate::policy::MICROSECONDS_MAX;
use crate::reading::Reading;
use crate::variation::{Factor, Variation};

/// Maximum bytes that one pipe event moves, and that a pipe holds.
const BYTES_MAX: i64 = 1 << 30;

/// Events that can be under a key beginning with `fairground`, exactly one per key.
const EVENTS: [&str; 15] = [
    "lap",
    "migration",
    "pipe_read",
    "pipe_write",
    "disk",
    "read",
    "write",
    "evict",
    "fault",
    "timer",
    "ask",
    "take",
    "pass",
    "answer",
    "repeat",
];

/// Reads the event under a key that begins with `fairground`.
pub(crate) fn read_event(reading: &mut Reading) -> Result<Event, Error> {
    let object = reading.field.object()?;
    object.check_keys(&EVENTS)?;
    let mut fields = object.fields();
    let (Some(field), None) = (fields.next(), fields.next()) else {
        return Err(object.error(format!("write exactly one event here, of {}", EVENTS.join(", "))));
    };
    reading.field = field;
    match reading.field.key {
        "lap" => lap(reading),
        "migration" => migration(reading),
        "pipe_read" => pipe(reading, false),
        "pipe_write" => pipe(reading, true),
        "disk" => disk(reading),
        "read" => transfer(reading, false),
        "write" => transfer(reading, true),
        "evict" => evict(reading),
        "fault" => fault(reading),
        "ask" => {
            let service = service_of(reading)?;
            Ok(Event::Ask(service))
        }
        "pass" => {
            let service = service_of(reading)?;
            reading.refer(Use::Pass);
            Ok(Event::Pass(service))
        }
        "take" => take(reading),
        "answer" => {
            reading.refer(Use::Answer);
            Ok(Event::Answer)
        }
        "timer" => reading.timer(true),
        // Filling in has replaced all others.
        _ => Err(reading.field.error(
            "a repeat is the only thing under its key; give other events keys of their own",
        )),
    }
}

/// The service that a request goes to.
fn service_of(reading: &mut Reading) -> Result<usize, Error> {
    let name = reading.field.name()?;
    let service = reading.shared.services.intern(name);
    reading.refer(Use::Request(service));
    Ok(service)
}

fn take(reading: &mut Reading) -> Result<Event, Error> {
    const EXPECTED: &str =
        "the name of a service, or a list of several, such as [\"first\", \"second\"]";
    let names: Vec<&str> = match reading.field.value {
        Some(Value::Array(elements)) if !elements.is_empty() => {
            let name = |node: &'_ crate::json::Node| match &node.value {
                Value::String(name) if !name.is_empty() => Some(name.clone()),
                _ => None,
            };
            let names: Option<Vec<String>> = elements.iter().map(name).collect();
            let names = names.ok_or_else(|| reading.field.mismatch(EXPECTED))?;
            return Ok(choice(reading, names.iter().map(String::as_str)));
        }
        Some(Value::String(name)) if !name.is_empty() => vec![name],
        _ => return Err(reading.field.mismatch(EXPECTED)),
    };
    Ok(choice(reading, names.into_iter()))
}

fn choice<'n>(reading: &mut Reading, names: impl Iterator<Item = &'n str>) -> Event {
    let mut services = Vec::new();
    for name in names {
        let service = reading.shared.services.intern(name);
        reading.refer(Use::Take(service));
        services.push(service);
    }
    Event::Take(reading.shared.choice(services))
}

fn lap(reading: &mut Reading) -> Result<Event, Error> {
    let begins = reading.field.choice([("begin", true), ("end", false)])?;
    reading.refer(if begins { Use::LapBegin } else { Use::LapEnd });
    Ok(Event::Lap { begins })
}

fn migration(reading: &mut Reading) -> Result<Event, Error> {
    let enable = reading.field.choice([("disable", false), ("enable", true)])?;
    Ok(Event::Migration { enable })
}

fn pipe(reading: &mut Reading, writes: bool) -> Result<Event, Error> {
    let object = reading.field.object()?;
    object.check_keys(&["pipe", "bytes"])?;
    let name = object.require("pipe", "\"pipe\" : \"NAME\"")?;
    let bytes = object.require("bytes", "\"bytes\" : 4")?.integer(1..=BYTES_MAX)? as u64;
    let pipe = reading.shared.pipes.intern(name.name()?);
    Ok(if writes {
        reading.refer(Use::PipeWrite(pipe));
        Event::PipeWrite { pipe, bytes }
    } else {
        reading.refer(Use::PipeRead(pipe));
        Event::PipeRead { pipe, bytes }
    })
}

fn disk(reading: &mut Reading) -> Result<Event, Error> {
    if !matches!(reading.field.value, Some(Value::Object(_))) {
        let service = reading.field.integer(0..=MICROSECONDS_MAX)? as u64 * 1000;
        let disk = reading.shared.disks.intern(DEFAULT_DISK);
        return Ok(Event::Disk { disk, service });
    }
    let object = reading.field.object()?;
    object.check_keys(&["disk", "service"])?;
    let service = service(&object)?;
    let disk = disk_of(reading.shared, &object)?;
    Ok(Event::Disk { disk, service })
}

fn transfer(reading: &mut Reading, writes: bool) -> Result<Event, Error> {
    let object = reading.field.object()?;
    object.check_keys(&["drive", "bytes", "place"])?;
    let bytes = bytes(&object)?;
    let place = match object.get("place") {
        None => Where::Next,
        Some(field) => field.choice([("next", Where::Next), ("new", Where::New)])?,
    };
    let drive = drive_of(reading.shared, &object)?;
    Ok(match writes {
        false => Event::Read { drive, bytes, place },
        true => Event::Write { drive, bytes, place },
    })
}

fn bytes(object: &Object) -> Result<u64, Error> {
    Ok(object.require("bytes", "\"bytes\" : 4096")?.integer(1..=BYTES_MAX)? as u64)
}

/// The drive of events that do not name one.
const DEFAULT_DRIVE: &str = "drive";

fn drive_of(shared: &mut Shared, object: &Object) -> Result<usize, Error> {
    let field = object.get("drive");
    let name = field.map_or(Ok(DEFAULT_DRIVE), |field| field.name())?;
    Ok(shared.drives.intern(name))
}

/// The disk of events that do not name one.
const DEFAULT_DISK: &str = "disk";

fn disk_of(shared: &mut Shared, object: &Object) -> Result<usize, Error> {
    let field = object.get("disk");
    let name = field.map_or(Ok(DEFAULT_DISK), |field| field.name())?;
    Ok(shared.disks.intern(name))
}

fn service(object: &Object) -> Result<u64, Error> {
    let field = object.require("service", "\"service\" : 8000 (microseconds)")?;
    Ok(field.integer(0..=MICROSECONDS_MAX)? as u64 * 1000)
}

fn memory(reading: &mut Reading, object: &Object) -> Result<usize, Error> {
    let name = object.require("memory", "\"memory\" : \"NAME\"")?;
    Ok(reading.shared.memories.intern(name.name()?))
}

fn evict(reading: &mut Reading) -> Result<Event, Error> {
    let object = reading.field.object()?;
    object.check_keys(&["memory", "pages"])?;
    let memory = memory(reading, &object)?;
    let pages = object.integer("pages", 1..=i64::from(u32::MAX))?;
    reading.refer(Use::Evict(memory));
    let pages = pages.unwrap_or(1) as u64;
    Ok(Event::Evict { memory, pages })
}

fn fault(reading: &mut Reading) -> Result<Event, Error> {
    let object = reading.field.object()?;
    let is_file = object.has("bytes");
    let keys = match is_file {
        true => ["memory", "bytes", "drive", "most"],
        false => ["memory", "service", "disk", "most"],
    };
    object.check_keys(&keys)?;
    let memory = memory(reading, &object)?;
    let source = match is_file {
        true => Source::Drive { bytes: bytes(&object)?, drive: drive_of(reading.shared, &object)? },
        false => {
            Source::Disk { service: service(&object)?, disk: disk_of(reading.shared, &object)? }
        }
    };
    let most = object.integer("most", 1..=i64::from(u32::MAX))?;
    reading.refer(Use::Fault(memory));
    Ok(Event::Fault { memory, source, most: most.unwrap_or(1) as u64 })
}

/// The variations of one task's events, by key, until the events are read.
#[derive(Debug, Default)]
pub(crate) struct Variations<'a>(BTreeMap<&'a str, Entry<'a>>);

#[derive(Debug)]
struct Entry<'a> {
    variation: Variation,
    field: Field<'a>,
    used: bool,
}

impl<'a> Variations<'a> {
    /// Reads the `vary` object of a task.
    pub fn read(field: &Field<'a>) -> Result<Self, Error> {
        let object = field.object()?;
        let mut variations = BTreeMap::new();
        for (index, field) in object.fields().enumerate() {
            object.check_unique(index, &field)?;
            let entry = Entry { variation: variation(&field)?, field: field.clone(), used: false };
            variations.insert(field.key, entry);
        }
        Ok(Self(variations))
    }

    /// The variation of an event that was just read, if it has one.
    pub fn take(&mut self, key: &str, event: Event) -> Result<Option<Variation>, Error> {
        let Some(entry) = self.0.get_mut(key) else { return Ok(None) };
        entry.used = true;
        if entry.variation.factor.is_some() && event.duration().is_none() {
            return Err(entry.field.key_error("this event has no duration to vary; run, runtime, sleep, disk and fault have one, others can only have a chance"));
        }
        let pairs = matches!(
            event,
            Event::Lock(_)
                | Event::Unlock(_)
                | Event::Barrier(_)
                | Event::Lap { .. }
                | Event::Take(_)
                | Event::Pass(_)
                | Event::Answer
                | Event::Migration { .. }
        );
        if entry.variation.chance.is_some() && pairs {
            return Err(entry.field.key_error(
                "this event belongs to others that rely on it and cannot be left to chance",
            ));
        }
        Ok(Some(entry.variation))
    }

    /// Checks that every variation belongs to an event.
    pub fn check_used(&self) -> Result<(), Error> {
        match self.0.iter().find(|(_, entry)| !entry.used) {
            None => Ok(()),
            Some((key, entry)) => Err(entry.field.key_error(format!(
                "the task has no event with the key \"{key}\"; correct the key"
            ))),
        }
    }
}

fn variation(field: &Field) -> Result<Variation, Error> {
    let object = field.object()?;
    let known = [&FACTORS[..], &["chance"]].concat();
    object.check_keys(&known)?;
    let mut variation = Variation::default();
    for field in object.fields() {
        if field.key == "chance" {
            let chance = field.decimal("a probability above 0 and up to 1", |chance| {
                chance > 0.0 && chance <= 1.0
            })?;
            variation.chance = Some(chance);
            continue;
        }
        set_factor(&field, &mut variation.factor)?;
    }
    if variation == Variation::default() {
        return Err(object.error(format!("nothing varies; write one of {}", known.join(", "))));
    }
    Ok(variation)
}

/// The keys of factors.
const FACTORS: [&str; 3] = ["uniform", "lognormal", "exponential"];

/// Reads the factor of a duration, which has only one.
fn set_factor(field: &Field, factor: &mut Option<Factor>) -> Result<(), Error> {
    let read = match field.key {
        "uniform" => uniform(field)?,
        "lognormal" => Factor::LogNormal(
            field.decimal("a shape above 0 and up to 10", |shape| shape > 0.0 && shape <= 10.0)?,
        ),
        _ => Factor::Exponential(
            field.decimal("a mean above 0 and up to 1000, mostly 1", |mean| {
                mean > 0.0 && mean <= 1000.0
            })?,
        ),
    };
    if factor.replace(read).is_some() {
        return Err(field
            .key_error(format!("a duration has one factor; keep one of {}", FACTORS.join(", "))));
    }
    Ok(())
}

fn uniform(field: &Field) -> Result<Factor, Error> {
    let number = |node: &crate::json::Node| match &node.value {
        Value::Number(text) => text.parse::<f64>().ok(),
        _ => None,
    };
    let bounds = match field.value {
        Some(Value::Array(bounds)) => bounds.iter().map(number).collect::<Option<Vec<_>>>(),
        _ => None,
    };
    match bounds.as_deref() {
        Some(&[least, most]) if 0.0 <= least && least <= most && most > 0.0 && most <= 1000.0 => {
            Ok(Factor::Uniform(least, most))
        }
        _ => {
            Err(field
                .mismatch("two factors from 0 to 1000, the smaller one first, such as [0.5, 1.5]"))
        }
    }
}

/// Reads the `fairground` object of the whole file: settings of the resources that events share.
pub(crate) fn read_settings(
    object: &Object,
    shared: &mut Shared,
    workload: &mut Workload,
) -> Result<(), Error> {
    let keys =
        ["mutexes", "pipes", "drives", "barriers", "groups", "arrivals", "parameters", "doc"];
    object.check_keys(&keys)?;
    if let Some(field) = object.get("groups") {
        groups::read(&field, &workload.tasks, &mut shared.groups)?;
    }
    let barrier = |name: &str| shared.find_barrier(name);
    for (index, object) in named(object, "barriers", "barrier", barrier)? {
        workload.barriers[index].spin = read_spin(&object)?;
    }
    let mutex = |name: &str| shared.mutexes.find(name);
    for (index, object) in named(object, "mutexes", "mutex", mutex)? {
        workload.mutexes[index].spin = read_spin(&object)?;
    }
    if let Some(field) = object.get("pipes") {
        read_pipes(&field, &mut workload.pipes)?;
    }
    let drive = |name: &str| shared.drives.find(name);
    for (index, object) in named(object, "drives", "drive", drive)? {
        read_drive_settings(&object, &mut workload.drives[index])?;
    }
    Ok(())
}

impl Drive {
    /// A drive of which a file says nothing: a desktop's of 2004 with 7200 revolutions a minute, in a machine with 256 MiB.
    pub(crate) fn new(name: &str) -> Drive {
        Drive {
            name: name.into(),
            positioning: 12_660_000,
            rate: 58_000_000,
            read_ahead: 128 << 10,
            memory: 256 << 20,
            elevator: Elevator::default(),
        }
    }
}

/// Reads how long a task spins before it sleeps, which is all that a file says of a barrier or mutex.
fn read_spin(object: &Object) -> Result<u64, Error> {
    object.check_keys(&["spin"])?;
    Ok(object.integer("spin", 0..=MICROSECONDS_MAX)?.unwrap_or(0) as u64 * 1000)
}

/// Reads what a file says of one drive.
fn read_drive_settings(object: &Object, drive: &mut Drive) -> Result<(), Error> {
    let keys = ["positioning", "rate", "read_ahead", "memory", "elevator"];
    object.check_keys(&keys)?;
    if let Some(time) = object.integer("positioning", 0..=MICROSECONDS_MAX)? {
        drive.positioning = time as u64 * 1000;
    }
    if let Some(field) = object.get("rate") {
        let expected = "a number of megabytes per second, from 0.001 to 1e6";
        let is_possible = |rate: f64| (0.001..=1e6).contains(&rate);
        drive.rate = (field.decimal(expected, is_possible)? * 1e6).round() as u64;
    }
    if let Some(bytes) = object.integer("read_ahead", 8192..=1 << 24)? {
        drive.read_ahead = bytes as u64;
    }
    if let Some(bytes) = object.integer("memory", 1 << 20..=1 << 50)? {
        drive.memory = bytes as u64;
    }
    if let Some(field) = object.get("elevator") {
        let known = [("anticipatory", Elevator::Anticipatory), ("deadline", Elevator::Deadline)];
        drive.elevator = field.choice(known)?;
    }
    Ok(())
}

/// Reads what a file says of pipes: of one, or of all whose names have the same beginning.
fn read_pipes(field: &Field, pipes: &mut [Pipe]) -> Result<(), Error> {
    let object = field.object()?;
    for (index, field) in object.fields().enumerate() {
        object.check_unique(index, &field)?;
        let kind = read_pipe_kind(&field.object()?)?;
        let is_meant = |name: &str| match field.key.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == field.key,
        };
        let mut meant = { pipes.iter_mut() }.filter(|pipe| is_meant(&pipe.name)).peekable();
        if meant.peek().is_none() {
            return Err(no_such(&field, "pipe"));
        }
        meant.for_each(|pipe| pipe.kind = kind);
    }
    Ok(())
}

/// Reads the kind of a pipe.
fn read_pipe_kind(object: &Object) -> Result<PipeKind, Error> {
    object.check_keys(&["capacity", "release", "socket"])?;
    let release = object.get("release");
    if let Some(field) = &release
        && field.string()? != "2.6"
    {
        let problem = "the pipes of this release are not known; write \"2.6\", or leave it out for those of today";
        return Err(field.error(problem));
    }
    let is_socket = object.integer("socket", 0..=1)? == Some(1);
    let capacity = object.integer("capacity", 1..=BYTES_MAX)?;
    let problem = match (&release, is_socket, capacity) {
        (Some(_), true, _) => "sockets are those of today; leave the release out",
        (Some(_), false, Some(_)) => "a pipe of 2.6 holds 4096 bytes; leave the capacity out",
        (None, true, Some(_)) => {
            "a socket holds what fits into 212992 bytes of memory; leave the capacity out"
        }
        (Some(_), false, None) => return Ok(PipeKind::Early),
        (None, true, None) => return Ok(PipeKind::Socket),
        (None, false, capacity) => {
            return Ok(PipeKind::Paged {
                capacity: capacity.map_or(Pipe::CAPACITY, |capacity| capacity as u64),
            });
        }
    };
    Err(object.error(problem))
}

/// Largest number of requests per second from outside.
const RATE_MAX: f64 = 1e8;

/// Reads the `arrivals` of the `fairground` object of the whole file, if it has any.
pub(crate) fn read_arrivals(root: &Object, shared: &mut Shared) -> Result<Vec<Arrivals>, Error> {
    let mut list = Vec::new();
    let Some(settings) = root.get("fairground") else { return Ok(list) };
    let settings = settings.object()?;
    let Some(field) = settings.get("arrivals") else { return Ok(list) };
    let object = field.object()?;
    for (index, field) in object.fields().enumerate() {
        object.check_unique(index, &field)?;
        let service = shared.services.find(field.key).ok_or_else(|| {
            let problem = "no event takes requests from a service of this name; correct the name";
            field.key_error(problem)
        })?;
        list.push(arrivals(&field, service)?);
        shared.arrivals.push(service);
    }
    Ok(list)
}

fn arrivals(field: &Field, service: usize) -> Result<Arrivals, Error> {
    let object = field.object()?;
    let keys = ["rate", "burst", "cpus", "uniform", "lognormal", "exponential"];
    object.check_keys(&keys)?;
    let rate = object.require("rate", "\"rate\" : 1000 (requests per second)")?;
    let rate = rate.decimal("a number of requests per second, above 0 and up to 1e8", |rate| {
        rate > 0.0 && rate <= RATE_MAX
    })?;
    let mut factor = None;
    for field in object.fields().filter(|field| FACTORS.contains(&field.key)) {
        set_factor(&field, &mut factor)?;
    }
    let burst = object.integer("burst", 1..=i64::from(u16::MAX))?.unwrap_or(1) as u32;
    let cpus = object.get("cpus").map(|field| field.numbers(CPU_MAX)).transpose()?;
    Ok(Arrivals {
        service,
        interval: (1e9 * f64::from(burst) / rate).round().max(1.0) as u64,
        factor,
        burst,
        cpus,
    })
}

/// The resources of this kind that `settings` name under `key`, by index, each with the object of its settings.
fn named<'a>(
    settings: &Object<'a>,
    key: &str,
    kind: &str,
    find: impl Fn(&str) -> Option<usize>,
) -> Result<Vec<(usize, Object<'a>)>, Error> {
    let Some(field) = settings.get(key) else { return Ok(Vec::new()) };
    let object = field.object()?;
    let mut found = Vec::new();
    for (index, field) in object.fields().enumerate() {
        object.check_unique(index, &field)?;
        let index = find(field.key).ok_or_else(|| no_such(&field, kind))?;
        found.push((index, field.object()?));
    }
    Ok(found)
}

/// There is nothing of the name that is the key of `field`.
fn no_such(field: &Field, what: &str) -> Error {
    let problem = format!("no event uses a {what} of this name; correct the name");
    field.key_error(problem)
}
