//! Counts, rates and costs.

use windlass::Store;
use windlass::error::StoreError;
use windlass::job::JobState;
use windlass::store::Filter;
use windlass::store::caller::Caller;
use windlass_api::stats::{Stats, Unresolved};

use crate::http::reply::error::ApiError;
use crate::http::reply::response::JsonOk;
use crate::http::request::auth::Call;
use crate::limits;

/// `GET /stats`
pub(crate) async fn stats(Call { app, caller }: Call) -> Result<JsonOk<Stats>, ApiError> {
    let unresolved = unresolved(app.store(), &caller).await?;
    let stats = Stats::from(&app.store().stats(&caller).await?);
    Ok(JsonOk(Stats { unresolved: Some(unresolved), ..stats }))
}

/// Counts failed jobs and dead letters that were not redriven: no counter knows those, so they are counted up to a limit.
async fn unresolved(store: &Store, caller: &Caller) -> Result<Unresolved, StoreError> {
    let open = async |state| {
        let filter = Filter { states: vec![state], is_redriven: Some(false), ..Filter::default() };
        store.count_up_to(caller, &filter, limits::UNRESOLVED_COUNTED).await
    };
    let (failed, dead) = (open(JobState::Failed).await?, open(JobState::DeadLetter).await?);
    let complete = failed.is_all && dead.is_all;
    Ok(Unresolved { failed: failed.jobs, dead_letter: dead.jobs, complete })
}
