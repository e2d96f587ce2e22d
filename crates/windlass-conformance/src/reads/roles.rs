//! Who may do what, as a table (Model: roles).

use std::time::Duration;

use windlass::error::{ActionError, SubmitError, WorkError};
use windlass::job::{GroupStrategy, JobState, JobType, NewJob, QueueName};
use windlass::settings::{QueueSettings, TenantSettings, TypeSettings};
use windlass::store::caller::{Caller, Role};
use windlass::store::engine::RecordQuery;
use windlass::store::{
    ActionRequest, BulkAction, ClaimRequest, Filter, ListRequest, NewGroup, NewWorker, Pause, PauseTarget,
    Redrive, Settings, SubmitOptions, Suspend,
};

use crate::fixture::{Fixture, PlacedJob, caller, lease_ref, new_job, tenant};

tests!(reads_roles, reads::roles: each_role_may_do_what_the_table_says, every_role_may_look);

#[derive(Debug, Clone, Copy)]
enum Verb {
    Submit,
    Suspend,
    Cancel,
    Signal,
    Redrive,
    Delete,
    BulkReport,
    Register,
    Claim,
    Heartbeat,
    Finish,
    AttemptWrite,
    Spawn,
    Deregister,
    PauseQueue,
    PauseType,
    ConfigureQueue,
    CloseGate,
    PauseTenant,
    ConfigureType,
    ConfigureTenant,
}

use Role::{Admin, Operator, Submitter, Worker};

const TABLE: [(Verb, &[Role]); 21] = [
    (Verb::Submit, &[Admin, Operator, Submitter]),
    (Verb::Suspend, &[Admin, Operator, Submitter]),
    (Verb::Cancel, &[Admin, Operator, Submitter]),
    (Verb::Signal, &[Admin, Operator, Submitter]),
    (Verb::Redrive, &[Admin, Operator, Submitter]),
    (Verb::Delete, &[Admin, Operator, Submitter]),
    (Verb::BulkReport, &[Admin, Operator, Submitter]),
    (Verb::Register, &[Admin, Operator, Worker]),
    (Verb::Claim, &[Admin, Operator, Worker]),
    (Verb::Heartbeat, &[Admin, Operator, Worker]),
    (Verb::Finish, &[Admin, Operator, Worker]),
    (Verb::AttemptWrite, &[Admin, Operator, Worker]),
    (Verb::Spawn, &[Admin, Operator, Worker]),
    (Verb::Deregister, &[Admin, Operator, Worker]),
    (Verb::PauseQueue, &[Admin, Operator]),
    (Verb::PauseType, &[Admin, Operator]),
    (Verb::ConfigureQueue, &[Admin, Operator]),
    (Verb::CloseGate, &[Admin]),
    (Verb::PauseTenant, &[Admin]),
    (Verb::ConfigureType, &[Admin]),
    (Verb::ConfigureTenant, &[Admin]),
];

const ROLES: [Role; 5] = [Role::Admin, Role::Operator, Role::Submitter, Role::Worker, Role::Viewer];

/// What the verbs are tried on: jobs that `who` owns, and a worker of its tenant.
struct Things {
    live: windlass::job::JobId,
    ended: windlass::job::JobId,
    running: PlacedJob,
}

async fn things(t: &Fixture) -> Things {
    let owner = Caller { role: Role::Admin, ..caller("who", Role::Admin, "blue") };
    let job = || NewJob { queue: QueueName::new("theirs").unwrap(), ..new_job("report") };
    let mut submitted = t.store.submit(&owner, vec![job(), job()], SubmitOptions::default()).await.unwrap();
    let (ended, live) = (submitted.remove(0).job.id, submitted.remove(0).job.id);
    t.cancel(ended).await;
    let worker = t
        .store
        .register(&owner, NewWorker { queues: vec![QueueName::new("run").unwrap()], ..NewWorker::default() });
    let worker = worker.await.unwrap().id;
    let run = NewJob { queue: QueueName::new("run").unwrap(), ..new_job("report") };
    let id = t.store.submit(&owner, vec![run], SubmitOptions::default()).await.unwrap().remove(0).job.id;
    let claimed = t.claim_one(worker).await;
    Things { live, ended, running: PlacedJob { id, worker, claimed: Some(claimed) } }
}

/// Whether a verb is denied; what is done is left to the next round's new jobs.
async fn is_denied(t: &Fixture, who: &Caller, verb: Verb) -> bool {
    let Things { live, ended, running } = things(t).await;
    let act = |error: &ActionError| matches!(error, ActionError::Forbidden(_));
    let work = |error: &WorkError| matches!(error, WorkError::Forbidden(_));
    let store = &t.store;
    let worker = running.worker;
    let by_hand = || lease_ref(running.claimed.as_ref().unwrap());
    let job_type = || JobType::new("quiet").unwrap();
    let pause =
        async |target| store.pause(who, target, Pause::default()).await.err().is_some_and(|e| act(&e));
    let set = async |settings| store.configure(who, settings).await.err().is_some_and(|e| act(&e));
    let on = async |id, what| store.act(who, id, what).await.err().is_some_and(|e| act(&e));
    match verb {
        Verb::Submit => {
            let answer = store.submit(who, vec![new_job("report")], SubmitOptions::default()).await;
            matches!(answer, Err(SubmitError::Forbidden(_)))
        }
        Verb::Suspend => on(live, ActionRequest::Suspend(Suspend::default())).await,
        Verb::Cancel => on(live, ActionRequest::Cancel { reason: None }).await,
        Verb::Signal => store.signal(who, live, "go", Vec::new()).await.err().is_some_and(|e| act(&e)),
        Verb::Redrive => store.redrive(who, ended, Redrive::default()).await.err().is_some_and(|e| act(&e)),
        Verb::Delete => store.delete(who, ended).await.err().is_some_and(|e| act(&e)),
        Verb::BulkReport => {
            let resume = BulkAction::Act(ActionRequest::Resume { reason: None });
            store.bulk(who, &Filter::default(), resume).await.err().is_some_and(|e| act(&e))
        }
        Verb::Register => store.register(who, NewWorker::default()).await.err().is_some_and(|e| work(&e)),
        Verb::Claim => {
            let answer = store.claim(who, &ClaimRequest::new(worker, 0), Duration::ZERO).await;
            answer.err().is_some_and(|e| work(&e))
        }
        Verb::Heartbeat => store.heartbeat(who, worker, Vec::new()).await.err().is_some_and(|e| work(&e)),
        Verb::Finish => store.finish(who, worker, Vec::new()).await.err().is_some_and(|e| work(&e)),
        Verb::AttemptWrite => store.record(who, by_hand(), Vec::new()).await.err().is_some_and(|e| work(&e)),
        Verb::Spawn => {
            let group =
                NewGroup { name: "none".into(), strategy: GroupStrategy::CollectAll, jobs: Vec::new() };
            store.spawn(who, by_hand(), group).await.err().is_some_and(|e| work(&e))
        }
        Verb::Deregister => store.deregister(who, worker).await.err().is_some_and(|e| work(&e)),
        Verb::PauseQueue => pause(PauseTarget::Queue(QueueName::new("quiet").unwrap())).await,
        Verb::PauseType => pause(PauseTarget::Type(job_type())).await,
        Verb::ConfigureQueue => {
            set(Settings::Queue(QueueName::new("quiet").unwrap(), QueueSettings::default())).await
        }
        Verb::CloseGate => pause(PauseTarget::Gate).await,
        Verb::PauseTenant => pause(PauseTarget::Tenant(tenant("green"))).await,
        Verb::ConfigureType => set(Settings::Type(job_type(), TypeSettings::default())).await,
        Verb::ConfigureTenant => set(Settings::Tenant(tenant("green"), TenantSettings::default())).await,
    }
}

/// Model: roles
async fn each_role_may_do_what_the_table_says(t: &Fixture) {
    for (verb, allowed) in TABLE {
        for role in ROLES {
            let who = caller("who", role, "blue");
            let denied = is_denied(t, &who, verb).await;
            assert_eq!(!denied, allowed.contains(&role), "{} {verb:?}", role.as_str());
            // A gate that was closed would keep the next round's jobs from being claimed.
            t.store.resume(&t.me, PauseTarget::Gate, None).await.unwrap();
        }
    }
}

/// Model: roles
async fn every_role_may_look(t: &Fixture) {
    let Things { ended, .. } = things(t).await;
    for role in ROLES {
        let who = caller("anyone", role, "blue");
        assert_eq!(t.store.get(&who, ended).await.unwrap().unwrap().job.state, JobState::Cancelled);
        assert_eq!(t.store.list(&who, ListRequest::default()).await.unwrap().jobs.len(), 3);
        assert_eq!(t.store.stats(&who).await.unwrap().states[&JobState::Cancelled], 1);
        let query = RecordQuery { limit: 10, ..RecordQuery::default() };
        assert_eq!(t.store.audit(&who, query).await.unwrap().len(), 1);
    }
}
