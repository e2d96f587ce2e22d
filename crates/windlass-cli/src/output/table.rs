//! Tables that fit the terminal: one line per row. If the terminal is too narrow, the least important columns are cut with
//! `…` and finally left out. Output to a file or a pipe is never cut.

use std::fmt::Write as _;
use std::io::IsTerminal;
use std::process::ExitCode;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};
use windlass::clock::Timestamp;
use windlass::job::JobState;
use windlass_api::time::Moment;

use super::color::{Colour, Paint};
use super::escaped;
use super::format::{Format, chosen, csv_line};
use super::text::ago;
use crate::error::Failure;
use crate::exit_code::Exit;

/// Spaces between columns.
const GAP: usize = 2;
/// Minimum assumed width of a terminal.
const WIDTH_MIN: usize = 20;

/// How a column may shrink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Yield {
    /// Never cut; left out if there is no space.
    Whole,
    /// Cut at the end, down to this width.
    End(usize),
    /// Cut in the middle, down to this width, so that both ends can be read.
    Middle(usize),
}

/// A column.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    title: String,
    is_right: bool,
    gives: Yield,
    /// Columns with a lower rank are kept longer.
    rank: u8,
}

impl Column {
    /// A column that is never cut. Columns with a higher rank shrink first.
    pub(crate) fn new(title: impl Into<String>, rank: u8) -> Column {
        Column { title: title.into(), is_right: false, gives: Yield::Whole, rank }
    }

    /// Aligns to the right, for numbers.
    #[must_use]
    pub(crate) fn right(self) -> Column {
        Column { is_right: true, ..self }
    }

    /// Allows cuts at the end, down to this width.
    #[must_use]
    pub(crate) fn cut(self, min: usize) -> Column {
        Column { gives: Yield::End(min), ..self }
    }

    /// Allows cuts in the middle, down to this width.
    #[must_use]
    pub(crate) fn cut_middle(self, min: usize) -> Column {
        Column { gives: Yield::Middle(min), ..self }
    }

    fn min(&self, width: usize) -> usize {
        match self.gives {
            Yield::Whole => width,
            Yield::End(min) | Yield::Middle(min) => min.min(width),
        }
    }
}

/// One field of a row.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    text: String,
    colour: Option<Colour>,
    /// The text for programs, if it is another one.
    exact: Option<String>,
}

impl Cell {
    /// A field in a colour.
    pub(crate) fn painted(text: impl Into<String>, colour: Option<Colour>) -> Cell {
        Cell { text: escaped(&text.into()), colour, exact: None }
    }

    /// How long ago a time was, or how soon it will be; in full for programs.
    pub(crate) fn when(at: Moment, now: Timestamp) -> Cell {
        Cell { exact: Some(at.0.to_string()), ..ago(at, now).into() }
    }

    /// The same, or `-` without a time.
    pub(crate) fn when_any(at: Option<Moment>, now: Timestamp) -> Cell {
        at.map_or_else(|| "-".into(), |at| Cell::when(at, now))
    }

    /// A job's state.
    pub(crate) fn state(state: JobState) -> Cell {
        Cell::painted(state.as_str(), Colour::of_state(state))
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell::painted(text, None)
    }
}

/// A table.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty table.
    pub(crate) fn new(columns: Vec<Column>) -> Table {
        Table { columns, rows: Vec::new() }
    }

    /// Adds a row, with a cell per column.
    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.columns.len(), "a row has a cell for every column");
        self.rows.push(cells);
    }

    /// Prints the table, or a note if it is empty.
    pub(crate) fn print_or(&self, nothing: &str) -> anyhow::Result<ExitCode> {
        if self.is_empty() {
            super::note(nothing);
        } else {
            self.print()?;
        }
        Ok(Exit::Done.into())
    }

    /// Whether there is no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Prints the table in the chosen format: in the terminal's width, or as comma-separated values.
    pub(crate) fn print(&self) -> anyhow::Result<()> {
        let chosen = chosen();
        let table = self.only(&chosen.columns)?;
        super::text(&match chosen.format {
            Format::Csv => table.csv(),
            _ => table.render(terminal_width(), Paint::for_data()),
        })
    }

    /// The table with these columns in this order; all of them if none is named.
    fn only(&self, titles: &[String]) -> anyhow::Result<Table> {
        if titles.is_empty() {
            return Ok(self.clone());
        }
        let place = |title: &String| {
            let wanted = title.trim();
            self.columns.iter().position(|column| column.title.eq_ignore_ascii_case(wanted)).ok_or_else(
                || {
                    let known: Vec<String> =
                        self.columns.iter().map(|column| column.title.to_lowercase()).collect();
                    Failure::usage(format!("no column `{}`; there are {}", escaped(wanted), known.join(", ")))
                },
            )
        };
        let places = titles.iter().map(place).collect::<anyhow::Result<Vec<usize>>>()?;
        let columns = places.iter().map(|place| self.columns[*place].clone()).collect();
        let rows = self.rows.iter().map(|row| places.iter().map(|place| row[*place].clone()).collect());
        Ok(Table { columns, rows: rows.collect() })
    }

    fn csv(&self) -> String {
        let titles: Vec<String> = self.columns.iter().map(|column| column.title.to_lowercase()).collect();
        let mut text = csv_line(titles.iter().map(String::as_str));
        for row in &self.rows {
            text.push_str(&csv_line(row.iter().map(|cell| cell.exact.as_deref().unwrap_or(&cell.text))));
        }
        text
    }

    /// The table in at most `room` columns; None means unlimited.
    pub(crate) fn render(&self, room: Option<usize>, paint: Paint) -> String {
        let widths = self.fit(room);
        let mut text = String::new();
        let titles =
            self.columns.iter().map(|column| Cell::painted(column.title.as_str(), Some(Colour::Strong)));
        self.render_row(&titles.collect::<Vec<_>>(), &widths, paint, &mut text);
        for row in &self.rows {
            self.render_row(row, &widths, paint, &mut text);
        }
        text
    }

    /// The width of every column; None means left out.
    fn fit(&self, room: Option<usize>) -> Vec<Option<usize>> {
        let natural = |(place, column): (usize, &Column)| {
            let cells = self.rows.iter().map(|row| row[place].text.width());
            cells.chain([column.title.width()]).max()
        };
        let mut widths: Vec<Option<usize>> = self.columns.iter().enumerate().map(natural).collect();
        let Some(room) = room.map(|room| room.max(WIDTH_MIN)) else { return widths };
        if total(&widths) > room {
            // Empty columns are removed before anything is cut.
            for (place, width) in widths.iter_mut().enumerate() {
                let is_blank = self.rows.iter().all(|row| row[place].text.is_empty());
                if is_blank && !self.columns[place].title.is_empty() {
                    *width = None;
                }
            }
        }
        let mut order: Vec<usize> = (0..self.columns.len()).collect();
        order.sort_by_key(|place| std::cmp::Reverse(self.columns[*place].rank));
        for place in &order {
            let over = total(&widths).saturating_sub(room);
            if let Some(width) = widths[*place] {
                let least = self.columns[*place].min(width);
                widths[*place] = Some(width.saturating_sub(over).max(least));
            }
        }
        for place in order {
            if total(&widths) > room && widths.iter().flatten().count() > 1 {
                widths[place] = None;
                // Columns that were cut before get the space that is free now.
                widths = self.grow(widths, room);
            }
        }
        widths
    }

    fn grow(&self, mut widths: Vec<Option<usize>>, room: usize) -> Vec<Option<usize>> {
        for (place, column) in self.columns.iter().enumerate() {
            let free = room.saturating_sub(total(&widths));
            if let Some(width) = widths[place] {
                let natural = self.rows.iter().map(|row| row[place].text.width()).max().unwrap_or(0);
                let natural = natural.max(column.title.width());
                widths[place] = Some((width + free).min(natural).max(width));
            }
        }
        widths
    }

    fn render_row(&self, cells: &[Cell], widths: &[Option<usize>], paint: Paint, text: &mut String) {
        let shown: Vec<_> = cells.iter().zip(&self.columns).zip(widths).collect();
        let shown: Vec<_> = shown.into_iter().filter_map(|(cell, width)| Some((cell, (*width)?))).collect();
        let count = shown.len();
        let mut line = String::new();
        for (place, ((cell, column), width)) in shown.into_iter().enumerate() {
            let cut = match column.gives {
                Yield::Middle(_) => cut_middle(&cell.text, width),
                Yield::Whole | Yield::End(_) => cut_end(&cell.text, width),
            };
            let blank = " ".repeat(width.saturating_sub(cut.width()));
            let painted = paint.paint(&cut, cell.colour);
            let is_last = place + 1 == count;
            match (column.is_right, is_last) {
                (true, _) => {
                    let _always_fits = write!(line, "{blank}{painted}");
                }
                (false, true) => line.push_str(&painted),
                (false, false) => {
                    let _always_fits = write!(line, "{painted}{blank}");
                }
            }
            if !is_last {
                line.push_str(&" ".repeat(GAP));
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

fn total(widths: &[Option<usize>]) -> usize {
    let count = widths.iter().flatten().count();
    widths.iter().flatten().sum::<usize>() + GAP * count.saturating_sub(1)
}

/// The width for text; None if the output is not a terminal. `COLUMNS` takes precedence.
pub(crate) fn terminal_width() -> Option<usize> {
    let given =
        std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok()).filter(|columns| *columns > 0);
    given.or_else(|| {
        let is_terminal = std::io::stdout().is_terminal();
        let size = is_terminal.then(|| terminal_size::terminal_size_of(std::io::stdout())).flatten();
        size.map(|(terminal_size::Width(width), _)| usize::from(width)).filter(|width| *width > 0)
    })
}

/// Cuts the end of the text to fit `width` columns.
pub(crate) fn cut_end(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut cut = head(text, width.saturating_sub(1)).to_owned();
    if width > 0 {
        cut.push('…');
    }
    cut
}

/// Cuts the middle of the text to fit `width` columns; keeps more of the start than of the end.
pub(crate) fn cut_middle(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let tail_width = (width.saturating_sub(1) / 3).min(4);
    let reversed: String = text.chars().rev().collect();
    let tail: String = head(&reversed, tail_width).chars().rev().collect();
    let head = head(text, width.saturating_sub(1 + tail.width()));
    if width == 0 { String::new() } else { format!("{head}…{tail}") }
}

/// The longest prefix that fits.
fn head(text: &str, width: usize) -> &str {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += c.width().unwrap_or(0);
        if used > width {
            return &text[..at];
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new(vec![
            Column::new("ID", 0).cut_middle(18),
            Column::new("STATE", 1),
            Column::new("TRIES", 4).right(),
            Column::new("WHY", 3).cut(8),
        ]);
        let id = "01990000-0000-4000-8000-00000000abcd";
        table.row(vec![
            id.into(),
            Cell::state(JobState::Failed),
            "3".into(),
            "the payload has no field `to`\n漢".into(),
        ]);
        table.row(vec![id.into(), Cell::state(JobState::Completed), "12".into(), "".into()]);
        table
    }

    #[test]
    fn a_column_that_says_nothing_goes_before_anything_is_cut() {
        let mut table = Table::new(vec![Column::new("NAME", 0).cut(4), Column::new("HELD", 1).cut(4)]);
        table.row(vec!["a name that fits well".into(), "".into()]);
        assert_eq!(table.render(Some(24), Paint::plain()), "NAME\na name that fits well\n");
        assert!(table.render(Some(30), Paint::plain()).starts_with("NAME                   HELD\n"));
    }

    #[test]
    fn columns_are_chosen_by_title_and_printed_in_that_order() {
        let only =
            |titles: &[&str]| sample().only(&titles.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(only(&["state", "tries"]).unwrap().csv(), "state,tries\nfailed,3\ncompleted,12\n");
        assert_eq!(only(&[]).unwrap().csv().lines().next(), Some("id,state,tries,why"));
        let problem = only(&["age"]).unwrap_err().to_string();
        assert!(problem.contains("`age`") && problem.contains("id, state, tries, why"), "{problem}");
    }

    #[test]
    fn without_bounds_nothing_is_cut() {
        let text = sample().render(None, Paint::plain());
        assert!(
            text.contains("01990000-0000-4000-8000-00000000abcd  failed         3  the payload"),
            "{text}"
        );
        assert!(text.contains("`to`\\n漢\n"), "{text}");
    }

    #[test]
    fn every_row_is_one_line_that_fits_at_any_width() {
        for room in 1..150 {
            let text = sample().render(Some(room), Paint::plain());
            assert_eq!(text.lines().count(), 3, "{room}:\n{text}");
            for line in text.lines() {
                assert!(line.width() <= room.max(WIDTH_MIN), "{room}: {line}");
            }
        }
    }

    #[test]
    fn what_matters_least_gives_way_first() {
        let at = |room| sample().render(Some(room), Paint::plain());
        assert!(
            at(75).contains("01990000-0000-4000-8000-00000000abcd") && at(75).contains('…'),
            "{}",
            at(75)
        );
        assert!(at(48).contains("01990000-000") && at(48).contains("…abcd"), "{}", at(48));
        assert!(!at(40).contains("TRIES") && at(40).contains("WHY"), "{}", at(40));
        assert!(at(30).contains("ID") && at(30).contains("STATE") && !at(30).contains("WHY"), "{}", at(30));
    }

    #[test]
    fn texts_are_cut_by_columns_and_not_by_letters() {
        assert_eq!(cut_end("漢字漢字", 5), "漢字…");
        assert_eq!(cut_end("漢字", 4), "漢字");
        assert_eq!(cut_end("abc", 0), "");
        assert_eq!(cut_middle("0123456789abcdef", 9), "012345…ef");
        assert_eq!(cut_middle("0123456789abcdef", 14), "012345678…cdef");
    }

    #[test]
    fn colour_does_not_count_as_width() {
        let painted = sample().render(Some(60), Paint::always());
        let plain = sample().render(Some(60), Paint::plain());
        let stripped = painted.split('\x1b').enumerate().map(|(place, part)| match place {
            0 => part,
            _ => part.split_once('m').unwrap().1,
        });
        assert_eq!(stripped.collect::<String>(), plain);
        assert!(painted.contains("\x1b[31mfailed\x1b[0m"));
    }
}
