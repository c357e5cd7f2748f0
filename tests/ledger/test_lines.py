import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from guardctl.ledger.lines import export, load
from guardctl.ledger.store import Ledger
from guardctl.words.errors import InputError
from guardctl.words.records import Event, EventKind

NOW = datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)
EVENTS = [
    Event("n1", NOW, EventKind.SUSPECTED, "slow: 0.71", detail={"relative": 0.71}, gpu_uuid="GPU-1"),
    Event("n1", NOW, EventKind.SUSPECTED, "slow: 0.71", detail={"relative": 0.71}, gpu_uuid="GPU-1"),
    Event("n1", NOW + timedelta(minutes=1), EventKind.DRAINED, "Größe, 'quotes' and \n a line", incident="34k"),
]


def text_of(ledger: Ledger) -> str:
    stream = io.StringIO()
    export(ledger, stream)
    return stream.getvalue()


def test_what_goes_out_comes_in_again_once(ledger: Ledger, tmp_path: Path) -> None:
    ledger.append(EVENTS)
    text = text_of(ledger)
    assert len(text.splitlines()) == 3
    with Ledger.open(f"sqlite:///{tmp_path}/other.db") as other:
        assert load(other, io.StringIO(text), "old.jsonl") == 3
        assert load(other, io.StringIO(text), "old.jsonl") == 0
        assert text_of(other) == text
        assert [each.kind for each in other.events()] == [each.kind for each in EVENTS]
        assert other.new_incident() > "34k", "a tag that was used elsewhere is not used again"


def test_what_is_missing_is_added(ledger: Ledger) -> None:
    ledger.append(EVENTS[:1])
    with_three = io.StringIO()
    ledger.append(EVENTS[1:])
    export(ledger, with_three)
    assert load(ledger, io.StringIO(with_three.getvalue() + "\n"), "x") == 0


def test_kinds_of_a_newer_release_pass_through(url: str) -> None:
    line = json.dumps(
        {"schema": "guardctl.event/2", "node": "n1", "at": "2026-01-31T13:00:00+01:00", "kind": "teleported"}
    )
    with Ledger.open(url) as ledger:
        assert load(ledger, [line], "new.jsonl") == 1
        assert ledger.events() == []
        assert json.loads(text_of(ledger))["kind"] == "teleported"
        assert json.loads(text_of(ledger))["at"] == "2026-01-31T12:00:00Z"


GOOD = {"schema": "guardctl.event/1", "node": "n1", "at": "2026-01-31T12:00:00Z", "kind": "suspected"}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "old.jsonl:2: not JSON"),
        ("[1]", "old.jsonl:2: an object was expected"),
        (json.dumps(GOOD | {"schema": "x"}), "schema = 'x'"),
        (json.dumps(GOOD | {"at": "2026-01-31T12:00:00"}), "at = '2026-01-31T12:00:00'"),
        (json.dumps(GOOD | {"at": "today"}), "at = 'today'"),
        (json.dumps(GOOD | {"node": None}), "node = None"),
        (json.dumps(GOOD | {"kind": "a b"}), "kind = 'a b'"),
        (json.dumps(GOOD | {"detail": 3}), "detail = 3"),
        (json.dumps(GOOD | {"incident": 3}), "incident = 3"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_added(url: str, line: str, words: str) -> None:
    with Ledger.open(url) as ledger:
        with pytest.raises(InputError) as caught:
            load(ledger, [json.dumps(GOOD), line], "old.jsonl")
        assert "old.jsonl:2: " in str(caught.value)
        assert words in str(caught.value)
        assert ledger.rows() == []
