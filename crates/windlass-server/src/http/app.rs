//! State shared by all requests: the store, the server's own metrics, and whether it is draining.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use windlass::Store;
use windlass::clock::{JumpClock, Timestamp};
use windlass::store::caller::Caller;
use windlass::store::{KnownNames, ObjectName};
use windlass_api::known::KnownView;

use super::dev::DevMode;
use super::reference::Reference;
use super::reply::encoded::EncodedEvents;
use super::reply::error::ApiError;
use super::request::body_budget::BodyBudget;
use super::request::connection_slots::ConnectionSlots;
use super::request::key_guess_limit::Guesses;
use super::request::rate_limit::RequestRates;
use super::routes::metrics::requests::RouteCounter;
use crate::limits;
use crate::server::Peer;

/// Engine and file of the store, for metrics.
#[derive(Debug, Clone, Default)]
pub struct StorePlace {
    /// The storage engine: `sqlite`, `postgres` or `memory`.
    pub engine: &'static str,
    /// The database file, for SQLite.
    pub file: Option<PathBuf>,
}

impl StorePlace {
    /// The engine and file of a store's address.
    pub fn from_address(address: &str) -> StorePlace {
        match address.split_once(':') {
            Some(("sqlite", path)) => StorePlace { engine: "sqlite", file: Some(path.into()) },
            Some(("postgres" | "postgresql", _)) => StorePlace { engine: "postgres", file: None },
            Some(_) | None => StorePlace { engine: "memory", file: None },
        }
    }
}

/// State shared by all requests; cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Inner>);

struct Inner {
    store: Store,
    place: StorePlace,
    counters: OnceLock<Vec<Arc<RouteCounter>>>,
    documents: OnceLock<(Bytes, Reference)>,
    draining: watch::Sender<bool>,
    streams: ConnectionSlots,
    tenant_streams: ConnectionSlots,
    encoded_events: EncodedEvents,
    rates: RequestRates,
    guesses: Guesses,
    bodies: BodyBudget,
    is_loopback: bool,
    dev: Option<DevMode>,
    browser_origins: OnceLock<Vec<String>>,
}

impl App {
    pub(crate) fn new(
        store: Store,
        place: StorePlace,
        is_loopback: bool,
        dev_clock: Option<Arc<JumpClock>>,
    ) -> App {
        App(Arc::new(Inner {
            store,
            place,
            counters: OnceLock::new(),
            documents: OnceLock::new(),
            draining: watch::Sender::new(false),
            streams: ConnectionSlots::new(limits::STREAMS_MAX, limits::STREAMS_PER_KEY_MAX),
            tenant_streams: ConnectionSlots::new(limits::STREAMS_MAX, limits::STREAMS_PER_TENANT_MAX),
            encoded_events: EncodedEvents::default(),
            rates: RequestRates::default(),
            guesses: Guesses::default(),
            bodies: BodyBudget::default(),
            is_loopback,
            dev: dev_clock.map(DevMode::new),
            browser_origins: OnceLock::new(),
        }))
    }

    /// Lets pages of these sites read jobs with tokens.
    pub(crate) fn set_browser_origins(&self, origins: Vec<String>) {
        let _ = self.0.browser_origins.set(origins);
    }

    /// Sites whose pages may read jobs with tokens.
    pub(crate) fn browser_origins(&self) -> &[String] {
        self.0.browser_origins.get().map_or(&[], Vec::as_slice)
    }

    /// What only a server for development has.
    pub(crate) fn dev(&self) -> Option<&DevMode> {
        self.0.dev.as_ref()
    }

    pub(crate) fn store(&self) -> &Store {
        &self.0.store
    }

    /// Engine and file of the store.
    pub(crate) fn place(&self) -> &StorePlace {
        &self.0.place
    }

    /// Registers the counters of all routes.
    pub(crate) fn set_counters(&self, counters: Vec<Arc<RouteCounter>>) {
        // A second router of the same server has its own counters, which are not shown.
        let _ = self.0.counters.set(counters);
    }

    /// The counters of all routes.
    pub(crate) fn counters(&self) -> &[Arc<RouteCounter>] {
        self.0.counters.get().map_or(&[], Vec::as_slice)
    }

    /// Sets the OpenAPI document, as JSON and as a reference.
    pub(crate) fn set_documents(&self, json: String, reference: Reference) {
        let _ = self.0.documents.set((json.into(), reference));
    }

    /// The OpenAPI document, as JSON and as a reference.
    pub(crate) fn documents(&self) -> &(Bytes, Reference) {
        self.0.documents.get().expect("they are set when the router is built")
    }

    /// Slots for live event streams, limited per key.
    pub(crate) fn streams(&self) -> &ConnectionSlots {
        &self.0.streams
    }

    /// Recent events in encoded form.
    pub(crate) fn encoded_events(&self) -> &EncodedEvents {
        &self.0.encoded_events
    }

    /// Slots for live event streams, limited per tenant.
    pub(crate) fn tenant_streams(&self) -> &ConnectionSlots {
        &self.0.tenant_streams
    }

    /// The request rate limiter.
    pub(crate) fn rates(&self) -> &RequestRates {
        &self.0.rates
    }

    /// Counts of invalid keys.
    pub(crate) fn guesses(&self) -> &Guesses {
        &self.0.guesses
    }

    /// Rejects an address that has sent too many invalid keys, with the time to wait.
    pub(crate) fn check_guesses(&self, peer: Option<&Peer>) -> Result<(), Duration> {
        let limited = peer.and_then(Peer::limited_address);
        limited.map_or(Ok(()), |from| self.guesses().check(from, self.now()))
    }

    /// Counts an invalid key; writes it to the log and the audit trail, once a minute per address.
    pub(crate) async fn guessed(&self, peer: Option<&Peer>) {
        let Some(peer) = peer else { return };
        let Some(count) = self.guesses().failed(peer.address(), self.now()) else { return };
        let from = peer.address().to_string();
        tracing::warn!(from, count, "invalid API key: wrong, revoked or expired");
        if let Err(error) = self.store().record_refused_keys(&from, count).await {
            tracing::warn!(%error, "it could not be recorded in the audit trail");
        }
    }

    /// The memory budget shared by request bodies.
    pub(crate) fn bodies(&self) -> &BodyBudget {
        &self.0.bodies
    }

    /// Whether the server listens on a loopback address only.
    pub(crate) fn is_loopback(&self) -> bool {
        self.0.is_loopback
    }

    /// The store's time.
    pub(crate) fn now(&self) -> Timestamp {
        self.store().environment().clock.now()
    }

    /// Marks the server as stopping; waiting requests return.
    pub(crate) fn drain(&self) {
        self.0.draining.send_replace(true);
    }

    /// Whether the server is stopping.
    pub(crate) fn is_draining(&self) -> bool {
        *self.0.draining.borrow()
    }

    /// Returns once the server is stopping.
    pub(crate) async fn draining(&self) {
        let mut draining = self.0.draining.subscribe();
        // The sender lives as long as `self`.
        let _ = draining.wait_for(|is_draining| *is_draining).await;
    }

    /// Whether a queue, type or tenant is known, and similar names.
    pub(crate) async fn known(&self, caller: &Caller, named: ObjectName) -> Result<KnownView, ApiError> {
        let KnownNames { is_known, similar, .. } = self.store().known(caller, named).await?;
        Ok(KnownView { known: is_known, similar })
    }
}
