#!/usr/bin/python3
"""Builds a FAISS index from the shards that vit-embed wrote, or searches one.

    faiss_index.py build OUT shards.faiss [FACTORY]     e.g. "IVF4096,Flat"; default Flat: exact
    faiss_index.py ask shards.faiss query.npy [K]

Cosines are inner products of unit vectors. Row r of the index is row r of the shards, joined in the
order of their names. Debian: apt-get install python3-faiss.
"""
import glob
import sys

import faiss
import numpy as np


def unit(rows):
    rows = np.array(rows, np.float32, order="C")  # FAISS normalises in place
    faiss.normalize_L2(rows)
    return rows


def build(folder, target, factory="Flat"):
    shards = [np.load(path, mmap_mode="r") for path in sorted(glob.glob(f"{folder}/img_emb/*.npy"))]
    if not shards:
        sys.exit(f"{folder}: has no img_emb/*.npy")
    index = faiss.index_factory(shards[0].shape[1], factory, faiss.METRIC_INNER_PRODUCT)
    if not index.is_trained:  # trains on a share of each shard, up to a million rows
        step = max(1, sum(map(len, shards)) // 1000000)
        index.train(unit(np.concatenate([shard[::step] for shard in shards])))
    for shard in shards:
        index.add(unit(shard))
    faiss.write_index(index, target)


def ask(source, query, k="10"):
    index = faiss.read_index(source)
    cosines, rows = index.search(unit(np.atleast_2d(np.load(query))), int(k))
    for cosine, row in zip(cosines[0].clip(-1, 1), rows[0]):
        if row >= 0:  # -1: the searched part of the index has no more rows
            print(f"{cosine:.4f}  {row}")


if __name__ == "__main__":
    commands = {"build": build, "ask": ask}
    if len(sys.argv) < 4 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](*sys.argv[2:])
