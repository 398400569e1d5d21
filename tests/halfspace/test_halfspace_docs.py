"""The code in the guide works and prints what the guide says."""

import re
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "halfspaces.md"


def test_the_guides_example(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    exec(compile(code, GUIDE.name, "exec"), {})
    assert 0 <= float(capsys.readouterr().out) < 0.03
