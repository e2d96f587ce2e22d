//! Flash messages: what an action did is in the URL it redirects to, with a signature for this session. A link from another
//! site cannot make a page claim that jobs were deleted.

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::dashboard::requests::form::{Fields, address};

/// The fields of the message and of its signature.
const DONE: &str = "done";
const SIGNATURE: &str = "signature";

fn sign(token: &str, fields: &Fields) -> String {
    let mut hasher = Sha256::new();
    let signed = fields.pairs().filter(|(name, _)| *name != SIGNATURE);
    for text in [token].into_iter().chain(signed.flat_map(|(name, value)| [name, value])) {
        // With its length, so that different lists of texts have different hashes.
        hasher.update(text.len().to_le_bytes());
        hasher.update(text);
    }
    hasher.finalize().iter().take(16).fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

/// Whether the message of these fields was signed with this token.
pub(in crate::dashboard) fn holds(token: &str, fields: &Fields) -> bool {
    let signature = fields.get(SIGNATURE).unwrap_or_default();
    !token.is_empty() && signature.as_bytes().ct_eq(sign(token, fields).as_bytes()).into()
}

/// The URL with a signature; None if it has no message.
pub(in crate::dashboard) fn put(token: &str, location: &str) -> Option<String> {
    let (path, query) = location.split_once('?')?;
    let fields = Fields::parse(query.as_bytes());
    fields.get(DONE)?;
    let signature = sign(token, &fields);
    let pairs = fields.pairs().map(|(name, value)| (name, value.to_owned()));
    Some(address(path, pairs.chain([(SIGNATURE, signature)])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_holds_for_its_address_and_session_alone() {
        let signed = put("token", "/dead?done=redriven&n=3").unwrap();
        let read = |address: &str| Fields::parse(address.split_once('?').unwrap().1.as_bytes());
        assert!(holds("token", &read(&signed)));
        assert!(!holds("another", &read(&signed)));
        assert!(!holds("token", &read(&signed.replace("n=3", "n=30000"))));
        assert!(!holds("token", &read("/dead?done=redriven&n=3")));
        assert!(
            !holds("", &read(&put("", "/dead?done=redriven").unwrap())),
            "there is no action without a session"
        );
        assert_eq!(put("token", "/jobs?state=failed"), None);
    }
}
