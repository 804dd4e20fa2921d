//! Makes a plan from a file: reads and compiles the files that it names, and puts it into the plan.

use std::fs;
use std::path::{Path, PathBuf};

use fairground_catalog::Build;
use fairground_lab::{Contender, ENGINE, Error, LOADER, Noise, hash_of_bytes};
use fairground_recording::is_recording;

use super::file::{File, SchedulerTable, check_scores};
use super::plan::{Condition, Described, INPUTS, Planned, Scheduler, Sweep, VERSION};
use crate::output;
use crate::quantity;
use crate::schedulers::{Wanted, build, is_compiled, names, tell_warnings};

/// Where a plan's inputs come from and go to.
struct Collector<'a> {
    /// The folder of the sweep's file.
    home: &'a Path,
    /// The folder of the plan.
    plan: PathBuf,
}

/// Reads a sweep's file and writes the plan into a folder.
pub fn collect(file: &Path, folder: &Path) -> Result<Sweep, Error> {
    let text = fairground_files::read_text(file).map_err(|cause| {
        Error::Plan(format!(
            "{}: cannot be read: {cause}; {}",
            file.display(),
            fairground_files::remedy(&cause)
        ))
    })?;
    let wanted: File = fairground_lab::parse_toml(&file.display().to_string(), &text)
        .map_err(|(place, message)| Error::Plan(format!("{place}: {message}")))?;
    let home = file.parent().unwrap_or(Path::new(""));
    let collector = Collector { home, plan: folder.join("plan") };
    let inputs = collector.plan.join(INPUTS);
    fs::create_dir_all(&inputs).map_err(|cause| Error::Write { path: inputs, cause })?;
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let planned = collector.planned(&wanted, &name)?;
    let mut sweep = Sweep::of(folder.to_owned(), planned);
    sweep.planned.efforts = sweep.measure_efforts()?;
    sweep.write()?;
    collector.keep("sweep.toml", text.as_bytes(), None)?;
    Ok(sweep)
}

impl Collector<'_> {
    fn planned(&self, wanted: &File, name: &str) -> Result<Planned, Error> {
        if wanted.workloads.is_empty() || wanted.schedulers.is_empty() {
            let message = "a sweep needs workloads and at least one [[scheduler]]";
            return Err(Error::Plan(message.to_owned()));
        }
        for (axis, is_empty) in [
            ("machines", wanted.machines.as_ref().is_some_and(Vec::is_empty)),
            ("costs", wanted.costs.is_empty()),
            ("hz", wanted.hz.is_empty()),
            ("hotplug", wanted.hotplug.is_empty()),
        ] {
            if is_empty {
                let message = "an empty list makes no cells; leave it out for what is usual";
                return Err(Error::Plan(format!("{axis}: {message}")));
            }
        }
        if let (Some(window), Some(duration)) = (&wanted.window, &wanted.duration)
            && let (Ok(length), Ok(end)) =
                (quantity::window(window), quantity::nanoseconds(duration))
            && length > end
        {
            return Err(Error::Plan(format!(
                "window: no run of {duration} has one of {window}; leave it out, or make it shorter"
            )));
        }
        let (seed, seeds) = wanted.seeds.first_and_count()?;
        check_scores(&wanted.scores)?;
        let costs = wanted.costs.iter().map(|cost| self.described(cost));
        let costs = costs.collect::<Result<Vec<_>, _>>()?;
        let mut conditions = Vec::new();
        for cost in &costs {
            for hz in &wanted.hz {
                for hotplug in &wanted.hotplug {
                    conditions.push(Condition {
                        cost: cost.clone(),
                        hz: hz.to_string(),
                        hotplug: hotplug.clone(),
                    });
                }
            }
        }
        let is_recording = |one: &String| self.find(one).is_some_and(|path| is_recording(&path));
        if wanted.noise.as_ref().is_some_and(|noise| noise != "none")
            && wanted.workloads.iter().all(is_recording)
        {
            output::say!("fairground: noise has no effect: recordings vary by themselves");
        }
        let noise = { wanted.noise.clone() }.unwrap_or_else(|| Noise::usual(seeds).to_string());
        let options = [
            ("duration", &wanted.duration),
            ("window", &wanted.window),
            ("kernel", &wanted.kernel),
            ("noise", &Some(noise)),
        ];
        let options = options.into_iter().filter_map(|(name, text)| {
            let text = text.as_ref()?;
            Some((name.to_owned(), text.clone()))
        });
        let workloads = wanted.workloads.iter().map(|one| self.workload(one));
        let machines = wanted.machines.iter().flatten().map(|one| self.machine(one));
        let mut planned = Planned {
            version: VERSION,
            fairground: crate::VERSION.to_owned(),
            engine: ENGINE.to_owned(),
            name: name.to_owned(),
            mark: String::new(),
            workloads: workloads.collect::<Result<_, _>>()?,
            machines: machines.collect::<Result<_, _>>()?,
            conditions,
            options: options.collect(),
            starved: wanted.starved.clone(),
            seed,
            seeds,
            schedulers: self.schedulers(&wanted.schedulers)?,
            scores: wanted.scores.clone(),
            efforts: Vec::new(),
        };
        if planned.machines.is_empty() {
            let sweep = Sweep::of(self.plan.with_file_name(""), planned);
            let usual = sweep.usual_machine()?;
            planned = sweep.planned;
            planned.machines.push(self.machine(&usual)?);
        }
        Ok(planned)
    }

    /// The path of a file that the sweep's file names, if there is one.
    fn find(&self, text: &str) -> Option<PathBuf> {
        let path = self.home.join(text);
        path.is_file().then_some(path)
    }

    /// Puts bytes into the plan under this name, beside those that belong to them, and returns their place there.
    fn keep(&self, name: &str, bytes: &[u8], beside: Option<&str>) -> Result<String, Error> {
        let hash = hash_of_bytes(bytes);
        let folder = match beside.and_then(|place| place.rsplit_once('/')) {
            Some((folder, _)) => folder.to_owned(),
            None => format!("{INPUTS}/{}", &hash[..16]),
        };
        let path = self.plan.join(&folder).join(name);
        let written = fs::create_dir_all(self.plan.join(&folder));
        written
            .and_then(|()| fairground_files::write(&path, bytes))
            .map_err(|cause| Error::Write { path, cause })?;
        Ok(format!("{folder}/{name}"))
    }

    fn keep_file(&self, path: &Path, beside: Option<&str>) -> Result<String, Error> {
        let bytes = fairground_files::read(path).map_err(|cause| {
            let remedy = fairground_files::remedy(&cause);
            Error::Plan(format!("{}: cannot be read: {cause}; {remedy}", path.display()))
        })?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        self.keep(&name, &bytes, beside)
    }

    fn described(&self, text: &str) -> Result<Described, Error> {
        let from = match self.find(text) {
            Some(path) => self.keep_file(&path, None)?,
            None => text.to_owned(),
        };
        Ok(Described { name: text.to_owned(), from })
    }

    fn machine(&self, text: &str) -> Result<Described, Error> {
        if text.trim() == "host" {
            let message = "machine host: it would be another one wherever the sweep runs; describe it, or name a file that `lstopo machine.xml` wrote";
            return Err(Error::Plan(message.to_owned()));
        }
        self.described(text)
    }

    /// A workload: a file or a load with a name, with the values of its parameters.
    fn workload(&self, text: &str) -> Result<String, Error> {
        if let Some(path) = self.find(text) {
            return self.keep_file(&path, None);
        }
        let parts = text.rsplit_once(':');
        match parts.and_then(|(file, values)| Some((self.find(file)?, values))) {
            Some((path, values)) => Ok(format!("{}:{values}", self.keep_file(&path, None)?)),
            None => Ok(text.to_owned()),
        }
    }

    fn schedulers(&self, tables: &[SchedulerTable]) -> Result<Vec<Scheduler>, Error> {
        let mut references = Vec::new();
        let mut builds = Vec::new();
        for table in tables {
            if table.id.starts_with(LOADER) {
                return Err(Error::Plan(format!(
                    "{}: a loader cannot be part of a plan; `fairground capture` writes a companion file of what it sets, for with = \"...\"",
                    table.id
                )));
            }
            if is_compiled(&table.id) && !(table.include.is_empty() && table.define.is_empty()) {
                return Err(Error::Plan(format!(
                    "{}: include and define are for sources of your own, which it is not; leave them out",
                    table.id
                )));
            }
            references.push(self.reference(&table.id));
            let include: Vec<PathBuf> =
                { table.include.iter() }.map(|folder| self.home.join(folder)).collect();
            builds.push(Build { without_folders: true, ..build(&include, &table.define)? });
        }
        let wanted: Vec<(&str, &Build)> =
            { references.iter() }.map(String::as_str).zip(&builds).collect();
        let opened = Contender::open_all(&wanted, None)?;
        tell_warnings(&opened);
        let labels: Vec<Wanted> = { tables.iter().zip(&references) }
            .map(|(table, reference)| Wanted::called(table.name.clone(), reference))
            .collect();
        let names = names(&labels);
        let each = tables.iter().zip(opened).zip(names);
        each.map(|((table, contender), name)| self.scheduler(table, contender, name)).collect()
    }

    /// The path of sources joined by `+`, or an id.
    fn reference(&self, id: &str) -> String {
        let is_path = id.contains(['/', '.']) && self.home != Path::new("");
        match is_path && !Path::new(id).is_absolute() {
            true => {
                let (parts, table) = fairground_catalog::files_of(id, self.home);
                let parts = parts.into_iter().map(|part| self.home.join(part));
                parts.map(|part| part.display().to_string()).collect::<Vec<_>>().join("+") + table
            }
            false => id.to_owned(),
        }
    }

    fn scheduler(
        &self,
        table: &SchedulerTable,
        contender: Contender,
        name: String,
    ) -> Result<Scheduler, Error> {
        let mut set = Vec::new();
        for (key, values) in &table.set {
            let values = values
                .texts()
                .map_err(|message| Error::Plan(format!("{name}.{key}: {message}")))?;
            if values.is_empty() {
                let message = "an empty list makes no cells; leave it out for the default";
                return Err(Error::Plan(format!("{name}.{key}: {message}")));
            }
            set.push((key.clone(), values));
        }
        let mut scheduler = Scheduler {
            given: table.id.clone(),
            object: None,
            companion: None,
            problem: contender.problem(),
            variants: set.iter().map(|(_, values)| values.len()).product(),
            set,
            name,
        };
        let Some(entry) = contender.entry() else { return Ok(scheduler) };
        if !contender.is_foreign() {
            scheduler.object = Some(table.id.clone());
            return Ok(scheduler);
        }
        let object = self.keep(&format!("{}.bpf.o", entry.id()), &entry.object, None)?;
        let manifest = entry.source_file.with_file_name("scheduler.toml");
        if manifest.is_file() {
            self.keep_file(&manifest, Some(&object))?;
        }
        scheduler.companion = match table.with.as_deref() {
            Some("none") => None,
            Some(file) => Some(self.keep_file(&self.home.join(file), None)?),
            None => match contender.companion().filter(|one| !one.name().is_empty()) {
                Some(companion) => {
                    let file = Path::new(companion.name()).file_name().unwrap_or_default();
                    let file = file.to_string_lossy();
                    Some(self.keep(&file, companion.text().as_bytes(), None)?)
                }
                None => None,
            },
        };
        scheduler.object = Some(match &entry.table {
            Some(table) => format!("{object}#{table}"),
            None => object,
        });
        Ok(scheduler)
    }
}
