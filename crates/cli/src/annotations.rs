//! Failures as annotations in a workflow of GitHub.

use fairground_lab::{Contender, Plan};

/// Reports a scheduler's failure: on standard error, and in a workflow of GitHub as an error at its source, if that is a file.
pub fn tell(plan: &Plan, scheduler: &str, message: &str) {
    say("error", plan, scheduler, message);
}

/// Reports what could not be judged: on standard error, and in a workflow of GitHub as a warning.
pub fn warn(plan: &Plan, scheduler: &str, message: &str) {
    say("warning", plan, scheduler, message);
}

fn say(level: &str, plan: &Plan, scheduler: &str, message: &str) {
    if is_workflow() {
        crate::output::say!("{}", annotation(level, source(plan, scheduler), message));
    } else {
        crate::output::say!("fairground: {message}");
    }
}

/// Whether this process is part of a workflow of GitHub, as its documentation says how to find out.
fn is_workflow() -> bool {
    std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true")
}

/// The file of the scheduler with this title.
fn source<'a>(plan: &'a Plan, scheduler: &str) -> Option<&'a str> {
    let mut contenders = plan.sites.iter().flat_map(|site| &site.contenders);
    let contender = contenders.find(|one| one.title() == scheduler)?;
    let path = Contender::reference(contender);
    std::path::Path::new(path).is_file().then_some(path)
}

/// A command of the workflow, in one line.
fn annotation(level: &str, file: Option<&str>, message: &str) -> String {
    let message = message.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    match file {
        Some(file) => {
            let file = file.replace('%', "%25").replace(':', "%3A").replace(',', "%2C");
            format!("::{level} file={file},title=fairground::{message}")
        }
        None => format!("::{level} title=fairground::{message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::annotation;

    #[test]
    fn what_would_end_a_command_is_escaped() {
        assert_eq!(
            annotation("error", Some("a,b.bpf.c"), "worse by 5 %\nat once"),
            "::error file=a%2Cb.bpf.c,title=fairground::worse by 5 %25%0Aat once"
        );
        assert_eq!(annotation("warning", None, "no"), "::warning title=fairground::no");
    }
}
