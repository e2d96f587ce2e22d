//! TLS from a certificate chain and a key in PEM files. They are read once, at startup.

use std::sync::Arc;

use anyhow::Context;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::TlsFiles;

/// Accepts encrypted connections.
pub(super) fn acceptor(files: &TlsFiles) -> anyhow::Result<TlsAcceptor> {
    let shown = files.certificate.display();
    let chain = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| format!("cannot read the certificate {shown}"))?;
    anyhow::ensure!(!chain.is_empty(), "no certificate in {shown}");
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .with_context(|| format!("cannot read the key {}", files.key.display()))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .with_context(|| format!("the key does not match the certificate {shown}"))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
