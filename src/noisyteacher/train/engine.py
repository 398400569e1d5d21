"""Train students: one, or a cohort of many side by side on one GPU.

On a GPU every student of a cohort has its own captured graph and stream, and the host only
replays them in turn. On a CPU the students of a run follow one another; the code is the same.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
import torch
from sklearn.metrics import f1_score
from torch import Tensor

from noisyteacher.core.errors import InputError, first_few
from noisyteacher.core.machine import choose_device, memory_of, one_thread
from noisyteacher.core.progress import ProgressDisplay
from noisyteacher.data.tensors import rows_in
from noisyteacher.models import MLP, BagLinear, BagMLP, CustomModel, Linear, Network
from noisyteacher.models.layers import side_by_side
from noisyteacher.train.checkpoint import (
    EpochRecord,
    History,
    checkpoint_path,
    load_checkpoint,
    save_checkpoint,
)
from noisyteacher.train.config import TrainConfig
from noisyteacher.train.distributed import Processes, processes_from_environment
from noisyteacher.train.job import DeviceData, Job, TrainData
from noisyteacher.train.student_run import StudentRun
from noisyteacher.train.track import Tracker, open_trackers

SAVE_SECONDS = 60.0  # between checkpoints within an epoch, written after windows


@dataclass(frozen=True)
class Accuracy:
    """Test accuracy in percent, three ways: last epoch, selected on S, best test epoch."""

    last: float | None
    selected: float | None
    best_test: float | None

    @classmethod
    def of(cls, curve: Sequence[EpochRecord]) -> Accuracy:
        """The three accuracies of a curve; in a tie on S, the earliest epoch is selected."""
        tested = [(r.test, r) for r in curve if r.test is not None]
        if not tested:
            return cls(None, None, None)
        chosen = [r for _, r in tested if r.selection is not None]
        selected = max(chosen, key=lambda r: (r.selection, -r.epoch)).test if chosen else None
        return cls(tested[-1][0], selected, max(test for test, _ in tested))


@dataclass(frozen=True)
class Trained:
    """A student after training, or after as much of it as there was time for."""

    job: Job
    state: dict[str, Tensor]  # the model's weights, on the CPU
    history: History
    finished: bool

    @property
    def accuracy(self) -> Accuracy:
        return Accuracy.of(self.history.curve)

    def network(self) -> Network:
        """The student in evaluation mode, on the CPU."""
        made = cast(Network, self.job.model.build())
        made.load_state_dict(self.state)
        return made.eval()

    @property
    def examples_per_second(self) -> float:
        return self.history.examples / max(self.history.seconds, 1e-9)


@dataclass
class _Session:
    """What the functions below share during one call of ``train``."""

    data: DeviceData
    config: TrainConfig
    processes: Processes
    folder: Path | None
    progress: ProgressDisplay
    trackers: list[Tracker]
    deadline: float  # of time.monotonic(); no window is begun that would likely end later
    data_digest: str = ""
    last_window: float = 0.0  # how long it took, of whichever cohort; mostly it is an epoch
    uncaptured: set[str] = field(default_factory=set)  # networks that no CUDA graph can hold
    # Epochs of each job by its name; None where the caller shows how far all of them are.
    reached: dict[str, int] | None = None

    def checkpoint(self, job: Job) -> Path | None:
        return self.folder and checkpoint_path(self.folder, job.name)

    def reach(self, job: Job, epoch: int) -> None:
        """Show how far all students together are, once one of them has reached this epoch."""
        if self.reached is None:
            return
        self.reached[job.name] = epoch
        if len(self.reached) > 1:
            total = len(self.reached) * self.config.epochs
            self.progress.update_total("All students", sum(self.reached.values()), total)


def train(
    jobs: Job | Sequence[Job],
    data: TrainData,
    config: TrainConfig,
    *,
    out: str | Path | None = None,
    device: str | torch.device | None = None,
    cohort: int = 8,
    trackers: Sequence[str] = (),
    minutes: float | None = None,
    quiet: bool = False,
    progress: ProgressDisplay | None = None,
    max_memory: float | None = None,
) -> list[Trained]:
    """Train all jobs and return the students in the same order.

    With ``out``, checkpoints are saved in ``out/checkpoints``. If the call is killed, the same call
    continues, and finished students are not trained twice. ``minutes`` stops between epochs; after
    the first, no epoch is started that would likely end too late. ``cohort`` is the number of
    students that share a GPU at the same time. ``progress`` is a display that already exists, for
    callers that train in several calls.

    If the inputs take more than ``max_memory`` GB (by default 60% of the GPU's memory, or half of
    the machine's on a CPU), they stay where they are, and students are trained one after another on
    windows of a quarter of that size; see ``train.windows``.
    """
    jobs = [jobs] if isinstance(jobs, Job) else list(jobs)
    names = [job.name for job in jobs]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(f"Two jobs have the same name: {first_few(repeated)}.")
    where = choose_device(device)
    folder = Path(out) if out is not None else None
    deadline = math.inf if minutes is None else time.monotonic() + 60 * minutes
    with (
        processes_from_environment(where) as processes,
        ExitStack() as stack,
        torch.random.fork_rng(devices=[where] if where.type == "cuda" else []),
        _fast_kernels(where),
        one_thread() if where.type == "cpu" and _are_small(jobs) else nullcontext(),
    ):
        processes.check_batch(config.batch_size)
        reached = dict.fromkeys(names, 0) if progress is None else None
        if progress is None:
            progress = stack.enter_context(ProgressDisplay(quiet=quiet or not processes.leads))
        for job in jobs:
            processes.check_method(job.method)
        open_to = open_trackers(folder, trackers) if processes.leads else []
        window = _window(jobs, data, where, max_memory, progress)
        session = _Session(
            DeviceData.build(data, where, window),
            config,
            processes,
            folder,
            progress,
            open_to,
            deadline,
            data.digest() + ("" if window is None else f", {window}") if folder else "",
            reached=reached,
        )
        try:
            alone = where.type == "cpu" or window is not None
            return _train_all(jobs, session, 1 if alone else cohort)
        finally:
            for tracker in open_to:
                tracker.close()


@contextmanager
def _fast_kernels(device: torch.device):  # type: ignore[no-untyped-def]
    if device.type != "cuda":
        yield
        return
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        # What is built on "cuda" alone, such as a rate in a tensor, belongs on this one.
        with torch.cuda.device(device):
            yield
    finally:
        torch.backends.cudnn.benchmark = before


def _window(
    jobs: Sequence[Job],
    data: TrainData,
    device: torch.device,
    max_memory: float | None,
    progress: ProgressDisplay,
) -> int | None:
    """How many rows are on the device at a time; None: all of them, because they fit."""
    share = 0.6 if device.type == "cuda" else 0.5
    limit = share * memory_of(device) if max_memory is None else max_memory * 1e9
    needed = data.row_bytes * rows_in(data.inputs)
    if needed <= limit:
        return None
    columns = max((job.prepared.columns.row_bytes for job in jobs), default=0)
    window = max(1, int(limit / 4 / (data.row_bytes + columns)))
    progress.say(
        f"The inputs take {needed / 1e9:.3g} GB, and {limit / 1e9:.3g} GB may be used on the "
        f"device, so they are read in windows of {window:,} rows."
    )
    return window


def _are_small(jobs: Sequence[Job]) -> bool:
    """Whether all students are so small that a second thread would slow them down."""
    return all(isinstance(job.model, Linear | MLP | BagLinear | BagMLP) for job in jobs)


def _train_all(jobs: list[Job], session: _Session, size: int) -> list[Trained]:
    """Cohort after cohort; one that does not fit in memory is halved."""
    done: list[Trained] = []
    while len(done) < len(jobs):
        group = jobs[len(done) : len(done) + size]
        try:
            with side_by_side(len(group)):
                done += _train_cohort(group, session)
            continue
        except torch.OutOfMemoryError:
            if len(group) == 1:
                raise
        # Not in the handler: there the error's traceback still holds the students' memory.
        size = (len(group) + 1) // 2
        session.progress.say(
            f"{len(group)} students do not fit in GPU memory together; continuing with {size}."
        )
        gc.collect()
        torch.cuda.empty_cache()
    return done


class _Runner:
    """One student of a cohort, with its history and its last good state."""

    def __init__(self, job: Job, session: _Session) -> None:
        self.job, self.session = job, session
        self.history = History(job.fingerprint((session.config, session.data_digest)))
        self.good: dict[str, Tensor] = {}  # after the last window; empty before the first
        path = session.checkpoint(job)
        found = load_checkpoint(path, self.history.fingerprint) if path else None
        if found is not None:
            self.good, self.history = found
        self.run: StudentRun | None = None
        self._saved = time.monotonic()
        session.reach(job, session.config.epochs if not self.active else self.history.epochs_done)

    @property
    def finished(self) -> bool:
        return self.history.epochs_done >= self.session.config.epochs

    @property
    def active(self) -> bool:
        return not self.finished and self.history.failed is None

    def build(self) -> None:
        """Put the student on the device, captured where possible, in its stored state."""
        session = self.session
        self.run = self._fresh_run()
        in_time = time.monotonic() < session.deadline
        if self.run.on_gpu and session.processes.count == 1 and in_time:
            self._capture(self.run)
        if self.good:
            self.run.load_state(self.good)
        self.good = self.run.state()

    def _fresh_run(self) -> StudentRun:
        session = self.session
        return StudentRun(self.job, session.data, session.config, session.processes)

    def _capture(self, run: StudentRun) -> None:
        """Capture the student's step; a network of the user's own may turn out to be unfit."""
        model, session = self.job.model, self.session
        if not isinstance(model, CustomModel):
            run.capture()
            return
        if model.name in session.uncaptured:
            return
        problem = run.try_capture()
        if problem is not None:
            session.uncaptured.add(model.name)
            session.progress.say(
                f"{model.name} cannot be captured in a CUDA graph ({problem}), so it is trained "
                "without one, which is slower."
            )
            self.run = self._fresh_run()

    @property
    def place(self) -> tuple[int, int]:
        """The epoch and the window that come next."""
        return self.history.epochs_done, self.history.windows_done

    def end_window(self, seconds: float) -> None:
        """Record what was just trained; on a NaN loss go back to the last good state."""
        assert self.run is not None
        history, (epoch, window), judged = self.history, self.place, self.evaluates()
        with self.run.on_stream():
            loss = self.session.processes.mean(float(self.run.loss_sum)) / self.run.steps
        if not math.isfinite(loss):
            history.failed = f"the loss became {loss} in epoch {epoch + 1}"
            self.run.load_state(self.good)
            kept = f"window {window} of epoch {epoch + 1}" if window else f"epoch {epoch}"
            self.session.progress.say(
                f"{self.job.title or self.job.name}: {history.failed}. Training stops, and the "
                f"weights of {kept} are kept."
            )
            self.session.reach(self.job, self.session.config.epochs)
            self.save()
            return
        history.seconds += seconds
        history.examples += self.run.window_steps * self.run.batch
        if window + 1 < self.run.plan.count:
            history.windows_done += 1
            self.good = self.run.state(into=self.good)
            if time.monotonic() - self._saved >= SAVE_SECONDS:
                self.save()
        else:
            history.windows_done = 0
            self._end_epoch(epoch, loss, judged)

    def evaluates(self) -> bool:
        """Whether the student is judged after the window that comes next."""
        config, (epoch, window) = self.session.config, self.place
        due = epoch + 1 == config.epochs or (epoch + 1) % config.eval_every == 0
        return due and self.run is not None and window + 1 == self.run.plan.count

    def _end_epoch(self, epoch: int, loss: float, judged: bool) -> None:
        assert self.run is not None
        config, history = self.session.config, self.history
        last = epoch + 1 == config.epochs
        selection, test = self._judge(last) if judged else (None, None)
        history.curve.append(EpochRecord(epoch + 1, loss, selection, test))
        self.good = self.run.state(into=self.good)
        # Before the checkpoint: a kill between the two repeats the report, and loses none.
        self._report(history.curve[-1])
        if last or (epoch + 1) % config.checkpoint_every == 0:
            self.save()

    def _judge(self, last: bool) -> tuple[float | None, float | None]:
        assert self.run is not None
        chosen, tested = self.run.predictions()
        test_y = self.session.data.test_y
        if last and len(test_y):
            score = f1_score(test_y, tested, average="macro", zero_division=0)
            self.history.macro_f1 = 100 * float(score)
        return _percent(chosen, self.job.selection_y), _percent(tested, test_y)

    def save(self) -> None:
        path = self.session.checkpoint(self.job)
        if path is not None and self.session.processes.leads:
            save_checkpoint(path, self.good, self.history)
        self._saved = time.monotonic()

    def _report(self, record: EpochRecord) -> None:
        history, epochs = self.history, self.session.config.epochs
        accuracy, told = None, f"loss {record.loss:.3f}"
        if record.test is not None:
            accuracy, told = record.test, f"{told}, test accuracy {record.test:.2f}%"
        elif record.selection is not None:
            accuracy, told = record.selection, f"{told}, accuracy on S {record.selection:.2f}%"
        title = self.job.title or self.job.name
        self.session.progress.update(
            title,
            record.epoch,
            epochs,
            numbers="" if accuracy is None else f"{accuracy:.1f}%",
            line=f"{title}: epoch {record.epoch} of {epochs}, {told}",
            seconds_left=history.seconds / record.epoch * (epochs - record.epoch),
        )
        self.session.reach(self.job, record.epoch)
        numbers = {"loss": record.loss, "selection": record.selection, "test": record.test}
        for tracker in self.session.trackers:
            tracker.log(
                self.job.name,
                record.epoch,
                {name: value for name, value in numbers.items() if value is not None},
            )

    def result(self) -> Trained:
        prefix = "model."
        state = {
            name.removeprefix(prefix): value.cpu()
            for name, value in self.good.items()
            if name.startswith(prefix)
        }
        return Trained(self.job, state, self.history, self.finished)


def _train_cohort(jobs: list[Job], session: _Session) -> list[Trained]:
    runners = [_Runner(job, session) for job in jobs]
    building = [r for r in runners if r.active or not r.good]
    for runner in building:
        runner.build()
    while session.processes.agree(time.monotonic() + session.last_window < session.deadline):
        began = time.monotonic()
        # Students of a resumed cohort may stand at different places: the ones behind go first.
        active = [r for r in building if r.active]
        if not active:
            break
        place = min(r.place for r in active)
        _one_window([r for r in active if r.place == place], *place)
        session.processes.barrier()
        session.last_window = time.monotonic() - began
    for runner in building:
        runner.save()
    return [runner.result() for runner in runners]


def _one_window(runners: list[_Runner], epoch: int, window: int) -> None:
    """Train on one window: on all rows for an epoch, unless they do not fit on the device."""
    began = time.monotonic()
    runs = [runner.run for runner in runners if runner.run is not None]
    for run in runs:
        run.start_epoch(epoch, window)
    for step in range(max(run.window_steps for run in runs)):
        for run in runs:
            if step < run.window_steps:
                run.advance(step)
    for runner, run in zip(runners, runs, strict=True):
        if runner.evaluates():
            run.launch_evaluation()
    for run in runs:
        run.join_stream()
    seconds = time.monotonic() - began
    for runner in runners:
        runner.end_window(seconds)


def _percent(predicted: np.ndarray, y: np.ndarray) -> float | None:
    return 100 * float(np.mean(predicted == y)) if len(y) else None
