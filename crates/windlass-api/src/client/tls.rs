//! Encrypted connections: rustls, with the certificates that the machine trusts.

use std::sync::Arc;

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};

/// Why no connection can be encrypted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(String);

/// The certificates that the machine trusts, or those named by `SSL_CERT_FILE` and `SSL_CERT_DIR`.
pub fn trusted_roots() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (taken, _unreadable) = roots.add_parsable_certificates(found.certs);
    if taken == 0 {
        let why = found.errors.first().map_or_else(|| "none was found".to_owned(), ToString::to_string);
        let problem = format!("no trusted certificates: {why}; install some, or set SSL_CERT_FILE");
        return Err(TlsError(problem));
    }
    Ok(roots)
}

/// A TLS configuration that trusts [`trusted_roots`].
pub fn config() -> Result<ClientConfig, TlsError> {
    trusting(trusted_roots()?)
}

fn trusting(roots: RootCertStore) -> Result<ClientConfig, TlsError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError(error.to_string()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// The connector for an address, with TLS if the address requires it.
pub(super) fn connector(
    connector: HttpConnector,
    url: &str,
) -> Result<HttpsConnector<HttpConnector>, TlsError> {
    let is_secure = url.starts_with("https://");
    // Certificates are not loaded for an unencrypted connection: it must work on a machine without certificates.
    let config = if is_secure { config()? } else { trusting(RootCertStore::empty())? };
    let builder = HttpsConnectorBuilder::new().with_tls_config(config);
    // An https server is never contacted without encryption.
    let builder = if is_secure { builder.https_only() } else { builder.https_or_http() };
    Ok(builder.enable_http1().wrap_connector(connector))
}
