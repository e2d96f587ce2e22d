//! Queues: depth, age, throughput, pauses and settings.

pub(in crate::dashboard) mod limit_preview;
pub(in crate::dashboard) mod queue_settings;

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use windlass::clock::Timestamp;
use windlass::job::{JobState, QueueName};
use windlass::store::caller::Permission;
use windlass::store::{
    ByState, Config, Filter, HistorySubject, ListRequest, ObjectName, Order, PauseMode, PauseScope,
    PauseTarget, QueueInfo,
};

use crate::dashboard::page::{Layout, PageError, PauseView, name_in_url, show};
use crate::dashboard::pages::queues::limit_preview::{PreviewView, of_limit};
use crate::dashboard::pages::queues::queue_settings::{QueueSettingsView, limit_of};
use crate::dashboard::parts::chart;
use crate::dashboard::parts::components::Pill;
use crate::dashboard::parts::failure::open::OpenFailures;
use crate::dashboard::parts::format::{Moment, at_most, compact, count, span};
use crate::dashboard::parts::history::HistoryView;
use crate::dashboard::parts::job_row::Row;
use crate::dashboard::parts::pager::{self, Pager};
use crate::dashboard::parts::queue_row::{self, QueueRow, lines};
use crate::dashboard::parts::sorting::Sorting;
use crate::dashboard::requests::context::{FormContext, PageContext};
use crate::dashboard::requests::form::{address, segment};
use crate::dashboard::requests::middleware::Visitor;
use crate::dashboard::requests::resume;
use crate::dashboard::requests::undo::PageAddress;
use crate::dashboard::{Dashboard, pages::limits};

#[derive(Template)]
#[template(path = "queues/queues.html")]
struct QueuesPage {
    layout: Layout,
    sorting: Sorting,
    queues: Vec<QueueRow>,
    total: usize,
    pager: Pager,
    can_pause: bool,
}

/// `GET /queues`
pub(in crate::dashboard) async fn page(context: PageContext) -> Result<Response, PageError> {
    let PageContext { board, visitor, query, .. } = &context;
    let infos = board.store().queues(&visitor.caller).await?;
    let mut layout = context.layout("queues", "Queues");
    let acted = infos.iter().find(|info| query.get("name") == Some(info.name.as_str()));
    layout.done = layout.done.map(|said| match (query.get("done"), acted) {
        (Some("paused"), Some(info)) if info.paused.is_some() => format!("Queue {} is paused.", info.name),
        (Some("unpaused"), Some(info)) if info.paused.is_none() => {
            format!("Queue {} is resumed.", info.name)
        }
        _ => said,
    });
    let (sorting, now) = (Sorting::from_query(query, "/queues", &queue_row::COLUMNS), board.now());
    let sorted = (&sorting, |info: &QueueInfo, column: &str| queue_row::sort_value(info, column, now));
    let infos = pager::sortable(infos, |info| info.name.as_str(), query, ("/queues", "queue"), sorted);
    let page = QueuesPage {
        sorting,
        layout,
        queues: lines(&infos.shown, visitor, &OpenFailures::read(board, visitor).await?, now),
        total: infos.total,
        pager: infos.pager,
        can_pause: visitor.may(Permission::Pause),
    };
    show(&page)
}

/// The number of jobs in a state.
pub(in crate::dashboard) struct Depth {
    pub(in crate::dashboard) pill: Pill,
    pub(in crate::dashboard) count: String,
    pub(in crate::dashboard) link: String,
    /// The number and link of the open ones, if they are not all.
    pub(in crate::dashboard) open: Option<(String, String)>,
}

/// The states that have jobs within a scope, each with its number and a link. Counters do not know which dead letters were
/// redriven, so the open ones are counted up to a limit.
pub(in crate::dashboard) async fn depths(
    board: &Dashboard,
    visitor: &Visitor,
    depth: &ByState,
    part: Filter,
    (name, value): (&'static str, &str),
) -> Result<Vec<Depth>, PageError> {
    let mut found = Vec::new();
    for (state, number) in depth.iter().filter(|(_, number)| **number > 0) {
        let pairs = || [("state", state.as_str().to_owned()), (name, value.to_owned())].into_iter();
        let mut depth = Depth {
            pill: Pill(*state),
            count: compact(*number),
            link: address("/jobs", pairs()),
            open: None,
        };
        if *state == JobState::DeadLetter {
            let open = Filter { states: vec![*state], is_redriven: Some(false), ..part.clone() };
            let open =
                board.store().count_up_to(&visitor.caller, &open, limits::DEAD_LETTERS_COUNTED).await?;
            let text = format!("{}{} open", count(open.jobs), if open.is_all { "" } else { "+" });
            depth.open = Some((text, address("/jobs", pairs().chain([("redriven", "no".to_owned())]))));
        }
        found.push(depth);
    }
    Ok(found)
}

#[derive(Template)]
#[template(path = "queues/queue.html")]
#[allow(clippy::struct_excessive_bools, reason = "independent flags, each with its own name")]
struct QueuePage {
    layout: Layout,
    name: String,
    link: String,
    /// Set if the name is unknown, with similar names.
    unknown: Option<Unknown>,
    paused: Option<PauseView>,
    /// Whether its pause suspended running jobs, which can be resumed with it.
    is_aggressive: bool,
    /// Its last resume.
    resumed: Option<(String, Moment)>,
    /// Whether this visitor can resume it.
    can_resume: bool,
    tenants_pauses: Vec<TenantsPause>,
    depths: Vec<Depth>,
    history: HistoryView,
    oldest: Option<String>,
    waited_half: String,
    waited: String,
    ran_half: String,
    ran: String,
    next: Vec<Row>,
    running: Vec<Row>,
    settings: QueueSettingsView,
    preview: PreviewView,
    can_pause: bool,
    can_configure: bool,
    /// The tenant of these settings; None for those of all tenants.
    tenant: Option<String>,
}

/// An unknown name.
pub(in crate::dashboard) struct Unknown {
    /// Similar known names.
    pub(in crate::dashboard) similar: Vec<String>,
}

impl Unknown {
    /// None if the name is known.
    pub(in crate::dashboard) async fn find(
        board: &Dashboard,
        visitor: &Visitor,
        named: ObjectName,
    ) -> Result<Option<Unknown>, PageError> {
        let known = board.store().known(&visitor.caller, named).await?;
        Ok((!known.is_known).then_some(Unknown { similar: known.similar }))
    }
}

/// A pause that a tenant made for itself.
struct TenantsPause {
    hold: PauseView,
    /// The scope field of the resume form, if the visitor may resume it.
    scope: Option<String>,
}

/// Pauses of a queue that single tenants made for themselves, with how to resume them; for visitors who can see all
/// tenants.
fn tenants_pauses(
    queue: &QueueName,
    visitor: &Visitor,
    config: &Config,
    now: Timestamp,
) -> Vec<TenantsPause> {
    let is_one = |scope: &PauseScope| match scope {
        PauseScope::Queue { queue: of, tenant } => {
            of == queue && tenant.is_some() && visitor.caller.tenant.is_none()
        }
        _ => false,
    };
    let holds = config.pauses.values().filter(|hold| is_one(&hold.scope) && hold.is_active(now));
    let holds = holds.take(limits::GROUPS_SHOWN);
    holds
        .map(|hold| TenantsPause {
            hold: PauseView::new(hold, now),
            scope: resume::scope(hold, visitor, config),
        })
        .collect()
}

/// A queue's name in a URL.
pub(in crate::dashboard) fn name_of(text: &str) -> Result<QueueName, PageError> {
    name_in_url("queue", QueueName::new(text))
}

/// `GET /queues/{name}`
pub(in crate::dashboard) async fn queue_page(
    context: PageContext,
    Path(name): Path<String>,
) -> Result<Response, PageError> {
    let PageContext { board, visitor, query, config } = &context;
    let (store, caller, now) = (board.store(), &visitor.caller, board.now());
    let info: QueueInfo = store.queue(caller, name_of(&name)?).await?;
    let hour = chart::hour(&info.minutes, now);
    let sum = chart::total(&hour);
    let time = |time: Option<std::time::Duration>| time.map_or("–".to_owned(), at_most);
    let jobs = async |state: JobState, order: Order| {
        // Jobs that wait for their concurrency key are not next.
        let is_blocked = (order == Order::Claim).then_some(false);
        let (queue, states) = (Some(info.name.clone()), vec![state]);
        let filter = Filter { queue, states, is_blocked, ..Filter::default() };
        let page = store
            .list(caller, ListRequest { filter, order, cursor: None, limit: limits::GROUPS_SHOWN })
            .await;
        page.map(|page| page.jobs.iter().map(|snapshot| Row::new(snapshot, now)).collect::<Vec<_>>())
    };
    let part = Filter { queue: Some(info.name.clone()), ..Filter::default() };
    let link = format!("/queues/{}", segment(&name));
    let page = QueuePage {
        layout: context.layout("queues", format!("Queue {name}")),
        link: link.clone(),
        unknown: Unknown::find(board, visitor, ObjectName::Queue(info.name.clone())).await?,
        paused: info.paused.as_ref().map(|hold| PauseView::new(hold, now)),
        is_aggressive: info.paused.as_ref().is_some_and(|hold| hold.mode == PauseMode::Aggressive),
        resumed: info.resumed.as_ref().map(|end| (end.by.clone(), Moment::new(end.at, now))),
        can_resume: info.paused.as_ref().is_some_and(|hold| resume::is_theirs(hold, visitor)),
        tenants_pauses: tenants_pauses(&info.name, visitor, config, now),
        depths: depths(board, visitor, &info.depth, part, ("queue", &name)).await?,
        history: HistoryView::load(board, visitor, HistorySubject::Queue(info.name.clone()), &link, query)
            .await?,
        oldest: info.oldest.map(|oldest| span(now.since(oldest))),
        waited_half: time(sum.waited.percentile(0.5)),
        waited: time(sum.waited.percentile(0.95)),
        ran_half: time(sum.ran.percentile(0.5)),
        ran: time(sum.ran.percentile(0.95)),
        next: jobs(JobState::Scheduled, Order::Claim).await?,
        running: jobs(JobState::Running, Order::Newest).await?,
        preview: of_limit(&limit_of(&info.name, caller.tenant.as_ref(), config), &hour),
        settings: QueueSettingsView::new(&info.name, caller.tenant.as_ref(), config),
        can_pause: visitor.may(Permission::Pause),
        can_configure: visitor.may(Permission::Configure),
        tenant: caller.tenant.as_ref().map(ToString::to_string),
        name,
    };
    show(&page)
}

/// `POST /queues/{name}/act`
pub(in crate::dashboard) async fn act(
    Path(name): Path<String>,
    context: FormContext,
) -> Result<Response, PageError> {
    let FormContext { board, visitor, form } = &context;
    let place = if form.get("from") == Some("list") {
        PageAddress::new("/queues", &[("name", &name)])
    } else {
        PageAddress::new(format!("/queues/{}", segment(&name)), &[])
    };
    let done = context.pause_or_resume(&visitor.caller, PauseTarget::Queue(name_of(&name)?), &place).await?;
    if form.get("action") == Some("resume") && form.get("jobs").is_some() {
        let reason = form.text("reason");
        board.store().resume_paused_jobs(&visitor.caller, name_of(&name)?, reason).await?;
    }
    Ok(done)
}
