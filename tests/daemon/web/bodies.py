"""Request bodies of pairs as lines of JSON."""

import json

from tests.daemon.conftest import LINES


def as_json(line: str, **more: object) -> bytes:
    source, target, alignment = line.split(" ||| ")
    return json.dumps({"source": source, "target": target, "alignment": alignment} | more).encode() + b"\n"


BODY = b"".join(map(as_json, LINES))
