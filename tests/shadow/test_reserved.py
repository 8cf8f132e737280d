"""A worker that was given a GPU trains on it, or stops and says why."""

import os
import stat

import pytest

from shadow import compiled, devices, reserved


@pytest.fixture(autouse=True)
def _unsaid(monkeypatch):
    for name in ("JAX_PLATFORMS", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(devices, "has_nvidia_driver", lambda: False)


def test_a_gpu_of_slurms_that_jax_lacks_stops_the_worker(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_GPUS", "3")
    with pytest.raises(reserved.NoAcceleratorError) as error:
        reserved.prepare()
    for part in ("SLURM_JOB_GPUS=3", ".[cuda12]", "docs/clusters.md"):
        assert part in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("said", ["cuda,cpu", ""])
def test_who_asks_for_a_gpu_does_not_get_the_cpu(monkeypatch, said):
    monkeypatch.setenv("SLURM_STEP_GPUS", "0")
    monkeypatch.setenv("JAX_PLATFORMS", said)
    with pytest.raises(reserved.NoAcceleratorError):
        reserved.prepare()


def test_who_says_that_the_cpu_is_meant_gets_it(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_GPUS", "3")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    reserved.prepare()


def test_a_driver_without_cuda_in_jax_is_hinted_at(monkeypatch, capsys):
    reserved.prepare()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(devices, "has_nvidia_driver", lambda: True)
    reserved.prepare()
    hint = capsys.readouterr().err
    assert "JAX runs on the CPU" in hint
    assert hint.count("\n") == 1
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    reserved.prepare()
    assert capsys.readouterr().err == ""


def test_compiled_programs_are_kept_where_nobody_else_can_write(tmp_path, monkeypatch):
    import jax

    monkeypatch.setenv(compiled.VARIABLE, "")
    before = jax.config.jax_compilation_cache_dir
    try:
        compiled.keep_in(str(tmp_path / "mine"))
        assert os.environ[compiled.VARIABLE] == str(tmp_path / "mine")
        assert jax.config.jax_compilation_cache_dir == str(tmp_path / "mine")
        assert stat.S_IMODE((tmp_path / "mine").stat().st_mode) == 0o700
        (tmp_path / "mine").chmod(0o770)
        with pytest.raises(ValueError, match="only you can write to"):
            compiled.keep_in(str(tmp_path / "mine"))
        if os.getuid() == 0:
            (tmp_path / "theirs").mkdir(mode=0o700)
            os.chown(tmp_path / "theirs", 12345, 12345)
            with pytest.raises(ValueError, match="only you can write to"):
                compiled.keep_in(str(tmp_path / "theirs"))
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
