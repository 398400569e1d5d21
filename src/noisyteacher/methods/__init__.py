"""Ways to train on teacher labels: one class for each, which can be combined.

``Method`` says how to write one. Classes of this package need no second entry anywhere: their
names are exported, parsed and listed in the documents because they are registered.
"""

from typing import TYPE_CHECKING

from noisyteacher.methods import batch, method, registry
from noisyteacher.methods.batch import *  # noqa: F403
from noisyteacher.methods.method import *  # noqa: F403
from noisyteacher.methods.registry import *  # noqa: F403

if TYPE_CHECKING:  # a type checker cannot follow the registry
    from noisyteacher.methods.distillation import *  # noqa: F403
    from noisyteacher.methods.filters import *  # noqa: F403
    from noisyteacher.methods.plain import *  # noqa: F403
    from noisyteacher.methods.robust import *  # noqa: F403
    from noisyteacher.methods.slam import *  # noqa: F403
    from noisyteacher.methods.wrappers import *  # noqa: F403
else:
    classes = {kind.__name__: kind for kind in registry.ALL_METHODS}
    globals().update(classes)
    __all__ = [*batch.__all__, *method.__all__, *registry.__all__, *classes]
    del classes
