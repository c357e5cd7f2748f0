"""What people and other programs see. Values in; text, tables and files out. The cli prints, this room never does.

- `rows`: what a table shows, as values (pure); the same rows become terminal tables and JSON
- `summary`: a period of the ledger, as values (pure); feeds HTML, Markdown and JSON alike
- `tables`: rich tables and bars for the terminal
- `page`, `markdown`: the report as one self-contained HTML file, and as text for a mail
- `json`, `schema`: JSON documents with a name and a version, and their published schemas
- `story`: events as sentences with their numbers (pure)
- `metrics`: Prometheus text
- `words`: ages, and making text safe that a user or Slurm wrote
"""
