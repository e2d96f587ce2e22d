//! The demo's data: several job types, failures and retries, a fan-out, a graph, a pause, logs and progress. First an hour
//! of history in virtual time, then live workers. Only the demo uses it.

mod history;
mod job_types;

use std::future::Future;
use std::time::Duration;

use windlass::Store;
use windlass::client::{Client, JobBuilder};
use windlass::job::{JobType, NewJob, Payload, QueueName, ScheduleName, Tenant};
use windlass::schedule::ScheduleSpec;
use windlass::settings::{FairBy, QueueSettings, TenantSettings};
use windlass::store::caller::{Caller, Role};
use windlass::store::{NewSchedule, Pause, PauseOptions, PauseTarget, Settings};
use windlass::worker::Worker;

pub(crate) use history::play_history;
use job_types::{
    Album, Approval, Charge, Crm, Delivery, Export, Extract, Load, Mail, Report, Thumbnail, Transform,
};

/// Creates settings and a pause.
///
/// # Errors
/// If the store fails.
pub(crate) async fn arrange(store: &Store) -> anyhow::Result<()> {
    let admin = Caller::new("grace", Role::Admin, None);
    let media =
        QueueSettings { max_running: Some(12), fair_by: Some(FairBy::Tenant), ..QueueSettings::default() };
    store.configure(&admin, Settings::Queue(QueueName::new("media")?, media)).await?;
    let acme =
        TenantSettings { max_running: Some(50), budget_cents: Some(25_000), ..TenantSettings::default() };
    store.configure(&admin, Settings::Tenant(Tenant::new("acme")?, acme)).await?;
    let operator = Caller::new("ada", Role::Admin, None);
    let pause = Pause { reason: Some("until the archive has space again".into()), ..Pause::default() };
    store.pause(&operator, PauseTarget::Queue(QueueName::new("exports")?), pause).await?;
    schedule(store, &operator).await
}

/// Creates a few schedules, one of them paused.
async fn schedule(store: &Store, operator: &Caller) -> anyhow::Result<()> {
    let cron = |text: &str| -> anyhow::Result<ScheduleSpec> {
        Ok(ScheduleSpec::Cron { cron: text.parse()?, timezone: "Europe/Berlin".parse()? })
    };
    let timings = [
        ("nightly-report", cron("0 2 * * *")?, "report.build", r#"{"month":"2026-11","rows":40000}"#),
        ("weekly-export", cron("30 6 * * mon")?, "archive.export", r#"{"format":"parquet"}"#),
        (
            "crm-sync",
            ScheduleSpec::Every(Duration::from_secs(3600)),
            "crm.sync",
            r#"{"since":"an hour ago"}"#,
        ),
        (
            "heartbeat-mail",
            cron("*/15 * * * *")?,
            "email.send",
            r#"{"to":"ops@example.com","template":"pulse"}"#,
        ),
    ];
    for (name, timing, job_type, payload) in timings {
        let job = NewJob::new(JobType::new(job_type)?, Payload::json(payload));
        store.put_schedule(operator, ScheduleName::new(name)?, NewSchedule::new(timing, job)).await?;
    }
    let how = PauseOptions { reason: Some("the archive is full".into()), expires: None };
    store.pause_schedule(operator, ScheduleName::new("weekly-export")?, how).await?;
    Ok(())
}

/// Runs workers and submits jobs until `shutdown` completes.
///
/// # Errors
/// If the store fails.
pub(crate) async fn run(store: &Store, shutdown: impl Future<Output = ()>) -> anyhow::Result<()> {
    let client = Client::from_store_without_maintenance(store.clone());
    let fleet = [
        Worker::new(&client).name("mail-1").version("2.4.1").queue("mail", 6).queue("default", 4),
        Worker::new(&client).name("media-1").version("1.9.0").queue("media", 8),
        Worker::new(&client)
            .name("office-1")
            .version("2.4.1")
            .queue("reports", 3)
            .queue("billing", 4)
            .queue("etl", 4),
    ];
    let mut working = tokio::task::JoinSet::new();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    for worker in fleet {
        let mut stopped = stopped.clone();
        let worker = job_types::handle_all(worker.drain(Duration::from_secs(2)));
        working.spawn(worker.run_until(async move { drop(stopped.wait_for(|is_over| *is_over).await) }));
    }
    tokio::select! {
        () = shutdown => {}
        ended = submit_for_ever(&client) => ended?,
    }
    stop.send_replace(true);
    while working.join_next().await.is_some() {}
    Ok(())
}

/// Submits a few jobs every second or so, and a larger one now and then.
async fn submit_for_ever(client: &Client) -> anyhow::Result<()> {
    let mut round: u32 = 0;
    loop {
        submit_round(client, round).await?;
        round += 1;
        tokio::time::sleep(Duration::from_millis(900)).await;
    }
}

async fn submit_round(client: &Client, round: u32) -> anyhow::Result<()> {
    let tenants = [Tenant::default(), Tenant::new("acme")?, Tenant::new("globex")?];
    let tenant = tenants[round as usize % tenants.len()].clone();
    let order = 48_000 + round;
    let mail =
        Mail { to: format!("customer{}@example.com", order % 997), template: "order-confirmed".into() };
    let draft = JobBuilder::new(&mail).tenant(tenant.clone()).tag("order", &order.to_string());
    client.submit(draft.correlation_id(&format!("order-{order}"))).await?;
    if round.is_multiple_of(2) {
        let target = format!("https://hooks.example.com/{}", order % 13);
        client
            .submit(JobBuilder::new(&Delivery { target, event: "order.paid".into() }).tenant(tenant.clone()))
            .await?;
    }
    if round.is_multiple_of(3) {
        client
            .submit(JobBuilder::new(&Charge { order, cents: 1_990 }).tenant(tenant.clone()).priority(80))
            .await?;
    }
    if round % 20 == 5 {
        client
            .submit(JobBuilder::new(&Report { month: "2026-10".into(), rows: 40_000 }).tag("team", "finance"))
            .await?;
    }
    if round % 25 == 3 {
        client
            .submit(JobBuilder::new(&Album { photos: 8, name: format!("album-{order}") }).tenant(tenant))
            .await?;
    }
    if round % 30 == 1 {
        client.submit(JobBuilder::new(&Approval { order, amount: 125_000 }).priority(80)).await?;
        client.submit(JobBuilder::new(&Export { format: "parquet".into() })).await?;
        client
            .submit(JobBuilder::new(&Crm { since: "yesterday".into() }).delay(Duration::from_secs(1_800)))
            .await?;
    }
    if round % 40 == 2 {
        submit_graph(client).await?;
    }
    Ok(())
}

/// Extract, transform in three parts, load: a graph in one call.
async fn submit_graph(client: &Client) -> anyhow::Result<()> {
    let mut batch = client.batch();
    let source = batch.add(JobBuilder::new(&Extract { source: "orders".into() }).tag("pipeline", "nightly"));
    let parts = ["eu", "us", "apac"]
        .map(|region| JobBuilder::new(&Transform { region: region.into() }).after(&source));
    let parts = parts.map(|part| batch.add(part));
    let mut load = JobBuilder::new(&Load { table: "orders_daily".into() });
    for part in &parts {
        load = load.after(part);
    }
    let loaded = batch.add(load);
    let notice = Mail { to: "data@example.com".into(), template: "pipeline-done".into() };
    batch.add(JobBuilder::new(&notice).after(&loaded));
    batch.add(JobBuilder::new(&Thumbnail { photo: "chart.png".into() }).after(&loaded));
    batch.submit().await?;
    Ok(())
}
