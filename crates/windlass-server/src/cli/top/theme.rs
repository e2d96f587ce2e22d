//! How things look: with colours, or by weight alone where colours are not wanted.

use ratatui::style::{Color, Modifier, Style};

/// Colours, or none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Theme {
    /// Whether colours are wanted.
    pub(super) is_coloured: bool,
}

impl Theme {
    fn colour(self, colour: Color) -> Style {
        if self.is_coloured { Style::new().fg(colour) } else { Style::new() }
    }

    /// What is as it should be.
    pub(super) fn good(self) -> Style {
        self.colour(Color::Green)
    }

    /// What somebody should look at.
    pub(super) fn bad(self) -> Style {
        self.colour(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// What somebody chose, and should not forget.
    pub(super) fn warning(self) -> Style {
        self.colour(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    /// What is moving.
    pub(super) fn busy(self) -> Style {
        self.colour(Color::Cyan)
    }

    /// What is there for the sake of order.
    pub(super) fn faint(self) -> Style {
        if self.is_coloured {
            Style::new().fg(Color::DarkGray)
        } else {
            Style::new().add_modifier(Modifier::DIM)
        }
    }

    /// Headings, and names.
    #[allow(clippy::unused_self, reason = "it reads like the others")]
    pub(super) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The row the keys act on.
    #[allow(clippy::unused_self, reason = "it reads like the others")]
    pub(super) fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// The frame of the pane the keys act on.
    pub(super) fn frame(self, is_chosen: bool) -> Style {
        if is_chosen { self.colour(Color::Cyan).add_modifier(Modifier::BOLD) } else { self.faint() }
    }

    /// How a job's state looks.
    pub(super) fn state(self, state: &str) -> Style {
        match state {
            "completed" => self.good(),
            "running" => self.busy(),
            "failed" | "dead_letter" => self.bad(),
            "retrying" | "suspended" => self.warning(),
            _ => Style::new(),
        }
    }
}
