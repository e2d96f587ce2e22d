//! Reporting an end to a callback address: the report is a job of its own, submitted in the commit that ends the job, so
//! that neither is without the other (M95).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::submit::{self, SubmitOptions};
use crate::callback;
use crate::error::{StoreError, SubmitError};
use crate::job::{Job, Tenant};
use crate::store::caller::Caller;
use crate::store::config::{encode, parse};
use crate::store::engine::{DocumentKind, FacetKind, FacetQuery};
use crate::store::unit::Unit;
use crate::store::webhook::WebhookSecret;

impl Unit<'_> {
    /// Submits the report of a job's end.
    pub(super) fn call_back(&mut self, job: &Job) -> Result<(), StoreError> {
        let Some(spec) = self.spec(job.seq)? else { return Ok(()) };
        let result = if job.has.result { self.result_of(job)? } else { None };
        let Some(delivery) = callback::delivery(job, &spec, result.as_deref()) else { return Ok(()) };
        // It belongs to whoever owns the job, who may then cancel it or have it sent again.
        let caller = Caller { id: spec.owner, ..Caller::system() };
        match submit::submit(self, &caller, &[delivery], SubmitOptions::default(), None) {
            Ok(_) => Ok(()),
            Err(SubmitError::Store(error)) => Err(error),
            // It has no key, no dependency and no limit by which it could be refused.
            Err(refused) => Err(StoreError::Database(format!("the report of job {}: {refused}", job.id))),
        }
    }

    fn result_of(&mut self, job: &Job) -> Result<Option<Vec<u8>>, StoreError> {
        let query = FacetQuery { seq: job.seq, kind: FacetKind::Result, name: None, above: None, limit: 1 };
        Ok(self.db()?.facets(query)?.pop().map(|facet| facet.body.to_vec()))
    }
}

/// The secret that a tenant's reports are signed with, made now if there is none.
pub(crate) fn webhook_secret(unit: &mut Unit<'_>, tenant: &Tenant) -> Result<WebhookSecret, StoreError> {
    let key = secret_key(tenant);
    if let Some(known) = unit.document(DocumentKind::Secret, &key)? {
        return parse(&known.body);
    }
    let bits = [unit.env.entropy.bits(), unit.env.entropy.bits()];
    let bytes: Vec<u8> = bits.iter().flat_map(|bits| bits.to_be_bytes()).collect();
    let secret = WebhookSecret::new(&BASE64_STANDARD.encode(bytes));
    unit.put_document(DocumentKind::Secret, &key, Some(&encode(&secret)), |_| {})?;
    Ok(secret)
}

/// The key under which a tenant's secret is kept.
pub(crate) fn secret_key(tenant: &Tenant) -> String {
    format!("webhook {tenant}")
}
