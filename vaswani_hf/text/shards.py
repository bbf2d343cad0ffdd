# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Parts of a text file for several processes, none of which has to read the whole file."""

import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, Self


_BLOCK_BYTES = 1 << 20


class Shard(NamedTuple):
    """One of several parts of a file that follow each other; `number` counts from 1."""

    number: int
    num_shards: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """The shard that is written as `3/8`.

        Raises:
            ValueError: if the text names none.
        """
        match = re.fullmatch(r"(\d+)/(\d+)", text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise ValueError(f"A shard is written I/N, such as 1/8 up to 8/8, got {text}.")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        """As it is written on the command line."""
        return f"{self.number}/{self.num_shards}"

    def lines(self, file: BinaryIO) -> Iterator[bytes]:
        """The lines of a shard with their ends.

        The file is cut into parts of the same number of bytes, as by `split -n l/I/N`; a line
        belongs to the part in which it begins. So the shards one after the other are the file.

        Args:
            file: one that can be searched; it must not change while its shards are read.

        Raises:
            ValueError: if it is a pipe or a terminal.
        """
        place, end = self._part(file)
        file.seek(max(place - 1, 0))
        if place:  # to the end of the line that holds the last byte before this part
            place += len(file.readline()) - 1
        while place < end:
            line = file.readline()
            place += len(line)
            yield line

    def num_lines_before(self, file: BinaryIO) -> int:
        """How many lines of a file belong to earlier shards; argument and errors as for `lines`."""
        begin, _ = self._part(file)
        if not begin:
            return 0
        count, rest = 1, begin - 1  # the first line, and those that begin after an end before this
        file.seek(0)
        while rest and (block := file.read(min(rest, _BLOCK_BYTES))):
            count += block.count(b"\n")
            rest -= len(block)
        return count

    def _part(self, file: BinaryIO) -> tuple[int, int]:
        """The bytes in which the lines of the shard begin: the first, and where the next begins."""
        if not file.seekable():
            raise ValueError(f"Shard {self} needs a file; a pipe or a terminal has no parts.")
        size = file.seek(0, 2)
        return (
            size * (self.number - 1) // self.num_shards,
            size * self.number // self.num_shards,
        )
