//! Reading a whole file.

use std::io::{self, Read};
use std::path::Path;

use crate::check;
use crate::error::Error;
use crate::extension;
use crate::global::{self, Global};
use crate::json;
use crate::model::{Mutex, Pipe, Workload};
use crate::names::Shared;
use crate::notes::{Notes, Place, Remark};
use crate::object::{Object, Reader};
use crate::resources;
use crate::task;

impl Workload {
    /// Reads an rt-app file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or used; the error names the place and what to do about it.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        Self::of_bytes(&path.display().to_string(), fairground_files::read(path))
    }

    /// Reads the rest of an open file. `file` names it in messages; without folder and suffix it is the name of the workload.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read).
    pub fn read_rest(file: &str, source: impl Read) -> Result<Self, Error> {
        Self::of_bytes(file, fairground_files::read_rest(source))
    }

    fn of_bytes(file: &str, bytes: io::Result<Vec<u8>>) -> Result<Self, Error> {
        let whole = |line, column, message| Error {
            file: file.to_owned(),
            line,
            column,
            json_path: String::new(),
            message,
        };
        let bytes = bytes.map_err(|error| {
            whole(
                0,
                0,
                format!(
                    "cannot be read: {error}; {}",
                    fairground_files::remedy(&error)
                ),
            )
        })?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let valid = error.utf8_error().valid_up_to();
            let before = String::from_utf8_lossy(&error.as_bytes()[..valid]).into_owned();
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
            whole(
                line as u32,
                column as u32,
                "not UTF-8 text from here on; rt-app files are JSON, so save it as UTF-8".into(),
            )
        })?;
        Self::parse(file, &text)
    }

    /// Reads the text of an rt-app file. `file` names it in messages; without folder and suffix it is the name of the workload.
    ///
    /// # Errors
    ///
    /// If the text cannot be used; the error names the place and what to do about it.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let mut departures = Vec::new();
        let node = json::parse(text, &mut departures).map_err(|error| Error {
            file: file.into(),
            line: error.position.line,
            column: error.position.column,
            json_path: String::new(),
            message: error.message,
        })?;
        let mut reader = Reader {
            file,
            notes: Notes::default(),
        };
        for (departure, position) in departures {
            let place = Place {
                position,
                path: String::new(),
            };
            reader.notes.remark(&place, Remark::Departure(departure));
        }
        let root = Object::root(&reader, &node)?;
        read(&mut reader, &root).map(|workload| Self {
            name: stem(file),
            notes: reader.notes.into_sentences(file),
            ..workload
        })
    }
}

/// File name without folder and suffix.
fn stem(file: &str) -> String {
    Path::new(file)
        .file_stem()
        .map_or_else(|| file.into(), |stem| stem.to_string_lossy().into_owned())
}

fn read(reader: &mut Reader, root: &Object) -> Result<Workload, Error> {
    const KEYS: [&str; 4] = ["tasks", "global", "resources", "fairground"];
    root.check_keys_as_rt_app(reader, &KEYS, false)?;
    let global = match root.get(reader, "global") {
        Some(field) => global::read(reader, &field.object(reader)?)?,
        None => Global::default(),
    };
    if let Some(field) = root.get(reader, "resources") {
        resources::check(reader, &field)?;
    }
    let Some(tasks) = root.get(reader, "tasks") else {
        return Err(reader.error(
            &root.place,
            "there is no `tasks` object, so there is nothing to run; add one: \
             \"tasks\" : { \"hog\" : { \"run\" : 1000 } } (parts of a workload are put together by rt-app's merge.py)",
        ));
    };
    let tasks = tasks.object(reader)?;
    let mut shared = Shared::default();
    let mut list = task::read_all(reader, &tasks, &global, &mut shared)?;
    check::references(reader, &shared, &list)?;
    check::endless_loops(reader, &shared, &list)?;
    check::sections(reader, &shared, &list)?;
    check::timer_modes(&mut list, shared.timers.len());
    let mutex = |name: &String| Mutex {
        name: name.clone(),
        spin: 0,
    };
    let pipe = |name: &String| Pipe {
        name: name.clone(),
        capacity: Pipe::CAPACITY,
    };
    let mut workload = Workload {
        name: String::new(),
        duration: global.duration,
        tasks: list,
        mutexes: shared.mutexes.list.iter().map(mutex).collect(),
        conditions: shared.conditions.list.clone(),
        barriers: shared.barriers.clone(),
        semaphores: shared.semaphores.list.clone(),
        timers: shared.timers.clone(),
        pipes: shared.pipes.list.iter().map(pipe).collect(),
        disks: shared.disks.list.clone(),
        memories: shared.memories.list.clone(),
        notes: Vec::new(),
    };
    if let Some(field) = root.get(reader, "fairground") {
        let object = field.object(reader)?;
        extension::read_settings(reader, &object, &shared, &mut workload)?;
    }
    Ok(workload)
}
