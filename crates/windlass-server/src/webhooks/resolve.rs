//! Resolves and checks targets (SSRF protection): resolves a name once, checks every address, and returns only checked
//! addresses. The library defines the policy; this module makes sure that the connection uses a checked address and no
//! later DNS response.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use windlass::webhook_url::{Host, TargetError, TargetPolicy, WebhookUrl};

use super::client::CallError;

/// The result of a resolver.
pub type ResolveFuture<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'a>>;

/// A name resolver.
pub trait Resolve: Send + Sync + 'static {
    /// All addresses of a name.
    fn resolve<'a>(&'a self, name: &'a str, port: u16) -> ResolveFuture<'a>;
}

/// The system's resolver.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str, port: u16) -> ResolveFuture<'a> {
        Box::pin(async move { Ok(tokio::net::lookup_host((name, port)).await?.collect()) })
    }
}

/// Resolves and checks web addresses.
#[derive(Clone)]
pub struct Guard {
    policy: TargetPolicy,
    resolver: Arc<dyn Resolve>,
}

/// A target with its checked addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedTarget {
    /// The target.
    pub target: WebhookUrl,
    /// Its addresses, all of them checked.
    pub addresses: Vec<SocketAddr>,
}

impl Guard {
    /// A guard with this policy.
    pub fn new(policy: TargetPolicy, resolver: Arc<dyn Resolve>) -> Guard {
        Guard { policy, resolver }
    }

    /// Checks a web address and everything it resolves to. One forbidden address rejects them all: a name with internal and
    /// external addresses is an attack or a mistake.
    ///
    /// # Errors
    /// [`CallError::Refused`] if it may not be called, [`CallError::Unresolved`] if its name has no address now.
    pub async fn resolve_allowed(&self, url: &str) -> Result<ResolvedTarget, CallError> {
        let target = self.policy.check(url).map_err(CallError::Refused)?;
        let addresses = match &target.host {
            Host::Address(address) => vec![SocketAddr::new(*address, target.port)],
            Host::Name(name) => {
                let resolved = self.resolver.resolve(name, target.port).await;
                resolved.map_err(|error| CallError::Unresolved(error.to_string()))?
            }
        };
        if addresses.is_empty() {
            return Err(CallError::Unresolved("the name has no address".into()));
        }
        let is_name = matches!(target.host, Host::Name(_));
        for address in &addresses {
            self.policy.check_address(address.ip()).map_err(|refused| {
                CallError::Refused(if is_name { TargetError::LeadsInside } else { refused })
            })?;
        }
        Ok(ResolvedTarget { target, addresses })
    }
}
