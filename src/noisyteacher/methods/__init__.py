"""Ways to turn teacher labels into a training signal, composable, one small file each."""

from noisyteacher.methods.base import (
    EMBEDDINGS,
    PRETRAINED,
    SOFT_LABELS,
    VIEW_STATISTICS,
    Batch,
    Columns,
    Grid,
    Method,
    Output,
    Prepared,
    Rows,
    StudentModel,
    check_store,
    fit_and_prepare,
    one_hot,
)
from noisyteacher.methods.calibrated import Calibrated, Calibration, fit_calibration
from noisyteacher.methods.confidence_filter import ConfidenceFilter
from noisyteacher.methods.confident_pruning import ConfidentPruning
from noisyteacher.methods.consistency import Consistency
from noisyteacher.methods.cutstat import CutStat
from noisyteacher.methods.dkd import DKD
from noisyteacher.methods.fidelity import Fidelity
from noisyteacher.methods.fixmatch import FixMatch
from noisyteacher.methods.forward_correction import ForwardCorrection
from noisyteacher.methods.gce import GCE
from noisyteacher.methods.gold_only import GoldOnly
from noisyteacher.methods.parse import ALL_METHODS, parse
from noisyteacher.methods.partial_labels import PartialLabels
from noisyteacher.methods.poly import PolyLoss
from noisyteacher.methods.slam import SLaM
from noisyteacher.methods.symmetric import SymmetricCE
from noisyteacher.methods.table import methods_table
from noisyteacher.methods.targets import PlainMethod, TargetMethod
from noisyteacher.methods.taylor import TaylorCE
from noisyteacher.methods.temperature import Temperature
from noisyteacher.methods.truncated_gce import TruncatedGCE
from noisyteacher.methods.ttm import TTM
from noisyteacher.methods.ups import UPS
from noisyteacher.methods.vanilla import Vanilla
from noisyteacher.methods.vid import VID
from noisyteacher.methods.weighted import Weighted
from noisyteacher.methods.wrapper import Wrapper, inner_methods

__all__ = [
    "ALL_METHODS",
    "DKD",
    "EMBEDDINGS",
    "GCE",
    "PRETRAINED",
    "SOFT_LABELS",
    "TTM",
    "UPS",
    "VID",
    "VIEW_STATISTICS",
    "Batch",
    "Calibrated",
    "Calibration",
    "Columns",
    "ConfidenceFilter",
    "ConfidentPruning",
    "Consistency",
    "CutStat",
    "Fidelity",
    "FixMatch",
    "ForwardCorrection",
    "GoldOnly",
    "Grid",
    "Method",
    "Output",
    "PartialLabels",
    "PlainMethod",
    "PolyLoss",
    "Prepared",
    "Rows",
    "SLaM",
    "StudentModel",
    "SymmetricCE",
    "TargetMethod",
    "TaylorCE",
    "Temperature",
    "TruncatedGCE",
    "Vanilla",
    "Weighted",
    "Wrapper",
    "check_store",
    "fit_and_prepare",
    "fit_calibration",
    "inner_methods",
    "methods_table",
    "one_hot",
    "parse",
]
