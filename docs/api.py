"""Write ``docs/api.md`` from the docstrings of the public names: ``python docs/api.py``."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from api_examples import EXAMPLES

PAGE = Path(__file__).with_name("api.md")
# In the order in which a user meets them.
MODULES = (
    "noisyteacher",
    "noisyteacher.labels",
    "noisyteacher.labels.importers",
    "noisyteacher.noise",
    "noisyteacher.auditing",
    "noisyteacher.losses",
    "noisyteacher.methods",
    "noisyteacher.models",
    "noisyteacher.data",
    "noisyteacher.train",
    "noisyteacher.runs",
    "noisyteacher.pipeline",
    "noisyteacher.bench",
    "noisyteacher.report",
    "noisyteacher.core.errors",
)
HEADINGS = {"Args:": "Arguments", "Returns:": "Returns", "Raises:": "Raises"}
HEAD = """# API

This page is generated from the docstrings by `python docs/api.py`. Every public name is listed
under the first module that offers it. Functions on arrays take NumPy arrays or torch tensors and
return the same kind. Wrong input raises `InputError`, a `ValueError`.

For other libraries, see the examples: [PyTorch](../examples/pytorch_loop.py),
[Hugging Face](../examples/huggingface_trainer.py), [Lightning](../examples/lightning_module.py),
[scikit-learn](../examples/sklearn_classifier.py).
"""


def render() -> str:
    """The whole page."""
    seen: dict[int, str] = {}
    return "\n".join([HEAD, *(_module(importlib.import_module(name), seen) for name in MODULES)])


def _module(module: ModuleType, seen: dict[int, str]) -> str:
    lines = [f"## {module.__name__}", "", _first_sentence(module), ""]
    names = [*getattr(module, "__all__", _defined_in(module))]
    for name in sorted(names, key=str.lower):
        found = getattr(module, name)
        if not (inspect.isclass(found) or inspect.isfunction(found)):
            continue  # constants and modules explain themselves, or have a section
        if id(found) in seen:
            lines += [f"**`{name}`**: see {seen[id(found)]}.", ""]
            continue
        seen[id(found)] = module.__name__
        lines += _entry(name, found)
    return "\n".join(lines)


def _defined_in(module: ModuleType) -> list[str]:
    return [
        name
        for name, found in vars(module).items()
        if getattr(found, "__module__", None) == module.__name__ and not name.startswith("_")
    ]


def _entry(name: str, found: Any) -> list[str]:
    lines = [f"### {name}", "", *_signature_block(name, found), _docstring(found), ""]
    if name in EXAMPLES:
        lines += ["**Example**", "", "```python", EXAMPLES[name].rstrip(), "```", ""]
    if inspect.isclass(found) and _methods(found):
        lines += ["**Methods and properties**", ""]
        for member, value in _methods(found):
            lines += [f"- `.{member}`: {_first_sentence(value)}"]
        lines += [""] if lines[-1] else []
    return lines


def _signature_block(name: str, found: Any) -> list[str]:
    """The call, with one argument on each line where it is long."""
    signature = _signature(found)
    if not signature:
        return []
    call = f"{name}{signature}"
    if len(call) > 88:
        inside = re.split(r", (?=\*|\w+(?:[=,)]|$))", signature[1:-1])
        call = "\n".join([f"{name}(", *(f"    {part}," for part in inside), ")"])
    return ["```text", call, "```", ""]


def _signature(found: Any) -> str:
    """Names and defaults, without types."""
    try:
        signature = inspect.signature(found)
    except ValueError:
        return ""
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for name, parameter in signature.parameters.items()
        if name not in ("self", "cls")
    ]
    plain = signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)
    # Functions print with their address, which changes from run to run.
    return re.sub(r"<function .*? at 0x[0-9a-f]+>", "...", str(plain))


def _docstring(found: Any) -> str:
    """As Markdown: names in code type, the entries under "Args:" and the like as a list."""
    lines: list[str] = []
    inside = False
    for line in inspect.cleandoc(_own_docstring(found)).splitlines():
        heading = line in HEADINGS
        inside = heading or (inside and (not line or line.startswith("    ")))
        if heading:
            lines += [f"**{HEADINGS[line]}**", ""]
        elif inside and line.startswith("    ") and not line.startswith("     "):
            lines.append("- " + re.sub(r"^([\w, *]+):", _in_code, line.strip()))
        elif inside:
            lines.append(f"  {line.strip()}".rstrip())
        else:
            lines.append(line)
    return _as_markdown("\n".join(lines))


def _in_code(names: re.Match[str]) -> str:
    return ", ".join(f"`{name}`" for name in names[1].split(", ")) + ":"


def _as_markdown(text: str) -> str:
    return re.sub(r"``(.+?)``", r"`\1`", text)


def _own_docstring(found: Any) -> str:
    text = vars(found).get("__doc__") if inspect.isclass(found) else found.__doc__
    text = text or ""
    # A dataclass without a docstring gets its signature as one.
    return "" if inspect.isclass(found) and text.startswith(f"{found.__name__}(") else text


def _first_sentence(found: Any) -> str:
    first = inspect.cleandoc(found.__doc__ or "").split("\n\n")[0]
    return _as_markdown(" ".join(first.split()))


def _methods(found: type) -> list[tuple[str, Any]]:
    """Documented members of the class's own."""
    members = []
    for name, value in vars(found).items():
        inner = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if name.startswith("_") or not (inspect.isfunction(inner) or isinstance(inner, property)):
            continue
        if inner.__doc__:
            shown = name if isinstance(inner, property) else f"{name}{_signature(inner)}"
            members.append((shown, inner))
    return members


if __name__ == "__main__":
    PAGE.write_text(render())
