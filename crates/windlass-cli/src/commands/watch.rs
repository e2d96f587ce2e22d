//! `--watch`: repeats a command that prints something, until Ctrl-C or until its output is closed.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::Context;

use crate::error::Failure;
use crate::limits::WATCH_EVERY_MIN;
use crate::output;

/// Clears the screen and moves the cursor to its beginning.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Runs the command again and again, each time as a process of its own: it then behaves as if it was typed.
pub(super) fn repeat(arguments: Vec<OsString>, every: Duration) -> anyhow::Result<ExitCode> {
    if every < WATCH_EVERY_MIN {
        return Err(Failure::usage(format!("--watch: must be at least {WATCH_EVERY_MIN:?}")));
    }
    let is_watch = |argument: &OsString| {
        argument.to_str().is_some_and(|text| text == "--watch" || text.starts_with("--watch="))
    };
    // What follows `--` belongs to another program.
    let end = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    let kept = arguments.into_iter().enumerate().skip(1);
    let kept = kept.filter(|(place, argument)| *place >= end || !is_watch(argument));
    let kept: Vec<OsString> = kept.map(|(_, argument)| argument).collect();
    let own = std::env::current_exe().context("cannot find this program")?;
    loop {
        if std::io::stdout().is_terminal() {
            output::text(CLEAR)?;
        }
        let status = Command::new(&own).args(&kept).status().context("cannot start this program again")?;
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        // A command line that is wrong stays wrong, and an output that was closed stays closed.
        match code {
            Some(0 | 1 | 6 | 7) => std::thread::sleep(every),
            Some(code) => return Ok(ExitCode::from(code)),
            None => return Ok(ExitCode::FAILURE),
        }
    }
}
