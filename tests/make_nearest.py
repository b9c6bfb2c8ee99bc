#!/usr/bin/python3
"""Writes tests/nearest_vectors.h: the results of NumPy, SciPy and scikit-learn for 100,000 vectors.
tests/test_nearest.c makes the same vectors, bit for bit.

    /usr/bin/python3 tests/make_nearest.py      (python3-numpy, python3-scipy, python3-sklearn)
"""
import os

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

ROWS, DIM, QUERIES, TOP = 100000, 40, 5, 20
GROUP_ROWS, LEAST = 2000, 0.9
TRAIN, TEST, CLASSES, NEIGHBORS, TEMPERATURE = 1000, 200, 10, 20, 0.07


def uniform(seed, count):
    """splitmix64 (Steele, Lea, Flood 2014), its upper 24 bits as a float in [-1, 1)."""
    state = (np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) *
             np.uint64(0x9E3779B97F4A7C15))
    z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return ((z >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-23) - np.float32(1))


def clusters(seed, centre_seed, count, classes, noise):
    """Row i is the centre of class i % classes plus noise."""
    centres = uniform(centre_seed, classes * DIM).reshape(classes, DIM)
    return (centres[np.arange(count) % classes] +
            np.float32(noise) * uniform(seed, count * DIM).reshape(count, DIM))


def unit(x):
    x = x.astype(np.float64)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def integers(name, values):
    values = list(values)
    lines = [f"static const int {name}[{len(values)}] = {{"]
    for i in range(0, len(values), 12):
        lines.append("    " + ", ".join(str(v) for v in values[i:i + 12]) + ",")
    return "\n".join(lines) + "\n};\n"


def main():
    rows, queries = unit(uniform(1, ROWS * DIM).reshape(ROWS, DIM)), \
        unit(uniform(2, QUERIES * DIM).reshape(QUERIES, DIM))
    cosines = queries @ rows.T
    best = np.argsort(-cosines, axis=1, kind="stable")[:, :TOP]
    values = np.take_along_axis(cosines, best, axis=1)
    gaps = np.diff(-np.sort(-cosines, axis=1)[:, :TOP + 1], axis=1)
    print("smallest gap between neighbours in rank:", -gaps.max())

    group_rows = unit(clusters(3, 4, GROUP_ROWS, 400, 0.35))
    near = group_rows @ group_rows.T
    print("nearest to the threshold:", np.abs(near - LEAST).min())
    count, label = connected_components(csr_matrix(near >= LEAST), directed=False)
    first = [int(np.flatnonzero(label == label[i])[0]) for i in range(GROUP_ROWS)]
    print(count, "groups")

    train, test = clusters(5, 6, TRAIN, CLASSES, 2.2), clusters(7, 6, TEST, CLASSES, 2.2)
    classes = np.arange(TRAIN) % CLASSES
    knn = KNeighborsClassifier(NEIGHBORS, metric="cosine", algorithm="brute",
                               weights=lambda d: np.exp((1 - d) / TEMPERATURE))
    predicted = knn.fit(train.astype(np.float64), classes).predict(test.astype(np.float64))
    print("accuracy:", (predicted == np.arange(TEST) % CLASSES).mean())

    linear = LogisticRegression(C=10, tol=1e-8, max_iter=10000).fit(unit(train), classes)
    named = linear.predict(unit(test))
    print("of the linear classifier:", (named == np.arange(TEST) % CLASSES).mean())

    path = os.path.join(os.path.dirname(__file__), "nearest_vectors.h")
    with open(path, "w", encoding="ascii") as file:
        file.write("/* Written by make_nearest.py: the results of NumPy, SciPy and scikit-learn. */\n")
        file.write("enum {\n")
        for name in "ROWS DIM QUERIES TOP GROUP_ROWS TRAIN TEST CLASSES NEIGHBORS".split():
            file.write(f"    {name} = {globals()[name]},\n")
        file.write("};\n\n")
        file.write(integers("best_rows", best.ravel()) + "\n")
        file.write(f"static const float best_cosines[{values.size}] = {{\n")
        for i in range(0, values.size, 6):
            file.write("    " + ", ".join(f"{v:.8g}f" for v in values.ravel()[i:i + 6]) + ",\n")
        file.write("};\n\n")
        file.write(integers("first_of_group", first) + "\n")
        file.write(integers("predicted", predicted) + "\n")
        file.write("/* by a linear classifier; and its weights for class 0 */\n")
        file.write(integers("named", named) + "\n")
        file.write(f"static const double class_weights[{DIM + 1}] = {{\n")
        weights = list(linear.coef_[0]) + [linear.intercept_[0]]
        for i in range(0, len(weights), 5):
            file.write("    " + ", ".join(f"{v:.9g}" for v in weights[i:i + 5]) + ",\n")
        file.write("};\n")


main()
