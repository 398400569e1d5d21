"""The training loop: one student or a cohort, schedules, checkpoints, bulk labelling, tuning."""

from noisyteacher.train.checkpoint import EpochRecord, History
from noisyteacher.train.config import SGD, Adam, TrainConfig
from noisyteacher.train.engine import Accuracy, Trained, summarise, train
from noisyteacher.train.job import Inputs, Job, BuildsModel, TrainData, make_job
from noisyteacher.train.schedule import IMAGENET_STEPS, Constant, Cosine, Schedule, Steps

__all__ = [
    "IMAGENET_STEPS",
    "SGD",
    "Accuracy",
    "Adam",
    "Constant",
    "Cosine",
    "EpochRecord",
    "History",
    "Inputs",
    "Job",
    "BuildsModel",
    "Schedule",
    "Steps",
    "TrainConfig",
    "TrainData",
    "Trained",
    "make_job",
    "summarise",
    "train",
]
