"""Versions of exports in object storage, against a moto server."""

import gzip
import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hierogram.daemon.exceptions import ExportError
from hierogram.daemon.exports.exporting import publish
from hierogram.daemon.exports.options import ExportJob
from hierogram.daemon.exports.publication import Versions, latest_version, list_versions, open_folder, prune_versions
from hierogram.daemon.exports.schedule import add_job, job_status, run_due, run_job
from hierogram.storage.options import OptionError, from_plain
from hierogram.storage.store import Store

pytestmark = [pytest.mark.slow, pytest.mark.database("sqlite")]


@pytest.fixture
def bucket(make_bucket: Callable[[str], Any], request: pytest.FixtureRequest) -> Any:
    return make_bucket(request.node.originalname.replace("_", "-")[:60].rstrip("-"))


def job(name: str, to: str) -> ExportJob:
    return from_plain(ExportJob, {"name": name, "to": to, "every": "1h"})


def keys(bucket: Any) -> list[str]:
    return [entry.key for entry in bucket.objects.all()]


def test_a_version_is_uploaded_with_its_manifest_last(learned: Store, bucket: Any) -> None:
    first = publish(learned, Versions(open_folder(f"s3://{bucket.name}/grammars/"), "news"))
    version = first.folder.name
    assert str(first.folder) == f"s3://{bucket.name}/grammars/{version}"
    manifest = json.loads(bucket.Object(f"grammars/{version}/manifest.json").get()["Body"].read())
    content = bucket.Object(f"grammars/{version}/{manifest['file']}").get()["Body"].read()
    assert hashlib.sha256(content).hexdigest() == manifest["sha256"] == first.manifest.sha256
    assert gzip.decompress(content).count(b"\n") == manifest["rules"] > 0
    assert bucket.Object("grammars/latest").get()["Body"].read().decode() == version
    written = {entry.key: entry.last_modified for entry in bucket.objects.all()}
    assert max(written, key=written.__getitem__) in ("grammars/latest", f"grammars/{version}/manifest.json")
    assert len(written) == 3 + len(manifest["extra_files"])


def test_a_failed_upload_leaves_no_version(learned: Store, bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = open_folder(f"s3://{bucket.name}/grammars")
    first = publish(learned, Versions(folder, "news"))
    upload = folder.fs.put_file

    def fail(local: str, remote: str) -> None:
        if remote.endswith("manifest.json"):
            raise ConnectionError("connection lost")
        upload(local, remote)

    monkeypatch.setattr(folder.fs, "put_file", fail)
    with pytest.raises(ExportError, match=r"s3://.*: cannot be written: connection lost"):
        publish(learned, Versions(folder, "news"))
    monkeypatch.undo()
    assert latest_version(folder) == first.folder.name
    assert [path.name for path in list_versions(folder, "news")] == [first.folder.name]
    assert len(keys(bucket)) > 3

    # Pruning deletes the incomplete upload once it is more than a day old.
    prune_versions(Versions(folder, "news"), datetime.now(UTC) + timedelta(days=2))
    assert len(keys(bucket)) == 3 + len(first.manifest.extra_files)


def test_expired_versions_are_deleted(learned: Store, bucket: Any) -> None:
    folder = open_folder(f"s3://{bucket.name}")
    first, second, third = [publish(learned, Versions(folder, "news", keep=2)) for _ in range(3)]
    assert third.pruned == [first.folder]
    assert list_versions(folder, "news") == [second.folder, third.folder]
    assert not [key for key in keys(bucket) if key.startswith(first.folder.name + "/")]


def test_a_job_without_changes_writes_nothing(learned: Store, bucket: Any) -> None:
    stored = job("news", f"s3://{bucket.name}/news")
    add_job(learned, stored)
    first = run_job(learned, stored)
    before = keys(bucket)
    assert run_job(learned, stored).unchanged
    assert keys(bucket) == before
    status = job_status(learned, "news")
    assert (status.state, status.path) == ("unchanged", str(first.folder / first.manifest.file))
    with pytest.raises(OptionError, match="writes to the same folder"):
        add_job(learned, job("other", f"s3://{bucket.name}/news/"))


def test_object_storage_errors_contain_the_url(learned: Store, bucket: Any) -> None:
    with pytest.raises(ExportError, match="s3://no-such-bucket/x"):
        publish(learned, Versions(open_folder("s3://no-such-bucket/x"), "news"))
    with pytest.raises(OptionError, match=r"nowhere://x: cannot be opened .*nowhere"):
        add_job(learned, job("news", "nowhere://x"))


def test_an_interrupted_job_remains_due(learned: Store, bucket: Any) -> None:
    add_job(learned, job("news", f"s3://{bucket.name}/news"))
    before = [row[:5] for row in learned.jobs()]
    errors: list[Exception | None] = []

    def run(stopping: Callable[[], bool]) -> None:
        run_due(
            learned,
            lambda *result: errors.append(result[-1]),
            stopping=stopping,
            clock=lambda: datetime.now(UTC) + timedelta(hours=2),
        )

    stops = iter([False])
    run(lambda: next(stops, True))
    assert "interrupted" in str(errors.pop())
    assert [row[:5] for row in learned.jobs()] == before
    assert not keys(bucket)
    run(lambda: False)
    assert errors == [None]


def test_interrupts_are_not_reported_as_errors_of_the_storage(learned: Store, bucket: Any) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        publish(learned, Versions(open_folder(f"s3://{bucket.name}"), "news"), report=interrupt)
