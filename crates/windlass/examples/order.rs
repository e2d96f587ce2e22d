//! An order as one durable function: reserve, charge, wait for the warehouse, ship; and when the warehouse does not answer,
//! give everything back in the opposite order. The second worker takes over where the first one left.
//!
//! Run it with `cargo run -p windlass --example order`.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use windlass::{Client, Cx, Job, State, Worker};

#[derive(Serialize, Deserialize)]
struct Order {
    number: u32,
    /// How long the warehouse may take.
    patience: Duration,
}

impl Job for Order {
    const TYPE: &'static str = "order";
    type Output = String;
}

/// Which worker this is, to show that the work of one is not done again by the other; and how it tells `main` of charges.
#[derive(Clone)]
struct Shift {
    name: &'static str,
    charged: mpsc::Sender<u32>,
}

/// Something that happens elsewhere: given a key that stays the same, so that a repetition is recognised there.
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

    // Time to think better of it. Neither the sleep nor the wait holds a slot, a thread or a process.
    cx.sleep(Duration::from_millis(100)).await?;
    let packed: Option<u32> = cx.wait_signal("packed", Some(order.patience)).await?;

    let Some(parcels) = packed else {
        // Compensation: steps like any others, so each is done once, whatever crashes on the way.
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
    let queue = Client::open(&format!("sqlite:{}", folder.path().join("jobs.db").display())).await?;
    let good = queue.submit(Order { number: 1, patience: Duration::from_secs(60) }).await?;
    let bad = queue.submit(Order { number: 2, patience: Duration::from_secs(1) }).await?;

    // The first worker leaves when both cards are charged.
    let (charged, mut heard) = mpsc::channel(16);
    let both_charged = async {
        let mut cards = BTreeSet::new();
        while cards.len() < 2 {
            cards.extend(heard.recv().await);
        }
    };
    let day = Shift { name: "day", charged: charged.clone() };
    Worker::new(&queue).with(day).handle(order).run_until(both_charged).await?;
    println!("-- the day worker has gone, both orders wait");

    // Signals are kept until they are asked for.
    good.signal("packed", &2).await?;
    let both_ended = async {
        for job in [&good, &bad] {
            let ended = job.result(Duration::from_secs(10)).await;
            println!("==> {}", ended.unwrap_or_else(|error| error.to_string()));
        }
    };
    let night = Shift { name: "night", charged };
    Worker::new(&queue).with(night).handle(order).run_until(both_ended).await?;
    queue.close();
    Ok(())
}
