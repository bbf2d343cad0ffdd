# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Pushes to the Hub: checked before training; checkpoints during it; the model at its end."""

import logging
import sys
import tempfile
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from transformers.trainer_utils import HubStrategy

from vaswani_hf.hub.card import CARD, card_for_push, check_language, make_card
from vaswani_hf.hub.errors import HubError
from vaswani_hf.hub.folder import has_adapter
from vaswani_hf.hub.upload import prepare, push, stage, upload

from ..loop.adapters import adapter_figures
from ..loop.trainer import VaswaniTrainer
from ..settings.fields import Arguments, VaswaniTrainingArguments


logger = logging.getLogger("training")
STRATEGIES = (HubStrategy.END, HubStrategy.EVERY_SAVE)


def check_push(arguments: Arguments) -> None:
    """Check before training that its model can be pushed, and make the repository.

    Raises:
        ValueError: if the license is missing, a setting is invalid, or the repository cannot
            be used.
        HubError: if the Hub cannot be reached or refuses.
    """
    training, data = arguments.training, arguments.data
    if not training.push_to_hub:
        return
    if training.hub_strategy not in STRATEGIES:
        name = HubStrategy(training.hub_strategy).value
        raise ValueError(
            f"hub_strategy={name} would publish pickled optimizer states; set end or every_save."
        )
    if not data.license:
        raise ValueError(
            "push_to_hub=True needs the model's license: set license, an identifier of the Hub's, "
            "such as cc-by-4.0, or `other`."
        )
    if training.lora_rank is not None and Path(arguments.chosen["model_name_or_path"]).is_dir():
        raise ValueError(
            f"push_to_hub=True would push an adapter of the folder "
            f"{arguments.chosen['model_name_or_path']}, which others do not have: push that first, "
            f"and set model_name_or_path to its id on the Hub."
        )
    languages = [code for code in data.languages if code]
    for language in languages:
        check_language(language)
    name = training.hub_model_id or Path(training.output_dir).resolve().name
    if training.process_index == 0:
        training.hub_model_id = prepare(
            name,
            make_card(name, {}, languages=languages, license=data.license, dataset=data.dataset),
            private=training.hub_private_repo,
            revision=training.hub_revision,
            token=training.hub_token,
        )


def pushes_checkpoints(training: VaswaniTrainingArguments) -> bool:
    """Whether this process pushes checkpoints during training."""
    return bool(
        training.push_to_hub
        and training.hub_strategy == HubStrategy.EVERY_SAVE
        and training.should_save
    )


class CheckpointPusher:
    """Pushes checkpoints while training goes on; a push that fails is only logged.

    A checkpoint that comes while another is being pushed is skipped, or with `hub_always_push`
    waits its turn.
    """

    def __init__(self, arguments: Arguments) -> None:
        self.arguments = arguments
        self._sender = ThreadPoolExecutor(1, thread_name_prefix="push")
        self._sent: Future[None] | None = None

    def push(self, trainer: VaswaniTrainer, checkpoint: Path) -> None:
        """Copy a checkpoint's model aside, and push the copy from another thread."""
        is_busy = self._sent is not None and not self._sent.done()
        if is_busy and not self.arguments.training.hub_always_push:
            logger.info("%s is not pushed: an earlier one still is.", checkpoint.name)
            return
        data, training = self.arguments.data, self.arguments.training
        aside = tempfile.TemporaryDirectory(prefix="vaswani_hf_push_")
        staged = Path(aside.name) / "model"
        results: dict[str, Any] = {
            "recipe": self.arguments.recipe,
            "parameters": trainer.model.num_parameters(),
            "progress": {
                "updates": trainer.state.global_step,
                "max_steps": trainer.state.max_steps,
            },
        }
        if has_adapter(trainer.model):
            results["adapter"] = adapter_figures(trainer.model)
        try:
            stage(checkpoint, staged)
            card_for_push(
                checkpoint,
                str(training.hub_model_id),
                languages=data.languages,
                license=data.license,
                results=results,
            ).save(staged / CARD)
        except OSError as error:
            aside.cleanup()
            logger.warning("%s is not pushed: %s", checkpoint.name, error)
            return
        self._sent = self._sender.submit(self._send, aside, staged, checkpoint.name)

    def wait(self) -> None:
        """Return when everything is pushed."""
        self._sender.shutdown()

    def _send(
        self, aside: "tempfile.TemporaryDirectory[str]", staged: Path, checkpoint: str
    ) -> None:
        training = self.arguments.training
        try:
            commit = upload(
                staged,
                str(training.hub_model_id),
                revision=training.hub_revision,
                message=f"In training: {checkpoint}",
                token=training.hub_token,
            )
            logger.info("Pushed %s to %s (%s).", checkpoint, training.hub_model_id, commit)
        except (HubError, ValueError) as error:
            logger.warning("%s is not pushed, and training goes on: %s", checkpoint, error)
        finally:
            aside.cleanup()


def push_model(arguments: Arguments) -> None:
    """Push the final model and check what was pushed; only the first process does.

    Raises:
        SystemExit: if it fails, with the command that pushes it again.
    """
    training, data = arguments.training, arguments.data
    if not training.push_to_hub or training.process_index:
        return
    repo_id, folder = str(training.hub_model_id), training.output_dir
    source_language, target_language = data.languages
    logger.info("Pushing to %s.", repo_id)
    try:
        pushed = push(
            folder,
            repo_id,
            private=training.hub_private_repo,
            revision=training.hub_revision,
            license=data.license,
            source_language=source_language,
            target_language=target_language,
            token=training.hub_token,
        )
    except (HubError, ValueError) as error:
        revision = f" --revision {training.hub_revision}" if training.hub_revision else ""
        sys.exit(
            f"training/run.py: {error}\nThe model is complete in {folder}. To push it again:\n"
            f"  vaswani-hf push {folder} --to {repo_id}{revision}"
        )
    logger.info(
        "Pushed to %s (%s); fetched again, it translates %d sentences as before.",
        *(pushed.url, pushed.commit, len(pushed.translations)),
    )
