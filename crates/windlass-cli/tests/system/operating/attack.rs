//! Clients that mean ill, by the thousand, against the program in a process of its own: heads and bodies that never end,
//! answers that are not taken, garbage. Meanwhile others are served, memory is bounded, and afterwards all is free again.

use std::net::SocketAddr;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use windlass::clock::Stopwatch;
use windlass_server::limits;
use windlass_testkit::{ServerProcess, store_folder, store_in, windlass};

/// How much later than its limit anything may happen on a machine that is busy.
const SLACK: Duration = Duration::from_secs(20);
/// How quickly nearly all honest requests are answered, on such a machine and in a build without optimisation.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);

/// Attackers that connect at once: fewer than wait to be accepted on any system. With more, the system itself resets
/// connections, whatever the server does.
const WAVE: usize = 250;

/// Of which kind an attacker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Sends a head byte by byte.
    SlowHead,
    /// Announces a huge body, sends some of it, and then a byte now and then.
    SlowBody,
    /// Announces a huge body and sends all of it at once.
    HugeBody,
    /// Sends invalid requests, many times at once.
    Garbage,
}

impl Kind {
    fn opening(self) -> Vec<u8> {
        let head = "POST /api/v1/jobs/batch HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000000\r\n\r\n";
        let spaces = |count: usize| [head.as_bytes(), &vec![b' '; count]].concat();
        match self {
            Kind::SlowHead => b"GET /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nX-Slow: ".to_vec(),
            Kind::SlowBody => spaces(1 << 20),
            Kind::HugeBody => spaces(60_000_000),
            Kind::Garbage => b"\x16\x03\x01 what is this?\r\n\r\n".repeat(1_000),
        }
    }

    /// When the server has had enough of it.
    fn lasts_at_most(self) -> Duration {
        match self {
            Kind::SlowHead => limits::HEAD_TIME_MAX,
            Kind::SlowBody | Kind::HugeBody => {
                limits::BODY_TIME_MAX + limits::DISCARD_TIME_MAX + limits::HEAD_TIME_MAX
            }
            Kind::Garbage => Duration::ZERO,
        }
    }
}

/// One attacker, until the server has closed its connection; gives what it was answered.
async fn attack(
    address: SocketAddr,
    kind: Kind,
    mut beats: watch::Receiver<u64>,
) -> (Kind, Duration, String) {
    let watch = Stopwatch::start();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let (mut reading, mut writing) = stream.split();
    let mut answer = Vec::new();
    let talking = async {
        if writing.write_all(&kind.opening()).await.is_err() {
            return std::future::pending().await;
        }
        while beats.changed().await.is_ok() && writing.write_all(b"x").await.is_ok() {}
        std::future::pending::<()>().await;
    };
    tokio::select! {
        // Any end counts: with a response, without one, or with a reset.
        _ = reading.read_to_end(&mut answer) => {}
        () = talking => {}
    }
    (kind, watch.elapsed(), String::from_utf8_lossy(&answer).into_owned())
}

/// A client that requests far more than it reads: one byte at a time.
async fn read_slowly(address: SocketAddr, mut beats: watch::Receiver<u64>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    let (mut reading, mut writing) = stream.split();
    let asking = async {
        let _ = writing.write_all(&b"GET /docs/api HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(200)).await;
        std::future::pending::<()>().await;
    };
    let taking = async {
        while beats.changed().await.is_ok() && reading.read_u8().await.is_ok() {}
        std::future::pending::<()>().await;
    };
    tokio::join!(asking, taking);
}

/// What a process uses, by the system's account of it.
struct Usage {
    open_files: usize,
    peak_bytes: usize,
}

fn usage(process: u32) -> Usage {
    let open_files = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count();
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak_bytes = peak.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() * 1024;
    Usage { open_files, peak_bytes }
}

/// Waits until the server has so many files open: connections that it has accepted.
async fn until_accepted(server: &ServerProcess, files: usize) {
    let accepted = async {
        while usage(server.process()).open_files < files {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(SLACK, accepted).await.expect("connections are accepted");
}

/// As many files as the attack needs, for a process that has a low limit at first.
fn allow_files() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
}

/// Asks as an honest client does, on a connection of its own; gives how long it took.
async fn ask(server: &ServerProcess, id: &str, number: u64) -> Duration {
    let watch = Stopwatch::start();
    if number.is_multiple_of(2) {
        let answer = server.request("GET", &format!("/jobs/{id}")).send().await;
        assert_eq!(answer.status, 200);
    } else {
        server.post("/jobs", &json!({"type": "mail", "payload": number})).await;
    }
    watch.elapsed()
}

/// All attackers, connected wave by wave.
async fn attackers(
    server: &ServerProcess,
    beats: &watch::Receiver<u64>,
) -> JoinSet<(Kind, Duration, String)> {
    let mut attackers = JoinSet::new();
    let kinds = [(Kind::SlowHead, 2_500), (Kind::SlowBody, 200), (Kind::HugeBody, 8), (Kind::Garbage, 200)];
    for (kind, count) in kinds {
        for number in 1..=count {
            attackers.spawn(attack(server.address, kind, beats.clone()));
            if kind == Kind::SlowHead && number % WAVE == 0 {
                // Of all files, so that nothing is missing if one that was open before is closed meanwhile.
                until_accepted(server, number).await;
            }
        }
    }
    attackers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_hostile_clients_leave_the_server_serving_others() {
    allow_files();
    let folder = store_folder();
    let store = store_in(folder.path());
    let server =
        ServerProcess::start(windlass(&["serve", "--store", &store, "--listen", "127.0.0.1:0"])).await;
    let job = server.post("/jobs", &json!({"type": "mail"})).await;
    let id = job["id"].as_str().unwrap();
    let before = usage(server.process());

    let (beat, beats) = watch::channel(0);
    let (mut attackers, mut readers) = (attackers(&server, &beats).await, JoinSet::new());
    for _ in 0..100 {
        readers.spawn(read_slowly(server.address, beats.clone()));
    }

    let mut pace = tokio::time::interval(Duration::from_millis(20));
    let (mut took, mut number, mut open_most) = (Vec::new(), 0, 0);
    loop {
        tokio::select! {
            Some(ended) = attackers.join_next() => {
                let (kind, lasted, answer) = ended.unwrap();
                assert!(lasted < kind.lasts_at_most() + SLACK, "{kind:?} lasted {lasted:?}: {answer}");
                assert!(!answer.starts_with("HTTP/1.1 2"), "{kind:?}: {answer}");
            }
            _ = pace.tick() => {
                number += 1;
                took.push(ask(&server, id, number).await);
                if number.is_multiple_of(25) {
                    beat.send_replace(number);
                    let open_files = usage(server.process()).open_files;
                    open_most = open_most.max(open_files);
                    // Slow readers are cut off as well, while they still hold their end.
                    if attackers.is_empty() && open_files <= before.open_files + 4 {
                        break;
                    }
                    let limit = limits::WRITE_STALL_MAX * 2 + limits::BODY_TIME_MAX + SLACK;
                    assert!(pace.period() * u32::try_from(number).unwrap() < limit * 2, "{open_files} are open");
                }
            }
        }
    }
    assert_eq!(readers.len(), 100, "they hold their end to the last");
    assert!(open_most > 2_000, "they were all there at once: {open_most}");

    took.sort_unstable();
    let (median, nearly_all) = (took[took.len() / 2], took[took.len() * 99 / 100]);
    assert!(
        nearly_all < ANSWER_TIME_MAX,
        "of {} requests, half took {median:?}, 99 in 100 {nearly_all:?}",
        took.len()
    );
    let grown = usage(server.process()).peak_bytes.saturating_sub(before.peak_bytes);
    assert!(grown < 3 * limits::BODIES_BYTES_MAX, "memory grew by {} MiB", grown >> 20);
    println!(
        "{} requests: half within {median:?}, 99 in 100 within {nearly_all:?}; {open_most} files, {} MiB more",
        took.len(),
        grown >> 20
    );
    drop(readers);
    let said = server.stop().await;
    assert!(!said.contains("panicked"), "{said}");
}
