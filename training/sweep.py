# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python training/sweep.py RECIPE --set FIELD=VALUE,VALUE [--set ...] [--seeds 1,2] [--field value]

Train a recipe with every combination of the values, and tell which setting is best on the
validation set, with its confidence. `--field value` is set for all runs. With `--trials N` a search
chooses the settings, also from ranges (`--set dropout=0.0:0.4`). The same command goes on where it
was stopped, and reports on what has finished.
"""

import argparse
import dataclasses
import json
import logging
import shlex
import signal
import statistics
import subprocess
import sys
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.errors import in_one_line
from training.loop.checkpoints import AUTO
from training.loop.locking import FolderLock
from training.loop.resumption import NOT_SAVED, TEXT_SOURCES
from training.loop.signals import STOP_SIGNALS
from training.outcome.results import RESULTS
from training.outcome.scores import SHOWN
from training.settings.fields import FIELDS, FILES, PARSING, Arguments
from training.settings.kinds import written
from training.settings.reading import cast_values, parse_arguments, read_options
from training.settings.recipes import override, read_recipe, recipe_names
from training.sweeps.grid import Axis, grid_of, read_axes, read_seeds
from training.sweeps.picture import draw
from training.sweeps.report import VALIDATION, Finished, report_of, text_of, tsv_of
from training.sweeps.search import Search, Trial
from vaswani_hf.evaluation import Metric
from vaswani_hf.pictures.drawing import THEMES, check_suffix, save_picture
from vaswani_hf.processor import available_cores


PROGRAM = "training/sweep.py"
SCRIPT = Path(__file__).resolve().parent / "run.py"
STOPPED = {128 + number for number in STOP_SIGNALS}  # exit statuses of training/run.py
FREE = {*NOT_SAVED, *TEXT_SOURCES, *FILES, "threads"}  # what a finished run may differ in
SUBMITTED = "submitted"  # in the folder of a run: what its launcher has said
REPORT = "sweep"  # its files, without their suffixes
INTERRUPTED = 130  # exit status: 128 plus the number of SIGINT
COMMAND = "{command}"  # its place in the template of a launcher
logger = logging.getLogger("training")


@dataclass(frozen=True)
class Run:
    """A training by a recipe.

    Attributes:
        name: of its folder.
        recipe: as typed.
        fields: what differs from the recipe: a value, or a list of them, by the field's name.
    """

    name: str
    recipe: str
    fields: Mapping[str, Any]

    def options(self) -> list[str]:
        """The fields as a command line has them."""
        options = []
        for name, value in self.fields.items():
            values = value if isinstance(value, list | tuple) else [value]
            options += [f"--{name}", *map(written, values)]
        return options

    def command(self, folder: Path) -> list[str]:
        """What trains it, or goes on with it, in its folder below `folder`."""
        command = [sys.executable, str(SCRIPT), self.recipe, *self.options()]
        command += ["--output_dir", str(folder.resolve() / self.name)]
        return [*command, "--resume_from_checkpoint", AUTO]

    def results(self, folder: Path) -> dict[str, Any] | None:
        """What `results.json` says of the run; `None` before it has finished.

        Args:
            folder: of all runs.

        Raises:
            ValueError: if it has finished with other settings. Text may have moved.
        """
        path = folder / self.name / RESULTS
        if not path.exists():
            return None
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        wanted = read_recipe(self.recipe)
        override(wanted, read_options(self.options()), [])
        then, now = cast_values(found["chosen"]), cast_values(wanted)
        for name in sorted((then.keys() | now.keys()) - FREE):
            if then.get(name) != now.get(name):
                raise ValueError(
                    f"{path.parent} has finished with {name}={written(then.get(name))}, and "
                    f"{name}={written(now.get(name))} is asked for; choose another folder."
                )
        return found


def train_all(
    runs: Iterable[Run], folder: Path, jobs: int = 1, *, has_logs: bool = False
) -> Iterator[Run]:
    """Train what has not finished, in order, each in a process and a folder of its own.

    SIGTERM and Ctrl-C let the runs that are going write a checkpoint; the same call goes on from
    it.

    Args:
        runs: each with a name of its own.
        folder: where each gets a folder of its name.
        jobs: how many are trained at a time.
        has_logs: whether what a run prints and logs goes to `NAME.log` in that folder.

    Yields:
        Each run that has finished, at once or after its training. One that fails is logged and left
        out.

    Raises:
        ValueError: if a run has finished with other settings; see `Run.results`.
        SystemExit: if a signal has stopped a run, with its status.
    """
    waiting, going, stopped = iter(runs), dict[Future[int], Run](), 0
    with ThreadPoolExecutor(jobs) as pool, _sigterm_passed_on(going):
        while True:
            while not stopped and len(going) < jobs and (run := next(waiting, None)):
                if run.results(folder) is not None:
                    yield run
                    continue
                logger.info("Training %s.", run.name)
                log = [folder / f"{run.name}.log"] if has_logs else []
                going[pool.submit(_wait_for, run.command(folder), *log)] = run
            if not going:
                break
            for future in wait(going, return_when=FIRST_COMPLETED).done:
                run, status = going.pop(future), future.result()
                # Another signal is the run's own end, such as that of one that takes all memory.
                if status in STOPPED or -status in STOP_SIGNALS:
                    stopped = status
                elif status:
                    where = f" See {folder / run.name}.log." if has_logs else ""
                    logger.error("%s has failed: status %d.%s", run.name, status, where)
                else:
                    yield run
    if stopped:
        raise SystemExit(stopped)


_processes: set[subprocess.Popen[bytes]] = set()  # that train
_is_ending = threading.Event()  # whether SIGTERM has come


def _wait_for(command: list[str], log: Path | None = None) -> int:
    """The exit status of a process, to which SIGTERM is passed on; its output may go to a file."""
    with ExitStack() as exits:
        output = None if log is None else exits.enter_context(log.open("ab"))
        process = exits.enter_context(subprocess.Popen(command, stdout=output, stderr=output))
        _processes.add(process)
        if _is_ending.is_set():
            process.terminate()
        try:
            return process.wait()
        finally:
            _processes.discard(process)


@contextmanager
def _sigterm_passed_on(going: Collection[object]) -> Iterator[None]:
    """While entered, SIGTERM goes to all processes that train, or ends this one if none does.

    Ctrl-C reaches them by itself.
    """

    def pass_on(number: int, _: object) -> None:
        _is_ending.set()
        for process in tuple(_processes):
            process.terminate()
        if not going:
            raise SystemExit(128 + number)

    _is_ending.clear()
    before = signal.signal(signal.SIGTERM, pass_on)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def submit_all(
    runs: Iterable[Run], folder: Path, launcher: str, *, again: bool = False
) -> Iterator[Run]:
    """Hand what has not finished to a launcher, such as Slurm's `sbatch`, once.

    Args:
        runs: each with a name of its own.
        folder: where each gets a folder of its name.
        launcher: a command with the place of the training's, `{command}`; also `{name}`.
        again: whether to submit anew what was submitted and has not finished.

    Yields:
        Each run that has finished.

    Raises:
        ValueError: if a run has finished with other settings, or the launcher fails.
    """
    for run in runs:
        told = folder / run.name / SUBMITTED
        if run.results(folder) is None and (again or not told.exists()):
            words = launcher_words(launcher, run.command(folder), run.name)
            done = subprocess.run(words, stdout=subprocess.PIPE, text=True)
            if done.returncode:
                raise ValueError(
                    f"--launcher: {shlex.join(words[:3])} ... has failed with status "
                    f"{done.returncode} for {run.name}."
                )
            told.parent.mkdir(parents=True, exist_ok=True)
            told.write_text(done.stdout, encoding="utf-8")
            logger.info("Submitted %s. %s", run.name, done.stdout.strip())
        if run.results(folder) is not None:
            yield run


def launcher_words(launcher: str, command: Sequence[str], name: str) -> list[str]:
    """The words of a launcher's command. In quotes, `{command}` is one word of all.

    Raises:
        ValueError: if the training's command has no place in it, or it cannot be read.
    """
    if COMMAND not in launcher:
        raise ValueError(f"--launcher must have a place for the training, {COMMAND}: {launcher}")
    try:
        parts = shlex.split(launcher.replace("{name}", name))
    except ValueError as error:
        raise ValueError(f"--launcher {launcher} cannot be read: {error}.") from error
    is_one_word = any(f"{quote}{COMMAND}{quote}" in launcher for quote in "'\"")
    words: list[str] = []
    for part in parts:
        if part == COMMAND and not is_one_word:
            words += command
        else:
            words.append(part.replace(COMMAND, shlex.join(command)))
    return words


# The command


@dataclass(frozen=True)
class Plan:
    """What a sweep is told.

    Attributes:
        options: of the command line, those of `_parser`.
        axes: what is varied.
        seeds: of each setting.
        common: the fields of all runs.
        folder: of all runs, and of the report.
    """

    options: argparse.Namespace
    axes: list[Axis]
    seeds: list[int]
    common: dict[str, Any]
    folder: Path

    def runs(self, name: str, fields: Mapping[str, Any]) -> dict[int, Run]:
        """The runs of a setting, by their seeds."""
        return {
            seed: Run(
                f"{name}-seed_{seed}", self.options.recipe, {**self.common, **fields, "seed": seed}
            )
            for seed in self.seeds
        }

    def train(self, runs: Iterable[Run]) -> Iterator[Run]:
        """Train runs, here or by the launcher; those that have finished."""
        options = self.options
        if options.launcher is None:
            return train_all(runs, self.folder, options.jobs, has_logs=True)
        return submit_all(runs, self.folder, options.launcher, again=options.resubmit)


def main(argv: list[str]) -> None:
    """Train what is missing, and report on what is there; an error is told in one line."""
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    logger.setLevel(logging.INFO)
    with in_one_line(program=PROGRAM):
        plan = read_plan(argv)
        options, folder = plan.options, plan.folder
        is_search = options.trials is not None
        settings = {} if is_search else grid_of(plan.axes)
        arguments = check(plan, settings)
        metric = metric_of(options.metric, arguments)
        if options.dry_run:
            show(plan, settings)
            return
        with ExitStack() as exits:
            if not options.only_report:  # that is for looking at a sweep that goes on, too
                exits.enter_context(FolderLock(folder))
            if is_search:
                settings = search(plan)
            elif not options.only_report:
                runs = [plan.runs(name, fields).values() for name, fields in settings.items()]
                # All settings with the first seed, then with the second: any number tells.
                for _ in plan.train(run for of_seed in zip(*runs, strict=True) for run in of_seed):
                    pass
            missing = write(plan, settings, metric)
    sys.exit(1 if missing and options.launcher is None and not options.only_report else 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        usage="%(prog)s RECIPE --set FIELD=VALUE,VALUE [--set ...] [options] [--field value ...]",
        description=__doc__.partition("\n\n")[2],
        allow_abbrev=False,
    )
    parser.add_argument("recipe", metavar="RECIPE", help="as for training/run.py")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FIELD=VALUES",
        help="a field, and its values with commas between; with --trials also its range, LOW:HIGH, "
        "or LOW:HIGH:log",
    )
    parser.add_argument("--seeds", metavar="S,S", help="of each setting (default: the recipe's)")
    parser.add_argument("--output_dir", type=Path, help="of all runs (default: runs/RECIPE_sweep)")
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="runs at a time, which share the cores"
    )
    parser.add_argument(
        "--launcher",
        metavar="TEMPLATE",
        help='submit each run by this command in place of training it here, such as "sbatch '
        "--wrap '{command}'\"; the next call collects what has finished",
    )
    parser.add_argument(
        "--resubmit", action="store_true", help="submit again what has not finished"
    )
    parser.add_argument(
        "--trials", type=int, metavar="N", help="search N settings by optuna, in place of a grid"
    )
    parser.add_argument("--metric", choices=tuple(SHOWN), default="bleu", help="(default: bleu)")
    parser.add_argument(
        "--picture", type=Path, help="draw the report: .png, .svg or .pdf (default: sweep.png)"
    )
    parser.add_argument("--theme", choices=tuple(THEMES), default="light", help="of the picture")
    parser.add_argument("--dry_run", action="store_true", help="show the runs, and train nothing")
    parser.add_argument("--only_report", action="store_true", help="train nothing")
    return parser


def read_plan(argv: Sequence[str]) -> Plan:
    """Read a command line.

    Raises:
        ValueError: if something in it cannot be meant.
    """
    options, others = _parser().parse_known_args(argv)
    axes, common = read_axes(options.set), read_options(others)
    if not axes:
        raise ValueError("There is nothing to vary; name it by --set FIELD=VALUE,VALUE.")
    for axis in axes:
        if axis.field in common:
            raise ValueError(f"{axis.field} is both varied by --set and set for all runs.")
    for name in ("jobs", "trials"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise ValueError(f"--{name} must be at least 1, got {value}.")
    if options.launcher is not None:
        launcher_words(options.launcher, ["train"], "run")
    elif options.resubmit:
        raise ValueError("--resubmit is for --launcher only.")
    if options.picture is not None:
        check_suffix(options.picture)
    recipe = read_recipe(options.recipe)
    seed = common.pop("seed", None)
    if options.seeds is not None and seed is not None:
        raise ValueError("--seed and --seeds are both given; leave out --seed.")
    if seed is None:
        seed = recipe.get("seed", FIELDS["seed"].default)
    seeds = read_seeds(options.seeds or str(seed))
    if options.jobs > 1 and options.launcher is None and "threads" not in {**recipe, **common}:
        common["threads"] = max(1, available_cores() // options.jobs)
    name = options.recipe if options.recipe in recipe_names() else Path(options.recipe).stem
    folder = options.output_dir or Path(f"runs/{name}_sweep")
    return Plan(options, axes, seeds, common, folder)


def check(plan: Plan, settings: Mapping[str, Mapping[str, Any]]) -> Arguments:
    """Refuse what cannot work before anything is trained.

    Args:
        plan: of the sweep.
        settings: the fields of each by its name; none for a search, of which every axis is tried
            with its ends.

    Returns:
        The settings of a run.

    Raises:
        ValueError: naming the first setting that cannot work, and why.
    """
    if not settings:
        first = {axis.field: axis.samples[0] for axis in plan.axes}
        settings = {
            f"{axis.field}={written(value)}": {**first, axis.field: value}
            for axis in plan.axes
            for value in axis.samples
        }
    for name, fields in settings.items():
        for run in plan.runs(name, fields).values():
            run.results(plan.folder)
            try:
                arguments = _arguments_of(run)
            except (ValueError, OSError) as error:
                raise ValueError(f"{name}: {error}") from error
    return arguments


def _arguments_of(run: Run) -> Arguments:
    """The settings of a run that can be judged.

    Raises:
        ValueError: if it cannot.
        FileNotFoundError: if a file is missing.
    """
    arguments = parse_arguments([run.recipe, *run.options()])
    data, training = arguments.data, arguments.training
    if training.task == PARSING:
        raise ValueError(f"A sweep judges translations, and the recipe has task={PARSING}.")
    if not training.predict_with_generate or training.prediction_loss_only:
        raise ValueError("A sweep judges translations; set predict_with_generate to true.")
    if not (data.dataset or data.validation_source or data.validation_file):
        raise ValueError("A sweep judges by a validation set, and none is named.")
    for name in FILES:
        for path in map(Path, getattr(data, name)):
            if not path.is_file():
                raise FileNotFoundError(f"There is no file {path}.")
    return arguments


def metric_of(name: str, arguments: Arguments) -> Metric:
    """The metric by which settings are judged, as the recipe has it."""
    training = arguments.training
    return Metric(name, tokenize=training.bleu_tokenize, lowercase=training.bleu_lowercase)


def show(plan: Plan, settings: Mapping[str, Mapping[str, Any]]) -> None:
    """Print the command of every run; of a search, what is searched."""
    for name, fields in settings.items():
        for run in plan.runs(name, fields).values():
            print(shlex.join(run.command(plan.folder)))
    if not settings:
        print(f"{plan.options.trials} trials of {' '.join(map(str, plan.axes))}")


def search(plan: Plan) -> dict[str, dict[str, Any]]:
    """Train trial after trial; the fields of each by its name."""
    options = plan.options
    search = Search(plan.axes, plan.folder, plan.seeds, options.metric)
    while not options.only_report:
        trials = search.open_trials(options.jobs, options.trials)
        runs: dict[int, list[Run]] = {}
        for trial in trials:
            if _will_do(trial, plan):
                runs[trial.number] = list(plan.runs(trial.name, trial.fields).values())
            else:
                search.fail(trial.number)
        found = {
            run.name: run.results(plan.folder)
            for run in plan.train(run for of_trial in runs.values() for run in of_trial)
        }
        is_waiting = False
        for number, of_trial in runs.items():
            results = [found.get(run.name) for run in of_trial]
            if None not in results:
                scores = [each["scores"][VALIDATION][options.metric] for each in results if each]
                search.tell(number, statistics.fmean(scores))
            elif options.launcher is None:
                search.fail(number)
            else:
                is_waiting = True
        if is_waiting or not trials:
            break
    return {trial.name: trial.fields for trial in search.trials()}


def _will_do(trial: Trial, plan: Plan) -> bool:
    """Whether a suggested setting can work; one that cannot is logged."""
    try:
        check(plan, {trial.name: trial.fields})
    except ValueError as error:
        logger.error("%s", error)
        return False
    return True


def write(plan: Plan, settings: Mapping[str, Mapping[str, Any]], metric: Metric) -> int:
    """Judge what has finished, print the table, and write it and the picture into the folder.

    Returns:
        How many runs have not finished.
    """
    folder, finished, missing = plan.folder, dict[str, dict[int, Finished]](), list[str]()
    for name, fields in settings.items():
        for seed, run in plan.runs(name, fields).items():
            if (results := run.results(folder)) is not None:
                of_setting = finished.setdefault(name, {})
                of_setting[seed] = Finished.of(folder / run.name, results)
            else:
                missing.append(run.name)
    if missing:
        logger.info("Not finished: %s.", ", ".join(missing))
    if not finished and plan.options.launcher is not None:
        return len(missing)
    report = report_of(plan.options.recipe, settings, finished, metric)
    (folder / f"{REPORT}.json").write_text(
        json.dumps(dataclasses.asdict(report), indent=1, ensure_ascii=False, default=str) + "\n",
        encoding="utf-8",
    )
    (folder / f"{REPORT}.tsv").write_text(tsv_of(report), encoding="utf-8")
    print(text_of(report), end="")
    picture = plan.options.picture or folder / f"{REPORT}.png"
    try:
        save_picture(draw(report, list(settings), plan.options.theme), picture)
    except ImportError as error:  # the table is what the hours were for
        logger.warning("No picture: %s", error)
    return len(missing)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
