"""Loop that sends events to a webhook and retries failed deliveries.

The store records each delivery before it is sent. If the daemon ends before it records the response, the event is sent
again, so receivers may get an event twice. Requests are signed as in Standard Webhooks, with the headers `webhook-id`,
`webhook-timestamp`, and `webhook-signature`, which is `v1,` and the base64 HMAC-SHA256 of `id.timestamp.body`.

The URL may contain credentials, such as a token in its path, which only the receiver may see. The store contains only
the URL's scheme, host and port and a hash of the URL, and error messages are redacted.
"""

import asyncio
import base64
import hashlib
import hmac
import re
import time
from contextlib import suppress
from importlib.metadata import version
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from hierogram.daemon.configuration import WebhooksSection
from hierogram.daemon.files import printable
from hierogram.daemon.serving.supervision import Heartbeat, StopFlag, StoreLoop, idle
from hierogram.storage.records.operations import Delivery, Webhook

if TYPE_CHECKING:
    import httpx2

_POLL_SECONDS = 1.0
_BEAT_SECONDS = 0.5
_MAX_PAUSE_SECONDS = 3600.0
_MAX_RESPONSE_LENGTH = 500
_PREFIX = "whsec_"
_PORTS = {"http": 80, "https": 443}
_MIN_SECRET_LENGTH = 4
"""Minimum length of a part of a URL that is redacted in messages."""


def signature(secret: str, event_id: str, timestamp: int, body: bytes) -> str:
    """Return the header `webhook-signature`. Secrets that begin with `whsec_` are base64, others UTF-8."""
    key = base64.b64decode(secret.removeprefix(_PREFIX)) if secret.startswith(_PREFIX) else secret.encode()
    signed = f"{event_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def identify_webhook(url: str) -> Webhook:
    """Return the origin of a webhook, and an scrypt hash of the secret URL as its name."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or _PORTS[parts.scheme]
    origin = f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}"
    name = hashlib.scrypt(url.encode(), salt=f"hierogram webhook {origin}".encode(), n=1 << 14, r=8, p=1, dklen=16)
    return Webhook(name.hex(), origin)


def redact_credentials(message: str, url: str) -> str:
    """Replace the secret parts of the URL in a message by `…`, because a response may repeat the request."""
    parts = urlsplit(url)
    secrets = {url, parts.netloc.rpartition("@")[0], parts.username, parts.password, parts.query, parts.fragment}
    secrets |= {f"{parts.path}?{parts.query}", parts.path, *parts.path.split("/"), *re.split("[&=]", parts.query)}
    texts = {text for secret in secrets if secret for text in (secret, unquote(secret))}
    for text in sorted(texts, key=len, reverse=True):
        if len(text) >= _MIN_SECRET_LENGTH:
            message = message.replace(text, "…")
            # A truncated message may end with the beginning of a secret.
            prefix_length = next((size for size in range(len(text) - 1, 2, -1) if message.endswith(text[:size])), 0)
            message = message[: len(message) - prefix_length]
    return message


class WebhookLoop(StoreLoop):
    """Loop that sends events of the configured kinds to the webhook."""

    name = "webhooks"
    sections = frozenset({"webhooks"})

    def run(self, stop: StopFlag, beat: Heartbeat) -> None:
        """Send events until `stop` is set; see `Loop.run`."""
        section = self._configuration().webhooks
        if section.url is None:
            idle(stop, beat)
            return
        asyncio.run(self._run(section, stop, beat))

    async def _run(self, section: WebhooksSection, stop: StopFlag, beat: Heartbeat) -> None:
        sending = asyncio.create_task(self._send_events(section, beat))
        while not (stop.is_set() or sending.done()):
            beat()
            await asyncio.wait([sending], timeout=_BEAT_SECONDS)
        sending.cancel()
        with suppress(asyncio.CancelledError):
            await sending

    async def _send_events(self, section: WebhooksSection, beat: Heartbeat) -> None:
        # Import late, because httpx2 loads slowly and most daemons send no events.
        import httpx2

        assert section.url is not None
        url = section.url.get_secret_value()
        webhook = identify_webhook(url)
        # Do not reuse connections, because attempts are rare and the receiver may have closed idle connections.
        once = httpx2.Limits(max_keepalive_connections=0)
        async with httpx2.AsyncClient(follow_redirects=False, trust_env=False, limits=once) as client:
            while True:
                self._store.queue_deliveries(webhook, section.events)
                beat.progress()
                for delivery in self._store.due_deliveries(webhook, time.time(), _MAX_PAUSE_SECONDS):
                    self._record(section, delivery, *await _send(client, url, section, delivery))
                beat.ok()
                await asyncio.sleep(_POLL_SECONDS)

    def _record(self, section: WebhooksSection, delivery: Delivery, status: int | None, error: str | None) -> None:
        attempt, retry_at = delivery.attempts + 1, None
        if error is not None and attempt < section.attempts:
            retry_at = time.time() + min(section.pause_seconds * 2 ** (attempt - 1), _MAX_PAUSE_SECONDS)
        self._store.record_delivery(delivery, status, error, retry_at)
        if error is None:
            self._log.info("webhook delivered", about=delivery.event_id, status=status)
        elif retry_at is None:
            self._log.error("webhook failed", about=delivery.event_id, error=error, attempts=attempt)
        else:
            self._log.warning("webhook failed, will be retried", about=delivery.event_id, error=error, attempts=attempt)


async def _send(
    client: "httpx2.AsyncClient", url: str, section: WebhooksSection, delivery: Delivery
) -> tuple[int | None, str | None]:
    """Send an event once. Returns the HTTP status or None, and the error or None."""
    import httpx2

    body, now = delivery.body.encode(), int(time.time())
    headers = {
        "content-type": "application/json",
        "user-agent": f"hierogram/{version('hierogram')}",
        # Refuse compression, because the limit for responses must apply to the uncompressed size.
        "accept-encoding": "identity",
        "webhook-id": str(delivery.event_id),
        "webhook-timestamp": str(now),
    }
    if section.secret is not None:
        headers["webhook-signature"] = signature(section.secret.get_secret_value(), str(delivery.event_id), now, body)
    status = None
    try:
        async with (
            # Limit the whole attempt: a receiver that sends its headers byte by byte never exceeds a timeout per read.
            asyncio.timeout(section.timeout_seconds),
            client.stream("POST", url, content=body, headers=headers, timeout=None) as response,
        ):
            if response.is_success:
                return response.status_code, None
            status = response.status_code
            received = b""
            async for piece in response.aiter_raw():
                received += piece
                if len(received) > _MAX_RESPONSE_LENGTH:
                    break
            text = redact_credentials(received.decode(errors="replace"), url)
            # Escape control characters, because Postgres rejects NUL and a log entry must be one line.
            return status, f"answered {status}: {printable(text[:_MAX_RESPONSE_LENGTH])}"
    except TimeoutError:
        return status, f"Timeout: the response was incomplete after {section.timeout_seconds:g} s"
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        return None, printable(redact_credentials(f"{type(error).__name__}: {error}", url)[:_MAX_RESPONSE_LENGTH])
