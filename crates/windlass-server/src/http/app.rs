//! What every request is given: the store, the numbers the server keeps about itself, and whether it is draining.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use windlass::Store;
use windlass::clock::Timestamp;

use super::reply::encoded::EncodedEvents;
use super::request::body_budget::BodyBudget;
use super::request::guesses::Guesses;
use super::request::places::ConnectionSlots;
use super::request::rate_limit::RequestRates;
use super::routes::metrics::RouteCounter;
use crate::limits;
use crate::server::Peer;

/// Where the store is, as far as metrics tell.
#[derive(Debug, Clone, Default)]
pub struct StorePlace {
    /// The storage engine: `sqlite`, `postgres` or `memory`.
    pub engine: &'static str,
    /// The database file, for an engine that has one.
    pub file: Option<PathBuf>,
}

impl StorePlace {
    /// The place that an address of a store names.
    pub fn from_address(address: &str) -> StorePlace {
        match address.split_once(':') {
            Some(("sqlite", path)) => StorePlace { engine: "sqlite", file: Some(path.into()) },
            Some(("postgres" | "postgresql", _)) => StorePlace { engine: "postgres", file: None },
            Some(_) | None => StorePlace { engine: "memory", file: None },
        }
    }
}

/// What every request is given; cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Inner>);

struct Inner {
    store: Store,
    place: StorePlace,
    counters: OnceLock<Vec<Arc<RouteCounter>>>,
    documents: OnceLock<(Bytes, Bytes)>,
    draining: watch::Sender<bool>,
    streams: ConnectionSlots,
    tenant_streams: ConnectionSlots,
    encoded_events: EncodedEvents,
    rates: RequestRates,
    guesses: Guesses,
    bodies: BodyBudget,
    is_loopback: bool,
}

impl App {
    /// Everything there is to answer requests with.
    pub(crate) fn new(store: Store, place: StorePlace, is_loopback: bool) -> App {
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
        }))
    }

    /// The store.
    pub(crate) fn store(&self) -> &Store {
        &self.0.store
    }

    /// Where the store is.
    pub(crate) fn place(&self) -> &StorePlace {
        &self.0.place
    }

    /// Makes the counters of all routes known.
    pub(crate) fn set_counters(&self, counters: Vec<Arc<RouteCounter>>) {
        // A second router of the same server counts for itself and is not shown.
        let _ = self.0.counters.set(counters);
    }

    /// What was counted, route by route.
    pub(crate) fn counters(&self) -> &[Arc<RouteCounter>] {
        self.0.counters.get().map_or(&[], Vec::as_slice)
    }

    /// Makes the description of all routes known, as JSON and as a page.
    pub(crate) fn set_documents(&self, json: String, page: String) {
        let _ = self.0.documents.set((json.into(), page.into()));
    }

    /// The description of all routes, as JSON and as a page.
    pub(crate) fn documents(&self) -> &(Bytes, Bytes) {
        self.0.documents.get().expect("they are made with the router")
    }

    /// Places for live event streams, so many for each key.
    pub(crate) fn streams(&self) -> &ConnectionSlots {
        &self.0.streams
    }

    /// The last events, as they are sent.
    pub(crate) fn encoded_events(&self) -> &EncodedEvents {
        &self.0.encoded_events
    }

    /// Places for live event streams, so many for each tenant.
    pub(crate) fn tenant_streams(&self) -> &ConnectionSlots {
        &self.0.tenant_streams
    }

    /// How many requests each caller may still make.
    pub(crate) fn rates(&self) -> &RequestRates {
        &self.0.rates
    }

    /// Keys that were not valid.
    pub(crate) fn guesses(&self) -> &Guesses {
        &self.0.guesses
    }

    /// Refuses an address that has shown too many keys which were not valid; says for how long.
    pub(crate) fn check_guesses(&self, peer: Option<&Peer>) -> Result<(), Duration> {
        let limited = peer.and_then(Peer::limited_address);
        limited.map_or(Ok(()), |from| self.guesses().check(from, self.now()))
    }

    /// Counts a key that was not valid; tells the log and the audit trail of it, once a minute for each address.
    pub(crate) async fn guessed(&self, peer: Option<&Peer>) {
        let Some(peer) = peer else { return };
        let Some(count) = self.guesses().failed(peer.address(), self.now()) else { return };
        let from = peer.address().to_string();
        tracing::warn!(from, count, "a key was shown that is not valid: wrong, revoked or expired");
        if let Err(error) = self.store().record_refused_keys(&from, count).await {
            tracing::warn!(%error, "it could not be recorded");
        }
    }

    /// The memory that bodies of requests share.
    pub(crate) fn bodies(&self) -> &BodyBudget {
        &self.0.bodies
    }

    /// Whether only this machine can connect.
    pub(crate) fn is_loopback(&self) -> bool {
        self.0.is_loopback
    }

    /// The store's time.
    pub(crate) fn now(&self) -> Timestamp {
        self.store().environment().clock.now()
    }

    /// Says that the server is about to stop: nobody waits any longer.
    pub(crate) fn drain(&self) {
        self.0.draining.send_replace(true);
    }

    /// Whether the server is about to stop.
    pub(crate) fn is_draining(&self) -> bool {
        *self.0.draining.borrow()
    }

    /// Returns once the server is about to stop.
    pub(crate) async fn draining(&self) {
        let mut draining = self.0.draining.subscribe();
        // The sender lives as long as `self`.
        let _ = draining.wait_for(|is_draining| *is_draining).await;
    }
}
