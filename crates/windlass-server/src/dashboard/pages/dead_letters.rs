//! Dead letters, grouped by error, with a redrive per group. Dead letters that were redriven already are left out.

use askama::Template;
use axum::extract::State as AxumState;
use axum::response::{IntoResponse, Redirect, Response};
use windlass::Store;
use windlass::clock::Timestamp;
use windlass::error::{ActError, StoreError};
use windlass::job::{JobRecord, JobState, JobType};
use windlass::store::caller::{Caller, Permission};
use windlass::store::command::redrive::Redrive;
use windlass::store::filter::{Filter, Order};
use windlass::store::query::list::{Cursor, ListRequest};
use windlass::store::read_source::ReadSource;

use crate::dashboard::page::{Layout, PageError, show};
use crate::dashboard::parts::failure::{self, Group};
use crate::dashboard::parts::format::count;
use crate::dashboard::requests::form::{Fields, Form, Query, address};
use crate::dashboard::requests::middleware::Visitor;
use crate::dashboard::{Dashboard, pages::limits};

/// A group with a link to its type's dead letters.
struct DeadGroup {
    group: Group,
    link: String,
    count: String,
    /// The time of the latest job on the page: later ones are not redriven with it.
    until: String,
}

#[derive(Template)]
#[template(path = "dead_letters.html")]
struct DeadLetters {
    layout: Layout,
    groups: Vec<DeadGroup>,
    /// Number of dead letters that were not redriven, as far as they were read.
    open: String,
    /// Number of all dead letters, including redriven ones.
    total: String,
    has_more: bool,
    list: String,
    can_redrive: bool,
}

/// Iterates over dead letters that were not redriven, newest first.
struct DeadLettersPage<'a> {
    store: &'a Store,
    caller: &'a Caller,
    job_type: Option<JobType>,
    cursor: Option<Cursor>,
    is_over: bool,
}

impl<'a> DeadLettersPage<'a> {
    fn new(store: &'a Store, caller: &'a Caller, job_type: Option<JobType>) -> DeadLettersPage<'a> {
        DeadLettersPage { store, caller, job_type, cursor: None, is_over: false }
    }

    /// The next ones; an empty result does not mean the end, because the number of jobs read at once is limited.
    async fn next(&mut self) -> Result<Vec<JobRecord>, StoreError> {
        let filter = Filter {
            states: vec![JobState::DeadLetter],
            job_type: self.job_type.clone(),
            is_redriven: Some(false),
            ..Filter::default()
        };
        let (cursor, limit) = (self.cursor, limits::DEAD_LETTERS_PER_READ);
        let request = ListRequest { filter, order: Order::Newest, cursor, limit };
        let page = self.store.list(self.caller, request).await?;
        self.cursor = page.next;
        self.is_over = page.next.is_none();
        Ok(page.jobs.into_iter().map(|snapshot| snapshot.job).collect())
    }
}

/// `GET /dead`
pub(in crate::dashboard) async fn page(
    AxumState(board): AxumState<Dashboard>,
    visitor: Visitor,
    Query(query): Query,
) -> Result<Response, PageError> {
    let (store, caller, now) = (board.store(), &visitor.caller, board.now());
    let config = store.config(caller).await?;
    let total = store.totals(caller).await?.states.get(&JobState::DeadLetter).copied().unwrap_or(0);
    let mut walk = DeadLettersPage::new(store, caller, None);
    let mut letters = Vec::new();
    // A short page took as many reads as a full one: the number of reads is limited.
    for _ in 0..limits::DEAD_LETTERS_SAMPLED / limits::DEAD_LETTERS_PER_READ {
        letters.extend(walk.next().await?);
        if walk.is_over {
            break;
        }
    }
    let list = |job_type: Option<&Group>| {
        let job_type = job_type.map(|group| ("type", group.job_type.clone()));
        let open = [("state", JobState::DeadLetter.as_str().to_owned()), ("redriven", "no".to_owned())];
        address("/jobs", open.into_iter().chain(job_type))
    };
    let groups = failure::group(&letters, now).into_iter().map(|group| DeadGroup {
        link: list(Some(&group)),
        count: count(group.count),
        until: group.last_at.to_string(),
        group,
    });
    let page = DeadLetters {
        layout: Layout::of(&board, &visitor, &config, "dead", "Dead letters").with_flash(&query),
        groups: groups.collect(),
        open: count(letters.len() as u64),
        total: count(total),
        has_more: !walk.is_over,
        list: list(None),
        can_redrive: visitor.may(Permission::ManageJob),
    };
    show(&page)
}

/// A group as shown on the page: no more than that is redriven.
struct Shown {
    job_type: JobType,
    signature: String,
    most: u64,
    until: Timestamp,
}

impl Shown {
    fn read(form: &Fields) -> Result<Shown, PageError> {
        let most = form.need("most")?.parse().map_err(|_| PageError::invalid("most: is not a number"))?;
        let until = form.need("until")?.parse();
        Ok(Shown {
            job_type: JobType::new(form.need("type")?)
                .map_err(|problem| PageError::invalid(format!("type: {problem}")))?,
            signature: form.need("error")?.to_owned(),
            most,
            until: until.map_err(|problem| PageError::invalid(format!("until: {problem}")))?,
        })
    }

    fn has(&self, job: &JobRecord) -> bool {
        let is_seen = job.details.error.as_ref().is_some_and(|error| error.at <= self.until);
        is_seen && failure::signature(job).as_deref() == Some(self.signature.as_str())
    }
}

/// `POST /dead/redrive`
pub(in crate::dashboard) async fn redrive(
    AxumState(board): AxumState<Dashboard>,
    visitor: Visitor,
    Form(form): Form,
) -> Result<Response, PageError> {
    visitor.caller.require(Permission::ManageJob)?;
    let shown = Shown::read(&form)?;
    let (store, caller) = (board.store().clone(), visitor.caller.clone());
    // Runs in its own task, so that the action completes even if the browser disconnects.
    let work = async move { redrive_group(&store, &caller, &shown).await };
    let number = ReadSource::spawn(work).await.expect("redriving jobs does not panic")?;
    Ok(Redirect::to(&format!("/dead?done=redriven&n={number}")).into_response())
}

async fn redrive_group(store: &Store, caller: &Caller, shown: &Shown) -> Result<u64, StoreError> {
    let mut walk = DeadLettersPage::new(store, caller, Some(shown.job_type.clone()));
    let (mut number, mut looked) = (0, 0);
    while !walk.is_over && looked < limits::GROUP_LOOKED_MAX {
        looked += limits::DEAD_LETTERS_PER_READ;
        for job in walk.next().await?.iter().filter(|job| shown.has(job)) {
            if number == shown.most {
                return Ok(number);
            }
            number += u64::from(redrive_first(store, caller, job).await?);
        }
    }
    Ok(number)
}

/// Redrives a job unless it was redriven meanwhile; returns whether it did.
async fn redrive_first(store: &Store, caller: &Caller, job: &JobRecord) -> Result<bool, StoreError> {
    match store.redrive(caller, job.id, Redrive { only_once: true, ..Redrive::default() }).await {
        Ok(_) => Ok(true),
        Err(ActError::Store(error)) => Err(error),
        // Its unique key is taken, or the visitor may not redrive it: continue with the others.
        Err(_) => Ok(false),
    }
}
