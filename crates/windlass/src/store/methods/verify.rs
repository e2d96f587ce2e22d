//! Verification of the stored data, and the head of the audit trail for external verification.

use crate::audit::SealPoint;
use crate::error::{ActError, StoreError};
use crate::store::caller::{Caller, Permission};
use crate::store::command::maintenance::audit_chain;
use crate::store::verify::{self, AuditCheck, Checked, VerifyReport};
use crate::store::{ReadKind, Store};

impl Store {
    /// Checks every invariant of the stored data and reports the results.
    pub async fn verify(&self) -> Result<Vec<VerifyReport>, StoreError> {
        self.verify_with_progress(|_| {}).await
    }

    /// Like [`verify`](Store::verify), and reports progress from another thread.
    pub async fn verify_with_progress(
        &self,
        mut tell: impl FnMut(Checked) + Send + 'static,
    ) -> Result<Vec<VerifyReport>, StoreError> {
        self.read_as(ReadKind::Long, "verify", move |view| verify::verify(view, &mut tell)).await
    }

    /// Checks the hash chain of the audit trail; the text says where it is broken.
    pub async fn verify_audit(&self) -> Result<VerifyReport, StoreError> {
        self.verify_audit_with_progress(AuditCheck::default(), |_| {}).await
    }

    /// Like [`verify_audit`](Store::verify_audit), compared with externally stored checkpoints, and reports progress
    /// from another thread.
    pub async fn verify_audit_with_progress(
        &self,
        check: AuditCheck,
        mut tell: impl FnMut(Checked) + Send + 'static,
    ) -> Result<VerifyReport, StoreError> {
        self.read_as(ReadKind::Long, "verify_audit", move |view| {
            verify::verify_audit(view, &check, &mut tell)
        })
        .await
    }

    /// The newest checkpoint of the audit trail, to be stored externally; `None` if nothing was sealed yet. A caller of
    /// one tenant is refused: the audit trail is shared by all tenants.
    pub async fn audit_head(&self, caller: &Caller) -> Result<Option<SealPoint>, ActError> {
        if caller.tenant.is_some() {
            caller.require(Permission::Administer)?;
        }
        Ok(self.read("audit_head", |view| audit_chain::newest_point(view.db)).await?)
    }
}
