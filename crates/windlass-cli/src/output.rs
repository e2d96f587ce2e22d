//! Printing: data to standard output, messages to standard error. Control sequences in payloads and errors are escaped. A
//! closed output is an error and does not panic.

pub(crate) mod color;
pub(crate) mod fact_sheet;
pub(crate) mod format;
pub(crate) mod progress;
pub(crate) mod raw;
pub(crate) mod table;
pub(crate) mod text;

use std::io::Write;

use serde::Serialize;

/// Writes text as it is.
pub(crate) fn text(text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    Ok(())
}

/// Writes a line.
pub(crate) fn line(line: &str) -> anyhow::Result<()> {
    text(&format!("{line}\n"))
}

/// Writes one document: JSON as a line, or YAML if that was chosen. JSON that is kept as text stays as it was written.
pub(crate) fn json(document: &(impl Serialize + ?Sized)) -> anyhow::Result<()> {
    let document = serde_json::to_string(document)?;
    if format::chosen().format == format::Format::Yaml {
        return text(&raw::yaml(&document));
    }
    line(&raw::compact(&document))
}

/// Prints a message to standard error, unless the user wants none. Ignores write errors.
pub(crate) fn note(text: &str) {
    if !format::chosen().is_quiet {
        complain(text);
    }
}

/// Prints an error to standard error. Ignores write errors.
pub(crate) fn complain(text: &str) {
    let _closed = writeln!(std::io::stderr().lock(), "{text}");
}

/// Makes text safe for a terminal: escapes characters that move the cursor, change colours or change the text direction.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => safe.push_str("\\n"),
            '\r' => safe.push_str("\\r"),
            '\t' => safe.push_str("\\t"),
            c if c.is_control() || is_direction(c) => safe.extend(c.escape_unicode()),
            c => safe.push(c),
        }
    }
    safe
}

/// Characters that change the text direction, which can make text read as something else.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_a_terminal_raw() {
        assert_eq!(escaped("plain ä 漢"), "plain ä 漢");
        assert_eq!(escaped("a\x1b[31mred\x07\r\n\t"), "a\\u{1b}[31mred\\u{7}\\r\\n\\t");
        assert_eq!(escaped("\u{9b}2J\u{202e}txt"), "\\u{9b}2J\\u{202e}txt");
    }
}
