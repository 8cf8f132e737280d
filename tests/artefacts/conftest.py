"""What the tests of readers share."""

import numpy as np
import pytest
from sklearn import datasets


@pytest.fixture(scope="session")
def wine() -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels of a table of real numbers."""
    return datasets.load_wine(return_X_y=True)
