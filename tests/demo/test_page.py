"""The page in a browser, as a visitor uses it."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.conftest import REPOSITORY


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
def address(copier_folder):
    """The page, with a model that copies letters, as long as these tests last."""
    pytest.importorskip("gradio", reason="gradio is not installed: pip install -e '.[page]'")
    paths = [str(REPOSITORY / "demo"), str(REPOSITORY), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with subprocess.Popen(
        [sys.executable, "-c", SERVE, str(copier_folder)],
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


def translate(page, sentence=SENTENCE):
    page.get_by_label("Sentence").fill(sentence)
    page.keyboard.press("Enter")
    page.locator("#side-1 .translation").get_by_text(sentence, exact=True).wait_for()


def heads_of(inside, kind, layer):
    """What the small pictures are called, in one layer of a kind."""
    inside.locator("label", has_text=kind).click()
    inside.get_by_role("radio", name=str(layer), exact=True).check(force=True)
    return inside.get_by_role("button", name=f"layer {layer}, head").count()


@pytest.mark.slow
def test_a_visitor_translates_and_looks_inside(page):
    translate(page)
    assert page.locator("#side-1 .n-best tbody tr").count() == 4
    inside = page.frame_locator("#side-1 iframe.attention")
    for kind in ("Encoder", "Decoder", "Cross"):
        assert heads_of(inside, kind, 0) == heads_of(inside, kind, 1) == 4
    # A copy: some head of the decoder looks from a word to where that comes from.
    inside.get_by_role("button", name="c", exact=True).click()
    told = inside.locator("#said")
    before = told.inner_text()
    assert before.startswith("“c” in layer 1 looks at:") and before.count("head") == 4
    inside.get_by_role("radio", name="0", exact=True).check(force=True)
    told.get_by_text("“c” in layer 0 looks at:").wait_for()
    inside.get_by_role("checkbox", name="head 2").uncheck(force=True)
    assert told.inner_text().count("head") == 3
    page.get_by_role("tab", name="Beam tree").click()
    tree = page.locator("#side-1 .tree svg")
    tree.wait_for()
    assert SENTENCE in tree.get_attribute("aria-label")
    won = tree.locator("g.wins > text:first-of-type").all_text_contents()
    assert won[-1] == "</s>"


@pytest.mark.slow
def test_a_visitor_compares_two_models(page, copier_folder):
    page.get_by_label("Compare with").fill(str(copier_folder))
    translate(page)
    page.locator("#side-2 iframe.attention").wait_for()
    assert page.locator("#side-2 .translation").inner_text() == SENTENCE
    page.get_by_label("Compare with").fill("")
    page.keyboard.press("Enter")
    page.locator("#side-2").wait_for(state="hidden")


@pytest.mark.slow
def test_a_wrong_model_is_told_and_the_right_one_works_again(page, copier_folder):
    page.get_by_label("Model").fill("no/such folder")
    page.get_by_role("button", name="Translate").click()
    told = page.get_by_role("alert").filter(has_text="There is no folder no/such folder")
    told.wait_for()
    assert "Traceback" not in page.inner_text("body")
    assert not page.get_by_role("tab", name="Beam tree").is_visible()
    page.get_by_label("Model").fill(str(copier_folder))
    translate(page)
    page.locator("#side-1 iframe.attention").wait_for()


@pytest.mark.slow
def test_the_keyboard_is_enough(page):
    translate(page)
    inside = page.frame_locator("#side-1 iframe.attention")
    inside.get_by_role("button", name="<start>").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    pressed = inside.locator("#queries [aria-pressed=true]")
    assert pressed.inner_text() == "a"
    inside.locator("#said").get_by_text("“a” in layer 1 looks at:").wait_for()
    page.get_by_role("tab", name="Attention").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.locator("#side-1 .tree svg").wait_for()
