//! Calls against a server that answers with prepared bytes, one connection per answer.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use windlass_core::clock::Timestamp;

use super::call::EntityTags;
use super::*;

/// A server that gives each connection one of these answers and then closes it; an empty answer only closes it.
async fn serve(answers: Vec<String>) -> (String, tokio::task::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let served = tokio::spawn(async move {
        let mut requests = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            requests.push(String::from_utf8_lossy(&request[..length]).into_owned());
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        requests
    });
    (url, served)
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}")
}

fn client(url: &str, away_max: Option<Duration>) -> HttpClient {
    let clock = Arc::new(ServerClock::new(|| Timestamp::from_millis(0)));
    let options = ClientOptions { away_max, ..ClientOptions::default() };
    HttpClient::new(url, Some(&KeySecret::new(7, [1, 2])), clock, options).unwrap()
}

const PATIENT: Option<Duration> = Some(Duration::from_secs(60));

#[tokio::test]
async fn a_call_is_sent_with_key_body_and_versions_and_the_clock_follows() {
    let found = answer("200 OK", "windlass-time: 2030-01-31T12:00:00.000Z\r\n", "{\"id\": 3}");
    let (url, served) = serve(vec![found]).await;
    let client = client(&url, None);
    let call = Call::post(&["jobs", "a b"]).json(&[1]).if_match(EntityTags::new(&["x1"]));
    let found: serde_json::Value = client.send(&call).await.unwrap().json().unwrap();
    assert_eq!(found["id"], 3);
    assert_eq!(client.clock().now().to_string(), "2030-01-31T12:00:00.000Z");
    let request = &served.await.unwrap()[0];
    assert!(request.starts_with("POST /api/v1/jobs/a%20b HTTP/1.1\r\n") && request.ends_with("\r\n[1]"));
    assert!(request.contains("if-match: \"x1\"\r\n") && request.contains("authorization: Bearer wl_"));
}

#[tokio::test]
async fn only_calls_that_may_be_repeated_are_repeated() {
    let done = || answer("200 OK", "", "{}");
    let (url, served) = serve(vec![String::new(), done(), String::new(), done(), String::new()]).await;
    let patient = client(&url, PATIENT);
    patient.send(&Call::get("/jobs")).await.unwrap();
    patient.send(&Call::post("/jobs").repeatable(true)).await.unwrap();
    let lost = patient.send(&Call::post("/jobs")).await.err().unwrap();
    assert!(matches!(lost, ClientError::Lost { .. }), "{lost}");
    assert_eq!(served.await.unwrap().len(), 5);
}

#[tokio::test]
async fn a_client_without_patience_repeats_nothing() {
    let (url, served) = serve(vec![String::new(), String::new()]).await;
    let lost = client(&url, None).send(&Call::get("/jobs")).await.err().unwrap();
    assert!(matches!(lost, ClientError::Lost { .. }), "{lost}");
    let lost = client(&url, PATIENT).send(&Call::get("/jobs").once()).await.err().unwrap();
    assert!(matches!(lost, ClientError::Lost { .. }), "{lost}");
    served.await.unwrap();
    // Nothing listens any more: the request was not sent.
    let unsent = client(&url, None).send(&Call::get("/jobs")).await.err().unwrap();
    assert!(matches!(unsent, ClientError::NoServer { .. }), "{unsent}");
    let over = client(&url, Some(Duration::ZERO)).send(&Call::post("/jobs")).await.err().unwrap();
    assert!(matches!(over, ClientError::NoServer { .. }), "{over}");
}

#[tokio::test]
async fn an_error_response_is_distinguished_from_that_of_an_intermediary() {
    let full = r#"{"error": {"code": "disk_full", "message": "no space"}}"#;
    let refused = answer("503 Service Unavailable", "retry-after: 2\r\n", full);
    let (url, served) = serve(vec![refused.clone(), answer("502 Bad Gateway", "", "<html>"), refused]).await;
    let client = client(&url, PATIENT);
    let Err(ClientError::Refused(refusal)) = client.send(&Call::get("/jobs")).await else { panic!() };
    assert_eq!((refusal.status, refusal.code.as_str(), refusal.had_key), (503, "disk_full", true));
    assert_eq!(refusal.retry_after, Some(Duration::from_secs(2)));
    let other = client.send(&Call::get("/jobs")).await.err().unwrap();
    assert_eq!(other.to_string(), "an intermediary answered 502 Bad Gateway");
    let Err(ClientError::Refused(refusal)) = client.stream(&Call::get("/events")).await else { panic!() };
    assert_eq!(refusal.code, "disk_full");
    served.await.unwrap();
}

#[tokio::test]
async fn a_stream_is_read_to_its_end_and_ends_with_the_client() {
    let events = "id: 7\nevent: job.submitted\ndata: {}\n\nevent: end\ndata: {}\n\n";
    let (url, served) = serve(vec![answer("200 OK", "", events)]).await;
    let client = client(&url, None);
    let mut stream = client.stream(&Call::get("/events")).await.unwrap();
    assert_eq!(stream.next().await.unwrap().map(|event| event.id), Some(Some(7)));
    assert_eq!(stream.next().await.unwrap().map(|event| event.name).as_deref(), Some(sse::END));
    assert_eq!(stream.next().await.unwrap(), None);
    served.await.unwrap();
    client.close();
    assert!(matches!(stream.next().await, Err(ClientError::Closed)));
    assert!(matches!(client.send(&Call::get("/jobs")).await, Err(ClientError::Closed)));
    assert!(matches!(client.stream(&Call::get("/jobs")).await, Err(ClientError::Closed)));
}

#[tokio::test]
async fn a_silent_server_is_given_up_after_the_calls_own_time() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = client(&format!("http://{}", listener.local_addr().unwrap()), None);
    let within = Duration::from_millis(5);
    let silent = client.send(&Call::get_outside(&["readyz"]).within(within)).await.err().unwrap();
    assert_eq!(silent.to_string(), "no response within 5ms");
}
