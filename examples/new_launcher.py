"""A new launcher: who starts workers on a shadow data set, and a name.

The store is the queue: a worker takes blocks that nobody has committed, so a launcher
may start as many as it likes, as often as it likes, and needs no state. This one is for
a file system that fails now and then: it begins again with what is missing.
From Python: `store.fill(launcher=patient)`.

    informed shadow --config=examples/new_launcher.py --workdir=runs/new_launcher \\
        --launcher=patient
"""

import informed
import shadow
from shadow.launchers import launch

ATTEMPTS = 3


def patient(prepare, *, progress=True, on_block=lambda: None):
    """Fill all stores of `prepare`; see `shadow.launchers.Launch`."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            launch.local(prepare, progress=progress, on_block=on_block)
            return
        except OSError:
            if attempt == ATTEMPTS:
                raise


shadow.register_launcher("patient", patient)


def get_config():
    """Configure a few shadow models of digits."""
    config = informed.defaults(informed.Experiment)
    config.data.num_fixed, config.data.num_test, config.shadow.count = 100, 10, 100
    return config
