//! TLS to the server, by the rules of libpq: `sslmode` decides whether TLS is required and how the server is verified.
//! Uses rustls; only what is requested is checked.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore, SignatureScheme,
};

use crate::error::OpenError;

/// The TLS options of an address.
#[derive(Debug, Default)]
pub(in super::super) struct TlsOptions {
    /// `disable`, `prefer`, `require`, `verify-ca` or `verify-full`.
    pub(in super::super) mode: Option<String>,
    /// Trusted root certificates: a PEM file or `system`.
    pub(in super::super) root: Option<String>,
    /// The client certificate and its key.
    pub(in super::super) identity: [Option<String>; 2],
}

/// How much is checked, in rising order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

impl Mode {
    fn parse(word: &str) -> Option<Mode> {
        let modes = [
            ("disable", Mode::Disable),
            ("prefer", Mode::Prefer),
            ("require", Mode::Require),
            ("verify-ca", Mode::VerifyCa),
            ("verify-full", Mode::VerifyFull),
        ];
        modes.into_iter().find(|(name, _)| *name == word).map(|(_, mode)| mode)
    }
}

/// The TLS configuration for the connections of an address.
#[derive(Clone)]
pub(in super::super) struct Tls {
    config: Arc<ClientConfig>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// The TLS configuration for these options, and the mode for the driver.
    pub(in super::super) fn new(options: &TlsOptions, hosts: &[Host]) -> Result<(Tls, SslMode), OpenError> {
        let word = options.mode.as_deref().unwrap_or("prefer");
        let mode = Mode::parse(word).ok_or_else(|| {
            let allowed = "disable, prefer, require, verify-ca or verify-full";
            bad(format!("the value of `sslmode` is not valid: {allowed}"))
        })?;
        // A local socket is not exposed to the network.
        let is_local = !hosts.is_empty() && hosts.iter().all(|host| matches!(host, Host::Unix(_)));
        let mode = if is_local { Mode::Disable } else { mode };
        let trust = if mode == Mode::Disable { None } else { Trusted::load(mode, options.root.as_deref())? };
        let algorithms = ring::default_provider().signature_verification_algorithms;
        let verifier = Verifier { trusted: trust, has_name: mode == Mode::VerifyFull, algorithms };
        let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| bad(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let config = match identity(&options.identity)? {
            Some((chain, key)) => builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| bad(format!("`sslkey` does not match `sslcert`: {error}")))?,
            None => builder.with_no_client_auth(),
        };
        let driver = match mode {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        };
        Ok((Tls { config: Arc::new(config) }, driver))
    }
}

fn bad(message: String) -> OpenError {
    OpenError::BadAddress(message)
}

fn certificates(path: &Path, option: &str) -> Result<Vec<CertificateDer<'static>>, OpenError> {
    let cannot = |why: String| bad(format!("cannot read `{}` ({option}): {why}", path.display()));
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.map_err(|error| cannot(error.to_string()))?;
    if found.is_empty() { Err(cannot("it contains no certificate".to_owned())) } else { Ok(found) }
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn identity([certificate, key]: &[Option<String>; 2]) -> Result<Option<Identity>, OpenError> {
    match (certificate, key) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => {
            let chain = certificates(Path::new(certificate), "`sslcert`")?;
            let key = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| bad(format!("cannot read `{key}` (`sslkey`): {error}")))?;
            Ok(Some((chain, key)))
        }
        _ => Err(bad("`sslcert` and `sslkey` must be given together".to_owned())),
    }
}

/// Trusted certificates.
#[derive(Debug)]
struct Trusted {
    roots: RootCertStore,
    /// The certificates in the file: a server's own certificate may be among them.
    exact: Vec<CertificateDer<'static>>,
}

impl Trusted {
    /// The certificates that a mode needs; `None` if it verifies nothing. As with libpq, `require` with a file is
    /// `verify-ca`.
    fn load(mode: Mode, root: Option<&str>) -> Result<Option<Trusted>, OpenError> {
        let exact = match (root, mode) {
            (Some("system"), Mode::VerifyFull) => return Trusted::of_system().map(Some),
            (Some("system"), _) => {
                return Err(bad("`sslrootcert=system` needs `sslmode=verify-full`".to_owned()));
            }
            (Some(path), _) => certificates(Path::new(path), "`sslrootcert`")?,
            (None, Mode::VerifyCa | Mode::VerifyFull) => {
                let usual = usual_root().ok_or_else(|| {
                    bad("`sslrootcert` is missing: a file of certificates, or `system` with verify-full"
                        .to_owned())
                })?;
                certificates(&usual, "another name")?
            }
            (None, _) => return Ok(None),
        };
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(exact.iter().cloned());
        Ok(Some(Trusted { roots, exact }))
    }

    fn of_system() -> Result<Trusted, OpenError> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err(bad("`sslrootcert=system`, but the system has no trusted certificates".to_owned()));
        }
        Ok(Trusted { roots, exact: Vec::new() })
    }
}

/// The default location of libpq.
fn usual_root() -> Option<PathBuf> {
    let home = std::env::var_os("HOME")?;
    Some(Path::new(&home).join(".postgresql/root.crt")).filter(|path| path.is_file())
}

/// Verifies a server's certificate.
#[derive(Debug)]
struct Verifier {
    trusted: Option<Trusted>,
    /// Whether the host name must also match.
    has_name: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        let Some(trusted) = &self.trusted else { return Ok(ServerCertVerified::assertion()) };
        let certificate = ParsedCertificate::try_from(end_entity)?;
        // rustls does not accept a self-signed certificate as an authority, but it is trusted if it is in the file
        // itself.
        if !trusted.exact.iter().any(|exact| exact == end_entity) {
            let algorithms = self.algorithms.all;
            verify_server_cert_signed_by_trust_anchor(
                &certificate,
                &trusted.roots,
                intermediates,
                now,
                algorithms,
            )?;
        }
        if self.has_name {
            verify_server_name(&certificate, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl<S> MakeTlsConnect<S> for Tls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Secured<S>;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Handshake> {
        // Also called where there will be no handshake, such as for a local socket, which has no name.
        Ok(Handshake { connector: TlsConnector::from(self.config.clone()), host: host.to_owned() })
    }
}

/// A handshake with one server.
pub(in super::super) struct Handshake {
    connector: TlsConnector,
    host: String,
}

impl<S> TlsConnect<S> for Handshake
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Secured<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Secured<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let unnamed = |_| io::Error::new(io::ErrorKind::InvalidInput, "the server has no name to verify");
            let name = ServerName::try_from(self.host).map_err(unnamed)?;
            self.connector.connect(name, stream).await.map(Secured)
        })
    }
}

/// An encrypted connection.
pub(in super::super) struct Secured<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Secured<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Secured<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Secured<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
