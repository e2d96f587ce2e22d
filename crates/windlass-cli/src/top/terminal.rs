//! The terminal: taken over at the start and restored at the end, however the program ends.

use std::io::{Stdout, stdout};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, DisableMouseCapture, EnableMouseCapture, Event};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::Rect;
use tokio::sync::mpsc;

use super::app::Screen;
use super::draw::draw;
use super::theme::Theme;
use crate::limits::TERMINAL_EVENTS_BUFFERED;

/// The terminal in raw mode; restored on drop.
pub(super) struct Console {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    theme: Theme,
}

impl Console {
    /// Takes the terminal over. A panic restores it before printing its message.
    pub(super) fn open(theme: Theme, has_mouse: bool) -> anyhow::Result<Console> {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
        enable_raw_mode()?;
        // From here on dropping it restores the terminal, also if the next step fails.
        let console = Console { terminal: Terminal::new(CrosstermBackend::new(stdout()))?, theme };
        execute!(stdout(), EnterAlternateScreen)?;
        if has_mouse {
            execute!(stdout(), EnableMouseCapture)?;
        }
        Ok(console)
    }

    /// The area of the terminal.
    pub(super) fn area(&self) -> Rect {
        self.terminal.size().map_or(Rect::ZERO, |size| Rect::new(0, 0, size.width, size.height))
    }

    /// Draws the screen in the terminal's current size.
    pub(super) fn show(&mut self, screen: &Screen) -> anyhow::Result<()> {
        self.terminal.draw(|frame| draw(frame, screen, self.theme))?;
        Ok(())
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        give_back();
    }
}

/// Restores the terminal. Errors are ignored: there is nothing left to report them to.
fn give_back() {
    let _ = execute!(stdout(), DisableMouseCapture, LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

/// Key presses and resizes, until the terminal is closed. Reading blocks, so it has its own thread; it ends with the
/// process.
pub(super) fn events() -> anyhow::Result<mpsc::Receiver<Event>> {
    let (sender, events) = mpsc::channel(TERMINAL_EVENTS_BUFFERED);
    std::thread::Builder::new().name("keys".to_owned()).spawn(move || {
        while let Ok(event) = event::read() {
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    })?;
    Ok(events)
}
