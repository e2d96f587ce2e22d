//! Failures grouped by type and the fingerprint of their error.

pub(in crate::dashboard) mod open;

use std::collections::BTreeMap;

use windlass::clock::Timestamp;
use windlass::job::{JobRecord, error_pattern, fingerprint};

use crate::dashboard::parts::components::JobLink;
use crate::dashboard::parts::format::{Moment, line};

/// Failures of one type with the same error.
pub(in crate::dashboard) struct Group {
    pub(in crate::dashboard) job_type: String,
    pub(in crate::dashboard) category: &'static str,
    pub(in crate::dashboard) code: Option<String>,
    /// The message with numbers, ids and paths masked: what the messages of the group have in common.
    pub(in crate::dashboard) message: String,
    /// The message of the latest.
    pub(in crate::dashboard) sample: String,
    /// Identifies the group, in forms.
    pub(in crate::dashboard) signature: String,
    pub(in crate::dashboard) count: u64,
    pub(in crate::dashboard) last: Moment,
    pub(in crate::dashboard) example: JobLink,
    /// When the latest of them failed.
    pub(in crate::dashboard) last_at: Timestamp,
}

/// The fingerprint of a job's error; None for a job without an error.
pub(in crate::dashboard) fn signature(job: &JobRecord) -> Option<String> {
    job.details.error.as_ref().map(fingerprint)
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
            message: line(&error_pattern(&error.message), 200),
            sample: line(&error.message, 200),
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
    // A single message has nothing in common with others.
    for group in groups.iter_mut().filter(|group| group.count == 1) {
        group.message.clone_from(&group.sample);
    }
    groups.sort_by(|a, b| b.count.cmp(&a.count).then(b.last_at.cmp(&a.last_at)));
    groups
}
