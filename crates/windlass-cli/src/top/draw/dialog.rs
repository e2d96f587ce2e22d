//! Dialogs above the lists: a question, details, or the help.

use ratatui::Frame;
use ratatui::layout::{Constraint, Flex, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Padding, Paragraph, Wrap};

use crate::top::app::{Mode, Screen};
use crate::top::command::Command;
use crate::top::details::{Details, LineStyle};
use crate::top::format::cut;
use crate::top::key_bindings::HELP;
use crate::top::theme::Theme;

/// Width of the labels.
const LABEL: usize = 14;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, screen: &Screen, theme: Theme) {
    match &screen.mode {
        Mode::Browse | Mode::Filter(_) => {}
        Mode::Help => draw_help(frame, area, theme),
        Mode::Confirm(order) => draw_question(frame, area, order, theme),
        Mode::Details(details) => draw_details(frame, area, details, theme),
    }
}

fn frame_of<'a>(title: &str, style: Style) -> Block<'a> {
    Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(style)
        .padding(Padding::horizontal(1))
        .title(Line::styled(format!(" {title} "), style))
}

/// The middle of an area, cleared.
fn middle(frame: &mut Frame<'_>, area: Rect, width: u16, height: u16) -> Rect {
    let [column] =
        Layout::horizontal([Constraint::Length(width.min(area.width))]).flex(Flex::Center).areas(area);
    let [middle] =
        Layout::vertical([Constraint::Length(height.min(area.height))]).flex(Flex::Center).areas(column);
    frame.render_widget(Clear, middle);
    middle
}

fn draw_help(frame: &mut Frame<'_>, area: Rect, theme: Theme) {
    let height = u16::try_from(HELP.len()).unwrap_or(u16::MAX) + 2;
    let area = middle(frame, area, 84, height);
    let lines: Vec<Line<'_>> = HELP
        .iter()
        .map(|(keys, what)| {
            Line::from(vec![Span::styled(format!("{keys:<11}"), theme.strong()), Span::raw(*what)])
        })
        .collect();
    frame.render_widget(Paragraph::new(lines).block(frame_of("Keys", theme.frame(true))), area);
}

fn draw_question(frame: &mut Frame<'_>, area: Rect, order: &Command, theme: Theme) {
    let area = middle(frame, area, 68, 9);
    let lines = vec![
        Line::styled(order.question.clone(), theme.strong()),
        Line::default(),
        Line::from(order.consequence.clone()),
        Line::default(),
        Line::from(vec![
            Span::styled("y", theme.warning()),
            Span::raw(" yes    "),
            Span::styled("n", theme.strong()),
            Span::raw(" no"),
        ]),
    ];
    let block = frame_of("Sure?", theme.warning());
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: true }).block(block), area);
}

fn draw_details(frame: &mut Frame<'_>, area: Rect, details: &Details, theme: Theme) {
    frame.render_widget(Clear, area);
    let width = usize::from(area.width);
    let keys =
        if details.job.is_some() { " Esc back · p suspend · r retry · c cancel " } else { " Esc back " };
    let block = frame_of(&cut(&details.title, width.saturating_sub(4)), theme.frame(true))
        .title_bottom(Line::styled(keys, theme.faint()).right_aligned());
    let lines: Vec<Line<'_>> = details
        .lines
        .iter()
        .skip(details.skipped)
        .map(|line| {
            let style = match line.weight {
                LineStyle::Heading => theme.strong(),
                LineStyle::Text if line.label == "state" => {
                    line.text.parse().map_or_else(|_| Style::new(), |state| theme.state(state))
                }
                LineStyle::Text => Style::new(),
                LineStyle::Error => theme.bad(),
            };
            if line.weight == LineStyle::Heading {
                return Line::styled(line.text.clone(), style);
            }
            let label = format!("{:<LABEL$} ", cut(&line.label, LABEL));
            Line::from(vec![Span::styled(label, theme.faint()), Span::styled(line.text.clone(), style)])
        })
        .collect();
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).block(block), area);
}
