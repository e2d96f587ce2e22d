//! Encrypted connections: rustls, with the certificates that the machine trusts.

use std::sync::Arc;

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};

use super::address::Address;
use crate::error::OpenError;

/// The connector, speaking TLS if the address asks for it.
pub(super) fn over(
    connector: HttpConnector,
    address: &Address,
) -> Result<HttpsConnector<HttpConnector>, OpenError> {
    // Nothing is looked up for a connection in the clear: a machine without certificates can make one.
    let roots = if address.is_secure { trusted(address)? } else { RootCertStore::empty() };
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(address, &error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let builder = HttpsConnectorBuilder::new().with_tls_config(config);
    // A server that is asked for by https is never spoken to in the clear.
    let builder = if address.is_secure { builder.https_only() } else { builder.https_or_http() };
    Ok(builder.enable_http1().wrap_connector(connector))
}

/// What the machine trusts, or what `SSL_CERT_FILE` and `SSL_CERT_DIR` name.
fn trusted(address: &Address) -> Result<RootCertStore, OpenError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (taken, _unreadable) = roots.add_parsable_certificates(found.certs);
    if taken == 0 {
        let why = found.errors.first().map_or_else(|| "none was found".to_owned(), ToString::to_string);
        let problem =
            format!("there is no certificate to trust: {why}; install some, or name a file in SSL_CERT_FILE");
        return Err(refused(address, &problem));
    }
    Ok(roots)
}

fn refused(address: &Address, problem: &str) -> OpenError {
    OpenError::BadServerAddress { address: address.base.clone(), problem: problem.to_owned() }
}
