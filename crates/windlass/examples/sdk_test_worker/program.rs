//! Programs as lists of operations, which docs/sdk-test.md and docs/protocol.md describe, run by a handler.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use windlass::Cx;
use windlass::context::{ChildError, Children, First};
use windlass::handler::Snooze;
use windlass::job::{Category, Failure, GroupStrategy};

/// What is outside of a program.
pub(crate) trait World: Send + Sync {
    /// Notes what a program has done.
    fn note(&self, line: &str) -> anyhow::Result<()>;
    /// Whether this is asked for the first time, in any process.
    fn is_first(&self, name: &str) -> bool;
    /// Spawns a group; unnamed if the name is empty.
    fn spawn<'a>(
        &'a self,
        cx: &'a Cx,
        name: &'a str,
        children: &'a [Value],
        strategy: GroupStrategy,
    ) -> Spawning<'a>;
    /// Submits a job with this program when the attempt completes.
    fn follow_up(&self, cx: &Cx, program: &[Value]) -> anyhow::Result<()>;
}

/// The results of a group.
pub(crate) type Spawning<'a> = Pin<Box<dyn Future<Output = anyhow::Result<Children<Value>>> + Send + 'a>>;

/// What an operation leads to: the next one, or the end of the handler with this result.
pub(crate) enum Flow {
    Next,
    Done(Value),
}

pub(crate) type Doing<'a> = Pin<Box<dyn Future<Output = anyhow::Result<Flow>> + Send + 'a>>;

fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of[name].as_str().unwrap_or_default()
}

fn millis(value: &Value) -> Duration {
    Duration::from_millis(value.as_u64().unwrap_or(0))
}

fn failure(given: &Value) -> anyhow::Error {
    let category = Category::ALL.into_iter().find(|known| known.as_str() == text(given, "category"));
    let mut failure = Failure::new(category.unwrap_or(Category::Temporary), text(given, "message"));
    if let Some(code) = given["code"].as_str() {
        failure = failure.with_code(code);
    }
    if !given["retry_after_ms"].is_null() {
        failure = failure.with_retry_after(millis(&given["retry_after_ms"]));
    }
    failure.into()
}

/// Notes that the attempt was asked to stop, also if its future is dropped.
struct Stopped<'a, W: World>(&'a W);

impl<W: World> Drop for Stopped<'_, W> {
    fn drop(&mut self) {
        let _noted = self.0.note("stopped");
    }
}

/// One attempt of a program.
pub(crate) struct Program<W> {
    cx: Cx,
    world: W,
    got: Mutex<HashMap<String, Value>>,
    caught: Mutex<HashMap<String, anyhow::Error>>,
    counts: Mutex<HashMap<String, usize>>,
    races: AtomicUsize,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<W: World> Program<W> {
    pub(crate) fn new(cx: Cx, world: W) -> Program<W> {
        let (got, caught, counts) = (Mutex::default(), Mutex::default(), Mutex::default());
        Program { cx, world, got, caught, counts, races: AtomicUsize::new(0) }
    }

    /// What calls have got, by key.
    #[allow(dead_code, reason = "not every program that uses this looks")]
    pub(crate) fn got(&self) -> HashMap<String, Value> {
        locked(&self.got).clone()
    }

    /// The key of a call in a branch: the key of the step that it is within, and after `|` the sides of races.
    fn key(&self, branch: &str, name: &str) -> String {
        let (path, sides) = branch.split_once('|').unwrap_or((branch, ""));
        let key = format!("{path}{}{sides}", name.replace('#', "##"));
        let mut counts = locked(&self.counts);
        let count = counts.entry(key.clone()).or_default();
        *count += 1;
        if *count == 1 { key } else { format!("{key}#{count}") }
    }

    pub(crate) fn run<'a>(&'a self, operations: &'a [Value], branch: &'a str) -> Doing<'a> {
        Box::pin(async move {
            for one in operations {
                if let done @ Flow::Done(_) = self.operation(one, branch).await? {
                    return Ok(done);
                }
            }
            Ok(Flow::Next)
        })
    }

    async fn operation(&self, one: &Value, branch: &str) -> anyhow::Result<Flow> {
        let has = |name: &str| one.get(name).is_some();
        let waits = ["step", "sleep", "signal", "first_signal", "children", "together", "race"];
        if waits.into_iter().any(has) {
            return self.durable(one, branch).await;
        }
        if has("return") {
            return Ok(Flow::Done(one["return"].clone()));
        } else if let Some(key) = one["return_got"].as_str() {
            return Ok(Flow::Done(locked(&self.got).get(key).cloned().unwrap_or_default()));
        } else if has("return_checkpoint") {
            return Ok(Flow::Done(self.cx.last_checkpoint::<Value>()?.unwrap_or_default()));
        } else if let Some(length) = one["return_bytes"].as_u64() {
            return Ok(Flow::Done(json!("x".repeat(usize::try_from(length)?))));
        } else if let Some(versions) = one["versions"].as_array() {
            let version = if self.world.is_first("version") { versions.first() } else { versions.last() };
            let operations = version.and_then(Value::as_array).context("a version is a list")?;
            return self.run(operations, branch).await;
        }
        self.effect(one).await?;
        Ok(Flow::Next)
    }

    /// Calls that are saved.
    async fn durable(&self, one: &Value, branch: &str) -> anyhow::Result<Flow> {
        if one.get("step").is_some() {
            self.step(one, branch).await?;
        } else if one.get("sleep").is_some() {
            match one["name"].as_str() {
                Some(name) => self.cx.sleep_named(name, millis(&one["sleep"])).await?,
                None => self.cx.sleep(millis(&one["sleep"])).await?,
            }
        } else if let Some(name) = one["signal"].as_str() {
            let key = self.key(branch, &format!("signal:{name}"));
            let timeout = one.get("timeout").map(millis);
            let value = self.cx.wait_signal::<Value>(name, timeout).await?;
            locked(&self.got).insert(key, value.unwrap_or_default());
        } else if let Some(names) = one["first_signal"].as_array() {
            let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
            let first = self.cx.wait_any::<Value>(&names, None).await?;
            return Ok(Flow::Done(json!(first.map(|(name, _)| name))));
        } else if let Some(children) = one["children"].as_array() {
            self.children(one, children, branch).await?;
        } else if let Some(operations) = one["together"].as_array() {
            self.together(operations, branch).await?;
        } else if let Some([left, right]) = one["race"].as_array().map(Vec::as_slice) {
            let number = self.races.fetch_add(1, Ordering::Relaxed) + 1;
            let (path, sides) = branch.split_once('|').unwrap_or((branch, ""));
            let sides = ["l", "r"].map(|side| format!("{path}|{sides}#{side}{number}"));
            let [left, right] = [(left, &sides[0]), (right, &sides[1])]
                .map(|(one, side)| self.run(std::slice::from_ref(one), side));
            match self.cx.race(left, right).await {
                First::Left(ended) | First::Right(ended) => drop(ended?),
            }
        }
        Ok(Flow::Next)
    }

    async fn step(&self, one: &Value, branch: &str) -> anyhow::Result<()> {
        let name = text(one, "step");
        let key = self.key(branch, name);
        let within = format!("{key}#/");
        let work = async {
            self.world.note(&key)?;
            if let Some(operations) = one["within"].as_array() {
                self.run(operations, &within).await?;
            }
            let times = one["times"].as_u64().unwrap_or(0);
            let fails = times > 8
                || one.get("times").is_none()
                || (0..times).any(|number| self.world.is_first(&format!("{key}-{number}")));
            if one.get("fails").is_some() && fails {
                return Err(failure(&one["fails"]));
            }
            Ok(match one["returns_bytes"].as_u64() {
                Some(length) => json!("x".repeat(usize::try_from(length)?)),
                None => one["returns"].clone(),
            })
        };
        match self.cx.step::<Value, anyhow::Error>(name, work).await {
            Ok(value) => drop(locked(&self.got).insert(key, value)),
            Err(error) if one["caught"] == true => drop(locked(&self.caught).insert(key, error)),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn children(&self, one: &Value, children: &[Value], branch: &str) -> anyhow::Result<()> {
        let name = text(one, "name");
        let key = self.key(branch, &format!("children:{name}"));
        let strategy: GroupStrategy = serde_json::from_value(one["strategy"].clone())?;
        let group = self.world.spawn(&self.cx, name, children, strategy).await?;
        let shown = group.results.into_iter().map(|result| match result {
            Ok(value) => json!({"result": value}),
            Err(ChildError::NotCompleted { state, .. }) => json!({"state": state.as_str()}),
            Err(other) => json!({"error": other.to_string()}),
        });
        locked(&self.got).insert(key, shown.collect());
        Ok(())
    }

    /// Does operations side by side, begun in their order.
    async fn together(&self, operations: &[Value], branch: &str) -> anyhow::Result<()> {
        let mut open: Vec<Doing<'_>> =
            operations.iter().map(|one| self.run(std::slice::from_ref(one), branch)).collect();
        poll_fn(|context| {
            let mut failed = None;
            open.retain_mut(|doing| match doing.as_mut().poll(context) {
                Poll::Pending => true,
                Poll::Ready(ended) => {
                    failed = failed.take().or(ended.err());
                    false
                }
            });
            match failed {
                Some(error) => Poll::Ready(Err(error)),
                None if open.is_empty() => Poll::Ready(Ok(())),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// What has an effect and no result.
    async fn effect(&self, one: &Value) -> anyhow::Result<()> {
        if one.get("checkpoint").is_some() {
            self.cx.checkpoint(&one["checkpoint"]).await?;
        } else if one.get("fail").is_some() {
            if u64::from(self.cx.failures()) < one["times"].as_u64().unwrap_or(u64::MAX) {
                return Err(failure(&one["fail"]));
            }
        } else if let Some(key) = one["raise"].as_str() {
            if let Some(error) = locked(&self.caught).remove(key) {
                return Err(error);
            }
        } else if one.get("snooze").is_some() {
            if self.world.is_first("snooze") {
                return Err(Snooze(millis(&one["snooze"])).into());
            }
        } else if let Some(name) = one["kill"].as_str() {
            if self.world.is_first(name) {
                Command::new("kill").args(["-9", &std::process::id().to_string()]).status()?;
                std::future::pending::<()>().await;
            }
        } else if let Some(name) = one["until_stopped"].as_str() {
            if self.world.is_first(name) {
                let _stopped = Stopped(&self.world);
                self.cx.cancelled().await;
                return Err(Failure::temporary("stopped").into());
            }
        } else if one.get("pause").is_some() {
            if self.world.is_first("pause") {
                tokio::time::sleep(millis(&one["pause"])).await;
            }
        } else {
            self.report(one).await?;
        }
        Ok(())
    }

    async fn report(&self, one: &Value) -> anyhow::Result<()> {
        if let Some(program) = one["follow_up"].as_array() {
            self.world.follow_up(&self.cx, program)?;
        } else if let Some(percent) = one["progress"].as_f64() {
            self.cx.progress(percent, text(one, "message")).await?;
        } else if let Some(lines) = one["log"].as_array() {
            let lines = lines.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            self.cx.log_all(lines).await?;
        } else if let Some(chunks) = one["stream"].as_array() {
            for chunk in chunks {
                self.cx.stream(chunk).await?;
            }
        } else if let Some(cents) = one["cost"].as_u64() {
            self.cx.cost(u32::try_from(cents)?);
        } else if let Some(line) = one["note"].as_str() {
            self.world.note(line)?;
        } else {
            anyhow::bail!("an unknown operation: {one}");
        }
        Ok(())
    }
}
