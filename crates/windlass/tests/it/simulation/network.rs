//! The way between nodes and their database. Every message waits here until the simulation delivers or drops it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass::error::StoreError;
use windlass::job::JobId;
use windlass::store::engine::{Engine, ReadTask, WriteTask, WriteTx};
use windlass::store::engines::memory::MemoryEngine;

/// A task on its way, and the connection on which it travels.
struct Message {
    work: Work,
    connection: Connection,
}

enum Work {
    Write(Box<dyn WriteTask>),
    Read(Box<dyn ReadTask>),
}

/// A node's connection to the database; another one after the connection was lost.
#[derive(Clone)]
pub(super) struct Connection(Arc<Mutex<Arc<MemoryEngine>>>);

impl Connection {
    pub(super) fn new(engine: MemoryEngine) -> Connection {
        Connection(Arc::new(Mutex::new(Arc::new(engine))))
    }

    /// Connects again, perhaps to another database.
    pub(super) fn replace(&self, engine: MemoryEngine) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(engine);
    }

    fn engine(&self) -> Arc<MemoryEngine> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The fate of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Answered,
    /// It does not arrive.
    Lost,
    /// It arrives, and its answer does not.
    Unanswered,
    /// It arrives, and the disk is full when it is to be written.
    Failed,
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
    pub(super) fn deliver(&self, at: usize, fate: Fate) {
        let Message { work, connection } = self.messages().remove(at);
        let to = connection.engine();
        match (work, fate) {
            (Work::Write(task), Fate::Answered) => to.write(task),
            (Work::Write(task), Fate::Unanswered) => to.write(Box::new(Unanswered(task))),
            (Work::Write(task), Fate::Failed) => {
                to.fail_next_commit(StoreError::Full);
                to.write(task);
            }
            (Work::Write(task), Fate::Lost) => task.done(Err(lost())),
            (Work::Read(task), Fate::Answered | Fate::Failed) => to.read(task),
            (Work::Read(task), Fate::Unanswered | Fate::Lost) => task.done(Err(lost())),
        }
    }

    /// The connections of all nodes break.
    pub(super) fn lose_all(&self) {
        while self.len() > 0 {
            self.deliver(0, Fate::Lost);
        }
    }
}

/// The database as a node sees it.
pub(super) struct Link {
    pub(super) network: Network,
    pub(super) connection: Connection,
}

impl Link {
    fn send(&self, work: Work) {
        let message = Message { work, connection: self.connection.clone() };
        self.network.messages().push(message);
    }
}

impl Engine for Link {
    fn write(&self, task: Box<dyn WriteTask>) {
        self.send(Work::Write(task));
    }

    fn read(&self, task: Box<dyn ReadTask>) {
        self.send(Work::Read(task));
    }

    fn close(&self) {}
}

/// A task that is done, and whose caller does not learn it.
pub(super) struct Unanswered(pub(super) Box<dyn WriteTask>);

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
    StoreError::Unavailable("the connection was lost; whether the change was made is not known".to_owned())
}
