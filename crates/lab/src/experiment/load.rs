//! Finds, reads and checks experiments.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fairground_machine::{CacheSize, Machine};
use fairground_results::{Level, OnKernel};
use fairground_simulator::CostModel;
use fairground_workload::Workload;
use rust_embed::RustEmbed;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::file::{DOCUMENT, DocumentFile, ExperimentFile, FILE, MachineFile, PointFile};
use super::script::{self, Expression};
use crate::cost_file;
use crate::error::Error;
use crate::toml_file;

/// The experiments that come with fairground.
#[derive(RustEmbed)]
#[folder = "../../experiments"]
struct Files;

/// The folder of the machines' files, beside the experiments.
const MACHINES: &str = "machines";

/// Where the files of an experiment are.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// Embedded in the program.
    Embedded,
    /// In this folder of experiments and machines.
    Folder(PathBuf),
}

impl Place {
    fn name(&self, file: &str) -> String {
        match self {
            Self::Embedded => format!("experiments/{file}"),
            Self::Folder(folder) => folder.join(file).display().to_string(),
        }
    }

    fn read(&self, file: &str) -> Result<String, Error> {
        let wrong = |reason: String| Error::Experiment { place: self.name(file), message: reason };
        let bytes = match self {
            Self::Embedded => Files::get(file)
                .ok_or_else(|| wrong("there is no such file".into()))?
                .data
                .into_owned(),
            Self::Folder(folder) => {
                fairground_files::read(&folder.join(file)).map_err(|error| {
                    let remedy = fairground_files::remedy(&error);
                    wrong(format!("cannot be read: {error}; {remedy}"))
                })?
            }
        };
        String::from_utf8(bytes).map_err(|_| wrong("is not UTF-8 text".into()))
    }

    /// A file as TOML.
    fn toml<T: DeserializeOwned>(&self, file: &str) -> Result<T, Error> {
        toml_file::parse(&self.name(file), &self.read(file)?)
            .map_err(|(place, message)| Error::Experiment { place, message })
    }

    /// A file as JSON.
    fn json<T: DeserializeOwned>(&self, file: &str) -> Result<T, Error> {
        serde_json::from_str(&self.read(file)?).map_err(|error| Error::Experiment {
            place: self.name(file),
            message: error.to_string(),
        })
    }

    fn has(&self, file: &str) -> bool {
        match self {
            Self::Embedded => Files::get(file).is_some(),
            Self::Folder(folder) => folder.join(file).exists(),
        }
    }
}

/// The experiments that come with fairground.
pub struct Experiments;

impl Experiments {
    /// Their names, sorted.
    pub fn names() -> Vec<String> {
        let mut names: Vec<String> = Files::iter()
            .filter_map(|path| path.strip_suffix(&format!("/{FILE}")).map(str::to_owned))
            .collect();
        names.sort();
        names
    }

    /// Opens the experiment of this name, or the user's own in the folder at this path.
    ///
    /// # Errors
    ///
    /// If there is none, or if its files cannot be used; the error says where the problem is.
    pub fn open(name: &str) -> Result<Experiment, Error> {
        let names = Self::names();
        if names.iter().any(|one| one == name) {
            return Experiment::load(Place::Embedded, name);
        }
        let path = Path::new(name);
        let (Some(parent), Some(id)) = (path.parent(), path.file_name()) else {
            return Err(Error::no_such_experiment(name, &names));
        };
        if !path.join(FILE).exists() {
            return Err(Error::no_such_experiment(name, &names));
        }
        Experiment::load(Place::Folder(parent.to_owned()), &id.to_string_lossy())
    }
}

/// A machine of a document.
#[derive(Clone)]
pub(crate) struct DocumentMachine {
    pub(crate) file: MachineFile,
    pub(crate) machine: Arc<Machine>,
    pub(crate) cost: CostModel,
}

/// The file of an experiment's results on a kernel; `testbench/documents` writes it.
const KERNEL: &str = "kernel.json";

/// Results of an experiment on a kernel.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KernelResults {
    /// The machine and its kernel, in words.
    pub(super) machine: String,
    /// Runs of each scheduler at each point.
    pub(super) repeats: u32,
    /// Verdicts on lines of the experiment.
    pub(super) verdicts: Vec<KernelVerdict>,
}

/// The verdict on a line.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct KernelVerdict {
    /// Name of the line.
    pub(super) id: String,
    /// The verdict.
    #[serde(flatten)]
    pub(super) verdict: OnKernel,
}

/// An experiment, read.
pub struct Experiment {
    /// Its name.
    pub id: String,
    pub(super) place: Place,
    pub(crate) file: ExperimentFile,
    pub(crate) document: DocumentFile,
    /// How it ended on a kernel, if it has run on one.
    pub(super) kernel: Option<KernelResults>,
}

impl Experiment {
    fn load(place: Place, id: &str) -> Result<Self, Error> {
        let path = format!("{id}/{FILE}");
        let file: ExperimentFile = place.toml(&path)?;
        let path = format!("{id}/{DOCUMENT}");
        let document = if place.has(&path) { place.toml(&path)? } else { DocumentFile::default() };
        let path = format!("{id}/{KERNEL}");
        let kernel = if place.has(&path) { Some(place.json(&path)?) } else { None };
        let experiment = Self { id: id.to_owned(), place, file, document, kernel };
        experiment.check()?;
        let on_kernel = experiment.on_kernel()?;
        if let Some(on_kernel) = &on_kernel {
            on_kernel.check()?;
        }
        experiment.check_results(on_kernel.as_ref())?;
        Ok(experiment)
    }

    /// Checks that the results on a kernel are of lines that are judged there.
    fn check_results(&self, on_kernel: Option<&Self>) -> Result<(), Error> {
        let lines = on_kernel.map_or(&[][..], |one| &one.file.accept);
        let verdicts = self.kernel.iter().flat_map(|kernel| &kernel.verdicts);
        for KernelVerdict { id, .. } in verdicts {
            if !lines.iter().any(|line| line.id == *id) {
                return Err(Error::Experiment {
                    place: self.place.name(&format!("{}/{KERNEL}", self.id)),
                    message: format!(
                        "no line {id} is judged on a kernel; write the file anew with testbench/documents"
                    ),
                });
            }
        }
        Ok(())
    }

    /// Its subject.
    pub fn title(&self) -> &str {
        &self.file.title
    }

    /// Ids of its schedulers.
    pub fn schedulers(&self) -> Vec<&str> {
        let mut seen = BTreeSet::new();
        let columns = self.file.column.iter();
        columns.map(|column| column.scheduler.as_str()).filter(|id| seen.insert(*id)).collect()
    }

    /// An error in the experiment's file.
    pub(crate) fn wrong(&self, message: String) -> Error {
        Error::Experiment { place: self.place.name(&format!("{}/{FILE}", self.id)), message }
    }

    fn check(&self) -> Result<(), Error> {
        let mut names = BTreeSet::new();
        for measure in &self.file.measure {
            if !names.insert(&measure.name) {
                return Err(self.wrong(format!("two measures are called {}", measure.name)));
            }
        }
        let mut names = BTreeSet::new();
        for point in &self.file.point {
            if !names.insert(&point.name) {
                return Err(self.wrong(format!("two points are called {}", point.name)));
            }
        }
        self.check_seeds()?;
        let mut names = BTreeSet::new();
        for line in &self.file.accept {
            if !names.insert(&line.id) {
                return Err(self.wrong(format!("two acceptance lines are called {}", line.id)));
            }
        }
        let engine = script::engine();
        let compile = |what: &str, text: &str| {
            Expression::compile(&engine, text)
                .map(|_| ())
                .map_err(|error| self.wrong(format!("{what}: {error}")))
        };
        for measure in &self.file.measure {
            compile(&format!("measure {}", measure.name), &measure.value)?;
        }
        for line in &self.file.accept {
            compile(&format!("line {}", line.id), &line.holds)?;
            compile(&format!("line {}", line.id), &line.shows)?;
            if line.cause.as_ref().is_some_and(|cause| cause.split(' ').count() > 5) {
                return Err(self.wrong(format!("line {}: cause has at most five words", line.id)));
            }
        }
        for measure in &self.file.measure {
            let mut columns = self.file.column.iter();
            if let Some(over) = &measure.over
                && !columns.any(|column| column.name() == over)
            {
                let message = format!("measure {}: there is no column {over}", measure.name);
                return Err(self.wrong(message));
            }
        }
        if let Some(headline) = &self.file.headline {
            compile("headline", &headline.here)?;
            let stated = |id: &&String| {
                let mut lines = self.file.accept.iter();
                lines.any(|line| line.id == **id && line.level == Level::S)
            };
            if let Some(id) = headline.lines.iter().find(|id| !stated(id)) {
                return Err(self.wrong(format!("headline: there is no line {id} of level S")));
            }
        }
        Ok(())
    }

    /// Columns and points may have fewer seeds than the experiment, not more.
    fn check_seeds(&self) -> Result<(), Error> {
        let columns = self.file.column.iter().filter_map(|one| one.seeds);
        let points = self.file.point.iter().filter_map(|one| one.seeds);
        let all = self.file.seeds;
        match columns.chain(points).find(|seeds| seeds.get() >= all) {
            Some(seeds) => {
                Err(self.wrong(format!("seeds = {seeds} is not fewer than the {all} of all")))
            }
            None => Ok(()),
        }
    }

    /// The points; a single unnamed one if the file has none.
    pub(crate) fn points(&self) -> Vec<PointFile> {
        if self.file.point.is_empty() {
            vec![PointFile::default()]
        } else {
            self.file.point.clone()
        }
    }

    /// The fitted values, by name.
    pub(crate) fn fits(&self) -> BTreeMap<String, f64> {
        self.file.fit.iter().map(|fit| (fit.name.clone(), fit.value)).collect()
    }

    /// Reads the machine of every point, just as the runs do.
    pub fn check_machines(&self) -> Result<(), Error> {
        let fits = self.fits();
        for point in &self.points() {
            self.machine(point, &fits)?;
        }
        Ok(())
    }

    /// The machine of a point, with the experiment's own costs.
    pub(crate) fn machine(
        &self,
        point: &PointFile,
        fits: &BTreeMap<String, f64>,
    ) -> Result<DocumentMachine, Error> {
        let name = point.machine.as_ref().unwrap_or(&self.file.machine);
        let path = format!("{MACHINES}/{name}.toml");
        let file: MachineFile = self.place.toml(&path)?;
        let wrong = |message| Error::Experiment { place: self.place.name(&path), message };
        let machine = Machine::parse(&file.topology);
        let mut machine = machine.map_err(|error| wrong(error.to_string()))?;
        let cache = file.cache.map(|cache| CacheSize::new(cache.kib, cache.line_ns));
        machine.hardware.cache = cache.transpose().map_err(wrong)?;
        let mut costs = match &file.cost {
            None => toml::Table::new(),
            Some(cost) => {
                let path = format!("{MACHINES}/{cost}");
                self.place.toml(&path)?
            }
        };
        for (name, value) in &self.file.cost {
            let computed = self.toml_value(value, "", fits)?;
            costs.insert(name.clone(), with_origin(computed, value));
        }
        let title = file
            .cost
            .as_deref()
            .map_or("default", |cost| cost.strip_suffix(".toml").unwrap_or(cost));
        let cost = cost_file::from_table(title, &costs)?;
        Ok(DocumentMachine { machine: Arc::new(machine), cost, file })
    }

    /// The workload of a point.
    pub(crate) fn workload(
        &self,
        point: &PointFile,
        fits: &BTreeMap<String, f64>,
    ) -> Result<Arc<Workload>, Error> {
        let (place, text) = self.workload_text(point, fits)?;
        Ok(Arc::new(Workload::parse(&place, &text)?))
    }

    /// The rt-app file of a point with its values set, and its place.
    pub(crate) fn workload_text(
        &self,
        point: &PointFile,
        fits: &BTreeMap<String, f64>,
    ) -> Result<(String, String), Error> {
        let name = point
            .workload
            .as_ref()
            .or(self.file.workload.as_ref())
            .ok_or_else(|| self.wrong(format!("point {:?} has no workload", point.name)))?;
        let path = format!("{}/{name}", self.id);
        let text = self.place.read(&path)?;
        let changes: Vec<_> = self.file.set.iter().chain(&point.set).collect();
        let place = self.place.name(&path);
        if changes.is_empty() {
            return Ok((place, text));
        }
        let mut json: serde_json::Value = serde_json::from_str(&text).map_err(|error| {
            Error::Experiment { place: place.clone(), message: error.to_string() }
        })?;
        for (pointer, value) in changes {
            let value = self.json_value(value, &point.name, fits)?;
            set_pointer(&mut json, pointer, value)
                .map_err(|message| self.wrong(format!("{name}: {message}")))?;
        }
        Ok((place, json.to_string()))
    }

    /// A value from the file; a string that begins with `=` is evaluated.
    fn computed(
        &self,
        value: &toml::Value,
        point: &str,
        fits: &BTreeMap<String, f64>,
    ) -> Result<Option<f64>, Error> {
        let Some(text) = value.as_str().and_then(|text| text.strip_prefix('=')) else {
            return Ok(None);
        };
        let engine = script::engine();
        let mut scope = script::constants(point, fits);
        Expression::compile(&engine, text)
            .and_then(|expression| expression.number(&engine, &mut scope))
            .map(Some)
            .map_err(|error| self.wrong(format!("{text}: {error}")))
    }

    fn json_value(
        &self,
        value: &toml::Value,
        point: &str,
        fits: &BTreeMap<String, f64>,
    ) -> Result<serde_json::Value, Error> {
        Ok(match self.computed(value, point, fits)? {
            Some(number) if number.fract() == 0.0 => (number as i64).into(),
            Some(number) => number.into(),
            None => serde_json::to_value(value).map_err(|error| self.wrong(error.to_string()))?,
        })
    }

    fn toml_value(
        &self,
        value: &toml::Value,
        point: &str,
        fits: &BTreeMap<String, f64>,
    ) -> Result<toml::Value, Error> {
        // Costs are whole nanoseconds.
        Ok(match self.computed(value, point, fits)? {
            Some(number) => toml::Value::Integer(number.round() as i64),
            None => value.clone(),
        })
    }
}

/// Sets the value at a JSON pointer; the last component may be a new key.
fn set_pointer(
    json: &mut serde_json::Value,
    pointer: &str,
    value: serde_json::Value,
) -> Result<(), String> {
    if let Some(target) = json.pointer_mut(pointer) {
        *target = value;
        return Ok(());
    }
    let parent = pointer.rsplit_once('/').and_then(|(parent, key)| {
        let object = json.pointer_mut(parent)?.as_object_mut()?;
        Some((object, key.replace("~1", "/").replace("~0", "~")))
    });
    let (object, key) = parent.ok_or_else(|| format!("{pointer} leads nowhere"))?;
    object.insert(key, value);
    Ok(())
}

/// A cost set by an experiment, with the experiment as its origin if it states none.
fn with_origin(computed: toml::Value, written: &toml::Value) -> toml::Value {
    if computed.is_table() {
        return computed;
    }
    let origin = match written.as_str() {
        Some(expression) => format!("the experiment: {}", expression.trim_start_matches("= ")),
        None => "the experiment".to_owned(),
    };
    let pairs = [("ns", computed), ("origin", origin.into())];
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value));
    toml::Value::Table(pairs.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_lead_to_values_and_to_new_keys() {
        let mut json = serde_json::json!({"tasks": {"a": {"run": 1}}});
        set_pointer(&mut json, "/tasks/a/run", 2.into()).unwrap();
        set_pointer(&mut json, "/tasks/a/instance", 3.into()).unwrap();
        assert_eq!(json["tasks"]["a"], serde_json::json!({"run": 2, "instance": 3}));
        let wrong = set_pointer(&mut json, "/tasks/b/run", 2.into()).unwrap_err();
        assert_eq!(wrong, "/tasks/b/run leads nowhere");
    }
}
