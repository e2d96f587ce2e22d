//! A database file that is truncated while it is open.

use super::*;

/// Truncates the file of an open store to this size.
fn cut(t: &Fixture, bytes: impl FnOnce(u64) -> u64) {
    let file = fs::OpenOptions::new().write(true).open(t.path("jobs.db")).unwrap();
    file.set_len(bytes(file.metadata().unwrap().len())).unwrap();
}

#[test]
fn a_database_that_is_cut_short_stops_the_store() {
    for rest in [|_| 0, |length| length / 2, |length| length - 1] {
        let t = Fixture::new();
        let engine = t.open();
        engine.write(t.note("before"));
        assert_eq!(t.answer(), ("before", Ok(())));
        engine.close();
        let engine = t.open();
        engine.write(t.note("whole"));
        assert_eq!(t.answer(), ("whole", Ok(())));
        cut(&t, rest);
        for note in ["cut", "later"] {
            engine.write(t.note(note));
            let (_, refused) = t.answer();
            assert!(matches!(refused, Err(StoreError::Stopped(_))), "{refused:?}");
        }
    }
}

#[test]
fn a_database_that_was_vacuumed_is_accepted() {
    let t = Fixture::new();
    let engine = t.open();
    engine.write(t.note("before"));
    assert_eq!(t.answer(), ("before", Ok(())));
    let other = rusqlite::Connection::open(t.path("jobs.db")).unwrap();
    other
        .execute_batch("CREATE TABLE filler (body BLOB); INSERT INTO filler VALUES (zeroblob(1000000));")
        .unwrap();
    other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    engine.write(t.note("grown"));
    assert_eq!(t.answer(), ("grown", Ok(())));
    let grown = fs::metadata(t.path("jobs.db")).unwrap().len();
    other.execute_batch("DROP TABLE filler; VACUUM;").unwrap();
    other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    assert!(fs::metadata(t.path("jobs.db")).unwrap().len() < grown);
    engine.write(t.note("after"));
    assert_eq!(t.answer(), ("after", Ok(())));
}
