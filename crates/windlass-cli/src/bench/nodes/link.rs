//! The way of the nodes to the database: direct, or through a proxy that adds to every round trip.

use std::time::Duration;

use anyhow::Context;
use windlass::bench::endpoint::{Endpoint, through};
use windlass::bench::{Figure, Times};

use super::proxy::DelayProxy;
use super::scratch::{Scratch, round_trips};

pub(super) struct Link {
    /// The address of the store for nodes.
    pub(super) store: String,
    /// The address of the table without Windlass for nodes.
    pub(super) plain: String,
    proxy: Option<DelayProxy>,
}

impl Link {
    /// Starts a proxy if there is anything to add.
    pub(super) fn start(scratch: &Scratch, rtt: Duration) -> anyhow::Result<Link> {
        let (store, plain) = (scratch.store.clone(), scratch.plain.clone());
        if rtt.is_zero() {
            return Ok(Link { store, plain, proxy: None });
        }
        let proxy =
            DelayProxy::start(Endpoint::from_address(&store)?, rtt).context("cannot start a proxy")?;
        let (store, plain) = (through(&store, proxy.port)?, through(&plain, proxy.port)?);
        Ok(Link { store, plain, proxy: Some(proxy) })
    }

    /// Measures round trips, and how much of them the proxy has added.
    pub(super) async fn round_trips(
        &self,
        scratch: &Scratch,
        report: &mut dyn FnMut(Figure),
    ) -> anyhow::Result<()> {
        let direct = Times::new(round_trips(&scratch.plain).await?);
        let what = "round trip of SELECT 1";
        if self.proxy.is_none() {
            report(Figure::new("round-trip", what).times(direct));
            return Ok(());
        }
        let delayed = Times::new(round_trips(&self.plain).await?);
        report(Figure::new("round-trip", what).times(delayed));
        let added = Times { p50_ms: delayed.p50_ms - direct.p50_ms, p99_ms: delayed.p99_ms - direct.p50_ms };
        report(Figure::new("round-trip", "added to a round trip by the proxy").times(added));
        Ok(())
    }
}
