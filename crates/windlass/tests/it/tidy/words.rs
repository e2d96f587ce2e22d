//! Words that the project no longer uses, each with the plain one. It looks at whole words, in any text but the changelog;
//! whether a sentence is plain is for the reader.

use super::lexer::{line_of, whole_word_positions};
use super::tree::SourceFile;

/// A word or phrase, what to write instead, and why.
struct Retired {
    word: &'static str,
    instead: &'static str,
    reason: &'static str,
}

const fn retired(word: &'static str, instead: &'static str, reason: &'static str) -> Retired {
    Retired { word, instead, reason }
}

const ARCHAIC: &str = "readers of technical English stumble over archaic words";
const VAGUE: &str = "a pronoun hides who is meant";
const PRIVATE: &str = "no other job system uses this word, so nobody searches for it";

const RETIRED: &[Retired] = &[
    retired("whoever", "any caller, the user, a program that", VAGUE),
    retired("whomever", "any caller, the user", VAGUE),
    retired("anew", "again", ARCHAIC),
    retired("thereby", "so, by this", ARCHAIC),
    retired("lest", "so that … not", ARCHAIC),
    retired("farewell", "shutdown report", PRIVATE),
    retired("doorstep", "inbox", PRIVATE),
    retired("deed", "action", PRIVATE),
    retired("facet", "job data, side record", PRIVATE),
    retired("crew", "worker", PRIVATE),
    retired("parcel", "response", PRIVATE),
    retired("hangs on", "belongs to, is attached to", "it does not say how two things are related"),
    retired("opens nothing", "is invalid", "an error names what happened"),
    retired("in vain", "without effect, for nothing found", ARCHAIC),
    retired("lookout", "change listener", PRIVATE),
    retired("look-out", "change listener", PRIVATE),
    retired("door", "inbox, or the name of what is passed", PRIVATE),
    retired("keyring", "signing keys", PRIVATE),
    retired("notebook", "buffer", PRIVATE),
    retired("gravity", "severity", PRIVATE),
    retired("courtesy", "error body", PRIVATE),
    retired("lent", "shared, borrowed", "it does not say who may use it"),
    retired("trouble", "error, failure, fault", "it does not say what happened"),
    retired("elsewhere", "at a server, in another file", "it does not say where"),
    retired("lately", "recently", ARCHAIC),
    retired("hence", "so", ARCHAIC),
    retired("thus", "so", ARCHAIC),
    retired("thereof", "its, of it", ARCHAIC),
    retired("herein", "here", ARCHAIC),
    retired("wherein", "in which", ARCHAIC),
    retired("whence", "from where", ARCHAIC),
    retired("hitherto", "until now", ARCHAIC),
    retired("henceforth", "from now on", ARCHAIC),
    retired("hereby", "by this", ARCHAIC),
    retired("therein", "in it", ARCHAIC),
    retired("thereupon", "then", ARCHAIC),
    retired("albeit", "although", ARCHAIC),
    retired("whilst", "while", ARCHAIC),
    retired("amongst", "among", ARCHAIC),
    retired("for want of", "for lack of, because there is no", ARCHAIC),
    retired("of its own accord", "automatically", ARCHAIC),
    retired("tally", "counts, totals, usage", PRIVATE),
    retired("mend", "repair, fix", ARCHAIC),
    retired("mended", "repaired, fixed", ARCHAIC),
    retired("strand", "lane, lane cursor", PRIVATE),
    retired("seats", "slots", PRIVATE),
    retired("beware", "a name or warning that says of what", ARCHAIC),
    retired("turned away", "refused", PRIVATE),
    retired("in the open", "without a key or encryption", PRIVATE),
    retired("told", "reported, notified, answered, asked", PRIVATE),
    retired("heard", "received, seen", PRIVATE),
    retired("hears", "receives, is notified", PRIVATE),
    retired("goes on", "continues", "one verb for one thing"),
    retired("went on", "continued", "one verb for one thing"),
    retired("for ever", "forever", ARCHAIC),
    retired("nobody", "no caller, no job, no worker", VAGUE),
    retired("somebody", "a caller, a worker, an administrator", VAGUE),
    retired("anybody", "any caller", VAGUE),
    retired("everybody", "every caller, all tenants", VAGUE),
    retired("storeerror::away", "StoreError::Unavailable", PRIVATE),
    retired("what became of", "the result of", VAGUE),
    retired("what becomes of", "how it ends, the result of", VAGUE),
    retired("what came of", "the result of", VAGUE),
    retired("whatever becomes of", "independently of", VAGUE),
    retired("all the same", "nevertheless, anyway", ARCHAIC),
    retired("as ever", "as before", ARCHAIC),
    retired("knows nothing", "does not know", VAGUE),
    retired("cancel_because", "cancel_with_reason", PRIVATE),
    retired("acterror", "ActionError", "one word per thing: an action"),
    retired("actoptions", "ActionOptions", "one word per thing: an action"),
    retired("act_strictly", "the option `strict`", PRIVATE),
    retired("into_sql", "submit_sql", PRIVATE),
    retired("submit_within", "submit_in_tx", PRIVATE),
    retired("close_gate", "pause_all", PRIVATE),
    retired("open_gate", "resume_all", PRIVATE),
];

/// Texts that may use any word: history, licences, what cargo writes, the list above, the migration that replaces an old
/// name with its test, and what runs PostgreSQL as the system's user `nobody`.
const EXEMPT: [&str; 7] = [
    "CHANGELOG.md",
    "Cargo.lock",
    "crates/windlass/tests/it/tidy/words.rs",
    "crates/windlass/src/store/engines/postgres/migrate/tests.rs",
    "crates/windlass/src/store/engines/postgres/migrations/0009_plain_names.sql",
    "sdk/python/tests/test_sql.py",
    "sdk/typescript/test/support/postgres.ts",
];

/// Retired words in any text of the project. Plurals are left alone: `facets` is the name of a table.
pub(super) fn retired_words(tree: &[SourceFile]) -> Vec<String> {
    let is_checked =
        |file: &&SourceFile| !EXEMPT.contains(&file.path.as_str()) && !file.name().starts_with("LICENSE");
    let mut violations = Vec::new();
    for file in tree.iter().filter(is_checked) {
        // ASCII only, so that every offset stays where it was.
        let text = file.text.to_ascii_lowercase();
        for Retired { word, instead, reason } in RETIRED {
            let places = whole_word_positions(&text, word).into_iter();
            violations.extend(places.map(|at| {
                format!("{}:{}: `{word}`: write {instead}; {reason}", file.path, line_of(&text, at))
            }));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        retired_words(&[SourceFile::sample(path, text)])
    }

    #[test]
    fn a_retired_word_is_named_with_its_line_and_the_plain_word() {
        assert_eq!(
            found("docs/a.md", "It is\ndone Anew."),
            ["docs/a.md:2: `anew`: write again; readers of technical English stumble over archaic words"]
        );
    }

    #[test]
    fn every_retired_word_is_found_in_any_case() {
        for Retired { word, .. } in RETIRED {
            assert_eq!(found("a.rs", &format!("// {word}, so")).len(), 1, "{word}");
            assert_eq!(found("a.html", &format!("<p>{}</p>", word.to_uppercase())).len(), 1, "{word}");
        }
    }

    #[test]
    fn only_whole_words_count() {
        assert_eq!(found("a.md", "indeed, the screw of a parceled facetious planet; hang on, vain"), [""; 0]);
        assert_eq!(found("a.rs", "fn screw_deeds_x() {}"), [""; 0]);
    }

    #[test]
    fn history_may_use_any_word() {
        for path in ["CHANGELOG.md", "LICENSE-MIT", "crates/windlass/tests/it/tidy/words.rs"] {
            assert_eq!(found(path, "whoever"), [""; 0], "{path}");
        }
        assert_eq!(found("README.md", "whoever").len(), 1);
    }
}
