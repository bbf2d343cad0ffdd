"""The folder is a Space: its front matter and requirements fit the package."""

import tomllib

import pytest
import yaml
from packaging.requirements import Requirement

from tests.conftest import REPOSITORY


SPACE = REPOSITORY / "demo"
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def front_matter():
    before, matter, _ = (SPACE / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    assert before == ""
    return yaml.safe_load(matter)


def test_the_front_matter_names_what_is_there(front_matter):
    assert front_matter["sdk"] == "gradio"
    assert (SPACE / front_matter["app_file"]).is_file()
    assert front_matter["license"] == PROJECT["license"].lower()
    assert len(front_matter["short_description"]) <= 60  # the Hub's limit


def test_gradio_is_of_a_version_that_the_extra_takes_and_the_tests_use(front_matter):
    (gradio,) = map(Requirement, PROJECT["optional-dependencies"]["page"])
    assert gradio.name == "gradio" and front_matter["sdk_version"] in gradio.specifier
    pins = (REPOSITORY / "constraints.txt").read_text().splitlines()
    assert f"gradio=={front_matter['sdk_version']}" in pins


def test_the_requirement_is_this_package_with_its_extra():
    (line,) = (SPACE / "requirements.txt").read_text().splitlines()
    requirement = Requirement(line)
    assert requirement.name == PROJECT["name"]
    assert requirement.extras <= PROJECT["optional-dependencies"].keys()
