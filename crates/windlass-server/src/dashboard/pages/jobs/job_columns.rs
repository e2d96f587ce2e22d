//! The columns of the job list: which ones a visitor chose, their heads and their cells. Numbers are sorted within the page;
//! the whole list has the orders that an index has.

use std::fmt;

use windlass::clock::Timestamp;
use windlass::job::{JobRecord, JobState};
use windlass::store::Snapshot;

use crate::dashboard::pages::limits;
use crate::dashboard::parts::format::{Moment, line};
use crate::dashboard::parts::job_row::Row;

/// A column that can be left out. Id, state and type are always there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::dashboard) enum JobColumn {
    Queue,
    Priority,
    Attempt,
    Ran,
    Submitted,
    Ended,
    Owner,
    Correlation,
    Payload,
    Tags,
    /// The value of one tag.
    Tag(String),
}

/// Those without a name of their own, in the order of the table.
pub(in crate::dashboard) const FIXED: [JobColumn; 10] = [
    JobColumn::Queue,
    JobColumn::Priority,
    JobColumn::Attempt,
    JobColumn::Ran,
    JobColumn::Submitted,
    JobColumn::Ended,
    JobColumn::Owner,
    JobColumn::Correlation,
    JobColumn::Tags,
    JobColumn::Payload,
];

impl JobColumn {
    /// Its name in addresses and cookies.
    pub(in crate::dashboard) fn name(&self) -> String {
        match self {
            JobColumn::Queue => "queue".to_owned(),
            JobColumn::Priority => "priority".to_owned(),
            JobColumn::Attempt => "attempt".to_owned(),
            JobColumn::Ran => "ran".to_owned(),
            JobColumn::Submitted => "submitted".to_owned(),
            JobColumn::Ended => "ended".to_owned(),
            JobColumn::Owner => "owner".to_owned(),
            JobColumn::Correlation => "correlation_id".to_owned(),
            JobColumn::Payload => "payload".to_owned(),
            JobColumn::Tags => "tags".to_owned(),
            JobColumn::Tag(name) => format!("tag:{name}"),
        }
    }

    fn parse(word: &str) -> Option<JobColumn> {
        if let Some(name) = word.strip_prefix("tag:") {
            let is_fit = !name.is_empty() && name.chars().count() <= windlass::limits::TAG_NAME_CHARS_MAX;
            return is_fit.then(|| JobColumn::Tag(name.to_owned()));
        }
        FIXED.into_iter().find(|column| column.name() == word)
    }

    /// Its head.
    pub(in crate::dashboard) fn label(&self) -> String {
        match self {
            JobColumn::Correlation => "Correlation id".to_owned(),
            JobColumn::Tag(name) => name.clone(),
            column => {
                let word = column.name();
                word[..1].to_uppercase() + &word[1..]
            }
        }
    }

    fn class(&self) -> &'static str {
        match self {
            JobColumn::Priority => "n prio minor",
            JobColumn::Attempt => "n minor",
            JobColumn::Ran => "n",
            JobColumn::Submitted | JobColumn::Ended => "nowrap",
            JobColumn::Payload => "data",
            _ => "",
        }
    }

    /// Whether jobs of a page can be sorted by it.
    fn is_number(&self) -> bool {
        matches!(self, JobColumn::Priority | JobColumn::Attempt | JobColumn::Ran | JobColumn::Ended)
    }
}

/// The chosen columns in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::dashboard) struct Columns(Vec<JobColumn>);

impl Default for Columns {
    fn default() -> Columns {
        Columns(FIXED[..5].to_vec())
    }
}

/// Words with commas between them; a comma in the name of a tag is `%2C`.
impl fmt::Display for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self
            .0
            .iter()
            .map(|column| column.name().replace('%', "%25").replace(',', "%2C").replace(' ', "%20"));
        f.write_str(&words.collect::<Vec<_>>().join(","))
    }
}

impl Columns {
    /// Reads columns; words that are unknown or repeated are left out. The default ones if nothing remains.
    pub(in crate::dashboard) fn parse(text: &str) -> Columns {
        let plain = |word: &str| word.replace("%20", " ").replace("%2C", ",").replace("%25", "%");
        Columns::from_words(text.split(',').map(plain))
    }

    /// The columns of these names, up to their bound.
    pub(in crate::dashboard) fn from_words(words: impl Iterator<Item = String>) -> Columns {
        let mut found: Vec<JobColumn> = Vec::new();
        for column in words.filter_map(|word| JobColumn::parse(&word)) {
            if !found.contains(&column) && found.len() < limits::COLUMNS_MAX {
                found.push(column);
            }
        }
        if found.is_empty() { Columns::default() } else { Columns(found) }
    }

    pub(in crate::dashboard) fn iter(&self) -> impl Iterator<Item = &JobColumn> {
        self.0.iter()
    }

    pub(in crate::dashboard) fn has(&self, column: &JobColumn) -> bool {
        self.0.contains(column)
    }

    /// The names of tags that have a column.
    pub(in crate::dashboard) fn tags(&self) -> String {
        let names = self.0.iter().filter_map(|column| match column {
            JobColumn::Tag(name) => Some(name.as_str()),
            _ => None,
        });
        names.collect::<Vec<_>>().join(", ")
    }
}

/// How the jobs of a page are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::dashboard) struct PageSort<'a> {
    /// `sort` of the address: `ran`, or `ran.up` for the smallest first.
    pub(in crate::dashboard) wanted: &'a str,
}

impl PageSort<'_> {
    fn key(self) -> (Option<JobColumn>, bool) {
        let (word, is_up) = self.wanted.strip_suffix(".up").map_or((self.wanted, false), |word| (word, true));
        (JobColumn::parse(word).filter(JobColumn::is_number), is_up)
    }

    /// The column that is sorted by, if it is one that can be.
    pub(in crate::dashboard) fn column(self) -> Option<JobColumn> {
        self.key().0
    }

    /// Sorts the jobs of a page, the largest first; jobs without the number come last, equal ones stay in their order.
    pub(in crate::dashboard) fn sort(self, jobs: &mut [Snapshot], now: Timestamp) {
        let (Some(column), is_up) = self.key() else { return };
        jobs.sort_by(|a, b| {
            let (a, b) = (number(&column, &a.job, now), number(&column, &b.job, now));
            match (a, b) {
                (Some(a), Some(b)) if is_up => a.cmp(&b),
                (Some(a), Some(b)) => b.cmp(&a),
                (a, b) => b.is_some().cmp(&a.is_some()),
            }
        });
    }
}

/// What a job is sorted by.
fn number(column: &JobColumn, job: &JobRecord, now: Timestamp) -> Option<i64> {
    match column {
        JobColumn::Priority => Some(i64::from(job.effective_priority().value())),
        JobColumn::Attempt => Some(i64::from(job.attempt)),
        JobColumn::Ended => job.completed_at.map(Timestamp::as_millis),
        JobColumn::Ran => {
            let end = match job.state {
                JobState::Running => Some(now),
                JobState::Completed | JobState::Failed | JobState::DeadLetter => job.completed_at,
                _ => None,
            };
            Some(end?.as_millis() - job.started_at?.as_millis())
        }
        _ => None,
    }
}

/// The head of a column.
pub(in crate::dashboard) struct Head {
    pub(in crate::dashboard) class: &'static str,
    pub(in crate::dashboard) label: String,
    /// Where a click leads, if the column can be sorted.
    pub(in crate::dashboard) link: Option<String>,
    /// `ascending` or `descending`; empty if it is not sorted by it.
    pub(in crate::dashboard) order: &'static str,
    pub(in crate::dashboard) title: &'static str,
}

/// The heads; `at` is the address of this page with a `sort`, `by_time` the link and the order of the column of submission,
/// by which the whole list is sorted.
pub(in crate::dashboard) fn heads(
    columns: &Columns,
    sort: PageSort<'_>,
    at: impl Fn(String) -> String,
    by_time: &(String, &'static str),
) -> Vec<Head> {
    let (sorted, is_up) = sort.key();
    let head = |column: &JobColumn| {
        let is_own = sorted.as_ref() == Some(column);
        let next = if is_own && !is_up { format!("{}.up", column.name()) } else { column.name() };
        let (link, order, title) = match column {
            JobColumn::Submitted if sorted.is_none() => (Some(by_time.0.clone()), by_time.1, ""),
            JobColumn::Submitted => (Some(by_time.0.clone()), "", ""),
            column if column.is_number() => {
                let order = if is_up { "ascending" } else { "descending" };
                (Some(at(next)), if is_own { order } else { "" }, "sorts the jobs of this page")
            }
            _ => (None, "", ""),
        };
        Head { class: column.class(), label: column.label(), link, order, title }
    };
    columns.iter().map(head).collect()
}

/// A cell of a row.
#[derive(Default)]
pub(in crate::dashboard) struct Cell {
    pub(in crate::dashboard) class: &'static str,
    /// Shown beside the value on a narrow screen; empty if the value speaks for itself.
    pub(in crate::dashboard) label: String,
    pub(in crate::dashboard) text: String,
    pub(in crate::dashboard) title: String,
    pub(in crate::dashboard) time: Option<Moment>,
    pub(in crate::dashboard) link: Option<String>,
}

/// The cells of a job. `queue_link` leads to the jobs of its queue.
pub(in crate::dashboard) fn cells(
    columns: &Columns,
    snapshot: &Snapshot,
    row: &Row,
    queue_link: Option<&String>,
    now: Timestamp,
) -> Vec<Cell> {
    let (job, metadata) = (&snapshot.job, &snapshot.spec.metadata);
    let cell = |column: &JobColumn| {
        let empty = Cell { class: column.class(), label: column.label(), ..Cell::default() };
        match column {
            JobColumn::Queue => Cell { text: row.queue.clone(), link: queue_link.cloned(), ..empty },
            JobColumn::Priority => Cell {
                label: String::new(),
                text: row.priority.to_string(),
                title: row.priority_name.to_owned(),
                ..empty
            },
            JobColumn::Attempt => Cell { label: String::new(), text: row.attempts.clone(), ..empty },
            JobColumn::Ran => {
                let label = if row.ran.is_some() { empty.label } else { String::new() };
                Cell { text: row.ran.clone().unwrap_or_default(), label, ..empty }
            }
            JobColumn::Submitted => Cell { label: String::new(), time: Some(row.created.clone()), ..empty },
            JobColumn::Ended => Cell { time: job.completed_at.map(|at| Moment::new(at, now)), ..empty },
            JobColumn::Owner => Cell { text: snapshot.spec.owner.clone(), ..empty },
            JobColumn::Correlation => {
                Cell { text: metadata.correlation_id.clone().unwrap_or_default(), ..empty }
            }
            JobColumn::Payload => Cell { text: payload(snapshot), ..empty },
            JobColumn::Tags => {
                let all = metadata.tags.iter().map(|(name, value)| format!("{name}:{value}"));
                Cell { text: line(&all.collect::<Vec<_>>().join(" "), limits::CELL_CHARS), ..empty }
            }
            JobColumn::Tag(name) => {
                Cell { text: metadata.tags.get(name).cloned().unwrap_or_default(), ..empty }
            }
        }
    };
    columns.iter().map(cell).collect()
}

/// The beginning of a payload, if the visitor may read it.
fn payload(snapshot: &Snapshot) -> String {
    if snapshot.is_redacted {
        return "hidden".to_owned();
    }
    let bytes = &snapshot.spec.payload.bytes;
    match std::str::from_utf8(&bytes[..bytes.len().min(4 * limits::CELL_CHARS)]) {
        Ok(text) => line(text, limits::CELL_CHARS),
        Err(error) if error.valid_up_to() > 0 => {
            let text = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            line(&text, limits::CELL_CHARS)
        }
        Err(_) => format!("{} bytes", bytes.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_read_back_and_unknown_ones_left_out() {
        let chosen = Columns::parse("payload,queue,nonsense,payload,tag:a%2Cb%20%25,tag:");
        assert_eq!(chosen.to_string(), "payload,queue,tag:a%2Cb%20%25");
        assert_eq!(chosen.tags(), "a,b %");
        assert_eq!(Columns::parse(&chosen.to_string()), chosen);
        assert_eq!(Columns::parse(""), Columns::default());
        let many: Vec<String> = (0..100).map(|number| format!("tag:t{number}")).collect();
        assert_eq!(Columns::parse(&many.join(",")).iter().count(), limits::COLUMNS_MAX);
    }

    #[test]
    fn heads_sort_this_page_or_the_whole_list() {
        let of = |wanted: &'static str| {
            let at = |sort: String| format!("/jobs?sort={sort}");
            heads(&Columns::default(), PageSort { wanted }, at, &("/jobs?order=oldest".into(), "descending"))
        };
        let find =
            |heads: Vec<Head>, label: &str| heads.into_iter().find(|head| head.label == label).unwrap();
        assert_eq!(find(of(""), "Ran").link.as_deref(), Some("/jobs?sort=ran"));
        assert_eq!(find(of("ran"), "Ran").link.as_deref(), Some("/jobs?sort=ran.up"));
        assert_eq!(
            (find(of("ran"), "Ran").order, find(of("ran.up"), "Ran").order),
            ("descending", "ascending")
        );
        assert_eq!((find(of(""), "Submitted").order, find(of("ran"), "Submitted").order), ("descending", ""));
        assert_eq!((find(of(""), "Queue").link, find(of("queue"), "Queue").order), (None, ""));
    }
}
