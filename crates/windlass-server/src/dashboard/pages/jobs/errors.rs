//! Errors grouped by fingerprint, whatever the type: how many, since when, how it develops, which types and versions.

use std::collections::{BTreeMap, BTreeSet};

use askama::Template;
use axum::response::{IntoResponse, Redirect, Response};
use windlass::clock::Timestamp;
use windlass::job::{JobId, JobRecord, JobState, error_pattern, fingerprint};
use windlass::store::caller::Permission;
use windlass::store::documents::config::Config;
use windlass::store::filter::{Filter, Order};
use windlass::store::query::list::ListRequest;
use windlass::store::read_source::ReadSource;

use crate::dashboard::page::{Layout, PageError, show};
use crate::dashboard::pages::jobs::dead_letters::{FailedJobs, Shown, redrive_group};
use crate::dashboard::parts::chart;
use crate::dashboard::parts::components::JobLink;
use crate::dashboard::parts::format::{Moment, count, line};
use crate::dashboard::requests::context::{FormContext, PageContext};
use crate::dashboard::requests::form::address;
use crate::dashboard::requests::middleware::Visitor;
use crate::dashboard::{Dashboard, pages::limits};

/// The states whose jobs can be retried as new jobs.
const ENDED: [JobState; 2] = [JobState::Failed, JobState::DeadLetter];

/// Failures with the same fingerprint.
struct ErrorGroup {
    fingerprint: String,
    pattern: String,
    category: &'static str,
    code: Option<String>,
    count: String,
    /// Those that ended, and can be retried as new jobs.
    ended: u64,
    first: Moment,
    last: Moment,
    until: String,
    trend: String,
    /// Types with a link to their failed jobs.
    types: Vec<(String, String)>,
    types_more: usize,
    versions: Vec<String>,
    example: JobLink,
}

#[derive(Template)]
#[template(path = "jobs/errors.html")]
struct ErrorsPage {
    layout: Layout,
    groups: Vec<ErrorGroup>,
    groups_more: usize,
    read: String,
    /// How many jobs of an error its versions are from.
    sampled: usize,
    has_more: bool,
    can_redrive: bool,
}

/// What is collected about a fingerprint.
struct Collected<'a> {
    jobs: Vec<(&'a JobRecord, Timestamp)>,
}

/// `GET /errors`
pub(in crate::dashboard) async fn page(context: PageContext) -> Result<Response, PageError> {
    let PageContext { board, visitor, config, .. } = &context;
    let (store, caller, now) = (board.store(), &visitor.caller, board.now());
    let mut walk = FailedJobs::new(store, caller, &ENDED, None);
    let mut jobs = walk.newest().await?;
    let filter = Filter { states: vec![JobState::Retrying], ..Filter::default() };
    let request = ListRequest { filter, order: Order::Newest, cursor: None, limit: limits::RETRIES_SAMPLED };
    let retrying = store.list(caller, request).await?;
    let has_more = !walk.is_over || retrying.next.is_some();
    jobs.extend(retrying.jobs.into_iter().map(|snapshot| snapshot.job));
    let mut by_error = collect(&jobs);
    by_error.sort_by_key(|(_, group)| std::cmp::Reverse((group.jobs.len(), group.jobs[0].1)));
    let groups_more = by_error.len().saturating_sub(limits::ERROR_GROUPS_SHOWN);
    by_error.truncate(limits::ERROR_GROUPS_SHOWN);
    let since = jobs.iter().filter_map(|job| Some(job.details.error.as_ref()?.at)).min().unwrap_or(now);
    let mut groups = Vec::with_capacity(by_error.len());
    for (fingerprint, group) in &by_error {
        let newest = group.jobs.iter().take(limits::ERROR_VERSIONS_SAMPLED).map(|(job, _)| job.id);
        let versions = versions(board, visitor, config, newest.collect()).await?;
        groups.push(view(fingerprint, group, versions, (since, now)));
    }
    let page = ErrorsPage {
        layout: context.layout("errors", "Errors"),
        groups,
        groups_more,
        read: count(jobs.len() as u64),
        sampled: limits::ERROR_VERSIONS_SAMPLED,
        has_more,
        can_redrive: visitor.may(Permission::ManageJob),
    };
    show(&page)
}

/// Jobs by fingerprint, each group newest first.
fn collect(jobs: &[JobRecord]) -> Vec<(String, Collected<'_>)> {
    let mut groups: BTreeMap<String, Collected<'_>> = BTreeMap::new();
    for job in jobs {
        let Some(error) = job.details.error.as_ref() else { continue };
        let group = groups.entry(fingerprint(error)).or_insert_with(|| Collected { jobs: Vec::new() });
        group.jobs.push((job, error.at));
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    for (_, group) in &mut groups {
        group.jobs.sort_by_key(|(_, at)| std::cmp::Reverse(*at));
    }
    groups
}

/// The versions of the workers that ran these jobs last, as far as they are still known.
async fn versions(
    board: &Dashboard,
    visitor: &Visitor,
    config: &Config,
    jobs: Vec<JobId>,
) -> Result<Vec<String>, PageError> {
    let mut found = BTreeSet::new();
    for job in jobs {
        let attempts = board.store().attempts(&visitor.caller, job).await?.unwrap_or_default();
        let worker = attempts.last().and_then(|last| last.record.as_ref()).and_then(|record| record.worker);
        let worker = worker.and_then(|worker| config.workers.get(&worker));
        found.extend(worker.and_then(|worker| worker.version.clone()));
    }
    Ok(found.into_iter().collect())
}

fn view(
    fingerprint: &str,
    group: &Collected<'_>,
    versions: Vec<String>,
    (since, now): (Timestamp, Timestamp),
) -> ErrorGroup {
    let (newest, last) = group.jobs[0];
    let first = group.jobs.last().map_or(last, |(_, at)| *at);
    let error = newest.details.error.as_ref();
    let types: BTreeSet<&str> = group.jobs.iter().map(|(job, _)| job.lane.job_type.as_str()).collect();
    let link = |name: &str| {
        let states = ("state", "failed,dead_letter,retrying".to_owned());
        address("/jobs", [states, ("type", name.to_owned())])
    };
    let is_ended = |(job, _): &&(&JobRecord, Timestamp)| job.state.is_final();
    ErrorGroup {
        fingerprint: fingerprint.to_owned(),
        pattern: error.map_or(String::new(), |error| line(&error_pattern(&error.message), 200)),
        category: error.map_or("", |error| error.category.as_str()),
        code: error.and_then(|error| error.code.clone()),
        count: count(group.jobs.len() as u64),
        ended: group.jobs.iter().filter(is_ended).count() as u64,
        first: Moment::new(first, now),
        last: Moment::new(last, now),
        until: last.to_string(),
        trend: chart::trend(group.jobs.iter().map(|(_, at)| *at), since, now),
        types_more: types.len().saturating_sub(limits::ERROR_TYPES_SHOWN),
        types: types
            .iter()
            .take(limits::ERROR_TYPES_SHOWN)
            .map(|name| ((*name).to_owned(), link(name)))
            .collect(),
        versions,
        example: JobLink(newest.id),
    }
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
