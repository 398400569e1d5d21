"""Pure functions of (logits, target, alpha, k): the mix, the SLaM loss, and other losses.

Functions of probabilities take NumPy or torch and check their input; so does ``SLaMLoss``, which
takes logits. Every other function of logits or log-probabilities, and every ``BaseLoss`` called
directly, assumes clean torch input, never syncs with the host, and is what the training engine
captures in its graphs.
"""

from noisyteacher.losses.base_losses import (
    GCE,
    BaseFunction,
    BaseLoss,
    CrossEntropy,
    Poly1,
    TaylorCE,
    apply_base,
    cross_entropy,
    gce,
    poly1,
    resolve_base,
    taylor_ce,
    vanilla_loss,
)
from noisyteacher.losses.mixing import Normalize, check_normalize, log_mix, mix, top_mask
from noisyteacher.losses.rivals import (
    dkd,
    forward_correction_from_log,
    negative_cross_entropy_from_log,
    selected_binary_ce_from_log,
    symmetric_ce_from_log,
    vid_nll,
    vid_rho,
)
from noisyteacher.losses.slam_losses import SLaMLoss, slam_loss, sparse_slam_loss

__all__ = [
    "GCE",
    "BaseFunction",
    "BaseLoss",
    "CrossEntropy",
    "Normalize",
    "Poly1",
    "SLaMLoss",
    "TaylorCE",
    "apply_base",
    "check_normalize",
    "cross_entropy",
    "dkd",
    "forward_correction_from_log",
    "gce",
    "log_mix",
    "mix",
    "negative_cross_entropy_from_log",
    "poly1",
    "resolve_base",
    "selected_binary_ce_from_log",
    "slam_loss",
    "sparse_slam_loss",
    "symmetric_ce_from_log",
    "taylor_ce",
    "top_mask",
    "vanilla_loss",
    "vid_nll",
    "vid_rho",
]
