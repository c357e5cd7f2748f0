"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """From nothing to the first tables."""
    _events()
    _hardware()
    op.create_table("meta", sa.Column("key", sa.Text, primary_key=True), sa.Column("value", sa.Text, nullable=False))
    counters = op.create_table(
        "counters",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.BigInteger, nullable=False),
    )
    op.bulk_insert(counters, [{"name": "incident", "value": 0}])


def _events() -> None:
    op.create_table(
        "events",
        sa.Column("id", ID, primary_key=True, autoincrement=True),
        sa.Column("schema", sa.SmallInteger, nullable=False),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("incident", sa.Text),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("gpu_uuid", sa.Text),
        sa.Column("serial", sa.Text),
        sa.Column("boot_id", sa.Text),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("policy_hash", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("events_node_at", "events", ["node", "at"])
    op.create_index("events_incident", "events", ["incident"])
    op.create_index("events_at", "events", ["at"])
    op.create_index("events_gpu", "events", ["gpu_uuid"])


def _hardware() -> None:
    op.create_table(
        "gpus",
        sa.Column("uuid", sa.Text, primary_key=True),
        sa.Column("serial", sa.Text),
        sa.Column("board", sa.Text),
        sa.Column("sku", sa.Text),
        sa.Column("node", sa.Text),
        sa.Column("slot", sa.Text, nullable=False),
        sa.Column("first_seen_at", sa.BigInteger, nullable=False),
        sa.Column("last_seen_at", sa.BigInteger, nullable=False),
    )
    op.create_index("gpus_node", "gpus", ["node"])
    op.create_table(
        "nodes",
        sa.Column("node", sa.Text, primary_key=True),
        sa.Column("boot_id", sa.Text),
        sa.Column("first_seen_at", sa.BigInteger, nullable=False),
        sa.Column("last_seen_at", sa.BigInteger, nullable=False),
    )
