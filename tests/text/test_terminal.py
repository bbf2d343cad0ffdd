import io
import sys

from vaswani_hf.text.terminal import escape_unprintable


def test_what_the_encoding_lacks_is_escaped(monkeypatch):
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "stderr", io.StringIO())  # which has no encoding to set
    escape_unprintable()
    sys.stdout.write("Bögen")
    terminal.flush()
    assert terminal.buffer.getvalue() == rb"B\xf6gen"
