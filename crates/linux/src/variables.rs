//! Kernel variables.

/// One name a line, sorted.
static VARIABLES: &str = include_str!("../tables/variables.txt");

/// The variables with a type that [`crate::Release::NEWEST`] has, by name.
pub fn variables() -> impl Iterator<Item = &'static str> {
    VARIABLES.lines()
}

/// Whether [`crate::Release::NEWEST`] has a variable of that name with a type. Other releases have no table: all of them have the variables
/// that schedulers use.
pub fn has_variable(name: &str) -> bool {
    variables().any(|line| line == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_and_names_nothing_twice() {
        let names: Vec<&str> = variables().collect();
        assert!(names.is_sorted_by(|one, other| one < other));
    }
}
