#!/usr/bin/env python3
"""The peer of utils/bench/bench.py: optimizer steps of the same models in plain PyTorch 2.x.

Waits for a line on standard input before each step, and prints one line of JSON after it:
{"ms": ..., "loss": ..., "peak_rss": ...}. With WORLD_SIZE 2 (RANK, MASTER_ADDR, MASTER_PORT set
for each process) it is DDP or FSDP2 over gloo.

Pre-norm GPT-2 (learned positions, GELU-tanh, biases, tied head) and Llama (RoPE, RMSNorm, SwiGLU,
grouped-query attention), as llmtrain trains them; bf16 is autocast.
"""
import argparse
import contextlib
import json
import os
import resource
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

PRESETS = {  # arch, layers, heads, kv_heads, width, ffn, context, vocab, batch
    "shakespeare": ("gpt2",  6,  6,  6,  384,  1536,  256,   256, 16),
    "gpt2-124m":   ("gpt2", 12, 12, 12,  768,  3072, 1024, 50304, 1),
    "llama-15m":   ("llama", 6,  6,  2,  288,   768,  256, 32000, 16),
    "llama-110m":  ("llama",12, 12,  4,  768,  2048, 1024, 32000, 1),
}


class RMSNorm(nn.Module):
    def __init__(self, n, eps=1e-5):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(n)), eps

    def forward(self, x):
        f = x.float()
        return (f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + self.eps)).type_as(x) * self.weight


def rope_tables(head_dim, length, theta=10000.0):
    inv = theta ** (-torch.arange(0, head_dim, 2).float() / head_dim)
    ang = torch.outer(torch.arange(length).float(), inv)
    return torch.cat([ang.cos(), ang.cos()], -1), torch.cat([ang.sin(), ang.sin()], -1)


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


def attend(q, k, v):
    if k.shape[1] != q.shape[1]:
        r = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(r, 1), v.repeat_interleave(r, 1)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, llama = c, c.arch == "llama"
        self.hd = c.width // c.heads
        norm = RMSNorm if llama else nn.LayerNorm
        self.n1, self.n2 = norm(c.width), norm(c.width)
        self.qkv = nn.Linear(c.width, (c.heads + 2 * c.kv_heads) * self.hd, bias=not llama)
        self.proj = nn.Linear(c.width, c.width, bias=not llama)
        self.up = nn.Linear(c.width, c.ffn, bias=not llama)
        self.gate = nn.Linear(c.width, c.ffn, bias=False) if llama else None
        self.down = nn.Linear(c.ffn, c.width, bias=not llama)
        if llama:
            cos, sin = rope_tables(self.hd, c.context)
            self.register_buffer("cos", cos, persistent=False)
            self.register_buffer("sin", sin, persistent=False)

    def forward(self, x):
        c, (b, t, _) = self.c, x.shape
        q, k, v = self.qkv(self.n1(x)).split([c.heads * self.hd, c.kv_heads * self.hd, c.kv_heads * self.hd], -1)
        q, k, v = (z.view(b, t, -1, self.hd).transpose(1, 2) for z in (q, k, v))
        if c.arch == "llama":
            cos, sin = self.cos[:t].type_as(q), self.sin[:t].type_as(q)
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        x = x + self.proj(attend(q, k, v).transpose(1, 2).reshape(b, t, -1))
        h = self.n2(x)
        h = F.silu(self.gate(h)) * self.up(h) if self.gate is not None else F.gelu(self.up(h), approximate="tanh")
        return x + self.down(h)


class Transformer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.wte = nn.Embedding(c.vocab, c.width)
        self.wpe = nn.Embedding(c.context, c.width) if c.arch == "gpt2" else None
        self.blocks = nn.ModuleList(Block(c) for _ in range(c.layers))
        self.norm = RMSNorm(c.width) if c.arch == "llama" else nn.LayerNorm(c.width)
        self.head = nn.Linear(c.width, c.vocab, bias=False)
        if c.arch == "gpt2":
            self.head.weight = self.wte.weight
        for m in self.modules():
            if isinstance(m, (nn.Linear, nn.Embedding)):
                nn.init.normal_(m.weight, std=0.02)
                if getattr(m, "bias", None) is not None:
                    nn.init.zeros_(m.bias)

    def forward(self, ids, labels):
        x = self.wte(ids)
        if self.wpe is not None:
            x = x + self.wpe.weight[: ids.shape[1]]
        for b in self.blocks:
            x = b(x)
        return F.cross_entropy(self.head(self.norm(x)).float().flatten(0, 1), labels.flatten())


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--preset", choices=PRESETS, required=True)
    p.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    p.add_argument("--compile", action="store_true")
    p.add_argument("--parallel", choices=["ddp", "fsdp"], default="ddp")
    p.add_argument("--threads", type=int, required=True)
    a = p.parse_args()
    keys = "arch layers heads kv_heads width ffn context vocab batch".split()
    c = argparse.Namespace(**dict(zip(keys, PRESETS[a.preset])))
    world, rank = (int(os.environ.get(k, d)) for k, d in (("WORLD_SIZE", 1), ("RANK", 0)))
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    model = Transformer(c)
    if world > 1:
        torch.distributed.init_process_group("gloo")
        if a.parallel == "ddp":
            model = nn.parallel.DistributedDataParallel(model)
        else:
            from torch.distributed.fsdp import fully_shard
            for block in model.blocks:
                fully_shard(block)
            fully_shard(model)
    if a.compile:
        model = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1,
                                  fused=True)
    cast = (torch.autocast("cpu", dtype=torch.bfloat16) if a.dtype == "bf16"
            else contextlib.nullcontext())
    torch.manual_seed(1 + rank)
    ids = torch.randint(0, c.vocab, (c.batch, c.context + 1))
    for _ in sys.stdin:
        begin = time.perf_counter()
        with cast:
            loss = model(ids[:, :-1], ids[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        value = loss.item()
        print(json.dumps({"ms": (time.perf_counter() - begin) * 1e3, "loss": value,
                          "peak_rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}),
              flush=True)


if __name__ == "__main__":
    main()
