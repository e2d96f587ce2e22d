//! The one writer of this node: takes everything that waits, does it in one transaction, and answers after the commit.
//! A connection that breaks is made anew; a commit that nobody answered for is looked up before anything is done again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::address::Address;
use super::ahead::Needs;
use super::door::{Door, Opening};
use super::link::Link;
use super::migrate;
use super::tables::Tables;
use super::watch::News;
use crate::clock::{Patience, Stopwatch, Timestamp};
use crate::entropy::Entropy;
use crate::error::StoreError;
use crate::limits;
use crate::store::durable::inbox::Inbox;
use crate::store::durable::panic::{contained, panicked};
use crate::store::engine::{EngineResult, ReadTask, WriteTask};
use crate::store::environment::Environment;
use crate::store::group;
use crate::store::memo::Memo;
use crate::store::unit::Effects;

/// Requests that share a commit.
type Group = Vec<Box<dyn WriteTask>>;
/// Requests that wait for the next.
type Arrivals = Inbox<Box<dyn WriteTask>>;

/// The writer.
pub(super) struct Writer {
    pub(super) tables: Tables,
    pub(super) address: Address,
    pub(super) env: Arc<Environment>,
    pub(super) memo: Memo,
    pub(super) news: Arc<News>,
    door: Arc<Door>,
    /// Names commits, so that one can be recognised that nobody answered for. Not the store's own: what that gives out
    /// must not depend on the engine.
    nonces: Entropy,
    /// This node among the others; the upper half of its nonces.
    node: i32,
    lock: i64,
}

/// How a try to commit ended.
enum Attempt {
    /// It is on disk.
    Committed(Effects),
    /// Nothing happened.
    Refused(StoreError),
    /// The connection broke before the commit was asked for: nothing happened.
    Lost(StoreError),
    /// The connection broke while the commit was under way.
    Unknown(i64, Effects),
}

impl Writer {
    /// A writer on its own connection.
    pub(super) fn new(
        tables: Tables,
        address: Address,
        env: Arc<Environment>,
        news: Arc<News>,
        door: Arc<Door>,
    ) -> Writer {
        let lock = address.lock_key("write");
        let nonces = Entropy::from_system();
        let node = low_half(nonces.bits());
        Writer { tables, address, env, memo: Memo::default(), news, door, nonces, node, lock }
    }

    /// This node among the others.
    pub(super) fn node(&self) -> i32 {
        self.node
    }

    /// Writes for others until nothing waits and nothing will, or until the store must stop.
    pub(super) fn serve(mut self, writes: &Arrivals, reads: &Inbox<Box<dyn ReadTask>>) {
        while writes.wait() {
            let tasks = writes.take(limits::WRITES_PER_GROUP_MAX);
            if let Err(error) = self.commit(tasks, Some(writes)) {
                tracing::error!(%error, "the store stops");
                // Readers first: whoever is told by the writer that all is over finds it so.
                for task in reads.stop(&error) {
                    contained("refusing a read", || task.done(Err(error.clone())));
                }
                group_refuse(writes.stop(&error), &error);
            }
        }
    }

    /// Does a group's work and answers everybody in it; those who arrive while it waits for its turn among other nodes
    /// belong to it too. Fails only if nothing may be acknowledged any more.
    fn commit(&mut self, mut tasks: Group, arriving: Option<&Arrivals>) -> EngineResult<()> {
        if tasks.is_empty() {
            return Ok(());
        }
        let mut outcome = self.persist(&mut tasks, arriving);
        if outcome.is_err() && self.tables.doorstep.is_unread {
            // A key stands in a submission that came by the door: that one came first, and is taken in first.
            self.commit(vec![Box::new(Opening::new(self.door.clone()))], None)?;
            outcome = self.persist(&mut tasks, None);
        }
        match outcome {
            Ok(effects) => {
                self.news.committed(&effects);
                let env = self.env.clone();
                contained("answering a write", || group::answer(&env, effects, tasks));
                Ok(())
            }
            // One of them is to blame, and fails alone: the others are done again without it.
            Err(StoreError::Damaged(_) | StoreError::Database(_)) if tasks.len() > 1 => {
                self.commit_halves(tasks)
            }
            Err(StoreError::Overloaded { .. }) if tasks.len() > 1 && self.tables.doorstep.is_in_the_way() => {
                self.commit_halves(tasks)
            }
            Err(StoreError::Full) if tasks.len() > 1 && tasks.iter().any(|task| task.adds_jobs()) => {
                let (refused, others) = tasks.into_iter().partition(|task| task.adds_jobs());
                group_refuse(refused, &StoreError::Full);
                self.commit(others, None)
            }
            Err(error) => {
                group_refuse(tasks, &error);
                if matches!(error, StoreError::Stopped(_)) { Err(error) } else { Ok(()) }
            }
        }
    }

    /// In halves rather than one by one: most of a large group waits for a few more commits, not for a thousand.
    fn commit_halves(&mut self, mut tasks: Group) -> EngineResult<()> {
        let others = tasks.split_off(tasks.len() / 2);
        self.commit(tasks, None)?;
        self.commit(others, None)
    }

    /// Tries until it is known whether the group's work is on disk, or the time for it is over.
    fn persist(&mut self, tasks: &mut Group, arriving: Option<&Arrivals>) -> EngineResult<Effects> {
        let mut outage: Option<Patience> = None;
        let mut unknown: Option<(i64, Effects)> = None;
        loop {
            let trouble = match self.attempt_again(tasks, arriving, &mut unknown) {
                Attempt::Committed(effects) => return Ok(effects),
                Attempt::Refused(error) => return Err(error),
                Attempt::Lost(error) => error,
                Attempt::Unknown(nonce, effects) => {
                    unknown = Some((nonce, effects));
                    StoreError::Away("the connection broke during a commit".to_owned())
                }
            };
            let patience = *outage.get_or_insert_with(|| Patience::lasting(limits::OUTAGE_MAX));
            let is_given_up = patience.is_over() && unknown.is_some();
            let away = if is_given_up { Err(trouble.clone()) } else { self.reconnect(patience) };
            if let Err(error) = away {
                return Err(match (unknown, error) {
                    (Some(_), StoreError::Away(why)) => {
                        StoreError::Away(format!("{why}; whether the last change was made is not known"))
                    }
                    (_, error) => error,
                });
            }
            tracing::info!(%trouble, "the connection to the database was made anew");
        }
    }

    fn attempt_again(
        &mut self,
        tasks: &mut Group,
        arriving: Option<&Arrivals>,
        unknown: &mut Option<(i64, Effects)>,
    ) -> Attempt {
        if let Some((nonce, effects)) = unknown.take() {
            // With the lock, the commit that was under way has ended one way or the other.
            let found = self
                .tables
                .begin_write(self.lock, Needs::default)
                .and_then(|_| self.tables.has_commit(nonce));
            self.tables.rollback();
            match found {
                Ok(true) => {
                    self.memo.forget();
                    return Attempt::Committed(effects);
                }
                Ok(false) => {}
                // Nobody may be told that nothing happened: the old connection may hold the lock because its commit waits
                // for a standby.
                Err(error) => {
                    tracing::warn!(%error, "it cannot be found out yet whether a commit was made");
                    return Attempt::Unknown(nonce, effects);
                }
            }
        }
        self.attempt(tasks, arriving)
    }

    fn attempt(&mut self, tasks: &mut Group, arriving: Option<&Arrivals>) -> Attempt {
        let work = catch_unwind(AssertUnwindSafe(|| self.transact(tasks, arriving)));
        let outcome = work.unwrap_or_else(|payload| Err(panicked(payload.as_ref())));
        let error = match outcome {
            Ok(done) => return done,
            Err(error) => error,
        };
        self.tables.rollback();
        self.tables.forget();
        self.memo.forget();
        if self.tables.link.lost().is_some() && !matches!(error, StoreError::Stopped(_)) {
            return Attempt::Lost(error);
        }
        Attempt::Refused(error)
    }

    fn transact(&mut self, tasks: &mut Group, arriving: Option<&Arrivals>) -> EngineResult<Attempt> {
        let now = self.tables.begin_write(self.lock, || {
            if let Some(arriving) = arriving {
                tasks.extend(arriving.take(limits::WRITES_PER_GROUP_MAX.saturating_sub(tasks.len())));
            }
            Needs::of(tasks)
        })?;
        self.env.clock.follow(Timestamp::from_millis(now));
        // Later commits do not carry earlier times, whoever made them.
        let now = self.env.clock.now().max(Timestamp::from_millis(self.tables.meta.at));
        self.tables.now = now.as_millis();
        let effects = group::run(&mut self.tables, &mut self.memo, &self.env, now, tasks)?;
        // Whatever is wrong with the writes is told before the commit is asked for, or by it.
        let nonce = (i64::from(self.node) << 32) | i64::from(low_half(self.nonces.bits()).cast_unsigned());
        let watch = Stopwatch::start();
        match self.tables.commit(nonce, now.as_millis()) {
            Ok(()) => {
                self.env.meters.committed(tasks.len(), watch.elapsed());
                Ok(Attempt::Committed(effects))
            }
            Err(_) if self.tables.link.lost().is_some() => {
                self.tables.forget();
                self.memo.forget();
                Ok(Attempt::Unknown(nonce, effects))
            }
            Err(error) => Err(error),
        }
    }

    /// Makes the connection anew, trying until patience ends.
    fn reconnect(&mut self, patience: Patience) -> EngineResult<()> {
        self.memo.forget();
        let mut pause = limits::RECONNECT_EVERY_MIN;
        loop {
            let error = match connect(&self.address) {
                Ok(link) => {
                    self.tables.relink(link);
                    return Ok(());
                }
                Err(error) => error,
            };
            if patience.is_over() {
                return Err(error);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(limits::RECONNECT_EVERY_MAX);
        }
    }
}

/// A connection to a server that can be written to.
pub(super) fn connect(address: &Address) -> EngineResult<Link> {
    let mut link = Link::connect(address)?;
    migrate::refuse_standby(&mut link)?;
    Ok(link)
}

/// Some 32 of random bits.
fn low_half(bits: u128) -> i32 {
    let [.., a, b, c, d] = bits.to_be_bytes();
    i32::from_be_bytes([a, b, c, d])
}

fn group_refuse(tasks: Group, error: &StoreError) {
    contained("refusing a write", || group::refuse(tasks, error));
}
