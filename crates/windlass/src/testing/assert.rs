//! What a test makes sure of. An assertion that fails says what is true instead, and why.

use std::fmt::Debug;
use std::time::Duration;

use super::{StepRun, TestClient};
use crate::client::{Handle, Job};
use crate::job::{AttemptOutcome, JobId, JobState, JobType};
use crate::limits;
use crate::store::filter::{Filter, Order};
use crate::store::query::list::ListRequest;

impl TestClient {
    /// Makes sure that a job is in a state.
    ///
    /// # Panics
    /// When it is not, saying where it is and why.
    pub async fn assert_state(&self, id: JobId, state: JobState) {
        let found = self.job(id).await;
        assert_eq!(found.job.state, state, "job {id}: {:?} {:?}", found.why, found.job.details.error);
    }

    /// Makes sure that a job completed with this result.
    ///
    /// # Panics
    /// When it did not, saying where it is or what came of it instead.
    pub async fn assert_completed<J>(&self, job: &Handle<J>, result: impl PartialEq<J::Output> + Debug)
    where
        J: Job<Output: Debug>,
    {
        match job.result(Duration::ZERO).await {
            Ok(found) => assert!(result == found, "job {} came to {found:?}, not to {result:?}", job.id()),
            Err(error) => panic!("there is no {result:?}: {error}"),
        }
    }

    /// Makes sure that a job ended without success, its last error with this code.
    ///
    /// # Panics
    /// When it did not, saying where it is and why.
    pub async fn assert_failed(&self, id: JobId, code: &str) {
        let found = self.job(id).await.job;
        let error = found.details.error.as_ref();
        let is_so = found.state.is_final() && error.is_some_and(|error| error.code.as_deref() == Some(code));
        assert!(is_so, "job {id} is {} with {error:?}, and has not failed with `{code}`", found.state);
    }

    /// Makes sure how every attempt of a job ended, the first one first.
    ///
    /// # Panics
    /// When they ended otherwise, or there were more or fewer.
    pub async fn assert_attempts(&self, id: JobId, ended: &[AttemptOutcome]) {
        let attempts = self.attempts(id).await;
        let found: Vec<_> = attempts
            .iter()
            .filter_map(|attempt| attempt.record.as_ref())
            .map(|record| record.outcome)
            .collect();
        assert_eq!(found, ended, "how the attempts of job {id} ended");
    }

    /// Makes sure how often a job's step did its work: a durable one once, however many attempts it took.
    ///
    /// # Panics
    /// When it ran more or less often.
    pub fn assert_ran(&self, id: JobId, step: &str, times: usize) {
        self.assert_called(id, step, StepRun::Ran, times);
    }

    /// Makes sure how often an attempt got what an earlier one had saved for a step.
    ///
    /// # Panics
    /// When it was replayed more or less often.
    pub fn assert_replayed(&self, id: JobId, step: &str, times: usize) {
        self.assert_called(id, step, StepRun::Replayed, times);
    }

    fn assert_called(&self, id: JobId, step: &str, run: StepRun, times: usize) {
        let calls = self.steps(id);
        let found = calls.iter().filter(|call| call.step == step && call.run == run).count();
        assert_eq!(found, times, "step `{step}` of job {id} {run:?}; all calls: {calls:#?}");
    }

    /// All jobs of a kind that were ever submitted, the first one first.
    ///
    /// # Panics
    /// When the store fails, or a payload is not of this kind.
    pub async fn submitted<J: Job>(&self) -> Vec<(JobId, J)> {
        let filter = Filter { job_type: JobType::new(J::TYPE).ok(), ..Filter::default() };
        let mut request =
            ListRequest { filter, order: Order::Oldest, cursor: None, limit: limits::PAGE_JOBS_MAX };
        let mut found = Vec::new();
        loop {
            let page = self.client.store().list(self.client.caller(), request.clone()).await;
            let page = page.expect("the store answers");
            for snapshot in page.jobs {
                let job = serde_json::from_slice(&snapshot.spec.payload.bytes);
                found.push((snapshot.job.id, job.expect("the payload is of this kind")));
            }
            if page.next.is_none() {
                return found;
            }
            request.cursor = page.next;
        }
    }

    /// Makes sure that exactly one job of a kind was submitted that is as asked for, and gives its handle.
    ///
    /// # Panics
    /// When there is none, or more than one.
    pub async fn assert_submitted<J: Job>(&self, is_it: impl Fn(&J) -> bool) -> Handle<J> {
        let all = self.submitted::<J>().await;
        let count = all.len();
        let ids: Vec<_> = all.into_iter().filter(|(_, job)| is_it(job)).map(|(id, _)| id).collect();
        let [id] = ids[..] else {
            panic!("{} of {count} jobs of type `{}` are as asked for, not one", ids.len(), J::TYPE);
        };
        self.client.handle(id)
    }
}
