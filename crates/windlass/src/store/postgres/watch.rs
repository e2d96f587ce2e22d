//! The look-out: tells other nodes that something was committed here, and wakes those who wait here when something was
//! committed elsewhere. Notifications make it prompt, several commits sharing one; a look at the last commits now and then
//! makes it sure, also where notifications are switched off.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio_postgres::{AsyncMessage, Client};

use super::address::Address;
use super::door::Door;
use crate::limits;
use crate::store::environment::Environment;
use crate::store::unit::Effects;

/// What may have changed, as bits.
const WORK: u8 = 1;
const ENDS: u8 = 2;
const INTERRUPTS: u8 = 4;

/// Notifications that wait to be looked at; each says only that there is something new, so more would say nothing more.
const HEARD_MAX: usize = 64;

/// What the look-out is told by this node's writer.
#[derive(Default)]
pub(super) struct News {
    is_closed: AtomicBool,
    has_commits: AtomicBool,
    what: AtomicU8,
    arrived: Notify,
}

impl News {
    /// Something was committed here.
    pub(super) fn committed(&self, effects: &Effects) {
        let what = [
            (!effects.work.is_empty(), WORK),
            (effects.has_ends, ENDS),
            (effects.has_interrupts, INTERRUPTS),
        ];
        let what = what.iter().filter(|(is_so, _)| *is_so).fold(0, |all, (_, bit)| all | bit);
        self.what.fetch_or(what, Ordering::Relaxed);
        if !self.has_commits.swap(true, Ordering::AcqRel) {
            self.arrived.notify_one();
        }
    }

    /// Ends the look-out.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.arrived.notify_one();
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }
}

/// The look-out.
pub(super) struct Watch {
    address: Address,
    env: Arc<Environment>,
    news: Arc<News>,
    door: Arc<Door>,
    /// This node among the others.
    node: i32,
    /// The last commit that was looked at; none before the first look.
    known: Option<i64>,
    /// Whether no other node was there at the last look.
    is_alone: bool,
}

/// Whether the look-out is to end, or only its connection did.
enum Ended {
    Closed,
    Lost,
}

impl Watch {
    /// A look-out that is not connected yet.
    pub(super) fn new(
        address: Address,
        env: Arc<Environment>,
        news: Arc<News>,
        door: Arc<Door>,
        node: i32,
    ) -> Watch {
        Watch { address, env, news, door, node, known: None, is_alone: false }
    }

    /// Looks out until it is told to end.
    pub(super) fn serve(mut self) {
        match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime.block_on(self.look_out()),
            Err(error) => tracing::error!(%error, "nobody looks out for other nodes"),
        }
    }

    async fn look_out(&mut self) {
        // A store that is opened, used and closed at once needs nobody to look out.
        if !self.is_closed_within(limits::LOOKOUT_IDLE_EVERY).await {
            while let Ended::Lost = self.connected().await {
                // Whoever waits may have missed something.
                self.env.wakeups.changed_elsewhere();
                if self.is_closed_within(limits::RECONNECT_EVERY_MAX).await {
                    return;
                }
            }
        }
    }

    async fn is_closed_within(&self, time: Duration) -> bool {
        let closed = async {
            while !self.news.is_closed() {
                self.news.arrived.notified().await;
            }
        };
        tokio::time::timeout(time, closed).await.is_ok()
    }

    /// Looks out as long as the connection lasts.
    async fn connected(&mut self) -> Ended {
        let connected = self.address.listen.connect(self.address.listen_tls.clone()).await;
        let Ok((client, mut connection)) = connected else {
            return Ended::Lost;
        };
        let (hear, mut heard) = mpsc::channel(HEARD_MAX);
        let driver = tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(notification) = message {
                    // One that finds no room is not missed: those before it say the same.
                    let _is_full = hear.try_send(notification.payload().to_owned());
                }
            }
        });
        let ended = self.listen(&client, &mut heard).await;
        driver.abort();
        ended.unwrap_or_else(|error| {
            tracing::debug!(%error, "the look-out lost its connection");
            Ended::Lost
        })
    }

    async fn listen(
        &mut self,
        client: &Client,
        heard: &mut mpsc::Receiver<String>,
    ) -> Result<Ended, tokio_postgres::Error> {
        let (channel, nodes) = (self.address.channel(), self.address.lock_key("nodes"));
        let greeting = format!("SELECT pg_advisory_lock_shared({nodes}); LISTEN \"{channel}\"");
        if self.address.is_notifying {
            client.batch_execute(&greeting).await?;
            self.tell(client, WORK | ENDS | INTERRUPTS).await?;
        }
        let every =
            if self.address.is_notifying { limits::BACKSTOP_EVERY } else { limits::LOOKOUT_IDLE_EVERY };
        let mut rounds = tokio::time::interval(every);
        loop {
            tokio::select! {
                () = self.news.arrived.notified() => {
                    if self.news.is_closed() {
                        return Ok(Ended::Closed);
                    }
                    self.news.has_commits.store(false, Ordering::Release);
                    let what = self.news.what.swap(0, Ordering::Relaxed);
                    if self.address.is_notifying && !self.is_alone {
                        self.tell(client, what).await?;
                        // What is committed meanwhile shares the next one.
                        tokio::time::sleep(limits::NOTIFY_EVERY).await;
                    }
                }
                message = heard.recv() => match message {
                    Some(message) => self.hear(&message),
                    None => return Ok(Ended::Lost),
                },
                _ = rounds.tick() => self.look(client, nodes).await?,
            }
        }
    }

    async fn tell(&self, client: &Client, what: u8) -> Result<(), tokio_postgres::Error> {
        // Telling others is worth no disk write: whoever misses it looks by himself. Said for this transaction alone: were
        // the connection a pooler's, others would commit on it later.
        let sql = format!(
            "SELECT set_config('synchronous_commit', 'off', true), pg_notify('{}', '{}:{what}')",
            self.address.channel(),
            self.node
        );
        client.batch_execute(&sql).await
    }

    fn hear(&mut self, message: &str) {
        let mut parts = message.split(':').map(str::parse::<i32>);
        let (Some(Ok(node)), Some(Ok(what))) = (parts.next(), parts.next()) else {
            // Not from a node: jobs that came in by the door in SQL.
            return self.door.call();
        };
        if node == self.node {
            return;
        }
        self.is_alone = false;
        let wakeups = &self.env.wakeups;
        let has = |bit: u8| what & i32::from(bit) != 0;
        if has(WORK) {
            wakeups.work_arrived();
        }
        if has(ENDS) {
            wakeups.jobs_ended();
        }
        if has(INTERRUPTS) {
            wakeups.jobs_interrupted();
        }
        wakeups.recorded_elsewhere();
    }

    /// Looks for commits of others, and whether there are others.
    async fn look(&mut self, client: &Client, nodes: i64) -> Result<(), tokio_postgres::Error> {
        if self.address.is_notifying {
            // Only whoever is alone gets the lock that all share.
            let sql = format!(
                "SELECT CASE WHEN pg_try_advisory_lock({nodes}) THEN pg_advisory_unlock({nodes}) ELSE false END"
            );
            let alone = client.query_typed(&sql, &[]).await?;
            self.is_alone = alone.first().is_some_and(|row| row.get(0));
        }
        let sql =
            format!("SELECT EXISTS (SELECT 1 FROM {}inbox WHERE refusal IS NULL)", self.address.prefix());
        let letters = client.query_typed(&sql, &[]).await?;
        if letters.first().is_some_and(|row| row.get(0)) {
            self.door.call();
        }
        if !self.env.wakeups.has_waiters() {
            return Ok(());
        }
        let sql = format!(
            "SELECT max(n), coalesce(bool_or((nonce >> 32) <> {}), false) FROM {}commits WHERE n > {}",
            self.node,
            self.address.prefix(),
            self.known.unwrap_or(-1)
        );
        let rows = client.query_typed(&sql, &[]).await?;
        let Some(row) = rows.first() else { return Ok(()) };
        let (head, has_foreign): (Option<i64>, bool) = (row.get(0), row.get(1));
        if has_foreign {
            self.env.wakeups.changed_elsewhere();
        }
        self.known = head.or(self.known);
        Ok(())
    }
}
