//! Colours: used only on a terminal and only if `NO_COLOR` is not set.

use std::io::IsTerminal;

use windlass::job::JobState;

/// Colours by meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    Good,
    Active,
    Warning,
    Bad,
    /// Secondary text.
    Faint,
    Strong,
}

impl Colour {
    fn sequence(self) -> &'static str {
        match self {
            Colour::Good => "\x1b[32m",
            Colour::Active => "\x1b[36m",
            Colour::Warning => "\x1b[33m",
            Colour::Bad => "\x1b[31m",
            Colour::Faint => "\x1b[2m",
            Colour::Strong => "\x1b[1m",
        }
    }

    /// The colour of a job's state.
    pub(crate) fn of_state(state: JobState) -> Option<Colour> {
        match state {
            JobState::Completed => Some(Colour::Good),
            JobState::Running => Some(Colour::Active),
            JobState::Suspended | JobState::Retrying => Some(Colour::Warning),
            JobState::Failed | JobState::DeadLetter => Some(Colour::Bad),
            JobState::Cancelled => Some(Colour::Faint),
            _ => None,
        }
    }
}

/// Whether colours are used on one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Paint(bool);

impl Paint {
    /// For standard output.
    pub(crate) fn for_data() -> Paint {
        Paint(std::io::stdout().is_terminal() && is_wanted())
    }

    /// For standard error.
    pub(crate) fn for_talk() -> Paint {
        Paint(std::io::stderr().is_terminal() && is_wanted())
    }

    /// Whether colours are used.
    #[cfg(feature = "top")]
    pub(crate) fn is_coloured(self) -> bool {
        self.0
    }

    /// No colours.
    #[cfg(test)]
    pub(crate) fn plain() -> Paint {
        Paint(false)
    }

    /// Always uses colours, also without a terminal.
    #[cfg(test)]
    pub(crate) fn always() -> Paint {
        Paint(true)
    }

    /// The text in this colour.
    pub(crate) fn paint(self, text: &str, colour: Option<Colour>) -> String {
        match colour {
            Some(colour) if self.0 && !text.is_empty() => format!("{}{text}\x1b[0m", colour.sequence()),
            _ => text.to_owned(),
        }
    }

    /// The text as a heading.
    pub(crate) fn strong(self, text: &str) -> String {
        self.paint(text, Some(Colour::Strong))
    }

    /// The text as secondary text.
    pub(crate) fn faint(self, text: &str) -> String {
        self.paint(text, Some(Colour::Faint))
    }

    /// A job's state in its colour.
    pub(crate) fn state(self, state: JobState) -> String {
        self.paint(state.as_str(), Colour::of_state(state))
    }
}

/// Whether the environment allows colours: `NO_COLOR` is not set and the terminal supports them.
fn is_wanted() -> bool {
    let is_refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !is_refused && std::env::var_os("TERM").is_none_or(|terminal| terminal != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_surround_text_only_where_they_are_wanted() {
        assert_eq!(Paint::plain().state(JobState::Failed), "failed");
        assert_eq!(Paint::always().state(JobState::Failed), "\x1b[31mfailed\x1b[0m");
        assert_eq!(Paint::always().state(JobState::Scheduled), "scheduled");
        assert_eq!(Paint::always().strong(""), "");
    }
}
