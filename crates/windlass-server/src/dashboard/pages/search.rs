//! The search box: a text that may be an id or a part of one, a name, a state, a tag, a correlation id or an error. An
//! unambiguous match redirects there; otherwise a page shows the query and similar names.

pub(in crate::dashboard) mod search_jobs;

use std::collections::BTreeSet;

use askama::Template;
use axum::response::{IntoResponse, Redirect, Response};
use windlass::error::StoreError;
use windlass::job::JobId;
use windlass::store::{Config, Filter, ListRequest, Order, PauseScope, Stats};

use crate::dashboard::page::{Layout, PageError, show};
use crate::dashboard::pages::search::search_jobs::IdPart;
use crate::dashboard::parts::failure::Group;
use crate::dashboard::parts::format::line;
use crate::dashboard::requests::context::PageContext;
use crate::dashboard::requests::form::{address, segment};
use crate::dashboard::requests::middleware::Visitor;
use crate::dashboard::{Dashboard, pages::limits};

/// A named object and its link.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NamedLink {
    kind: &'static str,
    name: String,
    link: String,
}

#[derive(Template)]
#[template(path = "search.html")]
struct NoMatch {
    layout: Layout,
    text: String,
    alike: Vec<NamedLink>,
    /// Errors that contain the text.
    groups: Vec<Group>,
    has_more: bool,
    /// The list of jobs with this correlation id, which may not have been searched.
    correlation: String,
}

/// `GET /jobs?q=`: the target of a search.
pub(in crate::dashboard) async fn search(
    context: &PageContext,
    text: &str,
    stats: &Stats,
) -> Result<Response, PageError> {
    let PageContext { board, visitor, config, .. } = context;
    if let Some(link) = exact(board, visitor, text, (stats, config)).await? {
        return Ok(Redirect::to(&link).into_response());
    }
    let mut alike = alike(text, stats, config);
    let mut groups = search_jobs::errors(board, visitor, text).await?;
    if let ([one], []) = (alike.as_slice(), groups.as_slice()) {
        return Ok(Redirect::to(&one.link).into_response());
    }
    let has_more = alike.len() > limits::NAMES_ALIKE_SHOWN;
    alike.truncate(limits::NAMES_ALIKE_SHOWN);
    groups.truncate(limits::GROUPS_SHOWN);
    let page = NoMatch {
        layout: Layout { live: String::new(), ..context.layout("jobs", "Search") },
        text: line(text, 200),
        alike,
        groups,
        has_more,
        correlation: address("/jobs", [("correlation_id", text.to_owned())]),
    };
    show(&page)
}

/// The target of a text that is the exact name of an object.
async fn exact(
    board: &Dashboard,
    visitor: &Visitor,
    text: &str,
    (stats, config): (&Stats, &Config),
) -> Result<Option<String>, StoreError> {
    let list = |name: &'static str| Some(address("/jobs", [(name, text.to_owned())]));
    let id: Option<JobId> = text.parse().ok();
    if let Some(id) = id
        && board.store().get(&visitor.caller, id).await?.is_some()
    {
        return Ok(Some(format!("/jobs/{id}")));
    }
    if let Some(found) = named(stats, config).find(|found| found.name == text || is_worker(found, text)) {
        return Ok(Some(found.link));
    }
    if let Some(state) = search_jobs::state_of(text) {
        return Ok(Some(address("/jobs", [("state", state.as_str().to_owned())])));
    }
    if let Some(link) = by_field(text) {
        return Ok(Some(link));
    }
    // Ids of other systems look like ours: an id that is not a job's is probably a correlation id.
    if has_correlation(board, visitor, text).await? {
        return Ok(list("correlation_id"));
    }
    let is_part = text.len() >= 6 && text.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    if is_part && id.is_none() && search_jobs::has_prefix(board, visitor, text).await? {
        return Ok(list("id"));
    }
    if let Some(part) = IdPart::read(text)
        && let Some(id) = search_jobs::by_part(board, visitor, &part).await?
    {
        return Ok(Some(format!("/jobs/{id}")));
    }
    Ok(if text.contains(':') { list("tag") } else { None })
}

/// A filter such as `state:failed` or `queue:mail`; any other `name:value` is a tag.
fn by_field(text: &str) -> Option<String> {
    let (name, value) = text.split_once(':')?;
    let (name, value) = match (name.trim().to_lowercase().as_str(), value.trim()) {
        (_, "") => return None,
        ("state", value) => ("state", search_jobs::state_of(value)?.as_str().to_owned()),
        ("type", value) => ("type", value.to_owned()),
        ("queue", value) => ("queue", value.to_owned()),
        ("tenant", value) => ("tenant", value.to_owned()),
        ("owner", value) => ("owner", value.to_owned()),
        ("id", value) => ("id", value.to_owned()),
        ("correlation" | "correlation_id", value) => ("correlation_id", value.to_owned()),
        _ => return None,
    };
    Some(address("/jobs", [(name, value)]))
}

fn is_worker(found: &NamedLink, text: &str) -> bool {
    found.kind == "worker" && found.link.strip_prefix("/workers/") == Some(text)
}

/// Whether a job has this correlation id; uses an index.
async fn has_correlation(board: &Dashboard, visitor: &Visitor, text: &str) -> Result<bool, StoreError> {
    let filter = Filter { correlation_id: Some(text.to_owned()), ..Filter::default() };
    let request = ListRequest { filter, order: Order::Newest, cursor: None, limit: 1 };
    Ok(!board.store().list(&visitor.caller, request).await?.jobs.is_empty())
}

/// All named objects.
fn named<'a>(stats: &'a Stats, config: &'a Config) -> impl Iterator<Item = NamedLink> + 'a {
    let list = |kind: &'static str, name: &str| {
        let link = address("/jobs", [(kind, name.to_owned())]);
        NamedLink { kind, name: name.to_owned(), link }
    };
    let types = stats.types.keys().map(move |name| list("type", name.as_str()));
    let queues = stats.queues.keys().map(move |name| list("queue", name.as_str()));
    let tenants = stats.tenants.keys().map(move |name| list("tenant", name.as_str()));
    let workers = config.workers.values().filter(|worker| !worker.name.is_empty()).map(|worker| NamedLink {
        kind: "worker",
        name: worker.name.clone(),
        link: format!("/workers/{}", worker.id),
    });
    // A queue without jobs that is configured or paused has a page.
    let paused = config.pauses.keys().filter_map(|scope| match scope {
        PauseScope::Queue { queue, .. } => Some(queue),
        _ => None,
    });
    let set: BTreeSet<_> = config.queues.keys().map(|(name, _)| name).chain(paused).collect();
    let set = set.into_iter().filter(|name| !stats.queues.contains_key(*name)).map(|name| NamedLink {
        kind: "queue",
        name: name.to_string(),
        link: format!("/queues/{}", segment(name.as_str())),
    });
    types.chain(queues).chain(set).chain(tenants).chain(workers)
}

/// Similar names: first those that start with the text, then those that contain it.
fn alike(text: &str, stats: &Stats, config: &Config) -> Vec<NamedLink> {
    let text = text.to_lowercase();
    let (mut first, mut later) = (Vec::new(), Vec::new());
    for found in named(stats, config) {
        match found.name.to_lowercase().find(&text) {
            Some(0) => first.push(found),
            Some(_) => later.push(found),
            None => {}
        }
    }
    first.append(&mut later);
    first
}
