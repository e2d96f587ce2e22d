//! Lines waiting to be sent. Jobs in the same request can refer to each other by `@name`. A reference to a job of an
//! earlier request is replaced by its id, and a line with a reference to a later line waits for it.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;
use serde_json::value::RawValue;

use super::escaped;

/// The fields that can refer to other jobs.
const LINKS: [&str; 2] = ["after", "after_any"];

/// A line that can be sent.
#[derive(Debug)]
pub(super) struct Line {
    number: u64,
    pub(super) text: String,
    /// The name other lines can refer to.
    name: Option<String>,
    /// The names this line refers to.
    needs: Vec<String>,
}

impl Line {
    /// Reads the references of a line; the server validates the rest.
    pub(super) fn read(number: u64, text: String) -> Result<Line, String> {
        let fields: BTreeMap<String, &RawValue> =
            serde_json::from_str(&text).map_err(|error| format!("not a JSON object: {error}"))?;
        let read = |field: &str| fields.get(field).and_then(|raw| serde_json::from_str(raw.get()).ok());
        let named = |field: &str| match read(field) {
            Some(Value::Array(links)) => links.iter().filter_map(link).map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        let needs = LINKS.iter().flat_map(|field| named(field)).collect();
        let name = read("name").and_then(|name| name.as_str().map(str::to_owned));
        drop(fields);
        Ok(Line { number, text, name, needs })
    }
}

/// The name in a reference, if it has one.
fn link(value: &Value) -> Option<&str> {
    value.as_str().and_then(|text| text.strip_prefix('@'))
}

/// Waiting lines, and the names defined so far.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    lines: Vec<Line>,
    /// The line of every name.
    taken: HashMap<String, u64>,
    /// The ids of submitted jobs, by name.
    known: HashMap<String, String>,
    /// Names of rejected lines.
    lost: HashSet<String>,
}

impl Waiting {
    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.lines.iter().map(|line| line.text.len()).sum()
    }

    /// Adds a line; a name must be unique in the whole file.
    pub(super) fn add(&mut self, line: Line) -> Result<(), String> {
        if let Some(name) = &line.name {
            if let Some(first) = self.taken.get(name) {
                return Err(format!("the name `{}` is already used by line {first}", escaped(name)));
            }
            self.taken.insert(name.clone(), line.number);
        }
        self.lines.push(line);
        Ok(())
    }

    /// Which of the first `most` lines can be sent together: all their references are known or among them.
    pub(super) fn sendable(&self, most: usize) -> Vec<usize> {
        let lines = &self.lines[..self.lines.len().min(most)];
        let mut is_in = vec![true; lines.len()];
        let mut here: HashSet<&str> = lines.iter().filter_map(|line| line.name.as_deref()).collect();
        loop {
            let mut has_changed = false;
            // In both directions, so that a long chain is resolved in one pass whichever way it points.
            for at in (0..lines.len()).rev().chain(0..lines.len()) {
                let is_met = |name: &String| self.known.contains_key(name) || here.contains(name.as_str());
                if is_in[at] && !lines[at].needs.iter().all(is_met) {
                    is_in[at] = false;
                    has_changed = true;
                    if let Some(name) = &lines[at].name {
                        here.remove(name.as_str());
                    }
                }
            }
            if !has_changed {
                return (0..lines.len()).filter(|at| is_in[*at]).collect();
            }
        }
    }

    /// The line to send: known names as ids, the rest byte for byte.
    pub(super) fn text(&self, at: usize) -> String {
        let line = &self.lines[at];
        if !line.needs.iter().any(|name| self.known.contains_key(name)) {
            return line.text.clone();
        }
        let Ok(mut fields) = serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(&line.text) else {
            return line.text.clone();
        };
        for field in LINKS {
            let links = fields.get(field).and_then(|raw| serde_json::from_str::<Vec<Value>>(raw.get()).ok());
            let Some(mut links) = links else { continue };
            for value in &mut links {
                if let Some(id) = link(value).and_then(|name| self.known.get(name)) {
                    *value = id.as_str().into();
                }
            }
            let raw = RawValue::from_string(Value::from(links).to_string());
            fields.insert(field.to_owned(), raw.expect("a list of values is JSON"));
        }
        serde_json::to_string(&fields).expect("raw values under text keys are JSON")
    }

    /// Records that these lines were submitted, with the ids of their jobs.
    pub(super) fn sent(&mut self, chosen: &[usize], ids: &[String]) {
        for (at, id) in chosen.iter().zip(ids) {
            if let Some(name) = &self.lines[*at].name {
                self.known.insert(name.clone(), id.clone());
            }
        }
        let gone: HashSet<usize> = chosen.iter().copied().collect();
        let mut at = 0;
        self.lines.retain(|_| {
            at += 1;
            !gone.contains(&(at - 1))
        });
    }

    /// Records that a line was rejected; returns its number.
    pub(super) fn refused(&mut self, at: usize) -> u64 {
        let line = self.lines.remove(at);
        self.lost.extend(line.name);
        line.number
    }

    /// Removes the lines that refer to a rejected one, each with the reason.
    pub(super) fn without_hope(&mut self) -> Vec<(u64, String)> {
        let mut found = Vec::new();
        while let Some((at, name)) = self.lines.iter().enumerate().find_map(|(at, line)| {
            line.needs.iter().find(|name| self.lost.contains(*name)).map(|name| (at, name.clone()))
        }) {
            found.push((self.refused(at), format!("it refers to `@{}`, which was rejected", escaped(&name))));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(lines: &[&str]) -> Waiting {
        let mut waiting = Waiting::default();
        for (at, text) in lines.iter().enumerate() {
            waiting.add(Line::read(at as u64 + 1, (*text).to_owned()).unwrap()).unwrap();
        }
        waiting
    }

    #[test]
    fn a_name_of_an_earlier_request_becomes_an_id_and_the_rest_stays_byte_for_byte() {
        let mut waiting = waiting(&[
            r#"{"type":"a","name":"x"}"#,
            r#"{"type":"b","after":["@x","@y","real"],"payload":{"b": 1.0, "a":2}}"#,
            r#"{"type":"c","name":"y"}"#,
        ]);
        assert_eq!(waiting.sendable(2), [0], "the second refers to a name that is not known yet");
        assert_eq!(waiting.sendable(3), [0, 1, 2]);
        waiting.sent(&[0], &["id-x".to_owned()]);
        let text = waiting.text(0);
        assert!(text.contains(r#""after":["id-x","@y","real"]"#), "{text}");
        assert!(text.contains(r#""payload":{"b": 1.0, "a":2}"#), "{text}");
        assert_eq!(waiting.sendable(9), [0, 1]);
    }

    #[test]
    fn a_line_that_refers_to_a_rejected_line_is_rejected() {
        let mut waiting = waiting(&[
            r#"{"name":"x"}"#,
            r#"{"name":"y","after":["@x"]}"#,
            r#"{"after_any":["@y"]}"#,
            r#"{"type":"free"}"#,
        ]);
        assert_eq!(waiting.refused(0), 1);
        let hopeless: Vec<u64> = waiting.without_hope().into_iter().map(|(number, _)| number).collect();
        assert_eq!((hopeless, waiting.len()), (vec![2, 3], 1));
    }

    #[test]
    fn a_name_belongs_to_one_line() {
        let mut waiting = waiting(&[r#"{"name":"x"}"#]);
        let problem = waiting.add(Line::read(7, r#"{"name":"x"}"#.into()).unwrap()).unwrap_err();
        assert!(problem.contains("line 1"), "{problem}");
    }
}
