"""Signatures of callbacks and pushes, as ``docs/webhooks.md`` describes them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Mapping, Sequence

from .errors import WindlassError

#: How old or how far in the future a call may be, in seconds.
TOLERANCE_SECONDS = 300.0
#: Fewest bytes of a secret: with an empty or short one any client can sign.
SECRET_BYTES_MIN = 16


class InvalidSignature(WindlassError):
    """The call was not signed with the secret, or is too old."""


def verify_webhook(
    body: bytes, headers: Mapping[str, str], secrets: str | Sequence[str], *, now: float | None = None
) -> None:
    """Checks ``webhook-signature`` over id, time and body. Several secrets are for the time of a rotation.

    Raises ``InvalidSignature``, and ``ValueError`` if a secret is none.
    """
    keys = keys_of(secrets)
    found = {name.lower(): value for name, value in headers.items()}
    id, timestamp, signatures = (found.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature"))
    if not id or not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 15):
        raise InvalidSignature("the call is not signed")
    if abs((time.time() if now is None else now) - int(timestamp)) > TOLERANCE_SECONDS:
        raise InvalidSignature("the call is too old, or the clock is wrong")
    _check(_bytes(f"{id}.{timestamp}.") + body, signatures, keys)


def verify_headers(
    body: bytes, headers: Mapping[str, str], secrets: str | Sequence[str], *, now: float | None = None
) -> None:
    """Checks ``webhook-signature`` and ``windlass-signature``, which also covers the other headers, such as
    ``windlass-fence``.

    Raises ``InvalidSignature``, and ``ValueError`` if a secret is none.
    """
    verify_webhook(body, headers, secrets, now=now)
    found = {name.lower(): value for name, value in headers.items()}
    signed = {
        name: value for name, value in found.items()
        if name in ("content-type", "traceparent") or name.startswith(("webhook-", "windlass-"))
    }
    for name in ("webhook-signature", "windlass-signature"):
        signed.pop(name, None)
    lines = [f"{name}:{value}" for name, value in sorted(signed.items())]
    lines.append(base64.b64encode(hashlib.sha256(body).digest()).decode())
    _check(_bytes("\n".join(lines)), found.get("windlass-signature", ""), keys_of(secrets))


def keys_of(secrets: str | Sequence[str]) -> list[bytes]:
    """The keys of secrets: ``whsec_`` and base64.

    Raises ``ValueError`` for one that is not a secret; the text does not show it.
    """
    keys = [_key(secret) for secret in ([secrets] if isinstance(secrets, str) else secrets)]
    if not keys:
        raise ValueError("there is no secret to check signatures with")
    return keys


def _key(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.strip().removeprefix("whsec_"), validate=True)
    except ValueError:
        raise ValueError("a secret for signatures is `whsec_` and base64") from None
    if len(key) < SECRET_BYTES_MIN:
        raise ValueError(f"a secret for signatures has at least {SECRET_BYTES_MIN} bytes; this one has {len(key)}")
    return key


def _bytes(content: str) -> bytes:
    """Header lines as they were on the wire."""
    try:
        return content.encode("latin-1")
    except UnicodeEncodeError:
        raise InvalidSignature("a header has characters that no header can have") from None


def _check(content: bytes, signatures: str, keys: Sequence[bytes]) -> None:
    given = [one[3:].encode("utf-8", "replace") for one in signatures.split() if one.startswith("v1,")]
    for key in keys:
        expected = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest())
        if any(hmac.compare_digest(expected, one) for one in given):
            return
    raise InvalidSignature("the signature is not valid")
