"""What every test shares: no network, one thread, nobody's cache, and the real text where it is."""

import gc
import os
import random
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path


# The libraries read these when they are imported, so they are set before anything imports them.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_EVALUATE_OFFLINE", "1")
HF_HOME = tempfile.TemporaryDirectory(prefix="vaswani_hf_tests_")
os.environ["HF_HOME"] = HF_HOME.name

import pytest
import torch
from filelock import FileLock
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from tests.hub.hub_server import HubServer


torch.set_num_threads(1)

REPOSITORY = Path(__file__).resolve().parent.parent


def pytest_collection_finish() -> None:
    # What the imports have made is no garbage, and looking through it takes 0.2 s each time.
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    HF_HOME.cleanup()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("needs a GPU: torch.cuda.is_available() is False")


@pytest.fixture(scope="module")
def heeded_signals() -> Iterator[None]:
    """For tests that send signals: jobs in the background, and under `nohup`, ignore some."""
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.SIGHUP: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real text, which is not part of the repository (see CONTRIBUTING.md)."""
    folder = Path(os.environ.get("VASWANI_DATA", REPOSITORY.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real text at {folder}; VASWANI_DATA names its folder")
    return folder


LETTERS = "abcdefgh"
LONGEST = 10  # letters


@pytest.fixture(scope="session")
def copier(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """A small model that copies up to ten letters, and its tokenizer: what it says is foreseen.

    The first process that asks trains it; the others of a run wait and load it.
    """
    from vaswani_hf import VaswaniForConditionalGeneration

    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "trained_copier"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            model, tokenizer = _train_copier()
            tokenizer.save_pretrained(folder)
            model.save_pretrained(folder)
    return (
        VaswaniForConditionalGeneration.from_pretrained(folder),
        PreTrainedTokenizerFast.from_pretrained(folder),
    )


def _train_copier() -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    from training.loop.schedule import inverse_sqrt_schedule
    from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration, train_tokenizer

    tokenizer = train_tokenizer([" ".join(LETTERS)] * 10, 300, are_files=False, show_progress=False)
    torch.manual_seed(0)
    model = VaswaniForConditionalGeneration(
        VaswaniConfig(
            vocab_size=len(tokenizer),
            d_model=64,
            d_ff=128,
            num_heads=4,
            encoder_layers=2,
            decoder_layers=2,
            dropout=0.0,
        )
    )
    model.generation_config.num_beams = 2
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.9, 0.98), eps=1e-9)
    scheduler = inverse_sqrt_schedule(optimizer, warmup_steps=100)
    chooser = random.Random(0)
    for _ in range(30):
        for _ in range(50):
            batch = tokenizer(_letters(chooser, 48), return_tensors="pt", padding=True)
            labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
            model.train()(**batch, labels=labels).loss.backward()
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        probe = _letters(chooser, 200)
        batch = tokenizer(probe, return_tensors="pt", padding=True)
        copies = model.eval().generate(**batch, num_beams=1, max_new_tokens=LONGEST + 2)
        if tokenizer.batch_decode(copies, skip_special_tokens=True) == probe:
            return model, tokenizer
    pytest.fail("the model did not learn to copy letters")


def _letters(chooser: random.Random, count: int) -> list[str]:
    return [" ".join(chooser.choices(LETTERS, k=chooser.randint(1, LONGEST))) for _ in range(count)]


@pytest.fixture(scope="session")
def unlearned_parser() -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """A model that has learned nothing, and a tokenizer that knows tags and brackets."""
    return _unlearned_parser(has_words=False)


@pytest.fixture(scope="session")
def unlearned_parser_with_words() -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """As `unlearned_parser`, for trees that have their words in them."""
    return _unlearned_parser(has_words=True)


@pytest.fixture(scope="session")
def unlearned_parser_with_numbers() -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """As `unlearned_parser`, for trees that have the numbers of their words in them."""
    return _unlearned_parser(has_words=True, has_numbers=True)


@pytest.fixture(scope="session")
def unlearned_parser_with_numbers_alone() -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """As `unlearned_parser`, for trees in which numbers from the end stand for words."""
    return _unlearned_parser(has_words=False, has_numbers=True, from_end=True)


def _unlearned_parser(
    *, has_words: bool, has_numbers: bool = False, from_end: bool = False
) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    from tests.parsing.treebank import SENTENCES
    from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration, train_tokenizer
    from vaswani_hf.parsing import linearize, tree_of_text
    from vaswani_hf.parsing.constraint import tree_words
    from vaswani_hf.parsing.linearization import with_numbers

    trees = [tree_of_text(text) for text in SENTENCES]
    sequences = [linearize(tree, has_words=has_words) for tree in trees]
    if has_numbers:
        sequences = [
            with_numbers(tokens, tree.words(), has_words=has_words, from_end=from_end)
            for tokens, tree in zip(sequences, trees, strict=True)
        ]
    tokenizer = train_tokenizer(
        [" ".join(tree.words()) for tree in trees] * 3,
        vocab_size=740 if has_numbers else 340,
        are_files=False,
        whole_words=tree_words(
            sequences, has_words=has_words, has_numbers=has_numbers, from_end=from_end
        ),
        show_progress=False,
    )
    torch.manual_seed(0)
    model = VaswaniForConditionalGeneration(
        VaswaniConfig(
            vocab_size=len(tokenizer),
            d_model=16,
            d_ff=32,
            num_heads=2,
            encoder_layers=1,
            decoder_layers=1,
        )
    )
    model.generation_config.max_extra_tokens = 40
    return model.eval(), tokenizer


@pytest.fixture
def hub_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubServer]:
    """A running Hub, where alice and bob may write, alice in the organisation lab too.

    The reader may read there. The token of each is `hf_` and the name.
    """
    with HubServer(tmp_path_factory.mktemp("hub")) as hub:
        hub.add_user("alice", "hf_alice", organizations=["lab"])
        hub.add_user("bob", "hf_bob")
        hub.add_user("reader", "hf_reader", role="read", organizations=["lab"])
        yield hub


@pytest.fixture
def hub_environment(
    hub_server: HubServer, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., dict[str, str]]:
    """A function of a user's name (or none): the environment of a process that talks to the Hub.

    Each call makes an empty cache. A process of its own is needed, because the client reads these
    variables when it is imported.
    """

    def environment(user: str | None = None) -> dict[str, str]:
        home = tmp_path_factory.mktemp("hf_home")
        return hub_server.environment(home, f"hf_{user}" if user else None)

    return environment


@pytest.fixture(scope="module")
def copier_folder(
    copier: tuple[PreTrainedModel, PreTrainedTokenizerFast],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A folder that holds `copier`."""
    from vaswani_hf.hub.folder import export

    path = tmp_path_factory.mktemp("copier")
    export(*copier, path)
    return path


@pytest.fixture(scope="module")
def talkative(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A folder of ours and one of CTranslate2, of a model with two vocabularies."""
    from tests.translation.ctranslate2_models import save, talkative_model
    from vaswani_hf.conversion import to_ctranslate2

    path = tmp_path_factory.mktemp("talkative")
    to_ctranslate2(save(talkative_model(), path / "ours"), path / "theirs")
    return path / "ours", path / "theirs"
