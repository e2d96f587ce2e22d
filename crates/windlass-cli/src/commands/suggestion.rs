//! What to suggest for a command that does not exist: the word that other programs use for it, or a word that differs by a
//! typing mistake. The parser's own suggestions share letters, and little else.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Words of other programs, and the command that does the same.
const OTHER_WORDS: [(&str, &str); 26] = [
    ("add", "submit"),
    ("approve", "signal"),
    ("clear", "delete"),
    ("daemon", "serve"),
    ("dashboard", "open"),
    ("dead", "list"),
    ("describe", "show"),
    ("enqueue", "submit"),
    ("get", "show"),
    ("init", "dev"),
    ("inspect", "show"),
    ("jobs", "list"),
    ("kill", "cancel"),
    ("login", "context"),
    ("ls", "list"),
    ("new", "submit"),
    ("profile", "context"),
    ("ps", "list"),
    ("push", "submit"),
    ("replay", "retry"),
    ("rerun", "retry"),
    ("rm", "delete"),
    ("run", "work"),
    ("start", "serve"),
    ("ui", "open"),
    ("why", "explain"),
];

/// Letters by which a mistyped word may differ.
const MISTAKES_MAX: usize = 2;

/// Replaces the suggestions for a command that does not exist.
pub(super) fn corrected(mut error: clap::Error, command: &clap::Command) -> clap::Error {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    let names = command.get_subcommands().filter(|command| !command.is_hide_set());
    let names =
        names.flat_map(|command| [command.get_name()].into_iter().chain(command.get_visible_aliases()));
    // Subcommands of a command have other words than the program.
    let suggested = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(strings))
            if strings.iter().any(|name| command.find_subcommand(name).is_none()) =>
        {
            return error;
        }
        _ => suggestions(word, names),
    };
    error.remove(ContextKind::SuggestedSubcommand);
    if !suggested.is_empty() {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(suggested));
    }
    error
}

/// The commands to suggest for a word, the best first.
fn suggestions<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let word = word.to_lowercase();
    if let Some((_, name)) = OTHER_WORDS.iter().find(|(other, _)| *other == word) {
        return vec![(*name).to_owned()];
    }
    let most = MISTAKES_MAX.min(word.len() / 2);
    let mut near: Vec<(usize, &str)> =
        names.map(|name| (distance(&word, name), name)).filter(|(mistakes, _)| *mistakes <= most).collect();
    near.sort_unstable();
    // Those with more mistakes than the nearest are noise.
    let least = near.first().map_or(0, |(mistakes, _)| *mistakes);
    near.into_iter().take_while(|(mistakes, _)| *mistakes == least).map(|(_, name)| name.to_owned()).collect()
}

/// How many letters must be changed, added, left out or swapped with their neighbour to make one word of the other.
fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=right.len()).collect()];
    for (i, a) in left.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in right.iter().enumerate() {
            let mut least = (rows[i][j] + usize::from(a != b)).min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == right[j - 1] && left[i - 1] == *b {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[left.len()][right.len()]
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn suggested(word: &str) -> Vec<String> {
        let command = crate::commands::Cli::command();
        let error = command.clone().try_get_matches_from(["windlass", word]).unwrap_err();
        match corrected(error, &command).get(ContextKind::SuggestedSubcommand) {
            Some(ContextValue::Strings(strings)) => strings.clone(),
            None => Vec::new(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_mistyped_command_is_recognised_and_nothing_else_is_suggested() {
        for (word, name) in [
            ("retrry", "retry"),
            ("verison", "version"),
            ("pasue", "pause"),
            ("lst", "list"),
            ("shcedules", "schedules"),
        ] {
            assert_eq!(suggested(word), [name], "{word}");
        }
        assert_eq!(suggested("statsu"), ["stats", "status"], "both are one mistake away");
        assert!(suggested("frobnicate").is_empty());
    }

    #[test]
    fn words_of_other_programs_lead_to_the_command_that_does_the_same() {
        let command = crate::commands::Cli::command();
        for (word, name) in OTHER_WORDS {
            assert!(command.find_subcommand(word).is_none(), "{word} exists");
            assert!(command.get_subcommands().any(|one| one.get_name() == name || one.get_visible_aliases().any(|alias| alias == name)), "{name}");
            assert_eq!(suggested(word), [name], "{word}");
        }
    }
}
