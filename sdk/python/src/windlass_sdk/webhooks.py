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


class InvalidSignature(WindlassError):
    """The call was not signed with the secret, or is too old."""


def verify_webhook(
    body: bytes, headers: Mapping[str, str], secrets: str | Sequence[str], *, now: float | None = None
) -> None:
    """Checks ``webhook-signature`` over id, time and body. Several secrets are for the time of a rotation.

    Raises ``InvalidSignature``.
    """
    found = {name.lower(): value for name, value in headers.items()}
    id, timestamp, signatures = (found.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature"))
    if not id or not timestamp.isdigit():
        raise InvalidSignature("the call is not signed")
    if abs((time.time() if now is None else now) - int(timestamp)) > TOLERANCE_SECONDS:
        raise InvalidSignature("the call is too old, or the clock is wrong")
    _check(f"{id}.{timestamp}.".encode() + body, signatures, secrets)


def verify_headers(
    body: bytes, headers: Mapping[str, str], secrets: str | Sequence[str], *, now: float | None = None
) -> None:
    """Checks ``webhook-signature`` and ``windlass-signature``, which also covers the other headers, such as
    ``windlass-fence``.

    Raises ``InvalidSignature``.
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
    _check("\n".join(lines).encode("latin-1"), found.get("windlass-signature", ""), secrets)


def _check(content: bytes, signatures: str, secrets: str | Sequence[str]) -> None:
    given = [one[3:] for one in signatures.split() if one.startswith("v1,")]
    for secret in [secrets] if isinstance(secrets, str) else secrets:
        key = base64.b64decode(secret.removeprefix("whsec_"))
        expected = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
        if any(hmac.compare_digest(expected, one) for one in given):
            return
    raise InvalidSignature("the signature is not valid")
