//! One object as text: a title, and below it a line for each fact, with the names in one column.

use std::fmt::Write as _;
use std::process::ExitCode;

use windlass::clock::Timestamp;
use windlass_api::time::Moment;

use super::color::Paint;
use super::escaped;
use super::text::ago;
use crate::exit_code::Exit;

/// The text so far.
pub(crate) struct FactSheet {
    text: String,
    paint: Paint,
}

impl FactSheet {
    /// Begins with a title.
    pub(crate) fn new(title: &str) -> FactSheet {
        let paint = Paint::for_data();
        FactSheet { text: format!("{}\n", paint.strong(&escaped(title))), paint }
    }

    /// Adds a fact. Values may come from jobs; control characters are escaped.
    pub(crate) fn add(&mut self, name: &str, value: &str) {
        let name = self.paint.faint(&format!("{name:>10}"));
        let _always_fits = writeln!(self.text, "{name}  {}", escaped(value));
    }

    /// Adds who paused the object, when and why.
    pub(crate) fn add_pause(&mut self, at: Moment, by: &str, reason: Option<&str>, now: Timestamp) {
        self.add("paused", &format!("{} by {by} {}", ago(at, now), reason.unwrap_or_default()));
    }

    /// Prints it.
    pub(crate) fn print(self) -> anyhow::Result<ExitCode> {
        super::text(&self.text)?;
        Ok(Exit::Done.into())
    }
}
