//! Pausing a worker, from within its program or from afar (M55).

use std::sync::Arc;

use tokio::sync::watch;

use crate::job::WorkerId;
use crate::store::documents::config::PauseMode;

/// Pauses and resumes a worker from elsewhere in its program; cheap to clone.
#[derive(Clone, Default)]
pub struct WorkerControl {
    state: Arc<watch::Sender<State>>,
    id: Arc<watch::Sender<Option<WorkerId>>>,
}

/// Who has paused the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct State {
    here: Option<PauseMode>,
    afar: Option<PauseMode>,
}

impl WorkerControl {
    /// The worker's identity, once it runs; another one if the store had forgotten it meanwhile.
    pub fn id(&self) -> Option<WorkerId> {
        *self.id.borrow()
    }

    /// Returns when the worker has registered, with its identity.
    pub async fn started(&self) -> WorkerId {
        let mut id = self.id.subscribe();
        let known = id.wait_for(Option::is_some).await.map(|id| *id);
        known.ok().flatten().expect("the sender lives in `self`, and it was waited for")
    }

    /// Claims no more jobs; those that run end by themselves, or are released at once if the pause is aggressive.
    pub fn pause(&self, mode: PauseMode) {
        self.state.send_modify(|state| state.here = Some(mode));
    }

    /// Claims again, unless it is paused from afar.
    pub fn resume(&self) {
        self.state.send_modify(|state| state.here = None);
    }

    /// Whether it is paused, from here or from afar.
    pub fn is_paused(&self) -> bool {
        let state = *self.state.borrow();
        state.here.is_some() || state.afar.is_some()
    }

    pub(crate) fn registered(&self, id: WorkerId) {
        self.id.send_replace(Some(id));
    }

    /// What the store says.
    pub(crate) fn on_heartbeat(&self, paused: Option<PauseMode>) {
        self.state.send_if_modified(|state| std::mem::replace(&mut state.afar, paused) != paused);
    }

    /// What a claim was told; how it is paused is heard with the next heartbeat.
    pub(crate) fn claimed(&self, is_paused: bool) {
        self.state.send_if_modified(|state| {
            let afar = is_paused.then(|| state.afar.unwrap_or_default());
            std::mem::replace(&mut state.afar, afar) != afar
        });
    }

    /// Returns when it is not paused from here. From afar the store itself refuses claims, so that lifting it needs no
    /// heartbeat to be heard.
    pub(crate) async fn resumed(&self) {
        // The sender lives in `self`: it cannot go first.
        let _ = self.state.subscribe().wait_for(|state| state.here.is_none()).await;
    }

    /// Returns when it is paused from here.
    pub(crate) async fn paused(&self) {
        let _ = self.state.subscribe().wait_for(|state| state.here.is_some()).await;
    }

    /// Whether it is paused aggressively from here.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.state.borrow().here == Some(PauseMode::Aggressive)
    }

    /// Returns when it was paused aggressively from here.
    pub(crate) async fn interrupted(&self) {
        let is_aggressive = |state: &State| state.here == Some(PauseMode::Aggressive);
        let _ = self.state.subscribe().wait_for(is_aggressive).await;
    }
}
