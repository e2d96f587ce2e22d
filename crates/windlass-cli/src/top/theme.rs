//! Styles: with colours, or with weight alone if colours are off.

use ratatui::style::{Color, Modifier, Style};
use windlass::job::JobState;

#[derive(Debug, Clone, Copy)]
pub(super) struct Theme {
    pub(super) is_coloured: bool,
}

impl Theme {
    fn colour(self, colour: Color) -> Style {
        if self.is_coloured { Style::new().fg(colour) } else { Style::new() }
    }

    /// A healthy value.
    pub(super) fn good(self) -> Style {
        self.colour(Color::Green)
    }

    /// A problem.
    pub(super) fn bad(self) -> Style {
        self.colour(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// An unusual but intended condition, such as a pause.
    pub(super) fn warning(self) -> Style {
        self.colour(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    /// Something in progress.
    pub(super) fn busy(self) -> Style {
        self.colour(Color::Cyan)
    }

    /// Secondary text.
    pub(super) fn faint(self) -> Style {
        if self.is_coloured {
            Style::new().fg(Color::DarkGray)
        } else {
            Style::new().add_modifier(Modifier::DIM)
        }
    }

    /// Headings and names.
    #[allow(clippy::unused_self, reason = "consistent with the other styles")]
    pub(super) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The selected row.
    #[allow(clippy::unused_self, reason = "consistent with the other styles")]
    pub(super) fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// The frame of a pane; the active one differs.
    pub(super) fn frame(self, is_chosen: bool) -> Style {
        if is_chosen { self.colour(Color::Cyan).add_modifier(Modifier::BOLD) } else { self.faint() }
    }

    /// The style of a job's state.
    pub(super) fn state(self, state: JobState) -> Style {
        match state {
            JobState::Completed => self.good(),
            JobState::Running => self.busy(),
            JobState::Failed | JobState::DeadLetter => self.bad(),
            JobState::Retrying | JobState::Suspended => self.warning(),
            _ => Style::new(),
        }
    }
}
