import io
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaswani_hf.text.shards import Shard


@given(st.lists(st.binary(max_size=9), max_size=40).map(b"\n".join), st.integers(1, 12))
def test_shards_one_after_the_other_are_the_file(content, count):
    lines = [
        list(Shard(number, count).lines(io.BytesIO(content))) for number in range(1, count + 1)
    ]
    assert [line for shard in lines for line in shard] == io.BytesIO(content).readlines()


@given(st.lists(st.binary(max_size=9), max_size=40).map(b"\n".join), st.integers(1, 12))
def test_the_lines_before_a_shard_are_those_of_the_shards_before(content, count):
    file, num_before = io.BytesIO(content), 0
    for number in range(1, count + 1):
        shard = Shard(number, count)
        lines = list(shard.lines(file))
        assert shard.num_lines_before(file) == num_before
        num_before += len(lines)


def test_a_line_is_of_the_shard_in_which_it_begins():
    # Twelve bytes by three: lines begin at 0, 3, 4 and 9; the second shard begins with one.
    content = b"aa\n\nbbbb\ncc\n"
    shards = [list(Shard(number, 3).lines(io.BytesIO(content))) for number in (1, 2, 3)]
    assert shards == [[b"aa\n", b"\n"], [b"bbbb\n"], [b"cc\n"]]


@pytest.mark.parametrize("text", ["0/4", "5/4", "1/0", "3", "a/b", "-1/4", "1/4/5", ""])
def test_what_is_no_shard_is_refused_by_name(text):
    with pytest.raises(ValueError, match=f"A shard is written I/N.*got {text}"):
        Shard.parse(text)


def test_a_shard_is_written_as_it_is_read():
    assert str(Shard.parse("3/8")) == "3/8"


def test_a_pipe_has_no_shards():
    reader, writer = os.pipe()
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe, pytest.raises(ValueError, match="Shard 1/2 needs a file"):
        list(Shard(1, 2).lines(pipe))
