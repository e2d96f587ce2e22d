//! Dead letters, grouped by error, with a redrive per group. Dead letters that were redriven already are left out.

use askama::Template;
use axum::response::{IntoResponse, Redirect, Response};
use windlass::Store;
use windlass::clock::Timestamp;
use windlass::error::{ActionError, StoreError};
use windlass::internal::ReadSource;
use windlass::job::{JobRecord, JobState, JobType};
use windlass::store::caller::{Caller, Permission};
use windlass::store::{Cursor, Filter, ListRequest, Order, Redrive};

use crate::dashboard::page::{Layout, PageError, show};
use crate::dashboard::pages::limits;
use crate::dashboard::parts::failure::{self, Group};
use crate::dashboard::parts::format::count;
use crate::dashboard::requests::context::{FormContext, PageContext};
use crate::dashboard::requests::form::{Fields, address};

/// A group with a link to its type's dead letters.
struct DeadGroup {
    group: Group,
    link: String,
    count: String,
    /// The time of the latest job on the page: later ones are not redriven with it.
    until: String,
}

#[derive(Template)]
#[template(path = "jobs/dead_letters.html")]
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

/// Iterates over failed jobs that were not redriven, newest first.
pub(in crate::dashboard) struct FailedJobs<'a> {
    store: &'a Store,
    caller: &'a Caller,
    states: Vec<JobState>,
    job_type: Option<JobType>,
    cursor: Option<Cursor>,
    pub(in crate::dashboard) is_over: bool,
}

impl<'a> FailedJobs<'a> {
    pub(in crate::dashboard) fn new(
        store: &'a Store,
        caller: &'a Caller,
        states: &[JobState],
        job_type: Option<JobType>,
    ) -> FailedJobs<'a> {
        FailedJobs { store, caller, states: states.to_vec(), job_type, cursor: None, is_over: false }
    }

    /// The newest, up to the number that a page reads. A short read took as long as a full one, so reads are limited.
    pub(in crate::dashboard) async fn newest(&mut self) -> Result<Vec<JobRecord>, StoreError> {
        let mut found = Vec::new();
        for _ in 0..limits::DEAD_LETTERS_SAMPLED / limits::DEAD_LETTERS_PER_READ {
            found.extend(self.next().await?);
            if self.is_over {
                break;
            }
        }
        Ok(found)
    }

    /// The next ones; an empty result does not mean the end, because the number of jobs read at once is limited.
    pub(in crate::dashboard) async fn next(&mut self) -> Result<Vec<JobRecord>, StoreError> {
        let filter = Filter {
            states: self.states.clone(),
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
pub(in crate::dashboard) async fn page(context: PageContext) -> Result<Response, PageError> {
    let PageContext { board, visitor, .. } = &context;
    let (store, caller, now) = (board.store(), &visitor.caller, board.now());
    let total = store.totals(caller).await?.states.get(&JobState::DeadLetter).copied().unwrap_or(0);
    let mut walk = FailedJobs::new(store, caller, &[JobState::DeadLetter], None);
    let letters = walk.newest().await?;
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
        layout: context.layout("dead", "Dead letters"),
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
pub(in crate::dashboard) struct Shown {
    /// Of all types if not given.
    job_type: Option<JobType>,
    signature: String,
    most: u64,
    until: Timestamp,
}

impl Shown {
    pub(in crate::dashboard) fn read(form: &Fields) -> Result<Shown, PageError> {
        let most = form.need("most")?.parse().map_err(|_| PageError::invalid("most: is not a number"))?;
        let until = form.need("until")?.parse();
        Ok(Shown {
            job_type: form
                .get("type")
                .map(JobType::new)
                .transpose()
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
    FormContext { board, visitor, form }: FormContext,
) -> Result<Response, PageError> {
    visitor.caller.require(Permission::ManageJob)?;
    let shown = Shown::read(&form)?;
    if shown.job_type.is_none() {
        return Err(PageError::invalid("type is required"));
    }
    let (store, caller) = (board.store().clone(), visitor.caller.clone());
    // Runs in its own task, so that the action completes even if the browser disconnects.
    let work = async move { redrive_group(&store, &caller, &shown, &[JobState::DeadLetter]).await };
    let number = ReadSource::spawn(work).await.expect("redriving jobs does not panic")?;
    Ok(Redirect::to(&format!("/dead?done=redriven&n={number}")).into_response())
}

/// Redrives the jobs of a group in these states; returns how many.
pub(in crate::dashboard) async fn redrive_group(
    store: &Store,
    caller: &Caller,
    shown: &Shown,
    states: &[JobState],
) -> Result<u64, StoreError> {
    let mut walk = FailedJobs::new(store, caller, states, shown.job_type.clone());
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
        Err(ActionError::Store(error)) => Err(error),
        // Its unique key is taken, or the visitor may not redrive it: continue with the others.
        Err(_) => Ok(false),
    }
}
