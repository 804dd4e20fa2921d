//! The companions that come with fairground.

macro_rules! companions {
    ($($name:literal),* $(,)?) => {
        &[$((
            $name,
            concat!("companions/", $name, ".toml"),
            include_str!(concat!("../../../companions/", $name, ".toml")),
        )),*]
    };
}

/// Name, file and text of each companion: `ops.name` of its scheduler, and for older releases a hyphen and the first of them.
static COMPANIONS: &[(&str, &str, &str)] = companions![
    "beerland",
    "beerland-1.0.20",
    "bpfland",
    "bpfland-1.0.16",
    "bpfland-1.0.12",
    "cake",
    "central",
    "chaos",
    "cosmos",
    "cosmos-1.1.1",
    "cosmos-1.1.0",
    "cosmos-1.0.20",
    "cosmos-1.0.16",
    "flash",
    "flash-1.0.16",
    "flash-1.0.13",
    "flatcg",
    "forge",
    "lavd",
    "layered",
    "mitosis",
    "nest",
    "numa",
    "p2dq",
    "pair",
    "qmap",
    "rustland",
    "rusty",
    "scx_flow",
    "tickless",
    "tickless-1.0.16",
    "userland",
];

/// Files and texts of the companions for releases of the scheduler that calls itself `scheduler`, the newest first.
pub(crate) fn find(scheduler: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    COMPANIONS
        .iter()
        .filter(move |(name, ..)| name.split('-').next() == Some(scheduler))
        .map(|(_, file, text)| (*file, *text))
}

/// All of them, each of which names its scheduler and its source.
#[cfg(test)]
pub(crate) fn all() -> impl Iterator<Item = crate::Companion> {
    COMPANIONS.iter().map(|(name, file, _)| {
        let scheduler = name.split('-').next().unwrap();
        let mut all = crate::Companion::built_in(scheduler).map(Result::unwrap);
        let companion = all.find(|one| one.name() == *file).unwrap();
        assert_eq!(companion.scheduler(), scheduler, "{file}");
        let trees = ["scheds/", "tools/sched_ext/", "tools/testing/selftests/sched_ext/"];
        assert!(trees.iter().any(|tree| companion.from().contains(tree)), "{file}");
        companion
    })
}
