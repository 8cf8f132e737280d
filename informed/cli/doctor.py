"""`informed doctor`: what of this machine would surprise, in one screen.

Everything that decides how fast models are trained, in which precision, and whether the
disk and memory will do: found by asking, with a remedy beside what surprises.

Checked: tests/informed/cli/test_doctor.py.
"""

import argparse
import dataclasses
import importlib.metadata
import json
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import jax

from informed.audit import probe
from informed.cli.commands import refuse_unknown
from shadow import devices, reserved

_PACKAGE = "informed-adversary"
# Extras that users install; the others are for the project's own tests and pages.
_EXTRAS = (
    "artefacts", "bucket", "cluster", "cuda12", "cuda13", "data", "lpips", "privacy",
    "table",
)  # fmt: skip
_GIB = 1 << 30
# 6,000 shadow models of MNIST and what attacks them take 2 GiB of disk; training
# RecoNN on them takes 3 GiB of memory.
_LEAST_DISK, _LEAST_MEMORY = 5 * _GIB, 4 * _GIB
# Variables that change what is computed, or by how many threads.
_VARIABLE = re.compile(
    r"(XLA|JAX|CUDA|NVIDIA|TF_(XLA|GPU|FORCE)|OMP|MKL|OPENBLAS|BLIS|NUMEXPR|TFDS)_.*"
)
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fact:
    """Something about this machine.

    Attributes:
      name: what it is, in a word or two.
      found: what was found.
      surprise: what follows from it that one may not expect, and what to do; "":
        nothing does.
    """

    name: str
    found: str
    surprise: str = ""


def add_arguments(command: argparse.ArgumentParser, name: str) -> None:
    """What the command takes."""
    command.add_argument("--data_dir", help="TFDS folder (default: TFDS_DATA_DIR)")


def execute(arguments: argparse.Namespace, rest: Sequence[str]) -> None:
    """Ask everything, and print it."""
    refuse_unknown(rest)
    facts = list(examined(os.environ, data_dir=arguments.data_dir))
    if arguments.json:
        print(json.dumps([dataclasses.asdict(fact) for fact in facts]))
        return
    for fact in facts:
        print(f"{fact.name:<12}{fact.found}")
        if fact.surprise:
            print(f"{'':<10}! {fact.surprise}")
    count = sum(bool(fact.surprise) for fact in facts)
    print(f"\n{count} of {len(facts)} may surprise." if count else "\nNo surprises.")


def examined(
    environ: Mapping[str, str],
    *,
    data_dir: str | None = None,
    cgroup: Path = Path("/sys/fs/cgroup"),
    workdir: Path | None = None,
) -> Iterator[Fact]:
    """All facts.

    Args:
      environ: the environment's variables.
      data_dir: folder of TensorFlow Datasets; None: the usual one.
      cgroup: where Linux has the limits of a container.
      workdir: where runs would be written; None: here.
    """
    yield _versions()
    yield _device(environ)
    yield _bits()
    yield _precision()
    yield _cores(environ, cgroup)
    yield _others()
    yield _memory(cgroup)
    yield _disk(workdir or Path.cwd())
    yield _data(environ, data_dir)
    yield _extras()
    yield _flags(environ)


def _versions() -> Fact:
    names = (_PACKAGE, "jax", "jaxlib", "numpy", "scikit-learn", "torch")
    found = {name: _version(name) for name in names}
    text = ", ".join(f"{name} {version}" for name, version in found.items() if version)
    surprise = ""
    if found["jax"] != found["jaxlib"]:
        surprise = "jax and jaxlib differ; install both in one version."
    return Fact(
        name="versions",
        found=f"Python {platform.python_version()}, {text}",
        surprise=surprise,
    )


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _device(environ: Mapping[str, str]) -> Fact:
    backend, surprise = jax.default_backend(), ""
    meant = environ.get("JAX_PLATFORMS") == "cpu"
    if backend == "cpu" and devices.has_nvidia_driver() and not meant:
        surprise = (
            "there is an NVIDIA driver, and JAX doesn't use it:"
            f" {reserved.INSTALL}; or say that the CPU is meant: JAX_PLATFORMS=cpu."
        )
    elif backend != "cpu":
        free = devices.free_bytes()
        if free < _LEAST_MEMORY:
            surprise = (
                f"{_gib(free)} of its memory are free: others use it; see nvidia-smi."
            )
    return Fact(name="device", found=devices.kind(), surprise=surprise)


def _bits() -> Fact:
    if devices.repeats_bits(devices.kind()):
        found = "two processes on devices of this kind compute the same bits"
        return Fact(name="bits", found=found)
    return Fact(
        name="bits",
        found="two processes may compute different bits",
        surprise="XLA chooses kernels by timing them; `informed shadow"
        " --deterministic` has it take the same ones.",
    )


def _precision() -> Fact:
    asked = jax.config.values["jax_default_matmul_precision"]
    double = jax.config.values["jax_enable_x64"]
    found = f"{'float64' if double else 'float32'}, matrix products: "
    surprise = ""
    if jax.default_backend() == "cpu":
        found += "in full"
    elif asked in ("highest", "float32"):
        found += str(asked)
    else:
        found += str(asked or "JAX's default, TF32 on NVIDIA's GPUs")
        surprise = (
            "your own training rounds its products to ten bits here, and an inversion"
            " must do the same; jax.config.update('jax_default_matmul_precision',"
            " 'highest') makes them whole. What the toolkit trains itself is whole."
        )
    return Fact(name="precision", found=found, surprise=surprise)


def _cores(environ: Mapping[str, str], cgroup: Path) -> Fact:
    cores, surprise = devices.num_cores(), ""
    quota = _quota(cgroup)
    found = f"{cores} of {os.cpu_count()}"
    if quota is not None and quota < cores:
        found += f", a container's limit of {quota:g}"
        surprise = (
            f"{cores} threads share the time of {quota:g} cores and wait for each"
            f" other; start with `taskset -c {_first(int(quota))}`."
        )
    for name in _THREADS:
        if environ.get(name, "").isdigit() and int(environ[name]) > cores:
            surprise = f"{name} is {environ[name]}, more than there are; unset it."
    return Fact(name="cores", found=found, surprise=surprise)


def _first(count: int) -> str:
    """Some of the cores that this process may run on, as taskset names them."""
    own = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
    return ",".join(map(str, own[: max(1, count)]))


def _quota(cgroup: Path) -> float | None:
    """Cores' worth of time that a container may use; None: no limit."""
    words = _read(cgroup / "cpu.max").split()
    if len(words) != 2 or not all(word.isdigit() for word in words):
        return None
    return int(words[0]) / int(words[1])


def _others() -> Fact:
    busy = probe.others_at_work()
    if busy is None:
        return Fact(name="others", found="this system doesn't tell what others use")
    surprise = ""
    if busy >= probe.BUSY:
        surprise = "times will be longer than on a quiet machine, and forecasts wrong."
    found = f"{100 * busy:.0f} % of the cores at work in the last minute"
    return Fact(name="others", found=found, surprise=surprise)


def _memory(cgroup: Path) -> Fact:
    whole, free = devices.memory_bytes(), _available()
    limit = _read(cgroup / "memory.max").strip()
    used = _read(cgroup / "memory.current").strip()
    found, surprise = f"{_gib(free)} free of {_gib(whole)}", ""
    if limit.isdigit() and int(limit) < whole:
        left = int(limit) - int(used if used.isdigit() else 0)
        free = min(free, left)
        found = f"{_gib(free)} free of a container's {_gib(int(limit))}"
        surprise = (
            f"the machine has {_gib(whole)}, and what plans by that is killed at the"
            " container's limit."
        )
    if free < _LEAST_MEMORY:
        surprise = "RecoNN on 6,000 models of MNIST takes about 3 GiB."
    return Fact(name="memory", found=found, surprise=surprise)


def _available() -> int:
    """Bytes of memory that may be taken without swapping."""
    match = re.search(r"MemAvailable: +(\d+) kB", _read(Path("/proc/meminfo")))
    return int(match[1]) * 1024 if match else devices.memory_bytes()


def _disk(workdir: Path) -> Fact:
    places = {"here": workdir, "temporary files": Path(tempfile.gettempdir())}
    free = {name: shutil.disk_usage(path).free for name, path in places.items()}
    text = ", ".join(f"{_gib(each)} {name}" for name, each in free.items())
    surprise = ""
    if min(free.values()) < _LEAST_DISK:
        surprise = "a run with 6,000 models of MNIST takes about 2 GiB."
    if not os.access(workdir, os.W_OK):
        surprise = f"{workdir} can't be written to; name another --workdir."
    return Fact(name="disk", found=f"free: {text}", surprise=surprise)


def _data(environ: Mapping[str, str], data_dir: str | None) -> Fact:
    given = data_dir or environ.get("TFDS_DATA_DIR")
    root = Path(given or "~/tensorflow_datasets").expanduser()
    # A prepared version is a folder with this file, one or two levels below its name.
    prepared = {
        file.relative_to(root).parts[0]
        for depth in ("*/*", "*/*/*")
        for file in root.glob(f"{depth}/dataset_info.json")
    }
    found = f"{root}: {', '.join(sorted(prepared)) or 'no data set is prepared'}"
    surprise = ""
    if given and not prepared:
        surprise = "TFDS_DATA_DIR or --data_dir names a folder without data sets."
    elif not prepared:
        surprise = "only digits, files and folders can be had; set TFDS_DATA_DIR."
    return Fact(name="data", found=found, surprise=surprise)


def _extras() -> Fact:
    """Which extras are installed, by the package's own list of what they need."""
    needed: dict[str, list[str]] = {name: [] for name in _EXTRAS}
    for requirement in importlib.metadata.requires(_PACKAGE) or ():
        name = re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0]
        match = re.search(r"extra == ['\"]([\w-]+)['\"]", requirement)
        if match and match[1] in needed:
            plugin = re.search(r"\[(cuda\d+)\]", requirement)
            needed[match[1]].append(f"jax-{plugin[1]}-plugin" if plugin else name)
    there = [e for e, names in needed.items() if all(map(_version, names))]
    missing = [extra for extra in needed if extra not in there]
    found = f"{', '.join(there) or 'none'}; not installed: {', '.join(missing) or '-'}"
    return Fact(name="extras", found=found)


def _flags(environ: Mapping[str, str]) -> Fact:
    names = [name for name in sorted(environ) if _VARIABLE.fullmatch(name)]
    found = " ".join(f"{name}={environ[name]}" for name in names)
    surprise = ""
    if "--xla_cpu_enable_fast_math=true" in environ.get("XLA_FLAGS", ""):
        surprise = "XLA's fast math changes bits; attacks that train again need equal."
    if environ.get("JAX_DISABLE_JIT", "").lower() in ("1", "true"):
        surprise = "JAX_DISABLE_JIT is for debugging: everything is far slower."
    return Fact(name="variables", found=found or "none", surprise=surprise)


def _read(file: Path) -> str:
    """The text of a file of the system; "" where there is none."""
    try:
        return file.read_text()
    except OSError:
        return ""


def _gib(count: int) -> str:
    return f"{count / _GIB:.1f} GiB"
