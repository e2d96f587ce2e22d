//! Batch handlers, step by step: what one call for many jobs means for each of them.

use std::time::Duration;

use windlass::context::Cx;
use windlass::handler::{BatchOptions, Extract, Snooze, State};
use windlass::job::{AttemptOutcome, Category, ErrorRecord, Failure, JobId, JobState, RetryPolicy};
use windlass::testing::{CrashPoint, StepRun, TestClient};
use windlass::worker::Worker;

use super::harness::{EventSender, events, outcomes, step_by_step_on_every_engine};
use super::job_types::{Add, Greet, Map, OtherGreet, greet};
use crate::fixture::secs;

step_by_step_on_every_engine!(
    many_jobs_are_one_call_and_each_has_its_own_outcome,
    a_batch_handler_asks_for_what_others_ask_for,
    a_batch_handler_may_return_less_than_an_outcome_for_each,
    each_job_fails_by_its_own_policy,
    an_error_of_the_whole_batch_is_that_of_every_job,
    a_wrong_number_of_outcomes_fails_all_and_says_so,
    after_a_panic_each_job_is_tried_by_itself,
    what_cannot_be_read_or_written_fails_alone,
    a_job_that_sleeps_leaves_its_batch,
    steps_are_kept_for_each_job_when_a_worker_dies,
    layers_costs_and_delays_are_those_of_each_job,
    a_worker_does_not_start_with_a_batch_that_cannot_be,
);

type Outcomes = Vec<anyhow::Result<String>>;

/// Up to so many, and no test waits for more: whatever is due comes at once.
fn up_to(jobs: usize) -> BatchOptions {
    BatchOptions::new(jobs, secs(60))
}

fn names(jobs: &[Greet]) -> String {
    let mut names: Vec<&str> = jobs.iter().map(|job| job.name.as_str()).collect();
    names.sort_unstable();
    names.join(" ")
}

async fn error_of(t: &TestClient, id: JobId) -> ErrorRecord {
    t.job(id).await.job.details.error.clone().expect("the job has an error")
}

async fn many_jobs_are_one_call_and_each_has_its_own_outcome(t: &TestClient) {
    async fn handler(jobs: Vec<Greet>, State(sender): State<EventSender>) -> Outcomes {
        sender.say(names(&jobs));
        jobs.into_iter().map(|job| Ok(format!("hello, {}", job.name))).collect()
    }
    let (sender, mut received) = events();
    let jobs = t.client().submit_all(["a", "b", "c", "d", "e"].map(greet)).await.unwrap();
    let ran = t.run_due(Worker::new(t.client()).with(sender).handle_batch(up_to(3), handler)).await;
    assert_eq!(ran, 5);
    assert_eq!(received.all(), ["a b c", "d e"]);
    for (job, name) in jobs.iter().zip(["a", "b", "c", "d", "e"]) {
        t.assert_completed(job, format!("hello, {name}")).await;
    }
}

/// What the user's own code takes from a context.
struct Place(JobId);

impl Extract for Place {
    fn extract(cx: &Cx) -> Result<Place, Failure> {
        Ok(Place(cx.job_id()))
    }
}

/// Model: attempt-records
async fn a_batch_handler_asks_for_what_others_ask_for(t: &TestClient) {
    async fn handler(
        jobs: Vec<Add>,
        contexts: Vec<Cx>,
        State(more): State<u64>,
        places: Vec<Place>,
        words: Vec<State<&'static str>>,
    ) -> Result<Vec<u64>, std::fmt::Error> {
        assert_eq!((contexts.len(), places.len(), words.len()), (jobs.len(), jobs.len(), jobs.len()));
        for ((job, cx), Place(id)) in jobs.iter().zip(&contexts).zip(places) {
            assert_eq!(id, cx.job_id());
            assert_eq!(serde_json::from_slice::<Add>(&cx.payload().bytes).unwrap().numbers, job.numbers);
        }
        Ok(jobs.iter().map(|job| job.numbers.iter().sum::<u64>() + more).collect())
    }
    let jobs = t.client().submit_all([1, 2, 3].map(|n| Add { numbers: vec![n] })).await.unwrap();
    let worker = Worker::new(t.client()).with(10_u64).with("word");
    t.run_due(worker.handle_batch(up_to(10), handler)).await;
    for (job, sum) in jobs.iter().zip([11, 12, 13]) {
        assert_eq!(job.result(Duration::ZERO).await.unwrap(), sum);
    }
}

async fn a_batch_handler_may_return_less_than_an_outcome_for_each(t: &TestClient) {
    let each = t.client().submit(greet("each")).await.unwrap();
    let fallible = |jobs: Vec<Greet>| async move {
        anyhow::Ok(jobs.into_iter().map(|job| Ok::<_, Failure>(job.name)).collect::<Vec<_>>())
    };
    t.run_due(Worker::new(t.client()).handle_batch(up_to(10), fallible)).await;
    t.assert_completed(&each, "each").await;
    let all = t.client().submit(greet("all")).await.unwrap();
    let plain = |jobs: Vec<Greet>| async move {
        anyhow::Ok(jobs.into_iter().map(|job| job.name).collect::<Vec<_>>())
    };
    t.run_due(Worker::new(t.client()).handle_batch(up_to(10), plain)).await;
    t.assert_completed(&all, "all").await;
}

/// Model: retry-defaults, error-categories
async fn each_job_fails_by_its_own_policy(t: &TestClient) {
    async fn handler(jobs: Vec<Greet>, contexts: Vec<Cx>, State(sender): State<EventSender>) -> Outcomes {
        sender.say(names(&jobs));
        let outcome = |(job, cx): (Greet, Cx)| match (job.name.as_str(), cx.attempt()) {
            ("never", _) => Err(Failure::permanent("no", "never").into()),
            ("again", 1) | ("once", _) => Err(anyhow::anyhow!("not yet")),
            ("later", 1) => Err(Snooze(secs(600)).into()),
            (name, attempt) => Ok(format!("{name} {attempt}")),
        };
        jobs.into_iter().zip(contexts).map(outcome).collect()
    }
    let (sender, mut received) = events();
    let worker = || Worker::new(t.client()).with(sender.clone()).handle_batch(up_to(10), handler);
    let submit = async |name: &str, attempts| {
        let policy = RetryPolicy { max_attempts: attempts, ..RetryPolicy::fixed() };
        t.client().submit(greet(name)).retry(policy).await.unwrap()
    };
    let fine = submit("fine", 2).await;
    let never = submit("never", 2).await;
    let again = submit("again", 2).await;
    let once = submit("once", 1).await;
    let later = submit("later", 1).await;
    t.run_due(worker()).await;
    t.assert_completed(&fine, "fine 1").await;
    t.assert_state(never.id(), JobState::Failed).await;
    t.assert_state(again.id(), JobState::Retrying).await;
    t.assert_state(once.id(), JobState::DeadLetter).await;
    t.assert_state(later.id(), JobState::Waiting).await;
    t.run_for(secs(601), worker).await;
    t.assert_completed(&again, "again 2").await;
    t.assert_completed(&later, "later 2").await;
    assert_eq!(received.all(), ["again fine later never once", "again", "later"]);
}

/// Model: error-categories
async fn an_error_of_the_whole_batch_is_that_of_every_job(t: &TestClient) {
    async fn handler(_: Vec<Greet>, contexts: Vec<Cx>) -> anyhow::Result<Outcomes> {
        if contexts[0].attempt() == 1 {
            return Err(Snooze(secs(60)).into());
        }
        Err(anyhow::Error::from(Failure::permanent("closed", "no listener")).context("calling"))
    }
    let worker = || Worker::new(t.client()).handle_batch(up_to(10), handler);
    let jobs = t.client().submit_all(["a", "b"].map(greet)).await.unwrap();
    t.run_due(worker()).await;
    for job in &jobs {
        t.assert_state(job.id(), JobState::Waiting).await;
    }
    t.run_for(secs(61), worker).await;
    for job in &jobs {
        let error = error_of(t, job.id()).await;
        assert_eq!((error.code.as_deref(), &*error.message), (Some("closed"), "calling: no listener"));
        t.assert_state(job.id(), JobState::Failed).await;
    }
}

/// Model: error-categories
async fn a_wrong_number_of_outcomes_fails_all_and_says_so(t: &TestClient) {
    for too_many in [false, true] {
        let handler = move |jobs: Vec<Greet>| async move {
            let count = if too_many { jobs.len() + 1 } else { jobs.len() - 1 };
            (0..count).map(|_| anyhow::Ok(String::new())).collect::<Vec<_>>()
        };
        let jobs = t.client().submit_all(["a", "b"].map(greet)).await.unwrap();
        t.run_due(Worker::new(t.client()).handle_batch(up_to(10), handler)).await;
        for job in jobs {
            let error = error_of(t, job.id()).await;
            assert_eq!(
                (error.category, error.code.as_deref()),
                (Category::Temporary, Some("outcomes_miscounted"))
            );
            let returned = if too_many { 3 } else { 1 };
            assert!(
                error.message.ends_with(&format!("got 2 jobs and returned {returned} outcomes")),
                "{error:?}"
            );
            t.assert_state(job.id(), JobState::Retrying).await;
            job.cancel().await.unwrap();
        }
    }
}

/// Model: crashes-and-poison. One that always panics fails no other job.
async fn after_a_panic_each_job_is_tried_by_itself(t: &TestClient) {
    async fn handler(jobs: Vec<Greet>, State(sender): State<EventSender>) -> Outcomes {
        sender.say(names(&jobs));
        assert!(jobs.iter().all(|job| job.name != "bad"), "a bad one");
        jobs.into_iter().map(|job| Ok(job.name)).collect()
    }
    let (sender, mut received) = events();
    let worker = || Worker::new(t.client()).with(sender.clone()).handle_batch(up_to(10), handler);
    let mut jobs = Vec::new();
    for name in ["a", "bad", "b"] {
        // They are due together again.
        jobs.push(t.client().submit(greet(name)).retry(RetryPolicy::fixed()).await.unwrap());
    }
    t.run_due(worker()).await;
    assert_eq!(received.all(), ["a b bad"]);
    for job in &jobs {
        let error = error_of(t, job.id()).await;
        assert_eq!((error.category, error.code.as_deref()), (Category::System, Some("panic")));
        assert_eq!(error.message, "panicked: a bad one");
        t.assert_state(job.id(), JobState::Retrying).await;
    }
    t.run_for(secs(3600), worker).await;
    let mut calls = received.all();
    calls.sort_unstable();
    assert_eq!(calls, ["a", "b", "bad", "bad"]);
    t.assert_completed(&jobs[0], "a").await;
    t.assert_completed(&jobs[2], "b").await;
    t.assert_state(jobs[1].id(), JobState::DeadLetter).await;
    assert_eq!(error_of(t, jobs[1].id()).await.code.as_deref(), Some("poison"));
}

async fn what_cannot_be_read_or_written_fails_alone(t: &TestClient) {
    let fine = t.client().submit(greet("fine")).await.unwrap();
    let other = t.client().submit(OtherGreet { names: Vec::new() }).await.unwrap();
    let greeting = |jobs: Vec<Greet>| async move {
        jobs.into_iter().map(|job| anyhow::Ok(job.name)).collect::<Vec<_>>()
    };
    t.run_due(Worker::new(t.client()).handle_batch(up_to(10), greeting)).await;
    t.assert_completed(&fine, "fine").await;
    assert_eq!(error_of(t, other.id()).await.code.as_deref(), Some("payload_unreadable"));
    let maps = t.client().submit_all([Map, Map]).await.unwrap();
    let mapping = |jobs: Vec<Map>| async move {
        let numbers = 0..u8::try_from(jobs.len()).unwrap();
        numbers.map(|n| anyhow::Ok((0..n).map(|n| ((n, n), n)).collect())).collect::<Vec<_>>()
    };
    t.run_due(Worker::new(t.client()).handle_batch(up_to(10), mapping)).await;
    let mut states = [t.job(maps[0].id()).await.job.state, t.job(maps[1].id()).await.job.state];
    states.sort_unstable_by_key(|state| state.as_str());
    assert_eq!(states, [JobState::Completed, JobState::Failed]);
}

/// Model: sleeps-and-signals
async fn a_job_that_sleeps_leaves_its_batch(t: &TestClient) {
    async fn one(job: Greet, cx: Cx) -> anyhow::Result<String> {
        match job.name.as_str() {
            "sleeps" => cx.sleep(secs(600)).await?,
            "waits" => assert_eq!(cx.wait_signal::<()>("go", Some(secs(600))).await?, None),
            "spawns" => {
                let child = Add { numbers: vec![1] };
                cx.spawn_all([child], windlass::GroupStrategy::CollectAll).await?.all()?;
            }
            _ => {}
        }
        Ok(format!("{} {}", job.name, cx.attempt()))
    }
    async fn handler(jobs: Vec<Greet>, contexts: Vec<Cx>, State(sender): State<EventSender>) -> Outcomes {
        sender.say(names(&jobs));
        let mut outcomes = Vec::new();
        for (job, cx) in jobs.into_iter().zip(contexts) {
            outcomes.push(one(job, cx).await);
        }
        outcomes
    }
    let (sender, mut received) = events();
    let adding = |job: Add| async move { anyhow::Ok(job.numbers.iter().sum()) };
    let worker =
        || Worker::new(t.client()).with(sender.clone()).handle_batch(up_to(10), handler).handle(adding);
    let jobs = t.client().submit_all(["sleeps", "waits", "spawns", "fine"].map(greet)).await.unwrap();
    t.run_due(worker()).await;
    t.assert_completed(&jobs[3], "fine 1").await;
    t.assert_completed(&jobs[2], "spawns 2").await;
    t.assert_state(jobs[0].id(), JobState::Waiting).await;
    t.assert_state(jobs[1].id(), JobState::Waiting).await;
    t.run_for(secs(601), worker).await;
    t.assert_completed(&jobs[0], "sleeps 2").await;
    t.assert_completed(&jobs[1], "waits 2").await;
    for job in &jobs {
        assert_eq!(t.job(job.id()).await.job.failures, 0);
    }
    assert_eq!(received.all()[0], "fine sleeps spawns waits");
}

/// Model: steps, one-lease-at-a-time
async fn steps_are_kept_for_each_job_when_a_worker_dies(t: &TestClient) {
    async fn handler(jobs: Vec<Greet>, contexts: Vec<Cx>, State(sender): State<EventSender>) -> Outcomes {
        sender.say(names(&jobs));
        let mut outcomes = Vec::new();
        for (job, cx) in jobs.into_iter().zip(contexts) {
            outcomes.push(cx.step("greet", async { anyhow::Ok(job.name) }).await);
        }
        outcomes
    }
    let (sender, mut received) = events();
    let worker = || Worker::new(t.client()).with(sender.clone()).handle_batch(up_to(10), handler);
    let jobs = t.client().submit_all(["a", "b"].map(greet)).await.unwrap();
    t.run_due(worker().crash_at(CrashPoint::AfterStep("greet".into()))).await;
    for job in &jobs {
        t.assert_state(job.id(), JobState::Running).await;
    }
    t.run_for(secs(60), worker).await;
    for (job, name) in jobs.iter().zip(["a", "b"]) {
        t.assert_completed(job, name).await;
        assert_eq!(outcomes(t.client(), job.id()).await.len(), 2);
    }
    let runs = |job: usize| t.steps(jobs[job].id()).iter().map(|call| call.run).collect::<Vec<_>>();
    let (first, second) = (runs(0), runs(1));
    assert!([&first, &second].contains(&&vec![StepRun::Ran, StepRun::Replayed]), "{first:?} {second:?}");
    assert!([&first, &second].contains(&&vec![StepRun::Ran]), "{first:?} {second:?}");
    let mut calls = received.all();
    calls.sort_unstable();
    assert_eq!(calls, ["a", "a b", "b"], "what has crashed is tried by itself");
}

/// Model: result-cost-and-progress, backoff
async fn layers_costs_and_delays_are_those_of_each_job(t: &TestClient) {
    async fn handler(jobs: Vec<Greet>, contexts: Vec<Cx>) -> Outcomes {
        let mut outcomes = Vec::new();
        for (cents, (job, cx)) in (1..).zip(jobs.iter().zip(contexts)) {
            cx.cost(cents);
            cx.progress(50.0, &job.name).await.unwrap();
            outcomes.push(if cx.attempt() == 1 {
                Err(anyhow::anyhow!("not yet"))
            } else {
                Ok(job.name.clone())
            });
        }
        outcomes
    }
    let (sender, mut received) = events();
    let worker = || {
        let sender = sender.clone();
        Worker::new(t.client())
            .handle_batch(up_to(10), handler)
            .layer(move |cx, next| {
                sender.say(cx.job_id().to_string());
                next
            })
            .retry_delay(|_, _| secs(100))
    };
    let mut ids = Vec::new();
    for name in ["a", "b"] {
        ids.push(t.client().submit(greet(name)).retry(RetryPolicy::custom()).await.unwrap().id());
    }
    t.run_due(worker()).await;
    let mut calls = received.all();
    calls.sort_unstable();
    let mut expected: Vec<_> = ids.iter().map(ToString::to_string).collect();
    expected.sort_unstable();
    assert_eq!(calls, expected);
    let mut costs = Vec::new();
    for (id, name) in ids.iter().zip(["a", "b"]) {
        let job = t.job(*id).await.job;
        costs.push(job.cost_cents);
        assert_eq!(
            job.details.progress.as_ref().and_then(|progress| progress.message.as_deref()),
            Some(name)
        );
        assert_eq!(outcomes(t.client(), *id).await, [AttemptOutcome::Failed]);
        assert_eq!(job.next_run_at().since(t.now()), secs(100));
    }
    costs.sort_unstable();
    assert_eq!(costs, [1, 2]);
    t.advance(secs(99)).await;
    assert_eq!(t.run_due(worker()).await, 0);
    t.advance(secs(1)).await;
    assert_eq!(t.run_due(worker()).await, 2);
}

/// Model: unknown-types
async fn a_worker_does_not_start_with_a_batch_that_cannot_be(t: &TestClient) {
    async fn handler(jobs: Vec<Greet>, _: Vec<Cx>, State(_): State<Vec<u8>>) -> Outcomes {
        jobs.into_iter().map(|job| Ok(job.name)).collect()
    }
    let refusal = async |worker: Worker| worker.run().await.unwrap_err().to_string();
    let worker = || Worker::new(t.client());
    let refused = refusal(worker().handle_batch(up_to(10), handler)).await;
    assert!(refused.contains("`greet`") && refused.contains("Vec<u8>"), "{refused}");
    let given = || worker().with(vec![1_u8]);
    assert_eq!(
        refusal(given().handle_batch(up_to(0), handler)).await,
        "jobs_max: is 0, allowed is 1 to 1000"
    );
    assert_eq!(
        refusal(given().handle_batch(up_to(1001), handler)).await,
        "jobs_max: is 1001, allowed is 1 to 1000"
    );
    let refused = refusal(given().handle_batch(BatchOptions::new(1, secs(61)), handler)).await;
    assert_eq!(refused, "wait_max: is 61s, allowed is 0s to 60s");
    let refused = refusal(given().handle_batch(up_to(1), handler).handle_batch(up_to(1), handler)).await;
    assert!(refused.contains("`greet` has two"), "{refused}");
}
