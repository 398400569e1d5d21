"""A recipe at work in a folder: what every stage of the protocol shares."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import orjson
import torch
from torch import Tensor

from noisyteacher.bench.recipe import Recipe
from noisyteacher.core.errors import InputError, first_few
from noisyteacher.core.machine import choose_device
from noisyteacher.core.progress import ProgressDisplay
from noisyteacher.data import (
    Dataset,
    Featurizer,
    ResizedCropViews,
    Split,
    Tfidf,
    Tokens,
    load_dataset,
    split,
    split_outside,
    to_tensors,
)
from noisyteacher.data.dataset import take_rows
from noisyteacher.labels import TeacherLabels
from noisyteacher.models import BagLinear, BagMLP, CustomModel, ModelSpec, TextEncoder
from noisyteacher.runs import Row, RunFolder
from noisyteacher.train import Job, Problem, TrainConfig, TrainData, Trained, train
from noisyteacher.train.distributed import Processes, processes_from_environment


@dataclass(frozen=True)
class RunOptions:
    """Where and how a recipe runs, as ``run_recipe`` takes it."""

    data: str | Path | None = None
    cache: str | Path | None = None
    labels: str | Path | None = None
    device: str | None = None
    minutes: float | None = None
    cohort: int = 8
    trackers: tuple[str, ...] = ()
    quiet: bool = False
    picture_shape: tuple[int, int] | None = None  # where rows of a table are pictures

    def __post_init__(self) -> None:
        if self.cohort < 1:
            raise InputError(f"cohort must be at least 1, not {self.cohort}.")
        if self.minutes is not None and not self.minutes > 0:
            raise InputError(f"minutes must be above 0, not {self.minutes}.")


@dataclass
class BenchRun:
    """A recipe, its data, and where its files go."""

    recipe: Recipe
    run_folder: RunFolder
    dataset: Dataset
    given_labels: TeacherLabels | None  # that stand in for the teacher's
    device: torch.device
    processes: Processes
    options: RunOptions
    deadline: float = math.inf
    progress: ProgressDisplay | None = None

    @property
    def folder(self) -> Path:
        return self.run_folder.path

    @property
    def leads(self) -> bool:
        """Whether this process writes the run's files."""
        return self.processes.leads

    @property
    def cohort(self) -> int:
        """How many students train at a time: on a CPU, or over several processes, one."""
        alone = self.device.type != "cuda" or self.processes.count > 1
        return 1 if alone else self.options.cohort

    @property
    def minutes_left(self) -> float | None:
        if self.deadline == math.inf:
            return None
        return max(0.0, (self.deadline - time.monotonic()) / 60)

    def out_of_time(self) -> bool:
        """Whether ``minutes`` are over, the same in every process."""
        return self.processes.agree(self.minutes_left == 0)

    @cached_property
    def data(self) -> TrainData:
        """The inputs as the student reads them."""
        return _train_data(self.dataset, self.recipe, self.recipe.student)

    @cached_property
    def teacher_data(self) -> TrainData:
        """The inputs as the teacher reads them."""
        if _read_alike(self.recipe):
            return self.data
        return _train_data(self.dataset, self.recipe, self.recipe.teacher)

    def wait_for_all(self) -> None:
        self.processes.barrier()

    def rows(self) -> list[Row]:
        """The rows so far, the same in every process."""
        self.wait_for_all()
        rows = self.run_folder.rows()
        self.wait_for_all()
        return rows

    def labels_path(self, labeled: int) -> Path:
        """Where the teacher's labels are stored: one store for all sizes if it did not learn A."""
        return self.folder / "labels" / ("outside" if self.recipe.outside else str(labeled))

    def split(self, labeled: int, trial: int) -> Split:
        """The parts of a trial; a teacher with rows of its own has A as V, see split_outside."""
        recipe = self.recipe
        if recipe.pool is not None:
            return split_outside(
                self.dataset.y,
                labeled,
                recipe.outside,
                recipe.pool,
                selection=recipe.selection,
                seed=recipe.seed,
                trial=trial,
            )
        return split(
            self.dataset.y,
            labeled,
            val=recipe.val,
            selection=recipe.selection,
            seed=recipe.seed,
            trial=trial,
            stratified=recipe.stratified,
        )

    def problem(
        self,
        parts: Split,
        model: ModelSpec,
        data: TrainData,
        init: dict[str, Tensor] | None = None,
    ) -> Problem:
        return Problem(data, self.dataset.ids, self.dataset.y, parts, model, init)

    def train(
        self, jobs: Sequence[Job], config: TrainConfig, data: TrainData | None = None
    ) -> list[Trained]:
        return train(
            jobs,
            self.data if data is None else data,
            config,
            out=self.folder,
            device=self.device,
            cohort=self.cohort,
            trackers=self.options.trackers,
            minutes=self.minutes_left,
            quiet=self.options.quiet,
            progress=self.progress,
        )


@contextmanager
def open_run(
    recipe: Recipe, out: str | Path, options: RunOptions, *, lock: bool = False
) -> Iterator[BenchRun]:
    """Join the processes that torchrun started, if any, find the device, and read the data.

    With ``lock`` no other call can work in the folder meanwhile.
    """
    started = time.monotonic()
    deadline = math.inf if options.minutes is None else started + 60 * options.minutes
    place = choose_device(options.device)
    if place.type == "cuda":
        torch.cuda.set_device(place)
    folder = RunFolder(Path(out))
    with (
        processes_from_environment(place) as processes,
        _locked(folder, processes) if lock else nullcontext(),
    ):
        dataset = load_dataset(
            recipe.dataset,
            data=options.data,
            cache=options.cache,
            **recipe.data_options,  # type: ignore[arg-type]
        )
        if recipe.at_most is not None:
            dataset = _some_rows(dataset, recipe.at_most)
        recipe = recipe.for_classes(len(dataset.classes))
        given_labels = _given_labels(options.labels, dataset)
        yield BenchRun(recipe, folder, dataset, given_labels, place, processes, options, deadline)


@contextmanager
def _locked(folder: RunFolder, processes: Processes) -> Iterator[None]:
    """The leading process holds the lock for all; where it cannot, none of them goes on."""
    refused = None
    with ExitStack() as stack:
        if processes.leads:
            try:
                stack.enter_context(folder.lock())
            except InputError as error:
                refused = error
        if processes.agree(refused is not None):
            raise refused or InputError(f"{folder.path} is in use by another run.")
        yield


def claim_folder(run: BenchRun) -> None:
    """Write what the folder holds, or refuse one that holds a run with other settings."""
    lasting = run.recipe.lasting()
    if run.options.labels is not None:
        lasting["teacher"] = (
            f"the label store {Path(run.options.labels).name}, {_hash(run.given_labels)}"
        )
    # Rows tell what may differ from call to call; the rest was made once, for all of them. A second
    # generation may come in a later call, or not; its first students may not change.
    last_call = {name: repr(value) for name, value in vars(run.recipe).items()}
    run.run_folder.claim(lasting, last_call=last_call, optional=("first",), write=run.leads)
    run.wait_for_all()


def _hash(labels: TeacherLabels | None) -> str:
    """Tells a store from another one of the same name."""
    assert labels is not None
    digest = hashlib.sha256(orjson.dumps(labels.ids.tolist()))
    for column in (labels.topk_index, labels.topk_logprob):
        digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()[:16]


def _given_labels(path: str | Path | None, dataset: Dataset) -> TeacherLabels | None:
    if path is None:
        return None
    labels = TeacherLabels.open(path)
    named, wanted = tuple(labels.classes), tuple(dataset.classes)
    if named != wanted and sorted(named) == sorted(wanted):
        raise InputError(
            f"{path} has the classes of {dataset.name} in another order: {first_few(named)}."
        )
    return labels


def _some_rows(dataset: Dataset, at_most: int) -> Dataset:
    """At most so many rows of each part: the same ones every time, in order."""

    def chosen(part: np.ndarray) -> np.ndarray:
        rng = np.random.default_rng(0)
        return np.sort(rng.permutation(len(part))[:at_most])

    train, test = chosen(dataset.ids), chosen(dataset.test_ids)
    return replace(
        dataset,
        ids=dataset.ids[train],
        inputs=take_rows(dataset.inputs, train),
        y=dataset.y[train],
        test_ids=dataset.test_ids[test],
        test_inputs=take_rows(dataset.test_inputs, test),
        test_y=dataset.test_y[test],
    )


# -- which tensors a model reads -------------------------------------------------------------------


def _train_data(dataset: Dataset, recipe: Recipe, model: ModelSpec) -> TrainData:
    """The dataset as this model reads it."""
    reads_text = isinstance(model, TextEncoder | BagLinear | BagMLP)
    if (dataset.kind == "text") != reads_text and not isinstance(model, CustomModel):
        raise InputError(f"{model!r} cannot read {dataset.name}, whose kind is {dataset.kind}.")
    tensors = to_tensors(dataset, featurizer=_featurizer(recipe, model))
    if recipe.crop is not None:
        tensors = replace(tensors, views=ResizedCropViews.of(dataset, size=recipe.crop))
    return TrainData(
        tensors.inputs, tensors.views, len(dataset.classes), tensors.test_inputs, dataset.test_y
    )


def _read_alike(recipe: Recipe) -> bool:
    """Whether teacher and student can share one copy of the inputs."""
    teacher, student = recipe.teacher, recipe.student
    if isinstance(teacher, TextEncoder) and isinstance(student, TextEncoder):
        return teacher.path_or_name == student.path_or_name
    words = [_words(model) for model in (teacher, student)]
    if None not in words:
        return words[0] == words[1]
    return not isinstance(teacher, TextEncoder) and not isinstance(student, TextEncoder)


def _featurizer(recipe: Recipe, model: ModelSpec) -> Featurizer | None:
    if isinstance(model, TextEncoder):
        return Tokens(model.path_or_name, recipe.text_length)
    words = _words(model)
    # Words of one text are kept, as when the first results of these recipes were made.
    return None if words is None else Tfidf(words, min_texts=1)


def _words(model: ModelSpec) -> int | None:
    """How many words a model that reads TF-IDF rows knows."""
    if isinstance(model, CustomModel):
        return model.words
    return model.features if isinstance(model, BagLinear | BagMLP) else None
