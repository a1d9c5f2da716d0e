"""The section `[http]` of the daemon's configuration."""

from ipaddress import ip_address
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from hierogram.daemon.corpora.lines import MAX_LINE_BYTES

_SHORTEST_TOKEN = 16

Seconds = Annotated[float, Field(gt=0)]
Positive = Annotated[int, Field(gt=0)]


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class HttpConfiguration(BaseModel):
    """Where the daemon listens, who may ask, and how much of everything it takes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(default=True, description="Whether the daemon answers HTTP at all.")
    host: str = Field(default="127.0.0.1", description="Address to listen at; any but loopback needs a token.")
    port: int = Field(default=8470, ge=0, le=65535, description="Port to listen at; 0 takes any free one.")
    token: SecretStr | None = Field(default=None, description="What clients have to show as a bearer token.")
    max_request_bytes: Positive = Field(default=1 << 34, description="Largest body of pairs, in bytes.")
    max_line_bytes: int = Field(
        default=MAX_LINE_BYTES, gt=0, le=MAX_LINE_BYTES, description="Longest line of a body, in bytes; longer ones "
        "are rejected."
    )  # fmt: skip
    max_rate: float = Field(default=100.0, gt=0, description="Requests a second that one client address may make.")
    max_burst: Positive = Field(default=200, description="Requests that a client may make at once before `max_rate`.")
    max_connections: Positive = Field(default=100, description="Connections and running requests at a time.")
    max_intakes: Positive = Field(default=4, description="Bodies of pairs taken in at a time.")
    max_lag: Positive = Field(
        default=100_000, description="Pairs waiting for sampling beyond which new ones are taken slowly, then refused."
    )
    lag_patience: Seconds = Field(
        default=30.0, description="Seconds that a body of pairs waits for the lag to fall before it is refused."
    )
    client_timeout: Seconds = Field(
        default=30.0, description="Seconds that a client may be silent within a request or before its first."
    )
    min_bytes_per_second: Positive = Field(
        default=256, description="Slowest body that is waited for, once the client's timeout is over."
    )
    idempotency_hours: float = Field(
        default=48.0, gt=0, description="Hours for which the answer to an Idempotency-Key is kept."
    )

    @model_validator(mode="after")
    def _token_for_strangers(self) -> Self:
        if self.token is not None and len(self.token.get_secret_value()) < _SHORTEST_TOKEN:
            raise ValueError(f"token: has to have at least {_SHORTEST_TOKEN} characters")
        if self.enabled and self.token is None and not is_loopback(self.host):
            raise ValueError(
                f"host {self.host!r} is not a loopback address, so a token is needed: set token "
                f"(at least {_SHORTEST_TOKEN} characters), or listen at 127.0.0.1"
            )
        return self
