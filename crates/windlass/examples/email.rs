//! E-mails with an audit trail in business terms: `EMAIL_SENT` for each e-mail that was sent, and a record for those
//! that failed permanently. A retry never sends twice, because the provider gets the same idempotency key every time.
//!
//! Run it with `cargo run -p windlass --example email`.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::settings::TypeSettings;
use windlass::{Client, Cx, Failure, Job, RetryPolicy, State, Worker};

/// In production use `retry = "backoff"`: after 10, 20 and 40 seconds.
#[derive(Serialize, Deserialize, Job)]
#[job(type = "EMAIL_SEND", output = String, queue = "mail")]
#[job(retry = RetryPolicy { initial_delay: Duration::from_millis(20), ..RetryPolicy::backoff() })]
struct SendEmail {
    to: String,
    subject: String,
}

/// A provider that, like the real ones, sends once per idempotency key, and whose response is sometimes lost.
#[derive(Clone, Default)]
struct Provider {
    sent: Arc<Mutex<HashSet<String>>>,
}

impl Provider {
    fn send(&self, key: &str, to: &str, attempt: u32) -> Result<String, Failure> {
        if to.ends_with("@nowhere.example") {
            return Err(Failure::temporary("550 no such mailbox"));
        }
        let is_new = self.sent.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned());
        println!("provider: {to}: {}", if is_new { "sent" } else { "was sent before, not sent again" });
        if to.starts_with("ada") && attempt == 1 {
            return Err(Failure::temporary("the connection broke after sending"));
        }
        Ok(format!("250 queued for {to}"))
    }
}

async fn send_email(job: SendEmail, cx: Cx, State(provider): State<Provider>) -> Result<String, Failure> {
    cx.cost(1);
    provider.send(&cx.idempotency_key("send"), &job.to, cx.attempt())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let client = Client::open(&format!("sqlite:{}", folder.path().join("jobs.db").display())).await?;
    let settings = TypeSettings { success_event: Some("EMAIL_SENT".into()), ..TypeSettings::default() };
    client.configure_type::<SendEmail>(settings).await?;

    let people = ["ada@example.com", "bob@example.com", "cleo@nowhere.example"];
    let mails = people.map(|to| SendEmail { to: to.into(), subject: "Welcome".into() });
    let jobs = client.submit_all(mails).await?;
    let worker = Worker::new(&client).with(Provider::default()).queue("mail", 10).handle(send_email);
    let all_ended = async {
        for job in &jobs {
            drop(job.wait(Duration::from_secs(10)).await);
        }
    };
    worker.run_until(all_ended).await?;

    for (to, job) in people.iter().zip(&jobs) {
        let found = job.snapshot().await?.expect("the job is there").job;
        let trail: Vec<String> = job.history().await?.iter().map(|record| record.name().to_owned()).collect();
        println!("audit:    {to}: {} for {} cents: {}", found.state, found.cost_cents, trail.join(", "));
    }
    client.close();
    Ok(())
}
