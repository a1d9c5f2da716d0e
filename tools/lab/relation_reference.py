"""Generate `docs/relations.md` from the descriptions in `storage/schema/catalog.toml`.

python -m hierogram.tools.lab.relation_reference
"""

from pathlib import Path

import typer

from hierogram.storage.schema.views import Relation, relations

PAGE = Path(__file__).resolve().parents[2] / "docs" / "relations.md"

_HEAD = """\
# Tables and views

Look up the tables and views of a store. The view `catalog` of a store contains the same text, and on Postgres also the
comments (`\\d+ rule_table` in psql):

```sql
SELECT column_name, description
  FROM catalog
 WHERE relation = 'rule_table';
```

"""
_END = """\
`python -m hierogram.tools.lab.relation_reference` generates this page from `storage/schema/catalog.toml`.

Next: [example queries](sql.md).
"""
_INTERNAL = """\
## Internal tables

The next version may change these tables without notice.

"""


def page() -> str:
    """Return the page as Markdown."""
    shared = [_section(relation) for relation in relations() if not relation.internal]
    internal = [_section(relation, "###") for relation in relations() if relation.internal]
    return "".join([_HEAD, *shared, _INTERNAL, *internal, _END])


def _section(relation: Relation, mark: str = "##") -> str:
    rows = "".join(f"| `{column}` | {text} |\n" for column, text in relation.columns.items())
    return f"{mark} {relation.name}\n\n{relation.about}\n\n| column | content |\n|---|---|\n{rows}\n"


def main() -> None:
    """Write `docs/relations.md`."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
