//! Which module of the library may use which: its own layer and those below, never one above. Below them all is the
//! crate `windlass-core`, which cannot use the library. Only paths through the crate are looked at; what a re-export in `lib.rs` hides from this table, review has to see.

use super::lexer::{is_word, line_of, scan, whole_word_positions};
use super::tree::SourceFile;

/// The modules of the library from the bottom up. `lib.rs` stands above them all.
const LAYERS: [&[&str]; 4] = [
    &["clock", "ordered"],
    &["store"],
    &["api", "remote"],
    &[
        "client",
        "handler",
        "context",
        "worker",
        "maintenance",
        "testing",
        "doctests",
        "guides",
        "bench",
        "internal",
    ],
];

const LIBRARY: &str = "crates/windlass/src/";

fn layer_of(module: &str) -> Option<usize> {
    LAYERS.iter().position(|modules| modules.contains(&module))
}

/// The path of a library module below the crate, such as `["job", "state"]`; `None` for `lib.rs` and other crates.
fn module_path(file: &SourceFile) -> Option<Vec<&str>> {
    let inside = file.path.strip_prefix(LIBRARY)?.strip_suffix(".rs")?;
    (inside != "lib").then(|| inside.split('/').collect())
}

/// Library modules that the table does not know, and so would hold to nothing.
pub(super) fn unplaced_modules(tree: &[SourceFile]) -> Vec<String> {
    tree.iter()
        .filter(|file| module_path(file).is_some_and(|path| layer_of(path[0]).is_none()))
        .map(|file| format!("{}: its module is in no layer of the table in tidy/layers.rs", file.path))
        .collect()
}

/// Paths from a library module to one in a higher layer.
pub(super) fn upward_uses(tree: &[SourceFile]) -> Vec<String> {
    let mut violations = Vec::new();
    for file in tree {
        let Some(path) = module_path(file) else { continue };
        let Some(layer) = layer_of(path[0]) else { continue };
        for (used, line) in used_modules(&scan(&file.text).code, path.len()) {
            if layer_of(&used).is_some_and(|above| above > layer) {
                violations.push(format!(
                    "{}:{line}: `{}` must not use `{used}`, which is above it",
                    file.path, path[0]
                ));
            }
        }
    }
    violations
}

/// The top-level modules that `code`, `depth` modules below the crate, names by a path, each with its line.
fn used_modules(code: &str, depth: usize) -> Vec<(String, usize)> {
    let climb = "super::".repeat(depth);
    let mut found = Vec::new();
    for root in ["crate::", &climb] {
        for start in whole_word_positions(code, root) {
            let line = line_of(code, start);
            let rest = &code[start + root.len()..];
            found.extend(heads(rest).into_iter().map(|head| (head, line)));
        }
    }
    found
}

/// The first names of a path or of a braced group of paths: `a::b` gives a, `{a, b::{c, d}}` gives a and b.
fn heads(path: &str) -> Vec<String> {
    let Some(group) = path.strip_prefix('{') else { return vec![word_at_start(path)] };
    let mut depth = 0_usize;
    let mut expects_head = true;
    let mut found = Vec::new();
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => expects_head = true,
            _ if depth == 0 && expects_head && is_word(character) => {
                found.push(word_at_start(&group[at..]));
                expects_head = false;
            }
            _ => {}
        }
    }
    found
}

fn word_at_start(text: &str) -> String {
    text.chars().take_while(|&character| is_word(character)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(path: &str, text: &str) -> usize {
        upward_uses(&[SourceFile::sample(path, text)]).len()
    }

    #[test]
    fn a_use_of_a_higher_layer_is_found_in_every_spelling() {
        let path = "crates/windlass/src/clock/manual.rs";
        assert_eq!(violations(path, "use crate::store::Store;"), 1);
        assert_eq!(violations(path, "use crate::{clock::Clock, store::{Store, engine}, worker};"), 2);
        assert_eq!(violations(path, "use super::super::client;"), 1);
        assert_eq!(violations(path, "fn f(store: &crate::store::Store) {}"), 1);
        assert_eq!(
            violations(
                "crates/windlass/src/store/engines/sqlite/claim.rs",
                "use crate::{\n    worker::Lane,\n};"
            ),
            1
        );
        assert_eq!(violations("crates/windlass/src/clock.rs", "use super::store;"), 1);
    }

    #[test]
    fn a_use_of_the_own_or_a_lower_layer_is_fine() {
        assert_eq!(
            violations(
                "crates/windlass/src/clock/manual.rs",
                "use crate::{clock::Timestamp, limits, job::JobRecord};"
            ),
            0
        );
        assert_eq!(
            violations("crates/windlass/src/store/engines/sqlite.rs", "use crate::{job, store::engine};"),
            0
        );
        assert_eq!(
            violations("crates/windlass/src/worker/fetch_loop.rs", "use crate::{store, client, context};"),
            0
        );
        assert_eq!(violations("crates/windlass/src/lib.rs", "pub use crate::store::Store;"), 0);
        assert_eq!(
            violations(
                "crates/windlass/src/clock.rs",
                "//! See [`crate::store`].\nconst S: &str = \"crate::store\";"
            ),
            0
        );
        assert_eq!(
            violations("crates/windlass/src/clock.rs", "use crate::storehouse; use mycrate::store;"),
            0
        );
    }

    #[test]
    fn a_module_outside_the_table_is_found() {
        let of = |path| unplaced_modules(&[SourceFile::sample(path, "")]).len();
        assert_eq!(of("crates/windlass/src/utils.rs"), 1);
        assert_eq!(of("crates/windlass/src/helper/text.rs"), 1);
        assert_eq!(of("crates/windlass/src/lib.rs"), 0);
        assert_eq!(of("crates/windlass/src/clock/manual.rs"), 0);
        assert_eq!(of("crates/windlass-server/src/http.rs"), 0);
    }
}
