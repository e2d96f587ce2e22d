//! Reporting: outcomes go to the store in batches, and again while the database is away. An outcome that cannot be written
//! in time is stale by then, and the store says so.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{WorkerShared, yield_now};
use crate::client::Client;
use crate::error::{StoreError, WorkError};
use crate::job::WorkerId;
use crate::limits;
use crate::store::command::finish::{Finish, Report};

/// How long to wait before the first repetition, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// Reports until `closing`, and then what is left.
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
        gather(&mut inbox, &mut batch).await;
        send(&shared, std::mem::take(&mut batch)).await;
    }
}

/// Adds what else arrives while others get their turn: quick handlers end together, and one commit takes all of them.
async fn gather(inbox: &mut mpsc::Receiver<Report>, batch: &mut Vec<Report>) {
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

/// Sends outcomes until the store takes them, or says that it never will.
pub(crate) async fn send(shared: &WorkerShared, reports: Vec<Report>) {
    let (queue, worker) = (&shared.client, shared.id());
    let mut pause = PAUSES.0;
    loop {
        match queue.store().finish(queue.caller(), worker, reports.clone()).await {
            Ok(answers) => {
                let answered = reports.iter().zip(&answers);
                for (report, answer) in answered.filter(|(_, answer)| !matches!(answer, Finish::Applied(_))) {
                    tracing::info!(job = %report.job, ?answer, "outcome was not taken");
                }
                return reject(queue, worker, &reports, &answers).await;
            }
            // One of them may be to blame, and the others must not wait for it until their leases end.
            Err(WorkError::Store(StoreError::Damaged(_) | StoreError::Database(_))) if reports.len() > 1 => {
                let mut reports = reports;
                let others = reports.split_off(reports.len() / 2);
                tokio::join!(Box::pin(send(shared, reports)), Box::pin(send(shared, others)));
                return;
            }
            Err(WorkError::Store(error))
                if !matches!(error, StoreError::Stopped(_) | StoreError::Damaged(_)) =>
            {
                tracing::warn!(%error, outcomes = reports.len(), "outcomes were not taken, will try again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSES.1);
            }
            Err(error) => {
                tracing::error!(%error, outcomes = reports.len(), "outcomes are lost, their leases will end");
                return;
            }
        }
    }
}

/// An outcome the store cannot keep (a result that is too large) ends the attempt as a permanent failure that says so.
async fn reject(client: &Client, worker: WorkerId, reports: &[Report], answers: &[Finish]) {
    let mut again = Vec::new();
    for (report, answer) in reports.iter().zip(answers) {
        if let Finish::Rejected(invalid) = answer {
            let failure = crate::job::Failure::permanent("outcome_rejected", invalid.to_string());
            let outcome = crate::store::command::finish::Outcome::Failed(failure);
            again.push(Report { outcome, ..report.clone() });
        }
    }
    if !again.is_empty() {
        // If this is not taken either, the lease ends by itself.
        let _ = client.store().finish(client.caller(), worker, again).await;
    }
}
