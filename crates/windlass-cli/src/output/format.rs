//! The format of what a command prints: a table, or documents for programs. Chosen once per process by `-o` and `--columns`.

use std::fmt::Write as _;
use std::sync::OnceLock;

use clap::ValueEnum;
use serde_json::Value;

/// How data is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Format {
    /// Text for people
    #[default]
    Table,
    /// The API's JSON
    Json,
    /// The API's answers as YAML
    Yaml,
    /// Tables as comma-separated values
    Csv,
}

/// What the command line chose.
#[derive(Debug, Default)]
pub(crate) struct Chosen {
    pub(crate) format: Format,
    /// Titles of the columns to print, in this order; all if empty.
    pub(crate) columns: Vec<String>,
}

static CHOSEN: OnceLock<Chosen> = OnceLock::new();

/// Sets the format of this process; the first call counts.
pub(crate) fn choose(chosen: Chosen) {
    let _was_chosen_before = CHOSEN.set(chosen);
}

/// The format of this process.
pub(crate) fn chosen() -> &'static Chosen {
    CHOSEN.get_or_init(Chosen::default)
}

/// A line of comma-separated values (RFC 4180).
pub(crate) fn csv_line<'a>(fields: impl IntoIterator<Item = &'a str>) -> String {
    let quoted = |field: &str| {
        if field.contains([',', '"', '\n', '\r']) || field.trim() != field {
            format!("\"{}\"", field.replace('"', "\"\""))
        } else {
            field.to_owned()
        }
    };
    fields.into_iter().map(quoted).collect::<Vec<_>>().join(",") + "\n"
}

/// A JSON value as a YAML document.
pub(crate) fn yaml(value: &Value) -> String {
    let mut text = String::from("---\n");
    match value {
        Value::Object(_) | Value::Array(_) if !is_flat(value) => block(value, 0, &mut text),
        _ => {
            let _always_fits = writeln!(text, "{}", scalar(value));
        }
    }
    text
}

/// Whether a value fits behind its key.
fn is_flat(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => true,
    }
}

/// The depth of nesting is that of the JSON, which its parser limits.
fn block(value: &Value, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = scalar(&Value::String(name.clone()));
                entry(&format!("{indent}{name}:"), value, depth + 1, text);
            }
        }
        Value::Array(items) => {
            for item in items {
                entry(&format!("{indent}-"), item, depth + 1, text);
            }
        }
        other => {
            let _always_fits = writeln!(text, "{indent}{}", scalar(other));
        }
    }
}

fn entry(head: &str, value: &Value, depth: usize, text: &mut String) {
    if is_flat(value) {
        let _always_fits = writeln!(text, "{head} {}", scalar(value));
    } else {
        let _always_fits = writeln!(text, "{head}");
        block(value, depth, text);
    }
}

/// A value in one line. Text is plain if YAML cannot take it for anything else, otherwise quoted as in JSON.
fn scalar(value: &Value) -> String {
    let Value::String(text) = value else { return value.to_string() };
    let is_word = |c: char| c.is_ascii_alphanumeric() || ['_', '-', '.', '/'].contains(&c);
    let begins_well = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let is_keyword = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
        .contains(&text.to_ascii_lowercase().as_str());
    if begins_well && !is_keyword && text.chars().all(is_word) { text.clone() } else { value.to_string() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_says_what_the_json_says() {
        let value = json!({"id": "019a-1", "type": "email.send", "tags": {}, "tries": [1, {"no": "true"}], "none": null});
        let wanted = "---\nid: \"019a-1\"\nnone: null\ntags: {}\ntries:\n  - 1\n  -\n    \"no\": \"true\"\ntype: email.send\n";
        assert_eq!(yaml(&value), wanted);
        assert_eq!(yaml(&json!("a: b")), "---\n\"a: b\"\n");
        assert_eq!(yaml(&json!([])), "---\n[]\n");
    }

    #[test]
    fn csv_quotes_what_would_be_read_otherwise() {
        assert_eq!(csv_line(["a", "b,c", "say \"hi\"", " d", ""]), "a,\"b,c\",\"say \"\"hi\"\"\",\" d\",\n");
    }
}
