"""What a deletion gives away (Bertran et al. 2024), for those who know no row.

Command:   informed deletion --config=configs/deletion.py --workdir=runs/deletion
Data:      :breast_cancer (default), :diabetes, :wine ship with scikit-learn; :mnist and
           :cifar10 need TFDS_DATA_DIR; :smoke is for tests
Hardware:  two CPU cores; two to five minutes a table, ten for images
Expected:  see docs/deletions.md
"""

from ml_collections import config_dict

import informed
from uninformed.deletion.config import MODELS, TABLES, DeletionConfig

SIZES = (*TABLES, "mnist", "cifar10", "smoke")


def get_config(size: str = "breast_cancer") -> config_dict.ConfigDict:
    if size not in SIZES:
        raise ValueError(f"Expected deletion.py:{', :'.join(SIZES)}; got {size!r}.")
    if size in TABLES:
        # Labels of diabetes are numbers, for which logistic regression isn't.
        models = tuple(m for m in MODELS if size != "diabetes" or m != "logistic")
        config = DeletionConfig(data=size, models=models)
    elif size == "smoke":
        config = DeletionConfig(
            data="wine",
            targets=4,
            features=60,
            width=4,
            steps=50,
            batches=(1, 2),
            noise=(1.0,),
        )
    else:
        config = DeletionConfig(
            data=size,
            models=("ridge", "logistic"),
            rows=5000,
            public=5000 if size == "mnist" else 10_000,
            targets=50 if size == "mnist" else 10,
            decay=50.0,
            batches=(1, 5) if size == "mnist" else (),
        )
    return informed.defaults(config)
