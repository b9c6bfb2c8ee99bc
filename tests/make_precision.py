#!/usr/bin/python3
"""Writes tests/precision_vectors.h: average precision and F1 as scikit-learn computes them, of
scores that tests/test_tags.c makes too, bit for bit.

    /usr/bin/python3 tests/make_precision.py      (python3-numpy, python3-sklearn)
"""
import os

import numpy as np
from sklearn.metrics import average_precision_score, f1_score, precision_score, recall_score

PHOTOS, CLASSES, ABOVE = 150, 12, 0.625


def uniform(seed, count):
    """splitmix64 (Steele, Lea, Flood 2014), its upper 24 bits as a float in [0, 1)."""
    state = (np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) *
             np.uint64(0x9E3779B97F4A7C15))
    z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return (z >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)


def numbers(name, values):
    lines = [f"static const double {name}[{len(values)}] = {{"]
    for i in range(0, len(values), 4):
        lines.append("    " + ", ".join(f"{v:.15g}" for v in values[i:i + 4]) + ",")
    return "\n".join(lines) + "\n};\n"


def main():
    drawn = uniform(1, PHOTOS * CLASSES).reshape(PHOTOS, CLASSES)
    chance = uniform(2, PHOTOS * CLASSES).reshape(PHOTOS, CLASSES)
    # Class c has about (c + 1) / 16 of the photos, but class 0 has none. The scores of odd classes
    # are multiples of 1/16, so that many scores are equal.
    right = chance < (np.arange(CLASSES) + 1) / np.float32(16)
    right[:, 0] = False
    scores = np.float32(0.75) * drawn + np.float32(0.25) * right
    scores[:, 1::2] = np.floor(scores[:, 1::2] * 16) / 16
    scores = scores.astype(np.float32)
    found = scores >= ABOVE
    occurring = list(range(1, CLASSES))
    precisions = [average_precision_score(right[:, c], scores[:, c]) for c in occurring]
    macro = {"average": "macro", "labels": occurring, "zero_division": 0}
    micro = {"average": "micro", "zero_division": 0}
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "precision_vectors.h")
    with open(path, "w", encoding="ascii") as file:
        file.write("/* Written by make_precision.py: what scikit-learn computes. */\n")
        file.write(f"enum {{ PHOTOS = {PHOTOS}, CLASSES = {CLASSES} }};\n")
        file.write(f"static const double above = {ABOVE};\n\n")
        file.write("/* those of class 1, and so on */\n")
        file.write(numbers("average_precisions", precisions) + "\n")
        file.write(numbers("f1_scores", f1_score(right, found, average=None)[1:]) + "\n")
        file.write("/* precision, recall and F1, micro; mean average precision, F1, macro */\n")
        file.write(numbers("of_all", [precision_score(right, found, **micro),
                                      recall_score(right, found, **micro),
                                      f1_score(right, found, **micro), np.mean(precisions),
                                      f1_score(right, found, **macro)]))


main()
