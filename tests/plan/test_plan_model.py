from pathlib import Path

import pytest

from guardctl.plan.model import load, parse
from guardctl.words.errors import InputError

from .models import TEXT


def test_a_model_as_written() -> None:
    model = parse(TEXT, name="m.toml")
    assert (model.num_layers, model.num_micro_batches, model.tensor, model.max_stages) == (8, 8, 4, 4)
    assert model.slowdown == {4: 1.0, 2: 1.9, 1: 3.7}
    assert model.memory.per_layer_mb == (15, 14, 12, 10)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("layers = 8", "layers = 0", "m.toml:3: [model] layers = 0"),
        ("layers = 8", "layers = true", "m.toml:3: [model] layers = True"),
        ("micro_batches = 8", "", "m.toml: [model] micro_batches is missing"),
        ("4 = 1.0", "", "has no entry for parallel.tensor = 4"),
        ("4 = 1.0", "4 = 1.1", "m.toml:13: [tensor_slowdown] 4 = 1.1"),
        ("2 = 1.9", "2 = 0.9", "[tensor_slowdown] 2 = 0.9"),
        ("2 = 1.9", "8 = 1.0", "[tensor_slowdown] 8 = 1.0"),
        ("2 = 1.9", "two = 1.0", "[tensor_slowdown] two = 1.0"),
        ("per_layer = [15, 14, 12, 10]", "per_layer = []", "[memory] per_layer = []"),
        ("per_layer = [15, 14, 12, 10]", "per_layer = [15, 0]", "[memory] per_layer = [15, 0]"),
        ("bound = 105", 'bound = "105"', "[memory] bound = '105'"),
        ("bound = 105", "bound = nan", "[memory] bound = nan"),
        ("[memory]", "[memory", "m.toml: not TOML"),
    ],
)
def test_a_wrong_model_names_file_line_and_value(old: str, new: str, says: str) -> None:
    with pytest.raises(InputError) as error:
        parse(TEXT.replace(old, new, 1), name="m.toml")
    assert says in str(error.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.toml: cannot be read"):
        load(tmp_path / "none.toml")
    path = tmp_path / "m.toml"
    path.write_text(TEXT)
    assert load(path) == parse(TEXT, name="m.toml")
