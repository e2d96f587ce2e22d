//! The mouse: a click selects a row or a list, a click on the selected row opens it, and the wheel scrolls.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::{Position, Rect};

use super::app::{Mode, Screen};
use super::draw::{first_row, layout};
use super::key_bindings::Effect;

/// Rows that one step of the wheel moves.
const WHEEL: usize = 3;

impl Screen {
    /// Handles the mouse on a terminal of this size.
    pub(super) fn point(&mut self, event: MouseEvent, size: Rect) -> Option<Effect> {
        let key = |code| KeyEvent::new(code, KeyModifiers::NONE);
        match event.kind {
            MouseEventKind::ScrollUp | MouseEventKind::ScrollDown => {
                let code = if event.kind == MouseEventKind::ScrollUp { KeyCode::Up } else { KeyCode::Down };
                // A question waits for its answer.
                if matches!(self.mode, Mode::Browse | Mode::Details(_)) {
                    for _ in 0..WHEEL {
                        self.press(key(code));
                    }
                }
                None
            }
            MouseEventKind::Down(MouseButton::Left) => match self.mode {
                Mode::Browse => self.click(Position::new(event.column, event.row), size),
                Mode::Help => self.press(key(KeyCode::Esc)),
                _ => None,
            },
            _ => None,
        }
    }

    fn click(&mut self, at: Position, size: Rect) -> Option<Effect> {
        let layout = layout(size, self);
        if let Some((pane, _)) = layout.tabs.iter().find(|(_, area)| area.contains(at)) {
            self.pane = *pane;
            return None;
        }
        let (pane, area) = *layout.lists.iter().find(|(_, area)| area.contains(at))?;
        let was_active = self.pane == pane;
        self.pane = pane;
        // The frame and the titles are above the first row.
        let row = usize::from(at.y.checked_sub(area.y + 2)?);
        let place = first_row(self, pane, area) + row;
        if at.y + 1 >= area.y + area.height || place >= self.rows_shown(pane) {
            return None;
        }
        if was_active && self.chosen(pane) == Some(place) {
            return self.press(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE));
        }
        self.select(place);
        None
    }
}
