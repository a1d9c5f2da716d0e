"""Tables of the aligner: its links of pairs, and the counts that they cause."""

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, Integer, LargeBinary, Table

from hierogram.storage.schema.postgres_options import on_postgres
from hierogram.storage.schema.types import MOMENT, SERIAL, TEXT, metadata

FERTILITIES = 8
"""Numbers of links of a word that the aligner tells apart, from 0; the last one stands for more, too."""

# What the aligner thinks: of each target word the source position that it is linked to (forward), and the other way
# about (backward), int16 each, -1 for none. The counts of the aligner's three tables are those of these links.
pair_links = Table(
    "pair_links",
    metadata,
    Column("pair_id", SERIAL, ForeignKey("sentence_pairs.id"), primary_key=True, autoincrement=False),
    Column("forward", LargeBinary, nullable=False),
    Column("backward", LargeBinary, nullable=False),
    Column("sweep", BigInteger, nullable=False),
)
Index("pair_links_by_sweep", pair_links.c.sweep, pair_links.c.pair_id)

# How often a word pair is linked in each direction; the empty word stands for none.
aligner_lexicon = Table(
    "aligner_lexicon",
    metadata,
    Column("source", TEXT, primary_key=True),
    Column("target", TEXT, primary_key=True),
    Column("forward", BigInteger, nullable=False),
    Column("backward", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
on_postgres(aligner_lexicon, "with", {"fillfactor": 80})

# Of a word that generates others: its links in all, and its tokens by number of links.
aligner_words = Table(
    "aligner_words",
    metadata,
    Column("side", TEXT, primary_key=True),
    Column("word", TEXT, primary_key=True),
    Column("links", BigInteger, nullable=False),
    *(Column(f"with_{number}", BigInteger, nullable=False) for number in range(FERTILITIES)),
    sqlite_with_rowid=False,
)
on_postgres(aligner_words, "with", {"fillfactor": 80})

aligner_jumps = Table(
    "aligner_jumps",
    metadata,
    Column("direction", TEXT, primary_key=True),
    Column("width", Integer, primary_key=True, autoincrement=False),
    Column("count", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

# What people say of the links of pairs: a link that is there (fixed), or is not.
human_links = Table(
    "human_links",
    metadata,
    Column("pair_id", SERIAL, ForeignKey("sentence_pairs.id"), primary_key=True, autoincrement=False),
    Column("source", Integer, primary_key=True, autoincrement=False),
    Column("target", Integer, primary_key=True, autoincrement=False),
    Column("fixed", Boolean, nullable=False),
    Column("origin", TEXT, nullable=False),
    Column("added_at", MOMENT, nullable=False),
    sqlite_with_rowid=False,
)

# The pairs that have such links, or had them until now: how often that was changed, and how many of the changes the
# pair's alignment follows. `given` is the alignment that the pair came with, `digest` that of its texts.
corrections = Table(
    "corrections",
    metadata,
    Column("pair_id", SERIAL, ForeignKey("sentence_pairs.id"), primary_key=True, autoincrement=False),
    Column("asked", BigInteger, nullable=False),
    Column("done", BigInteger, nullable=False),
    Column("given", TEXT),
    Column("digest", LargeBinary, nullable=False),
)
on_postgres(
    Index("corrections_pending", corrections.c.pair_id, sqlite_where=corrections.c.done < corrections.c.asked),
    "where",
    corrections.c.done < corrections.c.asked,
)
Index("corrections_by_text", corrections.c.digest)
