//! The cost of jobs held back by a limit for other jobs: claims of one queue beside a hundred thousand blocked jobs of
//! another, and a tenant's first job beside a million of another's.

use std::time::Duration;

use super::figure::Figure;
use super::workload::BenchWorker;
use crate::job::{NewJob, QueueName, Rate, Tenant};
use crate::limits::TICK_JOBS_PER_COMMIT;
use crate::settings::{FairBy, QueueSettings};
use crate::store::command::claim::ClaimRequest;
use crate::store::command::settings::Settings;

/// Jobs for one measurement of the rate.
const SAMPLE: usize = 50_000;
/// Number of measurements; the median counts, because a log checkpoint falls into one or another.
const ROUNDS: usize = 5;
/// Jobs that are held back.
const BLOCKED: usize = 100_000;

/// What holds jobs back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldBack {
    /// The queue is at its concurrency limit.
    AtLimit,
    /// The queue has no rate limit token.
    WithoutToken,
    /// All have the same concurrency key.
    BehindKey,
}

impl HeldBack {
    /// All variants.
    pub const ALL: [HeldBack; 3] = [HeldBack::AtLimit, HeldBack::WithoutToken, HeldBack::BehindKey];

    fn words(self) -> &'static str {
        match self {
            HeldBack::AtLimit => "at its limit",
            HeldBack::WithoutToken => "without a token",
            HeldBack::BehindKey => "behind one key",
        }
    }

    fn settings(self) -> QueueSettings {
        match self {
            HeldBack::AtLimit => QueueSettings { max_running: Some(1), ..QueueSettings::default() },
            HeldBack::WithoutToken => {
                let rate = Rate::new(1, Duration::from_secs(3600));
                QueueSettings { rate: Some(rate), ..QueueSettings::default() }
            }
            HeldBack::BehindKey => QueueSettings::default(),
        }
    }
}

impl BenchWorker {
    /// Claims beside jobs that are held back. The store should be new.
    pub async fn beside(&self, how: HeldBack) -> anyhow::Result<Figure> {
        self.fill(2 * ROUNDS * SAMPLE, 1_000, &self.job).await?;
        let base = self.usual_rate().await?;
        let other = QueueName::new("other")?;
        let settings = Settings::Queue(other.clone(), how.settings());
        self.store.configure(&self.me, settings.into()).await?;
        let key = (how == HeldBack::BehindKey).then(|| "one".to_owned());
        let blocked = NewJob { queue: other.clone(), concurrency_key: key, ..self.job.clone() };
        self.fill(BLOCKED, 1_000, &blocked).await?;
        let request = ClaimRequest { queues: Some(vec![other]), ..ClaimRequest::new(self.worker, 1) };
        // The first one runs; the concurrency key blocks the others, some in each claim.
        for _ in 0..2 * BLOCKED / TICK_JOBS_PER_COMMIT {
            self.store.claim(&self.me, &request, Duration::ZERO).await?;
        }
        let beside = self.usual_rate().await?;
        let what = format!("claim + finish beside {BLOCKED} jobs {}", how.words());
        Ok(Figure::new("limits", what).rate(beside).beside(Some(base)))
    }

    /// The median rate of claims and finishes per second.
    async fn usual_rate(&self) -> anyhow::Result<f64> {
        let mut rates = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            rates.push(self.drain(SAMPLE, 4).await?);
        }
        rates.sort_by(f64::total_cmp);
        Ok(rates[ROUNDS / 2])
    }

    /// How many jobs start before the first one of a tenant that comes late to a fair queue. The store should be
    /// new.
    pub async fn fairness(&self, backlog: usize) -> anyhow::Result<Figure> {
        let fair = QueueSettings { fair_by: Some(FairBy::Tenant), ..QueueSettings::default() };
        self.store.configure(&self.me, Settings::Queue(QueueName::default(), fair).into()).await?;
        self.fill(backlog, 10_000, &self.job).await?;
        self.drain(1_000, 1).await?;
        let late = Tenant::new("late")?;
        self.fill(2, 1, &NewJob { tenant: Some(late.clone()), ..self.job.clone() }).await?;
        let request = ClaimRequest::new(self.worker, 100);
        let claimed = self.store.claim(&self.me, &request, Duration::ZERO).await?.jobs;
        let place =
            claimed.iter().position(|claimed| claimed.job.lane.tenant == late).unwrap_or(claimed.len());
        let what = format!("jobs before a late tenant's first, beside {backlog} of another's");
        Ok(Figure { count: Some(place as u64), ..Figure::new("limits", what) })
    }
}
