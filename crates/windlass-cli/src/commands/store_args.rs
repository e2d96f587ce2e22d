//! The flags of commands that open a store themselves, and how they open it.

use std::time::Duration;

use clap::Args;
use windlass::Store;
use windlass::clock::Deadline;
use windlass::error::{OpenError, StoreError};
use windlass::store::{Schema, StoreOptions};

use crate::config::shown;

/// The store to open.
#[derive(Args)]
pub(crate) struct StoreArgs {
    /// The store: `sqlite:PATH` or `postgres://HOST/DATABASE`.
    #[arg(long, env = "WINDLASS_STORE", default_value = "sqlite:windlass.db", value_name = "ADDRESS")]
    pub(crate) store: String,
}

/// The store to open and the output format.
#[derive(Args)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

impl StoreArgs {
    /// The address without a password.
    pub(crate) fn shown(&self) -> String {
        shown(&self.store)
    }

    /// Opens the store. `Missing::Create` creates it if it does not exist; only `serve` and `keys create` use that.
    pub(crate) fn open(&self, missing: Missing) -> anyhow::Result<Store> {
        self.open_with(missing, StoreOptions::default())
    }

    /// Like [`StoreArgs::open`], with options.
    pub(crate) fn open_with(&self, missing: Missing, options: StoreOptions) -> anyhow::Result<Store> {
        if let (Missing::Refuse, Some(path)) = (missing, self.store.strip_prefix("sqlite:")) {
            let is_there = std::path::Path::new(path).exists();
            anyhow::ensure!(
                is_there,
                "no store at {path}; start one with `windlass serve --store {}`",
                self.store
            );
        }
        if missing == Missing::Refuse {
            self.refuse_what_is_no_store()?;
        }
        Store::open(&self.store, options).map_err(|error| self.cannot_open(&error))
    }

    /// Fails if the address does not hold a store. Commands that read a store must not create one, especially not in an
    /// empty backup file or in another program's database.
    fn refuse_what_is_no_store(&self) -> anyhow::Result<()> {
        let schema = Schema::read(&self.store).map_err(|error| self.cannot_open(&error))?;
        let marker = self.store.strip_prefix("sqlite:").map(|path| format!("{path}-head"));
        // An emptied file with a head marker is a store that lost its data; opening it reports that.
        let has_been_one = marker.is_some_and(|marker| std::path::Path::new(&marker).exists());
        anyhow::ensure!(
            schema.found > 0 || has_been_one,
            "no store at {}: the database is empty or belongs to another program; start one with `windlass \
             serve --store {}`",
            self.shown(),
            self.shown()
        );
        Ok(())
    }

    /// Opens the store or creates it. Retries until `wait` has passed while the database cannot be reached.
    pub(crate) async fn open_when_reachable(
        &self,
        options: StoreOptions,
        wait: Duration,
    ) -> anyhow::Result<Store> {
        let deadline = Deadline::after(wait);
        let mut is_reported = false;
        loop {
            let (address, options) = (self.store.clone(), options.clone());
            // Checking a large file takes seconds; requests and signals are handled meanwhile.
            let opened = apart("windlass-open", move || Store::open(&address, options)).await;
            let error = match opened? {
                Ok(store) => return Ok(store),
                Err(error) => error,
            };
            if deadline.is_over() || !matches!(error, OpenError::Store(StoreError::Unavailable(_))) {
                return Err(self.cannot_open(&error));
            }
            if !is_reported {
                tracing::warn!("{:#}; retrying for {wait:?}", self.cannot_open(&error));
                is_reported = true;
            }
            tokio::time::sleep(crate::limits::STORE_RETRY_INTERVAL).await;
        }
    }

    /// The error, without the password that the address may contain.
    pub(crate) fn cannot_open(&self, error: &OpenError) -> anyhow::Error {
        let error = error.to_string().replace(&self.store, &self.shown());
        anyhow::anyhow!("cannot open {}: {error}", self.shown())
    }
}

/// Runs `work` on its own thread. The process does not wait for the thread if the returned future is dropped.
async fn apart<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<T> {
    let (done, outcome) = tokio::sync::oneshot::channel();
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        let _no_caller_waits = done.send(work());
    })?;
    outcome.await.map_err(|_| anyhow::anyhow!("the thread `{name}` failed"))
}

/// What to do if there is no store at an address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    Create,
    Refuse,
}
