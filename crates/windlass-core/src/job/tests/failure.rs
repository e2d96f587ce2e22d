//! Failure reports: never refused, only cut.

use super::*;
use crate::limits;

/// Model: error-record. A message keeps 4 KiB, cut between characters.
#[test]
fn a_message_is_cut_at_its_limit() {
    let of = |text: String| Failure::temporary(text).message;
    assert_eq!(of("x".repeat(4096)).len(), 4096);
    assert_eq!(of("x".repeat(4097)).len(), 4096);
    // The euro sign has three bytes: 1365 of them are 4095.
    assert_eq!(of("€".repeat(2000)), "€".repeat(1365));
    assert_eq!(of(String::new()), "");
}

/// Model: error-record. A code is cut like a message.
#[test]
fn a_code_is_cut_at_its_limit() {
    let code = |length: usize| Failure::permanent("c".repeat(length), "broken").code.unwrap().len();
    assert_eq!((code(128), code(129)), (limits::ERROR_CODE_CHARS_MAX, limits::ERROR_CODE_CHARS_MAX));
}

/// Model: error-record. Cutting to nothing and cutting nothing both work.
#[test]
fn cutting_never_splits_a_character() {
    for (bytes_max, left) in [(0, ""), (1, "a"), (2, "a"), (3, "aü"), (4, "aüb"), (9, "aüb")] {
        let mut text = "aüb".to_owned();
        cut(&mut text, bytes_max);
        assert_eq!(text, left, "{bytes_max}");
    }
}

/// Model: retry-after. No delay is longer than 100 years.
#[test]
fn a_delay_asked_for_is_capped() {
    let failure = Failure::temporary("busy").with_retry_after(Duration::MAX);
    assert_eq!(failure.retry_after, Some(limits::DURATION_MAX));
}

/// Model: error-categories. Six categories, each with one word.
#[test]
fn each_category_has_one_word() {
    let words = Category::ALL.map(Category::as_str);
    assert_eq!(words, ["temporary", "permanent", "timeout", "cancelled", "system", "resource"]);
    for category in Category::ALL {
        assert_eq!(serde_json::to_value(category).unwrap(), category.as_str());
    }
}

/// A chain of any length is cut to its limits, in a record as in the failure itself.
#[test]
fn of_the_errors_behind_a_failure_the_nearest_are_kept() {
    let long = "€".repeat(limits::ERROR_CAUSE_BYTES_MAX);
    let failure =
        (0..20).fold(Failure::temporary("no"), |failure, n| failure.with_cause(format!("{n} {long}")));
    assert_eq!(failure.cause.len(), limits::ERROR_CAUSES_MAX);
    assert!(failure.cause[0].message.starts_with("0 €") && failure.cause[7].message.starts_with("7 €"));
    assert!(failure.cause.iter().all(|cause| cause.message.len() <= limits::ERROR_CAUSE_BYTES_MAX));
    // The fields are public: what was put there past the constructors is cut in the record.
    let cause = ErrorCause { message: long.clone(), code: Some(long) };
    let failure = Failure { cause: vec![cause; 20], ..Failure::temporary("no") };
    let failed = applied(&running(), &JobEvent::Fail { failure, random: 0.5 }, at(1));
    let kept = &failed.details.error.as_ref().unwrap().cause;
    assert_eq!(kept.len(), limits::ERROR_CAUSES_MAX);
    assert!(kept.iter().all(|cause| cause.message.len() <= limits::ERROR_CAUSE_BYTES_MAX));
    assert!(kept[0].code.as_ref().unwrap().len() <= limits::ERROR_CODE_CHARS_MAX);
}

/// The sources of an error are the causes of the failure that is made with it.
#[test]
fn the_sources_of_an_error_become_causes() {
    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] std::io::Error);
    let failure = Failure::temporary("could not send").with_source(&Outer(std::io::Error::other("inner")));
    let messages: Vec<&str> = failure.cause.iter().map(|cause| cause.message.as_str()).collect();
    assert_eq!(messages, ["outer", "inner"]);
    let coded = Failure::resource("too_large", "no").with_cause(ErrorCause::new("disk").with_code("ENOSPC"));
    assert_eq!(coded.cause[0].code.as_deref(), Some("ENOSPC"));
    assert_eq!(coded.category, Category::Resource);
}

/// Model: error-record. The stored record leaves out what is not there.
#[test]
fn an_error_record_reads_back_from_json() {
    let failed = applied(&running(), &fail(Category::Temporary), at(1));
    let error = failed.details.error.clone().unwrap();
    let json = serde_json::to_value(&error).unwrap();
    assert!(json.get("code").is_none() && json.get("retry_after").is_none() && json.get("cause").is_none());
    assert_eq!(serde_json::from_value::<ErrorRecord>(json).unwrap(), error);
}
