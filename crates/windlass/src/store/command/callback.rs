//! Reporting a job's end where its submitter asked for it: as a job of its own, added in the commit that ended the other
//! (M95). So no end goes unreported, and none is reported that did not happen.

use std::sync::Arc;

use super::record::Cause;
use super::submit::concurrency_key;
use crate::audit::AuditEvent;
use crate::job::{
    CALLBACK_QUEUE, Event, Has, Job, JobId, Labels, Payload, Spec, Transition, callback_body, callback_lane,
    callback_policy, transition,
};
use crate::store::engine::EngineResult;
use crate::store::unit::Unit;
use crate::target::Target;

/// The tag by which a callback names the job that it reports on.
const TAG: &str = "job";

impl Unit<'_> {
    /// Adds the callback of a job that has just become final.
    pub(crate) fn call_back(&mut self, ended: &Job) -> EngineResult<()> {
        // A callback carries the address it goes to, and would report on itself for ever.
        if ended.lane.queue.as_str() == CALLBACK_QUEUE {
            return Ok(());
        }
        let Some(spec) = self.spec(ended.seq)? else { return Ok(()) };
        let Some(url) = &spec.labels.callback_url else { return Ok(()) };
        // By receiver, so that a slow one holds up its own callbacks only.
        let receiver = Target::parse(url).ok().map(|target| target.authority());
        let tenant = &ended.lane.tenant;
        let seq = self.allocate(1)?;
        let id = JobId::new(self.now, self.env.entropy.bits());
        let lane = Arc::new(callback_lane(tenant.clone()));
        let held = Job {
            concurrency: receiver.as_deref().map(|receiver| concurrency_key(tenant, receiver)),
            has: Has { callback: true, ..Has::default() },
            ..Job::new(seq, id, lane, Arc::new(callback_policy()), self.now)
        };
        let Ok(Transition::Changed(change)) = transition(&held, &Event::Submit, self.now) else {
            unreachable!("a job that is new can be submitted")
        };
        let labels = Labels {
            tags: [(TAG.to_owned(), ended.id.to_string())].into(),
            correlation_id: spec.labels.correlation_id.clone(),
            callback_url: Some(url.clone()),
        };
        let report = Spec {
            payload: Payload::json(callback_body(ended, &spec.labels)),
            idempotency_key: None,
            unique_key: None,
            concurrency_key: receiver,
            labels,
            owner: spec.owner,
            traceparent: spec.traceparent,
            after: Vec::new(),
            after_any: Vec::new(),
        };
        self.record_job(AuditEvent::Submitted, &held, &change.job, &Cause::system(), None)?;
        self.insert(change.job, report, Vec::new());
        Ok(())
    }
}
