//! Draws the screen: a header with health and rates, the lists, a line of keys, and a dialog above them. Drawing does not
//! change the state. The layout depends on the size, down to a single list on a small terminal.

mod dialog;
mod head;
mod jobs;
mod queues;
mod rows;
#[cfg(test)]
mod tests;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Paragraph, Row, Table, TableState};

use super::app::{Mode, Pane, Screen};
use super::format::{columns, count, cut};
use super::sort;
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
    let [top, lists, foot] = parts(area);
    head::draw(frame, top, screen, theme);
    draw_lists(frame, area, screen, theme);
    draw_foot(frame, foot, screen, theme);
    dialog::draw(frame, lists, screen, theme);
}

/// Where everything is on a screen of this size.
pub(super) struct ScreenLayout {
    pub(super) tabs: Vec<(Pane, Rect)>,
    pub(super) lists: Vec<(Pane, Rect)>,
}

/// Lays out the lists: the first three if there is space, with another one in place of the third if it is active; otherwise
/// the active one alone, below a line of tabs.
pub(super) fn layout(screen_area: Rect, screen: &Screen) -> ScreenLayout {
    let [_, area, _] = parts(screen_area);
    if area.height < TALL {
        let [tabs, list] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
        return ScreenLayout { tabs: tab_areas(tabs, screen), lists: vec![(screen.pane, list)] };
    }
    let first = [Pane::Queues, Pane::Running, Pane::Failures];
    let third = if first.contains(&screen.pane) { Pane::Failures } else { screen.pane };
    let rows = u16::try_from(screen.shown_queues().len()).unwrap_or(u16::MAX);
    let queues_height = rows.saturating_add(3).clamp(5, area.height * 2 / 5);
    let [tabs, queues, rest] =
        Layout::vertical([Constraint::Length(1), Constraint::Length(queues_height), Constraint::Fill(1)])
            .areas(area);
    let halves = [Constraint::Fill(1), Constraint::Fill(1)];
    let [second, last] = if area.width >= WIDE && rest.height < LOW {
        Layout::horizontal(halves)
    } else {
        Layout::vertical(halves)
    }
    .areas(rest);
    let lists = vec![(Pane::Queues, queues), (Pane::Running, second), (third, last)];
    ScreenLayout { tabs: tab_areas(tabs, screen), lists }
}

/// Head, lists and foot.
fn parts(area: Rect) -> [Rect; 3] {
    let head = head::height(area);
    Layout::vertical([Constraint::Length(head), Constraint::Fill(1), Constraint::Length(1)]).areas(area)
}

fn draw_lists(frame: &mut Frame<'_>, area: Rect, screen: &Screen, theme: Theme) {
    let layout = layout(area, screen);
    for (pane, area) in layout.tabs {
        draw_tab(frame, area, screen, pane, theme);
    }
    for (pane, area) in layout.lists {
        draw_pane(frame, area, screen, pane, theme);
    }
}

/// The text of a tab, and its number.
fn tab(screen: &Screen, pane: Pane) -> (String, String) {
    let number = Pane::ALL.iter().position(|other| *other == pane).unwrap_or(0) + 1;
    // Lists that are read only while they are shown have no number before.
    let is_known = screen.total(pane) > 0 || ![Pane::Types, Pane::Schedules].contains(&pane);
    let total = if is_known { format!("{} ", count(screen.total(pane))) } else { String::new() };
    (format!(" {number} {} ", pane.title()), total)
}

/// The tabs from the left, as far as they fit; the active one always does.
fn tab_areas(area: Rect, screen: &Screen) -> Vec<(Pane, Rect)> {
    let width_of = |pane: Pane| {
        let (name, total) = tab(screen, pane);
        u16::try_from(columns(&name) + columns(&total)).unwrap_or(u16::MAX)
    };
    let place = Pane::ALL.iter().position(|pane| *pane == screen.pane).unwrap_or(0);
    let mut first = 0;
    let fits =
        |first: usize| Pane::ALL[first..=place].iter().map(|pane| width_of(*pane)).sum::<u16>() <= area.width;
    while first < place && !fits(first) {
        first += 1;
    }
    let mut x = area.x;
    let mut areas = Vec::new();
    for pane in &Pane::ALL[first..] {
        let width = width_of(*pane);
        if x + width > area.x + area.width && !areas.is_empty() {
            break;
        }
        areas.push((*pane, Rect { x, width: width.min(area.x + area.width - x), ..area }));
        x += width;
    }
    areas
}

fn draw_tab(frame: &mut Frame<'_>, area: Rect, screen: &Screen, pane: Pane, theme: Theme) {
    let (name, total) = tab(screen, pane);
    let name_style = if pane == screen.pane { theme.chosen() } else { Style::new() };
    // Jobs that are retried by themselves, and those that were retried by hand, are no alarm.
    let is_bad = [Pane::Failures, Pane::Groups].contains(&pane) && screen.open_failures() > 0;
    let style = if is_bad { theme.bad() } else { theme.faint() };
    frame.render_widget(Line::from(vec![Span::styled(name, name_style), Span::styled(total, style)]), area);
}

fn draw_pane(frame: &mut Frame<'_>, area: Rect, screen: &Screen, pane: Pane, theme: Theme) {
    match pane {
        Pane::Queues => queues::draw(frame, area, screen, theme),
        Pane::Running | Pane::Failures | Pane::Suspended => jobs::draw(frame, area, screen, pane, theme),
        Pane::Workers | Pane::Types | Pane::Schedules | Pane::Groups => {
            rows::draw(frame, area, screen, pane, theme);
        }
    }
}

/// The first row of a list that is in view: one row stays visible below the selected one, to show that the list continues.
pub(super) fn first_row(screen: &Screen, pane: Pane, area: Rect) -> usize {
    let shown = screen.rows_shown(pane);
    let visible = usize::from(area.height.saturating_sub(3));
    screen
        .chosen(pane)
        .map_or(0, |place| (place + 2).saturating_sub(visible).min(shown.saturating_sub(visible)))
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
    let first = first_row(screen, pane, area);
    let mut state = TableState::new().with_selected(chosen).with_offset(first);
    frame.render_stateful_widget(table, inner, &mut state);
}

fn heading(screen: &Screen, pane: Pane, shown: usize) -> String {
    let total = screen.total(pane);
    let shown = shown as u64;
    let numbers = if shown == total { count(total) } else { format!("{} of {}", count(shown), count(total)) };
    let by = screen.sorting(pane).map_or(String::new(), |sorting| {
        let name = sort::names(pane).get(sorting.column).map_or("", |(name, _)| name);
        format!("· by {name} {} ", if sorting.is_down { "▼" } else { "▲" })
    });
    let has_range = [Pane::Queues, Pane::Types].contains(&pane);
    let range = if has_range { format!("· {} ", screen.range.listed().name()) } else { String::new() };
    format!(" {} {numbers} {by}{range}", pane.title())
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
        Pane::Workers => "no workers: `windlass work TYPE -- PROGRAM` starts one",
        Pane::Types => "no types yet: submit a job",
        Pane::Schedules => "no schedules: `windlass schedules create` creates one",
        Pane::Groups => "no failed jobs that were not retried",
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
        Pane::Workers | Pane::Types => vec![("Enter", "details"), ("p", "pause")],
        Pane::Schedules => vec![("Enter", "details"), ("r", "run now"), ("p", "pause")],
        Pane::Groups => vec![("Enter", "jobs"), ("r", "retry all")],
    };
    // Keys that do not fit are left out from the end.
    keys.extend([
        ("q", "quit"),
        ("?", "help"),
        ("/", "filter"),
        ("Tab", "next list"),
        ("s", "sort"),
        ("t", "time"),
    ]);
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
