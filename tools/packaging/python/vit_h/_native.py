"""libvit.so by ctypes: its structs and functions; an open model with its threads and sessions.

ctypes releases Python's global lock during each call."""
from __future__ import annotations

import ctypes
import functools
import os
import threading
import weakref
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any, Dict, List, Optional, Tuple

_library = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(__file__)), "libvit.so"))


class Error(Exception):
    """A failure that the library reports, with its message. `code` is a vit_result of vit.h."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class Image(ctypes.Structure):
    _fields_ = [("pixels", c_void_p), ("width", c_int), ("height", c_int), ("stride", c_int),
                ("format", c_int)]


class Best(ctypes.Structure):
    _fields_ = [("index", c_int), ("score", c_float)]


@functools.lru_cache(maxsize=64)
def array_of(struct: Any, count: int) -> Any:
    """The type `struct * count`, which ctypes makes anew for each call unless something keeps it."""
    return struct * count


class Executor(ctypes.Structure):
    _fields_ = [("parallel_for", c_void_p), ("user", c_void_p), ("num_threads", c_int)]


class Params(ctypes.Structure):
    _fields_ = [("isa", c_int), ("executor", Executor), ("low_memory", c_int), ("batch", c_int),
                ("trace", c_void_p), ("trace_user", c_void_p), ("on_phase", c_void_p),
                ("phase_user", c_void_p), ("reserved", c_void_p * 8)]


class Answer(ctypes.Structure):
    _fields_ = [("scores", c_void_p), ("embedding", c_void_p)]


class Input(ctypes.Structure):
    _fields_ = [("pixels", c_void_p), ("batch", c_int), ("mask", c_void_p), ("ids", c_void_p),
                ("reserved", c_void_p * 5)]


class BlockOutput(ctypes.Structure):
    _fields_ = [("tokens", c_void_p), ("attention", c_void_p), ("index", c_int), ("norm", c_int)]


class Outputs(ctypes.Structure):
    _fields_ = [("logits", c_void_p), ("embedding", c_void_p), ("tokens", c_void_p),
                ("blocks", c_void_p), ("num_blocks", c_int), ("merged", c_void_p),
                ("reserved", c_void_p * 5)]


class Tokenizer(ctypes.Structure):
    _fields_ = [("context", c_int), ("num_ids", c_int), ("begin", c_int), ("end", c_int),
                ("pad", c_int), ("bytes", c_void_p), ("size", c_size_t), ("reserved", c_int * 5)]


class TextIds(ctypes.Structure):
    _fields_ = [("ids", c_void_p), ("num_ids", c_int), ("num_cut", c_size_t),
                ("invalid_at", c_size_t), ("reserved", c_size_t * 2)]


class _Entry(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("offset", c_uint), ("size", c_uint)]


def _read_layout() -> Dict[str, Tuple[int, int]]:
    """Returns the compiled offset and size of each member, and the size of each struct."""
    table: Any = (_Entry * 1024).in_dll(_library, "vit_h_layout")
    found: Dict[str, Tuple[int, int]] = {}
    for entry in table:
        if not entry.name:
            break
        found[entry.name.decode()] = (entry.offset, entry.size)
    return found


_layout = _read_layout()


def _check_layout() -> None:
    structs = {"vit_image": Image, "vit_prediction": Best, "vit_executor": Executor, "vit_params": Params,
               "vit_answer": Answer, "vit_input": Input, "vit_block_output": BlockOutput,
               "vit_outputs": Outputs, "vit_tokenizer": Tokenizer, "vit_text_ids": TextIds}
    for name, (offset, size) in _layout.items():
        struct, _, member = name.partition(".")
        if struct not in structs:
            continue
        own = getattr(structs[struct], member) if member else None
        mine = (own.offset, own.size) if own else (0, ctypes.sizeof(structs[struct]))
        if mine != (offset, size):
            raise ImportError("libvit.so has another layout: %s at byte %d, of %d bytes; expected at "
                              "%d, of %d" % (name, offset, size, mine[0], mine[1]))


_check_layout()
__version__ = ctypes.string_at(ctypes.addressof(c_int.in_dll(_library, "vit_h_version"))).decode()


def _function(name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(_library, name)
    function.restype = result
    function.argtypes = arguments
    return function


_pointer = c_void_p
_abi = _function("vit_abi", c_uint)
_result_string = _function("vit_result_string", c_char_p, c_int)
_model_open = _function("vit_model_open_as", c_int, c_uint, c_char_p, c_uint, _pointer)
_model_close = _function("vit_model_close", None, _pointer)
_model_resize = _function("vit_model_resize", c_int, _pointer, c_int, c_int)
_model_fit = _function("vit_model_fit", c_int, _pointer, _pointer, _pointer)
_model_text = _function("vit_model_text", c_int, _pointer, c_uint, _pointer)
_model_tokenizer = _function("vit_model_tokenizer", c_int, _pointer, _pointer)
_label = _function("vit_label", c_char_p, _pointer, c_int)
_embedding_dim = _function("vit_embedding_dim", c_int, _pointer)
_session_init = _function("vit_session_init", c_int, _pointer, _pointer, _pointer, _pointer, c_size_t)
_session_close = _function("vit_session_close", None, _pointer)
_threads_create = _function("vit_threads_create", c_int, c_int, _pointer, _pointer)
_threads_destroy = _function("vit_threads_destroy", None, _pointer)
_run = _function("vit_run", c_int, _pointer, _pointer, c_int, _pointer)
_run_one = _function("vit_h_run", c_int, _pointer, _pointer, _pointer, c_int, c_int, c_int, c_int,
                     _pointer, _pointer, c_int, _pointer)
_top_k = _function("vit_top_k", c_int, _pointer, c_int, c_int, _pointer)
_preprocess = _function("vit_preprocess", c_int, _pointer, _pointer, _pointer, _pointer, c_size_t)
_forward = _function("vit_forward", c_int, _pointer, _pointer, _pointer)
_tokenize_size = _function("vit_tokenize_size", c_size_t, _pointer, c_size_t)
_tokenize = _function("vit_tokenize", c_int, _pointer, c_char_p, c_size_t, _pointer, c_size_t, _pointer)
_text_embed = _function("vit_text_embed", c_int, _pointer, c_char_p, _pointer)
_text_scores = _function("vit_text_scores", None, _pointer, _pointer, c_int)
_normalize = _function("vit_normalize", None, _pointer, c_int)
_cosine = _function("vit_cosine", c_float, _pointer, _pointer, c_int)

OPEN_VERIFY, OPEN_COPY = 1, 2
CROP_ASPECT = 3


def _zeros(struct: str) -> Any:
    """Returns zeroed memory for a struct, aligned to 8 bytes."""
    return (c_uint64 * ((_layout[struct][1] + 7) // 8))()


class Config:
    """The integers of vit_model.config."""

    def __init__(self, model: Any) -> None:
        self._config = ctypes.addressof(model) + _layout["vit_model.config"][0]

    def __getattr__(self, name: str) -> int:
        return c_int.from_address(self._config + _layout["vit_config." + name][0]).value


class Native:
    """An open model. Its memory is freed when the last call that uses it has returned.

    A session serves one call at a time. If several Python threads call at the same time, each call
    takes its own session; the sessions share the threads of the library."""

    def __init__(self, path: bytes, shown: str, flags: int, threads: int) -> None:
        self.shown = shown
        self.model = _zeros("vit_model")
        self.text_model: Any = None
        self._open = False
        self._num_threads = threads
        self._threads = c_void_p()
        self._params = Params()
        self._free: List[Any] = []
        self._lock = threading.Lock()
        self._labels: Dict[int, Optional[str]] = {}
        code = _model_open(_abi(), path, flags, byref(self.model))
        if code:
            raise Error(_detail(self.model), code)
        self._open = True
        self.config = Config(self.model)
        self.embedding_dim: int = _embedding_dim(byref(self.model))
        self.num_classes = self.config.num_classes
        _natives.add(self)

    def __del__(self) -> None:
        for session in self._free:
            _session_close(byref(session))
        _threads_destroy(self._threads)
        if self._open:
            _model_close(byref(self.model))

    def forked(self) -> None:
        """In a child process the library's threads are gone. Calls that were running in other
        threads never end here, so their memory cannot be freed."""
        for session in self._free:
            _session_close(byref(session))
        self._free = []
        self._threads = c_void_p()
        self._params = Params()
        self._lock = threading.Lock()

    def check(self, code: int, about: str = "") -> None:
        if code:
            raise Error("%s: %s%s" % (self.shown, about, _result_string(code).decode()), code)

    def resize(self, height: int, width: int) -> None:
        code = _model_resize(byref(self.model), height, width)
        if code:
            raise Error("%s: %s" % (self.shown, _detail(self.model)), code)

    def label(self, index: int) -> Optional[str]:
        if index not in self._labels:
            name = _label(byref(self.model), index)
            self._labels[index] = None if name is None else name.decode(errors="replace")
        return self._labels[index]

    # --- sessions ---

    def new_session(self, model: Any) -> Any:
        with self._lock:
            if self._num_threads != 1 and not self._threads:
                self.check(_threads_create(self._num_threads, byref(self._threads),
                                           byref(self._params, _layout["vit_params.executor"][0])), "threads: ")
        session = _zeros("vit_session")
        self.check(_session_init(byref(session), byref(model), byref(self._params), None, 0))
        return session

    def take(self) -> Any:
        try:
            return self._free.pop()
        except IndexError:
            return self.new_session(self.model)

    def give(self, session: Any) -> None:
        self._free.append(session)

    # --- photos ---

    def run(self, images: Any, scores: Optional[int], embedding: Optional[int]) -> None:
        """Writes the answers for an array of Image to those addresses that are not None."""
        count, answer, session = len(images), Answer(), self.take()
        try:
            self.check(_run(byref(session), byref(images), count, byref(answer)))
            if scores is not None:
                ctypes.memmove(scores, answer.scores, 4 * count * self.num_classes)
            if embedding is not None:
                ctypes.memmove(embedding, answer.embedding, 4 * count * self.embedding_dim)
        finally:
            self.give(session)

    def run_one(self, image: Tuple[int, int, int, int, int], scores: Optional[int],
                embedding: Optional[int], k: int = 0, best: Any = None) -> None:
        """The answers for one photo, given as the members of a vit_image."""
        session = self.take()
        try:
            code = _run_one(session, self.model, *image, scores, embedding, k, best)
        finally:
            self._free.append(session)
        if code:
            self.check(code)

    def fitted(self, image: Image) -> Any:
        """Returns a copy of the model with the input size of an image. They share the bytes."""
        model = _zeros("vit_model")
        self.check(_model_fit(byref(self.model), byref(image), byref(model)))
        return model

    def forward(self, model: Any, images: Any, pixels: int, pixels_of_one: int,
                outputs: Outputs) -> None:
        """Preprocesses images to the address `pixels`, and computes the outputs. `model` is self.model
        or a fitted copy."""
        for i, image in enumerate(images):
            self.check(_preprocess(byref(model), byref(image), pixels + i * pixels_of_one, None, 0))
        given = Input(pixels=pixels, batch=len(images))
        session = self.take() if model is self.model else self.new_session(model)
        try:
            self.check(_forward(byref(session), byref(given), byref(outputs)))
        finally:
            if model is self.model:
                self.give(session)
            else:
                _session_close(byref(session))

    # --- texts ---

    def text(self) -> Any:
        """The text encoder."""
        with self._lock:
            if self.text_model is None:
                model = _zeros("vit_model")
                code = _model_text(byref(self.model), 0, byref(model))
                if code:
                    raise Error("%s: %s" % (self.shown, _detail(model)), code)
                self.text_model = model
            return self.text_model

    def tokens_cut(self, text: bytes) -> int:
        """Returns the number of tokens of a text beyond the length that the encoder reads."""
        tokenizer, ids = Tokenizer(), TextIds()
        self.check(_model_tokenizer(byref(self.text()), byref(tokenizer)))
        room = (c_int * tokenizer.context)()
        size = _tokenize_size(byref(tokenizer), len(text))
        scratch = ctypes.create_string_buffer(max(1, size))
        ids.ids = ctypes.addressof(room)
        self.check(_tokenize(byref(tokenizer), text, len(text), byref(scratch), size, byref(ids)),
                   "a text of %d bytes: " % len(text))
        return int(ids.num_cut)

    def text_embed(self, text: bytes, embedding: int) -> None:
        self.text()
        self.check(_text_embed(byref(self.model), text, embedding))

    def text_scores(self, cosines: int, count: int) -> None:
        _text_scores(byref(self.text()), cosines, count)


def address_of(struct: ctypes.Structure) -> int:
    return ctypes.addressof(struct)


def best_of(scores: int, count: int, k: int) -> Any:
    """The k best, best first. Among equal scores, the first is better."""
    best = array_of(Best, k)()
    _top_k(scores, count, k, best)
    return best


def normalize(vector: int, width: int) -> None:
    _normalize(vector, width)


def cosine(a: int, b: int, width: int) -> float:
    return float(_cosine(a, b, width))


def _detail(model: Any) -> str:
    offset, size = _layout["vit_model.detail"]
    return ctypes.string_at(ctypes.addressof(model) + offset, size).split(b"\0")[0].decode(
        errors="replace")


_natives: weakref.WeakSet[Native] = weakref.WeakSet()


def _after_fork() -> None:
    for native in list(_natives):
        native.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
