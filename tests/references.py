"""The paper's formulas by plain Python loops over floats: slow, obvious, importing nothing of ours.

Tests compare the package against these functions. Arrays are nested lists of floats.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence


Vector = Sequence[float]
Matrix = Sequence[Vector]


def attention_of_one_head(
    queries: Matrix, keys: Matrix, values: Matrix, allowed: Sequence[Sequence[bool]] | None = None
) -> tuple[list[list[float]], list[list[float]]]:
    """Softmax(Q K^T / sqrt(d_k)) V and the softmax itself (section 3.2.1, equation 1).

    Args:
        queries: `(T, d_k)`.
        keys: `(S, d_k)`.
        values: `(S, d_v)`.
        allowed: `(T, S)`, `True` where a query may look; `None` lets it look anywhere.
    """
    mixed, weights = [], []
    for t, query in enumerate(queries):
        scores = {}
        for s, key in enumerate(keys):
            if allowed is None or allowed[t][s]:
                product = sum(a * b for a, b in zip(query, key, strict=True))
                scores[s] = product / math.sqrt(len(key))
        highest = max(scores.values())
        total = sum(math.exp(score - highest) for score in scores.values())
        row = [
            math.exp(scores[s] - highest) / total if s in scores else 0.0 for s in range(len(keys))
        ]
        weights.append(row)
        mixed.append(
            [
                sum(row[s] * values[s][dimension] for s in range(len(keys)))
                for dimension in range(len(values[0]))
            ]
        )
    return mixed, weights


def linear(inputs: Matrix, weight: Matrix, bias: Vector | None = None) -> list[list[float]]:
    """Every row times the transpose of `weight` `(out, in)`, plus `bias` `(out,)`."""
    return [
        [
            sum(x * w for x, w in zip(row, weights, strict=True)) + (bias[o] if bias else 0.0)
            for o, weights in enumerate(weight)
        ]
        for row in inputs
    ]


def multi_head_attention(
    x: Matrix,
    memory: Matrix,
    heads: Sequence[tuple[Matrix, Matrix, Matrix]],
    output_weight: Matrix,
    allowed: Sequence[Sequence[bool]] | None = None,
) -> list[list[float]]:
    """Concat(head_1, ..., head_h) W^O (section 3.2.2).

    Args:
        x: `(T, d_model)`, what the queries are made of.
        memory: `(S, d_model)`, what keys and values are made of.
        heads: W^Q `(d_k, d_model)`, W^K `(d_k, d_model)` and W^V `(d_v, d_model)` of each head.
        output_weight: W^O, `(d_model, h * d_v)`.
        allowed: as in `attention_of_one_head`.
    """
    concatenated: list[list[float]] = [[] for _ in x]
    for query_weight, key_weight, value_weight in heads:
        mixed, _ = attention_of_one_head(
            linear(x, query_weight),
            linear(memory, key_weight),
            linear(memory, value_weight),
            allowed,
        )
        for row, head_row in zip(concatenated, mixed, strict=True):
            row.extend(head_row)
    return linear(concatenated, output_weight)


def feed_forward(
    x: Matrix,
    inner_weight: Matrix,
    inner_bias: Vector,
    outer_weight: Matrix,
    outer_bias: Vector,
) -> list[list[float]]:
    """max(0, x W_1 + b_1) W_2 + b_2 (section 3.3, equation 2)."""
    inner = [[max(0.0, value) for value in row] for row in linear(x, inner_weight, inner_bias)]
    return linear(inner, outer_weight, outer_bias)


def layer_norm(x: Vector, gain: Vector, bias: Vector, epsilon: float) -> list[float]:
    """One vector, shifted and scaled to mean 0 and variance 1, times `gain`, plus `bias`."""
    mean = sum(x) / len(x)
    variance = sum((value - mean) ** 2 for value in x) / len(x)
    return [
        (value - mean) / math.sqrt(variance + epsilon) * g + b
        for value, g, b in zip(x, gain, bias, strict=True)
    ]


def sinusoid(position: int, dimension: int, d_model: int) -> float:
    """One entry of the positional encoding (section 3.5)."""
    angle = position / 10000 ** (2 * (dimension // 2) / d_model)
    return math.cos(angle) if dimension % 2 else math.sin(angle)


def sinusoid_table(num_positions: int, d_model: int) -> list[list[float]]:
    """`(num_positions, d_model)`: the positional encoding of positions 0, 1, ... (section 3.5)."""
    return [
        [sinusoid(position, dimension, d_model) for dimension in range(d_model)]
        for position in range(num_positions)
    ]


def label_smoothed_cross_entropy(
    logits: Matrix, labels: Sequence[int], epsilon: float, ignored: int = -100
) -> float:
    """Mean over the labels that count of -sum_c q(c) log p(c), in nats (section 5.4).

    q is written out: epsilon / V on every class, and 1 - epsilon more on the true one (Szegedy et
    al. 2015, section 7, with u uniform).
    """
    losses = []
    for row, label in zip(logits, labels, strict=True):
        if label == ignored:
            continue
        num_classes = len(row)
        target = [epsilon / num_classes] * num_classes
        target[label] += 1 - epsilon
        highest = max(row)
        log_total = highest + math.log(sum(math.exp(logit - highest) for logit in row))
        losses.append(-sum(q * (logit - log_total) for q, logit in zip(target, row, strict=True)))
    return sum(losses) / len(losses)


def distilled_cross_entropy(
    logits: Matrix,
    labels: Sequence[int],
    epsilon: float,
    pieces: Sequence[Sequence[int]],
    shares: Matrix,
    ignored: int = -100,
) -> float:
    """As `label_smoothed_cross_entropy`, of a label mixed with a teacher's pieces.

    The target distribution is written out (Kim and Rush 2016, section 3.1, with the sum over the
    pieces that are kept): the teacher's pieces have their shares, the smoothed label has the rest.
    """
    losses = []
    for row, label, of_row, shares_of_row in zip(logits, labels, pieces, shares, strict=True):
        if label == ignored:
            continue
        rest = 1 - sum(shares_of_row)
        target = [rest * epsilon / len(row)] * len(row)
        target[label] += rest * (1 - epsilon)
        for piece, share in zip(of_row, shares_of_row, strict=True):
            target[piece] += share
        highest = max(row)
        log_total = highest + math.log(sum(math.exp(logit - highest) for logit in row))
        losses.append(-sum(q * (logit - log_total) for q, logit in zip(target, row, strict=True)))
    return sum(losses) / len(losses)


def learning_rate(step: int, d_model: int, warmup_steps: int) -> float:
    """The schedule of section 5.3, equation 3; `step` counts from 1."""
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


def num_parameters(
    vocab_size: int,
    d_model: int,
    d_ff: int,
    num_heads: int,
    d_k: int,
    d_v: int,
    num_layers: int,
) -> int:
    """Number of parameters of a Transformer with N layers a side, counted from the formulas.

    Attention has no biases (section 3.2.2), the feed-forward networks have two (equation 2), layer
    normalization a gain and a bias, and one matrix embeds source and target and makes the logits
    (section 3.4).
    """
    attention = 2 * d_model * num_heads * d_k + 2 * d_model * num_heads * d_v
    feed_forward_network = d_model * d_ff + d_ff + d_ff * d_model + d_model
    norm = 2 * d_model
    encoder_layer = attention + feed_forward_network + 2 * norm
    decoder_layer = 2 * attention + feed_forward_network + 3 * norm
    return vocab_size * d_model + num_layers * (encoder_layer + decoder_layer)


def wu_score(log_probability: float, num_tokens: int, alpha: float) -> float:
    """log P / ((5 + |Y|)^alpha / (5 + 1)^alpha) (Wu et al. 2016, equation 14)."""
    return log_probability / ((5 + num_tokens) ** alpha / (5 + 1) ** alpha)


def power_score(log_probability: float, num_tokens: int, alpha: float) -> float:
    """log P / |Y|^alpha, as fairseq, CTranslate2 and the library have it."""
    return log_probability / num_tokens**alpha


def beam_search(
    next_log_probs: Callable[[tuple[int, ...]], Mapping[int, float]],
    num_beams: int,
    alpha: float,
    longest: int,
    end: int,
) -> list[tuple[float, tuple[int, ...]]]:
    """The authors' beam search (tensor2tensor), hypothesis by hypothesis and without early stop.

    Args:
        next_log_probs: log-probabilities of the pieces after a prefix, of the 2K best at least.
        num_beams: K. Of the 2K best continuations those that end are kept apart, K of them in all.
        alpha: of `wu_score`.
        longest: tokens of a hypothesis, the ending one included.
        end: the piece that ends a hypothesis.

    Returns:
        Score and pieces of the K best hypotheses that ended, best first.
    """
    running: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    ended: list[tuple[float, tuple[int, ...]]] = []
    for num_tokens in range(1, longest + 1):
        continuations = [
            (total + log_prob, (*pieces, piece))
            for total, pieces in running
            for piece, log_prob in next_log_probs(pieces).items()
        ]
        continuations.sort(reverse=True)
        best = continuations[: 2 * num_beams]
        ended += [
            (wu_score(total, num_tokens, alpha), pieces)
            for total, pieces in best
            if pieces[-1] == end
        ]
        ended = sorted(ended, reverse=True)[:num_beams]
        running = [(total, pieces) for total, pieces in best if pieces[-1] != end][:num_beams]
    return ended


def bpe_dropout_law(
    pieces: tuple[str, ...], merges: Sequence[tuple[str, str]], dropout: float
) -> dict[tuple[str, ...], float]:
    """How often BPE-dropout cuts a word in each way (Provilkov et al. 2020, algorithm 1).

    In each step every possible merge is left out with probability `dropout`, each by itself; of
    those that remain the first one of the list is made.

    Args:
        pieces: the word's characters.
        merges: in their order.
        dropout: in [0, 1].
    """
    possible = [
        (merges.index(pair), place)
        for place, pair in enumerate(itertools.pairwise(pieces))
        if pair in merges
    ]
    law: dict[tuple[str, ...], float] = {}
    for is_left in itertools.product((True, False), repeat=len(possible)):
        probability = math.prod(1 - dropout if left else dropout for left in is_left)
        remaining = [merge for merge, left in zip(possible, is_left, strict=True) if left]
        if not remaining:
            outcomes = {pieces: 1.0}
        else:
            _, place = min(remaining)
            merged = pieces[place] + pieces[place + 1]
            after = (*pieces[:place], merged, *pieces[place + 2 :])
            outcomes = bpe_dropout_law(after, merges, dropout)
        for cut, share in outcomes.items():
            law[cut] = law.get(cut, 0.0) + probability * share
    return law
