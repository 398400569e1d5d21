"""Wrappers: methods that hold an inner method and change its columns, its logits or its loss."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, nn

from noisyteacher.core.errors import InputError
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods.base import Batch, Columns, Method, Output, Rows, StudentModel
from noisyteacher.noise import TeacherNoise


class Wrapper(Method):
    """Passes everything on to its inner method; a subclass changes one thing."""

    @property
    def wrapped(self) -> Method:
        """The inner method."""
        inner = getattr(self, "inner", None)
        if not isinstance(inner, Method):
            raise InputError(
                f"{type(self).__name__}: inner must be a method such as SLaM(), not {inner!r}."
            )
        return inner

    def __post_init__(self) -> None:
        super().__post_init__()
        for method in inner_methods(self.wrapped):
            if method.outermost:
                name = type(method).__name__
                raise InputError(f"{name} must be the outermost method, but {self!r} holds it.")
            if type(method) is type(self):
                raise InputError(f"{type(self).__name__} does not go around itself.")

    @property
    def needs(self) -> frozenset[str]:
        return self.own_needs | self.wrapped.needs

    @property
    def views(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.own_views, *self.wrapped.views)))

    def noise(self) -> TeacherNoise | None:
        return self.wrapped.noise()

    def relabel(self, rows: Rows, labels: TeacherLabels) -> TeacherLabels:
        return self.wrapped.relabel(rows, labels)

    def prepare(
        self, rows: Rows, labels: TeacherLabels | None, noise: TeacherNoise | None
    ) -> Columns:
        return self.wrapped.prepare(rows, labels, noise)

    def modules(self, student: StudentModel, columns: Columns) -> nn.Module | None:
        return self.wrapped.modules(student, columns)

    def loss(
        self, output: Output, batch: Batch, modules: nn.Module | None, progress: Tensor
    ) -> Tensor:
        return self.wrapped.loss(output, batch, modules, progress)

    def refresh_every(self) -> int:
        return self.wrapped.refresh_every()

    def refresh(self, student_probs: Tensor, val_probs: Tensor, columns: Columns) -> None:
        self.wrapped.refresh(student_probs, val_probs, columns)


def inner_methods(method: Method) -> Iterator[Method]:
    """The method itself, its inner method, and so on inwards."""
    yield method
    while isinstance(method, Wrapper):
        method = method.wrapped
        yield method
