"""The page in a browser, as a visitor uses it."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.conftest import REPOSITORY
from vaswani_hf import Translator


SENTENCE = "a b c d"
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
WAIT = 120_000  # milliseconds, for slow machines
# The page on a free port, which is told by the first line.
SERVE = """
import sys
from app import start
page = start(sys.argv[1], "", prevent_thread_lock=True, quiet=True)
print(page.local_url, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def address(folder):
    """The page, with a model that has learned nothing, as long as these tests last."""
    pytest.importorskip("gradio", reason="gradio is not installed: pip install -e '.[page]'")
    paths = [str(REPOSITORY / "demo"), str(REPOSITORY), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with subprocess.Popen(
        [sys.executable, "-c", SERVE, str(folder)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        yield server.stdout.readline().strip()
        server.stdin.close()


@pytest.fixture(scope="module")
def browser():
    library = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed")
    with library.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(params=[1280, 390], ids=["wide", "phone"])
def page(request, browser, address):
    """The page just opened, and a list of what it asks others for."""
    context = browser.new_context(
        viewport={"width": request.param, "height": 844}, has_touch=request.param == 390
    )
    context.set_default_timeout(WAIT)
    page = context.new_page()
    page.asked, page.failed = [], []
    page.on("request", lambda one: page.asked.append(one.url))
    page.on("pageerror", lambda error: page.failed.append(str(error)))
    page.goto(address)
    page.get_by_label("Sentence").wait_for()
    yield page
    # Nothing comes from elsewhere, no script has failed, and nothing is wider than the screen.
    elsewhere = [url for url in page.asked if not url.startswith((address, "data:", "blob:"))]
    assert not elsewhere and not page.failed
    assert page.evaluate("document.documentElement.scrollWidth") == request.param
    context.close()


@pytest.fixture(scope="module")
def expected(folder):
    """What the model says, as it is seen: a browser shows one blank for several."""
    (text,) = Translator.from_pretrained(folder, num_beams=4)([SENTENCE])
    return " ".join(text.split())


def translate(page):
    """Type a sentence; the translation that is there in the end."""
    page.get_by_label("Sentence").fill(SENTENCE)
    page.keyboard.press("Enter")
    page.locator("#side-1 iframe.attention").wait_for()
    return page.locator("#side-1 .translation").inner_text()


def choose(inside, kind, layer):
    inside.locator("label", has_text=kind).click()
    inside.locator("#layers label", has_text=str(layer)).click()


@pytest.mark.slow
def test_a_visitor_translates_and_looks_inside(page, expected):
    assert translate(page) == expected
    assert page.locator("#side-1 .n-best tbody tr").count() == 4
    inside = page.frame_locator("#side-1 iframe.attention")
    told = inside.locator("#said")
    for kind, num_layers in (("Decoder", 3), ("Cross", 3), ("Encoder", 2)):  # of small_model
        choose(inside, kind, num_layers - 1)
        assert inside.locator("#layers label").count() == num_layers
        assert inside.locator("#heads label").count() == 4
    inside.get_by_role("button", name="c", exact=True).click()
    assert told.inner_text().startswith("“c” in layer 1 looks at:")
    assert told.inner_text().count("head") == 4
    inside.locator("#layers label", has_text="0").click()
    assert told.inner_text().startswith("“c” in layer 0 looks at:")
    inside.locator("#heads label", has_text="2").click()
    assert told.inner_text().count("head") == 3
    page.get_by_role("tab", name="Beam tree").click()
    tree = page.locator("#side-1 .tree svg")
    tree.wait_for()
    label = " ".join(tree.get_attribute("aria-label").split())
    assert label.endswith(f"It returned: {expected}".strip())


@pytest.mark.slow
def test_a_visitor_compares_two_models(page, folder, expected):
    page.get_by_label("Compare with").fill(str(folder))
    assert translate(page) == expected
    page.locator("#side-2 iframe.attention").wait_for()
    assert page.locator("#side-2 .translation").inner_text() == expected
    page.get_by_label("Compare with").fill("")
    page.keyboard.press("Enter")
    page.locator("#side-2").wait_for(state="hidden")


@pytest.mark.slow
def test_a_wrong_model_is_told_and_the_right_one_works_again(page, folder, expected):
    page.get_by_label("Model").fill("no/such folder")
    page.get_by_role("button", name="Translate").click()
    told = page.get_by_role("alert").filter(has_text="There is no folder no/such folder")
    told.wait_for()
    assert "Traceback" not in page.inner_text("body")
    assert not page.get_by_role("tab", name="Beam tree").is_visible()
    page.get_by_label("Model").fill(str(folder))
    assert translate(page) == expected


@pytest.mark.slow
def test_a_sentence_that_is_too_long_is_told_and_not_cut(page):
    page.get_by_label("Sentence").fill("a " * 1000)
    page.keyboard.press("Enter")
    page.get_by_role("alert").filter(has_text="The sentence has 1999 characters").wait_for()
    assert len(page.get_by_label("Sentence").input_value()) == 2000


@pytest.mark.slow
def test_the_keyboard_is_enough(page):
    translate(page)
    inside = page.frame_locator("#side-1 iframe.attention")
    choose(inside, "Encoder", 0)
    inside.get_by_role("button", name="a", exact=True).focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert inside.locator("#queries [aria-pressed=true]").inner_text() == "b"
    assert inside.locator("#said").inner_text().startswith("“b” in layer 0 looks at:")
    page.get_by_role("tab", name="Attention").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.locator("#side-1 .tree svg").wait_for()
