"""Count the modules and functions that a posted pair, an export and a translation from a store pass through.

python -m hierogram.tools.lab.passing

A module is passed if one of its Python functions is called, in any thread, from the request until the pair is learned,
or from the start of the command to its end; what an import calls does not count, nor what a compiled kernel calls.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

PARTS = tuple(str(Path(__file__).resolve().parents[2] / part) + os.sep for part in ("daemon", "storage", "samplers"))
PAIRS = "la maison ||| the house\nune maison bleue ||| a blue house\nla fleur bleue ||| the blue flower\n"
NEW = '{"source": "une fleur", "target": "a flower"}\n'
_WAIT_SECONDS = 300.0


def _is_imported_by(frame: FrameType | None) -> bool:
    """Return whether an import makes the call."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def run_noting_calls(report: Path, arguments: list[str], begins_at_once: bool) -> None:
    """Run a command of `hierogram`; write what it calls, from the start or from SIGUSR1 on, to `report` as it ends."""
    called: set[CodeType] = set()
    noting = threading.Event()
    if begins_at_once:
        noting.set()
    signal.signal(signal.SIGUSR1, lambda *_: noting.set())

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and noting.is_set() and frame.f_code not in called and not _is_imported_by(frame):
            called.add(frame.f_code)

    from hierogram.daemon.cli.main import main as hierogram

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        sys.argv[1:] = arguments
        hierogram()
    finally:
        sys.setprofile(None)
        places = ((os.path.realpath(code.co_filename), code.co_firstlineno) for code in called)
        report.write_text(json.dumps(sorted(place for place in places if place[0].startswith(PARTS))))


def _start(report: Path, *arguments: str, begins_at_once: bool = True) -> subprocess.Popen[bytes]:
    values = json.dumps([str(report), list(arguments), begins_at_once])
    return subprocess.Popen([sys.executable, __file__, values], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _passed(report: Path) -> dict[str, int]:
    """Count what the report holds; `__init__.py` is no module of its own."""
    places = [(file, line) for file, line in json.loads(report.read_text()) if not file.endswith("__init__.py")]
    return {"modules": len({file for file, _ in places}), "functions": len(places)}


def _get(address: str, data: bytes | None = None) -> Any:
    request = urllib.request.Request(address, data, {"Content-Type": "application/jsonl"})
    with urllib.request.urlopen(request, timeout=_WAIT_SECONDS) as answer:
        return json.load(answer)


def _is_ready(address: str) -> bool:
    try:
        return bool(_get(f"{address}/readyz"))
    except OSError:
        return False


def follow_a_posted_pair(folder: Path, store: str) -> dict[str, int]:
    """Post a pair to a daemon and count until it is learned."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address, report = f"http://127.0.0.1:{port}", folder / "posted.json"
    daemon = _start(report, "serve", "--store", store, "--port", str(port), begins_at_once=False)
    while not _is_ready(address):
        time.sleep(0.1)
    while _get(f"{address}/v1/status")["lag"]["pairs"]:
        time.sleep(0.1)
    daemon.send_signal(signal.SIGUSR1)
    _get(f"{address}/v1/pairs", NEW.encode())
    while _get(f"{address}/v1/status")["lag"]["pairs"]:
        time.sleep(0.1)
    daemon.terminate()
    daemon.wait(_WAIT_SECONDS)
    return _passed(report)


def main() -> None:
    """Print the counts as JSON."""
    with tempfile.TemporaryDirectory() as name:
        folder, counts = Path(name), {}
        store, pairs, text = str(folder / "store.db"), folder / "pairs", folder / "text"
        pairs.write_text(PAIRS)
        text.write_text("la fleur\n")
        flows = {
            "init": ("init", "--store", store, "--languages", "fr,en"),
            "ingest": ("ingest", "--store", store, str(pairs)),
            "learn": ("learn", "--store", store, "--sweeps", "20"),
            "export": ("export", "--store", store, "-o", str(folder / "grammar.cdec.gz")),
            "translate": ("translate", "--store", store, str(text)),
        }
        for flow, arguments in flows.items():
            report = folder / f"{flow}.json"
            assert _start(report, *arguments).wait(_WAIT_SECONDS) == 0, flow
            counts[flow] = _passed(report)
        counts["posted pair"] = follow_a_posted_pair(folder, store)
        print(json.dumps(counts, indent=2))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run_noting_calls(Path((given := json.loads(sys.argv[1]))[0]), given[1], given[2])
    else:
        main()
