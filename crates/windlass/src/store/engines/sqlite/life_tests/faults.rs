//! Commands that fail in the middle: none of their changes remain, and other commands of their group are not affected. A file
//! that another version changes while it is open.

use super::*;
use crate::store::Store;
use crate::store::tx::request::Kind;

#[test]
fn a_panic_undoes_its_group_and_nothing_else() {
    let t = Fixture::new();
    let engine = t.open();
    let before = t.commits();
    engine.write(t.task("panics", |tx| {
        put(tx, "panics", 1);
        panic!("as planned");
    }));
    let (name, outcome) = t.answer();
    assert_eq!(name, "panics");
    assert!(outcome.unwrap_err().to_string().contains("a command panicked, nothing was changed: as planned"));
    engine.write(t.note("next"));
    assert_eq!(t.answer(), ("next", Ok(())));
    assert_eq!(t.commits(), before + 1);
    engine.read(test_read(&t, |_| panic!("as planned")));
    assert!(t.answer().1.unwrap_err().to_string().contains("panicked"));
    engine.read(test_read(&t, |_| {}));
    assert_eq!(t.answer(), ("look", Ok(())));
}

#[test]
fn a_task_that_fails_takes_none_of_its_group_with_it() {
    let t = Fixture::new();
    let engine = t.open();
    let held = t.hold(&engine);
    let damaged = StoreError::Damaged("as planned".to_owned());
    let error = damaged.clone();
    engine.write(t.note("before"));
    engine.write(t.task("panics", |_| panic!("as planned")));
    engine.write(t.task("damaged", move |tx| tx.abort(&error)));
    engine.write(t.note("after"));
    drop(held);
    assert_eq!([t.answer(), t.answer()], [("hold", Ok(())), ("before", Ok(()))]);
    assert_eq!(t.answer().0, "panics");
    assert_eq!([t.answer(), t.answer()], [("damaged", Err(damaged)), ("after", Ok(()))]);
}

/// Damage of one record affects that record only; damage of the file may be anywhere, so nothing more is acknowledged.
#[test]
fn damage_of_the_file_stops_the_store() {
    let t = Fixture::new();
    let engine = t.open();
    engine.write(t.note("before"));
    assert_eq!(t.answer(), ("before", Ok(())));
    let malformed = "database disk image is malformed".to_owned();
    engine.write(t.task("meets damage", move |tx| tx.abort(&StoreError::Damaged(malformed.clone()))));
    for name in ["meets damage", "after"] {
        let (answered, outcome) = t.answer();
        assert_eq!(answered, name);
        let Err(StoreError::Stopped(why)) = outcome else { panic!("{name}: {outcome:?}") };
        assert!(why.contains("restore a backup"), "{why}");
        if name == "meets damage" {
            engine.write(t.note("after"));
        }
    }
}

#[test]
fn an_error_in_the_middle_of_a_command_leaves_nothing_of_it() {
    let t = Fixture::new();
    let store = Store::open_in(
        &format!("sqlite:{}", t.path("jobs.db").display()),
        Environment::new(t.clock.clone(), Entropy::seeded(1), StoreOptions::default()),
    )
    .unwrap();
    let damaged = StoreError::Damaged("as planned".to_owned());
    let error = damaged.clone();
    let work = move |tx: &mut WriteTx<'_>| -> Result<(), StoreError> {
        put(tx, "half", 1);
        // As timers do between two items of a command.
        tx.begin();
        Err(error.clone())
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(runtime.block_on(store.write("half", Kind::Ordinary, work)), Err(damaged));
    store.close();
    assert_eq!(t.commits(), 0);
}

/// A version that does not know the new schema must not continue writing by the rules of the old one.
#[test]
fn a_file_that_a_newer_version_migrated_while_it_was_open_is_not_served_any_more() {
    let t = Fixture::new();
    let engine = t.open();
    engine.write(t.note("before"));
    assert_eq!(t.answer(), ("before", Ok(())));
    let newer = rusqlite::Connection::open(t.path("jobs.db")).unwrap();
    newer.pragma_update(None, "user_version", migrate::SCHEMA + 1).unwrap();
    for what in ["after", "later"] {
        engine.write(t.note(what));
        let (answered, outcome) = t.answer();
        assert!(answered == what && matches!(outcome, Err(StoreError::Stopped(_))), "{outcome:?}");
    }
    engine.close();
}
