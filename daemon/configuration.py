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

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    create_model,
    model_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.exports.options import DEFAULT_ZONE, ExportJob, read_zone
from hierogram.daemon.extensions import extensions
from hierogram.daemon.shared_options import CORPUS, HOST, PORT, SPOOL, Languages, ProcessThreads
from hierogram.daemon.text.rejections import InputLimits
from hierogram.daemon.workers.options import WorkerOptions
from hierogram.storage.exceptions import install_extra
from hierogram.storage.options import DEFAULT_STORE
from hierogram.storage.records.operations import EVENT_KINDS, EXPORT_DONE, EXPORT_FAILED

ENVIRONMENT_PREFIX = "HIEROGRAM_"

_MIN_TOKEN_LENGTH = 16

Seconds = Annotated[float, Field(gt=0, le=1e6)]
Positive = Annotated[int, Field(gt=0)]
TimeZoneName = Annotated[str, AfterValidator(lambda name: read_zone(name).key)]


class Section(BaseModel):
    """Section of the configuration file. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


AnySection = TypeVar("AnySection")


class DaemonSection(Section):
    """Supervision of the loops, and shutdown."""

    grace_seconds: Seconds = Field(
        default=30.0,
        description="Seconds after SIGTERM in which loops must finish, before the process exits.",
    )
    stall_seconds: ClassVar[float] = 900.0
    """Maximum seconds between heartbeats of a loop. A longer silence ends the daemon with an error."""
    pause_seconds: ClassVar[float] = 1.0
    """Seconds before a failed loop is restarted. Doubled with each consecutive failure, up to `max_pause_seconds`."""
    max_pause_seconds: ClassVar[float] = 30.0
    max_failures: ClassVar[int] = 8
    """Consecutive failures of a loop that end the daemon, unless the store or the spool folder is unavailable."""


class LogSection(Section):
    """Logging to standard error."""

    format: str = Field(
        default="auto",
        pattern="^(auto|json|human)$",
        description="Log format. `auto` is `human` on a terminal, otherwise `json`.",
    )
    level: str = Field(
        default="info",
        pattern="^(debug|info|warning|error)$",
        description="Lowest level to log.",
    )


class SpoolSection(Section):
    """Spool folder."""

    folder: Annotated[Path | None, SPOOL] = None
    corpus: Annotated[str, CORPUS] = Field(default="default", min_length=1)
    poll_seconds: Seconds = Field(default=1.0, description="Seconds between scans of the folder.")
    languages: Languages = None
    unaligned_after: Seconds | None = Field(
        default=None,
        description="Seconds after which `.source` and `.target` files are ingested without an `.alignment`.",
    )


class SamplingSection(Section):
    """Sampling of new and settled pairs."""

    threads: ProcessThreads = None
    pairs_at_once: int = Field(
        default=10_000,
        ge=1,
        description="Maximum number of pairs sampled together in memory; other pairs wait. Not used by trees and ITGs.",
    )
    commit_seconds: Seconds = Field(
        default=5.0, description="Seconds of sampling between commits. A commit waits for the end of the sweep."
    )
    new_share: float = Field(
        default=0.9,
        gt=0,
        le=1,
        description="Share of sampling time for new pairs while new pairs wait; the rest is for settled pairs.",
    )
    idle_share: float = Field(
        default=0.5, ge=0, le=1, description="Share of time for sampling settled pairs while no new pairs wait."
    )
    likelihood_seconds: ClassVar[float] = 60.0
    """Seconds between computations of the log-likelihood, which are slow for large grammars."""


def _is_http_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return bool(re.fullmatch(r"https?://\S+", text) and parts.hostname) and parts.port != 0
    except ValueError:
        return False


class WebhooksSection(Section):
    """Webhooks for exports and other events."""

    url: SecretStr | None = Field(
        default=None,
        description="URL that receives events as POST requests. It can contain credentials, which are not stored, "
        "logged or shown.",
    )
    secret: SecretStr | None = Field(
        default=None, description="Secret of at least 16 characters that signs the requests."
    )
    events: tuple[str, ...] = Field(
        default=(EXPORT_DONE, EXPORT_FAILED), description="Kinds of [events](events.md#kinds-of-events) to send."
    )
    timeout_seconds: Seconds = Field(
        default=10.0,
        description="Maximum duration of an attempt, in seconds.",
    )
    attempts: int = Field(default=8, ge=1, le=100, description="Attempts before a delivery counts as failed.")
    pause_seconds: ClassVar[float] = 2.0
    """Seconds before the second attempt. The pause doubles with each further attempt, up to an hour."""

    @model_validator(mode="after")
    def _check_values(self) -> Self:
        if self.url is not None and find_spec("httpx2") is None:
            raise ValueError(f"url: webhooks require httpx2: {install_extra('webhooks')}")
        # Do not show the value in the message, because it may contain a password.
        if self.url is not None and not _is_http_url(self.url.get_secret_value()):
            raise ValueError("url: must be a URL such as https://example.org/hook")
        for kind in self.events:
            if kind not in EVENT_KINDS:
                raise ValueError(f"events: unknown kind {kind!r}: expected {', '.join(EVENT_KINDS)}")
        if self.secret is not None and len(self.secret.get_secret_value()) < _MIN_TOKEN_LENGTH:
            raise ValueError(f"secret: must have at least {_MIN_TOKEN_LENGTH} characters")
        return self


def is_loopback(host: str) -> bool:
    """Check if an address can be reached only from this machine."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class HttpConfiguration(Section):
    """HTTP server: address, authentication and limits."""

    enabled: bool = Field(default=True, description="Serve HTTP.")
    host: Annotated[str, HOST] = "127.0.0.1"
    port: Annotated[int, PORT] = 8470
    token: SecretStr | None = Field(
        default=None, description="Bearer token of at least 16 characters that clients must send."
    )
    max_request_bytes: Positive = Field(default=1 << 34, description="Maximum size of a request with pairs, in bytes.")
    max_rate: float = Field(
        default=100.0,
        gt=0,
        description="Maximum number of requests per second and client address. Requests with the token, requests "
        "without the token, and health checks are counted separately.",
    )
    max_burst: Positive = Field(
        default=200, description="Number of requests that a client may send at once before `max_rate` applies."
    )
    forwarded_allow_ips: str = Field(
        default="127.0.0.1,::1",
        description="Addresses and networks of proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are trusted, "
        "or `*` for all ([proxies](http.md#use-a-reverse-proxy)).",
    )
    max_connections: Positive = Field(
        default=100,
        description="Maximum number of open connections and of running requests. Beyond this number, the client that "
        "has been idle longest is disconnected.",
    )
    max_lag: Positive = Field(
        default=100_000,
        description="Number of unsettled pairs above which new pairs are delayed, and finally rejected with 503.",
    )
    backlog_timeout: Seconds = Field(
        default=30.0, description="Seconds that a request with pairs waits for the lag to fall before it is rejected."
    )
    client_timeout: Seconds = Field(
        default=30.0,
        description="Seconds in which a request must arrive, and in which a client must read about 100 kB of a "
        "response. A body faster than `min_bytes_per_second` may take longer.",
    )
    min_bytes_per_second: Positive = Field(
        default=256,
        description="Minimum rate of a request body after `client_timeout`, in bytes per second.",
    )
    idempotency_hours: ClassVar[float] = 48.0
    """Hours for which the response to an Idempotency-Key is kept."""

    libretranslate: bool = Field(
        default=False, description="Serve the protocol of [LibreTranslate](integrations.md#libretranslate)."
    )
    mcp: str = Field(
        default="off",
        pattern="^(off|read|add)$",
        description="[MCP](integrations.md#model-context-protocol) tools at `/mcp`: none (off), queries (read), or "
        "queries and storing pairs (add).",
    )
    pages: bool = Field(default=True, description="Serve [pages](pages.md) for browsers.")
    sql: bool = Field(default=True, description="Serve the page for SQL queries.")
    sql_url: SecretStr | None = Field(
        default=None,
        description="On Postgres, URL of the store with the role that runs SQL queries. If it is not set, queries are "
        "rejected ([role](pages.md#sql-queries-on-postgres)).",
    )
    sql_seconds: Seconds = Field(default=10.0, description="Maximum duration of an SQL query, in seconds.")

    @model_validator(mode="after")
    def _check_access(self) -> Self:
        # Do not show the value in the message, because it may contain a password.
        if self.sql_url is not None and not re.match(r"postgres(ql)?://\S", self.sql_url.get_secret_value()):
            raise ValueError("sql_url: must be a URL such as postgresql://role:password@host/database")
        if self.token is not None and len(self.token.get_secret_value()) < _MIN_TOKEN_LENGTH:
            raise ValueError(f"token: must have at least {_MIN_TOKEN_LENGTH} characters")
        if self.enabled and self.token is None and not is_loopback(self.host):
            raise ValueError(
                f"host {self.host!r} is not a loopback address: set token (at least {_MIN_TOKEN_LENGTH} characters) "
                "or listen on 127.0.0.1"
            )
        return self


class Configuration(Section):
    """Configuration of the daemon. Settings of the store (`hierogram init`) are not part of it."""

    store: str = Field(default=DEFAULT_STORE, description="Store, as in `--store`.")
    daemon: DaemonSection = Field(default_factory=DaemonSection)
    log: LogSection = Field(default_factory=LogSection)
    spool: SpoolSection = Field(default_factory=SpoolSection)
    intake: InputLimits = Field(default_factory=InputLimits)
    sampling: SamplingSection = Field(default_factory=SamplingSection)
    workers: WorkerOptions = Field(default_factory=WorkerOptions)
    http: HttpConfiguration = Field(default_factory=HttpConfiguration)
    webhooks: WebhooksSection = Field(default_factory=WebhooksSection)
    timezone: TimeZoneName = Field(
        default=DEFAULT_ZONE, description="Default time zone of scheduled exports, such as Europe/Berlin."
    )
    exports: tuple[ExportJob, ...] = Field(default=(), description="Scheduled exports, one `[[exports]]` table each.")

    def section(self, kind: type[AnySection]) -> AnySection:
        """Return the section of the given type, such as a section of an extension."""
        return next(value for _, value in self if isinstance(value, kind))


@cache
def extension_sections() -> dict[str, type[Any]]:
    """Return the section types of extensions by name."""
    return {
        name: kind for extension in extensions() if extension.sections for name, kind in extension.sections().items()
    }


@cache
def configuration_type() -> type[Configuration]:
    """Return the configuration type, including the sections of extensions."""
    added: dict[str, Any] = {name: (kind, Field(default_factory=kind)) for name, kind in extension_sections().items()}
    return create_model("Configuration", __base__=Configuration, **added)


class _EnvironmentFirst(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        *_: PydanticBaseSettingsSource,
        **_unused: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return env_settings, init_settings


def load_configuration(file: Path | None = None, **overrides: object) -> Configuration:
    """Load the configuration. Environment variables override the file, and `overrides` override both.

    `overrides` are keys such as `store=…` and `spool_folder=…`; None values are ignored. Raises `UsageError` with
    file or environment variable, key and reason.
    """
    content = _read(file) if file else {}
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


def _read(file: Path) -> dict[str, Any]:
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
