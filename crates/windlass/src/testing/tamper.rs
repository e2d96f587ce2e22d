//! Changes stored data without any rule, to test how damage is detected.

use crate::error::StoreError;
use crate::job::{JobId, JobRecord, Spec};
use crate::store::Store;
use crate::store::tx::request::Kind;
use crate::store::tx::write_tx::WriteTx;

/// Changes a stored job as someone with database access could, to test how it is detected. Its keys and side
/// records are lost.
///
/// # Panics
/// If the job does not exist, or the store fails.
pub async fn tamper(
    store: &Store,
    id: JobId,
    mut change: impl FnMut(&mut JobRecord, &mut Spec) + Send + 'static,
) {
    let work = move |tx: &mut WriteTx<'_>| -> Result<(), StoreError> {
        let seq = tx.find(&[id])?[0].expect("the job is there");
        let mut job = tx.job(seq)?.expect("the job is there").clone();
        let mut spec = tx.spec(seq)?.expect("the job is there");
        change(&mut job, &mut spec);
        // Removed before it is added again; otherwise the new row would be removed.
        tx.remove(seq);
        tx.flush()?;
        tx.insert(job, spec, Vec::new());
        tx.flush()
    };
    store.write("tamper", Kind::Ordinary, work).await.expect("the store answers");
}
