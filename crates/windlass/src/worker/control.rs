//! Pausing a worker, from within its program or through the store.

use std::sync::Arc;

use tokio::sync::watch;

use crate::job::WorkerId;
use crate::settings::PauseMode;

/// Pauses and resumes a worker from other parts of its program; cheap to clone.
#[derive(Clone, Default)]
pub struct WorkerControl {
    state: Arc<watch::Sender<State>>,
    id: Arc<watch::Sender<Option<WorkerId>>>,
}

/// The pauses in effect: from the program and from the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct State {
    here: Option<PauseMode>,
    afar: Option<PauseMode>,
}

impl WorkerControl {
    /// The worker's id once it runs. It changes if the store removed the worker and it registered again.
    pub fn id(&self) -> Option<WorkerId> {
        *self.id.borrow()
    }

    /// Waits until the worker has registered, and returns its id.
    pub async fn started(&self) -> WorkerId {
        let mut id = self.id.subscribe();
        let known = id.wait_for(Option::is_some).await.map(|id| *id);
        known.ok().flatten().expect("the sender is in `self`, and the value was waited for")
    }

    /// Stops claiming jobs. Running jobs finish, or are released at once if the pause is aggressive.
    pub fn pause(&self, mode: PauseMode) {
        self.state.send_modify(|state| state.here = Some(mode));
    }

    /// Claims jobs again, unless the worker is also paused in the store.
    pub fn resume(&self) {
        self.state.send_modify(|state| state.here = None);
    }

    /// Whether the worker is paused, by the program or in the store.
    pub fn is_paused(&self) -> bool {
        let state = *self.state.borrow();
        state.here.is_some() || state.afar.is_some()
    }

    pub(crate) fn registered(&self, id: WorkerId) {
        self.id.send_replace(Some(id));
    }

    /// Applies the pause that a heartbeat reply reports.
    pub(crate) fn on_heartbeat(&self, paused: Option<PauseMode>) {
        self.state.send_if_modified(|state| std::mem::replace(&mut state.afar, paused) != paused);
    }

    /// Applies what a claim reply reports. The pause mode comes with the next heartbeat.
    pub(crate) fn claimed(&self, is_paused: bool) {
        self.state.send_if_modified(|state| {
            let afar = is_paused.then(|| state.afar.unwrap_or_default());
            std::mem::replace(&mut state.afar, afar) != afar
        });
    }

    /// Returns when the program has not paused the worker. For pauses in the store, the store itself refuses claims, so
    /// resuming takes effect without waiting for a heartbeat.
    pub(crate) async fn resumed(&self) {
        // The sender is in `self`, so it is not dropped first.
        let _ = self.state.subscribe().wait_for(|state| state.here.is_none()).await;
    }

    /// Returns when the program has paused the worker.
    pub(crate) async fn paused(&self) {
        let _ = self.state.subscribe().wait_for(|state| state.here.is_some()).await;
    }

    /// Whether the program has paused the worker aggressively.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.state.borrow().here == Some(PauseMode::Aggressive)
    }

    /// Returns when the program has paused the worker aggressively.
    pub(crate) async fn interrupted(&self) {
        let is_aggressive = |state: &State| state.here == Some(PauseMode::Aggressive);
        let _ = self.state.subscribe().wait_for(is_aggressive).await;
    }
}
