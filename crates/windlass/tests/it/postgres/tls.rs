//! TLS to the server, as libpq understands it: spoken where it must be, and refused to a server that is not who it should be.

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tokio_postgres::NoTls;
use windlass::error::{OpenError, StoreError};
use windlass::store::{Store, StoreOptions};

use super::{LONG, open, submit, verify};
use crate::fixture::cluster::{Cluster, as_user, own, schema_at};

/// Certificates: an authority, a server called `localhost` that it vouches for, and an unrelated authority.
struct Papers {
    folder: TempDir,
}

impl Papers {
    fn made() -> Papers {
        let folder = tempfile::tempdir().unwrap();
        own(folder.path());
        let papers = Papers { folder };
        for authority in ["root", "stranger"] {
            papers.openssl(&format!(
                "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN={authority} \
                 -keyout {authority}.key -out {authority}.crt"
            ));
        }
        papers.openssl(
            "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost -keyout server.key \
             -out server.csr -addext subjectAltName=DNS:localhost",
        );
        papers.openssl(
            "x509 -req -in server.csr -CA root.crt -CAkey root.key -CAcreateserial -days 2 -copy_extensions copy \
             -out server.crt",
        );
        papers
    }

    fn openssl(&self, arguments: &str) {
        let mut command = as_user(Path::new("openssl"));
        let done = command.args(arguments.split_whitespace()).current_dir(self.folder.path()).output();
        let done = done.expect("openssl runs");
        assert!(done.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&done.stderr));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn shown(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

/// A server on a port of its own.
struct Listening {
    cluster: Cluster,
    port: u16,
}

impl Listening {
    fn start(papers: Option<&Papers>) -> Listening {
        // Free at this moment; no other test here asks for a port by number.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut options = vec![format!("-c listen_addresses=127.0.0.1 -p {port} -c fsync=off")];
        if let Some(papers) = papers {
            let (certificate, key) = (papers.shown("server.crt"), papers.shown("server.key"));
            options.push(format!("-c ssl=on -c ssl_cert_file={certificate} -c ssl_key_file={key}"));
        }
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        Listening { cluster: Cluster::start(&options), port }
    }

    fn address(&self, host: &str, options: &str) -> String {
        let sign = if options.is_empty() { "" } else { "&" };
        let port = self.port;
        schema_at(&format!("postgres://windlass@{host}:{port}/postgres?application_name=tls{sign}{options}"))
    }

    /// How many of the store's connections there are, and how many of them are secured.
    async fn connections(&self) -> (i64, i64) {
        let local = format!(
            "host={} port={} user=windlass dbname=postgres",
            self.cluster.folder().display(),
            self.port
        );
        let (client, connection) = tokio_postgres::connect(&local, NoTls).await.unwrap();
        tokio::spawn(connection);
        let sql = "SELECT count(*), count(*) FILTER (WHERE s.ssl) FROM pg_stat_activity a \
                   JOIN pg_stat_ssl s USING (pid) WHERE a.application_name = 'tls'";
        let row = client.query_one(sql, &[]).await.unwrap();
        (row.get(0), row.get(1))
    }
}

fn refused(address: &str) -> String {
    match Store::open(address, StoreOptions::default()) {
        Err(OpenError::Store(StoreError::Unavailable(why))) => why,
        Err(other) => other.to_string(),
        Ok(_) => panic!("a server was trusted that should not be: {address}"),
    }
}

#[tokio::test]
async fn a_server_is_spoken_to_in_secret_and_only_if_it_is_the_right_one() {
    let papers = Papers::made();
    let server = Listening::start(Some(&papers));
    let (root, stranger, own) =
        (papers.shown("root.crt"), papers.shown("stranger.crt"), papers.shown("server.crt"));
    for (host, options) in [
        ("localhost", String::new()),
        ("127.0.0.1", "sslmode=require".to_owned()),
        ("127.0.0.1", format!("sslmode=require&sslrootcert={root}")),
        ("127.0.0.1", format!("sslmode=verify-ca&sslrootcert={root}")),
        ("localhost", format!("sslmode=verify-full&sslrootcert={root}")),
        ("localhost", format!("sslmode=verify-full&sslrootcert={own}")),
    ] {
        let store = open(&server.address(host, &options));
        submit(&store, 1).await;
        verify(&store).await;
        // The connection that listens is made a moment later than the others.
        let secured = async {
            loop {
                let (all, secured) = server.connections().await;
                assert_eq!(all, secured, "every connection is secured: {options}");
                if all >= 3 {
                    return;
                }
            }
        };
        tokio::time::timeout(LONG, secured).await.expect("writer, reader and change listener are connected");
        store.close();
    }
    for (host, options) in [
        ("localhost", format!("sslmode=require&sslrootcert={stranger}")),
        ("localhost", format!("sslmode=verify-ca&sslrootcert={stranger}")),
        ("localhost", format!("sslmode=verify-full&sslrootcert={stranger}")),
    ] {
        let why = refused(&server.address(host, &options));
        assert!(why.contains("UnknownIssuer"), "{options}: {why}");
    }
    for trusted in [root, own] {
        let options = format!("sslmode=verify-full&sslrootcert={trusted}");
        let why = refused(&server.address("127.0.0.1", &options));
        assert!(why.contains("not valid for name"), "{options}: {why}");
    }
    let plain = open(&server.address("localhost", "sslmode=disable"));
    submit(&plain, 1).await;
    assert_eq!(server.connections().await.1, 0, "what was asked for in the clear is in the clear");
    plain.close();
}

#[tokio::test]
async fn a_server_that_does_not_speak_tls_is_refused_where_it_must() {
    let papers = Papers::made();
    let server = Listening::start(None);
    for options in ["", "sslmode=prefer", "sslmode=disable"] {
        let store = open(&server.address("localhost", options));
        submit(&store, 1).await;
        store.close();
    }
    let root = papers.shown("root.crt");
    for mode in ["require", "verify-ca", "verify-full"] {
        let why = refused(&server.address("localhost", &format!("sslmode={mode}&sslrootcert={root}")));
        assert!(why.contains("server does not support TLS"), "{mode}: {why}");
    }
}
