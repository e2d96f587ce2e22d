//! Payloads, results and checkpoints as text to look at: JSON set out in lines and coloured, anything else as it is. It
//! works on the text alone and changes no number or name in it; nothing here can fail or recurse.

use std::fmt::Write;

use super::format;

/// A piece of text with its colour's class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) class: &'static str,
    pub(super) text: String,
}

/// Something to look at.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    pub(super) pieces: Vec<Piece>,
    pub(super) size: String,
    pub(super) content_type: String,
    /// Whether there is more than is shown.
    pub(super) is_cut: bool,
}

impl Shown {
    /// As much of it as fits.
    pub(super) fn of(bytes: &[u8], content_type: &str, bytes_max: usize) -> Shown {
        let is_cut = bytes.len() > bytes_max;
        let part = &bytes[..bytes.len().min(bytes_max)];
        let is_json = content_type.contains("json");
        let pieces = match std::str::from_utf8(part) {
            Ok(text) if is_json => pretty(text),
            Ok(text) => vec![plain(text)],
            // A cut may fall within a character.
            Err(error) if is_cut && error.valid_up_to() + 4 > part.len() => {
                let text = String::from_utf8_lossy(&part[..error.valid_up_to()]).into_owned();
                if is_json { pretty(&text) } else { vec![plain(&text)] }
            }
            Err(_) => vec![plain(&hexadecimal(part))],
        };
        Shown { pieces, size: format::bytes(bytes.len()), content_type: content_type.to_owned(), is_cut }
    }
}

fn plain(text: &str) -> Piece {
    Piece { class: "", text: text.to_owned() }
}

/// Bytes that are no text, sixteen to a line.
fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (line, chunk) in bytes.chunks(16).take(256).enumerate() {
        let digits: Vec<String> = chunk.iter().map(|byte| format!("{byte:02x}")).collect();
        let letters: String =
            chunk.iter().map(|byte| if byte.is_ascii_graphic() { char::from(*byte) } else { '.' }).collect();
        let _always_fits = writeln!(text, "{:06x}  {:<47}  {letters}", line * 16, digits.join(" "));
    }
    text
}

/// JSON in lines, without reading what it says.
fn pretty(json: &str) -> Vec<Piece> {
    let mut out = Printer::default();
    let mut rest = json.trim();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => string_length(rest),
            '{' | '[' | '}' | ']' | ',' | ':' => 1,
            c if c.is_whitespace() => c.len_utf8(),
            _ => rest.find(|c: char| "{}[],:\"".contains(c) || c.is_whitespace()).unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at(length);
        rest = after;
        match first {
            '{' | '[' => {
                let closes = rest.trim_start().chars().next();
                if matches!(closes, Some('}' | ']')) {
                    out.put("", token);
                    rest = rest.trim_start();
                    out.put("", &rest[..1]);
                    rest = &rest[1..];
                } else {
                    out.depth += 1;
                    out.put("", token);
                    out.new_line();
                }
            }
            '}' | ']' => {
                out.depth = out.depth.saturating_sub(1);
                out.new_line();
                out.put("", token);
            }
            ',' => {
                out.put("", ",");
                out.new_line();
            }
            ':' => out.put("", ": "),
            '"' if rest.trim_start().starts_with(':') => out.put("j-key", token),
            '"' => out.put("j-text", token),
            c if c.is_whitespace() => {}
            c if c.is_ascii_digit() || c == '-' => out.put("j-number", token),
            _ => out.put("j-word", token),
        }
    }
    out.pieces
}

/// The length of the string that begins here, quotes and all; to the end if it does not end.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Indentation beyond which deeper levels stay in line, so that a deep text does not become a huge one.
const DEPTH_MAX: usize = 40;

#[derive(Default)]
struct Printer {
    pieces: Vec<Piece>,
    depth: usize,
}

impl Printer {
    fn put(&mut self, class: &'static str, text: &str) {
        match self.pieces.last_mut().filter(|last| last.class == class) {
            Some(last) => last.text.push_str(text),
            None => self.pieces.push(Piece { class, text: text.to_owned() }),
        }
    }

    fn new_line(&mut self) {
        let line = format!("\n{}", "  ".repeat(self.depth.min(DEPTH_MAX)));
        self.put("", &line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(json: &str) -> String {
        pretty(json).into_iter().map(|piece| piece.text).collect()
    }

    #[test]
    fn json_is_set_out_and_nothing_in_it_changes() {
        assert_eq!(
            text(r#"{"a":[1,2.50,1e400],"b":{},"c":"x\"{y"}"#),
            "{\n  \"a\": [\n    1,\n    2.50,\n    1e400\n  ],\n  \"b\": {},\n  \"c\": \"x\\\"{y\"\n}"
        );
        assert_eq!(text("  null "), "null");
        assert_eq!(text("[ ]"), "[]");
    }

    #[test]
    fn what_is_no_json_does_no_harm() {
        for odd in ["", "}}}}", "\"open", "{\"a\":", "\"\\", "ünïcödé {", "[[[[", "{]"] {
            let _shown = text(odd);
        }
        assert!(text(&"[".repeat(10_000)).len() < 2_000_000, "depth does not multiply");
    }

    #[test]
    fn names_texts_and_numbers_have_their_colours() {
        let classes: Vec<&str> =
            pretty(r#"{"k":"v","n":1,"t":true}"#).into_iter().map(|piece| piece.class).collect();
        assert_eq!(
            classes,
            ["", "j-key", "", "j-text", "", "j-key", "", "j-number", "", "j-key", "", "j-word", ""]
        );
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_as_digits() {
        let shown = Shown::of(&[0, 255, b'a'], "application/octet-stream", 100);
        assert!(shown.pieces[0].text.starts_with("000000  00 ff 61"));
        let cut = Shown::of("\"ää\"".as_bytes(), "application/json", 2);
        assert!(cut.is_cut && cut.pieces[0].text == "\"");
    }
}
