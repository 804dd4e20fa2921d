//! A JSON reader for the dialect of rt-app files.
//!
//! It keeps data that general JSON libraries drop and this format needs: the position of every key and value, the order of keys, repeated keys, and
//! keys without a value (`"suspend",`, which the `workgen` script completes). Like json-c, rt-app's JSON library, it accepts comments, trailing
//! commas, single quotes, and `True`, `False`, `Null` in any case; each of these is reported to the caller.

use std::collections::HashMap;
use std::fmt;
use std::iter::Peekable;
use std::str::Chars;

/// Maximum nesting that json-c, and so rt-app, accepts.
const DEPTH_MAX: u32 = 32;

/// A place in the text: line and column in characters, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub line: u32,
    pub column: u32,
}

/// A value with its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub position: Position,
    pub value: Value,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Boolean(bool),
    /// As written.
    Number(String),
    String(String),
    Array(Vec<Node>),
    Object(Vec<Member>),
}

impl fmt::Display for Value {
    /// A short description for messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Boolean(value) => write!(f, "{value}"),
            Value::Number(number) => f.write_str(number),
            Value::String(text) => write!(f, "\"{text}\""),
            Value::Array(_) => f.write_str("an array"),
            Value::Object(_) => f.write_str("an object"),
        }
    }
}

/// A key of an object with its value, if it has one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    pub position: Position,
    pub key: String,
    pub value: Option<Node>,
    /// Where the same key occurs before this one, if it does.
    pub repeats: Option<Position>,
}

/// A departure from JSON that rt-app's reader accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Departure {
    Comment,
    TrailingComma,
    SingleQuotes,
    LiteralCase,
}

/// The fault of a text, and its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SyntaxError {
    pub position: Position,
    pub message: String,
}

/// Reads one value and everything around it; `departures` receives the places that JSON itself does not allow.
pub(crate) fn parse(
    text: &str,
    departures: &mut Vec<(Departure, Position)>,
) -> Result<Node, SyntaxError> {
    let mut parser = Parser {
        rest: text.chars().peekable(),
        position: Position { line: 1, column: 1 },
        departures,
    };
    parser.skip_space()?;
    let root = parser.value(0)?;
    parser.skip_space()?;
    match parser.rest.peek() {
        None => Ok(root),
        Some(&found) => Err(parser.error(format!(
            "{} after the end of the file's object; remove it, or check for a brace too many",
            describe(found)
        ))),
    }
}

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
    position: Position,
    departures: &'a mut Vec<(Departure, Position)>,
}

impl Parser<'_> {
    fn error(&self, message: impl Into<String>) -> SyntaxError {
        SyntaxError { position: self.position, message: message.into() }
    }

    /// Returns the next character and moves the position past it.
    fn next(&mut self) -> Option<char> {
        let next = self.rest.next()?;
        if next == '\n' {
            self.position.line += 1;
            self.position.column = 1;
        } else {
            self.position.column += 1;
        }
        Some(next)
    }

    fn depart(&mut self, departure: Departure, position: Position) {
        self.departures.push((departure, position));
    }

    /// Skips white space and comments.
    fn skip_space(&mut self) -> Result<(), SyntaxError> {
        while let Some(&next) = self.rest.peek() {
            match next {
                ' ' | '\t' | '\n' | '\r' => {
                    self.next();
                }
                '/' => self.comment()?,
                _ => break,
            }
        }
        Ok(())
    }

    fn comment(&mut self) -> Result<(), SyntaxError> {
        let start = self.position;
        self.next();
        match self.next() {
            Some('/') => {
                while self.rest.peek().is_some_and(|&c| c != '\n') && self.next().is_some() {}
            }
            Some('*') => {
                let mut star = false;
                loop {
                    match self.next() {
                        Some('/') if star => break,
                        Some(c) => star = c == '*',
                        None => {
                            return Err(SyntaxError {
                                position: start,
                                message: "this comment does not end; close it with */".into(),
                            });
                        }
                    }
                }
            }
            _ => {
                return Err(SyntaxError {
                    position: start,
                    message: "a lone `/`; comments begin with // or /*".into(),
                });
            }
        }
        self.depart(Departure::Comment, start);
        Ok(())
    }

    fn value(&mut self, depth: u32) -> Result<Node, SyntaxError> {
        let position = self.position;
        let Some(&next) = self.rest.peek() else {
            return Err(self.error("the file ends where a value is expected; complete it"));
        };
        let value = match next {
            '{' | '[' if depth >= DEPTH_MAX => {
                return Err(self.error(format!(
                    "nested deeper than {DEPTH_MAX} levels, which rt-app does not read; flatten it"
                )));
            }
            '{' => self.object(depth)?,
            '[' => self.array(depth)?,
            '"' | '\'' => Value::String(self.string()?),
            '-' | '0'..='9' => Value::Number(self.number()?),
            c if c.is_ascii_alphabetic() => self.literal()?,
            c => {
                return Err(self.error(format!(
                    "{} where a value is expected; write a number, a \"string\", true, false, an \
                     [array] or an {{object}}",
                    describe(c)
                )));
            }
        };
        Ok(Node { position, value })
    }

    fn object(&mut self, depth: u32) -> Result<Value, SyntaxError> {
        let start = self.position;
        self.next();
        let mut members = Vec::new();
        let mut first = HashMap::new();
        let mut comma: Option<Position> = None;
        loop {
            self.skip_space()?;
            match self.rest.peek() {
                Some('}') => {
                    self.next();
                    if let Some(comma) = comma {
                        self.depart(Departure::TrailingComma, comma);
                    }
                    return Ok(Value::Object(members));
                }
                Some('"' | '\'') => {}
                Some(&c) => {
                    return Err(self.error(format!(
                        "{} where a key is expected; write \"key\" : value, or close the object with }}",
                        describe(c)
                    )));
                }
                None => return Err(unclosed(start, "object", '}')),
            }
            let position = self.position;
            let key = self.string()?;
            self.skip_space()?;
            let value = match self.rest.peek() {
                Some(':') => {
                    self.next();
                    self.skip_space()?;
                    Some(self.value(depth + 1)?)
                }
                Some(',' | '}') => None,
                Some(&c) => {
                    return Err(self.error(format!(
                        "{} after the key \"{key}\"; write a colon and a value",
                        describe(c)
                    )));
                }
                None => return Err(unclosed(start, "object", '}')),
            };
            members.push(Member {
                position,
                repeats: first.get(&key).copied(),
                key: key.clone(),
                value,
            });
            first.entry(key).or_insert(position);
            comma = self.separator(start, "object", '}')?;
        }
    }

    fn array(&mut self, depth: u32) -> Result<Value, SyntaxError> {
        let start = self.position;
        self.next();
        let mut elements = Vec::new();
        let mut comma: Option<Position> = None;
        loop {
            self.skip_space()?;
            match self.rest.peek() {
                Some(']') => {
                    self.next();
                    if let Some(comma) = comma {
                        self.depart(Departure::TrailingComma, comma);
                    }
                    return Ok(Value::Array(elements));
                }
                None => return Err(unclosed(start, "array", ']')),
                Some(_) => elements.push(self.value(depth + 1)?),
            }
            comma = self.separator(start, "array", ']')?;
        }
    }

    /// Skips the comma between two elements and returns its place; the closing character stays.
    fn separator(
        &mut self,
        start: Position,
        what: &str,
        close: char,
    ) -> Result<Option<Position>, SyntaxError> {
        self.skip_space()?;
        let position = self.position;
        match self.rest.peek() {
            Some(',') => {
                self.next();
                Ok(Some(position))
            }
            Some(&c) if c == close => Ok(None),
            Some(&c) => Err(self.error(format!(
                "{} where a comma or {close} is expected; separate the entries of this {what} by commas",
                describe(c)
            ))),
            None => Err(unclosed(start, what, close)),
        }
    }

    fn string(&mut self) -> Result<String, SyntaxError> {
        let start = self.position;
        let quote = self.next().unwrap_or('"');
        if quote == '\'' {
            self.depart(Departure::SingleQuotes, start);
        }
        let mut text = String::new();
        loop {
            let position = self.position;
            match self.next() {
                Some(c) if c == quote => return Ok(text),
                Some('\\') => {
                    let character = self.escape(position)?;
                    // Names are shown on terminals and given to threads, whose names end at a zero byte.
                    if character.is_control() && !matches!(character, '\n' | '\t') {
                        return Err(SyntaxError {
                            position,
                            message: "a control character; names and texts are of characters that can be shown".into(),
                        });
                    }
                    text.push(character);
                }
                Some('\n') | None => {
                    return Err(SyntaxError {
                        position: start,
                        message: format!(
                            "this string does not end on its line; close it with {quote}"
                        ),
                    });
                }
                Some(c) => text.push(c),
            }
        }
    }

    fn escape(&mut self, position: Position) -> Result<char, SyntaxError> {
        let error = |message: &str| SyntaxError { position, message: message.into() };
        Ok(match self.next() {
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some(c @ ('"' | '\\' | '/')) => c,
            Some('u') => {
                let first = self.code_unit(position)?;
                let unpaired =
                    || error("half of a surrogate pair; write both halves or the character itself");
                let code = match first {
                    0xd800..=0xdbff => {
                        if self.next() != Some('\\') || self.next() != Some('u') {
                            return Err(unpaired());
                        }
                        let second = self.code_unit(position)?;
                        if !(0xdc00..=0xdfff).contains(&second) {
                            return Err(unpaired());
                        }
                        0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
                    }
                    code => code,
                };
                char::from_u32(code).ok_or_else(unpaired)?
            }
            _ => {
                return Err(error(
                    "an unknown escape; JSON has \\\" \\\\ \\/ \\b \\f \\n \\r \\t and \\uXXXX",
                ));
            }
        })
    }

    fn code_unit(&mut self, position: Position) -> Result<u32, SyntaxError> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.next().and_then(|c| c.to_digit(16));
            unit = unit * 16
                + digit.ok_or_else(|| SyntaxError {
                    position,
                    message: "\\u needs four hexadecimal digits".into(),
                })?;
        }
        Ok(unit)
    }

    fn number(&mut self) -> Result<String, SyntaxError> {
        let start = self.position;
        let mut text = String::new();
        while let Some(&c) = self.rest.peek() {
            if !matches!(c, '-' | '+' | '.' | 'e' | 'E' | '0'..='9') {
                break;
            }
            text.push(c);
            self.next();
        }
        if is_number(&text) {
            return Ok(text);
        }
        Err(SyntaxError {
            position: start,
            message: format!("`{text}` is not a number; write it like 10, -1 or 2.5"),
        })
    }

    fn literal(&mut self) -> Result<Value, SyntaxError> {
        let start = self.position;
        let mut text = String::new();
        while let Some(&c) = self.rest.peek() {
            if !(c.is_ascii_alphanumeric() || c == '_') {
                break;
            }
            text.push(c);
            self.next();
        }
        let lower = text.to_ascii_lowercase();
        let value = match lower.as_str() {
            "true" => Value::Boolean(true),
            "false" => Value::Boolean(false),
            "null" => Value::Null,
            _ => {
                return Err(SyntaxError {
                    position: start,
                    message: format!("`{text}` is not a value; strings need quotes: \"{text}\""),
                });
            }
        };
        if lower != text {
            self.depart(Departure::LiteralCase, start);
        }
        Ok(value)
    }
}

/// Whether the text is a number by the JSON grammar.
fn is_number(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    digits(whole)
        && (whole.len() == 1 || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(|e| digits(e.strip_prefix(['+', '-']).unwrap_or(e)))
}

fn unclosed(start: Position, what: &str, close: char) -> SyntaxError {
    SyntaxError {
        position: start,
        message: format!("this {what} does not end; close it with {close}"),
    }
}

fn describe(c: char) -> String {
    // A byte order mark is not seen either.
    if c.is_control() || c == '\u{feff}' {
        format!("the control character U+{:04X}", c as u32)
    } else {
        format!("`{c}`")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails(text: &str) -> (u32, u32, String) {
        let error = parse(text, &mut Vec::new()).unwrap_err();
        (error.position.line, error.position.column, error.message)
    }

    #[test]
    fn keeps_order_repeated_keys_and_positions() {
        let root =
            parse("{\n  \"run\": 1,\n  \"é\": [2, -3.5e+1], \"run\": {}\n}", &mut Vec::new())
                .unwrap();
        let Value::Object(members) = root.value else { panic!("not an object") };
        let keys: Vec<_> = members.iter().map(|m| m.key.as_str()).collect();
        assert_eq!(keys, ["run", "é", "run"]);
        assert_eq!(members[0].position, Position { line: 2, column: 3 });
        // Columns count characters, not bytes.
        assert_eq!(members[2].position, Position { line: 3, column: 22 });
        let Some(Node { value: Value::Array(numbers), .. }) = &members[1].value else {
            panic!("not an array")
        };
        assert_eq!(numbers[1].value, Value::Number("-3.5e+1".into()));
    }

    #[test]
    fn reports_each_departure_from_json() {
        let mut departures = Vec::new();
        let text = "// one\n{ 'a': True, \"suspend\", /* two */ \"b\": [1,], }";
        let root = parse(text, &mut departures).unwrap();
        let Value::Object(members) = root.value else { panic!("not an object") };
        assert_eq!(members[1].value, None);
        let kinds: Vec<_> = departures.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(
            kinds,
            [
                Departure::Comment,
                Departure::SingleQuotes,
                Departure::LiteralCase,
                Departure::Comment,
                Departure::TrailingComma,
                Departure::TrailingComma,
            ]
        );
        assert_eq!(departures[4].1, Position { line: 2, column: 42 });
    }

    #[test]
    fn reads_escapes() {
        let root = parse(r#""a\"\\\/\n\t\u00e9\ud83d\ude00""#, &mut Vec::new()).unwrap();
        assert_eq!(root.value, Value::String("a\"\\/\n\té😀".into()));
    }

    #[test]
    fn errors_name_the_place() {
        for (text, line, column, words) in [
            ("{\n \"a\": 01 }", 2, 7, "not a number"),
            ("{ \"a\": 1. }", 1, 8, "not a number"),
            ("{ \"a\": - }", 1, 8, "not a number"),
            ("{ \"a\" 1 }", 1, 7, "after the key \"a\""),
            ("{ \"a\": 1 \"b\": 2 }", 1, 10, "commas"),
            ("{ a: 1 }", 1, 3, "where a key is expected"),
            ("{ \"a\": yes }", 1, 8, "need quotes"),
            ("{ \"a\": [1 2] }", 1, 11, "commas"),
            ("{ \"a\": 1", 1, 1, "this object does not end"),
            ("{ \"a\": [1", 1, 8, "this array does not end"),
            ("{ \"a\": \"x\n\" }", 1, 8, "this string does not end"),
            ("{} {}", 1, 4, "after the end"),
            ("", 1, 1, "ends where a value is expected"),
            ("{ /* ", 1, 3, "this comment does not end"),
            ("{ / }", 1, 3, "a lone `/`"),
            ("{ \"\\q\": 1 }", 1, 4, "unknown escape"),
            ("{ \"\\u12g4\": 1 }", 1, 4, "four hexadecimal digits"),
            ("{ \"\\ud800x\": 1 }", 1, 4, "surrogate"),
            ("{ \"\\udc00\": 1 }", 1, 4, "surrogate"),
            ("{ , }", 1, 3, "where a key is expected"),
            ("[ @ ]", 1, 3, "where a value is expected"),
            ("\u{feff}{}", 1, 1, "the control character U+FEFF"),
            ("\u{1}", 1, 1, "U+0001"),
        ] {
            let (at_line, at_column, message) = fails(text);
            assert_eq!((at_line, at_column), (line, column), "{text}: {message}");
            assert!(message.contains(words), "{text}: {message}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| "[".repeat(depth) + "]".repeat(depth).as_str();
        assert!(parse(&nested(32), &mut Vec::new()).is_ok());
        assert!(fails(&nested(33)).2.contains("deeper than 32"));
        assert!(fails(&nested(1_000_000)).2.contains("deeper than 32"));
    }
}
