//! Formats payloads, results and checkpoints: indents and colours JSON, shows other text unchanged. Works on the text
//! itself and changes no number or name; cannot fail or recurse.

use std::fmt::Write;

use crate::dashboard::parts::format;

/// A piece of text with its CSS class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::dashboard) struct Token {
    pub(in crate::dashboard) class: &'static str,
    pub(in crate::dashboard) text: String,
}

/// Formatted text.
#[derive(Debug, Clone)]
pub(in crate::dashboard) struct FormattedJson {
    pub(in crate::dashboard) pieces: Vec<Token>,
    pub(in crate::dashboard) size: String,
    pub(in crate::dashboard) content_type: String,
    /// Whether it was cut.
    pub(in crate::dashboard) is_cut: bool,
    /// Its approximate size on the page in bytes.
    pub(in crate::dashboard) cost: usize,
}

impl FormattedJson {
    /// Formats up to `bytes_max` bytes, which may take three times as many on the page.
    pub(in crate::dashboard) fn new(bytes: &[u8], content_type: &str, bytes_max: usize) -> FormattedJson {
        let is_part = bytes.len() > bytes_max;
        let part = &bytes[..bytes.len().min(bytes_max)];
        let is_json = content_type.contains("json");
        let mut out = Printer::with_room(bytes_max * 3);
        match std::str::from_utf8(part) {
            Ok(text) if is_json => pretty(text, &mut out),
            Ok(text) => out.put("", text),
            // The cut may be within a character.
            Err(error) if is_part && error.valid_up_to() + 4 > part.len() => {
                let text = String::from_utf8_lossy(&part[..error.valid_up_to()]).into_owned();
                if is_json { pretty(&text, &mut out) } else { out.put("", &text) }
            }
            Err(_) => out.put("", &hexadecimal(part)),
        }
        FormattedJson {
            size: format::bytes(bytes.len()),
            content_type: content_type.to_owned(),
            is_cut: is_part || out.is_full,
            cost: bytes_max * 3 - out.room,
            pieces: out.pieces,
        }
    }
}

/// A hex dump of binary data, sixteen bytes per line.
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

/// Indents JSON without parsing it.
fn pretty(json: &str, out: &mut Printer) {
    let mut rest = json.trim();
    while let Some(first) = rest.chars().next().filter(|_| !out.is_full) {
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
}

/// The length of the string that starts here, including quotes; the rest of the text if it is not closed.
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

/// Maximum indentation; deeper levels stay on one line, so that the output cannot grow excessively.
const DEPTH_MAX: usize = 40;

/// Bytes of markup around a piece of text.
const MARKUP: usize = 30;

struct Printer {
    pieces: Vec<Token>,
    depth: usize,
    /// Remaining bytes on the page.
    room: usize,
    is_full: bool,
}

impl Printer {
    fn with_room(room: usize) -> Printer {
        Printer { pieces: Vec::new(), depth: 0, room, is_full: false }
    }

    fn put(&mut self, class: &'static str, text: &str) {
        // Escaped characters take five bytes.
        let escaped = text.bytes().filter(|byte| matches!(byte, b'"' | b'\'' | b'<' | b'>' | b'&')).count();
        let is_new = self.pieces.last().is_none_or(|last| last.class != class);
        let cost = text.len() + 4 * escaped + if is_new { MARKUP } else { 0 };
        let text = if cost > self.room {
            self.is_full = true;
            beginning(text, self.room / 5)
        } else {
            text
        };
        self.room = self.room.saturating_sub(cost);
        match self.pieces.last_mut().filter(|last| last.class == class) {
            Some(last) => last.text.push_str(text),
            None => self.pieces.push(Token { class, text: text.to_owned() }),
        }
    }

    fn new_line(&mut self) {
        let line = format!("\n{}", "  ".repeat(self.depth.min(DEPTH_MAX)));
        self.put("", &line);
    }
}

/// The longest prefix of a text with at most this many bytes.
fn beginning(text: &str, bytes_max: usize) -> &str {
    let mut end = bytes_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(json: &str) -> Vec<Token> {
        let mut out = Printer::with_room(1 << 20);
        pretty(json, &mut out);
        out.pieces
    }

    fn text(json: &str) -> String {
        pieces(json).into_iter().map(|piece| piece.text).collect()
    }

    #[test]
    fn what_is_set_out_stays_within_its_room() {
        let nested = format!("{}{}", "[1,".repeat(1_000), "\"<&>\",".repeat(1_000));
        let shown = FormattedJson::new(nested.as_bytes(), "application/json", 4_096);
        let taken: usize = shown.pieces.iter().map(|piece| piece.text.len() + MARKUP).sum();
        assert!(shown.is_cut && taken <= 4_096 * 3 + MARKUP, "{taken}");
        assert!(shown.cost <= 4_096 * 3);
        let wide = FormattedJson::new("<".repeat(1_000).as_bytes(), "text/plain", 1_000);
        assert_eq!((wide.is_cut, wide.pieces[0].text.len()), (true, 600));
        assert_eq!(beginning("äöü", 3), "ä");
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
            pieces(r#"{"k":"v","n":1,"t":true}"#).into_iter().map(|piece| piece.class).collect();
        assert_eq!(
            classes,
            ["", "j-key", "", "j-text", "", "j-key", "", "j-number", "", "j-key", "", "j-word", ""]
        );
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_as_digits() {
        let shown = FormattedJson::new(&[0, 255, b'a'], "application/octet-stream", 100);
        assert!(shown.pieces[0].text.starts_with("000000  00 ff 61"));
        let cut = FormattedJson::new("\"ää\"".as_bytes(), "application/json", 2);
        assert!(cut.is_cut && cut.pieces[0].text == "\"");
    }
}
