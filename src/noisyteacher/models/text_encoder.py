"""Text encoders: any Hugging Face sequence classifier."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from noisyteacher.core.errors import InputError, first_few, warn
from noisyteacher.core.hub import LOADING_ERRORS, check_model_name, quiet_loading, without_tilde
from noisyteacher.models.spec import ModelSpec, Network, require_classes

# One batch of token rows: input_ids (b, T) int64 and attention_mask (b, T).
TokenRows = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class TextEncoder(ModelSpec):
    """Settings of a Hugging Face sequence classifier; a batch is (input_ids, attention_mask).

    ``path_or_name`` is a local folder or a name on the hub, such as "albert-base-v2".
    ``pretrained=False`` uses only its architecture. ``config`` is the architecture itself, with the
    contents of Hugging Face's ``config.json``, for a network with fresh weights without any
    download. The ``spec`` of a built network has its ``config``, so that a saved student can be
    rebuilt anywhere and its weights loaded.
    """

    path_or_name: str
    classes: int
    pretrained: bool = True
    config: dict[str, Any] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        require_classes(self)
        if not isinstance(self.path_or_name, str) or not self.path_or_name:
            raise InputError(
                f"TextEncoder: path_or_name must be a folder or a name, not {self.path_or_name!r}."
            )
        object.__setattr__(self, "path_or_name", without_tilde(self.path_or_name))
        if not isinstance(self.pretrained, bool):
            raise InputError(
                f"TextEncoder: pretrained must be true or false, not {self.pretrained!r}."
            )
        if self.config is None:
            return
        if self.pretrained:
            raise InputError(
                "TextEncoder: config is for fresh weights, so pretrained must be false."
            )
        if not isinstance(self.config, dict) or "model_type" not in self.config:
            raise InputError(
                f"TextEncoder: config must be a dict with a model_type, not {self.config!r}."
            )

    def build(self) -> Network:
        hf_model = self._load(_import_transformers())
        config = json.loads(hf_model.config.to_json_string())
        spec = replace(self, pretrained=False, config=config)
        network = NETWORKS.get(config["model_type"], LogitsNetwork)
        return network(spec, hf_model)

    def _load(self, transformers: ModuleType) -> Any:
        """The Hugging Face model, in float32 and training mode."""
        if self.pretrained or self.config is None:
            check_model_name(self.path_or_name)
        auto = transformers.AutoModelForSequenceClassification
        try:
            if self.pretrained:
                with quiet_loading(transformers):
                    model, told = auto.from_pretrained(
                        self.path_or_name,
                        num_labels=self.classes,
                        output_loading_info=True,
                        trust_remote_code=False,
                    )
                self._warn_of_random(model, told["missing_keys"])
            else:
                model = auto.from_config(self._architecture(transformers), trust_remote_code=False)
        except RuntimeError as error:
            raise InputError(
                f"TextEncoder: the weights of {self.path_or_name!r} do not fit a classifier of "
                f"{self.classes} classes."
            ) from error
        except LOADING_ERRORS as error:
            raise InputError(
                f"TextEncoder: no sequence classifier could be made of {self.path_or_name!r}: "
                f"{str(error).partition(chr(10))[0]}"
            ) from error
        return model.float().train()

    def _warn_of_random(self, model: Any, missing: Iterable[str]) -> None:
        """A new head starts at random, as it should; a part of the body that does is no encoder."""
        body = sorted(name for name in missing if name.startswith(f"{model.base_model_prefix}."))
        if body:
            warn(
                f"TextEncoder: {len(body)} weights of the encoder are not in "
                f"{self.path_or_name!r} and start at random: {first_few(body)}."
            )

    def _architecture(self, transformers: ModuleType) -> Any:
        if self.config is None:
            return transformers.AutoConfig.from_pretrained(
                self.path_or_name, num_labels=self.classes, trust_remote_code=False
            )
        kind = type(transformers.AutoConfig.for_model(self.config["model_type"]))
        return kind.from_dict(dict(self.config), num_labels=self.classes)


class TextNetwork(Network):
    """What all text networks share; ``hf_model`` is the Hugging Face model inside."""

    hf_model: Any

    def __init__(self, spec: TextEncoder, hf_model: Any) -> None:
        super().__init__(spec, embedding_dim=hf_model.config.hidden_size)
        self.hf_model = hf_model

    def encode(self, x: TokenRows) -> Any:
        """What the body says: ``last_hidden_state`` (b, T, d) and maybe ``pooler_output``."""
        input_ids, attention_mask = x
        return self.hf_model.base_model(
            input_ids=input_ids, attention_mask=attention_mask, return_dict=True
        )


class PooledNetwork(TextNetwork):
    """ALBERT and BERT: the body pools, a linear layer classifies."""

    def embed(self, x: TokenRows) -> Tensor:
        pooled: Tensor = self.encode(x).pooler_output
        return pooled

    def classify(self, embedding: Tensor) -> Tensor:
        logits: Tensor = self.hf_model.classifier(self.hf_model.dropout(embedding))
        return logits


class DistilBertNetwork(PooledNetwork):
    """DistilBERT: the first token goes through one ReLU layer in place of a pooler."""

    def embed(self, x: TokenRows) -> Tensor:
        first_token = self.encode(x).last_hidden_state[:, 0]
        return F.relu(self.hf_model.pre_classifier(first_token))


class RobertaNetwork(TextNetwork):
    """RoBERTa and its kin: the first token goes through one tanh layer of the head."""

    def embed(self, x: TokenRows) -> Tensor:
        head = self.hf_model.classifier
        first_token = self.encode(x).last_hidden_state[:, 0]
        return torch.tanh(head.dense(head.dropout(first_token)))

    def classify(self, embedding: Tensor) -> Tensor:
        head = self.hf_model.classifier
        logits: Tensor = head.out_proj(head.dropout(embedding))
        return logits


class LogitsNetwork(TextNetwork):
    """Any other classifier: its head is not known, so it gives logits and no embedding."""

    def embed(self, x: TokenRows) -> Tensor:
        raise self._no_embedding()

    def classify(self, embedding: Tensor) -> Tensor:
        raise self._no_embedding()

    def forward(self, x: TokenRows) -> Tensor:
        input_ids, attention_mask = x
        logits: Tensor = self.hf_model(
            input_ids=input_ids, attention_mask=attention_mask, return_dict=True
        ).logits
        return logits

    def _no_embedding(self) -> InputError:
        return InputError(
            f"{type(self.hf_model).__name__} gives logits but no embedding; models of type "
            f"{', '.join(NETWORKS)} give both."
        )


NETWORKS: dict[str, type[TextNetwork]] = {
    "albert": PooledNetwork,
    "bert": PooledNetwork,
    "camembert": RobertaNetwork,
    "distilbert": DistilBertNetwork,
    "roberta": RobertaNetwork,
    "xlm-roberta": RobertaNetwork,
}


def _import_transformers() -> ModuleType:
    try:
        import transformers
    except ImportError as error:
        raise ImportError(
            "TextEncoder needs transformers; install it with: pip install 'noisyteacher[hf]'"
        ) from error
    module: ModuleType = transformers
    return module
