//! The lists of workers, types, schedules and groups of failures.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::Row;

use super::draw_list;
use crate::top::app::{Pane, Screen};
use crate::top::format::cut;
use crate::top::rows::{CellStyle, columns_of};
use crate::top::theme::Theme;

/// Columns that the last one needs; others are left out until it has them.
const REST: u16 = 12;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, screen: &Screen, pane: Pane, theme: Theme) {
    let columns = columns_of(pane);
    let last = columns.len().saturating_sub(1);
    // Columns in the middle are left out from the end if the pane is narrow.
    let mut left = area.width.saturating_sub(2 + REST);
    let shown: Vec<usize> = (0..columns.len())
        .filter(|index| {
            let width = columns[*index].width + 1;
            let fits = *index == last || *index == 0 || width <= left;
            left = if *index == last { left } else { left.saturating_sub(width) };
            fits
        })
        .collect();
    let align = |index: usize| if columns[index].is_number { Alignment::Right } else { Alignment::Left };
    let titles =
        shown.iter().map(|index| Line::from(columns[*index].title).alignment(align(*index))).collect();
    let widths = shown.iter().map(|index| match columns[*index].width {
        0 => Constraint::Fill(1),
        width => Constraint::Length(width),
    });
    let rows = screen.shown_rows(pane).into_iter().map(|row| {
        Row::new(
            shown
                .iter()
                .map(|index| {
                    let cell = &row.cells[*index];
                    let style = match cell.style {
                        _ if cell.text == "·" => theme.faint(),
                        CellStyle::Plain => Style::new(),
                        CellStyle::Strong => theme.strong(),
                        CellStyle::Busy => theme.busy(),
                        CellStyle::Warning => theme.warning(),
                        CellStyle::Bad => theme.bad(),
                    };
                    let width = usize::from(columns[*index].width);
                    let text = if width == 0 { cell.text.clone() } else { cut(&cell.text, width) };
                    Line::styled(text, style).alignment(align(*index))
                })
                .collect::<Vec<_>>(),
        )
    });
    let rows = rows.collect();
    draw_list(frame, area, (screen, pane, theme), (titles, widths.collect()), rows);
}
