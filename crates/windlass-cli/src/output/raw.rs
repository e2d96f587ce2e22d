//! JSON as the server sent it, in another layout: in one line, indented, as YAML, or with its texts escaped. Numbers are
//! copied and never read, so that none is rounded, and none is too large. The text must be valid JSON.

use std::fmt::Write as _;
use std::iter::Peekable;

use super::escaped;

/// Levels of nesting that get lines of their own; what is deeper stays in one line.
const LEVELS_MAX: usize = 64;

/// The pieces of a JSON text without the space between them: brackets, commas, colons, texts with their quotes, and words.
struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let text = self.rest.trim_ascii_start();
        let end = match text.bytes().next()? {
            b'{' | b'}' | b'[' | b']' | b',' | b':' => 1,
            b'"' => text_end(text),
            _ => text.find(|c: char| c.is_ascii_whitespace() || "{}[],:\"".contains(c)).unwrap_or(text.len()),
        };
        let (token, rest) = text.split_at(end);
        self.rest = rest;
        Some(token)
    }
}

/// The length of the text in quotes at the beginning.
fn text_end(json: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in json.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    json.len()
}

fn tokens(json: &str) -> Peekable<Tokens<'_>> {
    Tokens { rest: json }.peekable()
}

fn opens(token: &str) -> bool {
    ["{", "["].contains(&token)
}

fn closes(token: &str) -> bool {
    ["}", "]"].contains(&token)
}

/// The rest of the array or object that `open` began, in one line, with its beginning.
fn whole<'a>(open: &'a str, tokens: &mut impl Iterator<Item = &'a str>) -> String {
    let (mut text, mut depth) = (open.to_owned(), usize::from(opens(open)));
    while depth > 0
        && let Some(token) = tokens.next()
    {
        text.push_str(token);
        depth = if opens(token) { depth + 1 } else { depth - usize::from(closes(token)) };
    }
    text
}

/// Without line breaks and spaces between values: one document is one line.
pub(crate) fn compact(json: &str) -> String {
    tokens(json).collect()
}

/// With a line for every value, indented by two columns.
pub(crate) fn pretty(json: &str) -> String {
    let (mut text, mut depth) = (String::new(), 0);
    let mut tokens = tokens(json);
    let line = |text: &mut String, depth: usize| {
        text.push('\n');
        text.push_str(&"  ".repeat(depth));
    };
    while let Some(token) = tokens.next() {
        match token {
            "{" | "[" => {
                let is_empty = tokens.peek().is_some_and(|next| closes(next));
                if is_empty || depth >= LEVELS_MAX {
                    text.push_str(&whole(token, &mut tokens));
                } else {
                    depth += 1;
                    text.push_str(token);
                    line(&mut text, depth);
                }
            }
            "}" | "]" => {
                depth = depth.saturating_sub(1);
                line(&mut text, depth);
                text.push_str(token);
            }
            "," => {
                text.push_str(token);
                line(&mut text, depth);
            }
            ":" => text.push_str(": "),
            word => text.push_str(word),
        }
    }
    text
}

/// As a YAML document.
pub(crate) fn yaml(json: &str) -> String {
    let mut text = String::from("---\n");
    let mut tokens = tokens(json);
    let mut open: Vec<&str> = Vec::new();
    while let Some(token) = tokens.next() {
        if closes(token) {
            open.pop();
            continue;
        }
        if token == "," {
            continue;
        }
        let indent = "  ".repeat(open.len().saturating_sub(1));
        let (head, value) = match open.last() {
            Some(&"{") => {
                let _colon = tokens.next();
                (format!("{indent}{}:", scalar(token)), tokens.next().unwrap_or_default())
            }
            Some(_) => (format!("{indent}-"), token),
            None => (String::new(), token),
        };
        let is_empty = tokens.peek().is_some_and(|next| closes(next));
        let gap = if head.is_empty() { "" } else { " " };
        let _always_fits = if opens(value) && !is_empty && open.len() < LEVELS_MAX {
            open.push(value);
            if head.is_empty() { Ok(()) } else { writeln!(text, "{head}") }
        } else if opens(value) {
            writeln!(text, "{head}{gap}{}", whole(value, &mut tokens))
        } else {
            writeln!(text, "{head}{gap}{}", scalar(value))
        };
    }
    text
}

/// A value in one line. Text is plain if YAML cannot take it for anything else, otherwise quoted as in JSON.
fn scalar(token: &str) -> &str {
    let Some(text) = token.strip_prefix('"').and_then(|token| token.strip_suffix('"')) else { return token };
    let is_word = |c: char| c.is_ascii_alphanumeric() || ['_', '-', '.', '/'].contains(&c);
    let begins_well = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let is_keyword = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
        .contains(&text.to_ascii_lowercase().as_str());
    if begins_well && !is_keyword && text.chars().all(is_word) { text } else { token }
}

/// The fields whose values a job's program wrote: they stay as they are.
#[cfg(feature = "top")]
const FOREIGN: [&str; 2] = [r#""payload""#, r#""result""#];

/// With control characters escaped in all texts but those of payloads and results.
#[cfg(feature = "top")]
pub(crate) fn with_escaped_texts(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    let mut tokens = tokens(json);
    while let Some(token) = tokens.next() {
        let is_name = tokens.peek() == Some(&":");
        let read = token.starts_with('"').then(|| serde_json::from_str::<String>(token).ok()).flatten();
        match read {
            Some(said) if !is_name => text.push_str(&serde_json::Value::from(escaped(&said)).to_string()),
            _ => text.push_str(token),
        }
        if is_name && FOREIGN.contains(&token) {
            text.extend(tokens.next());
            let value = tokens.next().unwrap_or_default();
            text.push_str(&whole(value, &mut tokens));
        }
    }
    text
}

/// A JSON text with control characters escaped, indented; for people.
pub(crate) fn lines(json: &str) -> Vec<String> {
    pretty(json).lines().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#" { "id" : "019a-1" , "type": "email.send", "big": 12345678901234567890.10, "huge":1e999,
        "tags" : { }, "tries":[ 1, {"no": "true, \"[1, 2]\""} ,[]], "none":null } "#;

    #[test]
    fn numbers_and_texts_are_copied_and_only_the_space_between_them_changes() {
        assert_eq!(
            compact(JSON),
            r#"{"id":"019a-1","type":"email.send","big":12345678901234567890.10,"huge":1e999,"tags":{},"tries":[1,{"no":"true, \"[1, 2]\""},[]],"none":null}"#
        );
        assert_eq!(compact(&pretty(JSON)), compact(JSON));
        assert_eq!(
            pretty(r#"{"a":[1.0,{}],"b":"c"}"#),
            "{\n  \"a\": [\n    1.0,\n    {}\n  ],\n  \"b\": \"c\"\n}"
        );
        for one in ["1e999", "\"a b\"", "null", "[]"] {
            assert_eq!((compact(one), pretty(one)), (one.to_owned(), one.to_owned()));
        }
    }

    #[test]
    fn yaml_says_what_the_json_says() {
        let wanted = "---\nid: \"019a-1\"\ntype: email.send\nbig: 12345678901234567890.10\nhuge: 1e999\ntags: {}\n\
                      tries:\n  - 1\n  -\n    \"no\": \"true, \\\"[1, 2]\\\"\"\n  - []\nnone: null\n";
        assert_eq!(yaml(JSON), wanted);
        assert_eq!(yaml(r#""a: b""#), "---\n\"a: b\"\n");
        assert_eq!(yaml("[]"), "---\n[]\n");
        assert_eq!(yaml("[[1],[2]]"), "---\n-\n  - 1\n-\n  - 2\n");
    }

    #[test]
    fn any_depth_is_printed_in_bounded_space() {
        let deep = format!("{}7{}", "[".repeat(100_000), "]".repeat(100_000));
        for text in [pretty(&deep), yaml(&deep), compact(&deep)] {
            assert!(text.contains('7') && text.len() < 3 * deep.len(), "{}", text.len());
        }
        assert_eq!(compact(&pretty(&deep)), deep);
    }

    #[cfg(feature = "top")]
    #[test]
    fn texts_are_escaped_but_not_those_of_a_job_s_program() {
        let json = r#"{"type": "a\u001b[2J", "payload": {"x": ["\u001b", 1e999]}, "tags": {"result": "\u0007"}, "n": "\""}"#;
        let wanted =
            r#"{"type":"a\\u{1b}[2J","payload":{"x":["\u001b",1e999]},"tags":{"result":"\u0007"},"n":"\""}"#;
        assert_eq!(with_escaped_texts(json), wanted);
    }
}
