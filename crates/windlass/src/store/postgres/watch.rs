//! The look-out: tells other nodes that something was committed here, and wakes those who wait here when something was
//! committed elsewhere. Notifications make it prompt; a look at the number of the last commit now and then makes it sure.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::address::Address;
use super::link::{Link, get};
use crate::limits;
use crate::store::engine::EngineResult;
use crate::store::environment::Environment;
use crate::store::unit::Effects;

/// What the look-out is told by this node's writer.
#[derive(Default)]
pub(super) struct News {
    state: Mutex<NewsState>,
    arrived: Condvar,
}

#[derive(Default)]
struct NewsState {
    is_closed: bool,
}

impl News {
    /// Something was committed here.
    pub(super) fn committed(&self, _effects: &Effects) {}

    /// Ends the look-out.
    pub(super) fn close(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_closed = true;
        self.arrived.notify_all();
    }

    fn wait(&self, at_most: Duration) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.arrived.wait_timeout_while(state, at_most, |state| !state.is_closed);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_closed
    }
}

/// The look-out.
pub(super) struct Watch {
    address: Address,
    env: Arc<Environment>,
    news: Arc<News>,
    link: Option<Link>,
    known: i64,
}

impl Watch {
    /// A look-out that is not connected yet.
    pub(super) fn new(address: Address, env: Arc<Environment>, news: Arc<News>) -> Watch {
        Watch { address, env, news, link: None, known: 0 }
    }

    /// Looks out until it is told to end.
    pub(super) fn serve(mut self) {
        loop {
            let pause = if self.env.wakeups.has_waiters() {
                if let Err(error) = self.look() {
                    // Those who wait also look by themselves now and then.
                    tracing::debug!(%error, "cannot see what other nodes do");
                    self.link = None;
                }
                limits::CROSS_PROCESS_EVERY
            } else {
                limits::LOOKOUT_IDLE_EVERY
            };
            if self.news.wait(pause) {
                return;
            }
        }
    }

    fn look(&mut self) -> EngineResult<()> {
        let link = match &mut self.link {
            Some(link) => link,
            none => {
                let address = &self.address;
                none.insert(Link::connect(&address.listen, address.prefix(), address.keeps_statements)?)
            }
        };
        let rows = link.fetch("SELECT n FROM @.commits ORDER BY n DESC LIMIT 1", Vec::new())?;
        let head = rows.first().map_or(Ok(0), |row| get(row, 0))?;
        if std::mem::replace(&mut self.known, head) != head {
            self.env.wakeups.changed_elsewhere();
        }
        Ok(())
    }
}
