//! Help by topic, shell completions and man pages.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Command};
use clap_complete::Shell;

use crate::exit_code::Exit;
use crate::output;

/// Commands by topic. Names without a command are skipped; commands that are not listed come last.
const THEMES: [(&str, &[&str]); 5] = [
    ("Start", &["serve", "dev", "demo", "work", "health", "status", "top", "open", "mcp"]),
    (
        "Jobs",
        &[
            "submit", "batch", "list", "show", "explain", "logs", "stream", "release", "signal", "token",
            "suspend", "resume", "cancel", "priority", "redrive", "delete", "export",
        ],
    ),
    (
        "Operations",
        &[
            "queues",
            "types",
            "tenants",
            "workers",
            "pause",
            "gate",
            "clock",
            "retention",
            "schedules",
            "alerts",
            "stats",
            "events",
            "audit",
            "keys",
        ],
    ),
    (
        "Stores",
        &[
            "verify", "backup", "restore", "migrate", "move", "config", "webhooks", "tickets", "bench",
            "sdk-test",
        ],
    ),
    ("Program", &["context", "version", "docs", "completions", "man", "help"]),
];

/// What a newcomer reads who starts the program without arguments.
pub(super) const FIRST_STEPS: &str = "\
windlass demo                                   a server with sample jobs and a dashboard, to look around
windlass serve                                  a server of your own at http://127.0.0.1:7788
windlass submit email.send '{\"to\": \"ada\"}'      a job
windlass work email.send -- cat                 a worker: runs a program for each job of this type
windlass --help                                 all commands
";

/// Arguments of `completions`.
#[derive(Args)]
pub(super) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Arguments of `man`.
#[derive(Args)]
pub(super) struct ManArgs {
    /// Write a page for every command into this folder, instead of printing the main one
    #[arg(long, value_name = "FOLDER")]
    into: Option<PathBuf>,
}

/// The command with its subcommands sorted by topic, and its exit codes.
pub(super) fn arranged(command: Command) -> Command {
    let listed = themes(&command);
    // They print nothing that could have another format.
    let command =
        ["top", "mcp"].into_iter().fold(command, |command, name| match command.find_subcommand(name) {
            Some(_) => command.mut_subcommand(name, without_output),
            None => command,
        });
    let exits = format!("Exit codes:\n{}", Exit::listed());
    let server = "Commands that call a server find it by --url or WINDLASS_URL, with --key or \
        WINDLASS_KEY, or by --profile.";
    command
        .help_template("{about}\n\n{usage-heading} {usage}\n\n{before-help}Options:\n{options}{after-help}\n")
        .before_help(listed)
        .after_help(format!("{exits}\n{server}"))
}

/// A command whose help leaves out the flags of output.
fn without_output(command: Command) -> Command {
    ["json", "output", "columns", "watch", "quiet"]
        .into_iter()
        .fold(command, |command, flag| command.mut_arg(flag, |flag| flag.hide(true)))
}

fn themes(command: &Command) -> String {
    let about = |name: &str| {
        let found = command.get_subcommands().find(|known| known.get_name() == name && !known.is_hide_set());
        found.and_then(Command::get_about).map(ToString::to_string)
    };
    let line = |name: &str, about: &str| format!("  {name:<12} {}\n", about.trim_end_matches('.'));
    let mut text = String::new();
    for (title, names) in THEMES {
        let lines: String = names.iter().filter_map(|name| Some(line(name, &about(name)?))).collect();
        if !lines.is_empty() {
            let _always_fits = writeln!(text, "{title}:\n{lines}");
        }
    }
    let others = unplaced(command).into_iter().filter_map(|name| Some(line(&name, &about(&name)?)));
    let others: String = others.collect();
    if others.is_empty() {
        text.trim_end().to_owned()
    } else {
        format!("{text}Others:\n{}", others.trim_end())
    }
}

fn unplaced(command: &Command) -> Vec<String> {
    let placed = |name: &str| THEMES.iter().any(|(_, names)| names.contains(&name));
    let shown = command.get_subcommands().filter(|known| !known.is_hide_set());
    let names = shown.map(Command::get_name);
    names.filter(|name| !placed(name)).map(str::to_owned).collect()
}

pub(super) fn completions(args: &CompletionsArgs, mut command: Command) -> anyhow::Result<ExitCode> {
    let mut bytes = Vec::new();
    clap_complete::generate(args.shell, &mut command, "windlass", &mut bytes);
    output::text(&String::from_utf8_lossy(&bytes))?;
    Ok(Exit::Done.into())
}

pub(super) fn man(args: &ManArgs, command: Command) -> anyhow::Result<ExitCode> {
    let Some(folder) = &args.into else {
        let mut bytes = Vec::new();
        clap_mangen::Man::new(command).render(&mut bytes)?;
        output::text(&String::from_utf8_lossy(&bytes))?;
        return Ok(Exit::Done.into());
    };
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    clap_mangen::generate_to(command, folder)
        .with_context(|| format!("cannot write to {}", folder.display()))?;
    output::note(&format!("`man -l {}` shows the main page", folder.join("windlass.1").display()));
    Ok(Exit::Done.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_command_has_its_place_in_the_help() {
        let command = super::super::Cli::command();
        assert_eq!(unplaced(&command), Vec::<String>::new());
        let help = arranged(command).render_long_help().to_string();
        for (title, _) in THEMES {
            assert!(help.contains(&format!("{title}:")), "{help}");
        }
        for (exit, when) in Exit::ALL {
            assert!(help.contains(&format!("  {:<5} {when}", exit as u8)), "{help}");
        }
    }

    /// A help heading applies to all flags that follow, also to those of flattened structs.
    #[test]
    fn every_flag_stands_under_its_own_heading() {
        let mut ahead = vec![super::super::Cli::command()];
        while let Some(command) = ahead.pop() {
            for flag in command.get_arguments() {
                let (name, of) = (flag.get_id().as_str(), command.get_name());
                if flag.get_help_heading() == Some("Server") {
                    assert!(["url", "key", "profile", "json"].contains(&name), "{of}: --{name}");
                }
                if flag.get_help_heading() == Some("Filters") {
                    let others = ["all", "dry_run", "yes", "reason", "limit", "follow", "order"];
                    assert!(!others.contains(&name), "{of}: --{name}");
                }
            }
            ahead.extend(command.get_subcommands().cloned());
        }
    }

    #[test]
    fn the_command_line_is_sound() {
        super::super::Cli::command().debug_assert();
    }
}
