//! Callbacks: a callback is a job of its own, submitted in the commit that ends the job, so that one never exists
//! without the other.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use super::audit::RecordActor;
use crate::audit::AuditEvent;
use crate::callback;
use crate::error::{StoreError, SubmitError};
use crate::job::{JobRecord, Tenant};
use crate::store::caller::Caller;
use crate::store::command::submit::{self, SubmitOptions};
use crate::store::documents::config::{encode, parse};
use crate::store::documents::webhook::{WebhookSecret, WebhookSecrets};
use crate::store::engine::{DocumentKind, JobDataKind, JobDataQuery};
use crate::store::tx::write_tx::WriteTx;

impl WriteTx<'_> {
    /// Submits the callback job for a job that has ended.
    pub(in crate::store::command) fn call_back(&mut self, job: &JobRecord) -> Result<(), StoreError> {
        let spec = match self.spec_or_damage(job.seq)? {
            Ok(spec) => spec,
            Err(damage) => {
                tracing::error!(job = %job.id, damage, "no callback is sent: its address may have been changed");
                return Ok(());
            }
        };
        let result = if job.has.result { self.result_of(job)? } else { None };
        let Some(delivery) = callback::delivery(job, &spec, result.as_deref()) else { return Ok(()) };
        // The callback belongs to the owner of the job, who may cancel it or retry it.
        let caller = Caller { id: spec.owner, ..Caller::system() };
        match submit::submit(self, &caller, &[delivery], SubmitOptions::default(), None) {
            Ok(_) => Ok(()),
            Err(SubmitError::Store(error)) => Err(error),
            // A callback has no key, no dependency and no limit that could cause a refusal.
            Err(refused) => Err(StoreError::Database(format!("the callback of job {}: {refused}", job.id))),
        }
    }

    fn result_of(&mut self, job: &JobRecord) -> Result<Option<Vec<u8>>, StoreError> {
        let query =
            JobDataQuery { seq: job.seq, kind: JobDataKind::Result, name: None, above: None, limit: 1 };
        Ok(self.db()?.job_data(query)?.pop().map(|data| data.body.to_vec()))
    }
}

/// The signing secrets of a tenant's webhooks; creates one if there is none.
pub(crate) fn webhook_secrets(
    tx: &mut WriteTx<'_>,
    tenant: &Tenant,
) -> Result<Vec<WebhookSecret>, StoreError> {
    let known = kept(tx, tenant)?;
    let secrets = match known {
        Some(known) => known,
        None => put(tx, tenant, None)?,
    };
    Ok(secrets.in_force(tx.now))
}

/// Creates a new secret. The previous one stays valid for a while.
pub(crate) fn rotate_webhook_secret(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    tenant: &Tenant,
) -> Result<Vec<WebhookSecret>, StoreError> {
    let previous = kept(tx, tenant)?.map(|kept| kept.current);
    let secrets = put(tx, tenant, previous)?;
    let context = json!({"actor_id": caller.id, "tenant": tenant});
    let cause = RecordActor::caller(caller, None);
    tx.record_operation(AuditEvent::SecretRotated, tenant.clone(), &cause, &context);
    Ok(secrets.in_force(tx.now))
}

fn kept(tx: &mut WriteTx<'_>, tenant: &Tenant) -> Result<Option<WebhookSecrets>, StoreError> {
    let known = tx.document(DocumentKind::Secret, &secret_key(tenant))?;
    known.map(|known| parse(&known.body)).transpose()
}

fn put(
    tx: &mut WriteTx<'_>,
    tenant: &Tenant,
    previous: Option<WebhookSecret>,
) -> Result<WebhookSecrets, StoreError> {
    let bits = [tx.env.entropy.bits(), tx.env.entropy.bits()];
    let bytes: Vec<u8> = bits.iter().flat_map(|bits| bits.to_be_bytes()).collect();
    let current = WebhookSecret::new(&BASE64_STANDARD.encode(bytes));
    let secrets = WebhookSecrets { current, since: tx.now, previous };
    tx.put_document(DocumentKind::Secret, &secret_key(tenant), Some(&encode(&secrets)), |_| {})?;
    Ok(secrets)
}

/// The document key of a tenant's secret.
pub(crate) fn secret_key(tenant: &Tenant) -> String {
    format!("webhook {tenant}")
}
