"""docs/fidelity.md names tests that exist, for every ruling."""

import ast
import re
from pathlib import Path

import pytest


REPOSITORY = Path(__file__).resolve().parent.parent
LEDGER = (REPOSITORY / "docs" / "fidelity.md").read_text(encoding="utf-8")
NOT_YET = "not yet"


def rows_of(page):
    """Cells of the rows that start with a number, in their order."""
    lines = [line for line in page.splitlines() if re.match(r"\|\s*\d+\s*\|", line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def named_in(cell):
    """The tests that a cell names, as pairs of path and name."""
    return re.findall(r"`([^`:]+)::([^`]+)`", cell)


def functions_of(path):
    """The top-level test functions of a file, without running it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


ROWS = rows_of(LEDGER)
NAMED = sorted({test for row in ROWS for test in named_in(row[-1])})


def test_every_ruling_stands_once_and_in_order():
    assert [int(row[0]) for row in ROWS] == list(range(1, 31))
    for row in ROWS:
        assert len(row) == 5
        assert all(row), f"row {row[0]} has an empty cell"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_ruling_names_its_tests_or_says_not_yet(row):
    held_by = row[-1]
    if held_by != NOT_YET:
        parts = held_by.split("<br>")
        # Nothing in the cell but tests, and none of them misspelt so that it is passed over.
        assert [f"`{path}::{name}`" for path, name in named_in(held_by)] == parts
        assert len(set(parts)) == len(parts)


@pytest.mark.parametrize(("path", "name"), NAMED, ids="::".join)
def test_every_named_test_exists(path, name):
    assert path.startswith("tests/")
    assert name in functions_of(REPOSITORY / path)
