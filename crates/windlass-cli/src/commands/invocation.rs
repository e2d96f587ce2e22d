//! Reads the command line. Settings of `serve` also come from the environment and a configuration file.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgMatches, CommandFactory, FromArgMatches};
use windlass_api::time::Span;

use super::{Cli, help, suggestion};
use crate::config::{ConfigFile, Setting, in_force};
use crate::output::format::{self, Chosen};

/// The parsed command line, merged with the environment and a configuration file.
pub(super) struct Invocation {
    pub(super) cli: Cli,
    /// The effective settings of `serve`, if the command has any.
    pub(super) settings: Vec<Setting>,
    /// How often to repeat the command, with `--watch`.
    pub(super) watch: Option<Duration>,
}

/// The commands that take settings, as paths of subcommand names.
const CONFIGURED: [&[&str]; 2] = [&["serve"], &["config", "check"]];

impl Invocation {
    pub(super) fn read(arguments: Vec<OsString>) -> anyhow::Result<Invocation> {
        let command = help::arranged(Cli::command());
        let arguments = common_flags_last(arguments);
        let mut matches = parse(&command, arguments.clone());
        let words = CONFIGURED.into_iter().find(|words| below(&matches, words).is_some());
        let mut settings = Vec::new();
        if let Some(words) = words {
            let path =
                below(&matches, words).and_then(|matches| matches.get_one::<PathBuf>("config")).cloned();
            let file = path.map(|path| ConfigFile::read(&path, &command, words)).transpose()?;
            if let Some(file) = &file {
                let informed = change(command.clone(), words, &|command| file.apply(command));
                matches = parse(&informed, arguments);
            }
            let configured = words.iter().fold(&command, |command, word| {
                command.find_subcommand(word).expect("the subcommand was parsed, so it exists")
            });
            let matches = below(&matches, words).expect("the same subcommands were parsed");
            settings = in_force(configured, matches, file.as_ref());
        }
        let watch = given::<Span>(&matches, "watch").map(|every| every.0);
        let columns = lowest(&matches).try_get_many::<String>("columns").ok().flatten();
        format::choose(Chosen {
            format: given(&matches, "output").unwrap_or_default(),
            columns: columns.into_iter().flatten().cloned().collect(),
            is_quiet: given(&matches, "quiet").unwrap_or(false),
        });
        let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        Ok(Invocation { cli, settings, watch })
    }
}

/// Flags that most commands have, and whether a value follows.
const COMMON: [(&str, bool); 9] = [
    ("--json", false),
    ("--quiet", false),
    ("--watch", false),
    ("--output", true),
    ("-o", true),
    ("--columns", true),
    ("--url", true),
    ("--key", true),
    ("--profile", true),
];

/// Moves flags that most commands have from before the command to after it, where they are defined: `windlass --json list`
/// is `windlass list --json`.
fn common_flags_last(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let mut count = 0;
    while let Some(text) = arguments.get(1 + count).and_then(|argument| argument.to_str()) {
        let is = |(name, _): &&(&str, bool)| {
            let rest = text.strip_prefix(name);
            rest.is_some_and(|rest| {
                rest.is_empty() || rest.starts_with('=') || (*name == "-o" && !rest.is_empty())
            })
        };
        let Some((name, has_value)) = COMMON.iter().find(is) else { break };
        count += 1 + usize::from(*has_value && text == *name);
    }
    // Without a command there is nothing to move them to.
    if count == 0 || arguments.len() <= 1 + count {
        return arguments;
    }
    let moved: Vec<OsString> = arguments.drain(1..=count).collect();
    // What follows `--` belongs to another program.
    let end = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    arguments.splice(end..end, moved);
    arguments
}

/// Parses the command line; prints the error and exits the process if it is invalid.
fn parse(command: &clap::Command, arguments: Vec<OsString>) -> ArgMatches {
    command.clone().try_get_matches_from(arguments).unwrap_or_else(|error| {
        suggestion::corrected(error, command).exit();
    })
}

/// The matches of the subcommand that was given, below all others.
fn lowest(matches: &ArgMatches) -> &ArgMatches {
    let mut found = matches;
    while let Some((_, below)) = found.subcommand() {
        found = below;
    }
    found
}

/// The value of a flag that only some commands have.
fn given<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, name: &str) -> Option<T> {
    lowest(matches).try_get_one::<T>(name).ok().flatten().cloned()
}

/// The matches of the subcommand at the path `words`, if it was given.
fn below<'a>(matches: &'a ArgMatches, words: &[&str]) -> Option<&'a ArgMatches> {
    words.iter().try_fold(matches, |matches, word| matches.subcommand_matches(word))
}

/// Changes the subcommand at the path `words`.
fn change(
    command: clap::Command,
    words: &[&str],
    with: &dyn Fn(clap::Command) -> clap::Command,
) -> clap::Command {
    match words {
        [] => with(command),
        [word, rest @ ..] => command.mut_subcommand(*word, |command| change(command, rest, with)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_flags_may_come_before_the_command() {
        let ordered = |line: &str| {
            let words = line.split(' ').map(OsString::from).collect();
            common_flags_last(words).join(std::ffi::OsStr::new(" ")).into_string().unwrap()
        };
        for (typed, meant) in [
            ("w --json list --all", "w list --all --json"),
            (
                "w -o yaml --url http://a queues set q --create",
                "w queues set q --create -o yaml --url http://a",
            ),
            ("w -ocsv --output=csv --quiet list", "w list -ocsv --output=csv --quiet"),
            ("w --profile far work a -- cat --json", "w work a --profile far -- cat --json"),
            ("w list --json", "w list --json"),
            ("w --version", "w --version"),
            ("w --json", "w --json"),
            ("w --jsonp list", "w --jsonp list"),
        ] {
            assert_eq!(ordered(typed), meant);
        }
    }
}
