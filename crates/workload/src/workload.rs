//! Reading a whole file.

use std::path::Path;

use crate::check;
use crate::error::Error;
use crate::extension;
use crate::global::{self, Global};
use crate::groups;
use crate::json::{Departure, Node, Position};
use crate::model::{Drive, Mutex, Pipe, PipeKind, Workload};
use crate::names::Shared;
use crate::notes::{Place, Remark};
use crate::object::{Object, Reader};
use crate::resources;
use crate::task;
use crate::template::{Arguments, Template};

impl Workload {
    /// Reads an rt-app file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or used; the error names the place and what to do about it.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, Error> {
        Template::read(path)?.workload(&Arguments::default())
    }

    /// Reads the text of an rt-app file. `file` names it in messages; without folder and suffix it is the name of the workload.
    ///
    /// # Errors
    ///
    /// If the text cannot be used; the error names the place and what to do about it.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        Template::parse(file, text)?.workload(&Arguments::default())
    }

    /// Reads a file whose parameters are filled in.
    pub(crate) fn of_node(
        file: &str,
        node: &Node,
        departures: &[(Departure, Position)],
    ) -> Result<Self, Error> {
        let reader = Reader::of(file);
        for (departure, position) in departures {
            let place = Place { position: *position, path: String::new() };
            reader.remark(&place, Remark::Departure(*departure));
        }
        let workload = read(&Object::root(&reader, node)?)?;
        Ok(Self { name: stem(file), notes: reader.into_sentences(), ..workload })
    }
}

/// File name without folder and suffix.
fn stem(file: &str) -> String {
    Path::new(file)
        .file_stem()
        .map_or_else(|| file.into(), |stem| stem.to_string_lossy().into_owned())
}

fn read(root: &Object) -> Result<Workload, Error> {
    const KEYS: [&str; 4] = ["tasks", "global", "resources", "fairground"];
    root.check_keys_as_rt_app(&KEYS, false)?;
    let global = match root.get("global") {
        Some(field) => global::read(&field.object()?)?,
        None => Global::default(),
    };
    if let Some(field) = root.get("resources") {
        resources::check(&field)?;
    }
    let Some(tasks) = root.get("tasks") else {
        return Err(root.error("there is no `tasks` object, so there is nothing to run; add one: \
             \"tasks\" : { \"hog\" : { \"run\" : 1000 } } (parts of a workload are put together by rt-app's merge.py)",
        ));
    };
    let tasks = tasks.object()?;
    let mut shared = Shared::default();
    let mut list = task::read_all(&tasks, &global, &mut shared)?;
    check::names(&tasks, &list)?;
    let arrivals = extension::read_arrivals(root, &mut shared)?;
    check::references(root.reader, &shared, &list)?;
    check::endless_loops(root.reader, &shared, &list)?;
    check::sections(root.reader, &shared, &list)?;
    check::timer_modes(&mut list, shared.timers.len());
    let mutex = |name: &String| Mutex { name: name.clone(), spin: 0 };
    let pipe = |name: &String| Pipe {
        name: name.clone(),
        kind: PipeKind::Paged { capacity: Pipe::CAPACITY },
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
        drives: shared.drives.list.iter().map(|name| Drive::new(name)).collect(),
        memories: shared.memories.list.clone(),
        services: shared.services.list.clone(),
        choices: shared.choices.clone(),
        arrivals,
        groups: Vec::new(),
        notes: Vec::new(),
    };
    if let Some(field) = root.get("fairground") {
        let object = field.object()?;
        extension::read_settings(&object, &mut shared, &mut workload)?;
    }
    workload.groups = groups::complete(shared.groups, &workload.tasks);
    Ok(workload)
}
