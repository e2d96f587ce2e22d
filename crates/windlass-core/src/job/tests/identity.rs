//! Ids, fences and attempt ids.

use super::*;

/// Model: identity. A UUID of version 4, whatever time and randomness.
#[test]
fn an_id_is_a_uuid_of_version_4() {
    for now in [Timestamp::MIN, start(), Timestamp::MAX] {
        for random in [0, 1, u128::MAX] {
            let id = uuid::Uuid::from_bytes(*JobId::new(now, random).as_bytes());
            assert_eq!((id.get_version_num(), id.get_variant()), (4, uuid::Variant::RFC4122));
        }
    }
}

/// Model: identity. Ids made later sort later, and those made together differ by their randomness.
#[test]
fn ids_are_ordered_by_the_time_they_were_made() {
    assert!(JobId::new(at(0), u128::MAX) < JobId::new(at(1), 0));
    assert_ne!(JobId::new(at(0), 1), JobId::new(at(0), 2));
}

/// Model: identity. An id reads back from its text and its bytes.
#[test]
fn an_id_reads_back() {
    let id = JobId::new(start(), 42);
    assert_eq!(id.to_string().parse::<JobId>().unwrap(), id);
    assert_eq!(JobId::from_bytes(*id.as_bytes()), id);
    assert_eq!(WorkerId::from_bytes(*worker().as_bytes()), worker());
    assert!("no-id".parse::<JobId>().is_err());
}

/// Model: attempt-records. An attempt knows the one before.
#[test]
fn an_attempt_is_named_by_job_and_number() {
    let first = running().attempt_id();
    assert_eq!((first.number, first.previous()), (1, None));
    let second = AttemptId { number: 2, ..first };
    assert_eq!(second.previous(), Some(first));
    assert_eq!(second.to_string(), format!("{}.2", first.job));
}

/// Model: backoff. What is shown as the next run is the end of the backoff, or the submitter's own time.
#[test]
fn the_next_run_is_the_backoff_or_the_own_time() {
    let delayed = with(idle(JobState::Delayed), |job| job.run_at = at(60));
    assert_eq!(delayed.next_run_at(), at(60));
    assert_eq!(applied(&running(), &fail(Category::Temporary), at(1)).next_run_at(), at(2));
}

/// Model: suspend-modes. Side details read back from what is stored, and take no room when there are none.
#[test]
fn details_read_back_from_json() {
    let empty = serde_json::to_string(&RareFields::default()).unwrap();
    assert_eq!(empty, "{}");
    let held = applied(&running(), &suspend(SuspendMode::Aggressive), at(1));
    let json = serde_json::to_vec(&*held.details).unwrap();
    assert_eq!(serde_json::from_slice::<RareFields>(&json).unwrap(), *held.details);
}

/// Model: counters-and-fences, store-generation. Every claim grows the fence by a random amount, a new generation by more than any before.
#[test]
fn a_fence_grows_with_every_claim_and_carries_the_generation() {
    for random in [0, 1, 12_345, u64::MAX] {
        let first = Fence(0).claimed(1, random);
        let second = first.claimed(1, random);
        assert!(fence(0) < first && first < second, "{first:?} {second:?}");
        assert_eq!((first.generation(), second.generation()), (1, 1));
        let restored = second.claimed(2, random);
        assert!(restored > second && restored.generation() == 2);
        // The store's generation never counts for less than the fence's own.
        assert_eq!(restored.claimed(1, random).generation(), 2);
    }
    assert_ne!(Fence(0).claimed(1, 1), Fence(0).claimed(1, 2));
    assert_eq!(Fence(7).generation(), 1, "a fence from before there were generations");
    assert!(Fence(0).claimed(u64::MAX, u64::MAX).0 <= crate::limits::FENCE_MAX);
}

/// Model: counters-and-fences. Hundreds of thousands of claims of one job stay within a generation.
#[test]
fn a_generation_has_room_for_many_claims() {
    let mut last = Fence(0);
    for _ in 0..300_000 {
        let next = last.claimed(1, u64::MAX);
        assert!(next > last);
        last = next;
    }
    assert_eq!(last.generation(), 1);
}
