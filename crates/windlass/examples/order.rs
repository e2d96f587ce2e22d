//! An order as one durable function: reserve, charge, wait for the warehouse, ship. If the warehouse does not respond,
//! undo everything in reverse order. The second worker continues where the first one stopped.
//!
//! Run it with `cargo run -p windlass --example order`.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use windlass::{Client, Cx, Job, State, Worker};

#[derive(Serialize, Deserialize, Job)]
#[job(type = "order", output = String)]
struct Order {
    number: u32,
    /// How long to wait for the warehouse.
    patience: Duration,
}

/// The name of the worker, to show that no step runs twice; and a channel that reports charges to `main`.
#[derive(Clone)]
struct Shift {
    name: &'static str,
    charged: mpsc::Sender<u32>,
}

/// A call to an external system, with an idempotency key that is the same in every attempt.
async fn call(shift: &Shift, order: &Order, what: &str, key: String) -> anyhow::Result<String> {
    tokio::time::sleep(Duration::from_millis(5)).await;
    println!("order {}: {what} (by the {} worker)", order.number, shift.name);
    Ok(key)
}

async fn order(order: Order, cx: Cx, State(shift): State<Shift>) -> anyhow::Result<String> {
    let step = async |name: &str| cx.step(name, call(&shift, &order, name, cx.idempotency_key(name))).await;

    step("reserve stock").await?;
    step("charge card").await?;
    shift.charged.send(order.number).await?;

    // Time to cancel the order. Neither the sleep nor the wait holds a slot, a thread or a process.
    cx.sleep(Duration::from_millis(100)).await?;
    let packed: Option<u32> = cx.wait_signal("packed", Some(order.patience)).await?;

    let Some(parcels) = packed else {
        // Compensation: steps like any others, so each runs once, even across crashes.
        step("refund card").await?;
        step("release stock").await?;
        return Ok("given back: the warehouse did not answer".into());
    };
    step("ship").await?;
    Ok(format!("shipped in {parcels} parcels"))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let client = Client::open(&format!("sqlite:{}", folder.path().join("jobs.db").display())).await?;
    let good = client.submit(Order { number: 1, patience: Duration::from_secs(60) }).await?;
    let bad = client.submit(Order { number: 2, patience: Duration::from_secs(1) }).await?;

    // The first worker stops when both cards are charged.
    let (charged, mut received) = mpsc::channel(16);
    let both_charged = async {
        let mut cards = BTreeSet::new();
        while cards.len() < 2 {
            cards.extend(received.recv().await);
        }
    };
    let day = Shift { name: "day", charged: charged.clone() };
    Worker::new(&client).with(day).handle(order).run_until(both_charged).await?;
    println!("-- the day worker has gone, both orders wait");

    // Signals are stored until a job waits for them.
    good.signal("packed", &2).await?;
    let both_ended = async {
        for job in [&good, &bad] {
            let ended = job.result(Duration::from_secs(10)).await;
            println!("==> {}", ended.unwrap_or_else(|error| error.to_string()));
        }
    };
    let night = Shift { name: "night", charged };
    Worker::new(&client).with(night).handle(order).run_until(both_ended).await?;
    client.close();
    Ok(())
}
