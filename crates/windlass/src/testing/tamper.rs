//! Changing what is stored behind the back of every rule, for tests of what must not get through then.

use crate::error::StoreError;
use crate::job::{JobId, JobRecord, Spec};
use crate::store::Store;
use crate::store::tx::request::Kind;
use crate::store::tx::write_tx::WriteTx;

/// Changes a stored job as somebody with access to the database could; for tests of what is refused then (M94). Its keys and
/// side records are lost.
///
/// # Panics
/// When there is no such job, or the store fails.
pub async fn tamper(
    store: &Store,
    id: JobId,
    mut change: impl FnMut(&mut JobRecord, &mut Spec) + Send + 'static,
) {
    let work = move |unit: &mut WriteTx<'_>| -> Result<(), StoreError> {
        let seq = unit.find(&[id])?[0].expect("the job is there");
        let mut job = unit.job(seq)?.expect("the job is there").clone();
        let mut spec = unit.spec(seq)?.expect("the job is there");
        change(&mut job, &mut spec);
        // Removed in the database before it is added again, or the new one would be removed.
        unit.remove(seq);
        unit.flush()?;
        unit.insert(job, spec, Vec::new());
        unit.flush()
    };
    store.write("tamper", Kind::Ordinary, work).await.expect("the store answers");
}
