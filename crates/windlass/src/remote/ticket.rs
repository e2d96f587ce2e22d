//! Tickets of jobs that a server assigns, verified by the worker itself: no intermediary, including the server,
//! can change a job unnoticed. The server issues the tickets.

use super::Remote;
use crate::job::{Failure, Spec, WorkerId};
use crate::store::command::claim::ClaimedJob;
use crate::store::command::finish::{Outcome, Report};
use crate::ticket::{Subject, TicketFault};

impl Remote {
    /// The jobs with valid tickets. The others are reported as failed; if the report is lost, their leases end, and the
    /// next worker verifies them again.
    pub(super) async fn admitted(&self, worker: WorkerId, claimed: Vec<ClaimedJob>) -> Vec<ClaimedJob> {
        if self.trusted.is_empty() {
            return claimed;
        }
        let (mut good, mut refused) = (Vec::with_capacity(claimed.len()), Vec::new());
        for claimed in claimed {
            match self.verify_ticket(&claimed) {
                Ok(()) => good.push(claimed),
                Err(fault) => {
                    tracing::warn!(job = %claimed.job.id, %fault, "job not run: its ticket does not match what was submitted");
                    let outcome = Outcome::Failed(Failure::permanent(fault.code(), fault.to_string()));
                    let (job, fence) = (claimed.job.id, claimed.job.fence);
                    refused.push(Report::new(job, fence, outcome));
                }
            }
        }
        if !refused.is_empty()
            && let Err(error) = self.finish(worker, refused).await
        {
            tracing::warn!(%error, "jobs that were not run could not be reported");
        }
        good
    }

    fn verify_ticket(&self, claimed: &ClaimedJob) -> Result<(), TicketFault> {
        let ticket = claimed.ticket().ok_or(TicketFault::Missing)?;
        // Fields that a claim does not contain are known from the ticket alone.
        let spec = Spec {
            owner: ticket.actor.clone(),
            unique_key: ticket.unique_key.clone(),
            concurrency_key: ticket.concurrency_key.clone(),
            ..claimed.spec.clone()
        };
        let subject = Subject { id: claimed.job.id, lane: &claimed.job.lane, spec: &spec };
        ticket.verify(&self.trusted, subject, self.now())
    }
}
