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

/// `ops.name`, file and text of each companion.
static COMPANIONS: &[(&str, &str, &str)] = companions![
    "beerland", "bpfland", "cake", "central", "chaos", "cosmos", "flash", "forge", "lavd", "p2dq",
    "pair", "qmap", "rusty", "scx_flow", "tickless"
];

/// File and text of the companion for the scheduler that calls itself `scheduler`.
pub(crate) fn find(scheduler: &str) -> Option<(&'static str, &'static str)> {
    COMPANIONS
        .iter()
        .find(|(name, ..)| *name == scheduler)
        .map(|(_, file, text)| (*file, *text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Companion;

    #[test]
    fn every_companion_can_be_read_and_names_its_scheduler_and_its_source() {
        for (name, file, _) in COMPANIONS {
            let companion = Companion::built_in(name).unwrap().unwrap();
            assert_eq!(companion.scheduler(), *name, "{file}");
            let trees = ["scheds/", "tools/sched_ext/"];
            assert!(
                trees.iter().any(|tree| companion.from().contains(tree)),
                "{file}"
            );
        }
    }
}
