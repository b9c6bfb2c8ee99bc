"""The class Model."""
from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from typing import (TYPE_CHECKING, Any, Callable, Iterable, List, Optional, Sequence, Tuple, Union,
                    overload)

import numpy as np

from . import _native
from ._native import Best, BlockOutput, Error, Native, Outputs, array_of
from ._photos import Photo, batches, image_of, images_of, is_one, pixels_of, row_major

if TYPE_CHECKING:
    import numpy.typing as npt  # which takes longer to import than the rest

    Floats = npt.NDArray[np.float32]
    Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Prediction:
    """A class of a photo. The label is None if the file names no classes."""

    label: Optional[str]
    score: float
    index: int


class Model:
    """An open .vit file.

    path      the file, which must not change while it is open, unless `copy` is true
    threads   number of the library's threads, which all calls share; 0: one per core
    img_size  height and width of the input in pixels, or one number for both; the model must
              allow other sizes
    copy      read the file into memory instead of mapping it
    verify    compare the checksum of every tensor

    Any number of Python threads may use a model at the same time."""

    def __init__(self, path: Union[str, "os.PathLike[str]"], *, threads: int = 0,
                 img_size: Union[int, Tuple[int, int], None] = None, copy: bool = False,
                 verify: bool = False) -> None:
        name = os.fsencode(path)
        if b"\0" in name:
            raise ValueError("the path has a zero byte")
        if not 0 <= threads <= 256:
            raise ValueError("threads: 0 to 256 expected, found %d" % threads)
        flags = (_native.OPEN_VERIFY if verify else 0) | (_native.OPEN_COPY if copy else 0)
        self.path: str = os.fsdecode(path)
        self._native: Optional[Native] = None
        native = Native(name, self.path, flags, threads)
        if img_size is not None:
            height, width = (img_size, img_size) if isinstance(img_size, int) else img_size
            native.resize(height, width)
        self._native = native
        self._words: Tuple[Tuple[str, ...], Floats] = ((), np.empty((0, 0), np.float32))

    # --- the file ---

    @property
    def labels(self) -> List[str]:
        """The names of the classes; empty if the file has none."""
        native = self._opened()
        names = [native.label(i) for i in range(native.num_classes)]
        return [name for name in names if name is not None]

    @property
    def num_classes(self) -> int:
        return self._opened().num_classes

    @property
    def embedding_dim(self) -> int:
        return self._opened().embedding_dim

    @property
    def embed_dim(self) -> int:
        """Width of a token."""
        return self._opened().config.embed_dim

    @property
    def depth(self) -> int:
        """Number of blocks."""
        return self._opened().config.depth

    @property
    def num_heads(self) -> int:
        return self._opened().config.num_heads

    @property
    def img_size(self) -> Tuple[int, int]:
        """Height and width of the input."""
        config = self._opened().config
        return config.img_height, config.img_width

    @property
    def grid(self) -> Tuple[int, int]:
        """Rows and columns of patches."""
        config = self._opened().config
        return config.grid_height, config.grid_width

    @property
    def num_prefix_tokens(self) -> int:
        """Tokens before the patches: class token, distillation token, registers."""
        return self._opened().config.num_prefix_tokens

    @property
    def has_text(self) -> bool:
        """True if the file has a text encoder."""
        try:
            self._opened().text()
        except Error:
            return False
        return True

    def close(self) -> None:
        """Frees everything, as soon as calls in other threads have returned."""
        self._native = None

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return "vit_h.Model(%r)%s" % (self.path, "" if self._native else ", closed")

    # --- photos ---

    @overload
    def classify(  # type: ignore # a str and an array are iterable, too
        self, photo: Photo, k: int = 5, *, words: Optional[Sequence[str]] = None
    ) -> List[Prediction]: ...

    @overload
    def classify(self, photo: Iterable[Photo], k: int = 5, *,
                 words: Optional[Sequence[str]] = None) -> List[List[Prediction]]: ...

    def classify(self, photo: Any, k: int = 5, *, words: Optional[Sequence[str]] = None) -> Any:
        """The k best classes of a photo, best first; for a list of photos, a list for each.
        If `words` are given, the text encoder compares them in place of the model's classes."""
        if k < 1:
            raise ValueError("k: 1 or more expected, found %d" % k)
        if isinstance(photo, np.ndarray) and photo.ndim == 4:
            raise ValueError("one photo or a list of photos expected, found an array of four "
                             "dimensions: classify(list(photos))")
        if words is None and is_one(photo):
            native = self._with_classes()
            pixels = pixels_of(photo)
            k = min(k, native.num_classes)
            best = array_of(Best, k)()
            native.run_one(image_of(pixels), None, None, k, best)
            return self._told(best, None)
        scores = np.atleast_2d(self.scores(photo, words=words))
        address, count = scores.__array_interface__["data"][0], scores.shape[1]
        found = [_native.best_of(address + 4 * i * count, count, min(k, count))
                 for i in range(len(scores))]
        told = [self._told(best, words) for best in found]
        return told[0] if is_one(photo) else told

    def scores(self, photos: Union[Photo, Iterable[Photo]], *,
               words: Optional[Sequence[str]] = None) -> Floats:
        """The probability of each class, [num_classes], or of each of `words`. For a list of photos,
        or an array [n, height, width, channels], this method and those below return a row per
        photo."""
        if words is not None:
            return self._word_scores(photos, words)
        native = self._with_classes()
        classes = native.num_classes
        if is_one(photos):
            pixels = pixels_of(photos)
            scores, address = row_major((classes,))
            native.run_one(image_of(pixels), address, None)
            return scores

        def run(pixels: List[Pixels]) -> Floats:
            scores, address = row_major((len(pixels), classes))
            native.run(images_of(pixels), address, None)
            return scores

        return _each(photos, run, (classes,))

    def embed(self, photos: Union[Photo, Iterable[Photo]], *, normalize: bool = False) -> Floats:
        """The embedding, [embedding_dim], divided by its length if `normalize`."""
        native = self._opened()
        if is_one(photos):
            pixels = pixels_of(photos)
            vector, address = row_major((native.embedding_dim,))
            native.run_one(image_of(pixels), None, address)
            if normalize:
                _native.normalize(address, native.embedding_dim)
            return vector

        def run(pixels: List[Pixels]) -> Floats:
            vectors, address = row_major((len(pixels), native.embedding_dim))
            native.run(images_of(pixels), None, address)
            return _normalized(vectors) if normalize else vectors

        return _each(photos, run, (native.embedding_dim,))

    def tokens(self, photos: Union[Photo, Iterable[Photo]], *, block: Optional[int] = None) -> Floats:
        """The tokens after the last norm, or the output tokens of block number `block`: [tokens,
        embed_dim]. Prefix tokens come first, then patches, row by row. The last block is -1."""
        native = self._opened()
        if block is not None:
            self._check_block(block)

        def want(room: int, one: BlockOutput, outputs: Outputs) -> None:
            if block is None:
                outputs.tokens = room
            else:
                one.tokens, one.index = room, block

        return self._forward(photos, lambda config: (config.num_tokens, native.config.embed_dim), want)

    def attention(self, photos: Union[Photo, Iterable[Photo]], *, block: int = -1) -> Floats:
        """The attention of each token, [heads, tokens, tokens]: each row sums to 1."""
        native = self._opened()
        self._check_block(block)

        def want(room: int, one: BlockOutput, outputs: Outputs) -> None:
            one.attention, one.index = room, block

        return self._forward(
            photos, lambda config: (native.config.num_heads, config.num_tokens, config.num_tokens), want)

    # --- words ---

    def text(self, texts: Union[str, Iterable[str]], *, normalize: bool = False) -> Floats:
        """The embedding of a text, [embedding_dim], or of each text. Its cosine with the
        embedding of a photo shows how well text and photo match. A text that is too long is cut, with
        a warning."""
        native = self._opened()
        native.text()
        several = [texts] if isinstance(texts, str) else list(texts)
        vectors, address = row_major((len(several), native.embedding_dim))
        for i, text in enumerate(several):
            if not isinstance(text, str):
                raise TypeError("a text of type str expected, found %s" % type(text).__name__)
            data = text.encode()
            if b"\0" in data:
                raise ValueError("text %d: a zero byte" % i)
            cut = native.tokens_cut(data)
            if cut:
                warnings.warn("text %d is too long: its last %d tokens are ignored" % (i, cut),
                              stacklevel=2)
            native.text_embed(data, address + 4 * i * native.embedding_dim)
        if normalize:
            _normalized(vectors)
        return _first(vectors) if isinstance(texts, str) else vectors

    # --- inside ---

    def _opened(self) -> Native:
        if self._native is None:
            raise ValueError("%s: the model is closed" % self.path)
        return self._native

    def _check_block(self, block: int) -> None:
        depth = self.depth
        if not -depth <= block < depth:
            raise ValueError("block: %d to %d expected, found %d" % (-depth, depth - 1, block))

    def _with_classes(self) -> Native:
        native = self._opened()
        if native.num_classes == 0:
            raise Error("%s: the model has no classes, only embeddings" % self.path)
        return native

    def _told(self, best: Iterable[Best], words: Optional[Sequence[str]]) -> List[Prediction]:
        native = self._opened()
        return [Prediction(native.label(one.index) if words is None else words[one.index],
                           one.score, one.index) for one in best]

    def _word_scores(self, photos: Any, words: Sequence[str]) -> Floats:
        native = self._opened()
        if isinstance(words, str):
            raise TypeError("words: a list of texts expected, found one text")
        known, vectors = self._words
        if known != tuple(words):
            known, vectors = tuple(words), self.text(words)
            self._words = known, vectors
        if not known:
            raise ValueError("words: at least one expected")
        width = native.embedding_dim
        address = vectors.__array_interface__["data"][0]

        def compare(pixels: List[Pixels]) -> Floats:
            photo_vectors, photo = row_major((len(pixels), width))
            native.run(images_of(pixels), None, photo)
            scores, room = row_major((len(pixels), len(known)))
            for i in range(len(pixels)):
                for j in range(len(known)):
                    scores[i, j] = _native.cosine(photo + 4 * i * width, address + 4 * j * width, width)
                native.text_scores(room + 4 * i * len(known), len(known))
            return scores

        return _each(photos, compare, (len(known),))

    def _forward(self, photos: Any, shape_of: Callable[[_native.Config], Tuple[int, ...]],
                 want: Callable[[int, BlockOutput, Outputs], None]) -> Floats:
        native = self._opened()

        def forward(model: Any, pixels: List[Pixels]) -> Floats:
            config = _native.Config(model)
            values = config.in_chans * config.img_height * config.img_width
            inputs, address = row_major((len(pixels), values))
            result, room = row_major((len(pixels), *shape_of(config)))
            one, outputs = BlockOutput(), Outputs()
            want(room, one, outputs)
            if not outputs.tokens:
                outputs.blocks, outputs.num_blocks = _native.address_of(one), 1
            native.forward(model, images_of(pixels), address, 4 * values, outputs)
            return result

        def run(pixels: List[Pixels]) -> Floats:
            if native.config.crop_mode != _native.CROP_ASPECT:
                return forward(native.model, pixels)
            each = [forward(native.fitted(images_of([one])[0]), [one]) for one in pixels]
            return np.concatenate(each)

        if native.config.crop_mode == _native.CROP_ASPECT and not is_one(photos):
            raise ValueError("%s: the number of tokens depends on the photo's aspect ratio: pass one "
                             "photo at a time" % self.path)
        return _each(photos, run, shape_of(native.config))


def _each(photos: Any, run: Callable[[List[Pixels]], Floats], shape: Tuple[int, ...]) -> Floats:
    """The result for one photo, or an array of those of many."""
    if is_one(photos):
        return _first(run([pixels_of(photos)]))
    results = [run(group) for group in batches(photos)]
    return np.concatenate(results) if results else np.empty((0, *shape), np.float32)


def _first(rows: Floats) -> Floats:
    row: Floats = rows[0]
    return row


def _normalized(vectors: Floats) -> Floats:
    address, width = vectors.__array_interface__["data"][0], vectors.shape[1]
    for i in range(len(vectors)):
        _native.normalize(address + 4 * i * width, width)
    return vectors
