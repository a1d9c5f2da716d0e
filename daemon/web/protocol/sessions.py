"""Browser sessions: a login form checks the token and sets a signed cookie that expires."""

import hmac
import secrets
import time
from collections.abc import Callable
from hashlib import sha256
from urllib.parse import urlsplit

from pydantic import SecretStr
from starlette.requests import Request

LOGIN_PATH, STATIC_PREFIX = "/login", "/static/"
"""Path of the login page, and path prefix of static files. Neither needs a token."""

COOKIE = "hierogram"
SESSION_SECONDS = 12 * 3600


def is_cross_site(request: Request) -> bool:
    """Check if a page of another origin sent the request, by the headers Sec-Fetch-Site and Origin of browsers."""
    if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return True
    origin = request.headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != request.headers.get("host", "")


class Sessions:
    """Issuer of session cookies and form tokens, signed with a key from the configured token, or with a random key."""

    def __init__(self, token: SecretStr | None, clock: Callable[[], float] = time.time) -> None:
        self._token = token.get_secret_value().encode() if token is not None else None
        self._key = hmac.digest(self._token or secrets.token_bytes(32), b"hierogram pages", "sha256")
        self._clock = clock
        self.required = token is not None
        """True if a token is configured, so that requests must be authenticated."""

    def is_token(self, token: str) -> bool:
        """Check if a text is the configured token. Returns False if no token is configured."""
        return self._token is not None and hmac.compare_digest(token.encode("utf-8", "replace"), self._token)

    def make_cookie(self) -> str:
        """Return the value of a new session cookie."""
        content = f"{secrets.token_urlsafe(16)}.{int(self._clock()) + SESSION_SECONDS}"
        return f"{content}.{self._sign('cookie', content)}"

    def is_valid(self, cookie: str | None) -> bool:
        """Check if the cookie has a valid signature and has not expired."""
        content, _, signature = (cookie or "").rpartition(".")
        if not hmac.compare_digest(signature.encode("utf-8", "replace"), self._sign("cookie", content).encode()):
            return False
        return int(content.rpartition(".")[2]) > self._clock()

    def form_token(self, cookie: str | None, action: str) -> str:
        """Return the CSRF token of a form, bound to its action and the browser's cookie."""
        return self._sign("form", f"{action}\n{cookie or ''}")

    def is_form_valid(self, token: str, cookie: str | None, action: str) -> bool:
        """Check the CSRF token of a form."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.form_token(cookie, action).encode())

    def _sign(self, purpose: str, content: str) -> str:
        return hmac.new(self._key, f"{purpose}\n{content}".encode("utf-8", "replace"), sha256).hexdigest()
