"""Have a browser show the token: once, in a form; then with a cookie that is signed, and that ends."""

import hmac
import secrets
import time
from collections.abc import Callable
from hashlib import sha256
from urllib.parse import urlsplit

from pydantic import SecretStr
from starlette.requests import Request

ENTER, FILES = "/enter", "/static/"
"""The page on which the token is shown, and where the files that pages load are: both need none."""

COOKIE = "hierogram"
LASTS_SECONDS = 12 * 3600
"""Life of a cookie."""


def from_elsewhere(request: Request) -> bool:
    """Return whether another site's page has the browser ask; browsers say so themselves, other programs need not."""
    if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return True
    origin = request.headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != request.headers.get("host", "")


class Sessions:
    """Makes cookies and the tokens of forms, and tells its own from others.

    What is signed does not change while the token stays the same, so that a restart ends no session.
    """

    def __init__(self, token: SecretStr | None, clock: Callable[[], float] = time.time) -> None:
        self._token = token.get_secret_value().encode() if token is not None else None
        self._key = hmac.digest(self._token or secrets.token_bytes(32), b"hierogram pages", "sha256")
        self._clock = clock

    @property
    def needed(self) -> bool:
        """Return whether there is a token to be shown."""
        return self._token is not None

    def right(self, token: str) -> bool:
        """Return whether this is the token."""
        return self._token is not None and hmac.compare_digest(token.encode("utf-8", "replace"), self._token)

    def begin(self) -> str:
        """Return a cookie's value, for somebody who has shown the token."""
        content = f"{secrets.token_urlsafe(16)}.{int(self._clock()) + LASTS_SECONDS}"
        return f"{content}.{self._sign('cookie', content)}"

    def good(self, cookie: str | None) -> bool:
        """Return whether the cookie is one of ours, and not over."""
        content, _, signature = (cookie or "").rpartition(".")
        if not hmac.compare_digest(signature.encode("utf-8", "replace"), self._sign("cookie", content).encode()):
            return False
        return int(content.rpartition(".")[2]) > self._clock()

    def form_token(self, cookie: str | None, action: str) -> str:
        """Return the token that a form for this action has to send along, made for this browser."""
        return self._sign("form", f"{action}\n{cookie or ''}")

    def form_is_ours(self, shown: str, cookie: str | None, action: str) -> bool:
        """Return whether a form sends along what it was given."""
        return hmac.compare_digest(shown.encode("utf-8", "replace"), self.form_token(cookie, action).encode())

    def _sign(self, purpose: str, content: str) -> str:
        return hmac.new(self._key, f"{purpose}\n{content}".encode("utf-8", "replace"), sha256).hexdigest()
