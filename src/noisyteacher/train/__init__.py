"""The training loop: one student or a cohort, schedules, checkpoints, bulk labelling, tuning."""

from noisyteacher.train.checkpoint import EpochRecord, History
from noisyteacher.train.config import SGD, Adam, TrainConfig
from noisyteacher.train.engine import Accuracy, Trained, summarise, train
from noisyteacher.train.job import BuildsModel, Inputs, Job, Problem, TrainData, ValRole
from noisyteacher.train.schedule import IMAGENET_STEPS, Constant, Cosine, Schedule, Steps

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
    "summarise",
    "train",
]
