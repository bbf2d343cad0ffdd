# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""A model that learns a little English and German in seconds, for the examples of this folder.

The 720 sentences are put together from a few words, and on the way to German things move: the verb
comes second ("today the cat sees" is "heute sieht die Katze"), the participle last.
"""

from functools import cache
from itertools import permutations, product

import torch
from transformers import PreTrainedTokenizerFast

from training.loop.schedule import inverse_sqrt_schedule, peak_learning_rate
from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration, train_tokenizer


SENTENCE = "today the cat has seen the bird"  # no sentence of the training text has these two
TIMES = {"": "", "today": "heute", "now": "jetzt"}
NOUNS = {  # as subject and as object
    "the cat": ("die Katze", "die Katze"),
    "the dog": ("der Hund", "den Hund"),
    "the bird": ("der Vogel", "den Vogel"),
    "the child": ("das Kind", "das Kind"),
    "the man": ("der Mann", "den Mann"),
    "the woman": ("die Frau", "die Frau"),
}
VERBS = {  # in the present, and as participle
    ("sees", "seen"): ("sieht", "gesehen"),
    ("hears", "heard"): ("hört", "gehört"),
    ("finds", "found"): ("findet", "gefunden"),
    ("carries", "carried"): ("trägt", "getragen"),
}
UPDATES, PAIRS_OF_AN_UPDATE, WARMUP_STEPS = 150, 48, 200


def sentence_pairs() -> list[tuple[str, str]]:
    """All sentences and their translations."""
    pairs = []
    for time, (subject, thing), verb in product(TIMES, permutations(NOUNS, 2), VERBS):
        (sees, seen), (sieht, gesehen) = verb, VERBS[verb]
        for english, finite, participle in (
            (sees, sieht, ""),
            (f"has {seen}", "hat", gesehen),
        ):
            first, second = TIMES[time], NOUNS[subject][0]
            german = [first, finite, second] if first else [second, finite]
            german += [NOUNS[thing][1], participle]
            source = " ".join(filter(None, [time, subject, english, thing]))
            pairs.append((source, " ".join(filter(None, german))))
    return pairs


def is_held_out(source: str) -> bool:
    """Whether a sentence is kept from training: all in which the cat does something to the bird."""
    return "cat" in source and source.endswith("bird")


def new_model() -> tuple[VaswaniForConditionalGeneration, PreTrainedTokenizerFast]:
    """A model that has learned nothing, always the same, and a tokenizer whose pieces are words."""
    sentences = [sentence for pair in sentence_pairs() for sentence in pair]
    words = sorted({word for sentence in sentences for word in sentence.split()})
    tokenizer = train_tokenizer(
        sentences, 400, are_files=False, whole_words=words, show_progress=False
    )
    torch.manual_seed(0)
    config = VaswaniConfig(
        vocab_size=len(tokenizer),
        d_model=64,
        d_ff=256,
        num_heads=4,
        encoder_layers=1,
        decoder_layers=1,
    )
    return VaswaniForConditionalGeneration(config).eval(), tokenizer


@cache
def trained_model() -> tuple[VaswaniForConditionalGeneration, PreTrainedTokenizerFast, list[float]]:
    """A model trained as section 5 says, its tokenizer, and the loss of each update."""
    model, tokenizer = new_model()
    pairs = [pair for pair in sentence_pairs() if not is_held_out(pair[0])]
    sources, targets = zip(*pairs, strict=True)
    batch = tokenizer(
        list(sources), text_target=list(targets), padding=True, return_tensors="pt"
    )  # (696, S) and (696, T)
    batch["labels"].masked_fill_(batch["labels"] == tokenizer.pad_token_id, -100)
    peak = peak_learning_rate(model.config.d_model, WARMUP_STEPS)
    optimizer = torch.optim.Adam(model.parameters(), lr=peak, betas=(0.9, 0.98), eps=1e-9)
    schedule = inverse_sqrt_schedule(optimizer, WARMUP_STEPS)
    losses = []
    model.train()
    for _ in range(UPDATES):
        rows = torch.randint(len(pairs), (PAIRS_OF_AN_UPDATE,))
        loss = model(**{name: ids[rows] for name, ids in batch.items()}).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return model.eval(), tokenizer, losses
