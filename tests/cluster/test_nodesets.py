"""Host lists against a corpus, against `scontrol show hostnames`, and against each other."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardctl.cluster import nodesets
from guardctl.words.errors import InputError

HAS_SCONTROL = shutil.which("scontrol") is not None
needs_scontrol = pytest.mark.skipif(not HAS_SCONTROL, reason="scontrol is not installed: apt-get install slurm-client")

COUNTS = {
    "b04-[09-10]": 2,
    "nodeA,nodeB[001,003],nodeC": 4,
    "ml-16-node-[001-002,004],ml-17-node-[001-003]": 6,
    "nid[00001-5]": 5,
    "hi[0-2],,hi[2-3],,this": 5,  # Slurm prints hi2 twice
    "tronic[1-5000]c[1-2]": 10_000,
    "x01[0-1]y01[0-1]z01[0-1]": 8,
    "cluster[0001,0002,1555-1559]-ipmi": 7,  # refused by Slurm 22.05
    " tigrou2 , tigrou7 , tigrou[5,9-11] ": 6,
    "node[0201-0272,0281-0932,1069-2468,4000-4455,5025-5028,5041-5316,7456-7735]": 3140,
    "node[1-855],node[856-1171],node[1172-1320],node[1322-1470]": 1469,
    "n[01-100]": 100,
    "n[1-2][3-4]": 4,
    "n[1,01,001]": 3,
}


def hostnames(text: str, home: Path) -> list[str] | None:
    """What Slurm makes of it; no controller is asked."""
    conf = home / "slurm.conf"
    conf.write_text("ClusterName=none\nSlurmctldHost=localhost\n")
    done = subprocess.run(
        ["scontrol", "show", "hostnames", text], capture_output=True, text=True, check=True, timeout=30,
        env={"PATH": "/usr/bin:/bin", "SLURM_CONF": str(conf)},
    )  # fmt: skip
    if "Invalid hostlist" in done.stderr:  # with exit code 0
        return None
    return done.stdout.split()


@pytest.mark.parametrize(("text", "count"), COUNTS.items())
def test_the_number_of_names(text: str, count: int) -> None:
    assert len(nodesets.expand(text)) == count


def test_order_and_leading_zeros_are_kept() -> None:
    assert nodesets.expand("b04-[09-10]") == ("b04-09", "b04-10")
    assert nodesets.expand("n[5,2],a1") == ("n5", "n2", "a1")
    assert nodesets.expand("nodeA,nodeB[001,003],nodeC") == ("nodeA", "nodeB001", "nodeB003", "nodeC")


@pytest.mark.parametrize("text", ["", " ", "(null)", "None assigned", "N/A", "none", "NONE"])
def test_placeholders_are_no_hosts(text: str) -> None:
    assert nodesets.expand(text) == ()


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("n[1", "brackets do not match"),
        ("n1]", "brackets do not match"),
        ("n[1-2]x[", "brackets do not match"),
        ("n[3-1]", "runs backwards"),
        ("n[]", "not a number or a range"),
        ("n[a-b]", "'a-b'"),
        ("n[1,,2]", "not a number or a range"),
        ("artcore[2-32000],lounge[35-65/2]", "ClusterShell's form, not Slurm's"),
        ("None assigned,gpu36", "'None assigned' is not a host name"),
        ("n1;reboot", "'n1;reboot' is not a host name"),
        ("@all", "'@all' is not a host name"),
        ("n1 n2", "'n1 n2' is not a host name"),
        ("--all", "'--all' is not a host name"),
        ("n[0-9999999]", "more than 1000000 names"),
        ("n[1-2000]x[1-2000]", "more than 1000000 names"),
    ],
)
def test_the_error_names_the_faulty_part(text: str, part: str) -> None:
    with pytest.raises(InputError) as caught:
        nodesets.expand(text)
    assert part in str(caught.value)


def test_folding_is_what_slurm_reads() -> None:
    assert nodesets.fold(["n1", "n3", "n2", "n2"]) == "n[1-3]"
    assert nodesets.fold(["n09", "n10", "n9"]) == "n[9,09-10]"
    assert nodesets.fold(["login", "n1-ipmi", "n2-ipmi"]) == "login,n1-ipmi,n2-ipmi"
    assert nodesets.fold([]) == ""


@pytest.mark.parametrize("name", ["", "n[1-2]", "ALL", "all", "n1,n2", "n 1", "-n", "n1\n", "(null)"])
def test_what_is_not_one_node(name: str) -> None:
    with pytest.raises(InputError, match="not the name of one node"):
        nodesets.check_name(name)


SHAPES = r"[a-z]{1,3}(-[0-9]{1,2})?(x[0-9]{1,3}|[0-9]{1,4}|-ib)?"
names = st.from_regex(SHAPES, fullmatch=True).filter(lambda name: name != "all")
lists = st.lists(names.filter(lambda name: name.lower() not in nodesets.PLACEHOLDERS), min_size=1, max_size=30)


@given(lists)
def test_fold_and_expand_are_inverse(hosts: list[str]) -> None:
    assert set(nodesets.expand(nodesets.fold(hosts))) == set(hosts)


@given(st.text(alphabet="n01[]-,/ x@", max_size=20))
def test_any_text_gives_names_or_an_input_error(text: str) -> None:
    try:
        found = nodesets.expand(text)
    except InputError:
        return
    assert all(nodesets.NAME.fullmatch(name) for name in found)


@needs_scontrol
def test_slurm_reads_what_was_folded(tmp_path: Path) -> None:
    for hosts in (
        ["n1", "n2", "n3", "n07", "n007"],
        ["x010y010z010", "x011y010z011", "x010y011z010", "x011y011z011"],
        ["ml-16-node-001", "ml-16-node-002", "ml-17-node-001", "ml-17-node-002"],
        ["n1-ipmi", "n2-ipmi", "login"],
        ["3abc16156d1", "3abc16256d2", "b04-09", "b04-10"],
    ):
        theirs = hostnames(nodesets.fold(hosts), tmp_path)
        assert theirs is not None, hosts
        assert set(theirs) == set(hosts)


@needs_scontrol
def test_the_corpus_expands_as_slurm_does(data_dir: Path, tmp_path: Path) -> None:
    """Same names in the same order. Differences: duplicates go, more dimensions come in another order."""
    corpus = data_dir / "slurm" / "hostlist" / "expressions.txt"
    if not corpus.exists():
        pytest.skip(f"no {corpus}")
    refused = 0
    for line in corpus.read_text().splitlines()[1:]:
        text = line.split("\t")[0]
        theirs = hostnames(text, tmp_path)
        if theirs is None:
            refused += 1
            continue
        ours = nodesets.expand(text)
        assert set(ours) == set(theirs), text
        if not text.startswith("x01"):
            assert list(ours) == list(dict.fromkeys(theirs)), text
    assert refused == 4  # a suffix after the brackets (3), a step (1)
