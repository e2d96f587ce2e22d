//! Tests of secrets as text.

use super::*;

fn secret() -> KeySecret {
    KeySecret::new(0x0123_4567_89ab_cdef, [7, 9])
}

#[test]
fn a_secret_reads_back_as_itself() {
    let made = secret();
    assert!(made.reveal().starts_with("wl_0123456789abcdef_"), "{}", made.reveal());
    assert_eq!(KeySecret::parse(made.reveal()), Some(made.clone()));
    assert_eq!(made.id().as_str(), "0123456789abcdef");
    assert!(made.hash().matches(&made));
    assert!(!made.hash().matches(&KeySecret::new(0x0123_4567_89ab_cdef, [7, 8])));
}

#[test]
fn a_secret_with_any_character_changed_is_none() {
    let made = secret();
    for place in 0..made.reveal().len() {
        for other in ["0", "1", "f", "g", "A", "_"] {
            let mut text = made.reveal().to_owned();
            text.replace_range(place..=place, other);
            assert!(text == made.reveal() || KeySecret::parse(&text).is_none(), "{text}");
        }
    }
}

#[test]
fn what_is_cut_or_longer_or_foreign_is_no_secret() {
    let made = secret();
    for length in 0..made.reveal().len() {
        assert_eq!(KeySecret::parse(&made.reveal()[..length]), None);
    }
    for text in [format!("{}0", made.reveal()), format!(" {}", made.reveal()), "wl_ä".into(), "wl__".into()]
    {
        assert_eq!(KeySecret::parse(&text), None, "{text}");
    }
}

#[test]
fn a_secret_is_never_shown_by_accident() {
    let made = secret();
    assert_eq!(format!("{made:?}"), "KeySecret(0123456789abcdef)");
    assert!(!format!("{:?}", made.hash()).contains(&made.reveal()[20..]));
}

#[test]
fn an_id_is_sixteen_hexadecimal_digits() {
    assert!("0123456789abcdef".parse::<KeyId>().is_ok());
    for text in ["", "0123456789abcde", "0123456789ABCDEF", "0123456789abcdef0", "0123456789abcdeg"] {
        assert!(text.parse::<KeyId>().is_err(), "{text}");
    }
}
