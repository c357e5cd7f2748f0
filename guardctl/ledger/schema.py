"""The tables. Times are microseconds since 1970 in UTC: SQLite and PostgreSQL sort and compare them alike."""

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, SmallInteger, Table, Text

HEAD = "0001"  # the newest revision in migrations/; a test holds the two together
EVENT_SCHEMA = 1

metadata = MetaData()
Id = BigInteger().with_variant(Integer, "sqlite")  # SQLite counts up by itself only for INTEGER

events = Table(
    "events",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("schema", SmallInteger, nullable=False),
    Column("node", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("incident", Text),
    Column("detail", Text, nullable=False),
    Column("gpu_uuid", Text),
    Column("serial", Text),
    Column("boot_id", Text),
    Column("actor", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("policy_hash", Text, nullable=False),
    Index("events_node_at", "node", "at"),
    Index("events_incident", "incident"),
    Index("events_at", "at"),
    Index("events_gpu", "gpu_uuid"),
    sqlite_autoincrement=True,  # an id is never used twice
)

gpus = Table(
    "gpus",
    metadata,
    Column("uuid", Text, primary_key=True),
    Column("serial", Text),
    Column("board", Text),
    Column("sku", Text),
    Column("node", Text),  # None: taken out, and not seen elsewhere
    Column("slot", Text, nullable=False),
    Column("first_seen_at", BigInteger, nullable=False),
    Column("last_seen_at", BigInteger, nullable=False),
    Index("gpus_node", "node"),
)

nodes = Table(
    "nodes",
    metadata,
    Column("node", Text, primary_key=True),
    Column("boot_id", Text),
    Column("first_seen_at", BigInteger, nullable=False),
    Column("last_seen_at", BigInteger, nullable=False),
)

meta = Table(
    "meta",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

counters = Table(
    "counters",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", BigInteger, nullable=False),
)
