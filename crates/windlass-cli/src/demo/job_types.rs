//! The demo's job types.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass::client::{Job, JobBuilder, JobDefaults};
use windlass::context::Cx;
use windlass::job::{Category, Failure, GroupStrategy};
use windlass::worker::Worker;

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal in $queue:literal { $($field:ident: $of:ty),* })*) => {
        $(
            $(#[$doc])*
            #[derive(Serialize, Deserialize)]
            pub(super) struct $kind { $(pub(super) $field: $of),* }

            impl Job for $kind {
                const TYPE: &'static str = $name;
                type Output = Value;

                fn defaults() -> JobDefaults {
                    JobDefaults { queue: Some($queue), ..JobDefaults::default() }
                }
            }
        )*
    };
}

kinds! {
    /// An email to a customer.
    Mail = "email.send" in "mail" { to: String, template: String }
    /// A webhook to another server, which is not always available.
    Delivery = "webhook.deliver" in "default" { target: String, event: String }
    /// A payment.
    Charge = "invoice.charge" in "billing" { order: u32, cents: u32 }
    /// A long job that reports progress.
    Report = "report.build" in "reports" { month: String, rows: u32 }
    /// A fan-out.
    Album = "album.publish" in "media" { name: String, photos: u32 }
    /// One child of a fan-out.
    Thumbnail = "image.resize" in "media" { photo: String }
    /// Waits for a person.
    Approval = "order.approve" in "billing" { order: u32, amount: u32 }
    /// Waits in a paused queue.
    Export = "archive.export" in "exports" { format: String }
    /// Runs later.
    Crm = "crm.sync" in "default" { since: String }
    /// The start of a graph.
    Extract = "etl.extract" in "etl" { source: String }
    /// The middle of a graph.
    Transform = "etl.transform" in "etl" { region: String }
    /// The end of a graph.
    Load = "etl.load" in "etl" { table: String }
}

/// A worker for all of them.
pub(super) fn handle_all(worker: Worker) -> Worker {
    worker
        .handle(send)
        .handle(deliver)
        .handle(charge)
        .handle(build)
        .handle(publish)
        .handle(resize)
        .handle(approve)
        .handle(async |_: Export, cx: Cx| brief(&cx, 800).await)
        .handle(async |_: Crm, cx: Cx| brief(&cx, 400).await)
        .handle(async |_: Extract, cx: Cx| brief(&cx, 4_000).await)
        .handle(async |_: Transform, cx: Cx| brief(&cx, 6_000).await)
        .handle(async |_: Load, cx: Cx| brief(&cx, 3_000).await)
}

fn chance(cx: &Cx) -> f64 {
    cx.client().api().environment().entropy.fraction()
}

/// Takes about this many milliseconds.
async fn take(cx: &Cx, millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis).mul_f64(0.5 + chance(cx))).await;
}

async fn brief(cx: &Cx, millis: u64) -> anyhow::Result<Value> {
    take(cx, millis).await;
    Ok(json!({"ok": true}))
}

async fn send(job: Mail, cx: Cx) -> anyhow::Result<Value> {
    take(&cx, 180).await;
    cx.cost(1);
    if chance(&cx) < 0.02 {
        return Err(Failure::temporary("smtp: 421 4.7.0 try again later").into());
    }
    Ok(json!({"message_id": format!("<{}@mail.example.com>", cx.job_id()), "to": job.to}))
}

async fn deliver(job: Delivery, cx: Cx) -> anyhow::Result<Value> {
    take(&cx, 350).await;
    cx.log(format!("POST {}", job.target)).await?;
    if chance(&cx) < 0.22 {
        let message = format!("502 Bad Gateway from {} after {} ms", job.target, 900 + cx.attempt() * 37);
        return Err(Failure::temporary(message).with_code("bad_gateway").into());
    }
    Ok(json!({"status": 200}))
}

async fn charge(job: Charge, cx: Cx) -> anyhow::Result<Value> {
    let hold = cx
        .step("authorise", async {
            take(&cx, 250).await;
            anyhow::Ok(format!("auth_{}", job.order))
        })
        .await?;
    let luck = chance(&cx);
    if luck < 0.05 {
        return Err(Failure::permanent(
            "card_declined",
            format!("the card of order {} was declined", job.order),
        )
        .into());
    }
    if luck < 0.10 {
        return Err(Failure::new(Category::Timeout, "the gateway did not answer within 10 s").into());
    }
    cx.step("capture", async {
        take(&cx, 400).await;
        anyhow::Ok(job.cents)
    })
    .await?;
    cx.cost(12);
    Ok(json!({"charge": hold, "cents": job.cents}))
}

async fn build(job: Report, cx: Cx) -> anyhow::Result<Value> {
    let parts = 40;
    cx.log(format!("building the report of {} from {} rows", job.month, job.rows)).await?;
    for part in 1..=parts {
        tokio::time::sleep(Duration::from_millis(700)).await;
        let percent = f64::from(part) * 100.0 / f64::from(parts);
        cx.progress(percent, &format!("rows {} to {}", (part - 1) * 1_000, part * 1_000)).await?;
        if part % 5 == 0 {
            cx.log(format!("wrote section {} of {}", part / 5, parts / 5)).await?;
            cx.checkpoint(&json!({"section": part / 5})).await?;
        }
    }
    cx.cost(240);
    Ok(json!({"file": format!("reports/{}.pdf", job.month), "pages": 84}))
}

async fn publish(job: Album, cx: Cx) -> anyhow::Result<Value> {
    let photos = (0..job.photos)
        .map(|number| JobBuilder::new(&Thumbnail { photo: format!("{}/{number}.jpg", job.name) }));
    let done = cx.spawn_all(photos, GroupStrategy::CollectAll).await?;
    Ok(json!({"published": done.results.iter().filter(|result| result.is_ok()).count(), "of": job.photos}))
}

async fn resize(job: Thumbnail, cx: Cx) -> anyhow::Result<Value> {
    take(&cx, 2_200).await;
    cx.cost(3);
    if chance(&cx) < 0.04 {
        return Err(
            Failure::permanent("not_an_image", format!("{}: unexpected end of file", job.photo)).into()
        );
    }
    Ok(json!({"photo": job.photo, "width": 640}))
}

async fn approve(job: Approval, cx: Cx) -> anyhow::Result<Value> {
    cx.log(format!("order {} over {} is waiting for approval", job.order, job.amount)).await?;
    let answer: Option<Value> = cx.wait_signal("approval", Some(Duration::from_secs(24 * 3600))).await?;
    Ok(json!({"order": job.order, "answer": answer}))
}
