//! The kernel functions and variables that Linux 7.3 has, including those that this model does not have. A scheduler that needs others is
//! not loaded, whether it gets to them or not.
//!
//! The lists come from the types of the kernel that the testbench boots: the functions with the tag `bpf_kfunc`, and all variables, in
//! `bpftool btf dump file vmlinux`.

/// One name a line, sorted.
static FUNCTIONS: &str = include_str!("../kernel/functions.txt");
/// One name a line, sorted.
static VARIABLES: &str = include_str!("../kernel/variables.txt");

/// Whether the kernel has a kernel function, or a variable with a type, of that name.
pub fn has(name: &str, is_function: bool) -> bool {
    let names = match is_function {
        true => FUNCTIONS,
        false => VARIABLES,
    };
    names.lines().any(|line| line == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The model has it for objects that were compiled for older kernels and test whether it is there.
    const OLDER: &[&str] = &["bpf_stream_vprintk_impl"];

    #[test]
    fn the_model_has_only_what_the_kernel_has() {
        let names = crate::kfunc::names();
        let invented: Vec<&str> = names
            .filter(|name| !has(name, true) && !OLDER.contains(name))
            .collect();
        assert_eq!(invented, Vec::<&str>::new());
    }

    #[test]
    fn what_kernels_have_lost_is_not_there() {
        for former in fairground_bpf::all_former() {
            assert!(!has(former.name, true), "{}", former.name);
            assert!(has(former.successor, true), "{}", former.successor);
        }
    }

    #[test]
    fn lists_are_sorted_and_name_nothing_twice() {
        for list in [FUNCTIONS, VARIABLES] {
            let names: Vec<&str> = list.lines().collect();
            assert!(names.is_sorted_by(|one, other| one < other));
        }
    }
}
