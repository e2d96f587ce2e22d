//! Draws the screen: a header with health and rates, the lists, a line of keys, and a dialog above them. Drawing does not
//! change the state. The layout depends on the size, down to a single list on a small terminal.

mod dialog;
mod head;
mod jobs;
mod queues;
#[cfg(test)]
mod tests;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Paragraph, Row, Table, TableState};

use super::app::{Mode, Pane, Screen};
use super::format::{columns, count, cut};
use super::theme::Theme;

/// Minimum rows for several lists at once.
const TALL: u16 = 22;
/// Minimum columns for two lists side by side, and the rows below which they must be.
const WIDE: u16 = 140;
const LOW: u16 = 30;
/// The smallest usable screen.
const SMALLEST: (u16, u16) = (30, 6);

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, screen: &Screen, theme: Theme) {
    let area = frame.area();
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        frame.render_widget(Paragraph::new("too small"), area);
        return;
    }
    let head = head::height(area);
    let [top, lists, foot] =
        Layout::vertical([Constraint::Length(head), Constraint::Fill(1), Constraint::Length(1)]).areas(area);
    head::draw(frame, top, screen, theme);
    draw_lists(frame, lists, screen, theme);
    draw_foot(frame, foot, screen, theme);
    dialog::draw(frame, lists, screen, theme);
}

/// Lays out the lists: all of them if there is space, otherwise the active one.
fn draw_lists(frame: &mut Frame<'_>, area: Rect, screen: &Screen, theme: Theme) {
    if area.height < TALL {
        let [tabs, list] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
        draw_tabs(frame, tabs, screen, theme);
        draw_pane(frame, list, screen, screen.pane, theme);
        return;
    }
    // The fourth list is shown on request only, in place of the third.
    let third = if screen.pane == Pane::Suspended { Pane::Suspended } else { Pane::Failures };
    let rows = u16::try_from(screen.shown_queues().len()).unwrap_or(u16::MAX);
    let queues_height = rows.saturating_add(3).clamp(5, area.height * 2 / 5);
    let [queues, rest] =
        Layout::vertical([Constraint::Length(queues_height), Constraint::Fill(1)]).areas(area);
    draw_pane(frame, queues, screen, Pane::Queues, theme);
    let halves = [Constraint::Fill(1), Constraint::Fill(1)];
    let [second, last] = if area.width >= WIDE && rest.height < LOW {
        Layout::horizontal(halves)
    } else {
        Layout::vertical(halves)
    }
    .areas(rest);
    draw_pane(frame, second, screen, Pane::Running, theme);
    draw_pane(frame, last, screen, third, theme);
}

fn draw_tabs(frame: &mut Frame<'_>, area: Rect, screen: &Screen, theme: Theme) {
    let mut pieces = Vec::new();
    for (number, pane) in (1..).zip(Pane::ALL) {
        let style = if pane == screen.pane { theme.chosen() } else { Style::new() };
        pieces.push(Span::styled(format!(" {number} {} ", pane.title()), style));
        let total = count(screen.total(pane));
        let style =
            if pane == Pane::Failures && screen.total(pane) > 0 { theme.bad() } else { theme.faint() };
        pieces.push(Span::styled(format!("{total} "), style));
    }
    frame.render_widget(Line::from(pieces), area);
}

fn draw_pane(frame: &mut Frame<'_>, area: Rect, screen: &Screen, pane: Pane, theme: Theme) {
    match pane {
        Pane::Queues => queues::draw(frame, area, screen, theme),
        Pane::Running | Pane::Failures | Pane::Suspended => jobs::draw(frame, area, screen, pane, theme),
    }
}

/// A list in its frame, with the selected row in view.
fn draw_list(
    frame: &mut Frame<'_>,
    area: Rect,
    (screen, pane, theme): (&Screen, Pane, Theme),
    (titles, widths): (Vec<Line<'static>>, Vec<Constraint>),
    rows: Vec<Row<'_>>,
) {
    let is_chosen = screen.pane == pane;
    let shown = rows.len();
    let is_empty = rows.is_empty();
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(theme.frame(is_chosen))
        .title(Line::styled(heading(screen, pane, shown), theme.frame(is_chosen)));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    if is_empty {
        frame.render_widget(Paragraph::new(Line::styled(nothing(screen, pane), theme.faint())), inner);
        return;
    }
    let titles = Row::new(titles).style(theme.faint());
    let table = Table::new(rows, widths).header(titles).column_spacing(1).row_highlight_style(theme.chosen());
    let chosen = is_chosen.then(|| screen.chosen(pane)).flatten();
    // One row stays visible below the selected one, to show that the list continues.
    let visible = usize::from(inner.height.saturating_sub(1));
    let first = screen
        .chosen(pane)
        .map_or(0, |place| (place + 2).saturating_sub(visible).min(shown.saturating_sub(visible)));
    let mut state = TableState::new().with_selected(chosen).with_offset(first);
    frame.render_stateful_widget(table, inner, &mut state);
}

fn heading(screen: &Screen, pane: Pane, shown: usize) -> String {
    let total = screen.total(pane);
    let shown = shown as u64;
    let numbers = if shown == total { count(total) } else { format!("{} of {}", count(shown), count(total)) };
    format!(" {} {numbers} ", pane.title())
}

fn nothing(screen: &Screen, pane: Pane) -> String {
    if !screen.filter.is_empty() && screen.total(pane) > 0 {
        return format!("no match for \"{}\"", screen.filter);
    }
    let words = match pane {
        Pane::Queues => "no queues yet: submit a job",
        Pane::Running => "no running jobs",
        Pane::Failures => "no failed jobs",
        Pane::Suspended => "no suspended jobs",
    };
    words.to_owned()
}

/// The bottom line: keys, or a message.
fn draw_foot(frame: &mut Frame<'_>, area: Rect, screen: &Screen, theme: Theme) {
    let width = usize::from(area.width);
    if matches!(screen.mode, Mode::Filter(_)) {
        let typed = format!("/{}▏", screen.filter);
        frame.render_widget(Line::styled(cut(&typed, width), theme.strong()), area);
        return;
    }
    if let Some(note) = &screen.note {
        let style = if note.is_error { theme.bad() } else { theme.good() };
        frame.render_widget(Line::styled(cut(&format!(" {}", note.text), width), style), area);
        return;
    }
    let mut keys: Vec<(&str, &str)> = match screen.pane {
        Pane::Queues => vec![("Enter", "details"), ("p", "pause"), ("r", "resume")],
        Pane::Running => vec![("Enter", "details"), ("c", "cancel"), ("p", "suspend")],
        Pane::Failures => vec![("Enter", "why"), ("r", "redrive"), ("c", "cancel")],
        Pane::Suspended => vec![("Enter", "details"), ("r", "resume"), ("c", "cancel")],
    };
    // Keys that do not fit are left out from the end.
    keys.extend([("q", "quit"), ("?", "help"), ("/", "filter"), ("Tab", "next list")]);
    let mut pieces = Vec::new();
    let mut left = width;
    if !screen.filter.is_empty() {
        let shown = format!(" /{} ", screen.filter);
        left = left.saturating_sub(columns(&shown));
        pieces.push(Span::styled(shown, theme.warning()));
    }
    for (key, what) in keys {
        let needed = columns(key) + columns(what) + 3;
        if needed > left {
            break;
        }
        left -= needed;
        pieces.extend([
            Span::styled(format!(" {key}"), theme.strong()),
            Span::styled(format!(" {what} "), theme.faint()),
        ]);
    }
    frame.render_widget(Line::from(pieces), area);
}
