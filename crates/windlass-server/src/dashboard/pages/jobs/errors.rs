//! Errors by fingerprint, whatever the type: how many jobs are open, since when and how often it happens, which types and
//! versions. What happened comes from stored statistics, which outlive the jobs; what is open, from the newest failures.

use std::collections::{BTreeMap, BTreeSet};

use askama::Template;
use axum::response::{IntoResponse, Redirect, Response};
use windlass::clock::Timestamp;
use windlass::internal::ReadSource;
use windlass::job::{JobId, JobRecord, JobState, JobType, error_pattern, fingerprint};
use windlass::limits::{ERROR_DAYS_KEPT, ERROR_HOURS_KEPT};
use windlass::store::caller::Permission;
use windlass::store::{ErrorStats, Filter, ListRequest, Order};

use crate::dashboard::page::{Layout, PageError, show};
use crate::dashboard::pages::jobs::dead_letters::{FailedJobs, Shown, redrive_group};
use crate::dashboard::pages::limits;
use crate::dashboard::parts::chart;
use crate::dashboard::parts::components::JobLink;
use crate::dashboard::parts::format::{Moment, count, line};
use crate::dashboard::requests::context::{FormContext, PageContext};
use crate::dashboard::requests::form::address;

/// The states whose jobs can be retried as new jobs.
const ENDED: [JobState; 2] = [JobState::Failed, JobState::DeadLetter];

/// Failures with the same fingerprint.
struct ErrorGroup {
    fingerprint: String,
    pattern: String,
    category: &'static str,
    code: Option<String>,
    /// Jobs that failed or wait to retry.
    open: String,
    /// Those that ended, and can be retried as new jobs.
    ended: u64,
    /// The latest of those.
    until: String,
    /// Attempts that failed with it, if they are counted.
    failures: Option<String>,
    first: Moment,
    last: Moment,
    trend: Option<Trend>,
    /// Types with a link to their failed jobs.
    types: Vec<(String, String)>,
    types_more: usize,
    versions: Vec<String>,
    example: JobLink,
}

/// How often it happened recently.
struct Trend {
    path: String,
    of: String,
}

#[derive(Template)]
#[template(path = "jobs/errors.html")]
struct ErrorsPage {
    layout: Layout,
    groups: Vec<ErrorGroup>,
    groups_more: usize,
    read: String,
    has_more: bool,
    can_redrive: bool,
    days: i64,
}

/// What is known about a fingerprint: open jobs, the newest first, and statistics. One of them is there.
#[derive(Default)]
struct ErrorData<'a> {
    jobs: Vec<(&'a JobRecord, Timestamp)>,
    stats: Option<ErrorStats>,
}

impl ErrorData<'_> {
    fn last(&self) -> Option<Timestamp> {
        let of_stats = self.stats.as_ref().map(|stats| stats.seen.last);
        of_stats.into_iter().chain(self.jobs.first().map(|(_, at)| *at)).max()
    }
}

/// `GET /errors`
pub(in crate::dashboard) async fn page(context: PageContext) -> Result<Response, PageError> {
    let PageContext { board, visitor, .. } = &context;
    let (store, caller, now) = (board.store(), &visitor.caller, board.now());
    let mut walk = FailedJobs::new(store, caller, &ENDED, None);
    let mut jobs = walk.newest().await?;
    let filter = Filter { states: vec![JobState::Retrying], ..Filter::default() };
    let request = ListRequest { filter, order: Order::Newest, cursor: None, limit: limits::RETRIES_SAMPLED };
    let retrying = store.list(caller, request).await?;
    let has_more = !walk.is_over || retrying.next.is_some();
    jobs.extend(retrying.jobs.into_iter().map(|snapshot| snapshot.job));
    let mut by_error: Vec<_> = collect(&jobs, store.errors(caller).await?).into_iter().collect();
    // Errors with open jobs come first.
    by_error.sort_by_key(|(_, group)| std::cmp::Reverse((group.jobs.len(), group.last())));
    let groups_more = by_error.len().saturating_sub(limits::ERROR_GROUPS_SHOWN);
    by_error.truncate(limits::ERROR_GROUPS_SHOWN);
    let page = ErrorsPage {
        layout: context.layout("errors", "Errors"),
        groups: by_error.iter().filter_map(|(fingerprint, group)| view(fingerprint, group, now)).collect(),
        groups_more,
        read: count(jobs.len() as u64),
        has_more,
        can_redrive: visitor.may(Permission::ManageJob),
        days: ERROR_DAYS_KEPT,
    };
    show(&page)
}

/// Open jobs and statistics by fingerprint.
fn collect(jobs: &[JobRecord], stats: BTreeMap<String, ErrorStats>) -> BTreeMap<String, ErrorData<'_>> {
    let stats = stats
        .into_iter()
        .map(|(fingerprint, stats)| (fingerprint, ErrorData { stats: Some(stats), ..ErrorData::default() }));
    let mut groups: BTreeMap<String, ErrorData<'_>> = stats.collect();
    for job in jobs {
        let Some(error) = job.details.error.as_ref() else { continue };
        groups.entry(fingerprint(error)).or_default().jobs.push((job, error.at));
    }
    for group in groups.values_mut() {
        group.jobs.sort_by_key(|(_, at)| std::cmp::Reverse(*at));
    }
    groups
}

/// The line of the last hours, or of the last days if nothing happened in these hours.
fn trend(stats: &ErrorStats, now: Timestamp) -> Trend {
    let hour = now.as_millis().div_euclid(3_600_000);
    let (counts, now, kept, unit) = if stats.hours.is_empty() {
        (&stats.days, hour.div_euclid(24), ERROR_DAYS_KEPT, "days")
    } else {
        (&stats.hours, hour, ERROR_HOURS_KEPT, "hours")
    };
    let counts: Vec<u64> =
        (now - kept + 1..=now).map(|number| counts.get(&number).copied().unwrap_or(0)).collect();
    let of = format!("{} in the last {kept} {unit}", count(counts.iter().sum()));
    Trend { path: chart::trend(&counts), of }
}

fn view(fingerprint: &str, group: &ErrorData<'_>, now: Timestamp) -> Option<ErrorGroup> {
    let (newest, stats) = (group.jobs.first(), group.stats.as_ref());
    let error = newest.and_then(|(job, _)| job.details.error.as_ref());
    let seen = stats.map(|stats| &stats.seen);
    // What happened within the last second is not counted yet.
    let first_open = group.jobs.last().map(|(_, at)| *at);
    let first = seen.map(|seen| seen.first).into_iter().chain(first_open).min()?;
    let example: JobId = newest.map(|(job, _)| job.id).or(seen.map(|seen| seen.example))?;
    let mut types: BTreeSet<&str> = group.jobs.iter().map(|(job, _)| job.lane.job_type.as_str()).collect();
    types.extend(seen.iter().flat_map(|seen| seen.types.keys().map(JobType::as_str)));
    let link = |name: &str| {
        let open = ("state", "failed,dead_letter,retrying".to_owned());
        address("/jobs", [open, ("type", name.to_owned())])
    };
    let is_ended = |(job, _): &&(&JobRecord, Timestamp)| job.state.is_final();
    let pattern = seen.map(|seen| seen.pattern.clone());
    let pattern = pattern.or_else(|| error.map(|error| error_pattern(&error.message)));
    let category = seen.map(|seen| seen.category).or(error.map(|error| error.category))?;
    let code = seen.map_or_else(|| error.and_then(|error| error.code.clone()), |seen| seen.code.clone());
    Some(ErrorGroup {
        fingerprint: fingerprint.to_owned(),
        pattern: line(&pattern.unwrap_or_default(), 200),
        category: category.as_str(),
        code,
        open: count(group.jobs.len() as u64),
        ended: group.jobs.iter().filter(is_ended).count() as u64,
        until: newest.map(|(_, at)| at.to_string()).unwrap_or_default(),
        failures: seen.map(|seen| count(seen.count)),
        first: Moment::new(first, now),
        last: Moment::new(group.last()?, now),
        trend: stats.map(|stats| trend(stats, now)),
        types_more: types.len().saturating_sub(limits::ERROR_TYPES_SHOWN),
        types: types
            .iter()
            .take(limits::ERROR_TYPES_SHOWN)
            .map(|name| ((*name).to_owned(), link(name)))
            .collect(),
        versions: seen.map(|seen| seen.versions.keys().cloned().collect()).unwrap_or_default(),
        example: JobLink(example),
    })
}

/// `POST /errors/retry`
pub(in crate::dashboard) async fn retry(
    FormContext { board, visitor, form }: FormContext,
) -> Result<Response, PageError> {
    visitor.caller.require(Permission::ManageJob)?;
    let shown = Shown::read(&form)?;
    let (store, caller) = (board.store().clone(), visitor.caller.clone());
    // Runs in its own task, so that the action completes even if the browser disconnects.
    let work = async move { redrive_group(&store, &caller, &shown, &ENDED).await };
    let number = ReadSource::spawn(work).await.expect("redriving jobs does not panic")?;
    Ok(Redirect::to(&format!("/errors?done=redriven&n={number}")).into_response())
}
