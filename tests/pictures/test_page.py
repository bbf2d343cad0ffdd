import base64
import json
import re
import shutil
import struct
import subprocess

import pytest

from vaswani_hf.pictures import attention_of, attention_page


SOURCE, TARGET = "a bead fed cab", "decade bad a"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def data_of(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page, flags=re.DOTALL)[1])


def test_the_page_has_every_weight_and_every_word(translator):
    attention = attention_of(translator, SOURCE, TARGET)
    data = data_of(attention_page(attention))
    for kind, found in data["kinds"].items():
        weights = attention.weights[kind]
        whole = base64.b64decode(found["weights"])
        numbers = struct.unpack(f"<{weights.numel()}H", whole)
        assert [number / 65535 for number in numbers] == pytest.approx(
            weights.flatten().tolist(), abs=0.51 / 65535
        )
        assert (found["layers"], found["heads"]) == tuple(weights.shape[:2])
        assert found["queries"] == attention.queries[kind]
        assert found["keys"] == attention.keys[kind]


def test_the_page_loads_nothing(translator):
    page = attention_page(attention_of(translator, SOURCE, TARGET))
    namespace = "http://www.w3.org/2000/svg"
    assert "//" not in page.replace(namespace, "").split('id="data"')[0]
    assert not re.search(
        r"""(src|href)=|url\(|@import|fetch\(|https?:""", page.replace(namespace, "")
    )


def test_words_cannot_end_the_script_that_holds_them(translator):
    page = attention_page(attention_of(translator, "a </script> cab", TARGET))
    assert data_of(page)["source"] == "a </script> cab"
    assert page.count("</script>") == 2


# What a reader does, and then what the page shows, as JSON in its title.
READER = """<script>
{
const all = (selector) => [...document.querySelectorAll(selector)];
const shown = [];
const look = () => shown.push({
  pressed: all("#queries button[aria-pressed=true]").map((one) => one.textContent),
  lines: all("#lines line").length,
  said: byId("said").textContent,
  keys: all("#keys .key").map((one) => one.textContent),
  heads: all("[name=head]:checked").map((one) => one.value),
  wide: document.documentElement.scrollWidth > document.documentElement.clientWidth,
});
const press = (key) => {
  const event = new KeyboardEvent("keydown", {key, bubbles: true});
  document.activeElement.dispatchEvent(event);
};
look();
all("[name=layer]")[0].click();
all("[name=head]")[0].click();
all("#queries button")[2].click();
look();
all("#queries button")[2].focus();
press("ArrowDown");
look();
press("Escape");
all("[value=encoder]")[0].click();
all("#thumbs button")[0].click();
look();
document.title = JSON.stringify(shown);
}
</script>"""


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_a_reader_chooses_words_heads_layers_and_kinds(translator, tmp_path):
    attention = attention_of(translator, SOURCE, TARGET)
    path = tmp_path / "page.html"
    path.write_text(attention_page(attention) + READER, encoding="utf-8")
    done = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=390,800",
         f"--user-data-dir={tmp_path}", "--virtual-time-budget=3000", "--dump-dom", path.as_uri()],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    title = re.search(r"<title>(.*?)</title>", done.stdout, flags=re.DOTALL)[1]
    first, word, below, encoder = json.loads(title.replace("&lt;", "<").replace("&gt;", ">"))
    seen = int((attention.weights["cross"][-1] >= 0.02).sum())
    assert first["pressed"] == [] and first["lines"] == seen and not first["wide"]
    assert first["keys"] == attention.keys["cross"]
    weights = attention.weights["cross"][0, 1:, 2]
    assert word["pressed"] == ["bad"] and word["heads"] == ["1", "2"]
    assert word["lines"] == int((weights >= 0.02).sum())
    best = weights[0].argmax()
    assert "“bad” in layer 0 looks at:" in word["said"]
    assert f"head 1{attention.keys['cross'][best]} " in word["said"]
    assert "“a” in layer 0" in below["said"]
    assert encoder["keys"] == attention.keys["encoder"] and encoder["heads"] == ["0"]
