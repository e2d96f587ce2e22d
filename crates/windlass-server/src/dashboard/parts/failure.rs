//! Failures grouped by type and error. Numbers and ids in a message differ from job to job for the same error, so messages
//! are compared without them.

use std::collections::BTreeMap;
use std::fmt::Write;

use sha2::{Digest, Sha256};
use windlass::clock::Timestamp;
use windlass::job::JobRecord;

use crate::dashboard::parts::components::JobLink;
use crate::dashboard::parts::format::{Moment, line};

/// Failures of one type with the same error.
pub(in crate::dashboard) struct Group {
    pub(in crate::dashboard) job_type: String,
    pub(in crate::dashboard) category: &'static str,
    pub(in crate::dashboard) code: Option<String>,
    pub(in crate::dashboard) message: String,
    /// Identifies the group, in forms.
    pub(in crate::dashboard) signature: String,
    pub(in crate::dashboard) count: u64,
    pub(in crate::dashboard) last: Moment,
    pub(in crate::dashboard) example: JobLink,
    /// When the latest of them failed.
    pub(in crate::dashboard) last_at: Timestamp,
}

/// The signature of a job's error; None for a job without an error. A digest, since forms may change spaces and line ends.
pub(in crate::dashboard) fn signature(job: &JobRecord) -> Option<String> {
    let error = job.details.error.as_ref()?;
    let code = error.code.as_deref().unwrap_or_default();
    let text = format!("{} {} {}", error.category, code, shape(&line(&error.message, 200)));
    let mut digits = String::new();
    for byte in &Sha256::digest(text)[..8] {
        let _always_fits = write!(digits, "{byte:02x}");
    }
    Some(digits)
}

/// The message without words that contain a digit.
fn shape(message: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let mut shape = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(first) = rest.chars().next() {
        let length =
            if is_part(first) { rest.find(|c| !is_part(c)).unwrap_or(rest.len()) } else { first.len_utf8() };
        let (word, after) = rest.split_at(length);
        rest = after;
        if word.contains(|c: char| c.is_ascii_digit()) { shape.push('#') } else { shape.push_str(word) }
    }
    shape
}

/// Groups jobs by type and error, the largest group first. Redriven jobs are left out.
pub(in crate::dashboard) fn group<'a>(
    jobs: impl IntoIterator<Item = &'a JobRecord>,
    now: Timestamp,
) -> Vec<Group> {
    let mut groups: BTreeMap<(String, String), Group> = BTreeMap::new();
    for job in jobs.into_iter().filter(|job| job.details.superseded_by.is_none()) {
        let (Some(signature), Some(error)) = (signature(job), job.details.error.as_ref()) else { continue };
        let job_type = job.lane.job_type.to_string();
        let fresh = || Group {
            job_type: job_type.clone(),
            category: error.category.as_str(),
            code: error.code.clone(),
            message: line(&error.message, 200),
            signature: signature.clone(),
            count: 0,
            last: Moment::new(error.at, now),
            example: JobLink(job.id),
            last_at: error.at,
        };
        let group = groups.entry((job_type.clone(), signature.clone())).or_insert_with(fresh);
        if error.at > group.last_at {
            *group = Group { count: group.count, ..fresh() };
        }
        group.count += 1;
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    groups.sort_by(|a, b| b.count.cmp(&a.count).then(b.last_at.cmp(&a.last_at)));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_differ_in_ids_and_numbers_are_one() {
        assert_eq!(shape("order 4711 not found"), shape("order 4712 not found"));
        assert_eq!(shape("timeout after 30s on a1b2-c3"), "timeout after # on #");
        assert_ne!(shape("no such user"), shape("no such order"));
        assert_eq!(shape("größe 5 µ"), "größe # µ");
    }
}
