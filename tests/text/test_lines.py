"""Text files by the line: their ends, their encoding, and what is damaged."""

import gzip

import pytest

from vaswani_hf.text.lines import decode_lines, read_decodable_lines, read_lines


TEXT = "Zwei Hunde.\nEin Haus am See.\n" * 500


def test_only_a_newline_ends_a_line(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\rb\x0bc\r\n\xe2\x80\xa8\n\nlast")
    assert list(read_lines(path)) == ["a\rb\x0bc", "\u2028", "", "last"]


@pytest.mark.parametrize("read", [read_lines, read_decodable_lines])
@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path, read, name):
    path, content = tmp_path / name, "\ufeffHallo\n\ufeffWelt\n".encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    # Unicode 15, section 23.8: at the start it is a signature, elsewhere a character.
    assert list(read(path)) == ["Hallo", "\ufeffWelt"]


def test_a_line_that_is_not_utf8_is_named_or_left_open(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\ncaf\xe9\nthree\n")
    with pytest.raises(ValueError, match=r"a\.txt, line 2 is not UTF-8"):
        list(read_lines(path))
    assert list(read_decodable_lines(path)) == ["one", None, "three"]
    with pytest.raises(ValueError, match="standard input, line 1 is not UTF-8"):
        list(decode_lines([b"\xff\xfe"], "standard input"))


def damaged_files():
    whole = gzip.compress(TEXT.encode())
    middle = len(whole) // 2
    return {
        "cut": whole[:middle],
        "changed": whole[:middle] + bytes(byte ^ 0xFF for byte in whole[middle:]),
        "other checksum": whole[:-8] + bytes(4) + whole[-4:],
        "plain text": TEXT.encode(),
    }


@pytest.mark.parametrize("read", [read_lines, read_decodable_lines])
@pytest.mark.parametrize("damage", damaged_files())
def test_a_damaged_gzip_is_one_line_that_names_the_file(tmp_path, read, damage):
    path = tmp_path / "train.de.gz"
    path.write_bytes(damaged_files()[damage])
    with pytest.raises(ValueError, match=r"train\.de\.gz is not a complete gzip file") as caught:
        list(read(path))
    assert "\n" not in str(caught.value)
