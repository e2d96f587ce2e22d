//! What can be done to many jobs at once, and to which of them it can be done: what is asked before it happens.

use std::collections::BTreeMap;
use std::str::FromStr;

use windlass::Store;
use windlass::error::StoreError;
use windlass::job::{JobId, State};
use windlass::store::caller::Caller;
use windlass::store::filter::Filter;

use super::format::count;
use super::limits;
use super::page::Trouble;

/// An action on jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    Suspend,
    Resume,
    Cancel,
    Priority,
    Redrive,
    Delete,
}

/// Whom an action would touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Scope {
    pub(super) count: u64,
    /// Whether there may be more than were counted.
    pub(super) is_more: bool,
    /// How many there are in each state, if that is known and they are in several.
    pub(super) states: BTreeMap<State, u64>,
    /// Those that were ticked and can be acted on.
    pub(super) ids: Vec<JobId>,
    /// Whom it leaves alone.
    pub(super) remarks: Vec<String>,
}

impl FromStr for Deed {
    type Err = Trouble;

    fn from_str(word: &str) -> Result<Deed, Trouble> {
        Ok(match word {
            "suspend" => Deed::Suspend,
            "resume" => Deed::Resume,
            "cancel" => Deed::Cancel,
            "priority" => Deed::Priority,
            "redrive" => Deed::Redrive,
            "delete" => Deed::Delete,
            _ => return Err(Trouble::invalid("there is no such action")),
        })
    }
}

impl Deed {
    /// The word for it in forms.
    pub(super) fn word(self) -> &'static str {
        match self {
            Deed::Suspend => "suspend",
            Deed::Resume => "resume",
            Deed::Cancel => "cancel",
            Deed::Priority => "priority",
            Deed::Redrive => "redrive",
            Deed::Delete => "delete",
        }
    }

    pub(super) fn verb(self) -> &'static str {
        match self {
            Deed::Suspend => "Suspend",
            Deed::Resume => "Resume",
            Deed::Cancel => "Cancel",
            Deed::Priority => "Change the priority of",
            Deed::Redrive => "Redrive",
            Deed::Delete => "Delete",
        }
    }

    /// The word for what was done.
    pub(super) fn done(self) -> &'static str {
        match self {
            Deed::Suspend => "suspended",
            Deed::Resume => "resumed",
            Deed::Cancel => "cancelled",
            Deed::Priority => "priority",
            Deed::Redrive => "redriven",
            Deed::Delete => "deleted",
        }
    }

    pub(super) fn is_grave(self) -> bool {
        matches!(self, Deed::Cancel | Deed::Delete)
    }

    /// Whether it can be done to a job in this state.
    fn is_for(self, state: State) -> bool {
        match self {
            Deed::Suspend => !state.is_final() && state != State::Suspended,
            Deed::Resume => state == State::Suspended,
            Deed::Cancel | Deed::Priority => !state.is_final(),
            Deed::Redrive | Deed::Delete => state.is_final(),
        }
    }

    /// The part of a filter that it can be done to; none if there is no such part. One that was redriven is not redriven
    /// again unawares: whoever means to does so on its page.
    pub(super) fn narrowed(self, filter: &Filter) -> Option<Filter> {
        let is_asked = |state: &State| filter.states.is_empty() || filter.states.contains(state);
        let states: Vec<State> =
            State::ALL.into_iter().filter(|state| self.is_for(*state)).filter(is_asked).collect();
        let mut narrowed = Filter { states, ..filter.clone() };
        if self == Deed::Redrive && narrowed.is_redriven.replace(false) == Some(true) {
            return None;
        }
        (!narrowed.states.is_empty()).then_some(narrowed)
    }

    /// The jobs of a filter that it would touch.
    pub(super) async fn scope_of_all(
        self,
        store: &Store,
        caller: &Caller,
        filter: &Filter,
    ) -> Result<Scope, StoreError> {
        let mut scope = Scope::default();
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
        if self == Deed::Redrive {
            let redriven = Filter { is_redriven: Some(true), ..filter };
            let counted = store.count_up_to(caller, &redriven, limits::COUNTED_MAX).await?;
            scope.leave_redriven(counted.jobs, !counted.is_all);
        }
        Ok(scope)
    }

    /// Those of these jobs that it would touch.
    pub(super) async fn scope_of(
        self,
        store: &Store,
        caller: &Caller,
        ids: &[JobId],
    ) -> Result<Scope, StoreError> {
        let (mut scope, mut redriven, mut others) = (Scope::default(), 0, 0);
        for id in ids {
            let found = store.get(caller, *id).await?;
            match found.filter(|found| caller.must_manage(&found.job, &found.spec).is_ok()) {
                Some(found) if self.is_for(found.job.state) => {
                    if self == Deed::Redrive && found.job.details.superseded_by.is_some() {
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
                "{} of those you selected {were} left alone: the state does not allow it, or it is not yours to do.",
                count(others)
            ));
        }
        Ok(scope)
    }
}

impl Scope {
    fn take(&mut self, state: State, number: u64) {
        self.count += number;
        if number > 0 {
            *self.states.entry(state).or_default() += number;
        }
    }

    fn leave_redriven(&mut self, number: u64, is_more: bool) {
        let remark = match (number, is_more) {
            (0, _) => return,
            (1, false) => "1 was redriven already and is left alone.".to_owned(),
            (number, false) => format!("{} were redriven already and are left alone.", count(number)),
            (number, true) => {
                format!("More than {} were redriven already and are left alone.", count(number))
            }
        };
        self.remarks.push(remark);
    }
}

/// The filter over what this caller may act on: a submitter's own jobs.
fn own(caller: &Caller, filter: Filter) -> Option<Filter> {
    if !caller.role.manages_own_jobs_only() {
        return Some(filter);
    }
    let is_other = filter.owner.as_ref().is_some_and(|owner| *owner != caller.id);
    (!is_other).then(|| Filter { owner: Some(caller.id.clone()), ..filter })
}

/// Whether counters know how many fit: it asks for lanes and states alone.
fn is_counted(filter: &Filter) -> bool {
    let Filter { tenant, states, job_type, queue, .. } = filter.clone();
    *filter == Filter { tenant, states, job_type, queue, ..Filter::default() }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use windlass::clock::Timestamp;
    use windlass::job::{Job, JobType, Lane, QueueName, Seq, Tenant};

    use super::super::operate::Allowed;
    use super::*;

    #[test]
    fn an_action_is_for_jobs_whose_state_allows_it() {
        let narrowed = |deed: Deed, states: &[State]| {
            let filter = Filter { states: states.to_vec(), ..Filter::default() };
            deed.narrowed(&filter).map(|filter| filter.states)
        };
        assert_eq!(narrowed(Deed::Cancel, &[State::Cancelled]), None);
        assert_eq!(narrowed(Deed::Cancel, &[State::Cancelled, State::Running]), Some(vec![State::Running]));
        assert_eq!(narrowed(Deed::Delete, &[]), Some(State::FINAL.to_vec()));
        assert_eq!(narrowed(Deed::Resume, &[]), Some(vec![State::Suspended]));
    }

    #[test]
    fn an_action_on_many_is_for_the_states_in_which_a_job_s_page_offers_it() {
        let now = Timestamp::MIN;
        let lane = Lane {
            tenant: Tenant::new("default").unwrap(),
            queue: QueueName::new("default").unwrap(),
            job_type: JobType::new("mail").unwrap(),
        };
        for state in State::ALL {
            let new = Job::new(Seq(1), JobId::new(now, 1), Arc::new(lane.clone()), Arc::default(), now);
            let allowed = Allowed::in_state_of(&Job { state, ..new }, now);
            let offered = [
                (Deed::Suspend, allowed.suspend),
                (Deed::Resume, allowed.resume),
                (Deed::Cancel, allowed.cancel),
                (Deed::Priority, allowed.prioritise),
                (Deed::Redrive, allowed.redrive),
                (Deed::Delete, allowed.delete),
            ];
            for (deed, is_offered) in offered {
                assert_eq!(deed.is_for(state), is_offered, "{deed:?} in {state}");
            }
        }
    }

    #[test]
    fn what_was_redriven_is_not_redriven_in_bulk() {
        let filter = Filter::default();
        assert_eq!(Deed::Redrive.narrowed(&filter).unwrap().is_redriven, Some(false));
        assert_eq!(Deed::Delete.narrowed(&filter).unwrap().is_redriven, None);
        assert_eq!(Deed::Redrive.narrowed(&Filter { is_redriven: Some(true), ..filter }), None);
    }
}
