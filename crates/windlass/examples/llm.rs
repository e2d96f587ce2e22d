//! A pipeline of calls to a language model: the parts of a document are summarised, a person approves, the summary is
//! published. At most two calls of one account run at once and four start in a minute, for the whole fleet; each reports its
//! cost, and when the budget of the day is spent, no more calls start until the next one. The model is a fake one, and the time
//! is virtual, so that a day takes no time.
//!
//! Run it with `cargo run -p windlass --example llm`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::job::Rate;
use windlass::settings::{BudgetPeriod, QueueSettings, TenantSettings};
use windlass::testing::TestClient;
use windlass::{Client, Cx, Failure, GroupStrategy, Job, JobBuilder, State, Worker};

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

#[derive(Serialize, Deserialize, Job)]
#[job(type = "document.summarise", output = Option<String>)]
struct Document {
    account: String,
    parts: Vec<String>,
}

#[derive(Serialize, Deserialize, Job)]
#[job(type = "llm.call", output = String, queue = "llm", retry = "backoff", timeout = "2m")]
struct Call {
    text: String,
}

/// Answers for two cents. It is busy when it is asked something difficult for the first time.
#[derive(Default)]
struct Model {
    answers: AtomicU32,
    refusals: AtomicU32,
}

impl Model {
    /// The answer; a real service is given the key, so that a repeated call costs nothing.
    fn ask(&self, text: &str, _key: &str) -> Result<String, Failure> {
        if text.contains("difficult") && self.refusals.fetch_add(1, Ordering::Relaxed) == 0 {
            return Err(Failure::retry_after(Duration::from_secs(20), "the model is busy"));
        }
        self.answers.fetch_add(1, Ordering::Relaxed);
        Ok(format!("summary of {text}"))
    }
}

async fn call(job: Call, cx: Cx, State(model): State<Arc<Model>>) -> anyhow::Result<String> {
    let answer = model.ask(&job.text, &cx.idempotency_key("ask"))?;
    cx.cost(2); // counts towards the tenant's budget
    for word in answer.split(' ') {
        cx.stream(word).await?; // readers follow it live
    }
    Ok(answer)
}

async fn summarise(document: Document, cx: Cx) -> anyhow::Result<Option<String>> {
    // The limits of the queue count per key, which is the account here.
    let calls = document
        .parts
        .iter()
        .map(|text| JobBuilder::new(&Call { text: text.clone() }).concurrency_key(&document.account));
    // The document holds no slot while its parts run, and while it waits for a person.
    let draft = cx.spawn_all(calls, GroupStrategy::FailFast).await?.all()?.join("; ");
    cx.progress(80.0, "to be approved").await?;
    if cx.wait_signal("approved", Some(3 * DAY)).await? != Some(true) {
        return Ok(None); // declined, or not answered within three days
    }
    cx.step("publish", async {
        println!("publish  {draft}");
        anyhow::Ok(())
    })
    .await?;
    Ok(Some(draft))
}

/// The limits of the whole fleet, as where you deploy.
async fn set_limits(client: &Client) -> anyhow::Result<()> {
    let per_account = QueueSettings {
        max_running_per_key: Some(2),
        rate_per_key: Some(Rate { count: 4, per: MINUTE }),
        ..QueueSettings::default()
    };
    client.configure_queue("llm", per_account).await?;
    let budget = TenantSettings {
        budget_cents: Some(12),
        budget_period: Some(BudgetPeriod::Day),
        ..TenantSettings::default()
    };
    client.configure_tenant("default", budget).await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let (t, model) = (TestClient::new(), Arc::new(Model::default()));
    set_limits(t.client()).await?;
    let worker = || {
        let worker = Worker::new(t.client()).with(model.clone()).queue("default", 1).queue("llm", 20);
        worker.handle(summarise).handle(call)
    };
    let answers = || model.answers.load(Ordering::Relaxed);

    let parts = ["one", "a difficult one", "three", "four", "five", "six", "seven", "eight"];
    let parts = parts.map(str::to_owned).to_vec();
    let document = t.client().submit(Document { account: "provider-a".into(), parts }).await?;
    t.run_due(worker()).await;
    println!("at once  {} answers: four calls a minute may start, and one was refused", answers());
    t.run_for(10 * MINUTE, worker).await;
    println!("10 min   {} answers for 12 cents: the budget of the day is spent", answers());
    t.run_for(DAY, worker).await;
    println!("1 day    {} answers; the draft waits for a person", answers());
    document.signal("approved", &true).await?;
    t.run_due(worker()).await;
    println!("==>      {:?}", document.state().await?);
    Ok(())
}
