"""An S3 server for exports to object storage."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def object_storage_server() -> Iterator[str]:
    """URL of an S3 server."""
    # Imported here because it loads slowly, and few tests need it.
    from moto.server import ThreadedMotoServer

    moto = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    yield f"http://{host}:{port}"
    moto.stop()


@pytest.fixture
def make_bucket(object_storage_server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Function that creates a bucket on the server, which the environment selects."""
    import boto3
    from s3fs import S3FileSystem

    monkeypatch.setenv("AWS_ENDPOINT_URL", object_storage_server)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "user")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    # File systems keep the credentials with which they were opened.
    S3FileSystem.clear_instance_cache()
    yield lambda name: boto3.resource("s3").create_bucket(Bucket=name)
    S3FileSystem.clear_instance_cache()
