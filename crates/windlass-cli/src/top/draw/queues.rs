//! The list of queues: depth, age, throughput.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::Row;
use windlass::job::JobState;
use windlass_api::queue::Queue;

use super::draw_list;
use super::head::LONG;
use crate::top::app::{Pane, Screen};
use crate::top::format::{age, columns, count, count_or_dot, cut};
use crate::top::model::FAILED;
use crate::top::theme::Theme;

/// A column of numbers.
struct Column {
    title: &'static str,
    width: u16,
    /// Minimum columns of the screen to show it.
    from: u16,
    text: fn(&Queue, &Screen) -> String,
    style: fn(&Queue, &Screen, Theme) -> Style,
}

fn plain(_: &Queue, _: &Screen, _: Theme) -> Style {
    Style::new()
}

const COLUMNS: [Column; 11] = [
    Column {
        title: "ready",
        width: 6,
        from: 0,
        text: |queue, _| depth(queue, &[JobState::Scheduled]),
        style: plain,
    },
    Column {
        title: "running",
        width: 7,
        from: 0,
        text: |queue, _| depth(queue, &[JobState::Running]),
        style: |_, _, theme| theme.busy(),
    },
    Column {
        title: "blocked",
        width: 7,
        from: 90,
        text: |queue, _| depth(queue, &[JobState::Pending, JobState::Waiting, JobState::Created]),
        style: plain,
    },
    Column {
        title: "delayed",
        width: 7,
        from: 80,
        text: |queue, _| depth(queue, &[JobState::Delayed]),
        style: plain,
    },
    Column {
        title: "retrying",
        width: 8,
        from: 70,
        text: |queue, _| depth(queue, &[JobState::Retrying]),
        style: |queue, _, theme| warned(queue, &[JobState::Retrying], theme),
    },
    Column {
        title: "suspended",
        width: 9,
        from: 110,
        text: |queue, _| depth(queue, &[JobState::Suspended]),
        style: |queue, _, theme| warned(queue, &[JobState::Suspended], theme),
    },
    Column { title: "failed", width: 6, from: 0, text: failed, style: failed_style },
    Column { title: "oldest", width: 7, from: 0, text: oldest, style: aged },
    Column {
        title: "in",
        width: 6,
        from: 100,
        text: |queue, screen| count_or_dot(screen.range.select(&queue.rates).submitted),
        style: plain,
    },
    Column {
        title: "out",
        width: 7,
        from: 0,
        text: |queue, screen| count_or_dot(screen.range.select(&queue.rates).completed),
        style: plain,
    },
    Column {
        title: "run p95",
        width: 7,
        from: 120,
        text: |queue, screen| {
            screen.range.select(&queue.rates).ran.p95.map_or("·".to_owned(), |span| age(span.0))
        },
        style: plain,
    },
];

fn depth(queue: &Queue, states: &[JobState]) -> String {
    count_or_dot(queue.depth.sum(states))
}

fn warned(queue: &Queue, states: &[JobState], theme: Theme) -> Style {
    if queue.depth.sum(states) > 0 { theme.warning() } else { theme.faint() }
}

/// Jobs that failed finally and were not redriven; `?` if the queue may have some that are not listed.
fn failed(queue: &Queue, screen: &Screen) -> String {
    match screen.open_failures_of(&queue.name) {
        (0, false) if queue.depth.sum(&FAILED) > 0 => "?".to_owned(),
        (number, true) => count_or_dot(number),
        (0, false) => count_or_dot(0),
        (number, false) => format!("{}+", count(number)),
    }
}

fn failed_style(queue: &Queue, screen: &Screen, theme: Theme) -> Style {
    if screen.open_failures_of(&queue.name).0 > 0 { theme.bad() } else { theme.faint() }
}

fn oldest(queue: &Queue, _: &Screen) -> String {
    queue.oldest_age.map_or("·".to_owned(), |span| age(span.0))
}

fn aged(queue: &Queue, _: &Screen, theme: Theme) -> Style {
    if queue.oldest_age.is_some_and(|span| span.0 >= LONG) { theme.warning() } else { Style::new() }
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, screen: &Screen, theme: Theme) {
    let shown = screen.shown_queues();
    let columns_shown: Vec<&Column> = COLUMNS.iter().filter(|column| area.width >= column.from).collect();
    let taken: u16 = columns_shown.iter().map(|column| column.width + 1).sum();
    let left = area.width.saturating_sub(taken + 2);
    // Names get the width they need; the rest of the line shows why a queue is paused.
    let longest = shown.iter().map(|queue| columns(queue.name.0.as_str())).max().unwrap_or(0).max(8);
    let name_width = u16::try_from(longest).unwrap_or(u16::MAX).saturating_add(2).min(left);
    let mut titles = vec![Line::from("  queue")];
    titles.extend(columns_shown.iter().map(|column| Line::from(column.title).alignment(Alignment::Right)));
    titles.push(Line::default());
    let mut widths = vec![Constraint::Length(name_width)];
    widths.extend(columns_shown.iter().map(|column| Constraint::Length(column.width)));
    widths.push(Constraint::Fill(1));
    let rows = shown.iter().map(|queue| {
        let mark = if queue.paused.is_some() { "⏸ " } else { "  " };
        let name = format!("{mark}{}", cut(queue.name.0.as_str(), usize::from(name_width).saturating_sub(2)));
        let style = if queue.paused.is_some() { theme.warning() } else { theme.strong() };
        let mut cells = vec![Line::styled(name, style)];
        cells.extend(columns_shown.iter().map(|column| {
            let text = (column.text)(queue, screen);
            let style = if text == "·" { theme.faint() } else { (column.style)(queue, screen, theme) };
            Line::styled(text, style).alignment(Alignment::Right)
        }));
        cells.push(Line::styled(stands_still(queue), theme.warning()));
        Row::new(cells)
    });
    draw_list(frame, area, (screen, Pane::Queues, theme), (titles, widths), rows.collect());
}

/// Why no job of a queue starts.
fn stands_still(queue: &Queue) -> String {
    queue.paused.as_ref().map_or(String::new(), |pause| {
        let reason = pause.reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
        format!(" paused by {}{reason}", pause.by)
    })
}
