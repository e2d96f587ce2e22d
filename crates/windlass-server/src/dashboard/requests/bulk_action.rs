//! Bulk actions, and the jobs they apply to: the data of the confirmation page.

use std::collections::BTreeMap;
use std::str::FromStr;

use windlass::Store;
use windlass::error::StoreError;
use windlass::job::{JobAction, JobId, JobState};
use windlass::store::Filter;
use windlass::store::caller::Caller;

use crate::dashboard::page::PageError;
use crate::dashboard::pages::limits;
use crate::dashboard::parts::format::count;

/// The jobs that an action would affect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::dashboard) struct BulkTarget {
    pub(in crate::dashboard) count: u64,
    /// Whether there may be more than were counted.
    pub(in crate::dashboard) is_more: bool,
    /// Counts by state, if known and if there are several states.
    pub(in crate::dashboard) states: BTreeMap<JobState, u64>,
    /// The selected jobs that can be acted on.
    pub(in crate::dashboard) ids: Vec<JobId>,
    /// Which jobs are skipped.
    pub(in crate::dashboard) remarks: Vec<String>,
}

/// An action on many jobs: one of [`JobAction::BULK`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::dashboard) struct BulkChoice(pub(in crate::dashboard) JobAction);

impl FromStr for BulkChoice {
    type Err = PageError;

    fn from_str(word: &str) -> Result<BulkChoice, PageError> {
        let action = word.parse().ok().filter(|action| JobAction::BULK.contains(action));
        action.map(BulkChoice).ok_or_else(|| PageError::invalid("unknown action"))
    }
}

impl BulkChoice {
    pub(in crate::dashboard) fn verb(self) -> &'static str {
        match self.0 {
            JobAction::Suspend => "Suspend",
            JobAction::Resume => "Resume",
            JobAction::Cancel => "Cancel",
            JobAction::Priority => "Change the priority of",
            JobAction::Redrive => "Retry",
            _ => "Delete",
        }
    }

    /// The past participle, for messages.
    pub(in crate::dashboard) fn done(self) -> &'static str {
        match self.0 {
            JobAction::Suspend => "suspended",
            JobAction::Resume => "resumed",
            JobAction::Cancel => "cancelled",
            JobAction::Priority => "priority",
            JobAction::Redrive => "redriven",
            _ => "deleted",
        }
    }

    pub(in crate::dashboard) fn is_grave(self) -> bool {
        matches!(self.0, JobAction::Cancel | JobAction::Delete)
    }

    /// Narrows a filter to jobs in suitable states; None if there are none. Redriven jobs are not redriven again in bulk;
    /// that is possible on the job's page.
    pub(in crate::dashboard) fn narrowed(self, filter: &Filter) -> Option<Filter> {
        let is_asked = |state: &JobState| filter.states.is_empty() || filter.states.contains(state);
        let states: Vec<JobState> =
            JobState::ALL.into_iter().filter(|state| self.0.is_allowed_in(*state)).filter(is_asked).collect();
        let mut narrowed = Filter { states, ..filter.clone() };
        if self.0 == JobAction::Redrive && narrowed.is_redriven.replace(false) == Some(true) {
            return None;
        }
        (!narrowed.states.is_empty()).then_some(narrowed)
    }

    /// The jobs of a filter that it would affect.
    pub(in crate::dashboard) async fn scope_of_all(
        self,
        store: &Store,
        caller: &Caller,
        filter: &Filter,
    ) -> Result<BulkTarget, StoreError> {
        let mut scope = BulkTarget::default();
        let narrowed = self.narrowed(filter).and_then(|filter| own(caller, filter));
        let Some(filter) = narrowed else { return Ok(scope) };
        if is_counted(&filter) {
            for state in &filter.states {
                let one = Filter { states: vec![*state], ..filter.clone() };
                let number = store.count_up_to(caller, &one, limits::COUNTED_MAX).await?.jobs;
                scope.take(*state, number);
            }
        } else {
            let counted = store.count_up_to(caller, &filter, limits::COUNTED_MAX).await?;
            (scope.count, scope.is_more) = (counted.jobs, !counted.is_all);
        }
        if self.0 == JobAction::Redrive {
            let redriven = Filter { is_redriven: Some(true), ..filter };
            let counted = store.count_up_to(caller, &redriven, limits::COUNTED_MAX).await?;
            scope.leave_redriven(counted.jobs, !counted.is_all);
        }
        Ok(scope)
    }

    /// The given jobs that it would affect.
    pub(in crate::dashboard) async fn scope_of(
        self,
        store: &Store,
        caller: &Caller,
        ids: &[JobId],
    ) -> Result<BulkTarget, StoreError> {
        let (mut scope, mut redriven, mut others) = (BulkTarget::default(), 0, 0);
        for id in ids {
            let found = store.get(caller, *id).await?;
            match found.filter(|found| caller.require_manage(&found.job, &found.spec).is_ok()) {
                Some(found) if self.0.is_allowed_in(found.job.state) => {
                    if self.0 == JobAction::Redrive && found.job.details.superseded_by.is_some() {
                        redriven += 1;
                    } else {
                        scope.take(found.job.state, 1);
                        scope.ids.push(*id);
                    }
                }
                _ => others += 1,
            }
        }
        scope.leave_redriven(redriven, false);
        if others > 0 {
            let were = if others == 1 { "is" } else { "are" };
            scope.remarks.push(format!(
                "{} of the selected jobs {were} skipped: not allowed in their current state, or not permitted.",
                count(others)
            ));
        }
        Ok(scope)
    }
}

impl BulkTarget {
    fn take(&mut self, state: JobState, number: u64) {
        self.count += number;
        if number > 0 {
            *self.states.entry(state).or_default() += number;
        }
    }

    fn leave_redriven(&mut self, number: u64, is_more: bool) {
        let remark = match (number, is_more) {
            (0, _) => return,
            (1, false) => "1 was retried already and is skipped.".to_owned(),
            (number, false) => format!("{} were retried already and are skipped.", count(number)),
            (number, true) => {
                format!("More than {} were retried already and are skipped.", count(number))
            }
        };
        self.remarks.push(remark);
    }
}

/// Narrows the filter to jobs that the caller may manage: a submitter's own jobs.
fn own(caller: &Caller, filter: Filter) -> Option<Filter> {
    if !caller.role.manages_own_jobs_only() {
        return Some(filter);
    }
    let is_other = filter.owner.as_ref().is_some_and(|owner| *owner != caller.id);
    (!is_other).then(|| Filter { owner: Some(caller.id.clone()), ..filter })
}

/// Whether counters know the number of matches: the filter uses only queues, types, tenants and states.
fn is_counted(filter: &Filter) -> bool {
    let Filter { tenant, states, job_type, queue, .. } = filter.clone();
    *filter == Filter { tenant, states, job_type, queue, ..Filter::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_is_for_jobs_whose_state_allows_it() {
        let narrowed = |choice: BulkChoice, states: &[JobState]| {
            let filter = Filter { states: states.to_vec(), ..Filter::default() };
            choice.narrowed(&filter).map(|filter| filter.states)
        };
        assert_eq!(narrowed(BulkChoice(JobAction::Cancel), &[JobState::Cancelled]), None);
        assert_eq!(
            narrowed(BulkChoice(JobAction::Cancel), &[JobState::Cancelled, JobState::Running]),
            Some(vec![JobState::Running])
        );
        assert_eq!(narrowed(BulkChoice(JobAction::Delete), &[]), Some(JobState::FINAL.to_vec()));
        assert_eq!(narrowed(BulkChoice(JobAction::Resume), &[]), Some(vec![JobState::Suspended]));
    }

    #[test]
    fn what_was_redriven_is_not_redriven_in_bulk() {
        let filter = Filter::default();
        assert_eq!(BulkChoice(JobAction::Redrive).narrowed(&filter).unwrap().is_redriven, Some(false));
        assert_eq!(BulkChoice(JobAction::Delete).narrowed(&filter).unwrap().is_redriven, None);
        assert_eq!(
            BulkChoice(JobAction::Redrive).narrowed(&Filter { is_redriven: Some(true), ..filter }),
            None
        );
    }
}
