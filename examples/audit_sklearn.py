"""Audit scikit-learn's MLPClassifier on digits: can one picture be read out of it?

    informed audit examples/audit_sklearn.py:train --data digits --fixed 100 \\
        --targets 10 --out audit.html
"""

import warnings

from sklearn.neural_network import MLPClassifier

import informed


def train(images, labels, seed: int):
    """The estimator itself is what is released: its fitted arrays."""
    model = MLPClassifier(
        (10,), activation="tanh", solver="sgd", learning_rate_init=0.2, max_iter=60,
        batch_size=len(images), random_state=seed, tol=0,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sixty epochs are meant
        return model.fit(images.reshape(len(images), -1).astype("float64"), labels)


def main(minutes=10.0, targets=10):
    """The same from Python."""
    return informed.audit(train, "digits", fixed=100, targets=targets, minutes=minutes)


if __name__ == "__main__":
    audit = main()
    print(audit, audit.save("audit_sklearn.html"), sep="\n")
