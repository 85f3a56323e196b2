"""make_golden.py - losses and gradients of a tiny GPT in float64, by PyTorch, for test_golden.c.

    python3 make_golden.py > golden.json

Weights and tokens come from a linear congruential generator that the test repeats, so none are
stored. A gradient is stored as 24-bit fixed-point numbers relative to its largest element, four
characters of base64 each: an error of 6e-8, below what the test demands.
"""
import base64
import json
import math

import torch
import torch.nn.functional as F

VOCAB, WIDTH, HEADS, SEQ, BATCH, STEPS = 61, 32, 4, 16, 2, 10
LR, BETAS, EPS, DECAY, CLIP = 1e-3, (0.9, 0.95), 1e-8, 0.1, 1.0
CASES = [
    dict(name="bias-tanh", layers=2, bias=True, erf=False, ignore_every=0),
    dict(name="nobias-erf", layers=1, bias=False, erf=True, ignore_every=5),
]
MASK = (1 << 64) - 1


def start_of(name):
    """FNV-1a, 64 bits."""
    h = 0xCBF29CE484222325
    for c in name.encode():
        h = (h ^ c) * 0x100000001B3 & MASK
    return h


def numbers(name, n):
    """n integers of 16 bits."""
    state, out = start_of(name), []
    for _ in range(n):
        state = (state * 6364136223846793005 + 1442695040888963407) & MASK
        out.append(state >> 48)
    return out


def parameter(name, shape):
    """Multiples of 2^-17, which floats hold exactly: +-1/4, around 1 for the weights of norms."""
    values = [(x - 32768) / 131072 for x in numbers(name, math.prod(shape))]
    norm = len(shape) == 1 and name.endswith(".weight")
    return (torch.tensor(values, dtype=torch.float64) + norm).reshape(shape).requires_grad_()


def parameters(case):
    shapes = {"wte.weight": (VOCAB, WIDTH), "wpe.weight": (SEQ, WIDTH)}

    def affine(name, *shape):
        shapes[name + ".weight"] = shape
        if case["bias"]:
            shapes[name + ".bias"] = shape[:1]

    for i in range(case["layers"]):
        affine(f"h.{i}.ln_1", WIDTH)
        affine(f"h.{i}.attn.c_attn", 3 * WIDTH, WIDTH)
        affine(f"h.{i}.attn.c_proj", WIDTH, WIDTH)
        affine(f"h.{i}.ln_2", WIDTH)
        affine(f"h.{i}.mlp.c_fc", 4 * WIDTH, WIDTH)
        affine(f"h.{i}.mlp.c_proj", WIDTH, 4 * WIDTH)
    affine("ln_f", WIDTH)
    return {name: parameter(name, shape) for name, shape in shapes.items()}


def batch(case, step):
    n = BATCH * SEQ
    tokens = [x % VOCAB for x in numbers(f"tokens.{step}", n)]
    targets = [x % VOCAB for x in numbers(f"targets.{step}", n)]
    every = case["ignore_every"]
    if every:
        targets = [-1 if i % every == every - 1 else t for i, t in enumerate(targets)]
    return torch.tensor(tokens).reshape(BATCH, SEQ), torch.tensor(targets).reshape(-1)


def attention(qkv):
    q, k, v = (t.reshape(BATCH, SEQ, HEADS, -1).transpose(1, 2) for t in qkv.split(WIDTH, dim=2))
    scores = q @ k.transpose(2, 3) / math.sqrt(WIDTH // HEADS)
    future = torch.ones(SEQ, SEQ, dtype=torch.bool).triu(1)
    mix = scores.masked_fill(future, -math.inf).softmax(3) @ v
    return mix.transpose(1, 2).reshape(BATCH, SEQ, WIDTH)


def loss_of(case, p, tokens, targets):
    def linear(name, x):
        return F.linear(x, p[name + ".weight"], p.get(name + ".bias"))

    def norm(name, x):
        return F.layer_norm(x, (WIDTH,), p[name + ".weight"], p.get(name + ".bias"), 1e-5)

    x = p["wte.weight"][tokens] + p["wpe.weight"]
    for i in range(case["layers"]):
        h = f"h.{i}."
        x = x + linear(h + "attn.c_proj", attention(linear(h + "attn.c_attn", norm(h + "ln_1", x))))
        y = F.gelu(linear(h + "mlp.c_fc", norm(h + "ln_2", x)), approximate="none" if case["erf"] else "tanh")
        x = x + linear(h + "mlp.c_proj", y)
    logits = norm("ln_f", x) @ p["wte.weight"].T
    return F.cross_entropy(logits.reshape(-1, VOCAB), targets, ignore_index=-1)


def packed(gradient):
    g = gradient.detach().reshape(-1)
    most = g.abs().max().item()
    data = b"".join(int(round(v / most * 8388607) + 8388608).to_bytes(3, "big") for v in g.tolist())
    return {"max": most, "values": base64.b64encode(data).decode()}


def run(case):
    p = parameters(case)
    groups = [dict(params=[t for t in p.values() if t.dim() > 1], weight_decay=DECAY),
              dict(params=[t for t in p.values() if t.dim() == 1], weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPS)
    losses, norms, gradients = [], [], None
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(case, p, *batch(case, step))
        loss.backward()
        if gradients is None:
            gradients = {name: packed(t.grad) for name, t in p.items()}
        # Ours is min(1, clip / norm); torch's function adds 1e-6 to the norm, so scale by hand.
        norm = math.sqrt(sum((t.grad**2).sum().item() for t in p.values()))
        for t in p.values():
            t.grad *= min(1.0, CLIP / norm)
        optimizer.step()
        losses.append(loss.item())
        norms.append(norm)
    return dict(case, losses=losses, norms=norms, gradients=gradients)


def main():
    shape = dict(vocab=VOCAB, width=WIDTH, heads=HEADS, seq=SEQ, batch=BATCH)
    adamw = dict(lr=LR, beta1=BETAS[0], beta2=BETAS[1], eps=EPS, weight_decay=DECAY, clip=CLIP)
    print(json.dumps(dict(shape=shape, adamw=adamw, cases=[run(c) for c in CASES]), indent=1))


if __name__ == "__main__":
    main()
