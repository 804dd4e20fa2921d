//! Expressions in the strings of a file: `%(EXPRESSION)`, and `%i` and `%j` for short.

use std::collections::BTreeMap;

use rhai::packages::{ArithmeticPackage, BasicMathPackage, LogicPackage, Package};
use rhai::{AST, Dynamic, Engine, INT, Scope};

use crate::json::Value;

/// Maximum nesting of an expression.
const DEPTH: usize = 32;
/// Maximum number of operations of an expression.
const STEPS: u64 = 1000;
/// Largest number that an expression yields; up to here all whole numbers are exact.
const LARGEST: f64 = (1_u64 << 53) as f64;

/// A piece of a string.
#[derive(Debug, PartialEq)]
enum Piece<'a> {
    Text(&'a str),
    Expression(&'a str),
}

/// The pieces of a string, or a message about its fault.
fn pieces(text: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    let mut from = 0;
    while let Some(found) = rest[from..].find('%') {
        let at = from + found;
        let after = &rest[at + 1..];
        let length = if after.starts_with('(') {
            let inner = inside(after).ok_or_else(|| {
                format!("\"{text}\" opens a parenthesis after % that it does not close; close it")
            })?;
            pieces.push(Piece::Text(&rest[..at]));
            pieces.push(Piece::Expression(inner));
            inner.len() + 2
        } else if is_short(after) {
            pieces.push(Piece::Text(&rest[..at]));
            pieces.push(Piece::Expression(&after[..1]));
            1
        } else {
            from = at + 1;
            continue;
        };
        rest = &after[length..];
        from = 0;
    }
    pieces.push(Piece::Text(rest));
    pieces.retain(|piece| *piece != Piece::Text(""));
    Ok(pieces)
}

/// Whether an `i` or `j` that stands alone comes first.
fn is_short(after: &str) -> bool {
    let mut chars = after.chars();
    matches!(chars.next(), Some('i' | 'j')) && !chars.next().is_some_and(char::is_alphabetic)
}

/// The text inside the parenthesis at the beginning.
fn inside(text: &str) -> Option<&str> {
    let mut depth = 0;
    for (at, one) in text.char_indices() {
        match one {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(&text[1..at]);
        }
    }
    None
}

/// Whether an expression in `text` mentions `name`.
pub(crate) fn mentions(text: &str, name: &str) -> bool {
    let is_part = |one: char| one.is_alphanumeric() || one == '_';
    let pieces = pieces(text).unwrap_or_default();
    pieces.iter().any(|piece| match piece {
        Piece::Text(_) => false,
        Piece::Expression(expression) => {
            expression.split(|one| !is_part(one)).any(|word| word == name)
        }
    })
}

/// Computes expressions.
pub(crate) struct Evaluator {
    engine: Engine,
    values: BTreeMap<String, f64>,
    compiled: BTreeMap<String, AST>,
}

impl Evaluator {
    /// An evaluator that knows no names.
    pub fn new() -> Self {
        let mut engine = Engine::new_raw();
        ArithmeticPackage::new().register_into_engine(&mut engine);
        BasicMathPackage::new().register_into_engine(&mut engine);
        LogicPackage::new().register_into_engine(&mut engine);
        // The package has these of reals alone.
        engine.register_fn("sqrt", |number: INT| (number as f64).sqrt());
        for rounding in ["round", "floor", "ceiling"] {
            engine.register_fn(rounding, |number: INT| number);
        }
        engine.set_max_expr_depths(DEPTH, DEPTH);
        engine.set_max_operations(STEPS);
        Self { engine, values: BTreeMap::new(), compiled: BTreeMap::new() }
    }

    /// Whether expressions can use this name, which is no word of their language.
    pub fn knows(name: &str) -> bool {
        let mut evaluator = Self::new();
        evaluator.set(name, 1.0);
        evaluator.number(&format!("{name} + 1")) == Ok(2.0)
    }

    /// The number with this name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.values.get(name).copied()
    }

    /// Gives a name to a number.
    pub fn set(&mut self, name: &str, value: f64) {
        self.values.insert(name.to_owned(), value);
    }

    /// Forgets a name.
    pub fn unset(&mut self, name: &str) {
        self.values.remove(name);
    }

    /// The value of an expression, or a message about its fault.
    pub fn number(&mut self, expression: &str) -> Result<f64, String> {
        // The most frequent expressions need no engine.
        if let Some(value) = self.get(expression) {
            return Ok(value);
        }
        let names: Vec<&str> = self.values.keys().map(String::as_str).collect();
        let wrong = |problem: &str| {
            let problem = problem.split(" (line").next().unwrap_or(problem);
            format!(
                "%({expression}) cannot be computed: {problem}; the names here are {}",
                names.join(", ")
            )
        };
        if !self.compiled.contains_key(expression) {
            let compiled = self.engine.compile_expression(expression);
            let compiled = compiled.map_err(|error| wrong(&error.to_string()))?;
            self.compiled.insert(expression.to_owned(), compiled);
        }
        let mut scope = Scope::new();
        for (name, value) in &self.values {
            scope.push_constant_dynamic(name.as_str(), number_of(*value));
        }
        let ast = &self.compiled[expression];
        let result = self.engine.eval_ast_with_scope::<Dynamic>(&mut scope, ast);
        let result = result.map_err(|error| wrong(&error.to_string()))?;
        let number = match result.as_float() {
            Ok(number) => Some(number),
            Err(_) => result.as_int().ok().map(|number| number as f64),
        };
        match number {
            Some(number) if number.abs() <= LARGEST => Ok(number),
            Some(_) => Err(wrong("the number is too large")),
            None => Err(wrong("it is no number")),
        }
    }

    /// A text with its expressions replaced by their values.
    pub fn text(&mut self, text: &str) -> Result<String, String> {
        if !text.contains('%') {
            return Ok(text.to_owned());
        }
        let mut filled = String::new();
        for piece in pieces(text)? {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Expression(expression) => {
                    filled.push_str(&self.number(expression)?.to_string());
                }
            }
        }
        Ok(filled)
    }

    /// A string with its expressions replaced by their values; one that is nothing but an expression becomes a number.
    pub fn value(&mut self, text: &str) -> Result<Value, String> {
        match pieces(text)?.as_slice() {
            [Piece::Expression(expression)] => {
                self.number(expression).map(|number| Value::Number(number.to_string()))
            }
            _ => self.text(text).map(Value::String),
        }
    }
}

/// A whole number as an integer, which divides without remainder, and any other as it is.
fn number_of(value: f64) -> Dynamic {
    if value.fract() == 0.0 && value.abs() <= LARGEST {
        Dynamic::from_int(value as INT)
    } else {
        Dynamic::from_float(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluator() -> Evaluator {
        let mut evaluator = Evaluator::new();
        for (name, value) in [("cpus", 6.0), ("load", 0.5), ("i", 7.0)] {
            evaluator.set(name, value);
        }
        evaluator
    }

    #[test]
    fn whole_numbers_divide_without_remainder_and_others_do_not() {
        let mut evaluator = evaluator();
        for (expression, value) in [
            ("cpus", 6.0),
            ("cpus / 4", 1.0),
            ("cpus / 4.0", 1.5),
            ("cpus * load", 3.0),
            ("i % 4", 3.0),
            ("max(1, cpus / 8)", 1.0),
            ("min(cpus, 2) - 5", -3.0),
            ("round(cpus * 0.4)", 2.0),
            ("ceiling(cpus * 0.4)", 3.0),
            ("ceiling(cpus) + floor(i)", 13.0),
            ("sqrt(cpus + 3)", 3.0),
        ] {
            assert_eq!(evaluator.number(expression), Ok(value), "{expression}");
        }
    }

    #[test]
    fn what_cannot_be_computed_is_told_with_the_names() {
        let mut evaluator = evaluator();
        for expression in
            ["cpu", "1 / 0", "load +", "\"a\"", "1e300", "[1]", "loop {}", "while true {}", ""]
        {
            let message = evaluator.number(expression).expect_err(expression);
            let (start, end) = (
                format!("%({expression}) cannot be computed: "),
                "the names here are cpus, i, load",
            );
            assert!(message.starts_with(&start) && message.ends_with(end), "{message}");
        }
    }

    #[test]
    fn names_and_numbers_are_filled_in() {
        let mut evaluator = evaluator();
        let text = |evaluator: &mut Evaluator, text| evaluator.text(text).unwrap();
        assert_eq!(text(&mut evaluator, "q%i"), "q7");
        assert_eq!(text(&mut evaluator, "%(i + 1)of%(cpus * (1 + 1))"), "8of12");
        assert_eq!(text(&mut evaluator, "50 %idle, 100%"), "50 %idle, 100%");
        assert_eq!(evaluator.value("%(i + 1)"), Ok(Value::Number("8".into())));
        assert_eq!(evaluator.value("%(load)"), Ok(Value::Number("0.5".into())));
        assert_eq!(evaluator.value("a%(i)"), Ok(Value::String("a7".into())));
        assert!(evaluator.value("%(i").unwrap_err().contains("close it"));
        assert!(mentions("a%(max(i, 2))", "i") && !mentions("a%(max(cpus, 2))i", "i"));
    }
}
