//! A node: a process that does what its coordinator orders, and ends with it.

use std::io::{BufRead, Write};
use std::process::ExitCode;

use anyhow::Context;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use windlass::bench::node::{Node, PlainCallers};

use super::protocol::{GO, Order, Reply, STOP};
use super::{CALLERS, SLOTS, blocking};
use crate::config::shown;

/// Lines that wait to be read: an order, and what follows it.
const LINES_MAX: usize = 4;

/// Does what is ordered until standard input ends.
pub(crate) async fn be_a_node() -> anyhow::Result<ExitCode> {
    let mut lines = Lines::start()?;
    let mut addresses = Vec::new();
    match run_order(&mut lines, &mut addresses).await {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            let why = addresses.iter().fold(format!("{error:#}"), |why, address: &String| {
                why.replace(address.as_str(), &shown(address))
            });
            say(&Reply::Failed(why))?;
            Ok(ExitCode::FAILURE)
        }
    }
}

async fn run_order(lines: &mut Lines, addresses: &mut Vec<String>) -> anyhow::Result<()> {
    let Order::Open { store, plain, payload } = lines.order().await? else {
        anyhow::bail!("the first order of a node opens a store");
    };
    addresses.extend([store.clone(), plain.clone()]);
    let node = Node::open(&store).await?;
    say(&Reply::Ready)?;
    loop {
        let order = lines.order().await?;
        let measured = match order {
            Order::Open { .. } => anyhow::bail!("the store is open already"),
            Order::PickUp { pause, time } => {
                let over = CancellationToken::new();
                let sending = async {
                    lines.begin().await?;
                    if let Some(pause) = pause {
                        node.send_pings(pause, time).await?;
                        say(&Reply::Ready)?;
                    }
                    lines.expect(STOP).await?;
                    over.cancel();
                    Ok(())
                };
                tokio::try_join!(node.pick_up(SLOTS, over.cancelled()), sending)?.0
            }
            Order::Work => {
                let over = CancellationToken::new();
                let stopping = async {
                    lines.begin().await?;
                    lines.expect(STOP).await?;
                    over.cancel();
                    Ok(())
                };
                tokio::try_join!(node.work(SLOTS, over.cancelled()), stopping)?.0
            }
            Order::Submit { time } => {
                lines.begin().await?;
                node.submit(CALLERS, payload, time).await?
            }
            Order::Insert { time } => {
                let plain = plain.clone();
                let callers = blocking(move || PlainCallers::open(&plain, CALLERS)).await?;
                lines.begin().await?;
                blocking(move || callers.insert(payload, time)).await?
            }
        };
        say(&Reply::Measured(measured))?;
    }
}

fn say(reply: &Reply) -> anyhow::Result<()> {
    let mut output = std::io::stdout().lock();
    serde_json::to_writer(&mut output, reply)?;
    output.write_all(b"\n")?;
    Ok(output.flush()?)
}

/// The lines of standard input.
struct Lines(mpsc::Receiver<String>);

impl Lines {
    /// Reads on a thread of its own, which ends the process with its input: the coordinator is gone then, also if it was
    /// killed.
    fn start() -> anyhow::Result<Lines> {
        let (sender, lines) = mpsc::channel(LINES_MAX);
        std::thread::Builder::new().name("bench-orders".to_owned()).spawn(move || {
            for line in std::io::stdin().lock().lines() {
                let Ok(line) = line else { break };
                if sender.blocking_send(line).is_err() {
                    break;
                }
            }
            std::process::exit(0);
        })?;
        Ok(Lines(lines))
    }

    async fn next(&mut self) -> anyhow::Result<String> {
        self.0.recv().await.context("there are no more orders")
    }

    async fn order(&mut self) -> anyhow::Result<Order> {
        let line = self.next().await?;
        serde_json::from_str(&line).context("not an order of a coordinator of the same version")
    }

    async fn expect(&mut self, word: &str) -> anyhow::Result<()> {
        let line = self.next().await?;
        anyhow::ensure!(line == word, "the coordinator said `{line}` instead of `{word}`");
        Ok(())
    }

    /// Says that everything is prepared, and waits for the word to begin.
    async fn begin(&mut self) -> anyhow::Result<()> {
        say(&Reply::Ready)?;
        self.expect(GO).await
    }
}
