"""Load each new version of an export as soon as the link `latest` points to it: python follow.py FOLDER."""

import gzip
import hashlib
import json
import os
import sys
import time
from pathlib import Path


class Grammar:
    """The rules of the newest version in a folder, one line each."""

    def __init__(self, folder):
        self.folder, self.version = Path(folder), None
        self.refresh()

    def refresh(self):
        """Load the version that `latest` points to. Return False if it is already loaded."""
        while True:
            # Read the link once, because it may move before all files are read.
            version = self.folder / os.readlink(self.folder / "latest")
            if version == self.version:
                return False
            try:
                manifest = json.loads((version / "manifest.json").read_text(encoding="utf-8"))
                content = (version / manifest["file"]).read_bytes()
            except FileNotFoundError:
                continue  # --keep has deleted this version, so `latest` points to a newer one.
            if hashlib.sha256(content).hexdigest() != manifest["sha256"]:
                raise ValueError(f"{version}: damaged")
            rules = gzip.decompress(content).decode().split("\n")[:-1]
            self.version, self.manifest, self.rules = version, manifest, rules
            return True


if __name__ == "__main__":
    grammar = Grammar(sys.argv[1])
    while True:
        print(grammar.version.name, len(grammar.rules), "rules", flush=True)
        while not grammar.refresh():
            time.sleep(1)
