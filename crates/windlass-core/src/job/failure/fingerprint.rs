//! Fingerprints of errors: messages of the same error differ in numbers, ids, paths and addresses, which are masked, so that
//! its failures can be counted together.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::ErrorRecord;
use crate::limits;

/// What separates the words of a message.
fn is_separator(c: char) -> bool {
    c.is_whitespace() || ",;()[]{}\"'`=<>|".contains(c)
}

/// A word without what differs from job to job.
fn masked(word: &str) -> String {
    let bare = word.trim_end_matches(['.', ':', '!', '?']);
    let end = &word[bare.len()..];
    let mask = if let Some((scheme, rest)) = bare.split_once("://") {
        // The host says which service failed.
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        format!("{scheme}://{}{}", digits_masked(host), if path.is_empty() { "" } else { "/<path>" })
    } else if bare.contains('/') && bare.len() > 1 {
        "<path>".to_owned()
    } else if bare.contains('@') {
        "<address>".to_owned()
    } else {
        digits_masked(bare)
    };
    mask + end
}

fn digits_masked(word: &str) -> String {
    if word.contains(|c: char| c.is_ascii_digit()) { "#".to_owned() } else { word.to_owned() }
}

/// A message as a pattern: its first line, with numbers and ids as `#`, paths as `<path>` and mail addresses as `<address>`.
pub fn error_pattern(message: &str) -> String {
    let first = message.trim().lines().next().unwrap_or_default();
    let cut: String = first.chars().take(limits::FINGERPRINT_CHARS).collect();
    let mut pattern = String::with_capacity(cut.len());
    let mut rest = cut.as_str();
    while let Some(c) = rest.chars().next() {
        let length = if is_separator(c) {
            pattern.push(c);
            c.len_utf8()
        } else {
            let length = rest.find(is_separator).unwrap_or(rest.len());
            pattern.push_str(&masked(&rest[..length]));
            length
        };
        rest = &rest[length..];
    }
    pattern
}

/// Identifies an error by category, code and pattern: 16 hexadecimal digits.
pub fn fingerprint(error: &ErrorRecord) -> String {
    let code = error.code.as_deref().unwrap_or_default();
    let text = format!("{} {} {}", error.category, code, error_pattern(&error.message));
    Sha256::digest(text)[..8].iter().fold(String::new(), |mut digits, byte| {
        let _always_fits = write!(digits, "{byte:02x}");
        digits
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_ids_paths_and_addresses_are_masked() {
        for (message, pattern) in [
            ("order 4711 not found", "order # not found"),
            ("timeout after 30s on a1b2-c3", "timeout after # on #"),
            ("cannot read album-48053/4.jpg: no such file", "cannot read <path>: no such file"),
            ("cannot read album/7.jpg: no such file", "cannot read <path>: no such file"),
            ("hooks.example.com/12 after 1011 ms", "<path> after # ms"),
            ("GET https://api.example.com/v1/orders/17: 502", "GET https://api.example.com/<path>: #"),
            ("no mailbox 'ada@example.com'", "no mailbox '<address>'"),
            ("user=17, tenant=acme", "user=#, tenant=acme"),
            ("größe 5 µ", "größe # µ"),
            ("first line\n  at main.rs:17", "first line"),
            ("", ""),
        ] {
            assert_eq!(error_pattern(message), pattern);
        }
        assert_ne!(error_pattern("no such user"), error_pattern("no such order"));
    }

    #[test]
    fn a_pattern_is_bounded_and_a_pattern_of_itself() {
        let long = "zu langé Wörter 17 ".repeat(1_000);
        let pattern = error_pattern(&long);
        assert!(pattern.chars().count() <= limits::FINGERPRINT_CHARS);
        assert_eq!(error_pattern("a <path> of #"), "a <path> of #");
    }
}
