//! Just enough of Rust's lexical grammar to tell code from comments and literals. It never fails: text that is not Rust
//! gives an odd answer, which the compiler reports better.

/// A Rust file taken apart.
pub(super) struct Scan {
    /// The text with comments and the insides of literals blanked, so that every brace in it is a brace.
    pub(super) code: String,
    /// String literals of every kind, escapes as written.
    pub(super) strings: Vec<Piece>,
    /// Comments of every kind, documentation included.
    pub(super) comments: Vec<Piece>,
}

/// A comment or the inside of a literal.
pub(super) struct Piece {
    /// Where it begins, counted from 1.
    pub(super) line: usize,
    pub(super) text: String,
}

/// Takes a Rust file apart.
pub(super) fn scan(text: &str) -> Scan {
    let mut lexer = Lexer {
        chars: text.chars().collect(),
        at: 0,
        line: 1,
        out: Scan { code: String::with_capacity(text.len()), strings: Vec::new(), comments: Vec::new() },
    };
    while lexer.at < lexer.chars.len() {
        lexer.token();
    }
    lexer.out
}

struct Lexer {
    chars: Vec<char>,
    at: usize,
    line: usize,
    out: Scan,
}

impl Lexer {
    fn token(&mut self) {
        match (self.peek(0), self.peek(1)) {
            ('/', '/') => self.line_comment(),
            ('/', '*') => self.block_comment(),
            ('"', _) => self.quoted_string(),
            ('\'', _) => self.char_or_lifetime(),
            (first, _) if is_word(first) => self.word(),
            _ => self.keep(),
        }
    }

    /// The character `ahead` of here; NUL past the end, which no rule looks for.
    fn peek(&self, ahead: usize) -> char {
        self.chars.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn keep(&mut self) {
        let kept = self.peek(0);
        self.step(kept);
    }

    /// Passes a character that is not code; line breaks stay, so that lines keep their numbers.
    fn blank(&mut self) {
        let blanked = if self.peek(0) == '\n' { '\n' } else { ' ' };
        self.step(blanked);
    }

    fn step(&mut self, shown: char) {
        if self.at == self.chars.len() {
            return;
        }
        self.line += usize::from(self.peek(0) == '\n');
        self.out.code.push(shown);
        self.at += 1;
    }

    /// Blanks up to where `ends` holds or the text is over, and gives what was there.
    fn blank_until(&mut self, ends: impl Fn(&Lexer) -> bool) -> Piece {
        let (line, from) = (self.line, self.at);
        while self.at < self.chars.len() && !ends(self) {
            self.blank();
        }
        Piece { line, text: self.chars[from..self.at].iter().collect() }
    }

    fn line_comment(&mut self) {
        let comment = self.blank_until(|lexer| lexer.peek(0) == '\n');
        self.out.comments.push(comment);
    }

    fn block_comment(&mut self) {
        let (line, from) = (self.line, self.at);
        let mut depth = 0_usize;
        while self.at < self.chars.len() {
            match (self.peek(0), self.peek(1)) {
                ('/', '*') => depth += 1,
                ('*', '/') => depth -= 1,
                _ => {
                    self.blank();
                    continue;
                }
            }
            self.blank();
            self.blank();
            if depth == 0 {
                break;
            }
        }
        self.out.comments.push(Piece { line, text: self.chars[from..self.at].iter().collect() });
    }

    fn quoted_string(&mut self) {
        self.keep();
        let (line, from) = (self.line, self.at);
        while self.at < self.chars.len() && self.peek(0) != '"' {
            if self.peek(0) == '\\' {
                self.blank();
            }
            self.blank();
        }
        self.out.strings.push(Piece { line, text: self.chars[from..self.at].iter().collect() });
        self.keep();
    }

    fn char_or_lifetime(&mut self) {
        self.keep();
        if self.peek(0) == '\\' {
            self.blank();
            self.blank();
            self.blank_until(|lexer| lexer.peek(0) == '\'');
            self.keep();
        } else if self.peek(1) == '\'' {
            self.blank();
            self.keep();
        }
    }

    /// An identifier, keyword or number, or the raw string that it turns out to introduce.
    fn word(&mut self) {
        let from = self.at;
        while is_word(self.peek(0)) {
            self.keep();
        }
        let word: String = self.chars[from..self.at].iter().collect();
        let hashes = self.chars[self.at..].iter().take_while(|&&next| next == '#').count();
        if matches!(word.as_str(), "r" | "br" | "cr") && self.peek(hashes) == '"' {
            self.raw_string(hashes);
        }
    }

    fn raw_string(&mut self, hashes: usize) {
        for _ in 0..=hashes {
            self.keep();
        }
        let inside = self
            .blank_until(|lexer| lexer.peek(0) == '"' && (1..=hashes).all(|ahead| lexer.peek(ahead) == '#'));
        self.out.strings.push(inside);
        for _ in 0..=hashes {
            self.keep();
        }
    }
}

/// Whether a character can stand inside a name.
pub(super) fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Where `word` stands in `text` with no letter, digit or underscore beside it, as byte offsets. A side of `word` that
/// is itself punctuation needs no such boundary.
pub(super) fn whole_word_positions(text: &str, word: &str) -> Vec<usize> {
    let joins =
        |inner: Option<char>, outer: Option<char>| inner.is_some_and(is_word) && outer.is_some_and(is_word);
    text.match_indices(word)
        .map(|(at, _)| at)
        .filter(|&at| {
            let (before, after) = (&text[..at], &text[at + word.len()..]);
            !joins(word.chars().next(), before.chars().next_back())
                && !joins(word.chars().next_back(), after.chars().next())
        })
        .collect()
}

/// The number of the line that holds the byte at `offset`, counted from 1.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    1 + text[..offset].matches('\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(text: &str) -> Vec<String> {
        scan(text).strings.into_iter().map(|piece| piece.text).collect()
    }

    #[test]
    fn strings_of_every_kind_are_found_and_blanked() {
        let text = r###"a("{", b"}", r"\{", r#"say "}" now"#, br##"#"# {"##, "\"{");"###;
        assert_eq!(strings(text), ["{", "}", r"\{", r#"say "}" now"#, r##"#"# {"##, r#"\"{"#]);
        assert!(!scan(text).code.contains(['{', '}']));
        assert_eq!(scan(text).code.len(), text.len());
    }

    #[test]
    fn a_raw_identifier_is_not_a_raw_string() {
        assert_eq!(strings(r#"let r#type = "x"; let bar = r; "y""#), ["x", "y"]);
    }

    #[test]
    fn characters_are_distinguished_from_lifetimes() {
        let text = r#"fn f<'a>(x: &'a str) { if c == '{' || c == '\'' || c == '"' || b'}' == c { 'out: loop { break 'out } } }"#;
        let code = scan(text).code;
        assert_eq!(code.matches('{').count(), code.matches('}').count());
        assert_eq!(code.matches('{').count(), 3);
        assert!(strings(text).is_empty());
        assert_eq!(scan(r"let c = '\u{7b}'; {").code.matches('{').count(), 1);
    }

    #[test]
    fn comments_nest_and_keep_their_lines() {
        let scan = scan("let a = 1; // { one\n/* two /* three */ \" } */ let b = \"// not\";\n//! four");
        let found: Vec<_> = scan.comments.iter().map(|piece| (piece.line, piece.text.as_str())).collect();
        assert_eq!(found, [(1, "// { one"), (2, "/* two /* three */ \" } */"), (3, "//! four")]);
        assert_eq!(scan.strings[0].text, "// not");
        assert!(!scan.code.contains(['{', '}']));
        assert_eq!(scan.code.lines().count(), 3);
    }

    #[test]
    fn unfinished_text_ends_quietly() {
        for text in ["\"abc", "r#\"abc\"", "/* abc", "'", "'\\", "\"abc\\"] {
            scan(text);
        }
    }

    #[test]
    fn a_whole_word_has_no_neighbours() {
        assert_eq!(whole_word_positions("M1 M10 M1: xM1 (M1)", "M1"), [0, 7, 16]);
        assert_eq!(whole_word_positions("a.b!(c) ab!(", "b!("), [2]);
        assert!(whole_word_positions("XaX", "X").is_empty());
    }
}
