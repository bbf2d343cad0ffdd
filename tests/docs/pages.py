"""The pages that a reader opens, and the blocks of code on them."""

import re
from dataclasses import dataclass

from tests.conftest import REPOSITORY


PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *sorted(
        str(path.relative_to(REPOSITORY))
        for folder in ("docs", "docs/tour")
        for path in (REPOSITORY / folder).glob("*.md")
    ),
]


LOOP = re.compile(r"^for (\w+) in (.*); do\n(.*?)^done$", re.DOTALL | re.MULTILINE)


@dataclass
class Block:
    """A fenced block: its language, its text, and the paragraph above it."""

    language: str
    text: str
    before: str


def read(page: str) -> str:
    return (REPOSITORY / page).read_text(encoding="utf-8")


def blocks(page: str) -> list[Block]:
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", read(page), flags=re.DOTALL | re.MULTILINE)
    return [
        Block(match[1], match[2], match.string[: match.start()].rstrip().rpartition("\n\n")[2])
        for match in found
    ]


def _unrolled(loop: re.Match[str]) -> str:
    """The commands of a loop of the shell over numbers, without it."""
    name, numbers, body = loop.groups()
    return "".join(
        body.replace(f"$(({name} - 1))", str(int(number) - 1)).replace(f"${name}", number)
        for number in numbers.split()
    )


def commands(block: Block) -> list[str]:
    """The commands of a shell block, a line each, without comments."""
    lines = LOOP.sub(_unrolled, block.text).replace("\\\n", " ").splitlines()
    plain = [re.sub(r"(^|\s)#.*$", "", line).strip() for line in lines]
    return [" ".join(line.split()) for line in plain if line]
