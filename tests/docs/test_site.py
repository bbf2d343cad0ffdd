"""The site of docs/: links and anchors lead somewhere, and nothing is loaded from elsewhere."""

import re
import subprocess
import sys

import pytest

from tests.conftest import REPOSITORY


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site; the build fails where a link or an anchor leads nowhere."""
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install -e '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return folder


def test_every_page_is_in_the_site(site):
    pages = [path.relative_to(REPOSITORY / "docs") for path in REPOSITORY.glob("docs/**/*.md")]
    assert len(pages) >= 20
    for page in pages:
        folder = page.parent if page.stem == "index" else page.with_suffix("")
        assert (site / folder / "index.html").is_file(), page


def test_nothing_is_loaded_from_elsewhere(site):
    # Links may lead elsewhere; scripts, styles, fonts and pictures may not come from there.
    for path in site.rglob("*.html"):
        html = path.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe|source|link)\b[^>]*", html)
        assert loaded
        for tag in loaded:
            assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", tag), (path.name, tag)
    for path in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", path.read_text()), (
            path.name
        )


def test_public_names_are_in_the_reference(site):
    import vaswani_hf
    from vaswani_hf import conversion, evaluation, hub, parsing, pictures, vocabulary

    shown = "".join(path.read_text("utf-8") for path in site.glob("reference/**/index.html"))
    for module in (vaswani_hf, conversion, evaluation, hub, parsing, pictures, vocabulary):
        for name in module.__all__:
            assert f'id="{module.__name__}.{name}"' in shown, f"{module.__name__}.{name}"
