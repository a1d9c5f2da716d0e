"""Vendored files are unchanged releases with their licenses, and scripts are small."""

import json
from hashlib import sha256
from pathlib import Path

STATIC = Path(__file__).parents[4] / "daemon" / "web" / "pages" / "static"
VENDOR = STATIC / "vendor"
MAX_BYTES = 100_000


def test_vendored_files_match_their_hashes_and_have_licenses() -> None:
    listed = json.loads((VENDOR / "hashes.json").read_text())
    digests = {name: digest for package in listed.values() for name, digest in package["sha256"].items()}
    found = {path.name: sha256(path.read_bytes()).hexdigest() for path in VENDOR.iterdir() if path.suffix != ".json"}
    assert found == digests
    for package in listed.values():
        assert any(name.endswith(".LICENSE") for name in package["sha256"])
        assert package["version"]


def test_scripts_are_small() -> None:
    assert sum(path.stat().st_size for path in STATIC.rglob("*.js")) <= MAX_BYTES


def test_nothing_is_loaded_from_other_sites() -> None:
    templates = STATIC.parent / "templates"
    for path in (*templates.glob("*.html"), STATIC / "style.css", STATIC / "pages.js"):
        text = path.read_text()
        assert "http://" not in text, path
        assert "https://" not in text, path
