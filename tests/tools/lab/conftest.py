"""Commands within this process, as tests of the daemon run them."""

from tests.daemon.conftest import hierogram

__all__ = ["hierogram"]
