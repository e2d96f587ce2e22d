//! Assertions for tests. A failed assertion prints the actual value and the reason.

use std::fmt::Debug;
use std::time::Duration;

use super::{StepRun, TestClient};
use crate::client::{Handle, Job};
use crate::job::{AttemptOutcome, JobId, JobState, JobType};
use crate::limits;
use crate::store::filter::{Filter, Order};
use crate::store::query::list::ListRequest;

impl TestClient {
    /// Asserts that a job is in a state.
    ///
    /// # Panics
    /// If it is not; prints the actual state and the reason.
    pub async fn assert_state(&self, id: JobId, state: JobState) {
        let found = self.job(id).await;
        assert_eq!(found.job.state, state, "job {id}: {:?} {:?}", found.why, found.job.details.error);
    }

    /// Asserts that a job completed with this result.
    ///
    /// # Panics
    /// If it did not; prints its state or its result.
    pub async fn assert_completed<J>(&self, job: &Handle<J>, result: impl PartialEq<J::Output> + Debug)
    where
        J: Job<Output: Debug>,
    {
        match job.result(Duration::ZERO).await {
            Ok(found) => assert!(result == found, "job {} returned {found:?}, expected {result:?}", job.id()),
            Err(error) => panic!("expected {result:?}: {error}"),
        }
    }

    /// Asserts that a job ended without success and that its last error has this code.
    ///
    /// # Panics
    /// If it did not; prints its state and error.
    pub async fn assert_failed(&self, id: JobId, code: &str) {
        let found = self.job(id).await.job;
        let error = found.details.error.as_ref();
        let is_so = found.state.is_final() && error.is_some_and(|error| error.code.as_deref() == Some(code));
        assert!(is_so, "job {id} is {} with {error:?}, expected failure `{code}`", found.state);
    }

    /// Asserts the outcomes of all attempts of a job, oldest first.
    ///
    /// # Panics
    /// If the outcomes or their number differ.
    pub async fn assert_attempts(&self, id: JobId, ended: &[AttemptOutcome]) {
        let attempts = self.attempts(id).await;
        let found: Vec<_> = attempts
            .iter()
            .filter_map(|attempt| attempt.record.as_ref())
            .map(|record| record.outcome)
            .collect();
        assert_eq!(found, ended, "how the attempts of job {id} ended");
    }

    /// Asserts how often a job's step did its work: once for a durable step, however many attempts there were.
    ///
    /// # Panics
    /// If it ran more or less often.
    pub fn assert_ran(&self, id: JobId, step: &str, times: usize) {
        self.assert_called(id, step, StepRun::Ran, times);
    }

    /// Asserts how often an attempt got a step's saved value.
    ///
    /// # Panics
    /// If it was replayed more or less often.
    pub fn assert_replayed(&self, id: JobId, step: &str, times: usize) {
        self.assert_called(id, step, StepRun::Replayed, times);
    }

    fn assert_called(&self, id: JobId, step: &str, run: StepRun, times: usize) {
        let calls = self.steps(id);
        let found = calls.iter().filter(|call| call.step == step && call.run == run).count();
        assert_eq!(found, times, "step `{step}` of job {id} {run:?}; all calls: {calls:#?}");
    }

    /// All jobs of a type that were ever submitted, oldest first.
    ///
    /// # Panics
    /// If the store fails, or a payload cannot be read as this type.
    pub async fn submitted<J: Job>(&self) -> Vec<(JobId, J)> {
        let filter = Filter { job_type: JobType::new(J::TYPE).ok(), ..Filter::default() };
        let mut request =
            ListRequest { filter, order: Order::Oldest, cursor: None, limit: limits::PAGE_JOBS_MAX };
        let mut found = Vec::new();
        loop {
            let page = self.client.api().list(self.client.caller(), request.clone()).await;
            let page = page.expect("the store answers");
            for snapshot in page.jobs {
                let job = serde_json::from_slice(&snapshot.spec.payload.bytes);
                found.push((snapshot.job.id, job.expect("the payload is of this type")));
            }
            if page.next.is_none() {
                return found;
            }
            request.cursor = page.next;
        }
    }

    /// Asserts that exactly one job of a type matches, and returns its handle.
    ///
    /// # Panics
    /// If none or more than one matches.
    pub async fn assert_submitted<J: Job>(&self, matches: impl Fn(&J) -> bool) -> Handle<J> {
        let all = self.submitted::<J>().await;
        let count = all.len();
        let ids: Vec<_> = all.into_iter().filter(|(_, job)| matches(job)).map(|(id, _)| id).collect();
        let [id] = ids[..] else {
            panic!("{} of {count} jobs of type `{}` match, expected one", ids.len(), J::TYPE);
        };
        self.client.handle(id)
    }
}
