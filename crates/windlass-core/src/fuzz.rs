//! Fuzzing of everything that is read from text or bytes here: it never panics, never takes long, is read as it was written,
//! and what it means is compared with another implementation where there is one.

mod addresses;
mod cron;
mod records;
mod schemas;
mod secrets;

/// Longest message of a refusal: it may repeat part of the value, but not all of it.
const MESSAGE_CHARS_MAX: usize = 1_000;

/// A refusal says something, and is short whatever was refused.
fn refused(problem: &impl std::fmt::Display) -> Result<(), String> {
    let message = problem.to_string();
    match message.chars().count() {
        0 => Err("the refusal says nothing".to_owned()),
        1..=MESSAGE_CHARS_MAX => Ok(()),
        length => Err(format!(
            "the refusal has {length} characters: {}",
            message.chars().take(200).collect::<String>()
        )),
    }
}

/// `Ok` if the two are equal.
#[allow(clippy::needless_pass_by_value, reason = "what is compared is mostly made for it")]
fn same<T: PartialEq + std::fmt::Debug>(what: &str, left: T, right: T) -> Result<(), String> {
    if left == right { Ok(()) } else { Err(format!("{what}: {left:?} is not {right:?}")) }
}
