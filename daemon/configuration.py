"""The daemon's configuration: one TOML file. Environment variables can override each key.

The key `poll_seconds` of the section `[spool]` is `HIEROGRAM_SPOOL__POLL_SECONDS` in the environment. Unknown keys and
values of the wrong type are errors that name the key.
"""

import json
import os
import re
import tomllib
from functools import cache
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeVar
from urllib.parse import urlsplit

import pydantic
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.exports.options import DEFAULT_ZONE, ExportJob, read_zone
from hierogram.daemon.extensions import extensions
from hierogram.daemon.shared_options import CORPUS, HOST, PORT, SPOOL, Languages, ProcessThreads
from hierogram.daemon.text.lines import InputLimits
from hierogram.daemon.workers.options import WorkerOptions
from hierogram.storage.exceptions import install_extra
from hierogram.storage.options import DEFAULT_STORE
from hierogram.storage.records.operations import EVENT_KINDS, EXPORT_DONE, EXPORT_FAILED

ENVIRONMENT_PREFIX = "HIEROGRAM_"

_MIN_TOKEN_LENGTH = 16

Seconds = Annotated[float, Field(gt=0, le=1e6)]
Positive = Annotated[int, Field(gt=0)]


class Section(BaseModel):
    """Section of the configuration file. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


AnySection = TypeVar("AnySection")


class DaemonSection(Section):
    """Supervision of the loops, and shutdown."""

    grace_seconds: Seconds = 30.0
    """Seconds after SIGTERM in which loops must finish, before the process exits."""
    stall_seconds: ClassVar[float] = 900.0
    """Maximum seconds between heartbeats of a loop. A longer silence ends the daemon with an error."""
    pause_seconds: ClassVar[float] = 1.0
    """Seconds before a failed loop is restarted, doubled with each consecutive failure up to a maximum."""
    max_pause_seconds: ClassVar[float] = 30.0
    max_failures: ClassVar[int] = 8
    """Consecutive failures that end the daemon, unless the store or the spool folder is unavailable."""


class LogSection(Section):
    """Logging to standard error."""

    format: Annotated[str, Field(pattern="^(auto|json|human)$")] = "auto"
    """Log format. `auto` is `human` on a terminal, otherwise `json`."""
    level: Annotated[str, Field(pattern="^(debug|info|warning|error)$")] = "info"
    """Lowest level to log."""


class SpoolSection(Section):
    """Spool folder."""

    folder: Annotated[Path | None, SPOOL] = None
    corpus: Annotated[str, CORPUS] = Field(default="default", min_length=1)
    poll_seconds: Seconds = 1.0
    """Seconds between scans of the folder."""
    languages: Languages = None
    unaligned_after: Seconds | None = None
    """Seconds without changes after which `.source` and `.target` are ingested without `.alignment`."""


class SamplingSection(Section):
    """Sampling of new and settled pairs."""

    threads: ProcessThreads = None
    pairs_at_once: Annotated[int, Field(ge=1)] = 10_000
    """Maximum number of pairs sampled together in memory; other pairs wait. Not used by trees and ITGs."""
    commit_seconds: Seconds = 5.0
    """Seconds of sampling between commits. A commit waits for the end of the sweep."""
    new_share: Annotated[float, Field(gt=0, le=1)] = 0.9
    """Share of sampling time for new pairs while new pairs wait; the rest is for settled pairs."""
    idle_share: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Share of time for sampling settled pairs while no new pairs wait."""
    likelihood_seconds: ClassVar[float] = 60.0
    """Seconds between computations of the log-likelihood, which are slow for large grammars."""


def _check_length(name: str, secret: SecretStr | None) -> None:
    if secret is not None and len(secret.get_secret_value()) < _MIN_TOKEN_LENGTH:
        raise ValueError(f"{name}: must have at least {_MIN_TOKEN_LENGTH} characters")


def _is_http_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return bool(re.fullmatch(r"https?://\S+", text) and parts.hostname) and parts.port != 0
    except ValueError:
        return False


class WebhooksSection(Section):
    """Webhooks for exports and other events."""

    url: SecretStr | None = None
    """URL that receives events by POST. Its credentials are not stored, logged or shown."""
    secret: SecretStr | None = None
    """Secret of at least 16 characters that signs the requests."""
    events: tuple[str, ...] = (EXPORT_DONE, EXPORT_FAILED)
    """Kinds of [events](events.md#kinds-of-events) to send."""
    timeout_seconds: Seconds = 10.0
    """Maximum duration of an attempt, in seconds."""
    attempts: Annotated[int, Field(ge=1, le=100)] = 8
    """Attempts before a delivery counts as failed."""
    pause_seconds: ClassVar[float] = 2.0
    """Seconds before the second attempt. The pause doubles with each further attempt, up to an hour."""

    @pydantic.model_validator(mode="after")
    def _check_values(self) -> Self:
        if self.url is not None and find_spec("httpx2") is None:
            raise ValueError(f"url: webhooks require httpx2: {install_extra('webhooks')}")
        # Do not show the value in the message, because it may contain a password.
        if self.url is not None and not _is_http_url(self.url.get_secret_value()):
            raise ValueError("url: must be a URL such as https://example.org/hook")
        for kind in self.events:
            if kind not in EVENT_KINDS:
                raise ValueError(f"events: unknown kind {kind!r}: expected {', '.join(EVENT_KINDS)}")
        _check_length("secret", self.secret)
        return self


def is_loopback(host: str) -> bool:
    """Check if a host (name or address) can be reached only from this machine."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class HttpConfiguration(Section):
    """HTTP server: address, authentication and limits."""

    enabled: bool = True
    """Serve HTTP."""
    host: Annotated[str, HOST] = "127.0.0.1"
    port: Annotated[int, PORT] = 8470
    token: SecretStr | None = None
    """Bearer token of at least 16 characters that clients must send."""
    max_request_bytes: Positive = 1 << 34
    """Maximum size of a request with pairs, in bytes."""
    max_rate: Annotated[float, Field(gt=0)] = 100.0
    """Maximum number of requests per second and client address.
    Requests with the token, requests without the token, and health checks are counted separately."""
    max_burst: Positive = 200
    """Number of requests that a client may send at once before `max_rate` applies."""
    forwarded_allow_ips: str = "127.0.0.1,::1"
    """Addresses and networks of trusted [proxies](http.md#use-a-reverse-proxy), or `*` for all.
    `X-Forwarded-For` and `X-Forwarded-Proto` of other clients are ignored."""
    max_connections: Positive = 100
    """Maximum number of open connections, and of running requests.
    Beyond it, the client that has been idle longest is disconnected, and new requests are rejected with 503."""
    max_lag: Positive = 100_000
    """Number of unsettled pairs above which new pairs are delayed, and finally rejected with 503."""
    backlog_timeout: Seconds = 30.0
    """Seconds that a request with pairs waits for the lag to fall before it is rejected."""
    client_timeout: Seconds = 30.0
    """Seconds in which a request must arrive, and a client must read about 100 kB of a response.
    A body faster than `min_bytes_per_second` may take longer."""
    min_bytes_per_second: Positive = 256
    """Minimum rate of a request body after `client_timeout`, in bytes per second."""
    idempotency_hours: ClassVar[float] = 48.0
    """Hours for which the response to an Idempotency-Key is kept."""

    libretranslate: bool = False
    """Serve the protocol of [LibreTranslate](integrations.md#libretranslate)."""
    mcp: Annotated[str, Field(pattern="^(off|read|add)$")] = "off"
    """[MCP](integrations.md#model-context-protocol) tools at `/mcp`: off, read, or read and add pairs."""
    pages: bool = True
    """Serve [pages](pages.md) for browsers."""
    sql: bool = True
    """Serve the page for SQL queries."""
    sql_url: SecretStr | None = None
    """On Postgres, URL of the store with the [role](pages.md#sql-queries-on-postgres) for SQL queries.
    If it is not set, queries are rejected."""
    sql_seconds: Seconds = 10.0
    """Maximum duration of an SQL query, in seconds."""

    @pydantic.model_validator(mode="after")
    def _check_access(self) -> Self:
        # Do not show the value in the message, because it may contain a password.
        if self.sql_url is not None and not re.match(r"postgres(ql)?://\S", self.sql_url.get_secret_value()):
            raise ValueError("sql_url: must be a URL such as postgresql://role:password@host/database")
        _check_length("token", self.token)
        if self.enabled and self.token is None and not is_loopback(self.host):
            token = f"token (at least {_MIN_TOKEN_LENGTH} characters)"
            raise ValueError(f"host {self.host!r} is not a loopback address: set {token} or listen on 127.0.0.1")
        return self


class Configuration(Section):
    """Configuration of the daemon. Settings of the store (`hierogram init`) are not part of it."""

    store: str = DEFAULT_STORE
    """Store, as in `--store`."""
    daemon: DaemonSection = Field(default_factory=DaemonSection)
    log: LogSection = Field(default_factory=LogSection)
    spool: SpoolSection = Field(default_factory=SpoolSection)
    intake: InputLimits = Field(default_factory=InputLimits)
    sampling: SamplingSection = Field(default_factory=SamplingSection)
    workers: WorkerOptions = Field(default_factory=WorkerOptions)
    http: HttpConfiguration = Field(default_factory=HttpConfiguration)
    webhooks: WebhooksSection = Field(default_factory=WebhooksSection)
    timezone: Annotated[str, pydantic.AfterValidator(lambda name: read_zone(name).key)] = DEFAULT_ZONE
    """Default time zone of scheduled exports, such as Europe/Berlin."""
    exports: tuple[ExportJob, ...] = ()
    """Scheduled exports, one `[[exports]]` table each."""

    def section(self, kind: type[AnySection]) -> AnySection:
        """Return the section of the given type, which may belong to an extension of `configuration_type`."""
        return next(value for _, value in self if isinstance(value, kind))


@cache
def extension_sections() -> dict[str, type[Any]]:
    """Return the types of the sections of all extensions, by section name."""
    return {name: kind for one in extensions() for name, kind in one.sections.items()}


@cache
def configuration_type() -> type[Configuration]:
    """Return `Configuration` with the sections of all extensions added."""
    added: dict[str, Any] = {name: (kind, Field(default_factory=kind)) for name, kind in extension_sections().items()}
    return pydantic.create_model("Configuration", __base__=Configuration, **added)


class _EnvironmentFirst(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True
    )

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: Any, init_settings: Any, env_settings: Any, *_: Any, **_unused: Any
    ) -> tuple[Any, ...]:
        return env_settings, init_settings


def load_configuration(file: Path | None = None, **overrides: object) -> Configuration:
    """Load the configuration. Environment variables override the file, and `overrides` override both.

    `overrides` are keys such as `store=…` and `spool_folder=…`; None values are ignored. Without a file, all other keys
    have their defaults. Raises `UsageError` that names the invalid key.
    """
    content = _read_toml(file) if file else {}
    # Pydantic only reads variables of known sections, so it does not detect a misspelled section.
    fields = configuration_type().model_fields
    for name in os.environ:
        section, nested, _ = name.removeprefix(ENVIRONMENT_PREFIX).partition("__")
        if name.startswith(ENVIRONMENT_PREFIX) and nested and section.lower() not in fields:
            raise UsageError(f"environment: {name}: unknown section [{section.lower()}]")
    with_environment = type("_WithEnvironment", (_EnvironmentFirst, configuration_type()), {"__module__": __name__})
    try:
        merged = with_environment(**content)
    except ValidationError as error:
        raise UsageError(_explain(error, file)) from error
    sections = {name: getattr(merged, name) for name in fields}
    for name, value in overrides.items():
        section, _, key = name.partition("_")
        if value is not None:
            sections[section] = _override(section, sections[section], key, value) if key else value
    return configuration_type().model_validate(sections)


def _override(name: str, section: Section, key: str, value: object) -> Section:
    try:
        # Validate the whole section, because the limits of keys depend on each other.
        return type(section).model_validate(dict(section) | {key: value})
    except ValidationError as error:
        [problem, *_] = error.errors()
        reason = problem["msg"].removeprefix("Value error, ")
        raise UsageError(f"{name}.{key} = {str(value)!r}: {reason}") from error


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: invalid TOML: {error}") from error
    try:
        # Strict validation accepts strings as paths only in JSON.
        configuration_type().model_validate_json(json.dumps(content, default=str), strict=True)
    except ValidationError as error:
        raise UsageError(_explain(error, file)) from error
    return content


def _explain(error: ValidationError, file: Path | None) -> str:
    lines = []
    for problem in error.errors():
        keys = [str(key) for key in problem["loc"]]
        is_known = problem["type"] not in ("extra_forbidden", "unexpected_keyword_argument")
        # Do not show the value of a whole section: it may contain secrets, and the message names the invalid key.
        value = "" if problem["type"] == "value_error" else f", got {problem['input']!r}"
        reason = f"{problem['msg'].removeprefix('Value error, ')}{value}" if is_known else "unknown key"
        key = ".".join(keys) or "(file)"
        variable = ENVIRONMENT_PREFIX + "__".join(keys[:2]).upper()
        in_environment = variable in os.environ or ENVIRONMENT_PREFIX + "".join(keys[:1]).upper() in os.environ
        location = f"environment: {variable}" if in_environment else f"{file}: {key}"
        lines.append(f"{location}: {reason}")
    return "; ".join(lines)
