"""The loop that sends events to a webhook: each until it is taken, or was tried often enough.

What is to be sent is noted in the store before it is sent, so an event is sent again where the daemon ended before the
answer was noted: at least once. Requests are signed as Standard Webhooks has it: `webhook-id`, `webhook-timestamp`, and
`webhook-signature`, `v1,` and the HMAC-SHA256 of `id.timestamp.body` in base64.
"""

import asyncio
import base64
import hashlib
import hmac
import time
from collections.abc import Callable, Coroutine
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeVar

from hierogram.daemon.serving.logs import Log
from hierogram.daemon.serving.supervision import Heartbeat, Loop, StopFlag
from hierogram.storage.records.operations import Delivery
from hierogram.storage.store import Store

if TYPE_CHECKING:
    import httpx2

    from hierogram.daemon.configuration import Configuration, WebhooksSection

_LOOK_SECONDS = 1.0
_BEAT_SECONDS = 0.5
_LONGEST_PAUSE = 3600.0
_MOST_SAID = 500
_PREFIX = "whsec_"


def signature(secret: str, event_id: str, timestamp: int, body: bytes) -> str:
    """Return the value of `webhook-signature`; a secret `whsec_…` is base64, others are taken letter by letter."""
    key = secret.encode()
    if secret.startswith(_PREFIX):
        key = base64.b64decode(secret.removeprefix(_PREFIX))
    signed = f"{event_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


class WebhookLoop(Loop):
    """Sends the events that the configuration names, in a thread of its own: nothing else waits for it."""

    name = "webhooks"
    sections: frozenset[str] = frozenset({"webhooks"})

    def __init__(self, store: Store, configuration: "Callable[[], Configuration]", log: Log) -> None:
        self._store = store
        self._configuration = configuration
        self._log = log.bind(loop=self.name)

    def run(self, stop: StopFlag, beat: Heartbeat) -> None:
        """See `Loop.run`."""
        section = self._configuration().webhooks
        if section.url is None:
            while not stop.is_set():
                beat.well()
                stop.wait(_LOOK_SECONDS)
            return
        with asyncio.Runner() as runner:
            runner.run(self._run(section, stop, beat))

    async def _run(self, section: "WebhooksSection", stop: StopFlag, beat: Heartbeat) -> None:
        # Here, because it takes a while to load, and most daemons send nothing.
        import httpx2

        assert section.url is not None
        # Attempts are seldom: what a receiver did to the connection of the last one must not concern the next.
        once = httpx2.Limits(max_keepalive_connections=0)
        async with httpx2.AsyncClient(follow_redirects=False, trust_env=False, limits=once) as client:
            while not stop.is_set():
                self._store.queue_deliveries(section.url, section.events)
                for delivery in self._store.due_deliveries(section.url, time.time()):
                    answered = await _beating(send(client, section, delivery), stop, beat)
                    if answered is None:
                        return
                    self._note(section, delivery, *answered)
                beat.well()
                await asyncio.sleep(_LOOK_SECONDS)

    def _note(self, section: "WebhooksSection", delivery: Delivery, status: int | None, error: str | None) -> None:
        attempt = delivery.attempts + 1
        again = None
        if error is not None and attempt < section.attempts:
            again = time.time() + min(section.pause_seconds * 2 ** (attempt - 1), _LONGEST_PAUSE)
        self._store.note_delivery(delivery, status, error, again)
        if error is None:
            self._log.info("webhook told", about=delivery.event_id, status=status)
        elif again is None:
            self._log.error("webhook not told", about=delivery.event_id, error=error, attempts=attempt)
        else:
            self._log.warning("webhook not told, tried again", about=delivery.event_id, error=error, attempts=attempt)


_Found = TypeVar("_Found")


async def _beating(work: Coroutine[Any, Any, _Found], stop: StopFlag, beat: Heartbeat) -> _Found | None:
    """Return what the work returns, while the heart beats on; None where the loop shall end before it is done."""
    task = asyncio.create_task(work)
    while not stop.is_set():
        beat()
        if (await asyncio.wait([task], timeout=_BEAT_SECONDS))[0]:
            return task.result()
    task.cancel()
    await asyncio.wait([task])
    return None


async def send(
    client: "httpx2.AsyncClient", section: "WebhooksSection", delivery: Delivery
) -> tuple[int | None, str | None]:
    """Try once; return the status of the answer, if there is one, and what went wrong; in the section's time in all.

    That is one deadline for all of it, from looking up the name to the last byte that is read: a receiver that sends
    its head a byte at a time is always about to go on.
    """
    import httpx2

    assert section.url is not None
    body, now = delivery.body.encode(), int(time.time())
    headers = {
        "content-type": "application/json",
        "user-agent": f"hierogram/{version('hierogram')}",
        # What is read of the answer is bounded, and must not be much more when it is unpacked.
        "accept-encoding": "identity",
        "webhook-id": str(delivery.event_id),
        "webhook-timestamp": str(now),
    }
    if section.secret is not None:
        headers["webhook-signature"] = signature(section.secret.get_secret_value(), str(delivery.event_id), now, body)
    answered = None
    try:
        async with (
            asyncio.timeout(section.timeout_seconds),
            client.stream("POST", section.url, content=body, headers=headers, timeout=None) as answer,
        ):
            if answer.is_success:
                return answer.status_code, None
            answered = answer.status_code
            said = b""
            async for piece in answer.aiter_raw():
                said += piece
                if len(said) > _MOST_SAID:
                    break
            return answered, f"answered {answered}: {_plain(said[:_MOST_SAID].decode(errors='replace'))}"
    except TimeoutError:
        return answered, f"Timeout: the answer was not complete after {section.timeout_seconds:g} s"
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        return None, _plain(f"{type(error).__name__}: {error}"[:_MOST_SAID])


def _plain(said: str) -> str:
    """Return what a receiver said, as it can be noted: Postgres takes no NUL, and a log no line ends."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in said)
