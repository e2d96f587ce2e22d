//! The verbs of [`Api`](crate::api::Api) as calls of the HTTP API of a server. Every answer is converted into the
//! library's own types and errors. The server identifies the caller by the API key and enforces the rules.

mod actions;
mod address;
mod children;
mod claim;
mod client;
mod error;
pub(crate) mod events;
mod heartbeat;
mod keys;
mod outcome;
mod pauses;
mod queries;
mod record;
mod schedules;
mod settings;
mod ticket;

use std::sync::Arc;

use windlass_api::client::clock::ServerClock;

use self::address::Address;
use self::client::RemoteClient;
use self::events::RemoteEvents;
use crate::clock::{StoreClock, Timestamp};
use crate::error::{OpenError, StoreError};
use crate::key::KeySecret;
use crate::store::caller::Caller;
use crate::store::environment::Environment;
use crate::ticket::TicketPublicKey;

/// The environment variable with the API key for a server whose address has none.
const KEY_VARIABLE: &str = "WINDLASS_KEY";

/// A server, and the caller's connection to it.
pub(crate) struct Remote {
    client: RemoteClient,
    clock: Arc<ServerClock>,
    /// The ticket keys that are trusted; empty if the server is trusted.
    trusted: Arc<[TicketPublicKey]>,
    env: Environment,
}

impl Remote {
    /// Whether an address is that of a server.
    pub(crate) fn is_at(address: &str) -> bool {
        Address::is_one(address)
    }

    /// The server at an address; connects on the first call. From here on the environment's clock shows the server's
    /// time.
    pub(crate) fn open(address: &str, mut env: Environment) -> Result<Remote, OpenError> {
        let address = Address::parse(address)?;
        let key = match env.options.key.clone().or_else(|| address.key.clone()) {
            Some(key) => Some(key),
            None => key_of_environment(&address)?,
        };
        let own = env.clock.clone();
        let clock = Arc::new(ServerClock::new(move || own.now()));
        env.clock = Arc::new(StoreClock::new(clock.clone()));
        let trusted = env.options.tickets_trusted.clone().into();
        Ok(Remote { client: RemoteClient::new(&address, key.as_ref(), clock.clone())?, clock, trusted, env })
    }

    pub(crate) fn environment(&self) -> &Environment {
        &self.env
    }

    /// Refuses every caller but the owner of the API key: the server would attribute the call to that owner.
    pub(crate) fn check_caller(caller: &Caller) -> Result<(), StoreError> {
        if *caller == Caller::local() { Ok(()) } else { Err(StoreError::OtherCaller) }
    }

    /// Events that the owner of the API key can see. Another caller is refused at the first one.
    pub(crate) fn events(self: Arc<Self>, caller: &Caller, after: u64) -> RemoteEvents {
        let refused = Remote::check_caller(caller).err();
        RemoteEvents::new(self, after, refused)
    }

    /// Ends all calls; later ones are refused.
    pub(crate) fn close(&self) {
        self.client.close();
    }

    /// The server's time.
    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

fn key_of_environment(address: &Address) -> Result<Option<KeySecret>, OpenError> {
    let Some(text) = std::env::var(KEY_VARIABLE).ok().filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let refused = || address.refused(&format!("{KEY_VARIABLE} does not contain an API key"));
    KeySecret::parse(text.trim()).map(Some).ok_or_else(refused)
}
