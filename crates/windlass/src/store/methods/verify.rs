//! Verification of the stored data, and the head of the audit trail for external verification.

use crate::audit::SealPoint;
use crate::error::{ActionError, StoreError};
use crate::store::caller::{Caller, Permission};
use crate::store::command::maintenance::{audit_chain, repair};
use crate::store::tx::request::Kind;
use crate::store::verify::{
    self, AuditCheck, Remedy, Repair, RepairPlan, RepairResult, VerifyProgress, VerifyReport,
};
use crate::store::{ReadKind, Store};

impl Store {
    /// Checks every invariant of the stored data and reports the results.
    pub async fn verify(&self) -> Result<Vec<VerifyReport>, StoreError> {
        self.verify_with_progress(|_| {}).await
    }

    /// Like [`verify`](Store::verify), and reports progress from another thread.
    pub async fn verify_with_progress(
        &self,
        mut tell: impl FnMut(VerifyProgress) + Send + 'static,
    ) -> Result<Vec<VerifyReport>, StoreError> {
        self.read_as(ReadKind::Long, "verify", move |view| verify::verify(view, &mut tell)).await
    }

    /// Checks every invariant like [`verify`](Store::verify), and says for each finding what can be done about it.
    /// Changes nothing; reports progress from another thread.
    pub async fn plan_repairs(
        &self,
        mut tell: impl FnMut(VerifyProgress) + Send + 'static,
    ) -> Result<RepairPlan, StoreError> {
        self.read_as(ReadKind::Long, "plan_repairs", move |view| verify::plan_repairs(view, &mut tell)).await
    }

    /// Does one repair of a plan, in a commit of its own with an audit record. Everything is derived again in this commit.
    ///
    /// # Errors
    /// [`ActionError::Forbidden`] unless the caller is an admin.
    pub async fn repair(
        &self,
        caller: &Caller,
        plan: &RepairPlan,
        repair: &Repair,
    ) -> Result<RepairResult, ActionError> {
        let (Remedy::Derived(action), Some(defect)) = (&repair.remedy, &repair.defect) else {
            return Ok(RepairResult::Refused("the right value does not follow from stored data".to_owned()));
        };
        let (code, findings, through) = (repair.code, repair.findings.clone(), plan.through);
        let (action, defect, plan) = (action.clone(), defect.clone(), plan.id.clone());
        self.write_for(caller, "repair", Kind::Ordinary, move |tx, caller| {
            let (findings, action, defect, plan) = (&findings, &action, &defect, &plan);
            repair::repair(tx, caller, &repair::Step { code, findings, action, defect, plan, through })
        })
        .await
    }

    /// Checks the hash chain of the audit trail; the text says where it is broken.
    pub async fn verify_audit(&self) -> Result<VerifyReport, StoreError> {
        self.verify_audit_with_progress(AuditCheck::default(), |_| {}).await
    }

    /// Like [`verify_audit`](Store::verify_audit), compared with externally stored seals, and reports progress
    /// from another thread.
    pub async fn verify_audit_with_progress(
        &self,
        check: AuditCheck,
        mut tell: impl FnMut(VerifyProgress) + Send + 'static,
    ) -> Result<VerifyReport, StoreError> {
        self.read_as(ReadKind::Long, "verify_audit", move |view| {
            verify::verify_audit(view, &check, &mut tell)
        })
        .await
    }

    /// The newest seal of the audit trail, to be stored externally; `None` if nothing was sealed yet. A caller of
    /// one tenant is refused: the audit trail is shared by all tenants.
    pub async fn audit_head(&self, caller: &Caller) -> Result<Option<SealPoint>, ActionError> {
        if caller.tenant.is_some() {
            caller.require(Permission::Administer)?;
        }
        Ok(self.read("audit_head", |view| audit_chain::newest_point(view.db)).await?)
    }
}
