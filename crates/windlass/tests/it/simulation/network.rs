//! The way between nodes and their database. Every message waits here until the simulation decides what becomes of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass::error::StoreError;
use windlass::job::JobId;
use windlass::store::engine::{Engine, ReadTask, WriteTask};
use windlass::store::engines::memory::MemoryEngine;
use windlass::store::tx::write_tx::WriteTx;

enum Message {
    Write(Box<dyn WriteTask>),
    Read(Box<dyn ReadTask>),
}

/// What becomes of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Answered,
    /// It does not arrive.
    Lost,
    /// It arrives, and its answer does not.
    Unanswered,
}

/// Messages on their way, in the order in which they were sent.
#[derive(Clone, Default)]
pub(super) struct Network(Arc<Mutex<Vec<Message>>>);

impl Network {
    fn messages(&self) -> MutexGuard<'_, Vec<Message>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn len(&self) -> usize {
        self.messages().len()
    }

    /// Takes one message off the way.
    pub(super) fn deliver(&self, at: usize, to: &MemoryEngine, fate: Fate) {
        let message = self.messages().remove(at);
        match (message, fate) {
            (Message::Write(task), Fate::Answered) => to.write(task),
            (Message::Write(task), Fate::Unanswered) => to.write(Box::new(Unanswered(task))),
            (Message::Write(task), Fate::Lost) => task.done(Err(lost())),
            (Message::Read(task), Fate::Answered) => to.read(task),
            (Message::Read(task), Fate::Unanswered | Fate::Lost) => task.done(Err(lost())),
        }
    }

    /// The connections of all nodes break.
    pub(super) fn lose_all(&self, to: &MemoryEngine) {
        while self.len() > 0 {
            self.deliver(0, to, Fate::Lost);
        }
    }
}

/// The database as a node sees it.
pub(super) struct Link(pub(super) Network);

impl Engine for Link {
    fn write(&self, task: Box<dyn WriteTask>) {
        self.0.messages().push(Message::Write(task));
    }

    fn read(&self, task: Box<dyn ReadTask>) {
        self.0.messages().push(Message::Read(task));
    }

    fn close(&self) {}
}

/// A task that is done, and whose caller does not learn it.
struct Unanswered(Box<dyn WriteTask>);

impl WriteTask for Unanswered {
    fn run(&mut self, tx: &mut WriteTx<'_>) {
        self.0.run(tx);
    }

    fn done(self: Box<Self>, _outcome: Result<(), StoreError>) {
        self.0.done(Err(lost()));
    }

    fn adds_jobs(&self) -> bool {
        self.0.adds_jobs()
    }

    fn is_urgent(&self) -> bool {
        self.0.is_urgent()
    }

    fn weight(&self) -> usize {
        self.0.weight()
    }

    fn claims(&self) -> usize {
        self.0.claims()
    }

    fn names(&self) -> &[JobId] {
        self.0.names()
    }
}

fn lost() -> StoreError {
    StoreError::Away("the connection was lost; whether the change was made is not known".to_owned())
}
