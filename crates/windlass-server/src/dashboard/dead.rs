//! Dead letters, grouped by what went wrong, to be redriven group by group. One that was redriven already is left out.

use askama::Template;
use axum::extract::State as AxumState;
use axum::response::{IntoResponse, Redirect, Response};
use windlass::Store;
use windlass::error::{ActError, StoreError};
use windlass::job::{Job, JobType, State};
use windlass::store::caller::{Caller, Permission};
use windlass::store::command::redrive::Redrive;
use windlass::store::filter::{Filter, Order};
use windlass::store::query::list::{Cursor, ListRequest};

use super::failure::{self, Group};
use super::form::{Form, Query, address};
use super::format::count;
use super::guard::Visitor;
use super::page::{Shell, Trouble, show};
use super::{Dashboard, limits};

/// A group with the address of its jobs.
struct DeadGroup {
    group: Group,
    link: String,
    count: String,
}

#[derive(Template)]
#[template(path = "dead.html")]
struct DeadLetters {
    shell: Shell,
    groups: Vec<DeadGroup>,
    total: String,
    open: String,
    is_sampled: bool,
    sampled: String,
    can_redrive: bool,
}

/// Dead letters that nobody has redriven, newest first, as many as are looked at.
async fn open_letters(
    store: &Store,
    caller: &Caller,
    job_type: Option<JobType>,
    looked_max: usize,
) -> Result<(Vec<Job>, bool), StoreError> {
    let mut found = Vec::new();
    let mut cursor: Option<Cursor> = None;
    let mut looked = 0;
    loop {
        let filter =
            Filter { states: vec![State::DeadLetter], job_type: job_type.clone(), ..Filter::default() };
        let limit = limits::DEAD_LETTERS_PER_READ;
        let page = store.list(caller, ListRequest { filter, order: Order::Newest, cursor, limit }).await?;
        // A page of few was as much work as a full one: many had to be looked at.
        looked += limit;
        let open = page.jobs.into_iter().map(|snapshot| snapshot.job);
        found.extend(open.filter(|job| job.details.superseded_by.is_none()));
        cursor = page.next;
        if cursor.is_none() || looked >= looked_max {
            return Ok((found, cursor.is_some()));
        }
    }
}

/// `GET /dead`
pub(super) async fn page(
    AxumState(board): AxumState<Dashboard>,
    visitor: Visitor,
    Query(query): Query,
) -> Result<Response, Trouble> {
    let (store, caller, now) = (board.store(), &visitor.caller, board.now());
    let config = store.config(caller).await?;
    let total = store.totals(caller).await?.states.get(&State::DeadLetter).copied().unwrap_or(0);
    let (letters, is_sampled) = open_letters(store, caller, None, limits::DEAD_LETTERS_SAMPLED).await?;
    let link = |group: &Group| {
        address("/jobs", [("state", "dead_letter".to_owned()), ("type", group.job_type.clone())])
    };
    let groups = failure::group(&letters, now);
    let page = DeadLetters {
        shell: Shell::of(&board, &visitor, &config, "dead", "Dead letters").saying(&query),
        groups: groups
            .into_iter()
            .map(|group| DeadGroup { link: link(&group), count: count(group.count), group })
            .collect(),
        total: count(total),
        open: count(letters.len() as u64),
        is_sampled,
        sampled: count(limits::DEAD_LETTERS_SAMPLED as u64),
        can_redrive: visitor.may(Permission::ManageJob),
    };
    show(&page)
}

/// `POST /dead/redrive`
pub(super) async fn redrive(
    AxumState(board): AxumState<Dashboard>,
    visitor: Visitor,
    Form(form): Form,
) -> Result<Response, Trouble> {
    visitor.caller.must(Permission::ManageJob)?;
    let wrong = |problem| Trouble::invalid(format!("type: {problem}"));
    let job_type = JobType::new(form.need("type")?).map_err(wrong)?;
    let wanted = form.need("signature")?.to_owned();
    let (store, caller) = (board.store().clone(), visitor.caller.clone());
    // In a task of its own: a browser that goes away half-way must not leave half of it undone.
    let work = async move {
        let (letters, _) = open_letters(&store, &caller, Some(job_type), limits::GROUP_REDRIVEN_MAX).await?;
        let mut number: u64 = 0;
        for job in letters.iter().filter(|job| failure::signature(job).as_deref() == Some(wanted.as_str())) {
            match store.redrive(&caller, job.id, Redrive::default()).await {
                Ok(_) => number += 1,
                Err(ActError::Store(error)) => return Err(error),
                // Its unique key is taken, or it is not theirs to redrive: the others still are.
                Err(_) => {}
            }
        }
        Ok::<u64, StoreError>(number)
    };
    let number = tokio::spawn(work).await.expect("redriving jobs does not panic")?;
    Ok(Redirect::to(&format!("/dead?done=redriven&n={number}")).into_response())
}
