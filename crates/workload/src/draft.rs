//! The text of an rt-app file in a form that can be made smaller.

use std::fmt::Write as _;
use std::ops::Range;

use crate::error::Error;
use crate::json::{self, Member, Node, Value};

/// An rt-app file whose parts can be left out one by one. [`Workload::parse`] says whether the rest is still a workload.
///
/// [`Workload::parse`]: crate::Workload::parse
#[derive(Clone, Debug, PartialEq)]
pub struct Draft(Node);

/// Where an object, an array or a number is in a draft: places of members and elements, from the outermost inwards.
pub type Path = Vec<usize>;

impl Draft {
    /// Reads a file's text; `file` names it in messages.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        match json::parse(text, &mut Vec::new()) {
            Ok(node) => Ok(Self(node)),
            Err(error) => Err(Error {
                file: file.into(),
                line: error.position.line,
                column: error.position.column,
                json_path: String::new(),
                message: error.message,
            }),
        }
    }

    /// A file that was read before.
    pub(crate) fn of_node(node: Node) -> Self {
        Self(node)
    }

    /// The text of the file: plain JSON except for repeated keys and keys without a value.
    pub fn text(&self) -> String {
        let mut text = String::new();
        write(&self.0, 0, &mut text);
        text.push('\n');
        text
    }

    /// All objects and arrays, each before those inside it.
    pub fn lists(&self) -> Vec<Path> {
        self.find(|node| matches!(node.value, Value::Object(_) | Value::Array(_)))
    }

    /// All integers above 1, with their values.
    pub fn numbers(&self) -> Vec<(Path, u64)> {
        let number = |node: &Node| match &node.value {
            Value::Number(text) => text.parse::<u64>().ok().filter(|number| *number > 1),
            _ => None,
        };
        let found = self.find(|node| number(node).is_some());
        let value = |path: Path| {
            let value = self.at(&path).and_then(number)?;
            Some((path, value))
        };
        found.into_iter().filter_map(value).collect()
    }

    /// How many equal tasks a task stands for, of all that stand for several.
    pub fn instances(&self) -> Vec<(Path, u64)> {
        let Some(tasks) = self.tasks() else { return Vec::new() };
        let is_count = |path: &Path| {
            let [task @ .., place] = &path[..] else { return false };
            let members = match self.at(task).map(|node| &node.value) {
                Some(Value::Object(members)) => members.get(*place),
                _ => None,
            };
            task.len() == tasks.len() + 1
                && task.starts_with(&tasks)
                && members.is_some_and(|member| member.key == "instance")
        };
        let mut counts = self.numbers();
        counts.retain(|(path, _)| is_count(path));
        counts
    }

    /// Number of members or elements of the list at `path`; 0 if there is none.
    pub fn length(&self, path: &[usize]) -> usize {
        match self.at(path).map(|node| &node.value) {
            Some(Value::Object(members)) => members.len(),
            Some(Value::Array(elements)) => elements.len(),
            _ => 0,
        }
    }

    /// A copy without some of the members or elements of the list at `path`.
    #[must_use]
    pub fn without(&self, path: &[usize], range: Range<usize>) -> Self {
        let mut smaller = self.clone();
        match smaller.at_mut(path).map(|node| &mut node.value) {
            Some(Value::Object(members)) => drop(members.drain(range)),
            Some(Value::Array(elements)) => drop(elements.drain(range)),
            _ => {}
        }
        smaller
    }

    /// A copy with another number at `path`.
    #[must_use]
    pub fn with_number(&self, path: &[usize], number: u64) -> Self {
        let mut changed = self.clone();
        if let Some(node) = changed.at_mut(path) {
            node.value = Value::Number(number.to_string());
        }
        changed
    }

    /// Where its tasks are: an object with a member for each; `None` if it has none.
    pub fn tasks(&self) -> Option<Path> {
        let Value::Object(members) = &self.0.value else { return None };
        let place = members.iter().position(|member| member.key == "tasks")?;
        matches!(members[place].value.as_ref()?.value, Value::Object(_)).then(|| vec![place])
    }

    /// A copy that also has the tasks of another file; `None` if that has none, or if a name occurs in both.
    pub fn joined(&self, other: &Self) -> Option<Self> {
        let mut joined = self.clone();
        let (here, there) = (joined.tasks()?, other.tasks()?);
        let added = match &other.at(&there)?.value {
            Value::Object(members) => members.clone(),
            _ => return None,
        };
        let Value::Object(members) = &mut joined.at_mut(&here)?.value else { return None };
        let is_known = |added: &Member| members.iter().any(|member| member.key == added.key);
        if added.iter().any(is_known) {
            return None;
        }
        members.extend(added);
        Some(joined)
    }

    fn find(&self, is_wanted: impl Fn(&Node) -> bool) -> Vec<Path> {
        let mut found = Vec::new();
        let mut rest = vec![(Vec::new(), &self.0)];
        while let Some((path, node)) = rest.pop() {
            let inner: Vec<(Path, &Node)> = children(node)
                .map(|(place, child)| ([&path[..], &[place]].concat(), child))
                .collect();
            rest.extend(inner.into_iter().rev());
            if is_wanted(node) {
                found.push(path);
            }
        }
        found
    }

    fn at(&self, path: &[usize]) -> Option<&Node> {
        path.iter().try_fold(&self.0, |node, place| {
            children(node).find_map(|(at, child)| (at == *place).then_some(child))
        })
    }

    fn at_mut(&mut self, path: &[usize]) -> Option<&mut Node> {
        path.iter().try_fold(&mut self.0, |node, place| match &mut node.value {
            Value::Object(members) => members.get_mut(*place)?.value.as_mut(),
            Value::Array(elements) => elements.get_mut(*place),
            _ => None,
        })
    }
}

/// The contents of a list, with their places in it.
fn children(node: &Node) -> Box<dyn Iterator<Item = (usize, &Node)> + '_> {
    match &node.value {
        Value::Object(members) => {
            let values = members.iter().map(|member| member.value.as_ref());
            Box::new(values.enumerate().filter_map(|(at, value)| Some((at, value?))))
        }
        Value::Array(elements) => Box::new(elements.iter().enumerate()),
        _ => Box::new(std::iter::empty()),
    }
}

fn write(node: &Node, depth: usize, text: &mut String) {
    match &node.value {
        Value::Null | Value::Boolean(_) | Value::Number(_) => {
            let _ = write!(text, "{}", node.value);
        }
        Value::String(string) => quote(string, text),
        Value::Array(elements) => {
            text.push('[');
            for (place, element) in elements.iter().enumerate() {
                text.push_str(if place > 0 { ", " } else { "" });
                write(element, depth, text);
            }
            text.push(']');
        }
        Value::Object(members) if members.is_empty() => text.push_str("{}"),
        Value::Object(members) => {
            text.push('{');
            for (place, Member { key, value, .. }) in members.iter().enumerate() {
                text.push_str(if place > 0 { ",\n" } else { "\n" });
                text.push_str(&"\t".repeat(depth + 1));
                quote(key, text);
                if let Some(value) = value {
                    text.push_str(" : ");
                    write(value, depth + 1, text);
                }
            }
            text.push('\n');
            text.push_str(&"\t".repeat(depth));
            text.push('}');
        }
    }
}

fn quote(string: &str, text: &mut String) {
    text.push('"');
    for one in string.chars() {
        match one {
            '"' | '\\' => {
                text.push('\\');
                text.push(one);
            }
            _ if one.is_control() => {
                let _ = write!(text, "\\u{:04x}", one as u32);
            }
            _ => text.push(one),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"{ "tasks" : { "a" : { "run" : 10, "suspend", "run" : 20 }, "b\"" : { "cpus" : [0, 3] } } }"#;

    fn draft() -> Draft {
        Draft::parse("f.json", FILE).unwrap()
    }

    #[test]
    fn what_is_written_is_what_was_read() {
        let text = draft().text();
        assert_eq!(
            text,
            "{\n\t\"tasks\" : {\n\t\t\"a\" : {\n\t\t\t\"run\" : 10,\n\t\t\t\"suspend\",\n\t\t\t\"run\" : 20\n\t\t},\n\
             \t\t\"b\\\"\" : {\n\t\t\t\"cpus\" : [0, 3]\n\t\t}\n\t}\n}\n"
        );
        let again = Draft::parse("f.json", &text).unwrap();
        assert_eq!(again.text(), text);
    }

    #[test]
    fn lists_come_before_those_in_them_and_lose_what_is_left_out() {
        let lists = draft().lists();
        let expected: [&[usize]; 5] = [&[], &[0], &[0, 0], &[0, 1], &[0, 1, 0]];
        assert_eq!(lists, expected);
        assert_eq!(draft().length(&[0, 0]), 3);
        let smaller = draft().without(&[0, 0], 1..3).without(&[0, 1, 0], 0..1);
        assert!(!smaller.text().contains("suspend") && smaller.text().contains("[3]"));
        assert_eq!(smaller.length(&[0, 0]), 1);
        assert_eq!(draft().without(&[0], 0..1).length(&[0]), 1);
    }

    #[test]
    fn counts_of_tasks_are_told_from_other_numbers() {
        let text = r#"{"tasks": {"a": {"run": 5, "instance": 3}, "b": {"instance": 1, "phases": {"instance": {"instance": 4}}}}, "global": {"instance": 7}}"#;
        let draft = Draft::parse("file.json", text).unwrap();
        assert_eq!(draft.instances(), [(vec![0, 0, 1], 3)]);
    }

    #[test]
    fn numbers_can_be_others() {
        let numbers = draft().numbers();
        let expected = [(vec![0, 0, 0], 10), (vec![0, 0, 2], 20), (vec![0, 1, 0, 1], 3)];
        assert_eq!(numbers, expected);
        let text = draft().with_number(&[0, 0, 2], 7).text();
        assert!(text.contains("\"run\" : 10") && text.contains("\"run\" : 7"), "{text}");
    }
}
