//! Loads with names: the files of `workloads/`, inside this program.

use std::path::Path;

use fairground_workload::Workload;

/// Names and files, in alphabetical order.
const LOADS: [(&str, &str); 8] = [
    (
        "hogs-five",
        include_str!("../../../workloads/hogs-five.json"),
    ),
    (
        "hogs-five-top",
        include_str!("../../../workloads/hogs-five-top.json"),
    ),
    (
        "hogs-nice",
        include_str!("../../../workloads/hogs-nice.json"),
    ),
    (
        "hogs-three",
        include_str!("../../../workloads/hogs-three.json"),
    ),
    (
        "lock-contention",
        include_str!("../../../workloads/lock-contention.json"),
    ),
    ("mix-two", include_str!("../../../workloads/mix-two.json")),
    (
        "periodic-hogs",
        include_str!("../../../workloads/periodic-hogs.json"),
    ),
    (
        "wakeup-chain",
        include_str!("../../../workloads/wakeup-chain.json"),
    ),
];

/// The text of the load with this name, unless there is a file of that name.
pub fn text(path: &Path) -> Option<&'static str> {
    let (_, text) = LOADS.iter().find(|(name, _)| path == Path::new(name))?;
    (!path.exists()).then_some(*text)
}

/// The load with this name, unless there is a file of that name.
pub fn find(path: &Path) -> Option<Result<Workload, fairground_workload::Error>> {
    let text = text(path)?;
    Some(Workload::parse(&format!("{}.json", path.display()), text))
}

/// What to say about a path that is neither a file nor the name of a load, if it looks like a name.
pub fn names(path: &Path) -> Option<String> {
    let name = path.to_str()?;
    let is_name = !path.exists() && !name.contains(['/', '.']);
    let names: Vec<&str> = LOADS.iter().map(|(name, _)| *name).collect();
    is_name.then(|| {
        format!(
            "{name}: there is no such file, and no load of this name; loads with names are {}",
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_has_a_name() {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads"));
        let entries = std::fs::read_dir(folder).expect("the folder is there");
        let paths = entries.map(|entry| entry.expect("it can be read").path());
        let mut files: Vec<_> = paths
            .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
            .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
            .collect();
        files.sort();
        assert_eq!(files, LOADS.map(|(name, _)| name));
        for name in files {
            let load = find(Path::new(&name)).expect("it has a name");
            assert_eq!(load.expect("it is a workload").name, name);
        }
    }
}
