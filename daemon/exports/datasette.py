"""Datasette configuration for an SQLite store, with the queries of the cookbook."""

import re
from pathlib import Path
from typing import Any

from hierogram.daemon.exceptions import UsageError
from hierogram.storage.browsing.sql_runner import cookbook
from hierogram.storage.database.connection import hide_password, parse_url, sqlite_file
from hierogram.storage.schema.views import relations

_PARAMETERS = {
    "'la maison'": ":source", "'the house'": ":target", "'maison'": ":word", "'house'": ":other_word",
    "pair_id = 1": "pair_id = :pair",
}  # fmt: skip
"""Query parameters that replace the example values in the queries of the cookbook."""


def datasette_configuration(url: str) -> tuple[Path, dict[str, Any]]:
    """Return an SQLite store's file and Datasette configuration. Raises `UsageError` for other stores."""
    parsed = parse_url(url)
    file = sqlite_file(parsed)
    if file is None:
        raise UsageError(
            f"{hide_password(parsed)} is not a file, and Datasette supports SQLite files only: use "
            "`hierogram browse` instead"
        )
    queries = {}
    for title, sql in cookbook():
        for example, parameter in _PARAMETERS.items():
            sql = sql.replace(example, parameter)
        queries[re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")] = {"title": title, "sql": sql}
    tables = {
        relation.name: {"description": relation.about, "columns": relation.columns, "hidden": relation.internal}
        for relation in relations()
    }
    return file, {
        "settings": {
            "allow_facet": False,
            "suggest_facets": False,
            "sql_time_limit_ms": 10_000,
            "default_page_size": 50,
        },
        "databases": {file.stem: {"tables": tables, "queries": queries}},
    }
