//! Budgets: what a tenant's jobs may cost in a day or a month. Once it is spent nothing of the tenant starts.

use std::time::Duration;

use windlass::job::{NewJob, WorkerId};
use windlass::settings::{BudgetPeriod, TenantSettings};
use windlass::store::{ClaimedJob, Finish, Outcome, Report};

use crate::claims::concurrency::submit_many;
use crate::fixture::{Fixture, just_before, new_job, tenant};

tests!(
    claims_budget, claims::budget:
    nothing_starts_once_the_budget_is_spent,
    a_budget_of_a_day_restarts_at_midnight,
    costs_before_the_budget_was_set_count,
    explain_names_budget_spending_and_end,
    a_raised_budget_counts_at_the_next_claim,
);

const DAY: Duration = Duration::from_secs(24 * 3600);

fn budget(cents: u64, period: Option<BudgetPeriod>) -> TenantSettings {
    TenantSettings { budget_cents: Some(cents), budget_period: period, ..TenantSettings::default() }
}

fn theirs() -> NewJob {
    NewJob { tenant: Some(tenant("acme")), ..new_job("ask") }
}

async fn complete_for(t: &Fixture, worker: WorkerId, claimed: &ClaimedJob, cents: i64) {
    let outcome = Outcome::Completed { result: None };
    let report = Report { cost_cents: cents, ..Report::new(claimed.job.id, claimed.job.fence, outcome) };
    let answers = t.store.finish(&t.me, worker, vec![report]).await.unwrap();
    assert!(matches!(answers[0], Finish::Applied(_)));
}

/// Model: explained-waiting
async fn nothing_starts_once_the_budget_is_spent(t: &Fixture) {
    t.set_tenant("acme", budget(100, None)).await;
    let worker = t.worker().await;
    submit_many(t, theirs(), 4).await;
    let others = submit_many(t, new_job("ask"), 1).await;
    let first = t.claim_one(worker).await;
    let second = t.claim_one(worker).await;
    complete_for(t, worker, &first, 99).await;
    let third = t.claim_one(worker).await;
    complete_for(t, worker, &third, 1).await;
    assert_eq!(t.claim_ids(worker, 9).await, others, "the others' jobs continue");
    complete_for(t, worker, &second, 500).await;
    assert!(t.claim(worker, 9).await.is_empty());
    // The store's time begins on 15 January.
    t.advance(DAY * 20);
    assert!(t.claim(worker, 9).await.is_empty(), "its lifetime is over by then");
    submit_many(t, theirs(), 1).await;
    assert_eq!(t.claim(worker, 9).await.len(), 1, "a new month, a new budget");
}

async fn a_budget_of_a_day_restarts_at_midnight(t: &Fixture) {
    t.set_tenant("acme", budget(10, Some(BudgetPeriod::Day))).await;
    let worker = t.worker().await;
    submit_many(t, theirs(), 2).await;
    let first = t.claim_one(worker).await;
    complete_for(t, worker, &first, 10).await;
    let midnight = Duration::from_millis(86_400_000 - t.now().as_millis().rem_euclid(86_400_000) as u64);
    t.advance(just_before(midnight));
    assert!(t.claim(worker, 9).await.is_empty());
    t.advance(Duration::from_millis(1));
    assert_eq!(t.claim(worker, 9).await.len(), 1);
}

async fn costs_before_the_budget_was_set_count(t: &Fixture) {
    let worker = t.worker().await;
    submit_many(t, theirs(), 2).await;
    let first = t.claim_one(worker).await;
    complete_for(t, worker, &first, 70).await;
    t.set_tenant("acme", budget(70, None)).await;
    assert!(t.claim(worker, 9).await.is_empty());
}

/// Model: explained-waiting
async fn explain_names_budget_spending_and_end(t: &Fixture) {
    t.set_tenant("acme", budget(5, None)).await;
    let worker = t.worker().await;
    let all = submit_many(t, theirs(), 2).await;
    let first = t.claim_one(worker).await;
    complete_for(t, worker, &first, 7).await;
    let reasons = t.store.explain(&t.me, all[1]).await.unwrap().unwrap();
    assert_eq!(reasons.len(), 1);
    assert_eq!(reasons[0].code, "over_quota");
    assert_eq!(reasons[0].details["budget_cents"], 5);
    assert_eq!(reasons[0].details["spent_cents"], 7);
    assert_eq!(reasons[0].details["until"], "2027-02-01T00:00:00.000Z");
}

async fn a_raised_budget_counts_at_the_next_claim(t: &Fixture) {
    t.set_tenant("acme", budget(0, None)).await;
    let worker = t.worker().await;
    submit_many(t, theirs(), 1).await;
    assert!(t.claim(worker, 9).await.is_empty(), "a budget of nothing starts nothing");
    t.set_tenant("acme", budget(1, None)).await;
    assert_eq!(t.claim(worker, 9).await.len(), 1);
}
