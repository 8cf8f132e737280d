"""`informed doctor`: what is planted is found, and nothing else surprises."""

import json

import pytest

from informed.cli import doctor, main
from shadow import devices


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """What is found where nothing surprises but what is planted."""
    monkeypatch.setattr(doctor.probe, "others_at_work", lambda: 0.1)
    (tmp_path / "cgroup").mkdir()
    prepared = tmp_path / "data" / "mnist" / "3.0.1"
    prepared.mkdir(parents=True)
    (prepared / "dataset_info.json").touch()

    def examined(environ=(), data=tmp_path / "data", **cgroup):
        for name, text in cgroup.items():
            (tmp_path / "cgroup" / name.replace("_", ".")).write_text(text)
        found = doctor.examined(
            dict(environ), data_dir=str(data), cgroup=tmp_path / "cgroup"
        )
        return {fact.name: fact for fact in found}

    return examined


def surprises(facts):
    return {name for name, fact in facts.items() if fact.surprise}


def test_what_is_as_it_should_be_does_not_surprise(machine):
    facts = machine(cpu_max="max 100000", memory_max="max", memory_current="0")
    assert surprises(facts) <= {"memory", "disk"}
    assert facts["data"].found.endswith(": mnist")
    assert "jax" in facts["versions"].found
    assert facts["device"].found == devices.kind()
    assert facts["variables"].found == "none"


@pytest.mark.parametrize(
    ("planted", "name", "said"),
    [
        ({"cpu_max": "50000 100000"}, "cores", "share the time of 0.5 cores"),
        ({"environ": {"OMP_NUM_THREADS": "4096"}}, "cores", "more than there are"),
        (
            {"memory_max": str(2**30), "memory_current": str(2**29)},
            "memory",
            "takes about 3 GiB",
        ),
        ({"data": "/nowhere"}, "data", "a folder without data sets"),
        ({"environ": {"JAX_DISABLE_JIT": "1"}}, "variables", "far slower"),
        (
            {"environ": {"XLA_FLAGS": "--xla_cpu_enable_fast_math=true"}},
            "variables",
            "changes bits",
        ),
    ],
)
def test_what_is_planted_is_found(machine, planted, name, said):
    fact = machine(**planted)[name]
    assert said in fact.surprise


def test_a_driver_that_jax_does_not_use(machine, monkeypatch):
    monkeypatch.setattr(devices, "has_nvidia_driver", lambda: True)
    assert "informed-adversary[cuda12]" in machine()["device"].surprise
    meant = machine(environ={"JAX_PLATFORMS": "cpu"})
    assert not meant["device"].surprise
    assert meant["variables"].found == "JAX_PLATFORMS=cpu"


def test_other_jobs_are_seen(machine, monkeypatch):
    monkeypatch.setattr(doctor.probe, "others_at_work", lambda: 1.0)
    assert "times will be longer" in machine()["others"].surprise


def test_extras_are_those_that_are_installed(machine, monkeypatch):
    kept = doctor._version
    monkeypatch.setattr(
        doctor, "_version", lambda name: None if name == "skops" else kept(name)
    )
    there, _, missing = machine()["extras"].found.partition("; not installed: ")
    assert "artefacts" in missing
    assert "artefacts" not in there


def test_it_is_one_screen_and_json(capsys):
    main(["doctor"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 30
    main(["doctor", "--json"])
    facts = json.loads(capsys.readouterr().out)
    assert [set(fact) for fact in facts] == [{"name", "found", "surprise"}] * 11
    assert all(fact["found"] for fact in facts)
