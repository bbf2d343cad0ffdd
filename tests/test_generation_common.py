"""What the library asks of `generate()` of every sequence-to-sequence model, asked of ours.

Its own tests of generation are not in its source distribution. Each check here runs over two
models: Marian, which is in the library and shows that the check is a fair one, and ours.
"""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import (
    CompileConfig,
    DynamicCache,
    EncoderDecoderCache,
    GenerationConfig,
    GenerationMixin,
    MarianConfig,
    MarianMTModel,
    MaxLengthCriteria,
    PreTrainedModel,
    StaticCache,
)
from transformers.generation import (
    BaseStreamer,
    GenerateBeamEncoderDecoderOutput,
    GenerateEncoderDecoderOutput,
)

from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration


# B sentences, S source pieces, N generated ones: none is another.
B, S, N = 3, 7, 5
VOCABULARY, D_MODEL, HEADS, D_K, ENCODER_LAYERS, DECODER_LAYERS = 41, 24, 4, 6, 2, 1
START, END = 1, 2

SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"num_beams": 1, "do_sample": False},
    "sampling": {"num_beams": 1, "do_sample": True, "num_return_sequences": 2},
    "beams": {"num_beams": 4, "do_sample": False, "num_return_sequences": 2},
    "sampled beams": {"num_beams": 4, "do_sample": True, "num_return_sequences": 2},
}
FIXED = {name: SEARCHES[name] for name in ("greedy", "beams")}  # nothing is drawn
every_search = pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
every_fixed_search = pytest.mark.parametrize("search", FIXED.values(), ids=FIXED)
OUTPUTS = {
    "return_dict_in_generate": True,
    "output_scores": True,
    "output_logits": True,
    "output_attentions": True,
    "output_hidden_states": True,
}


def num_returned(search: dict[str, Any]) -> int:
    return B * search.get("num_return_sequences", 1)


def num_rows(search: dict[str, Any]) -> int:
    """Rows that the decoder works on."""
    return B * max(search["num_beams"], search.get("num_return_sequences", 1))


def is_beam(search: dict[str, Any]) -> bool:
    return search["num_beams"] > 1


def draw_batch(seed: int = 0) -> dict[str, Tensor]:
    torch.manual_seed(seed)
    ids = torch.randint(3, VOCABULARY, (B, S))
    mask = torch.ones_like(ids)
    mask[1, 4:], mask[2, 6:] = 0, 0
    return {"input_ids": ids.masked_fill(mask == 0, START), "attention_mask": mask}


def of_one(batch: dict[str, Tensor], row: int = 0) -> dict[str, Tensor]:
    return {name: values[row : row + 1] for name, values in batch.items()}


def run(model: PreTrainedModel, search: dict[str, Any], **more: Any) -> Any:
    """`N` tokens by a search, from the same random numbers each time, and no piece twice.

    A random model would say one piece over and over, whatever it has read.
    """
    torch.manual_seed(0)
    return model.generate(**{"max_new_tokens": N, "no_repeat_ngram_size": 1, **search, **more})


class Collector(BaseStreamer):
    def __init__(self) -> None:
        self.pieces: list[int] = []
        self.has_ended = False

    def put(self, value: Tensor) -> None:
        self.pieces += value.flatten().tolist()

    def end(self) -> None:
        self.has_ended = True


class GenerationTesterMixin:
    """The checks; a subclass says how its model is made and what its encoder embeds."""

    def draw_model(self) -> PreTrainedModel:
        raise NotImplementedError

    def embed(self, model: PreTrainedModel, input_ids: Tensor) -> Tensor:
        """What stands for `input_ids` as `inputs_embeds`."""
        raise NotImplementedError

    @pytest.fixture
    def model(self) -> PreTrainedModel:
        """A random model that goes on to the limit, with weights that are far from uniform."""
        return self.prepare(seed=0)

    def prepare(self, seed: int) -> PreTrainedModel:
        torch.manual_seed(seed)
        model = self.draw_model()
        with torch.no_grad():
            for module in model.modules():
                if isinstance(module, nn.Linear):
                    nn.init.normal_(module.weight, std=0.3)
                # Large, so that each piece calls for another.
                elif isinstance(module, nn.Embedding) and module.weight.requires_grad:
                    nn.init.normal_(module.weight, std=0.8)
        model.generation_config.eos_token_id = None
        return model.eval()

    # What comes back

    def test_the_model_can_generate(self, model):
        assert isinstance(model, GenerationMixin)
        assert model.can_generate()

    @every_search
    def test_ids_are_the_start_and_the_generated(self, model, search):
        ids = run(model, search, **draw_batch())
        assert ids.shape == (num_returned(search), 1 + N)
        assert ids[:, 0].eq(START).all()
        assert ids.lt(VOCABULARY).all()

    @every_search
    @pytest.mark.parametrize("use_cache", [True, False], ids=["cache", "no cache"])
    def test_the_dictionary_holds_the_same_ids(self, model, search, use_cache):
        batch = draw_batch()
        model.set_attn_implementation("eager")
        found = run(model, search, **batch, **OUTPUTS, use_cache=use_cache)
        kind = GenerateBeamEncoderDecoderOutput if is_beam(search) else GenerateEncoderDecoderOutput
        assert isinstance(found, kind)
        assert torch.equal(found.sequences, run(model, search, **batch))

    @every_search
    def test_scores_and_logits_have_a_row_for_each_hypothesis_and_step(self, model, search):
        found = run(model, search, **draw_batch(), **OUTPUTS)
        for kept in (found.scores, found.logits):
            assert [step.shape for step in kept] == [(num_rows(search), VOCABULARY)] * N
            assert {step.dtype for step in kept} == {torch.float32}

    @every_search
    def test_scores_are_logits_after_the_processors(self, model, search):
        plan = {**search, "top_k": 0, "no_repeat_ngram_size": 0}
        found = run(model, plan, **draw_batch(), **OUTPUTS)
        for scores, logits in zip(found.scores, found.logits, strict=True):
            expected = logits.log_softmax(-1) if is_beam(search) else logits
            torch.testing.assert_close(scores, expected)

    @every_search
    def test_beams_have_scores_and_indices(self, model, search):
        found = run(model, search, **draw_batch(), **OUTPUTS)
        if not is_beam(search):
            assert "sequences_scores" not in found
            return
        assert found.sequences_scores.shape == (num_returned(search),)
        assert found.sequences_scores.view(B, -1).diff(dim=1).le(0).all()  # best first
        assert found.beam_indices.shape == (num_returned(search), N)
        first = found.beam_indices // search["num_beams"]  # whose row it came from
        expected = torch.arange(B).repeat_interleave(search["num_return_sequences"])
        assert torch.equal(first, expected.unsqueeze(1).expand(-1, N).int())

    @every_search
    def test_transition_scores_add_up_to_sequence_scores(self, model, search):
        plan = {**search, "top_k": 0, "no_repeat_ngram_size": 0, "length_penalty": 0.0}
        found = run(model, plan, **draw_batch(), **OUTPUTS)
        indices = getattr(found, "beam_indices", None)
        steps = model.compute_transition_scores(
            found.sequences, found.scores, indices, normalize_logits=not is_beam(search)
        )
        assert steps.shape == (num_returned(search), N)
        repeats = num_returned(search) // B
        batch = {name: rows.repeat_interleave(repeats, 0) for name, rows in draw_batch().items()}
        with torch.no_grad():
            logits = model(**batch, decoder_input_ids=found.sequences[:, :-1]).logits
        said = found.sequences[:, 1:].unsqueeze(-1)
        expected = logits.log_softmax(-1).gather(2, said).squeeze(-1)
        torch.testing.assert_close(steps, expected, atol=1e-4, rtol=1e-4)
        if is_beam(search):
            torch.testing.assert_close(steps.sum(1), found.sequences_scores, atol=1e-4, rtol=1e-4)

    @every_search
    def test_the_encoders_states_and_attentions_come_back(self, model, search):
        model.set_attn_implementation("eager")
        found = run(model, search, **draw_batch(), **OUTPUTS)
        shapes = [states.shape for states in found.encoder_hidden_states]
        assert shapes == [(B, S, D_MODEL)] * (ENCODER_LAYERS + 1)
        shapes = [weights.shape for weights in found.encoder_attentions]
        assert shapes == [(B, HEADS, S, S)] * ENCODER_LAYERS

    @every_search
    @pytest.mark.parametrize("use_cache", [True, False], ids=["cache", "no cache"])
    def test_the_decoders_states_and_attentions_come_back_by_step(self, model, search, use_cache):
        model.set_attn_implementation("eager")
        found = run(model, search, **draw_batch(), **OUTPUTS, use_cache=use_cache)
        rows = num_rows(search)
        for name in ("decoder_hidden_states", "decoder_attentions", "cross_attentions"):
            assert len(getattr(found, name)) == N
        for step in range(N):
            length, seen = (1 if use_cache else step + 1), step + 1
            shapes = [states.shape for states in found.decoder_hidden_states[step]]
            assert shapes == [(rows, length, D_MODEL)] * (DECODER_LAYERS + 1)
            shapes = [weights.shape for weights in found.decoder_attentions[step]]
            assert shapes == [(rows, HEADS, length, seen)] * DECODER_LAYERS
            shapes = [weights.shape for weights in found.cross_attentions[step]]
            assert shapes == [(rows, HEADS, length, S)] * DECODER_LAYERS

    @every_search
    @pytest.mark.parametrize("more", [{}, OUTPUTS], ids=["alone", "with all outputs"])
    def test_the_cache_has_a_row_for_each_hypothesis(self, model, search, more):
        model.set_attn_implementation("eager" if more else "sdpa")
        cache = run(
            model, search, **draw_batch(), **{"return_dict_in_generate": True, **more}
        ).past_key_values
        assert isinstance(cache, EncoderDecoderCache)
        assert cache.get_seq_length() == N  # the last piece was not fed
        for own in cache.self_attention_cache.layers:
            assert own.keys.shape == own.values.shape == (num_rows(search), HEADS, N, D_K)
        for memory in cache.cross_attention_cache.layers:
            assert memory.keys.shape == memory.values.shape == (num_rows(search), HEADS, S, D_K)
        assert len(cache.self_attention_cache.layers) == DECODER_LAYERS
        assert len(cache.cross_attention_cache.layers) == DECODER_LAYERS

    @every_search
    def test_without_a_cache_none_comes_back(self, model, search):
        plan = {"return_dict_in_generate": True, "use_cache": False}
        assert run(model, search, **draw_batch(), **plan).past_key_values is None

    @every_search
    def test_a_static_cache_comes_back_as_large_as_it_was_made(self, model, search):
        plan = {"return_dict_in_generate": True, "cache_implementation": "static"}
        cache = run(model, search, **draw_batch(), **plan).past_key_values
        assert int(cache.get_seq_length()) == N
        for own in cache.self_attention_cache.layers:
            assert own.keys.shape == (num_rows(search), HEADS, N, D_K)
        for memory in cache.cross_attention_cache.layers:
            assert memory.keys.shape == (num_rows(search), HEADS, S, D_K)

    @every_search
    def test_half_precision_is_scored_in_float32(self, model, search):
        found = run(model.to(torch.bfloat16), search, **draw_batch(), **OUTPUTS)
        assert found.sequences.shape == (num_returned(search), 1 + N)
        assert {step.dtype for step in (*found.scores, *found.logits)} == {torch.float32}

    # The same by other ways

    @every_search
    @pytest.mark.parametrize(
        "way",
        [
            {"use_cache": False},
            {"cache_implementation": "static"},
            {"max_new_tokens": N, "top_p": 1.0},
        ],
        ids=["no cache", "static cache", "again"],
    )
    def test_the_ids_are_the_same_however_the_past_is_kept(self, model, search, way):
        for seed in range(3):
            batch = draw_batch(seed)
            assert torch.equal(run(model, search, **batch, **way), run(model, search, **batch))

    @every_search
    def test_a_config_says_what_arguments_say(self, model, search):
        config = GenerationConfig(**search, max_new_tokens=N, no_repeat_ngram_size=1)
        batch = draw_batch()
        torch.manual_seed(0)
        found = model.generate(**batch, generation_config=config)
        assert torch.equal(found, run(model, search, **batch))

    @every_search
    def test_ids_may_be_given_as_embeddings(self, model, search):
        batch = draw_batch()
        embeds = self.embed(model, batch["input_ids"])
        found = run(model, search, inputs_embeds=embeds, attention_mask=batch["attention_mask"])
        assert torch.equal(found, run(model, search, **batch))
        other = run(model, search, inputs_embeds=embeds.flip(2))
        assert other.shape == found.shape
        assert not torch.equal(other, found)

    @every_search
    def test_ids_may_be_given_as_the_encoders_outputs(self, model, search):
        batch = draw_batch()
        outputs = model.get_encoder()(**batch)
        found = run(model, search, encoder_outputs=outputs, attention_mask=batch["attention_mask"])
        assert torch.equal(found, run(model, search, **batch))

    @every_fixed_search
    def test_without_a_source_the_bos_piece_is_one(self, model, search):
        model.generation_config.bos_token_id = 5
        found = run(model, search)
        assert torch.equal(found, run(model, search, input_ids=torch.tensor([[5]])))
        model.generation_config.bos_token_id = None
        with pytest.raises(ValueError, match="bos_token_id"):
            run(model, search)

    @every_fixed_search
    def test_padding_on_the_right_changes_nothing(self, model, search):
        batch = draw_batch()
        together = run(model, search, **batch).view(B, -1, 1 + N)
        for row, length in enumerate((S, 4, 6)):
            source = {name: ids[:, :length] for name, ids in of_one(batch, row).items()}
            assert torch.equal(run(model, search, **source), together[row])

    def test_samples_come_from_the_seed(self, model):
        for search in (SEARCHES["sampling"], SEARCHES["sampled beams"]):
            found = [run(model, search, **draw_batch()) for _ in range(2)]
            assert torch.equal(*found)
            other = model.generate(**draw_batch(), **search, max_new_tokens=N)
            assert not torch.equal(found[0], other)

    # Going on

    @every_fixed_search
    def test_a_given_start_is_kept_and_gone_on_from(self, model, search):
        start = torch.tensor([[START, 9, 4], [START, 8, 8], [START, 3, 30]])
        found = run(model, search, **draw_batch(), decoder_input_ids=start)
        repeats = num_returned(search) // B
        assert found.shape == (num_returned(search), 3 + N)
        assert torch.equal(found[:, :3], start.repeat_interleave(repeats, 0))
        mask = torch.ones_like(start)
        masked = run(
            model, search, **draw_batch(), decoder_input_ids=start, decoder_attention_mask=mask
        )
        assert torch.equal(masked, found)

    @pytest.mark.parametrize("kept", [{}, {"output_scores": True}], ids=["ids", "scores"])
    def test_a_returned_cache_is_gone_on_from(self, model, kept):
        search, batch = SEARCHES["greedy"], draw_batch()
        kept = {"return_dict_in_generate": True, **kept}
        whole = run(model, search, **batch, **kept, max_new_tokens=2 * N)
        half = run(model, search, **batch, **kept)
        rest = run(
            model,
            search,
            **batch,
            **kept,
            past_key_values=half.past_key_values,
            decoder_input_ids=half.sequences,
            decoder_attention_mask=torch.ones_like(half.sequences),
        )
        assert torch.equal(rest.sequences, whole.sequences)
        assert rest.past_key_values.get_seq_length() == 2 * N
        if "output_scores" in kept:
            for ours, expected in zip(rest.scores, whole.scores[N:], strict=True):
                torch.testing.assert_close(ours, expected, atol=1e-4, rtol=1e-4)

    @every_search
    def test_a_filled_cache_is_gone_on_from_by_any_search(self, model, search):
        # A row for each hypothesis, as a forward pass over copies of the batch fills it.
        start = torch.tensor([[START, 9, 4], [START, 8, 8], [START, 3, 30]])
        batch, repeats = draw_batch(), num_rows(search) // B
        copies = {name: rows.repeat_interleave(repeats, 0) for name, rows in batch.items()}
        known = start[:, :2].repeat_interleave(repeats, 0)
        with torch.no_grad():
            cache = model(**copies, decoder_input_ids=known, use_cache=True).past_key_values
        given = {"decoder_input_ids": start, "decoder_attention_mask": torch.ones_like(start)}
        expected = run(model, search, **batch, **given)
        found = run(model, search, **batch, **given, past_key_values=cache)
        assert torch.equal(found, expected)
        assert cache.get_seq_length() == 2 + N

    @every_search
    @pytest.mark.parametrize("kind", ["dynamic", "static"])
    def test_a_cache_of_the_caller_is_filled(self, model, search, kind):
        decoder = model.config.get_text_config(decoder=True)
        if kind == "dynamic":
            cache = EncoderDecoderCache(DynamicCache(config=decoder), DynamicCache(config=decoder))
        else:
            sizes = (N + 3, S)
            cache = EncoderDecoderCache(
                *(StaticCache(config=decoder, max_cache_len=size) for size in sizes)
            )
        found = run(model, search, **draw_batch(), past_key_values=cache)
        assert torch.equal(found, run(model, search, **draw_batch()))
        assert int(cache.get_seq_length()) == N
        assert len(cache.self_attention_cache.layers[0].keys) == num_rows(search)

    # What else a caller may ask for

    @every_search
    def test_processors_are_heeded(self, model, search):
        usual = run(model, search, **draw_batch())
        banned = [[piece] for piece in usual[:, 1:].unique().tolist()][:3]
        found = run(model, search, **draw_batch(), bad_words_ids=banned, repetition_penalty=1.2)
        assert not set(found[:, 1:].flatten().tolist()) & {piece for [piece] in banned}
        forced = run(model, search, **draw_batch(), forced_bos_token_id=7)
        assert forced[:, 1].eq(7).all()

    @every_search
    def test_allowed_pieces_are_asked_for_by_sentence(self, model, search):
        if not is_beam(search):  # else the library counts each sample for a sentence
            search = {**search, "num_return_sequences": 1}

        def allowed(sentence: int, ids: Tensor) -> list[int]:
            return list(range(10 * sentence + 3, 10 * sentence + 13))

        found = run(model, search, **draw_batch(), prefix_allowed_tokens_fn=allowed)
        expected = torch.arange(B).repeat_interleave(num_returned(search) // B)
        assert torch.equal((found[:, 1:] - 3) // 10, expected.unsqueeze(1).expand(-1, N))

    @every_search
    def test_criteria_are_heeded(self, model, search):
        found = run(model, search, **draw_batch(), stopping_criteria=[MaxLengthCriteria(3)])
        assert found.shape == (num_returned(search), 3)

    @every_search
    def test_what_has_ended_is_padded(self, model, search):
        pieces = run(model, search, **draw_batch())[0, 3:].unique()
        model.generation_config.eos_token_id = pieces.tolist()
        found = run(model, search, **draw_batch(), max_new_tokens=12)
        ends = torch.isin(found, pieces).int()
        assert ends[:, 1:].any()
        after = ends.cumsum(dim=1) - ends > 0
        assert after.any()
        assert found[after].eq(START).all()  # which is the padding piece

    def test_a_streamer_hears_every_piece(self, model):
        heard = Collector()
        found = run(model, SEARCHES["greedy"], **of_one(draw_batch()), streamer=heard)
        assert heard.pieces == found[0].tolist()
        assert heard.has_ended

    def test_looking_up_the_prompt_finds_what_greedy_search_does(self, model):
        for row in range(B):
            batch = of_one(draw_batch(), row)
            expected = run(model, SEARCHES["greedy"], **batch, max_new_tokens=25)
            found = run(
                model,
                SEARCHES["greedy"],
                **batch,
                max_new_tokens=25,
                prompt_lookup_num_tokens=3,
            )
            assert torch.equal(found, expected)

    @pytest.mark.parametrize("seed", [0, 1], ids=["itself", "another"])
    def test_with_an_assistant_greedy_search_finds_the_same(self, model, seed):
        batch = of_one(draw_batch())
        expected = run(model, SEARCHES["greedy"], **batch, **OUTPUTS)
        assistant = self.prepare(seed)
        found = run(model, SEARCHES["greedy"], **batch, **OUTPUTS, assistant_model=assistant)
        assert torch.equal(found.sequences, expected.sequences)
        assert len(found.scores) == N
        for ours, wanted in zip(found.scores, expected.scores, strict=True):
            torch.testing.assert_close(ours, wanted, atol=1e-4, rtol=1e-4)

    def test_with_an_assistant_samples_are_as_long(self, model):
        plan = {"num_beams": 1, "do_sample": True, "assistant_model": self.prepare(seed=1)}
        found = run(model, plan, **of_one(draw_batch()), **OUTPUTS)
        assert found.sequences.shape == (1, 1 + N)
        assert [step.shape for step in found.scores] == [(1, VOCABULARY)] * N

    def test_a_compiled_step_finds_the_same(self, model):
        expected = run(model, SEARCHES["greedy"], **draw_batch())
        compiled = CompileConfig(backend="eager", mode=None, fullgraph=True)
        compiled._compile_all_devices = True
        torch._dynamo.reset()
        plan = {"cache_implementation": "static", "compile_config": compiled}
        found = run(model, SEARCHES["greedy"], **draw_batch(), **plan)
        assert torch.equal(found, expected)

    @every_fixed_search
    def test_a_search_of_the_caller_is_called(self, model, search):
        calls = []
        name = "_beam_search" if is_beam(search) else "_sample"

        def noted(model: Any, *arguments: Any, **named: Any) -> Any:
            calls.append(name)
            return getattr(GenerationMixin, name)(model, *arguments, **named)

        found = run(model, search, **draw_batch(), custom_generate=noted)
        assert calls == [name]
        assert found.shape == (num_returned(search), 1 + N)

    @every_search
    def test_a_misspelt_argument_is_refused(self, model, search):
        with pytest.raises(ValueError, match="max_new_tokenz"):
            run(model, search, **draw_batch(), max_new_tokenz=3)


class TestMarian(GenerationTesterMixin):
    def draw_model(self) -> PreTrainedModel:
        return MarianMTModel(
            MarianConfig(
                vocab_size=VOCABULARY,
                d_model=D_MODEL,
                encoder_layers=ENCODER_LAYERS,
                decoder_layers=DECODER_LAYERS,
                encoder_attention_heads=HEADS,
                decoder_attention_heads=HEADS,
                encoder_ffn_dim=32,
                decoder_ffn_dim=32,
                max_position_embeddings=64,
                pad_token_id=START,
                eos_token_id=END,
                decoder_start_token_id=START,
                forced_eos_token_id=None,
                tie_word_embeddings=False,
            )
        )

    def embed(self, model: PreTrainedModel, input_ids: Tensor) -> Tensor:
        encoder = model.get_encoder()
        return encoder.embed_tokens(input_ids) * encoder.embed_scale


class TestVaswani(GenerationTesterMixin):
    form = "wu"

    def draw_model(self) -> PreTrainedModel:
        model = VaswaniForConditionalGeneration(
            VaswaniConfig(
                vocab_size=VOCABULARY,
                d_model=D_MODEL,
                encoder_layers=ENCODER_LAYERS,
                decoder_layers=DECODER_LAYERS,
                num_heads=HEADS,
                d_ff=32,
                max_position_embeddings=64,
                pad_token_id=START,
                eos_token_id=END,
                decoder_start_token_id=START,
                tie_word_embeddings=False,
            )
        )
        model.generation_config.length_penalty_type = self.form
        return model

    def embed(self, model: PreTrainedModel, input_ids: Tensor) -> Tensor:
        return model.get_encoder().embed_tokens(input_ids)

    @every_fixed_search
    def test_without_a_source_the_limit_counts_one_piece(self, model, search):
        model.generation_config.bos_token_id = 5
        plan = {**search, "max_new_tokens": None, "max_extra_tokens": 4}
        assert run(model, plan).shape[1] == 1 + 1 + 4

    @every_search
    def test_padding_on_the_left_changes_nothing(self, model, search):
        # Not asked of Marian, where it shifts every position.
        batch = draw_batch()
        left = {name: rows.clone() for name, rows in batch.items()}
        for row, length in enumerate((S, 4, 6)):
            for name in left:
                left[name][row] = batch[name][row].roll(S - length)
        assert torch.equal(run(model, search, **left), run(model, search, **batch))


class TestVaswaniByPower(TestVaswani):
    form = "power"
