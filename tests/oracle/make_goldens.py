#!/usr/bin/env python3
"""Writes tests/oracle/goldens/{gpt2,llama}.h5: what PyTorch computes for a small model.

Needs PyTorch 2.x, numpy and h5py; the tests read the files without Python. Everything but
/errors is computed in float64 from float32 weights, so the files hold right values, not PyTorch's
rounding. /errors is PyTorch's rounding: the norm of the difference from these values when weights
and activations are in 16 bits.

  /weights/<name>    initial weights, f32, under llmtrain's names, q, k, v apart
  /tokens, /labels   int32 [sequences, context]; label -1: ignored
  /document_starts   int32 [sequences, context]
  /logits            of the initial weights, [sequences, context, vocabulary]
  /loss, /document_loss   mean over valid labels: plain causal, and within documents
  /gradients/<name>  of /loss
  /steps/loss, norm  of three AdamW steps on the same batch, before each step
  /trained/<name>    weights after them
  /errors/<dtype>/{logits,loss,gradients/<name>}   dtype bf16, fp16
"""
import pathlib

import h5py
import numpy as np
import torch
import torch.nn.functional as F

LAYERS, HEADS, WIDTH, CONTEXT, VOCABULARY, SEQUENCES = 2, 4, 32, 16, 61, 3
OPTIMIZER = dict(lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
DECAY, CLIP, LOSS_SCALE = 0.1, 0.5, 1024.0


def shapes(family):
    """Every weight in llmtrain's names."""
    kv = WIDTH if family == "gpt2" else WIDTH // 2
    out = {"embedding/tokens/weight": (VOCABULARY, WIDTH)}
    if family == "gpt2":
        out["embedding/positions/weight"] = (CONTEXT, WIDTH)
    mlp = 4 * WIDTH if family == "gpt2" else 128  # 8/3 * 32, rounded up to 64s
    linears = [("attention/q", WIDTH, WIDTH), ("attention/k", kv, WIDTH),
               ("attention/v", kv, WIDTH), ("attention/output", WIDTH, WIDTH)]
    if family == "llama":
        linears.append(("mlp/gate", mlp, WIDTH))
    linears += [("mlp/up", mlp, WIDTH), ("mlp/down", WIDTH, mlp)]
    norms = [f"blocks/{i:03d}/{n}" for i in range(LAYERS) for n in ("attention_norm", "mlp_norm")]
    for i in range(LAYERS):
        for name, rows, columns in linears:
            out[f"blocks/{i:03d}/{name}/weight"] = (rows, columns)
            if family == "gpt2":
                out[f"blocks/{i:03d}/{name}/bias"] = (rows,)
    for norm in norms + ["final_norm"]:
        out[f"{norm}/weight"] = (WIDTH,)
        if family == "gpt2":
            out[f"{norm}/bias"] = (WIDTH,)
    if family == "llama":
        out["head/weight"] = (VOCABULARY, WIDTH)
    return out


def rotate(x):
    """Rotary positions in the rotate-half layout; x [batch, heads, tokens, head_dim]."""
    d = x.shape[-1]
    inverse = 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    angle = torch.outer(torch.arange(x.shape[2], dtype=torch.float64), inverse)
    cos, sin = (torch.cat([f(angle), f(angle)], -1).to(x.dtype) for f in (torch.cos, torch.sin))
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


def forward(family, w, tokens, document_starts=None):
    def linear(x, name):
        return F.linear(x, w[f"{name}/weight"], w.get(f"{name}/bias"))

    def norm(x, name):
        if family == "gpt2":
            return F.layer_norm(x, (WIDTH,), w[f"{name}/weight"], w[f"{name}/bias"], 1e-5)
        return F.rms_norm(x, (WIDTH,), w[f"{name}/weight"], 1e-5)

    t = torch.arange(tokens.shape[1])
    allowed = (t[None, :] <= t[:, None]).expand(tokens.shape[0], -1, -1)
    if document_starts is not None:
        allowed = allowed & (t[None, None, :] >= document_starts[:, :, None])
    x = F.embedding(tokens, w["embedding/tokens/weight"])
    if family == "gpt2":
        x = x + w["embedding/positions/weight"]
    for i in range(LAYERS):
        b = f"blocks/{i:03d}"
        h = norm(x, f"{b}/attention_norm")
        q, k, v = (linear(h, f"{b}/attention/{p}").unflatten(-1, (-1, WIDTH // HEADS))
                   .transpose(1, 2) for p in "qkv")
        if family == "llama":
            q, k = rotate(q), rotate(k)
        k, v = (z.repeat_interleave(HEADS // z.shape[1], 1) for z in (k, v))
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed[:, None])
        x = x + linear(attended.transpose(1, 2).flatten(2), f"{b}/attention/output")
        h = norm(x, f"{b}/mlp_norm")
        if family == "gpt2":
            h = F.gelu(linear(h, f"{b}/mlp/up"), approximate="tanh")
        else:
            h = F.silu(linear(h, f"{b}/mlp/gate")) * linear(h, f"{b}/mlp/up")
        x = x + linear(h, f"{b}/mlp/down")
    head = w["embedding/tokens/weight" if family == "gpt2" else "head/weight"]
    return F.linear(norm(x, "final_norm"), head)


def initial(name, shape, generator):
    """Larger than a real initialisation, so that every gradient has something to say."""
    values = torch.randn(shape, generator=generator, dtype=torch.float32)
    if "norm/weight" in name:
        return 1 + 0.1 * values
    return values * (0.1 if name.endswith("bias") else 0.15)


def write_errors(f, family, start, tokens, cross_entropy):
    """How far PyTorch is from the values in f, in 16 bits. The loss is scaled as in training."""
    for label, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16)):
        masters = {n: p.clone().requires_grad_() for n, p in start.items()}
        logits = forward(family, {n: p.to(dtype) for n, p in masters.items()}, tokens)
        loss = cross_entropy(logits.float())
        (LOSS_SCALE * loss).backward()

        def error(value, name):
            return np.linalg.norm(value.detach().double().numpy() - f[name][()])

        f[f"errors/{label}/logits"] = error(logits, "logits")
        f[f"errors/{label}/loss"] = abs(loss.item() - f["loss"][()])
        for name, p in masters.items():
            f[f"errors/{label}/gradients/{name}"] = error(p.grad / LOSS_SCALE,
                                                          f"gradients/{name}")


def make(family, path):
    generator = torch.Generator().manual_seed(1234)
    names = shapes(family)
    start = {n: initial(n, s, generator) for n, s in names.items()}
    tokens = torch.randint(0, VOCABULARY, (SEQUENCES, CONTEXT), generator=generator)
    labels = torch.randint(0, VOCABULARY, (SEQUENCES, CONTEXT), generator=generator)
    labels[0, 3:7] = -1
    labels[2, 0] = -1
    document_starts = torch.zeros((SEQUENCES, CONTEXT), dtype=torch.int64)
    document_starts[0, 5:] = 5
    document_starts[1, 9:] = 9
    document_starts[1, 15:] = 15

    w = {n: p.double().requires_grad_() for n, p in start.items()}

    def cross_entropy(logits):
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-1)

    def loss_of(starts=None):
        return cross_entropy(forward(family, w, tokens, starts))

    decayed = [p for p in w.values() if p.dim() >= 2]
    plain = [p for p in w.values() if p.dim() < 2]
    optimizer = torch.optim.AdamW([dict(params=decayed, weight_decay=DECAY),
                                   dict(params=plain, weight_decay=0.0)], **OPTIMIZER)
    with h5py.File(path, "w", libver="latest") as f:
        for name, value in start.items():
            f[f"weights/{name}"] = value.numpy()
        f["tokens"], f["labels"] = tokens.numpy().astype("i4"), labels.numpy().astype("i4")
        f["document_starts"] = document_starts.numpy().astype("i4")
        with torch.no_grad():
            f["logits"] = forward(family, w, tokens).numpy()
            f["document_loss"] = loss_of(document_starts).item()
        losses, norms = [], []
        for step in range(3):
            optimizer.zero_grad()
            loss = loss_of()
            loss.backward()
            if step == 0:
                f["loss"] = loss.item()
                for name, p in w.items():
                    f[f"gradients/{name}"] = p.grad.numpy()
                write_errors(f, family, start, tokens, cross_entropy)
            losses.append(loss.item())
            norms.append(torch.nn.utils.clip_grad_norm_(w.values(), CLIP).item())
            optimizer.step()
        f["steps/loss"], f["steps/norm"] = np.array(losses), np.array(norms)
        for name, p in w.items():
            f[f"trained/{name}"] = p.detach().numpy()
        f.attrs["torch"] = str(torch.__version__)


if __name__ == "__main__":
    folder = pathlib.Path(__file__).parent / "goldens"
    folder.mkdir(exist_ok=True)
    for family in ("gpt2", "llama"):
        make(family, folder / f"{family}.h5")
