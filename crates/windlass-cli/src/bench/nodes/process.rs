//! The nodes as their coordinator sees them: processes of this program that are killed when they are dropped, and that end
//! by themselves when the coordinator is killed.

use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use windlass::bench::node::CallTimes;

use super::protocol::{GO, Order, Reply, STOP};
use crate::limits::BENCH_NODE_REPLY_MAX;

/// A node.
struct NodeProcess {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl NodeProcess {
    fn start() -> anyhow::Result<NodeProcess> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("bench-node")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start a node")?;
        let input = child.stdin.take().expect("it was requested");
        let output = BufReader::new(child.stdout.take().expect("it was requested")).lines();
        Ok(NodeProcess { child, input, output })
    }

    async fn send_line(&mut self, line: &str) -> anyhow::Result<()> {
        // In one piece: all nodes begin at the same moment.
        self.input.write_all(format!("{line}\n").as_bytes()).await.context("a node ended")?;
        Ok(self.input.flush().await?)
    }

    /// The next reply, after this time.
    async fn reply(&mut self, time: Duration) -> anyhow::Result<Reply> {
        let within = time + BENCH_NODE_REPLY_MAX;
        let line = tokio::time::timeout(within, self.output.next_line()).await;
        let line = line.with_context(|| format!("no reply of a node within {within:?}"))??;
        match serde_json::from_str(&line.context("a node ended")?)? {
            Reply::Failed(why) => anyhow::bail!("a node failed: {why}"),
            reply => Ok(reply),
        }
    }

    async fn ready(&mut self, time: Duration) -> anyhow::Result<()> {
        let reply = self.reply(time).await?;
        anyhow::ensure!(matches!(reply, Reply::Ready), "a node is not ready, but says {reply:?}");
        Ok(())
    }
}

/// All nodes of a measurement.
pub(super) struct Nodes(Vec<NodeProcess>);

impl Nodes {
    /// Starts so many nodes, and waits until each has opened the store.
    pub(super) async fn start(count: usize, open: &Order) -> anyhow::Result<Nodes> {
        let nodes = (0..count).map(|_| NodeProcess::start()).collect::<anyhow::Result<_>>()?;
        let mut nodes = Nodes(nodes);
        nodes.order(|_| open.clone()).await?;
        Ok(nodes)
    }

    /// Gives each its order, and waits until all are ready.
    pub(super) async fn order(&mut self, order: impl Fn(usize) -> Order) -> anyhow::Result<()> {
        for (index, node) in self.0.iter_mut().enumerate() {
            node.send_line(&serde_json::to_string(&order(index))?).await?;
        }
        for node in &mut self.0 {
            node.ready(Duration::ZERO).await?;
        }
        Ok(())
    }

    /// Waits until the first has done its part, which takes this time.
    pub(super) async fn await_first(&mut self, time: Duration) -> anyhow::Result<()> {
        self.0.first_mut().context("there are no nodes")?.ready(time).await
    }

    /// Lets all begin.
    pub(super) async fn go(&mut self) -> anyhow::Result<()> {
        self.send_line(GO).await
    }

    /// Ends what lasts until this; returns what each has measured.
    pub(super) async fn stop(&mut self) -> anyhow::Result<Vec<CallTimes>> {
        self.send_line(STOP).await?;
        self.measured(Duration::ZERO).await
    }

    /// What each has measured, after this time.
    pub(super) async fn measured(&mut self, time: Duration) -> anyhow::Result<Vec<CallTimes>> {
        let mut all = Vec::with_capacity(self.0.len());
        for node in &mut self.0 {
            match node.reply(time).await? {
                Reply::Measured(measured) => all.push(measured),
                reply => anyhow::bail!("a node measured nothing, but says {reply:?}"),
            }
        }
        Ok(all)
    }

    async fn send_line(&mut self, line: &str) -> anyhow::Result<()> {
        for node in &mut self.0 {
            node.send_line(line).await?;
        }
        Ok(())
    }

    /// Ends all of them.
    pub(super) async fn end(self) -> anyhow::Result<()> {
        for mut node in self.0 {
            node.child.kill().await?;
        }
        Ok(())
    }
}
