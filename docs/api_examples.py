"""Examples of the API page, by name; ``tests/docs/test_docs.py`` runs each on its own."""

from __future__ import annotations

_TEACHER = """\
import numpy as np
import noisyteacher as nt

rng = np.random.default_rng(0)
truth = rng.integers(0, 3, 600)
logits = 2 * np.eye(3)[truth] + rng.normal(size=(600, 3))
labels = nt.TeacherLabels.from_logits(np.arange(600), logits, classes=["cat", "dog", "fox"])
"""

_DIGITS = """\
import numpy as np
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB
import noisyteacher as nt

images, digits = load_digits(return_X_y=True)
teacher = GaussianNB().fit(images[1000:], digits[1000:])
"""

_DISTILL = """\
student = nt.distill(
    "linear",
    gold=(np.arange(50), images[:50], digits[:50]),
    pool=(np.arange(50, 800), images[50:800]),
    labels=teacher.predict_proba(images[:800]),
    quick=True,
    out="run",
)
"""

EXAMPLES = {
    "audit": f"""{_TEACHER}
found = nt.audit(labels, truth[:200], np.arange(200))
print(found.summary())
""",
    "distill": f"""{_DIGITS}
{_DISTILL}print(student.about["verdict"])
""",
    "InputError": """\
import noisyteacher as nt

try:
    nt.TeacherNoise(lower_bound=2).fit([[0.5, 0.5]], [0])
except nt.InputError as error:
    print(error)
""",
    "load_student": f"""{_DIGITS}
{_DISTILL}again = nt.load_student("run/student")
assert (again.predict(images[800:900]) == student.predict(images[800:900])).all()
""",
    "mix": """\
import numpy as np
import noisyteacher as nt

student = np.array([[0.7, 0.2, 0.1]])
teacher = np.array([[0.5, 0.4, 0.1]])
mask = nt.top_mask(teacher, 2)  # the teacher's two most likely classes
print(nt.mix(student, alpha=np.array([0.8]), mask=mask, k=2))
""",
    "NoisyTeacherWarning": """\
import warnings
import noisyteacher as nt

warnings.simplefilter("ignore", nt.NoisyTeacherWarning)
""",
    "SLaMClassifier": f"""{_DIGITS}
model = nt.SLaMClassifier(student="linear").fit(
    images[:100],
    digits[:100],
    X_pool=images[100:800],
    teacher_probs=teacher.predict_proba(images[100:800]),
    teacher_probs_gold=teacher.predict_proba(images[:100]),
)
print(model.score(images[800:1000], digits[800:1000]))
""",
    "SLaMLoss": f"""import torch
{_TEACHER}
trust = nt.TeacherNoise().fit(labels.take(range(200)), truth[:200]).predict(labels)
loss = nt.SLaMLoss()
student_logits = torch.zeros(600, 3, requires_grad=True)
arrays = (labels.probs, trust.alpha, trust.k)
loss(student_logits, *map(torch.from_numpy, arrays)).backward()
""",
    "TeacherLabels": f"""{_TEACHER}
labels.save("labels", overwrite=True)
again = nt.TeacherLabels.open("labels")
print(again.take([17, 3]).probs)
""",
    "TeacherNoise": f"""{_TEACHER}
noise = nt.TeacherNoise().fit(labels.take(range(200)), truth[:200])
trust = noise.predict(labels)
print(trust.alpha[:3], trust.k[:3])
""",
    "Trust": f"""{_TEACHER}
trust = nt.TeacherNoise().fit(labels, truth).predict(labels)
reliable = labels.ids[trust.alpha > 0.9]
print(f"{{len(reliable)}} labels are right with a probability above 0.9")
""",
    "top_mask": """\
import numpy as np
import noisyteacher as nt

print(nt.top_mask(np.array([[0.5, 0.4, 0.1], [0.1, 0.2, 0.7]]), 2))
""",
}
