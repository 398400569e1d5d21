"""All models under bf16 autocast in a captured CUDA graph."""

import copy

import pytest
import torch
import torch.nn.functional as F

from noisyteacher.models import (
    MLP,
    BagLinear,
    BagMLP,
    MobileNet,
    NormAct,
    ResNetCifar,
    ResNetImageNet,
    TextEncoder,
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

ALBERT = {
    "model_type": "albert",
    "vocab_size": 40,
    "embedding_size": 16,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 20,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "classifier_dropout_prob": 0.0,
}
BERT = {name: value for name, value in ALBERT.items() if name != "embedding_size"} | {
    "model_type": "bert",
    "classifier_dropout": 0.0,
}


def images():
    return torch.randn(16, 3, 32, 32, device="cuda").to(memory_format=torch.channels_last)


def bags():
    return torch.randint(50, (16, 9), device="cuda"), torch.randn(16, 9, device="cuda")


def tokens():
    ids = torch.randint(5, 40, (16, 9), device="cuda")
    mask = torch.ones_like(ids)
    mask[0, 6:] = 0
    return ids, mask


CASES = [
    (ResNetCifar(8), images),
    (ResNetCifar(8, layout="keras"), images),
    (ResNetCifar(11, version=2), images),
    (MobileNet(width=0.25, dropout=0.0), images),
    (ResNetImageNet(18, classes=10), images),
    (MLP(9, 10), lambda: torch.randn(16, 9, device="cuda")),
    (BagLinear(50, 10), bags),
    (BagMLP(50, 10), bags),
    (TextEncoder("tiny", 10, pretrained=False, config=ALBERT), tokens),
    (TextEncoder("tiny", 10, pretrained=False, config=BERT), tokens),
]


def forward_and_backward(model, x, y):
    model.zero_grad(set_to_none=False)
    with torch.autocast("cuda", torch.bfloat16):
        logits = model(x)
    F.cross_entropy(logits.float(), y).backward()
    return logits


@pytest.mark.parametrize(("spec", "make"), CASES, ids=lambda case: type(case).__name__)
def test_a_captured_step_is_the_eager_step(spec, make):
    torch.manual_seed(0)
    model = spec.build().cuda().to(memory_format=torch.channels_last)
    x, y = make(), torch.randint(10, (16,), device="cuda")
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            forward_and_backward(model, x, y)
    torch.cuda.current_stream().wait_stream(side)
    eager = copy.deepcopy(model)
    for twin, p in zip(eager.parameters(), model.parameters(), strict=True):
        twin.grad = torch.zeros_like(p)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        logits = forward_and_backward(model, x, y)
    graph.replay()
    wanted = forward_and_backward(eager, x, y)
    torch.testing.assert_close(logits, wanted, rtol=2e-2, atol=2e-2)
    for twin, p in zip(eager.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(p.grad, twin.grad, rtol=5e-2, atol=2e-2)
    torch.testing.assert_close(
        dict(model.named_buffers()), dict(eager.named_buffers()), rtol=1e-2, atol=1e-2
    )


@pytest.mark.parametrize("activation", ["relu", "relu6", "none"])
@pytest.mark.parametrize("residual", [False, True])
def test_fused_norm_is_the_plain_one(activation, residual, monkeypatch):
    torch.manual_seed(0)
    x = 4 * torch.randn(8, 24, 6, 5, device="cuda").to(memory_format=torch.channels_last)
    added = torch.randn_like(x) if residual else None
    upstream = torch.randn_like(x)
    results = []
    norm = NormAct(24, activation).cuda()
    torch.nn.init.normal_(norm.weight)
    for fused in (False, True):
        monkeypatch.setattr(NormAct, "fused", fused)
        module = copy.deepcopy(norm)
        leaf = x.clone().requires_grad_()
        other = None if added is None else added.clone().requires_grad_()
        y = module(leaf, other)
        y.backward(upstream)
        grads = [leaf.grad, module.weight.grad, module.bias.grad]
        grads += [] if other is None else [other.grad]
        results.append([y.detach(), *grads, *module.buffers()])
    torch.testing.assert_close(results[1], results[0], rtol=1e-3, atol=1e-3)
