//! The change listener: notifies other nodes of commits made here, and wakes waiters of this process when another node
//! has committed. Notifications make this prompt, several commits sharing one; periodic polling of the last commits
//! makes it reliable, also where notifications are disabled. Changes found only by polling although a notification
//! should have announced them are counted.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::{AsyncMessage, Client, Error};

use super::connection::address::Address;
use super::notifications::{
    Announcer, ENDS, EVERYTHING, INTERRUPTS, Notifications, OUTPUT, Pace, Received, Sent, WORK,
};
use super::sql_submit::Inbox;
use crate::clock::Stopwatch;
use crate::limits;
use crate::store::environment::Environment;
use crate::store::metrics::Fallback;

/// The change listener.
pub(super) struct ChangeListener {
    address: Address,
    env: Arc<Environment>,
    notifications: Arc<Notifications>,
    inbox: Arc<Inbox>,
    /// The number of this node.
    node: i32,
    /// The last commit that was polled, and its nonce; `None` before the first poll of a connection.
    known: Option<(i64, i64)>,
    /// Whether a caller in this process waits for changes: other nodes then announce theirs.
    is_waiting: bool,
    /// Whether the other nodes have not been notified yet that a caller began to wait here.
    is_unreported: bool,
    /// Polls in a row at which no caller waited any more.
    idle_polls: u32,
    /// Whether no caller waited on another node at the last poll.
    is_alone: bool,
    /// Kinds of changes that were not announced because no caller waited for them.
    withheld: u8,
    /// The last commit that each other node announced.
    announced: HashMap<i32, i64>,
    /// Commits of others that the last poll found and that were not announced.
    unannounced: Vec<(i32, i64)>,
}

/// Whether the change listener is to stop, or only its connection ended.
enum Ended {
    Closed,
    Lost,
}

impl ChangeListener {
    /// A change listener that is not connected yet.
    pub(super) fn new(
        address: Address,
        env: Arc<Environment>,
        notifications: Arc<Notifications>,
        inbox: Arc<Inbox>,
        node: i32,
    ) -> ChangeListener {
        ChangeListener {
            address,
            env,
            notifications,
            inbox,
            node,
            known: None,
            is_waiting: false,
            is_unreported: false,
            idle_polls: 0,
            is_alone: false,
            withheld: 0,
            announced: HashMap::new(),
            unannounced: Vec::new(),
        }
    }

    /// Runs until the store is closed.
    pub(super) fn serve(mut self) {
        match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime.block_on(self.run()),
            Err(error) => tracing::error!(%error, "cannot listen for commits of other nodes"),
        }
    }

    async fn run(&mut self) {
        let notifications = self.notifications.clone();
        // A store that is opened and closed at once needs no connection for this, unless it has something to announce.
        let _idle = tokio::time::timeout(limits::LISTENER_IDLE_INTERVAL, notifications.arrive()).await;
        loop {
            let has_news = notifications.has_unannounced() || self.withheld != 0;
            let is_silent = !self.address.is_notifying || !has_news;
            if notifications.is_closed() && is_silent {
                return;
            }
            let watch = Stopwatch::start();
            let ended = tokio::select! {
                ended = self.connected() => ended,
                () = notifications.closed_for(limits::CLOSE_MAX) => Ended::Closed,
            };
            let is_over = matches!(ended, Ended::Closed) || notifications.is_closed();
            if is_over {
                return;
            }
            // A connection that lasted is replaced immediately: until it is, other nodes' commits are found by polling
            // alone.
            let has_lasted = watch.elapsed() > limits::RECONNECT_EVERY_MAX;
            if !has_lasted && notifications.is_closed_within(limits::RECONNECT_EVERY_MAX).await {
                return;
            }
        }
    }

    /// Runs as long as the connection lasts.
    async fn connected(&mut self) -> Ended {
        let connected = self.address.listen.connect(self.address.listen_tls.clone()).await;
        let Ok((client, mut connection)) = connected else {
            return Ended::Lost;
        };
        let received = Arc::new(Received::default());
        let (receiving, node) = (received.clone(), self.node);
        let driver = tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(notification) = message {
                    receiving.receive(notification.payload(), node);
                }
            }
            receiving.end();
        });
        let ended = self.listen(&client, &received).await;
        self.notifications.know(None);
        driver.abort();
        ended.unwrap_or_else(|error| {
            tracing::debug!(%error, "the change listener lost its connection");
            Ended::Lost
        })
    }

    async fn listen(&mut self, client: &Client, received: &Received) -> Result<Ended, Error> {
        let (nodes, waiting) = (self.address.lock_key("nodes"), self.address.lock_key("waiting"));
        (self.known, self.is_alone, self.is_waiting) = (None, false, false);
        self.unannounced.clear();
        if self.address.is_notifying {
            let channel = self.address.channel();
            // The first lock says that the store is open here: it is not moved meanwhile.
            let greeting = format!("SELECT pg_advisory_lock_shared({nodes}); LISTEN \"{channel}\"");
            client.batch_execute(&greeting).await?;
            // The other nodes learn what they may have missed.
            self.notifications.add(EVERYTHING);
        }
        let every = if self.address.is_notifying {
            self.env.timing.backstop_every
        } else {
            limits::LISTENER_IDLE_INTERVAL
        };
        let mut rounds = tokio::time::interval(every);
        let (notifications, env) = (self.notifications.clone(), self.env.clone());
        let (mut pace, mut last) = (Pace::default(), None::<Stopwatch>);
        loop {
            let is_seen = self.address.is_notifying && !self.is_alone && !self.is_unreported;
            notifications.know(is_seen.then(|| self.announcer()));
            // Meanwhile the notifications of others are received.
            let pause = last.map_or(Duration::ZERO, |last| pace.interval().saturating_sub(last.elapsed()));
            // Changes that no caller waits for stay unannounced, without waking this thread for each commit.
            let is_silent = self.address.is_notifying && self.is_alone && !self.is_unreported;
            let due = async {
                tokio::time::sleep(pause).await;
                if is_silent {
                    notifications.closed_for(Duration::ZERO).await;
                } else {
                    notifications.arrive().await;
                }
            };
            tokio::select! {
                () = due => {
                    pace.announced(last.map(Stopwatch::elapsed));
                    last = Some(Stopwatch::start());
                    self.announce(client).await?;
                    if notifications.is_closed() {
                        return Ok(Ended::Closed);
                    }
                }
                announced = received.next() => {
                    if announced.is_over {
                        return Ok(Ended::Lost);
                    }
                    self.receive(announced);
                }
                () = env.wakeups.until_waiters(), if self.address.is_notifying && !self.is_waiting => {
                    self.begin_to_wait(client, waiting).await?;
                }
                _ = rounds.tick() => self.poll(client, waiting).await?,
            }
        }
    }

    /// A caller waits in this process from now on: other nodes find the lock taken, and announce what they withheld.
    async fn begin_to_wait(&mut self, client: &Client, waiting: i64) -> Result<(), Error> {
        client.batch_execute(&format!("SELECT pg_advisory_lock_shared({waiting})")).await?;
        (self.is_waiting, self.idle_polls) = (true, 0);
        self.unannounced.clear();
        // They are notified even if a poll finds first that no other node waits.
        self.is_unreported = true;
        self.notifications.add(EVERYTHING);
        Ok(())
    }

    /// Gives the lock back some time after the last waiter has gone: those of a worker that is busy come and go.
    async fn end_waiting(&mut self, client: &Client, waiting: i64) -> Result<(), Error> {
        self.idle_polls = if self.env.wakeups.has_waiters() { 0 } else { self.idle_polls + 1 };
        if self.is_waiting && self.idle_polls >= limits::LISTENER_LEAVES_AFTER {
            client.batch_execute(&format!("SELECT pg_advisory_unlock_shared({waiting})")).await?;
            self.is_waiting = false;
        }
        Ok(())
    }

    /// Notifies the other nodes of what was committed here.
    async fn announce(&mut self, client: &Client) -> Result<(), Error> {
        let notifications = self.notifications.clone();
        if notifications.is_closed() {
            // Who begins to wait now does not find this node any more.
            self.meet_others();
        }
        let Some(announcement) = notifications.take() else { return Ok(()) };
        if !self.address.is_notifying {
            announcement.done();
            return Ok(());
        }
        if self.is_alone && !self.is_unreported {
            self.withheld |= announcement.kinds;
            announcement.done();
            return Ok(());
        }
        // A notification is not worth a disk write: a node that misses it polls. Set for this transaction alone: on a
        // pooler's connection, others would commit later.
        let message = self.announcer().message(announcement.kinds | self.withheld, announcement.commit);
        let sql = format!(
            "SELECT set_config('synchronous_commit', 'off', true), pg_notify('{}', '{message}')",
            self.address.channel()
        );
        notifications.announced();
        client.batch_execute(&sql).await?;
        (self.is_unreported, self.withheld) = (false, 0);
        announcement.done();
        Ok(())
    }

    fn announcer(&self) -> Announcer {
        Announcer { node: self.node, is_waiting: self.is_waiting }
    }

    fn receive(&mut self, announced: Sent) {
        if announced.has_entries {
            self.inbox.call();
        }
        if announced.kinds == 0 {
            return;
        }
        if announced.is_waiting {
            self.meet_others();
        }
        if self.announced.len() >= limits::NODES_KEPT {
            self.announced.clear();
        }
        self.announced.extend(announced.commits);
        let wakeups = &self.env.wakeups;
        let has = |bit: u8| announced.kinds & bit != 0;
        if has(WORK) {
            wakeups.work_arrived();
        }
        if has(ENDS) {
            wakeups.jobs_ended();
        }
        if has(INTERRUPTS) {
            wakeups.jobs_interrupted();
        }
        if has(ENDS) || has(OUTPUT) {
            wakeups.streamed_by_others();
        }
        wakeups.recorded_by_others();
    }

    /// A caller waits on another node, and needs what was withheld.
    fn meet_others(&mut self) {
        self.is_alone = false;
        let withheld = std::mem::take(&mut self.withheld);
        if withheld != 0 {
            self.notifications.add(withheld);
        }
    }

    /// Polls for commits of other nodes, and whether a caller waits on one.
    async fn poll(&mut self, client: &Client, waiting: i64) -> Result<(), Error> {
        if self.address.is_notifying {
            self.end_waiting(client, waiting).await?;
            // Only if no other node waits it gets the lock that waiting nodes share.
            let sql = format!(
                "SELECT CASE WHEN pg_try_advisory_lock({waiting}) THEN pg_advisory_unlock({waiting}) ELSE false END"
            );
            let alone = client.query_typed(&sql, &[]).await?;
            if alone.first().is_some_and(|row| row.get(0)) {
                self.is_alone = true;
            } else {
                self.meet_others();
            }
        }
        let prefix = self.address.prefix();
        let sql = format!(
            "SELECT EXISTS (SELECT 1 FROM {prefix}inbox WHERE refusal IS NULL), \
             EXISTS (SELECT 1 FROM {prefix}appends WHERE refusal IS NULL \
             AND n >= (SELECT appends_from FROM {prefix}commits ORDER BY n DESC LIMIT 1))"
        );
        let waiting = client.query_typed(&sql, &[]).await?;
        if waiting.first().is_some_and(|row| row.get(0)) {
            self.inbox.call();
        }
        if waiting.first().is_some_and(|row| row.get(1)) {
            // No commit announces it; a claim takes it in.
            self.env.wakeups.work_arrived();
        }
        self.read_commits(client).await
    }

    async fn read_commits(&mut self, client: &Client) -> Result<(), Error> {
        let commits = format!("{}commits", self.address.prefix());
        if let Some((known, nonce)) = self.known {
            let sql = format!("SELECT 1 FROM {commits} WHERE n = {known} AND nonce = {nonce}");
            if client.query_typed(&sql, &[]).await?.is_empty() {
                // The server crashed before it was on disk, and a pooler hides that; or it was removed long ago.
                self.known = None;
            }
        }
        let Some((known, _)) = self.known else {
            // Whatever happened while this node was not listening.
            let sql = format!("SELECT n, nonce FROM {commits} ORDER BY n DESC LIMIT 1");
            let rows = client.query_typed(&sql, &[]).await?;
            self.known = rows.first().map(|row| (row.get(0), row.get(1)));
            self.env.wakeups.changed_by_others();
            return Ok(());
        };
        let sql = format!(
            "SELECT DISTINCT ON (1) (nonce >> 32)::integer, n, nonce FROM {commits} WHERE n > {known} \
             ORDER BY 1, n DESC"
        );
        let rows = client.query_typed(&sql, &[]).await?;
        let latest: Vec<(i32, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        let last = rows.iter().map(|row| (row.get::<_, i64>(1), row.get::<_, i64>(2))).max();
        self.known = last.or(self.known);
        let is_unannounced = |(node, n): &(i32, i64)| self.announced.get(node).is_none_or(|last| last < n);
        if self.address.is_notifying && self.unannounced.iter().any(is_unannounced) {
            // It was not there at the last poll, and a notification does not take that long.
            self.env.metrics.fell_back(Fallback::Node);
        }
        let others = latest.into_iter().filter(|(node, _)| *node != self.node);
        let unannounced: Vec<(i32, i64)> = others.filter(is_unannounced).collect();
        if !unannounced.is_empty() {
            self.env.wakeups.changed_by_others();
        }
        // Where no caller waits, nothing is announced.
        self.unannounced = if self.is_waiting { unannounced } else { Vec::new() };
        Ok(())
    }
}
