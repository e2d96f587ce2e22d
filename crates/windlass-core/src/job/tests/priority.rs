//! Priorities as numbers and names.

use super::*;
use crate::error::FieldProblem;

fn out_of_range(value: &str) -> FieldProblem {
    FieldProblem::OutOfRange { value: value.into(), min: "0".into(), max: "100".into() }
}

/// Model: priority-values. An integer from 0 to 100.
#[test]
fn a_priority_is_a_number_from_0_to_100() {
    for value in [0, 1, 50, 99, 100] {
        assert_eq!(i64::from(Priority::new(value).unwrap().value()), value);
        assert_eq!(value.to_string().parse(), Priority::new(value));
    }
    for value in [-1, 101, 256, 300, i64::MIN, i64::MAX] {
        assert_eq!(Priority::new(value), Err(out_of_range(&value.to_string())));
        assert_eq!(value.to_string().parse::<Priority>(), Err(out_of_range(&value.to_string())));
    }
}

/// Model: priority-values. Five names, in any letter case, 50 by default.
#[test]
fn a_priority_has_five_names() {
    for (name, value) in [("critical", 100), ("high", 80), ("normal", 50), ("low", 10), ("bulk", 0)] {
        assert_eq!(name.parse::<Priority>().unwrap().value(), value, "{name}");
        let shouted = name.to_uppercase();
        assert_eq!(shouted.parse::<Priority>().unwrap().value(), value, "{shouted}");
    }
    assert_eq!(Priority::default().value(), 50);
    for text in ["", "urgent", "highest", "1.5", " 1", "99999999999999999999"] {
        assert!(
            matches!(text.parse::<Priority>(), Err(FieldProblem::Unknown { value, .. }) if value == text)
        );
    }
}

/// Model: priority-values. Reading JSON checks the range.
#[test]
fn a_priority_in_json_is_checked() {
    assert_eq!(serde_json::from_str::<Priority>("80").unwrap(), Priority::HIGH);
    assert_eq!(serde_json::to_string(&Priority::LOW).unwrap(), "10");
    assert!(serde_json::from_str::<Priority>("101").is_err());
}

/// Model: claim-order. Higher goes first.
#[test]
fn priorities_are_ordered_by_urgency() {
    let named = [Priority::BULK, Priority::LOW, Priority::NORMAL, Priority::HIGH, Priority::CRITICAL];
    assert!(named.is_sorted());
}
