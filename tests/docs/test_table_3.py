"""The page on Table 3 in small has what was measured last."""

import json

from benchmarks.table_3 import markdown
from tests.conftest import REPOSITORY
from tests.docs.pages import read


def test_the_table_on_the_page_is_that_of_the_newest_report():
    reports = sorted((REPOSITORY / "benchmarks" / "results").glob("*-table_3.json"))
    shown = markdown(json.loads(reports[-1].read_text("utf-8"))) if reports else "None yet:"
    assert shown in read("docs/table_3.md")
