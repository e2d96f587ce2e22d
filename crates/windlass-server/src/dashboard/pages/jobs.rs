//! The job list: filters as chips, a URL that can be shared, and pages that stay consistent while jobs come and go.

pub(in crate::dashboard) mod bulk_confirm;
pub(in crate::dashboard) mod dead_letters;
pub(in crate::dashboard) mod errors;
pub(in crate::dashboard) mod export;
pub(in crate::dashboard) mod graph;
pub(in crate::dashboard) mod job;
pub(in crate::dashboard) mod job_columns;
pub(in crate::dashboard) mod new_job;
pub(in crate::dashboard) mod payload_form;
pub(in crate::dashboard) mod views;

use askama::Template;
use axum::response::{IntoResponse, Redirect, Response};
use windlass::clock::Timestamp;
use windlass::job::JobState;
use windlass::store::caller::{Permission, Role};
use windlass::store::{ByState, Cursor, ListRequest, Order, Snapshot, Stats};

use crate::dashboard::page::{Layout, PageError, show};
use crate::dashboard::pages::jobs::job_columns::{Cell, Columns, Head, PageSort, cells, heads};
use crate::dashboard::pages::jobs::views::{ColumnChoice, ViewList};
use crate::dashboard::pages::search::search;
use crate::dashboard::pages::settings::offered;
use crate::dashboard::parts::filter::{FilterChip, FilterInput, order, order_word};
use crate::dashboard::parts::format::{compact, count};
use crate::dashboard::parts::job_row::Row;
use crate::dashboard::requests::context::PageContext;
use crate::dashboard::requests::form::{Fields, address};
use crate::dashboard::requests::middleware::Visitor;
use crate::dashboard::{Dashboard, pages::limits};

/// A state tab with the number of its jobs.
struct Tab {
    name: String,
    word: &'static str,
    /// The number, if counters know it.
    count: Option<String>,
    link: String,
    is_chosen: bool,
    is_empty: bool,
}

/// A job with links to narrower lists.
struct ListRow {
    row: Row,
    type_link: Option<String>,
    tenant_link: Option<String>,
    cells: Vec<Cell>,
}

impl ListRow {
    fn new(snapshot: &Snapshot, asked: &FilterInput, columns: &Columns, now: Timestamp) -> ListRow {
        let row = Row::new(snapshot, now);
        let queue_link = asked.adding("queue", &row.queue);
        ListRow {
            type_link: asked.adding("type", &row.job_type),
            cells: cells(columns, snapshot, &row, queue_link.as_ref(), now),
            tenant_link: asked.adding("tenant", &row.tenant),
            row,
        }
    }
}

/// A state checkbox.
struct StateFilter {
    word: &'static str,
    name: String,
    is_ticked: bool,
}

#[derive(Template)]
#[template(path = "jobs/jobs.html")]
#[allow(clippy::struct_excessive_bools, reason = "independent flags, each with its own name")]
struct Jobs {
    layout: Layout,
    asked: FilterInput,
    chips: Vec<FilterChip>,
    tabs: Vec<Tab>,
    states: Vec<StateFilter>,
    rows: Vec<ListRow>,
    heads: Vec<Head>,
    /// The column by which the jobs of this page are sorted.
    sorted: Option<String>,
    choice: ColumnChoice,
    views: ViewList,
    types: Vec<String>,
    queues: Vec<String>,
    tenants: Vec<String>,
    order: &'static str,
    order_links: Vec<(&'static str, &'static str, String)>,
    /// The same list as a file: CSV and JSON.
    exports: [(&'static str, String); 2],
    next: Option<String>,
    previous: Option<String>,
    first: Option<String>,
    /// A note on a page that may be incomplete.
    remark: Option<&'static str>,
    /// The number of matching jobs, if counters know it.
    fitting: Option<String>,
    /// Whether the store has no jobs at all.
    is_new: bool,
    can_act: bool,
    can_submit: bool,
    show_tenant: bool,
}

/// `GET /jobs`
pub(in crate::dashboard) async fn page(context: PageContext) -> Result<Response, PageError> {
    let PageContext { board, visitor, query, .. } = &context;
    let (store, caller, now) = (board.store(), &visitor.caller, board.now());
    let stats = store.totals(caller).await?;
    if let Some(text) = query.get("q") {
        return search(&context, text, &stats).await;
    }
    let asked = FilterInput::read(query)?;
    let order = order(query, &asked);
    let pairs =
        || asked.pairs().chain((order != Order::Newest).then(|| ("order", order_word(order).to_owned())));
    let at =
        |name: &'static str, cursor: Cursor| address("/jobs", pairs().chain([(name, cursor.to_string())]));
    if let Some(name) = query.get("view") {
        return views::open(&context, name);
    }
    let mut part = list(board, visitor, &asked, order, query).await?;
    if part.is_first && query.get("before").is_some() {
        return Ok(Redirect::to(&address("/jobs", pairs())).into_response());
    }
    let (columns, sort) =
        (&visitor.preferences.columns, PageSort { wanted: query.get("sort").unwrap_or_default() });
    // The cursors are those of the page before it is sorted.
    let (next, previous) =
        (part.next.map(|cursor| at("cursor", cursor)), part.previous.map(|cursor| at("before", cursor)));
    sort.sort(&mut part.jobs, now);
    let shown = Jobs {
        heads: heads(columns, sort, |sort| page_address(query, pairs(), sort), &by_time(&asked, order)),
        sorted: sort.column().map(|column| column.label().to_lowercase()),
        choice: ColumnChoice::new(columns),
        views: ViewList::new(visitor, pairs()),
        layout: context.layout("jobs", "Jobs"),
        chips: asked.chips(),
        tabs: tabs(&asked, &stats),
        states: state_boxes(&asked),
        rows: part.jobs.iter().map(|snapshot| ListRow::new(snapshot, &asked, columns, now)).collect(),
        types: offered(stats.types.keys()),
        queues: offered(stats.queues.keys()),
        tenants: offered(stats.tenants.keys()),
        order: order_word(order),
        order_links: order_links(&asked),
        exports: [("CSV", "csv"), ("JSON", "json")].map(|(name, format)| {
            (name, address("/jobs/export", pairs().chain([("format", format.to_owned())])))
        }),
        remark: remark(part.jobs.len(), part.next.is_some()),
        next,
        previous,
        first: (!part.is_first).then(|| address("/jobs", pairs())),
        fitting: fitting(&asked, &stats, caller.role).map(count),
        is_new: stats.states.values().all(|number| *number == 0),
        can_act: visitor.may(Permission::ManageJob),
        can_submit: visitor.may(Permission::Submit),
        show_tenant: visitor.caller.tenant.is_none() && stats.tenants.len() > 1,
        asked,
    };
    show(&shown)
}

/// The address of this page, its jobs sorted by a column.
fn page_address<'a>(query: &Fields, pairs: impl Iterator<Item = (&'a str, String)>, sort: String) -> String {
    let place = ["cursor", "before"].into_iter().find_map(|name| Some((name, query.text(name)?)));
    address("/jobs", pairs.chain(place).chain([("sort", sort)]))
}

/// Where a click on the time of submission leads, and how the list is sorted by it.
fn by_time(asked: &FilterInput, order: Order) -> (String, &'static str) {
    let (word, now) = match order {
        Order::Newest => ("oldest", "descending"),
        Order::Oldest => ("newest", "ascending"),
        Order::Claim => ("newest", ""),
    };
    (address("/jobs", asked.pairs().chain([("order", word.to_owned())])), now)
}

fn state_boxes(asked: &FilterInput) -> Vec<StateFilter> {
    let each = JobState::ALL.into_iter().map(|state| StateFilter {
        word: state.as_str(),
        name: state.as_str().replace('_', " "),
        is_ticked: asked.has("state", state.as_str()),
    });
    each.collect()
}

/// A note on a page that may be incomplete.
fn remark(shown: usize, has_more: bool) -> Option<&'static str> {
    let is_early = has_more && shown < limits::JOBS_PER_PAGE;
    is_early.then_some(
        "This page ends early because the scan limit was reached: there may be more matching jobs.",
    )
}

/// The available orders; claim order only for claimable jobs.
fn order_links(asked: &FilterInput) -> Vec<(&'static str, &'static str, String)> {
    let link = |word: &str| address("/jobs", asked.pairs().chain([("order", word.to_owned())]));
    let ready = asked.with_state(Some(JobState::Scheduled));
    vec![
        ("newest", "Newest first", link("newest")),
        ("oldest", "Oldest first", link("oldest")),
        ("claim", "Claim order", format!("{ready}&order=claim")),
    ]
}

/// A page of the list.
struct Part {
    jobs: Vec<Snapshot>,
    /// The cursor of the next page.
    next: Option<Cursor>,
    /// The cursor of the previous page.
    previous: Option<Cursor>,
    is_first: bool,
}

/// The page that a URL selects: after a job, before a job, or the first.
async fn list(
    board: &Dashboard,
    visitor: &Visitor,
    asked: &FilterInput,
    order: Order,
    query: &Fields,
) -> Result<Part, PageError> {
    let cursor = |name: &str| query.get(name).map(str::parse::<Cursor>).transpose();
    let damaged = |_| PageError::invalid("the URL of this page is invalid: start from the first page");
    let (after, before) = (cursor("cursor").map_err(damaged)?, cursor("before").map_err(damaged)?);
    let request = ListRequest { filter: asked.filter()?, order, cursor: after, limit: limits::JOBS_PER_PAGE };
    let Some((before, reverse)) = before.zip(reverse(order)) else {
        let page = board.store().list(&visitor.caller, request).await?;
        let previous = page.jobs.first().filter(|_| after.is_some() && reverse(order).is_some());
        let previous = previous.map(|first| Cursor::after(&first.job));
        return Ok(Part { jobs: page.jobs, next: page.next, previous, is_first: after.is_none() });
    };
    let request = ListRequest { order: reverse, cursor: Some(before), ..request };
    let mut page = board.store().list(&visitor.caller, request).await?;
    page.jobs.reverse();
    // A short page is the first one, which has more jobs when read from the start.
    let is_first = page.next.is_none();
    let previous = page.jobs.first().filter(|_| !is_first).map(|first| Cursor::after(&first.job));
    let next = page.jobs.last().map(|last| Cursor::after(&last.job));
    Ok(Part { jobs: page.jobs, next: next.or(Some(before)), previous, is_first })
}

/// The reverse order; claim order has none.
fn reverse(order: Order) -> Option<Order> {
    match order {
        Order::Newest => Some(Order::Oldest),
        Order::Oldest => Some(Order::Newest),
        Order::Claim => None,
    }
}

/// The number of matching jobs that the visitor may manage, if counters know it.
fn fitting(asked: &FilterInput, stats: &Stats, role: Role) -> Option<u64> {
    let is_known = !role.manages_own_jobs_only() && is_counted(asked);
    let is_any = asked.get("state").is_empty();
    let fits = |state: &JobState| is_any || asked.has("state", state.as_str());
    is_known
        .then(|| counts(asked, stats).iter().filter(|(state, _)| fits(state)).map(|(_, number)| number).sum())
}

/// Whether counters know the number of matches: they count by state within a queue, a type or a tenant.
fn is_counted(asked: &FilterInput) -> bool {
    let parts = ["queue", "type", "tenant"].into_iter().filter(|name| !asked.get(name).is_empty()).count();
    parts <= 1 && asked.is_only(&["state", "queue", "type", "tenant"])
}

/// Counts by state as far as counters know them: within the selected queue, type or tenant.
fn counts(asked: &FilterInput, stats: &Stats) -> ByState {
    let (queue, job_type, tenant) = (asked.get("queue"), asked.get("type"), asked.get("tenant"));
    let found = if !queue.is_empty() {
        stats.queues.iter().find(|(name, _)| name.as_str() == queue).map(|(_, counts)| counts)
    } else if !job_type.is_empty() {
        stats.types.iter().find(|(name, _)| name.as_str() == job_type).map(|(_, counts)| counts)
    } else if !tenant.is_empty() {
        stats.tenants.iter().find(|(name, _)| name.as_str() == tenant).map(|(_, counts)| counts)
    } else {
        Some(&stats.states)
    };
    found.cloned().unwrap_or_default()
}

/// The state tabs.
fn tabs(asked: &FilterInput, stats: &Stats) -> Vec<Tab> {
    let (counts, is_known) = (counts(asked, stats), is_counted(asked));
    let total: u64 = counts.values().sum();
    let all = Tab {
        name: "all".into(),
        word: "all",
        count: is_known.then(|| compact(total)),
        link: asked.with_state(None),
        is_chosen: asked.get("state").is_empty(),
        is_empty: false,
    };
    let each = JobState::ALL.into_iter().map(|state| {
        let number = counts.get(&state).copied().unwrap_or(0);
        // On other pages these words mean jobs that were not retried.
        let stored = if matches!(state, JobState::Failed | JobState::DeadLetter) { ", stored" } else { "" };
        Tab {
            name: format!("{}{stored}", state.as_str().replace('_', " ")),
            word: state.as_str(),
            count: is_known.then(|| compact(number)),
            link: asked.with_state(Some(state)),
            is_chosen: asked.has("state", state.as_str()),
            is_empty: is_known && number == 0,
        }
    });
    [all].into_iter().chain(each).collect()
}
