//! Failure reports: never refused, only cut.

use super::*;
use crate::limits;

/// M45: a message keeps 4 KiB, cut between characters.
#[test]
fn a_message_is_cut_at_its_limit() {
    let of = |text: String| Failure::temporary(text).message;
    assert_eq!(of("x".repeat(4096)).len(), 4096);
    assert_eq!(of("x".repeat(4097)).len(), 4096);
    // The euro sign has three bytes: 1365 of them are 4095.
    assert_eq!(of("€".repeat(2000)), "€".repeat(1365));
    assert_eq!(of(String::new()), "");
}

/// M45: a code is cut like a message.
#[test]
fn a_code_is_cut_at_its_limit() {
    let code = |length: usize| Failure::permanent("c".repeat(length), "broken").code.unwrap().len();
    assert_eq!((code(128), code(129)), (limits::ERROR_CODE_CHARS_MAX, limits::ERROR_CODE_CHARS_MAX));
}

/// M45: cutting to nothing and cutting nothing both work.
#[test]
fn cutting_never_splits_a_character() {
    for (bytes_max, left) in [(0, ""), (1, "a"), (2, "a"), (3, "aü"), (4, "aüb"), (9, "aüb")] {
        let mut text = "aüb".to_owned();
        cut(&mut text, bytes_max);
        assert_eq!(text, left, "{bytes_max}");
    }
}

/// M44: no delay is longer than 100 years.
#[test]
fn a_delay_asked_for_is_capped() {
    let failure = Failure::temporary("busy").with_retry_after(Duration::MAX);
    assert_eq!(failure.retry_after, Some(limits::DURATION_MAX));
}

/// M43: five categories, each with one word.
#[test]
fn each_category_has_one_word() {
    let words = Category::ALL.map(Category::as_str);
    assert_eq!(words, ["temporary", "permanent", "timeout", "cancelled", "system"]);
    for category in Category::ALL {
        assert_eq!(serde_json::to_value(category).unwrap(), category.as_str());
    }
}

/// M45: the stored record leaves out what is not there.
#[test]
fn an_error_record_reads_back_from_json() {
    let failed = applied(&running(), &fail(Category::Temporary), at(1));
    let error = failed.details.error.clone().unwrap();
    let json = serde_json::to_value(&error).unwrap();
    assert!(json.get("code").is_none() && json.get("retry_after").is_none());
    assert_eq!(serde_json::from_value::<ErrorRecord>(json).unwrap(), error);
}
