//! Files that are truncated or damaged while they are open: nothing is acknowledged once it was met.

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

/// Both must be refused.
fn assert_nothing_is_taken(t: &Fixture, engine: &SqliteEngine) {
    for note in ["next", "later"] {
        engine.write(t.note(note));
        let (_, refused) = t.answer();
        assert!(matches!(refused, Err(StoreError::Stopped(_))), "{note}: {refused:?}");
    }
    engine.read(test_read(t, |_| {}));
    assert_stopped(&t.answer());
}

/// A read of the large document, without what is cached.
fn read_big(t: &Fixture) -> Box<dyn ReadTask> {
    test_read(t, |tx| {
        let _ = tx.db.documents(DocumentKind::Cost);
    })
}

/// An open store with a document of a megabyte, in the log or, after a restart, in the database.
fn with_big_document(t: &Fixture, is_in_log: bool) -> SqliteEngine {
    let engine = t.open();
    engine.write(t.submission("big"));
    assert_eq!(t.answer(), ("big", Ok(())));
    if is_in_log {
        return engine;
    }
    engine.close();
    t.open()
}

#[test]
fn a_log_that_is_cut_short_stops_the_store() {
    for rest in [|_| 0, |length: u64| length / 2, |length| length - 1] {
        let t = Fixture::new();
        let engine = with_big_document(&t, true);
        let log = fs::OpenOptions::new().write(true).open(t.path("jobs.db-wal")).unwrap();
        log.set_len(rest(log.metadata().unwrap().len())).unwrap();
        assert_nothing_is_taken(&t, &engine);
    }
}

#[test]
fn a_log_that_was_cut_by_a_checkpoint_is_accepted() {
    let t = Fixture::new();
    let engine = with_big_document(&t, true);
    let other = rusqlite::Connection::open(t.path("jobs.db")).unwrap();
    other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    assert_eq!(fs::metadata(t.path("jobs.db-wal")).unwrap().len(), 0);
    for name in ["next", "later"] {
        engine.write(t.note(name));
        assert_eq!(t.answer(), (name, Ok(())));
    }
}

#[test]
fn damage_that_a_read_meets_stops_the_store() {
    for is_in_log in [false, true] {
        let t = Fixture::new();
        let engine = with_big_document(&t, is_in_log);
        if is_in_log {
            // A commit of another process, so that no page is cached.
            let other = rusqlite::Connection::open(t.path("jobs.db")).unwrap();
            other.execute_batch("CREATE TABLE foreign_table (body BLOB)").unwrap();
            let log = fs::OpenOptions::new().write(true).open(t.path("jobs.db-wal")).unwrap();
            log.set_len(1000).unwrap();
        } else {
            let file = fs::OpenOptions::new().write(true).open(t.path("jobs.db")).unwrap();
            let bytes = file.metadata().unwrap().len();
            for page in 2..bytes / limits::PAGE_BYTES.unsigned_abs() {
                file.write_all_at(&[0xff; 64], page * limits::PAGE_BYTES.unsigned_abs()).unwrap();
            }
        }
        engine.read(read_big(&t));
        assert_stopped(&t.answer());
        assert_nothing_is_taken(&t, &engine);
    }
}

#[test]
fn damage_that_a_checkpoint_meets_stops_the_store() {
    let t = Fixture::new();
    let engine = with_big_document(&t, false);
    engine.close();
    let mut writer = t.writer();
    writer.commit(vec![t.note("logged")]).unwrap();
    assert_eq!(t.answer(), ("logged", Ok(())));
    cut(&t, |_| limits::PAGE_BYTES.unsigned_abs());
    let moved = crate::store::engines::sqlite::checkpoint::move_now(writer.tables.connection());
    assert!(matches!(moved, Err(StoreError::Damaged(_))), "{moved:?}");
    let refused = writer.finish_group(moved);
    assert!(matches!(refused, Err(StoreError::Stopped(_))), "{refused:?}");
}
