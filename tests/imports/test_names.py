import importlib
import sys

import pytest

from vaswani_hf.imports import imported_at_use


PACKAGE = """
from vaswani_hf.imports import imported_at_use

__getattr__, __dir__ = imported_at_use(__name__, {"lights": "lamp", "lamp": "lamp"})
"""


@pytest.fixture
def house(tmp_path, monkeypatch):
    """A package whose names are imported when they are used."""
    (tmp_path / "house").mkdir()
    (tmp_path / "house" / "__init__.py").write_text(PACKAGE)
    (tmp_path / "house" / "lamp.py").write_text("lights = ['red']")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("house")
    for name in ("house", "house.lamp"):
        sys.modules.pop(name, None)


def test_a_name_is_imported_when_it_is_used_and_then_kept(house):
    assert "house.lamp" not in sys.modules
    assert house.lights == ["red"]
    assert house.lights is sys.modules["house.lamp"].lights is vars(house)["lights"]


def test_a_module_of_the_package_is_a_name_too(house):
    assert house.lamp is sys.modules["house.lamp"]


def test_names_are_listed_before_they_are_imported(house):
    assert {"lamp", "lights", "__name__"} <= set(dir(house))
    assert "house.lamp" not in sys.modules


def test_another_name_is_an_attribute_error(house):
    assert not hasattr(house, "darkness")
    with pytest.raises(ImportError, match="cannot import name 'darkness' from 'house'"):
        from house import darkness  # noqa: F401


def test_both_functions_are_made_for_a_package_by_its_name():
    get_attribute, list_names = imported_at_use("tests", {"references": "references"})
    assert get_attribute("references").__name__ == "tests.references"
    assert "references" in list_names()
