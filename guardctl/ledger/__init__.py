"""What happened to every node, for ever, and what it adds up to.

In: events (values) and the hardware that was seen. Out: the same events in order, and one standing per node.

- `schema`, `migrate`, `migrations/`: the tables, and how an older ledger becomes a newer one (Alembic)
- `codec`: events to rows and to JSON Lines and back, times, the tags of incidents (pure)
- `engine`: SQLite and PostgreSQL, and how a database error becomes a `LedgerError` that says what to do
- `store`: `Ledger`, the one thing that reads and writes
- `hardware`: which GPU is where; a moved card keeps its past (pure compare beside the tables)
- `lines`: export and import
- `fold`: events to standings, by one table (pure)

Events are only ever added. What a node is now is never stored: it is folded from what happened, so that the story and
the state cannot disagree.
"""
