from datetime import UTC, datetime, timedelta

from guardctl.ledger.hardware import Gpu, Inventory, Known, compare
from guardctl.ledger.store import Ledger
from guardctl.words.records import Event, EventKind

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


def gpus(node: str, *uuids: str, boot_id: str | None = "b1") -> list[Gpu]:
    return [Gpu(uuid, node, str(slot), f"S{uuid}", sku="H100", boot_id=boot_id) for slot, uuid in enumerate(uuids)]


def changes(event: Event) -> list[tuple[str, str]]:
    return [(each["change"], each["uuid"]) for each in event.detail["changes"]]


def test_a_node_is_met_once(ledger: Ledger) -> None:
    [event] = ledger.record_hardware(gpus("n1", "A", "B"), NOW, actor="guard@head", version="0.1")
    assert event.kind is EventKind.HARDWARE
    assert event.why == "first seen with 2 GPUs (H100)"
    assert (event.detail["gpu_uuids"], event.boot_id, event.actor) == (["A", "B"], "b1", "guard@head")
    assert event.id == 1
    assert ledger.record_hardware(gpus("n1", "A", "B"), NOW + HOUR / 2) == ()
    assert ledger.standings(NOW)["n1"].gpu_uuids == ("A", "B")
    assert ledger.hardware().gpus["A"].last_seen_at == NOW
    ledger.record_hardware(gpus("n1", "A", "B"), NOW + HOUR)
    assert ledger.hardware().gpus["A"].last_seen_at == NOW + HOUR
    assert ledger.hardware().gpus["A"].first_seen_at == NOW


def test_a_moved_card_keeps_its_past(ledger: Ledger) -> None:
    ledger.record_hardware(gpus("n1", "A", "B") + gpus("n2", "C", "D"), NOW)
    ledger.append([Event("n1", NOW, EventKind.SWEEP_FAILED, "GPU 1 slow", gpu_uuid="B")] * 2)
    [first, second] = ledger.record_hardware(gpus("n1", "A", "C") + gpus("n2", "B", "D"), NOW + HOUR)
    assert changes(first) == [("moved", "C")]
    assert changes(second) == [("moved", "B")]
    assert second.why == "GPU 0 B came from n1, where it failed 2 sweeps"
    assert [each.gpu_uuid for each in ledger.events(gpu_uuid="B")] == ["B", "B"]


def test_a_replaced_card_goes_to_the_shelf_and_may_come_back(ledger: Ledger) -> None:
    ledger.record_hardware(gpus("n1", "A", "B"), NOW)
    [swap] = ledger.record_hardware(gpus("n1", "A", "X"), NOW + HOUR)
    assert changes(swap) == [("new", "X"), ("replaced", "B")]
    assert swap.detail["gpu_uuids"] == ["A", "X"]
    assert ledger.hardware().gpus["B"].gpu.node == ""
    [back] = ledger.record_hardware(gpus("n3", "B"), NOW + 2 * HOUR)
    assert back.why == "GPU 0 B came from the shelf"


def test_a_lost_card_is_no_replacement(ledger: Ledger) -> None:
    ledger.record_hardware(gpus("n1", "A", "B"), NOW)
    assert ledger.record_hardware(gpus("n1", "A"), NOW + HOUR) == ()
    assert ledger.hardware().gpus["B"].gpu.node == "n1"


def test_a_reboot_is_told_once(ledger: Ledger) -> None:
    ledger.record_hardware(gpus("n1", "A"), NOW)
    [event] = ledger.record_hardware(gpus("n1", "A", boot_id="b2"), NOW + HOUR)
    assert (event.why, event.boot_id, event.detail["rebooted"]) == ("rebooted", "b2", True)
    assert ledger.record_hardware(gpus("n1", "A", boot_id="b2"), NOW + HOUR) == ()
    assert ledger.record_hardware(gpus("n1", "A", boot_id=None), NOW + HOUR) == ()


def test_a_thousand_nodes_at_once(ledger: Ledger) -> None:
    seen = [gpu for node in range(1000) for gpu in gpus(f"n{node}", f"{node}a", f"{node}b")]
    assert len(ledger.record_hardware(seen, NOW)) == 1000
    assert ledger.record_hardware(seen, NOW) == ()


def test_nothing_that_was_known_is_forgotten() -> None:
    known = Inventory({"A": Known(Gpu("A", "n1", "0", "SA", "board", "H100"), NOW, NOW)}, {"n1": "b1"})
    [row] = compare([Gpu("A", "n1", "0")], known, NOW + HOUR).gpus
    assert (row.gpu.serial, row.gpu.board, row.gpu.sku) == ("SA", "board", "H100")
