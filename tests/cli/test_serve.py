import sys

import pytest

from vaswani_hf.cli import main


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--max_queue", "0"], "max_queue must be above 0"),
        (["--timeout_seconds", "nan"], "timeout_seconds must be above 0"),
        (["--num_beams", "0"], "--num_beams must be at least 1, got 0"),
        (["--dtype", "float16", "--engine", "ctranslate2"], "--dtype is for --engine transformers"),
        (["--compute_type", "int8"], "--compute_type is for --engine ctranslate2 only"),
        (["--api_keys", "nowhere"], "nowhere"),
        (["--port", "99999"], "port must be between 0 and 65535, got port=99999"),
        (["--host", "256.1.1.1", "--port", "0"], "256.1.1.1 port 0 cannot be served"),
        (["--model", "nowhere/at/all"], "nowhere/at/all"),
        ([], "--model en-de="),  # it has no card
    ],
)
def test_what_cannot_be_served_is_one_line(copier_folder, capsys, options, error):
    for package in ("fastapi", "uvicorn", "prometheus_client", "python_multipart", "sentencex"):
        pytest.importorskip(package)
    assert main(["serve", "--model", str(copier_folder), "--port", "0", *options]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert error in line


def test_a_missing_package_is_told_with_its_extra(copier_folder, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert main(["serve", "--model", f"en-de={copier_folder}"]) == 1
    assert 'pip install "vaswani-hf[serve]"' in capsys.readouterr().err
