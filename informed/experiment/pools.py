"""Read each data set once, and split it into fixed set and targets, for `pipeline`."""

from typing import Any

from informed.experiment.settings import Experiment
from shadow import checks, data, sources

_FIELDS = {
    "num_fixed": "config.data.num_fixed",
    "num_test": "config.data.num_test",
    "num_shadow": "config.shadow.count",
}


class Pools:
    """Data sets by name, of one or several experiments.

    Args:
      data_dir: folder of prepared TFDS data sets; None: TFDS_DATA_DIR.
    """

    def __init__(self, data_dir: str | None = None) -> None:
        self._data_dir = data_dir
        self._read: dict[str, data.Examples] = {}
        self._latest: tuple[Any, data.Split] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Drop loaded data when pickled; the other process loads it again."""
        return {"_data_dir": self._data_dir, "_read": {}, "_latest": None}

    def load(self, name: str) -> data.Examples:
        """Return a data set by name; it is read once.

        Raises: ValueError, FileNotFoundError: see `shadow.sources.load`; the message
          names the field of the configuration.
        """
        if name not in self._read:
            with checks.under("config.data"):
                self._read[name] = sources.load(name, data_dir=self._data_dir)
        return self._read[name]

    def split(self, experiment: Experiment) -> data.Split:
        """Return the data, split into fixed set, shadow targets and test targets.

        Raises: ValueError: too few images; names the field.
        """
        config, other = experiment.data, experiment.data.shadow_name
        division = config, experiment.shadow.count, experiment.seed
        if self._latest is None or self._latest[0] != division:
            pool, shadow_pool = self.load(config.name), self.load(other or config.name)
            with checks.called(_FIELDS):
                split = data.split(
                    pool,
                    num_fixed=config.num_fixed,
                    num_shadow=experiment.shadow.count,
                    num_test=config.num_test,
                    seed=experiment.seed if config.seed is None else config.seed,
                    shadow_pool=shadow_pool if other else None,
                )
            self._latest = division, split
        return self._latest[1]
