# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Parts of a text file for several processes, none of which has to read the whole file."""

import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, Self


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
        if not file.seekable():
            raise ValueError(f"Shard {self} needs a file; a pipe or a terminal has no parts.")
        size = file.seek(0, 2)
        place, end = (size * number // self.num_shards for number in (self.number - 1, self.number))
        file.seek(max(place - 1, 0))
        if place:  # to the end of the line that holds the last byte before this part
            place += len(file.readline()) - 1
        while place < end:
            line = file.readline()
            place += len(line)
            yield line
