# tests/reference/make_gpt2.py: makes a tiny GPT-2 of random weights in the published layout, in
# gpt2_tiny/, and expected.json there: what it says of some prompts, computed in plain PyTorch, with
# a tokenizer that is written here too. Needs PyTorch; run by hand: make_gpt2.py
import json
import math
import os
import re

import torch
import torch.nn.functional as F

from torch_weights import write

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpt2_tiny")
CONFIG = {"model_type": "gpt2", "activation_function": "gelu_new", "n_embd": 24, "n_head": 3,
          "n_layer": 2, "n_positions": 40, "n_ctx": 40, "n_inner": None,
          "layer_norm_epsilon": 1e-5}
CORPUS = ("the old river runs under the old bridge and the boats run under it too. there is the "
          "other river, it's wider; nobody's boat has been there in 40 years, and nobody counts. ")
PROMPTS = ["the river's bridge", "Nobody counts 1234 boats,\n  under the moon!",
           "caf\u00e9 \u20ac", "<|endoftext|>there"]
PIECES = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[^\W\d_]+| ?\d+| ?[^\s\w]+|\s+(?!\S)|\s+")


def byte_letters():
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [b for b in range(256) if b not in shown]
    return {**{b: chr(b) for b in shown}, **{b: chr(256 + i) for i, b in enumerate(hidden)}}


LETTERS = byte_letters()


def join(symbols, pair):
    out = []
    for symbol in symbols:
        if out and (out[-1], symbol) == pair:
            out[-1] += symbol
        else:
            out.append(symbol)
    return out


def pieces(text):
    return [[LETTERS[b] for b in piece.encode()] for piece in PIECES.findall(text)]


def train(text, count):
    words, merges = pieces(text), []
    for _ in range(count):
        seen = {}
        for word in words:
            for pair in zip(word, word[1:]):
                seen[pair] = seen.get(pair, 0) + 1
        best = max(sorted(seen), key=seen.get)
        merges.append(best)
        words = [join(word, best) for word in words]
    return merges


def encode(text, vocab, merges):
    out = []
    for part in re.split(r"(<\|endoftext\|>)", text):
        if part == "<|endoftext|>":
            out.append(vocab[part])
            continue
        for word in pieces(part):
            for merge in merges:
                word = join(word, merge)
            out += [vocab[symbol] for symbol in word]
    return out


def make_weights(size):
    torch.manual_seed(1)
    dim, state = CONFIG["n_embd"], {}

    def linear(name, inputs, outputs):
        state[name + ".weight"] = torch.randn(inputs, outputs) * 0.3
        state[name + ".bias"] = torch.randn(outputs) * 0.1

    def norm(name):
        state[name + ".weight"] = 1 + 0.2 * torch.randn(dim)
        state[name + ".bias"] = 0.2 * torch.randn(dim)

    state["wte.weight"] = torch.randn(size, dim) * 0.5
    state["wpe.weight"] = torch.randn(CONFIG["n_positions"], dim) * 0.3
    for i in range(CONFIG["n_layer"]):
        norm(f"h.{i}.ln_1")
        n = CONFIG["n_positions"]
        state[f"h.{i}.attn.bias"] = torch.ones(1, 1, n, n).tril()  # the causal mask
        linear(f"h.{i}.attn.c_attn", dim, 3 * dim)
        linear(f"h.{i}.attn.c_proj", dim, dim)
        norm(f"h.{i}.ln_2")
        linear(f"h.{i}.mlp.c_fc", dim, 4 * dim)
        linear(f"h.{i}.mlp.c_proj", 4 * dim, dim)
    norm("ln_f")
    return state


def forward(state, ids):
    dim, heads, steps = CONFIG["n_embd"], CONFIG["n_head"], len(ids)

    def linear(name, x):
        return x @ state[name + ".weight"] + state[name + ".bias"]

    def norm(name, x):
        return F.layer_norm(x, (dim,), state[name + ".weight"], state[name + ".bias"], 1e-5)

    x = state["wte.weight"][ids] + state["wpe.weight"][:steps]
    hidden = torch.ones(steps, steps, dtype=torch.bool).triu(1)
    for i in range(CONFIG["n_layer"]):
        q, k, v = [t.view(steps, heads, -1).transpose(0, 1) for t in
                   linear(f"h.{i}.attn.c_attn", norm(f"h.{i}.ln_1", x)).split(dim, -1)]
        scores = (q @ k.transpose(1, 2) / math.sqrt(dim // heads)).masked_fill(hidden, -math.inf)
        y = (scores.softmax(-1) @ v).transpose(0, 1).reshape(steps, dim)
        x = x + linear(f"h.{i}.attn.c_proj", y)
        y = linear(f"h.{i}.mlp.c_fc", norm(f"h.{i}.ln_2", x))
        y = 0.5 * y * (1 + torch.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y ** 3)))
        x = x + linear(f"h.{i}.mlp.c_proj", y)
    return norm("ln_f", x) @ state["wte.weight"].T


def greedy(state, ids, count, end):
    ids = list(ids)
    for _ in range(count):
        token = forward(state, ids)[-1].argmax().item()
        if token == end:
            break
        ids.append(token)
    return ids


def main():
    merges = train(CORPUS, 30)
    tokens = [LETTERS[b] for b in range(256)] + [a + b for a, b in merges] + ["<|endoftext|>"]
    vocab = {token: i for i, token in enumerate(tokens)}
    state = make_weights(len(vocab))
    double = {name: tensor.double() for name, tensor in state.items()}
    expected = []
    for prompt in PROMPTS:
        ids = encode(prompt, vocab, merges)
        scores = forward(double, ids)
        loss = F.cross_entropy(scores[:-1], torch.tensor(ids[1:])).item()
        written = greedy(double, ids, 40 - len(ids), vocab["<|endoftext|>"])
        expected.append({"prompt": prompt, "count": len(ids), "loss": round(loss, 6),
                         "written": [tokens[i] for i in written],
                         "scores": {tokens[i]: round(s, 5) for i, s in enumerate(scores[-1].tolist())}})
    os.makedirs(FOLDER, exist_ok=True)
    write(os.path.join(FOLDER, "model.safetensors"), state)
    for name, value in (("config", {**CONFIG, "vocab_size": len(vocab)}), ("vocab", vocab),
                        ("expected", expected)):
        with open(os.path.join(FOLDER, name + ".json"), "w", encoding="utf-8") as file:
            json.dump(value, file, ensure_ascii=False)
            file.write("\n")
    with open(os.path.join(FOLDER, "merges.txt"), "w", encoding="utf-8") as file:
        file.write("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))


main()
