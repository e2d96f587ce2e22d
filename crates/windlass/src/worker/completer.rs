//! The completer: reports outcomes to the store in batches, and retries while the database is unavailable. The store
//! rejects an outcome as stale if it is reported too late.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{WorkerShared, yield_now};
use crate::client::Client;
use crate::context::refused_job;
use crate::error::{StoreError, WorkError};
use crate::job::{Failure, WorkerId};
use crate::limits;
use crate::store::command::finish::{Finish, Outcome, Report};

/// First and longest pause before a retry.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// Reports until `closing` fires, then reports the rest.
pub(crate) async fn run(
    shared: Arc<WorkerShared>,
    mut inbox: mpsc::Receiver<Report>,
    closing: CancellationToken,
) {
    let mut batch = Vec::new();
    loop {
        let count = tokio::select! {
            count = inbox.recv_many(&mut batch, limits::OUTCOMES_PER_CALL_MAX) => count,
            () = closing.cancelled(), if !inbox.is_closed() => {
                inbox.close();
                continue;
            }
        };
        if count == 0 {
            return;
        }
        collect_ready(&mut inbox, &mut batch).await;
        for reports in within_limits(std::mem::take(&mut batch)) {
            send(&shared, reports).await;
        }
    }
}

/// Adds outcomes that arrive while other tasks run: quick handlers finish together, and one commit takes all of them.
async fn collect_ready(inbox: &mut mpsc::Receiver<Report>, batch: &mut Vec<Report>) {
    loop {
        yield_now().await;
        let room = limits::OUTCOMES_PER_CALL_MAX.saturating_sub(batch.len());
        let waiting = inbox.len().min(room);
        if waiting == 0 {
            return;
        }
        inbox.recv_many(batch, waiting).await;
    }
}

/// Splits outcomes that together submit more jobs than one commit takes.
fn within_limits(reports: Vec<Report>) -> Vec<Vec<Report>> {
    let (mut batches, mut jobs) = (vec![Vec::new()], 0);
    for report in reports {
        jobs += report.follow_ups.len();
        if jobs > limits::BATCH_JOBS_MAX {
            jobs = report.follow_ups.len();
            batches.push(Vec::new());
        }
        batches.last_mut().expect("it begins with one").push(report);
    }
    batches
}

/// Sends outcomes until the store accepts or permanently rejects them.
pub(crate) async fn send(shared: &WorkerShared, reports: Vec<Report>) {
    let (client, worker) = (&shared.client, shared.id());
    let mut pause = PAUSES.0;
    loop {
        match client.api().finish(client.caller(), worker, reports.clone()).await {
            Ok(answers) => {
                let answered = reports.iter().zip(&answers);
                for (report, answer) in answered.filter(|(_, answer)| !matches!(answer, Finish::Applied(_))) {
                    tracing::info!(job = %report.job, ?answer, "outcome was not accepted");
                }
                return reject(client, worker, &reports, &answers).await;
            }
            // One outcome may cause the error, and the others must not wait for it until their leases expire.
            Err(WorkError::Store(StoreError::Damaged(_) | StoreError::Database(_))) if reports.len() > 1 => {
                let mut reports = reports;
                let others = reports.split_off(reports.len() / 2);
                tokio::join!(Box::pin(send(shared, reports)), Box::pin(send(shared, others)));
                return;
            }
            Err(WorkError::Store(error))
                if !error.is_permanent() && !matches!(error, StoreError::Damaged(_)) =>
            {
                tracing::warn!(%error, outcomes = reports.len(), "failed to report outcomes, will retry");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSES.1);
            }
            Err(error) => {
                tracing::error!(%error, outcomes = reports.len(), "failed to report outcomes; their leases will expire");
                return;
            }
        }
    }
}

/// An outcome that the store cannot store (such as a result that is too large) fails the attempt permanently.
async fn reject(client: &Client, worker: WorkerId, reports: &[Report], answers: &[Finish]) {
    let mut again = Vec::new();
    for (report, answer) in reports.iter().zip(answers) {
        let failure = match answer {
            Finish::Rejected(invalid) => Failure::permanent("outcome_rejected", invalid.to_string()),
            Finish::Refused(refused) => refused_job(&WorkError::Children(refused.clone())),
            Finish::Applied(_) | Finish::Stale => continue,
        };
        let cost_cents = report.cost_cents;
        again.push(Report { cost_cents, ..Report::new(report.job, report.fence, Outcome::Failed(failure)) });
    }
    if !again.is_empty() {
        // If this is rejected too, the lease expires.
        let _ = client.api().finish(client.caller(), worker, again).await;
    }
}
