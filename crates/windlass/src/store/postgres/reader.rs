//! Readers: threads with connections on which nothing is written. Each look is a short transaction of its own, on one
//! snapshot, so that no look keeps the database from cleaning up. The connection is made when it is first needed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::address::Address;
use super::link::Link;
use super::tables::Tables;
use crate::clock::Patience;
use crate::error::StoreError;
use crate::limits;
use crate::store::durable::inbox::Inbox;
use crate::store::durable::panic::{contained, panicked};
use crate::store::engine::{EngineResult, ReadTask};
use crate::store::environment::Environment;
use crate::store::memo::Memo;
use crate::store::view::View;

/// A reader.
pub(super) struct Reader {
    tables: Option<Tables>,
    address: Address,
    memo: Memo,
    env: Arc<Environment>,
}

impl Reader {
    /// A reader that is not connected yet.
    pub(super) fn new(address: Address, env: Arc<Environment>) -> Reader {
        Reader { tables: None, address, memo: Memo::default(), env }
    }

    /// Reads for others until nothing waits and nothing will.
    pub(super) fn serve(mut self, inbox: &Inbox<Box<dyn ReadTask>>) {
        while inbox.wait() {
            // One at a time: another reader may be free for the next.
            for mut task in inbox.take(1) {
                let outcome = self.read(task.as_mut());
                contained("answering a read", || task.done(outcome));
            }
        }
    }

    /// Looks until it is done, or the database has been away for too long.
    fn read(&mut self, task: &mut dyn ReadTask) -> EngineResult<()> {
        let patience = Patience::lasting(limits::OUTAGE_MAX);
        let mut pause = limits::RECONNECT_EVERY_MIN;
        loop {
            let outcome = self.look(task);
            let is_lost = self.tables.as_ref().is_none_or(|tables| tables.link.lost().is_some());
            if !is_lost {
                return outcome;
            }
            self.tables = None;
            self.memo.forget();
            if patience.is_over() {
                return Err(outcome
                    .err()
                    .unwrap_or_else(|| StoreError::Away("the connection broke".to_owned())));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(limits::RECONNECT_EVERY_MAX);
        }
    }

    fn look(&mut self, task: &mut dyn ReadTask) -> EngineResult<()> {
        let tables = match &mut self.tables {
            Some(tables) => tables,
            none => {
                let link = Link::connect(&self.address)?;
                none.insert(Tables::new(link, false))
            }
        };
        tables.begin_read(task.is_long())?;
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            task.run(&mut View::new(tables, &mut self.memo, &self.env));
        }));
        tables.rollback();
        outcome.map_err(|payload| {
            self.memo.forget();
            panicked(payload.as_ref())
        })
    }
}
