//! The time of commits, whichever process makes them.

use super::*;

#[test]
fn time_never_runs_backwards_between_commits_of_any_process() {
    let t = Fixture::new();
    let early = ManualClock::new(t.clock.now());
    t.clock.advance(Duration::from_secs(5));
    let later = t.clock.now();
    t.writer().commit(vec![t.note("first")]).unwrap();
    assert_eq!(t.answer(), ("first", Ok(())));
    let environment = Environment::new(Arc::new(early), Entropy::seeded(2), StoreOptions::default());
    let mut writer = open_writer(&t.location(), Arc::new(environment), Arc::default()).unwrap();
    let (sender, now) = sync_channel(1);
    writer.commit(vec![t.task("when", move |tx| sender.send(tx.now).unwrap())]).unwrap();
    assert_eq!(now.recv().unwrap(), later);
}
