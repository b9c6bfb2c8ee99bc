#!/usr/bin/python3
"""Writes tests/learn_vectors.h: what scikit-learn learns from embeddings that tests/test_learn.c makes
again, bit for bit.

    /usr/bin/python3 tests/make_learn.py      (python3-numpy, python3-sklearn)
"""
import os

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

TRAIN, DIM, CLASSES, C, SHRINK = 90, 13, 5, 2.0, 0.25


def uniform(seed, count):
    """splitmix64 (Steele, Lea, Flood 2014), its upper 24 bits as a float in [0, 1)."""
    state = (np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) *
             np.uint64(0x9E3779B97F4A7C15))
    z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return (z >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)


def rows():
    """The classes take turns; the first has every photo of the last fifth as well."""
    classes = np.arange(TRAIN) % CLASSES
    classes[TRAIN * 4 // 5:] = 0
    means = uniform(1, CLASSES * DIM).reshape(CLASSES, DIM)
    noise = uniform(2, TRAIN * DIM).reshape(TRAIN, DIM)
    return means[classes] + np.float32(2) * (noise - np.float32(0.5)), classes


def numbers(name, values):
    lines = [f"static const double {name}[{len(values)}] = {{"]
    for i in range(0, len(values), 4):
        lines.append("    " + ", ".join(f"{v:.9g}" for v in values[i:i + 4]) + ",")
    return "\n".join(lines) + "\n};\n"


def head(coefficients, biases):
    return np.concatenate([coefficients, np.reshape(biases, (-1, 1))], 1).ravel()


def main():
    x, classes = rows()
    x = x.astype(np.float64)
    tags = uniform(3, TRAIN * CLASSES).reshape(TRAIN, CLASSES) < 0.25
    tags[np.arange(TRAIN), classes] = True
    one = LogisticRegression(C=C, tol=1e-10, max_iter=10000).fit(x, classes)
    each = OneVsRestClassifier(LogisticRegression(C=C, tol=1e-10, max_iter=10000)).fit(x, tags)
    lda = LinearDiscriminantAnalysis(solver="lsqr", covariance_estimator=Shrunk()).fit(x, classes)
    weights, bias = lda.coef_, lda.intercept_ - np.log(lda.priors_)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "learn_vectors.h")
    with open(path, "w", encoding="ascii") as file:
        file.write("/* Written by make_learn.py: what scikit-learn computes. */\n")
        file.write(f"enum {{ TRAIN = {TRAIN}, DIM = {DIM}, CLASSES = {CLASSES} }};\n")
        file.write(f"static const double inverse_strength = {C}, shrinkage = {SHRINK};\n\n")
        file.write("/* [CLASSES, DIM + 1], the biases last */\n")
        file.write(numbers("one_class", head(one.coef_, one.intercept_)))
        file.write(numbers("each_class", head(np.concatenate([e.coef_ for e in each.estimators_]),
                                              [e.intercept_[0] for e in each.estimators_])))
        file.write(numbers("gaussian", head(weights, bias)))
        file.write("\n/* probabilities of the first row, by the first model */\n")
        file.write(numbers("probabilities", one.predict_proba(x[:1])[0]))


class Shrunk:
    """scikit-learn calls it with the rows of each class, and weights by the classes' shares."""

    def fit(self, x):
        own = np.cov(x, rowvar=False, bias=True)
        self.covariance_ = ((1 - SHRINK) * own +
                            SHRINK * np.trace(own) / len(own) * np.eye(len(own)))
        return self


main()
