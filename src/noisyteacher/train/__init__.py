"""Training with an optimizer: students, schedules, checkpoints, prediction and tuning."""

from noisyteacher.data import Inputs
from noisyteacher.train.checkpoint import EpochRecord, History
from noisyteacher.train.config import (
    IMAGENET_STEPS,
    SGD,
    Adam,
    Constant,
    Cosine,
    Schedule,
    Steps,
    TrainConfig,
)
from noisyteacher.train.engine import Accuracy, Trained, train
from noisyteacher.train.job import BuildsModel, Job, Problem, TrainData, ValRole, check_model

__all__ = [
    "IMAGENET_STEPS",
    "SGD",
    "Accuracy",
    "Adam",
    "BuildsModel",
    "Constant",
    "Cosine",
    "EpochRecord",
    "History",
    "Inputs",
    "Job",
    "Problem",
    "Schedule",
    "Steps",
    "TrainConfig",
    "TrainData",
    "Trained",
    "ValRole",
    "check_model",
    "train",
]
