"""One student in training: static buffers, one step, one evaluation, and its whole state.

Everything a step reads or writes lives in tensors that never move, and the step itself never asks
the host for anything. So the same code runs eagerly on a CPU and, on a GPU, is captured once as a
CUDA graph and replayed (``capture``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import cast

import numpy as np
import torch
from torch import Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.data import Inputs
from noisyteacher.data.tensors import gather_rows, join_batches, to_device
from noisyteacher.methods import EMBEDDINGS, Columns, Output
from noisyteacher.models import CustomNetwork, Network, embed_and_classify, synchronize
from noisyteacher.train.config import TrainConfig
from noisyteacher.train.distributed import Processes
from noisyteacher.train.job import DeviceData, Job
from noisyteacher.train.windows import Window, WindowPlan, WindowReader

# Streams of randomness of one student; each is seeded anew at every epoch, so that a resumed run
# needs no stored generator state.
_ORDER, _WEAK, _STRONG, _DROPOUT = range(4)


class StudentRun:
    """A student, its optimizer and the buffers of its steps."""

    def __init__(
        self, job: Job, data: DeviceData, config: TrainConfig, processes: Processes
    ) -> None:
        if "strong" in job.method.views and not data.views.has_strong:
            raise InputError(f"{job.method!r} needs a strong view, and this data has none.")
        self.job, self.data, self.config, self.processes = job, data, config, processes
        self.device = data.device
        self.on_gpu = self.device.type == "cuda"
        where = self.device if data.window is None else torch.device("cpu")
        self.all_columns = _columns_on(job.prepared.columns, where)
        self._build_model()
        self._build_buffers()
        self._graph: torch.cuda.CUDAGraph | None = None
        self._eval_graph: torch.cuda.CUDAGraph | None = None
        self.stream: torch.cuda.Stream | None = None

    # -- building ---------------------------------------------------------------------------

    def _build_model(self) -> None:
        job = self.job
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(job.seed)
            self.model = cast(Network, job.model.build())
            classes = getattr(self.model, "classes", self.data.classes)
            if classes != self.data.classes:
                raise InputError(
                    f"The model has {classes} classes, the labels have {self.data.classes}."
                )
            if isinstance(self.model, CustomNetwork):
                self._check_custom(self.model)
            self.modules = job.method.modules(self.model, job.prepared.columns)
        if job.init is not None:
            self.model.load_state_dict(job.init)
        if self.on_gpu and self.processes.count > 1:
            synchronize(self.model)
        self.model.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        if self.modules is not None:
            self.modules.to(self.device)
        owners = [self.model] if self.modules is None else [self.model, self.modules]
        self.parameters = [p for one in owners for p in one.parameters() if p.requires_grad]
        optimizer = self.config.optimizer
        if job.weight_decay is not None:
            optimizer = replace(optimizer, weight_decay=job.weight_decay)
        self.optimizer = optimizer.build(self.parameters, self.on_gpu)

    def _check_custom(self, model: CustomNetwork) -> None:
        """Refuse a network of the user's own that does not fit, and measure its embedding."""
        model.to(self.device)
        first = torch.arange(min(2, self.data.train_rows), device=self.device)
        shown = self.data.views.plain(self.data.rows(first))
        method = self.job.method
        model.check(shown, embedding_for=repr(method) if EMBEDDINGS in method.needs else None)

    def _build_buffers(self) -> None:
        columns, config, device = self.all_columns, self.config, self.device
        if len(columns) == 0:
            raise InputError(f"{self.job.method!r} keeps no row to train on.")
        self.batch = config.batch_size
        epoch_rows = columns.rows_per_epoch or len(columns)
        self.steps = config.steps_per_epoch or -(-epoch_rows // self.batch)
        window = self.data.window or len(columns)
        y = self.job.prepared.columns.y.numpy()
        self.plan = WindowPlan(y, config.gold_repeat, self.steps, window)
        self._ahead: tuple[tuple[int, int], Window] | None = None
        kept = self.job.positions[self.job.prepared.columns.index.numpy()]
        self.reader: WindowReader | None = None
        if self.data.window is None:
            self.inputs, self.columns = self.data.inputs, columns
            self.positions = torch.from_numpy(kept).to(device)
        else:
            most = self.plan.most_rows
            self.reader = WindowReader(self.data.inputs, columns, kept, most, device)
            self.inputs, self.columns = self.reader.inputs, self.reader.columns
            self.positions = torch.arange(most, device=device)
        steps = self.plan.most_steps
        self.order = torch.zeros(steps, self.batch, dtype=torch.int64, device=device)
        self.rates = torch.zeros(steps, device=device)
        self.cursor = torch.zeros(1, dtype=torch.int64, device=device)
        self.done = torch.zeros((), device=device)  # steps taken in the whole run
        self.loss_sum = torch.zeros((), device=device)
        self.weak_generator = torch.Generator(device)
        self.strong_generator = torch.Generator(device)
        # Dropout layers draw from the default generator; on a GPU, where the students of a cohort
        # take turns, it is this one during a student's own steps.
        self.dropout_generator = torch.Generator(device) if self.on_gpu else torch.default_generator
        self._build_evaluation()

    def _build_evaluation(self) -> None:
        selection, data = self.job.selection.astype(np.int64), self.data
        self.eval_inputs, first_test = data.inputs, data.train_rows
        if data.window is not None:
            # S and the test part are on the device always.
            some = [gather_rows(data.inputs, torch.from_numpy(selection))]
            some += [] if data.test_inputs is None else [data.test_inputs]
            self.eval_inputs, first_test = to_device(some, self.device), len(selection)
            selection = np.arange(len(selection))
        wanted = np.concatenate([selection, first_test + np.arange(len(data.test_y))])
        self.eval_y = np.concatenate([self.job.selection_y, data.test_y])
        size = min(self.config.eval_batch, max(len(wanted), 1))
        chunks = -(-len(wanted) // size)
        padded = np.resize(wanted, (chunks, size)) if chunks else np.empty((0, size), np.int64)
        self.eval_order = torch.from_numpy(padded).to(self.device)
        self.predicted = torch.zeros_like(self.eval_order)

    # -- an epoch ---------------------------------------------------------------------------

    def on_stream(self) -> AbstractContextManager[object]:
        """Where this student's work is queued: its own stream once captured."""
        return torch.cuda.stream(self.stream) if self.stream is not None else nullcontext()

    def start_epoch(self, epoch: int, window: int = 0) -> None:
        """Draw the order of an epoch, or of a window of it; set columns, rates, seeds, counters."""
        with self.on_stream():
            if window == 0:
                self._refresh(epoch)
            self._fill_buffers(epoch, window)
            self._prefetch(epoch, window + 1)
        self.model.train()

    def _fill_buffers(self, epoch: int, number: int = 0) -> None:
        place = [self.job.seed, epoch, number] if number else [self.job.seed, epoch]
        seeds = np.random.SeedSequence(place).generate_state(4, np.uint64) >> 1
        window = self._load_window(epoch, number)
        rng = np.random.default_rng(int(seeds[_ORDER]))
        need, drawn = window.steps * self.batch, [np.empty(0, np.int64)]
        while need > 0:
            drawn.append(rng.permutation(window.places)[:need])
            need -= len(drawn[-1])
        order = torch.from_numpy(np.concatenate(drawn).reshape(window.steps, self.batch))
        factors = self.config.schedule.factors(epoch, self.config.epochs, self.steps)
        factors = factors[window.first : window.first + window.steps]
        self.factors = [self.config.optimizer.lr * factor for factor in factors]
        self.window_steps = window.steps
        self.order[: window.steps].copy_(order)
        self.rates[: window.steps].copy_(torch.tensor(self.factors))
        self.cursor.zero_()
        if number == 0:
            self.loss_sum.zero_()
        self.done.fill_(epoch * self.steps + window.first)
        self.weak_generator.manual_seed(int(seeds[_WEAK]))
        self.strong_generator.manual_seed(int(seeds[_STRONG]))
        self.dropout_generator.manual_seed(int(seeds[_DROPOUT]))

    def _load_window(self, epoch: int, number: int) -> Window:
        """The window, with its rows on the device."""
        key = (epoch, number)
        if self._ahead is not None and self._ahead[0] == key:
            window = self._ahead[1]
        else:
            window = self.plan.window(self.job.seed, *key)
        if self.reader is not None:
            self.reader.load(key, window.rows)
        return window

    def _prefetch(self, epoch: int, number: int) -> None:
        """Begin to read the window that is trained on after this one."""
        if number == self.plan.count:
            epoch, number = epoch + 1, 0
        renewed = number == 0 and self.job.method.refresh_every()  # its weights are not known yet
        if self.reader is None or renewed or epoch == self.config.epochs:
            return
        self._ahead = (epoch, number), self.plan.window(self.job.seed, epoch, number)
        self.reader.prefetch((epoch, number), self._ahead[1].rows)

    def advance(self, step: int) -> None:
        """Take one step: replay the graph where there is one, else run it eagerly."""
        if self._graph is not None:
            with self.on_stream():
                self._graph.replay()
            return
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], float):
                group["lr"] = self.factors[step]
        with self._own_dropout():
            self._step()

    @contextmanager
    def _own_dropout(self) -> Iterator[None]:
        """Let the device's default generator be this student's."""
        if self.dropout_generator.device.type != "cuda":
            yield
            return
        default = torch.cuda.default_generators[torch.cuda.current_device()]
        before = default.graphsafe_get_state()
        default.graphsafe_set_state(self.dropout_generator)
        try:
            yield
        finally:
            default.graphsafe_set_state(before)

    def _step(self) -> None:
        entry = self.order.index_select(0, self.cursor).squeeze(0)
        batch = self.columns.batch(entry)
        output = self._forward(gather_rows(self.inputs, self.positions.index_select(0, entry)))
        if self.processes.count > 1:
            batch = self.processes.share_of_batch(batch)
        progress = self.done / float(self.config.epochs * self.steps)
        loss = self.job.method.loss(output, batch, self.modules, progress)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.processes.average_gradients(self.parameters)
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].copy_(self.rates.index_select(0, self.cursor).squeeze(0))
        self.optimizer.step()
        self.loss_sum += loss.detach()
        self.cursor += 1
        self.done += 1

    def _forward(self, raw: Inputs) -> Output:
        views, method = self.data.views, self.job.method
        shown = [views.weak(raw, self.weak_generator)]
        if "strong" in method.views:
            shown.append(views.strong(raw, self.strong_generator))
        if self.processes.count > 1:
            # Every process draws the whole batch's randomness, so that N processes see what one
            # would have seen.
            shown = [self.processes.share_of(view) for view in shown]
        with self._autocast():
            if EMBEDDINGS in method.needs:
                embedding, logits = embed_and_classify(self.model, join_batches(shown))
            else:
                embedding, logits = None, self.model(join_batches(shown))
        parts = logits.float().chunk(len(shown))
        output = Output(parts[0], strong=parts[1] if len(shown) == 2 else None)
        if embedding is not None:
            output = replace(output, embedding=embedding.float().chunk(len(shown))[0])
        return output

    def _autocast(self) -> AbstractContextManager[object]:
        dtype = self.config.autocast_dtype(self.device)
        if dtype is None:
            return nullcontext()
        # The cache of cast weights would outlive a captured step.
        return torch.autocast(self.device.type, dtype=dtype, cache_enabled=not self.on_gpu)

    # -- looking at the student -------------------------------------------------------------

    def launch_evaluation(self) -> None:
        """Predict S and the test part; ``predictions`` waits for the result."""
        self.model.eval()
        with self.on_stream():
            self.cursor.zero_()
            for _ in range(len(self.eval_order)):
                if self._eval_graph is not None:
                    self._eval_graph.replay()
                else:
                    self._eval_step()

    def _eval_step(self) -> None:
        chosen = self.eval_order.index_select(0, self.cursor).squeeze(0)
        logits = self._plain_logits(gather_rows(self.eval_inputs, chosen))
        self.predicted.index_copy_(0, self.cursor, logits.argmax(1)[None])
        self.cursor += 1

    @torch.no_grad()
    def _plain_logits(self, raw: Inputs) -> Tensor:
        shown = self.data.views.plain(raw)
        with self._autocast():
            logits: Tensor = self.model(shown)
        return logits.float()

    def predictions(self) -> tuple[np.ndarray, np.ndarray]:
        """Predicted classes of S and of the test part, as last evaluated."""
        with self.on_stream():
            flat = self.predicted.cpu().numpy().reshape(-1)[: len(self.eval_y)]
        return flat[: len(self.job.selection)], flat[len(self.job.selection) :]

    def probabilities(self, positions: np.ndarray) -> Tensor:
        """(m, L) un-augmented predictions of training rows in evaluation mode."""
        training = self.model.training
        self.model.eval()
        chunks = torch.from_numpy(positions).to(self.device).split(self.config.eval_batch)
        probs = torch.cat([self._plain_logits(self.data.rows(c)).softmax(1) for c in chunks])
        self.model.train(training)
        return probs

    def _refresh(self, epoch: int) -> None:
        """Let the method renew its columns from what the student says now."""
        every = self.job.method.refresh_every()
        if every and epoch % every == 0:
            columns = self.all_columns
            of_rows = self.probabilities(self.job.positions[columns.index.cpu().numpy()])
            of_val = self.probabilities(self.job.val_positions)
            where = columns.weight.device
            self.job.method.refresh(of_rows.to(where), of_val.to(where), columns)

    # -- CUDA graphs ------------------------------------------------------------------------

    def capture(self) -> None:
        """Record one training step and one evaluation step on a stream of this student's own."""
        before = self.state()
        self._fill_buffers(0)
        torch.cuda.synchronize(self.device)
        self.stream = torch.cuda.Stream(self.device)
        with self._own_dropout():
            self.model.train()
            self._graph = self._record(self._step)
            self.model.eval()
            if len(self.eval_order):
                self._eval_graph = self._record(self._eval_step)
        # The warm-up steps trained the student: undo them.
        self.load_state(before)
        torch.cuda.synchronize(self.device)

    def try_capture(self) -> str | None:
        """``capture``, or one line on why it is impossible; then this object cannot be used."""
        stream = torch.cuda.current_stream(self.device)
        try:
            self.capture()
            return None
        except RuntimeError as error:
            # Ending the capture fails too, and says less than what made it fail.
            problem = str(error.__context__ or error).strip().partition("\n")[0]
            if "captur" not in problem:
                raise
        torch.cuda.set_stream(stream)  # PyTorch leaves the stream of a failed capture current
        torch.cuda.synchronize(self.device)
        return problem

    def _record(self, step: Callable[[], None]) -> torch.cuda.CUDAGraph:
        with self.on_stream():
            for _ in range(3):  # lets libraries pick their kernels before the capture
                self.cursor.zero_()
                step()
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self.weak_generator)
        graph.register_generator_state(self.strong_generator)
        self.cursor.zero_()
        torch.cuda.synchronize(self.device)
        with torch.cuda.graph(graph, stream=self.stream):
            step()
        return graph

    def join_stream(self) -> None:
        """Wait, on the host, for this student's work, and for what is read ahead for it.

        Nothing is lost by the latter: the next window waits for it too. But a graph cannot be
        captured while a thread copies.
        """
        if self.reader is not None:
            self.reader.join()
        if self.stream is not None:
            self.stream.synchronize()

    # -- state ------------------------------------------------------------------------------

    def state(self, into: dict[str, Tensor] | None = None) -> dict[str, Tensor]:
        """Copies of everything that training changes, by name; ``into`` is an earlier state.

        Its memory is written over, in a few launches for hundreds of tensors: students of a cohort
        wait for each other after every epoch, and meanwhile the GPU has nothing to do.
        """
        self.join_stream()
        found = {f"model.{k}": v for k, v in self.model.state_dict().items()}
        if self.modules is not None:
            found |= {f"modules.{k}": v for k, v in self.modules.state_dict().items()}
        if self.job.method.refresh_every():
            found["columns.weight"] = self.all_columns.weight
        if self.plan.count > 1:
            found["loss_sum"] = self.loss_sum
        for i, parameter in enumerate(self.parameters):
            for name, value in self.optimizer.state.get(parameter, {}).items():
                if isinstance(value, Tensor):
                    found[f"optimizer.{i}.{name}"] = value
        # On the student's own stream, and waited for: its next step must not overtake the copies.
        with torch.no_grad(), self.on_stream():
            if into is None or into.keys() != found.keys():
                into = {name: torch.empty_like(value) for name, value in found.items()}
            for dtype in {value.dtype for value in found.values()}:
                names = [name for name, value in found.items() if value.dtype == dtype]
                torch._foreach_copy_([into[n] for n in names], [found[n] for n in names])
        self.join_stream()
        return into

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Write a state back in place: a captured graph keeps pointing at the same memory."""
        with torch.no_grad(), self.on_stream():
            for name, value in self.model.state_dict().items():
                value.copy_(state[f"model.{name}"])
            if self.modules is not None:
                for name, value in self.modules.state_dict().items():
                    value.copy_(state[f"modules.{name}"])
            if self.job.method.refresh_every():
                self.all_columns.weight.copy_(state["columns.weight"])
            if self.plan.count > 1:
                self.loss_sum.copy_(state["loss_sum"])
            self._load_optimizer(state)

    def _load_optimizer(self, state: dict[str, Tensor]) -> None:
        for i, parameter in enumerate(self.parameters):
            prefix = f"optimizer.{i}."
            stored = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
            current = self.optimizer.state[parameter]
            for name in set(current) | set(stored):
                if name not in stored:
                    current[name].zero_()  # as before the first step
                elif name in current:
                    current[name].copy_(stored[name])
                else:
                    current[name] = stored[name].to(parameter.device, copy=True)


def _columns_on(columns: Columns, device: torch.device) -> Columns:
    """A student's own columns, on the device; weights are a copy, for refresh changes them."""
    return Columns(
        index=columns.index.to(device),
        y=columns.y.to(device),
        weight=columns.weight.to(device, copy=True),
        values={k: v.to(device) for k, v in columns.values.items()},
        constants={k: v.to(device) for k, v in columns.constants.items()},
        rows_per_epoch=columns.rows_per_epoch,
    )
