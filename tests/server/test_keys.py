import hmac

import pytest

from vaswani_hf.server.errors import RequestError
from vaswani_hf.server.keys import check_key, read_keys


def test_a_file_has_a_key_a_line(tmp_path):
    path = tmp_path / "keys"
    path.write_bytes(b"\xef\xbb\xbfone\n\n  two \r\n")  # as Windows' editors write it
    assert read_keys(path) == ["one", "two"]


@pytest.mark.parametrize(("content", "error"), [(b" \n", "holds no key"), (b"\xff", "not UTF-8")])
def test_a_file_without_keys_is_refused(tmp_path, content, error):
    path = tmp_path / "keys"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=error):
        read_keys(path)


def test_a_key_is_missing_or_wrong_or_right():
    for given, status in ((None, 400), ("", 400), ("thre", 403), ("three ", 403), ("\udcff", 403)):
        with pytest.raises(RequestError) as caught:
            check_key(["one", "three"], given)
        assert caught.value.status == status
    check_key(["one", "three"], "one")
    check_key(["one", "three"], "three")
    check_key(None, None)


def test_every_key_is_compared_in_constant_time(monkeypatch):
    compared, compare = [], hmac.compare_digest

    def count(*sides):
        compared.append({len(side) for side in sides})
        return compare(*sides)

    monkeypatch.setattr(hmac, "compare_digest", count)
    check_key(["one", "three", "four"], "one")
    assert compared == [{32}] * 3  # of one length, and not only up to the first that is right
