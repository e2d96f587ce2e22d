//! Small pieces of markup that stand on many pages: a state, a moment, a link to a job. They are made of what the system
//! itself wrote, never of what a user gave, and so may go into a page as they are.

use std::fmt;

use askama::filters::HtmlSafe;
use windlass::audit::Severity;
use windlass::job::{JobId, JobState, Priority};

use crate::dashboard::parts::format::{Moment, short};

/// A state as a coloured word.
#[derive(Debug, Clone, Copy)]
pub(in crate::dashboard) struct Pill(pub(in crate::dashboard) JobState);

impl fmt::Display for Pill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.0.as_str();
        write!(f, r#"<span class="pill st-{word}">{}</span>"#, word.replace('_', " "))
    }
}

impl HtmlSafe for Pill {}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, r#"<time datetime="{0}" title="{0}">{1}</time>"#, self.iso, self.text)
    }
}

impl HtmlSafe for Moment {}

/// A link to a job.
#[derive(Debug, Clone, Copy)]
pub(in crate::dashboard) struct JobLink(pub(in crate::dashboard) JobId);

impl fmt::Display for JobLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.0.to_string();
        write!(f, r#"<a class="id" href="/jobs/{id}" title="{id}">{}</a>"#, short(&id))
    }
}

impl HtmlSafe for JobLink {}

/// How grave a record is.
#[derive(Debug, Clone, Copy)]
pub(in crate::dashboard) struct SeverityMark(pub(in crate::dashboard) Severity);

impl fmt::Display for SeverityMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, r#"<span class="gravity gv-{0}">{0}</span>"#, self.0.as_str())
    }
}

impl HtmlSafe for SeverityMark {}

/// The name of a priority, or of the range it lies in.
pub(in crate::dashboard) fn priority_name(priority: Priority) -> &'static str {
    match priority.value() {
        100 => "critical",
        80..100 => "high",
        50..80 => "normal",
        1..50 => "low",
        _ => "bulk",
    }
}
