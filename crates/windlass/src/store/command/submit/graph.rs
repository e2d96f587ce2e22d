//! The dependency graph of a submission: resolves lanes, names and dependencies, and enforces the depth limit.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::keys::Duplicate;
use super::{Batch, DependencyRef, invalid};
use crate::error::{FieldProblem, SubmitError};
use crate::job::{Dependency, JobId, Lane, Need, NewJob, Seq, depth_of, find_cycle};
use crate::limits;
use crate::ordered::CollectOrdered;
use crate::store::caller::{Caller, Permission};
use crate::store::tx::write_tx::WriteTx;

impl Batch<'_> {
    /// A dependency on a duplicate becomes a dependency on the original job, which may be deeper in the graph.
    pub(super) fn wait_for_originals(
        &mut self,
        duplicates: &HashMap<usize, Duplicate>,
    ) -> Result<(), SubmitError> {
        if duplicates.is_empty() || self.needs.iter().all(Vec::is_empty) {
            return Ok(());
        }
        for (index, needs) in self.needs.iter_mut().enumerate() {
            let originals: BTreeSet<(Need, DependencyRef)> = std::mem::take(needs)
                .into_iter()
                .filter(|_| !duplicates.contains_key(&index))
                .map(|(need, target)| match target {
                    DependencyRef::InBatch(at) => {
                        (need, duplicates.get(&at).map_or(target, |other| other.target))
                    }
                    DependencyRef::Stored(_) => (need, target),
                })
                .collect_ordered();
            *needs = originals.into_iter().collect();
        }
        self.order = order_of(self.jobs, &self.needs)?;
        Ok(())
    }

    /// The depth of each job in the graph.
    pub(super) fn depths(&self, tx: &mut WriteTx<'_>) -> Result<Vec<u32>, SubmitError> {
        let mut depths = vec![1; self.jobs.len()];
        for &index in &self.order {
            if self.needs[index].is_empty() {
                continue;
            }
            let mut found = Vec::with_capacity(self.needs[index].len());
            for (_, target) in &self.needs[index] {
                found.push(match target {
                    DependencyRef::InBatch(other) => depths[*other],
                    DependencyRef::Stored(seq) => tx.job(*seq)?.map_or(0, |job| job.depth),
                });
            }
            depths[index] = depth_of(found);
            if depths[index] > limits::DEPENDENCY_DEPTH_MAX {
                let (value, max) = (depths[index].to_string(), limits::DEPENDENCY_DEPTH_MAX.to_string());
                let field = if self.jobs[index].after.is_empty() { "after_any" } else { "after" };
                return Err(invalid(index, field, FieldProblem::OutOfRange { value, min: "1".into(), max }));
            }
        }
        Ok(depths)
    }
}

/// The lane of each job; jobs of one lane share it.
pub(super) fn lanes(
    tx: &mut WriteTx<'_>,
    caller: &Caller,
    jobs: &[NewJob],
) -> Result<Vec<Arc<Lane>>, SubmitError> {
    let mut lanes: Vec<Arc<Lane>> = Vec::with_capacity(jobs.len());
    for job in jobs {
        let tenant = job.tenant.clone().or_else(|| caller.tenant.clone()).unwrap_or_default();
        if !caller.can_see(&tenant) {
            caller.require(Permission::Administer)?;
        }
        let lane = Lane::new(tenant, job.queue.clone(), job.job_type.clone())
            .requiring(job.requires_version.clone());
        let same = lanes.last().filter(|last| ***last == lane).cloned();
        lanes.push(same.unwrap_or_else(|| tx.intern_lane(lane)));
    }
    Ok(lanes)
}

/// The jobs in topological order: each comes after its dependencies.
pub(super) fn order_of(
    jobs: &[NewJob],
    needs: &[Vec<(Need, DependencyRef)>],
) -> Result<Vec<usize>, SubmitError> {
    let in_batch = |(_, target): &(Need, DependencyRef)| match target {
        DependencyRef::InBatch(index) => Some(*index),
        DependencyRef::Stored(_) => None,
    };
    let within: Vec<Vec<usize>> =
        needs.iter().map(|needs| needs.iter().filter_map(in_batch).collect()).collect();
    find_cycle(&within).map_err(|index| {
        let name = jobs[index].name.clone().unwrap_or_else(|| format!("job {index}"));
        invalid(index, "after", FieldProblem::Cycle(name))
    })
}

/// The index of each job with a local name.
pub(super) fn names(jobs: &[NewJob]) -> Result<HashMap<&str, usize>, SubmitError> {
    let mut names = HashMap::new();
    for (index, job) in jobs.iter().enumerate() {
        if let Some(name) = job.name.as_deref()
            && names.insert(name, index).is_some()
        {
            return Err(invalid(index, "name", FieldProblem::NameTwice(name.to_owned())));
        }
    }
    Ok(names)
}

/// Finds the dependencies of the batch. A job of another tenant is treated as missing.
pub(super) fn resolve(
    tx: &mut WriteTx<'_>,
    jobs: &[NewJob],
    lanes: &[Arc<Lane>],
    names: &HashMap<&str, usize>,
) -> Result<Vec<Vec<(Need, DependencyRef)>>, SubmitError> {
    let wanted: BTreeSet<JobId> = jobs
        .iter()
        .flat_map(|job| job.after.iter().chain(&job.after_any))
        .filter_map(|dependency| match dependency {
            Dependency::Job(id) => Some(*id),
            Dependency::Named(_) => None,
        })
        .collect_ordered();
    let wanted: Vec<JobId> = wanted.into_iter().collect();
    let found: HashMap<JobId, Seq> =
        wanted.iter().copied().zip(tx.find(&wanted)?).filter_map(|(id, seq)| Some((id, seq?))).collect();
    let mut needs = Vec::with_capacity(jobs.len());
    for (index, job) in jobs.iter().enumerate() {
        let mut seen = BTreeSet::new();
        let both = [(Need::After, &job.after), (Need::AfterAny, &job.after_any)];
        for (need, dependencies) in both {
            for (place, dependency) in dependencies.iter().enumerate() {
                let target = match dependency {
                    Dependency::Named(name) => {
                        let at = names.get(name.as_str()).copied();
                        at.filter(|at| lanes[*at].tenant == lanes[index].tenant).map(DependencyRef::InBatch)
                    }
                    Dependency::Job(id) => match found.get(id) {
                        Some(seq)
                            if tx.job(*seq)?.is_some_and(|job| job.lane.tenant == lanes[index].tenant) =>
                        {
                            Some(DependencyRef::Stored(*seq))
                        }
                        _ => None,
                    },
                };
                let target = target.ok_or_else(|| {
                    let field = format!("{}.{place}", need.as_str());
                    let shown = match dependency {
                        Dependency::Job(id) => id.to_string(),
                        Dependency::Named(name) => format!("@{name}"),
                    };
                    invalid(index, field, FieldProblem::NoSuchJob(shown))
                })?;
                seen.insert((need, target));
            }
        }
        needs.push(seen.into_iter().collect());
    }
    Ok(needs)
}
