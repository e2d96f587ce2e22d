//! One call of a step, a sleep, a wait or a child group, from its start until it ends or is dropped.

use std::sync::Arc;

use super::branch::Branch;
use super::history::{DroppedCall, Places, Record, millis};
use super::quiet::{Kind, WaitAnswer};
use super::reopen::ReturnedError;
use super::step_order::{OpenRecord, Order, State};
use crate::clock::Stopwatch;
use crate::handler::Snooze;
use crate::job::{Failure, Origin};

pub(super) struct Call<'a> {
    order: &'a Order,
    name: String,
    branch: Branch,
    key: String,
    /// When the call was made, as a tick of the order.
    made: u64,
    watch: Stopwatch,
    status: Status,
    /// Number of overlaps when the call was made; `u32::MAX` if it has no order.
    began: u32,
    /// Made by a spawned task, not by the handler itself.
    is_of_a_task: bool,
    /// Waiting for its turn; its value has not been given to the handler.
    is_early: bool,
    has_ended: bool,
}

/// What earlier attempts saved for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// Nothing: it takes this place. `from` is its first place if it was reopened.
    Fresh { place: u32, from: Option<u32> },
    /// Its result, with these places.
    Saved(Places),
    /// The handler dropped it.
    LeftOut,
}

impl<'a> Call<'a> {
    pub(super) fn new(order: &'a Order, name: &str) -> Call<'a> {
        let branch = Branch::current();
        let is_of_a_task = !order.is_polled_here();
        let mut state = order.lock();
        state.has_tasks |= is_of_a_task;
        for error in state.errors.iter_mut().filter(|error| error.was_kept.is_none()) {
            error.was_kept = Some(error.token.strong_count() > 0);
        }
        let (key, status) = state.next_of(name, &branch);
        let made = state.next_tick();
        state.last_made = made;
        let mut is_alone = false;
        // A call inside a step does not run beside that step, and is made only if the step runs again.
        if !branch.is_nested() {
            state.overlaps += u32::from(state.active > 0);
            state.active += 1;
            is_alone = state.active == 1 && !branch.is_side() && !state.is_stopping;
        }
        let began = if is_alone { state.overlaps } else { u32::MAX };
        drop(state);
        order.changed.notify_one();
        Call {
            order,
            name: name.to_owned(),
            branch,
            key,
            made,
            watch: Stopwatch::start(),
            status,
            began,
            is_of_a_task,
            is_early: false,
            has_ended: false,
        }
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }

    pub(super) fn made(&self) -> u64 {
        self.made
    }

    /// Whether earlier attempts have saved a result.
    pub(super) fn is_saved(&self) -> bool {
        matches!(self.status, Status::Saved(_))
    }

    /// Waits until the call may continue. If the handler dropped it in an earlier attempt, the call that the handler
    /// preferred goes first again. If `is_strict`, the call waits for its turn.
    ///
    /// # Errors
    /// If the code was changed: calls that were saved before this one are not made any more.
    pub(super) async fn may_continue(&mut self, is_strict: bool) -> Result<(), Failure> {
        while self.status == Status::LeftOut {
            let dropped = self.order.lock().known.left_out.get(&self.key).cloned().unwrap_or_default();
            self.order.wait(Kind::LeftOut(dropped.ran), |_| false).await;
            // No other call can continue, so this is not the dropped call but the next one of its name.
            let mut state = self.order.lock();
            (self.key, self.status) = state.next_of(&self.name, &self.branch);
            if let (Status::Fresh { from, .. }, Some(first)) = (&mut self.status, dropped.places.first()) {
                // It runs after all, so later calls may differ from those saved.
                *from = Some(first);
                state.known.require_nothing_after(first);
                state.wake_turns();
            }
        }
        if self.is_saved() && !self.is_of_a_task {
            // As in its first run, it is not ready at once: other futures awaited beside it make their calls first, so
            // it is known what the handler then drops.
            self.is_early = true;
            tokio::task::yield_now().await;
            self.is_early = false;
        }
        if !is_strict || self.branch.is_nested() {
            return Ok(());
        }
        let (kind, before) = match self.status {
            // A saved result of a task is returned at once, because the order of tasks is not known.
            Status::Saved(_) if self.is_of_a_task => return Ok(()),
            Status::Saved(places) => (Kind::Replay, places.at.unwrap_or(0)),
            Status::Fresh { .. } | Status::LeftOut => (Kind::Turn, u32::MAX),
        };
        self.is_early = true;
        let answer = self.order.wait(kind, |state| state.is_turn(before)).await;
        self.is_early = false;
        match answer {
            WaitAnswer::Changed => Err(self.refusal()),
            _ => Ok(()),
        }
    }

    fn refusal(&self) -> Failure {
        let missing = self
            .order
            .first_missing()
            .map_or_else(|| "another call".to_owned(), |(place, key)| format!("`{key}` as call {place}"));
        let message = format!(
            "the code was changed: `{}` is called where an earlier attempt saved {missing}; let jobs that started \
             before finish first, or use `lenient_steps`",
            self.key
        );
        Failure::permanent("steps_changed", message)
    }

    /// Marks the step as working.
    pub(super) fn begin(&self) {
        let mut state = self.order.lock();
        state.working.insert(self.key.clone());
        state.has_progress = true;
    }

    /// Records that this part of the call is saved and the call continues.
    pub(super) fn save_part(&self, record: Record<'_>) {
        let (from, to) = (record.from.or(record.at), record.from.and(record.at).or(record.to));
        if record.at.is_some()
            && let Ok(record) = serde_json::to_vec(&Record { at: None, from, to, ..record })
        {
            self.order.lock().placed.insert(self.key.clone(), record);
        }
    }

    /// An empty record with the call's place; without a required place if it ran beside another call.
    pub(super) fn record(&self) -> Record<'static> {
        let was_alone = self.began == self.order.lock().overlaps;
        let (at, from, to) = match self.status {
            _ if self.branch.is_nested() => (None, None, None),
            Status::Fresh { place, from } if was_alone => (Some(place), from, None),
            Status::Fresh { place, from } => (None, from.or(Some(place)), from.and(Some(place))),
            Status::Saved(places) => (places.at, places.from, None),
            Status::LeftOut => (None, None, None),
        };
        Record { at, from, to, ..Record::default() }
    }

    /// Ends the call with its saved result.
    pub(super) fn keep(&mut self) {
        self.has_ended = true;
    }

    /// Ends the call with an error that is not saved yet. If the attempt was asked to stop, the error is not the step's
    /// own, and the call runs again.
    pub(super) fn fail(
        &mut self,
        failure: Failure,
        error: Option<&anyhow::Error>,
        snooze: Option<Snooze>,
    ) -> Failure {
        let snooze_ms = snooze.map(|Snooze(duration)| millis(duration));
        let record = Record { failure: Some(failure.clone()), snooze_ms, ..self.record() };
        let places = Places::from_record(&record);
        self.has_ended = true;
        let mut state = self.order.lock();
        let ended = state.next_tick();
        if let Some(error) = error {
            state.reopen_within(&self.key, self.made, error, &failure.message);
        }
        if !state.is_stopping {
            state.undecided.insert(self.key.clone(), OpenRecord { record, ended });
        }
        drop(state);
        self.returns(failure, places, snooze)
    }

    /// Ends the call with a temporary error that an earlier attempt saved.
    pub(super) fn fail_again(
        &mut self,
        failure: Failure,
        record: &Record<'_>,
        snooze: Option<Snooze>,
    ) -> Failure {
        self.has_ended = true;
        self.returns(failure, Places::from_record(record), snooze)
    }

    fn returns(&self, failure: Failure, places: Places, snooze: Option<Snooze>) -> Failure {
        let (origin, token) = Origin::new();
        let mut state = self.order.lock();
        let returned = ReturnedError {
            key: self.key.clone(),
            places,
            message: failure.message.clone(),
            was_shown: token.was_shown(),
            token: Arc::downgrade(&token),
            snooze,
            was_kept: None,
            is_to_be_retried: false,
            ended: state.next_tick(),
        };
        state.errors.push(returned);
        Failure { origin, ..failure }
    }

    /// Whether the saved record only says that the call started. If the handler drops such a call, it takes another
    /// branch.
    fn is_under_way(&self) -> bool {
        self.name.starts_with("sleep:") || self.name.starts_with("children:")
    }

    /// The record to save if the call is dropped now and the handler continues; `None` if nothing changes.
    fn left_out(&self, state: &State) -> Option<Record<'static>> {
        let places = match self.status {
            _ if self.has_ended || state.is_stopping => return None,
            Status::LeftOut => return None,
            // Its value was not given to the handler, and stays saved.
            Status::Saved(_) if self.is_early && !self.is_under_way() => return None,
            _ if self.branch.is_nested() => Places::default(),
            Status::Saved(places) => places,
            Status::Fresh { place, from } => Places { at: None, from: from.or(Some(place)) },
        };
        let by = state.errors.last().filter(|error| error.ended > state.last_made);
        Some(Record {
            left_out: true,
            from: places.first(),
            ran_ms: Some(millis(self.watch.elapsed())),
            dropped_by: by.map(|error| error.key.clone()),
            ..Record::default()
        })
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let mut state = self.order.lock();
        state.working.remove(&self.key);
        state.active -= u32::from(!self.branch.is_nested());
        state.placed.remove(&self.key);
        let ended = state.next_tick();
        if let Some(record) = self.left_out(&state) {
            state.dropped.insert(self.key.clone(), DroppedCall::from_record(&record));
            state.undecided.insert(self.key.clone(), OpenRecord { record, ended });
        }
        drop(state);
        self.order.changed.notify_one();
    }
}
