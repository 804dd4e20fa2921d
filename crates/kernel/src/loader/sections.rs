//! Which of libbpf's maps belongs to which section of an object.

use libbpf_rs::{OpenMapMut, OpenObject};

pub(super) fn find_section<'object>(
    object: &'object mut OpenObject,
    section: &str,
) -> Option<OpenMapMut<'object>> {
    object.maps_mut().find(|map| holds_section(&map.name().to_string_lossy(), section))
}

/// Whether the map of this name belongs to a section. libbpf prefixes the names of plain sections with the object's name.
pub(super) fn holds_section(map: &str, section: &str) -> bool {
    if map == section {
        return true;
    }
    let plain = !section.get(1..).unwrap_or_default().contains('.');
    plain
        && section.starts_with('.')
        && map.strip_suffix(section).is_some_and(|prefix| !prefix.contains('.'))
}

/// A name that libbpf can use as a prefix for the names of maps.
pub(super) fn map_prefix(name: &str) -> String {
    let file = name.rsplit('/').next().unwrap_or(name);
    let plain: String = file
        .split('.')
        .next()
        .unwrap_or(file)
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    if plain.is_empty() { "scheduler".to_owned() } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_told_by_the_names_of_maps() {
        assert!(holds_section("o1.rodata", ".rodata"));
        assert!(!holds_section("o1.rodata", ".data"));
        assert!(holds_section("o1.data", ".data"));
        assert!(holds_section(".data.uei_dump", ".data.uei_dump"));
        assert!(!holds_section(".rodata.str.data", ".data"));
        assert!(holds_section("o1_ops", "o1_ops"));
    }

    #[test]
    fn names_of_files_become_prefixes_of_maps() {
        assert_eq!(map_prefix("./my-own.bpf.c"), "my_own");
        assert_eq!(map_prefix(""), "scheduler");
    }
}
