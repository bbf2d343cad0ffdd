"""docs/fidelity.md has one table of rulings, and names tests that exist for each."""

import ast
import functools
import re

import pytest

from tests.conftest import REPOSITORY


PAGE = (REPOSITORY / "docs" / "fidelity.md").read_text(encoding="utf-8")
NOT_YET = "not yet"


def rows(heading):
    """Cells of the rows below a heading that start with a number, in their order."""
    section = PAGE.partition(f"# {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if re.match(r"\|\s*\d+\s*\|", line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def named_in(cell):
    """The tests that a cell names, as pairs of path and name."""
    return re.findall(r"`([^`:]+)::([^`]+)`", cell)


@functools.cache
def functions_of(path):
    """The top-level test functions of a file, without running it."""
    tree = ast.parse((REPOSITORY / path).read_text(encoding="utf-8"))
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


RULINGS, TESTS = rows("Fidelity to the paper"), rows("Tests of each ruling")


def test_every_ruling_stands_once_and_in_order():
    assert [int(row[0]) for row in RULINGS] == list(range(1, len(RULINGS) + 1))
    assert len(RULINGS) >= 31
    for row in RULINGS:
        assert len(row) == 4
        assert all(row), f"row {row[0]} has an empty cell"


def test_every_ruling_has_a_row_of_tests():
    assert [row[0] for row in TESTS] == [row[0] for row in RULINGS]


@pytest.mark.parametrize(
    ("ruling", "tests"), list(zip(RULINGS, TESTS, strict=True)), ids=[row[0] for row in RULINGS]
)
def test_a_ruling_names_tests_that_exist_or_says_not_yet(ruling, tests):
    cell = tests[1]
    assert ruling[3].startswith(NOT_YET) == (cell == NOT_YET)
    if cell == NOT_YET:
        return
    # Nothing in the cell but tests, and none of them misspelt so that it is passed over.
    parts = cell.split("<br>")
    assert [f"`{path}::{name}`" for path, name in named_in(cell)] == parts
    assert len(set(parts)) == len(parts)
    for path, name in named_in(cell):
        assert path.startswith("tests/")
        assert name in functions_of(path), f"{path} has no {name}"
