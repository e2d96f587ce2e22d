//! Stored documents: what can be read is written and read again as itself, and can be used.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_fuzz::Family;

use super::attempt::AttemptRecord;
use super::budget::BudgetUsage;
use super::cascade::Cascade;
use super::config::{PauseRecord, Resumption, Worker, encode, parse};
use super::history::{HistoryScope, Point, Progress, Sample, is_expired};
use super::key_holder::KeyHolderCache;
use super::latency::LatencyHistogram;
use super::minute_stats::Minute;
use super::schedules::{DeletedSchedule, Schedule};
use super::webhook::WebhookSecrets;
use crate::store::engine::{DocumentKind, Edge, JobDataPosition, Key};
use crate::store::move_store::cursor::Cursor;
use crate::store::move_store::marker::MoveMarker;

fn stored<T: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) -> Result<Option<T>, String> {
    let Ok(read) = parse::<T>(bytes) else { return Ok(None) };
    match parse::<T>(&encode(&read)) {
        Ok(again) if again == read => Ok(Some(read)),
        other => Err(format!("{read:?} is read again as {other:?}")),
    }
}

const SEEDS: [&str; 14] = [
    r#"{"scope":{"queue":{"queue":"q","tenant":null}},"mode":"aggressive","reason":"r","by":"b","since":5,"expires_at":7}"#,
    r#"{"since":5,"depth":2,"task":{"task":"dependents","job":7,"after":[8,"all"],"last":9}}"#,
    r#"{"since":5,"depth":2,"task":{"task":"leases","workers":["0199ad3b-5ff6-7d0e-9c86-3b0a4c6a2f11"],"before":5,"end":"gap","after":null}}"#,
    r#"{"stage":"arriving","id":"x","from":"sqlite:a","cursor":{"part":"facets","after":{"seq":5,"kind":"attempt","name":"n","number":7}}}"#,
    r#"{"stage":"leaving","id":"x","to":"postgres://db","at":5}"#,
    r#"{"part":"edges","after":{"dependency":1,"dependent":2,"need":"any"}}"#,
    r#"{"part":"documents","kind":"schedule","after":"key"}"#,
    r#"{"part":"keys","after":{"kind":"unique","tenant":"t","job_type":"j","text":"k"}}"#,
    r#"{"1":5,"400":7,"65535":1}"#,
    r#"{"tenant":"t","name":"s","timing":{"every":{"secs":5,"nanos":0}},"missed":"once","overlap":"allow","job":{"job_type":"a","payload":{"json":"{}"}},"created_at":1,"updated_at":1,"updated_by":"x","start":1,"done_through":1,"next_at":5}"#,
    "{}",
    r#"{"day":{"period":"2030-01-31","cents":5},"month":{"period":"2030-01","cents":-7}}"#,
    "[]",
    "5",
];

#[test]
fn documents_are_read_as_they_were_written() {
    let words =
        ["\"after\":null", "\"task\":\"children\"", "\"part\":\"end\"", "65536", "\"kind\":", "{\"secs\":1}"];
    Family::new("documents").seeds(SEEDS).words(words).cases(4_000).bytes(|bytes| {
        stored::<PauseRecord>(bytes)?;
        stored::<Resumption>(bytes)?;
        stored::<Worker>(bytes)?;
        stored::<Cascade>(bytes)?;
        stored::<Schedule>(bytes)?;
        stored::<DeletedSchedule>(bytes)?;
        stored::<Minute>(bytes)?;
        stored::<Point>(bytes)?;
        stored::<Sample>(bytes)?;
        stored::<Progress>(bytes)?;
        stored::<BudgetUsage>(bytes)?;
        stored::<WebhookSecrets>(bytes)?;
        stored::<AttemptRecord>(bytes)?;
        stored::<KeyHolderCache>(bytes)?;
        stored::<Key>(bytes)?;
        stored::<Edge>(bytes)?;
        stored::<JobDataPosition>(bytes)?;
        stored::<DocumentKind>(bytes)?;
        let histogram = stored::<LatencyHistogram>(bytes)?.unwrap_or_default();
        // Counts that no store reaches would overflow their sum.
        if encode(&histogram).len() < 60 {
            let _never_panics = (histogram.percentile(0.99), histogram.up_to());
        }
        Ok(())
    });
}

/// A move that was interrupted continues where it was: its marks and cursors pass every part that is left, and end.
#[test]
fn a_move_continues_from_any_cursor_that_can_be_read() {
    Family::new("documents").seeds(SEEDS).cases(1_000).bytes(|bytes| {
        let mark = stored::<MoveMarker>(bytes)?;
        let cursor = match mark {
            Some(MoveMarker::Arriving { cursor, .. }) => Some(cursor),
            _ => stored::<Cursor>(bytes)?,
        };
        let Some(mut cursor) = cursor else { return Ok(()) };
        for _ in 0..100 {
            if cursor == Cursor::End {
                return Ok(());
            }
            cursor = cursor.next_part();
        }
        Err("the parts do not end".to_owned())
    });
}

/// Keys of statistics: of whatever is there, only what this version wrote is read, and it is read as it was written.
#[test]
fn keys_of_statistics_are_read_as_they_were_written() {
    let seeds = ["* a -", "acme q mail", "* t email.send", "acme q a:b c", "00000012 * a -"];
    Family::new("statistics-keys").seeds(seeds).words([" ", " q ", " t ", "*", ":", "27000000 "]).text(
        |text| {
            let _never_panics = is_expired(text, i64::MAX) || is_expired(text, 0);
            match HistoryScope::parse(text) {
                Some(scope) if HistoryScope::parse(&scope.key()).as_ref() == Some(&scope) => Ok(()),
                Some(scope) => Err(format!("{scope:?} has the key {}", scope.key())),
                None => Ok(()),
            }
        },
    );
}
