//! The size of regular expressions: matching a text takes up to as many steps per byte as the expression has states.

use regex_automata::nfa::thompson::{NFA, WhichCaptures};

use crate::limits;

/// The states of a pattern.
///
/// # Errors
/// Why it is not accepted.
pub(super) fn states(pattern: &str) -> Result<u64, String> {
    let (length, limit) = (pattern.len(), limits::SCHEMA_PATTERN_BYTES_MAX);
    if length > limit {
        return Err(format!("a pattern has {length} bytes, the limit is {limit}"));
    }
    let config = NFA::config()
        .which_captures(WhichCaptures::None)
        .nfa_size_limit(Some(limits::SCHEMA_PATTERN_COMPILED_BYTES_MAX));
    let compiled = NFA::compiler().configure(config).build(&ascii_classes(pattern));
    compiled.map(|nfa| nfa.states().len() as u64).map_err(|error| match error.size_limit() {
        Some(limit) => {
            format!("the pattern {pattern} needs more than {limit} bytes: use shorter repetitions")
        }
        None => format!("the pattern {pattern} is not supported: {error}"),
    })
}

/// Writes `\d`, `\w` and `\s` as the few characters that they mean in JSON Schemas.
fn ascii_classes(pattern: &str) -> String {
    let mut written = String::with_capacity(pattern.len());
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            written.push(character);
            continue;
        }
        match characters.next() {
            Some('d') => written.push_str("[0-9]"),
            Some('D') => written.push_str("[^0-9]"),
            Some('w') => written.push_str("[A-Za-z0-9_]"),
            Some('W') => written.push_str("[^A-Za-z0-9_]"),
            Some('s') => written.push_str("[ \\t\\n\\r\\x0b\\x0c\\xa0]"),
            Some('S') => written.push_str("[^ \\t\\n\\r\\x0b\\x0c\\xa0]"),
            // A control character, which is one character whatever it is.
            Some('c') => written.push_str(characters.next().map_or("", |_| "\\n")),
            Some(other) => written.extend(['\\', other]),
            None => written.push('\\'),
        }
    }
    written
}
