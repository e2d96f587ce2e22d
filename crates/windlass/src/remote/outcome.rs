//! Reports of attempts to a server.

use serde_json::json;
use windlass_api::outcome::{OutcomeBody, OutcomeView, OutcomesView};

use super::Remote;
use super::client::Call;
use super::error::{invalid_item, is_about_a_follow_up, not_json, refused_item};
use crate::error::WorkError;
use crate::job::WorkerId;
use crate::store::command::finish::{Finish, Report};
use crate::store::wire::outcome::outcome_body;

fn finish(view: OutcomeView) -> Finish {
    match (view.status.as_str(), view.state, view.error) {
        ("applied", Some(state), _) => Finish::Applied(state.0),
        ("rejected", _, Some(error)) if is_about_a_follow_up(&error) => {
            Finish::Refused(Box::new(refused_item(error)))
        }
        ("rejected", _, Some(error)) => {
            Finish::Rejected(invalid_item(error).unwrap_or_else(|| not_json("outcome")))
        }
        _ => Finish::Stale,
    }
}

impl Remote {
    pub(crate) async fn finish(
        &self,
        worker: WorkerId,
        reports: Vec<Report>,
    ) -> Result<Vec<Finish>, WorkError> {
        let bodies: Vec<Option<OutcomeBody>> = reports.iter().map(outcome_body).collect();
        let is_readable: Vec<bool> = bodies.iter().map(Option::is_some).collect();
        let body = json!({"worker_id": worker, "outcomes": bodies.into_iter().flatten().collect::<Vec<_>>()});
        // The caller can safely repeat it: an outcome that was applied is stale the second time.
        let call = Call::post("/outcomes").json(&body).once();
        let view: OutcomesView = self.client.ask(call).await.map_err(|error| error.into_work(worker))?;
        let mut answers = view.outcomes.into_iter();
        let answer = |is_readable: bool| {
            if !is_readable {
                return Finish::Rejected(not_json("result"));
            }
            answers.next().map_or(Finish::Stale, finish)
        };
        Ok(is_readable.into_iter().map(answer).collect())
    }
}
