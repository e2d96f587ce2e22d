//! Names and states as text.

use super::*;
use crate::error::FieldProblem;

/// Model: type-and-queue-names. 1 to 255 characters.
#[test]
fn a_name_has_1_to_255_characters() {
    assert_eq!(JobType::new(""), Err(FieldProblem::Missing));
    assert_eq!(JobType::new("x").unwrap().as_str(), "x");
    assert!(JobType::new(&"x".repeat(255)).is_ok());
    for letter in ["x", "ü"] {
        let problem = QueueName::new(&letter.repeat(256)).unwrap_err();
        assert_eq!(problem, FieldProblem::TooLong { length: 256, limit: 255 });
    }
}

/// Model: type-and-queue-names. Letters, digits, `_ . : -`, starting with a letter.
#[test]
fn a_name_is_made_of_letters_digits_and_four_signs() {
    for name in ["mail.send", "A", "a-b_c:d.9", "Zz"] {
        assert_eq!(Tenant::new(name).unwrap().to_string(), name);
    }
    for text in ["9lives", "_a", ".a", ":a", "-a", "a b", "a/b", "ärger", "a\0", "a\n", " a", "a,b"] {
        assert_eq!(Tenant::new(text), Err(FieldProblem::NotAName(text.into())), "{text:?}");
    }
}

/// Model: type-and-queue-names. The queue is `default` unless named, and so is the tenant.
#[test]
fn queue_and_tenant_have_a_default() {
    assert_eq!((QueueName::default().as_str(), Tenant::default().as_str()), ("default", "default"));
}

/// Model: type-and-queue-names. Reading JSON checks a name like anything else.
#[test]
fn a_name_in_json_is_checked() {
    let name: JobType = serde_json::from_str("\"mail.send\"").unwrap();
    assert_eq!(serde_json::to_string(&name).unwrap(), "\"mail.send\"");
    assert!(serde_json::from_str::<JobType>("\"no name\"").is_err());
}

/// Model: refused-changes. One word per state, the same in text and JSON, and four final ones.
#[test]
fn each_state_has_one_word() {
    for (place, state) in JobState::ALL.into_iter().enumerate() {
        assert_eq!(state as usize, place, "counts are kept by this place");
        assert_eq!(state.as_str().parse(), Ok(state));
        assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
        assert_eq!(state.is_final(), JobState::FINAL.contains(&state));
    }
    assert!(
        matches!("SCHEDULED".parse::<JobState>(), Err(FieldProblem::Unknown { value, .. }) if value == "SCHEDULED")
    );
    assert_eq!(JobState::ALL.iter().filter(|state| state.is_final()).count(), 4);
}

/// Model: refused-changes. An action is called the same in refusals and in JSON.
#[test]
fn each_action_has_one_word() {
    for (action, _, _) in LIFECYCLE {
        assert_eq!(serde_json::to_value(action).unwrap(), action.as_str());
    }
}

/// Words that the API shows.
#[test]
fn needs_and_jitter_have_the_words_of_the_model() {
    assert_eq!([Need::After, Need::AfterAny].map(Need::as_str), ["after", "after_any"]);
    assert_eq!([JitterMode::Random, JitterMode::Hashed].map(JitterMode::as_str), ["random", "hashed"]);
    let id = JobId::from_bytes([7; 16]);
    let all = [NeededBy::Parent(id), NeededBy::Dependent(id), NeededBy::Dependents(id)];
    assert_eq!(all.map(NeededBy::as_str), ["parent", "dependent", "dependents"]);
    assert!(all[0].to_string().ends_with("its parent, has not finished and needs it"), "{}", all[0]);
    assert!(all[2].to_string().contains("delete those first"), "{}", all[2]);
}

/// A policy is stored without what every policy had before.
#[test]
fn only_a_jitter_that_is_not_random_is_stored() {
    let stored =
        |jitter_mode| serde_json::to_value(RetryPolicy { jitter_mode, ..RetryPolicy::standard() }).unwrap();
    assert_eq!(stored(JitterMode::Random).get("jitter_mode"), None);
    assert_eq!(stored(JitterMode::Hashed)["jitter_mode"], "hashed");
}
