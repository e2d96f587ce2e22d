//! Statements for whose answer no caller waits any more.

use tokio_util::sync::CancellationToken;

use super::*;
use crate::clock::Deadline;
use crate::store::engines::sqlite::reader::Turn;

/// The caller stops waiting while its only statement runs, or its deadline passes.
#[test]
fn a_statement_ends_when_no_caller_waits_for_it() {
    let t = Fixture::new();
    t.open();
    let reader = || Reader::new(open_tables(&t.location(), 64).unwrap(), t.env(), Arc::default());
    let (first, late) = (reader(), reader());
    let cancellation = CancellationToken::new();
    first.set_interrupt(cancellation.clone(), None).unwrap();
    let turn = first.turn();
    let endless = thread::spawn(move || first.read_forever());
    while !Turn::is_read(turn.current()) {
        thread::yield_now();
    }
    cancellation.cancel();
    assert!(endless.join().unwrap().unwrap_err().to_string().contains("interrupted"));
    late.set_interrupt(CancellationToken::new(), Some(Deadline::after(Duration::from_millis(1)))).unwrap();
    assert!(late.read_forever().unwrap_err().to_string().contains("interrupted"));
}
