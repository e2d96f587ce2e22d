//! Encrypted connections: rustls, with the certificates that the machine trusts.

use std::sync::Arc;

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};

use super::address::Address;
use crate::error::OpenError;

/// The connector, with TLS if the address requires it.
pub(super) fn over(
    connector: HttpConnector,
    address: &Address,
) -> Result<HttpsConnector<HttpConnector>, OpenError> {
    // Certificates are not loaded for an unencrypted connection: it must work on a machine without certificates.
    let roots = if address.is_secure { trusted(address)? } else { RootCertStore::empty() };
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(address, &error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let builder = HttpsConnectorBuilder::new().with_tls_config(config);
    // An https server is never contacted without encryption.
    let builder = if address.is_secure { builder.https_only() } else { builder.https_or_http() };
    Ok(builder.enable_http1().wrap_connector(connector))
}

/// The certificates that the machine trusts, or those named by `SSL_CERT_FILE` and `SSL_CERT_DIR`.
fn trusted(address: &Address) -> Result<RootCertStore, OpenError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (taken, _unreadable) = roots.add_parsable_certificates(found.certs);
    if taken == 0 {
        let why = found.errors.first().map_or_else(|| "none was found".to_owned(), ToString::to_string);
        let problem = format!("no trusted certificates: {why}; install some, or set SSL_CERT_FILE");
        return Err(refused(address, &problem));
    }
    Ok(roots)
}

fn refused(address: &Address, problem: &str) -> OpenError {
    OpenError::BadServerAddress { address: address.base.clone(), problem: problem.to_owned() }
}
