"""`vaswani-hf translate --format html`, `xliff` and `placeholders`."""

import pytest

from vaswani_hf.cli import main


@pytest.mark.parametrize(
    ("markup", "text", "expected"),
    [
        ("html", "<p>a\r\n<b>b c</b> d</p>\r\n<hr>", "<p>a <b>b c</b> d</p>\r\n<hr>"),
        ("placeholders", "a {n} b\r\n\n%s\nc <b>d</b>", None),
        (
            "xliff",
            '<xliff version="1.2"><trans-unit><source>a <g>b</g></source></trans-unit></xliff>',
            '<xliff version="1.2"><trans-unit><source>a <g>b</g></source>'
            "<target>a <g>b</g></target></trans-unit></xliff>",
        ),
    ],
)
def test_a_document_is_written_whole(copier_folder, tmp_path, markup, text, expected):
    pytest.importorskip("sentencex")
    source, output = tmp_path / "in", tmp_path / "out"
    source.write_bytes(text.encode())
    language = [] if markup == "placeholders" else ["--language", "en"]
    command = ["translate", "--model", copier_folder, source, "--format", markup, "--device", "cpu"]
    assert main(list(map(str, [*command, *language, "--output", output]))) == 0
    assert output.read_bytes().decode() == (expected or text)


def test_what_is_not_xliff_is_one_line(copier_folder, tmp_path, capsys):
    pytest.importorskip("sentencex")
    source = tmp_path / "in"
    source.write_text("<html/>")
    command = ["translate", "--model", copier_folder, source, "--format", "xliff"]
    assert main([*map(str, command), "--language", "en"]) == 1
    assert "not XLIFF: its first element is <html>" in capsys.readouterr().err
