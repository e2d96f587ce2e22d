//! Signal names.

use rustix::process::Signal;

/// Signals that kill or notify a program.
const NAMES: [(Signal, &str); 18] = [
    (Signal::TERM, "TERM"),
    (Signal::INT, "INT"),
    (Signal::HUP, "HUP"),
    (Signal::QUIT, "QUIT"),
    (Signal::USR1, "USR1"),
    (Signal::USR2, "USR2"),
    (Signal::KILL, "KILL"),
    (Signal::SEGV, "SEGV"),
    (Signal::ABORT, "ABRT"),
    (Signal::BUS, "BUS"),
    (Signal::ILL, "ILL"),
    (Signal::FPE, "FPE"),
    (Signal::PIPE, "PIPE"),
    (Signal::ALARM, "ALRM"),
    (Signal::TRAP, "TRAP"),
    (Signal::SYS, "SYS"),
    (Signal::XCPU, "XCPU"),
    (Signal::XFSZ, "XFSZ"),
];

/// The first of them ask a program to stop.
const ASKING: usize = 6;

/// A signal's name without its `SIG`.
pub(super) fn name_of(number: i32) -> Option<&'static str> {
    NAMES.iter().find(|(signal, _)| signal.as_raw() == number).map(|(_, name)| *name)
}

/// Parses the name of a signal that asks a program to stop, with or without `SIG`.
pub fn parse(text: &str) -> Result<Signal, String> {
    let upper = text.to_ascii_uppercase();
    let wanted = upper.strip_prefix("SIG").unwrap_or(&upper);
    let asking = &NAMES[..ASKING];
    let found = asking.iter().find(|(_, name)| *name == wanted).map(|(signal, _)| *signal);
    found.ok_or_else(|| {
        let names: Vec<&str> = asking.iter().map(|(_, name)| *name).collect();
        format!("is not one of {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_known_by_their_names() {
        assert_eq!((name_of(9), name_of(15), name_of(99)), (Some("KILL"), Some("TERM"), None));
        assert_eq!(parse("usr1"), Ok(Signal::USR1));
        assert_eq!(parse("SIGTERM"), Ok(Signal::TERM));
        for wrong in ["KILL", "SEGV", "", "15"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
