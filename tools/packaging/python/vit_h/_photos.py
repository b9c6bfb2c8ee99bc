"""Photos of Python as images of the library."""
from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any, Iterable, Iterator, List, Tuple, Union

import numpy as np

from ._native import Image, array_of

if TYPE_CHECKING:
    from typing import Protocol

    import numpy.typing as npt

    class PillowImage(Protocol):
        """The part of PIL.Image.Image that is used."""

        @property
        def mode(self) -> str: ...

        def convert(self, mode: str) -> Any: ...

        def getexif(self) -> Any: ...


# A photo: pixels, an image of Pillow, or the path of a file that Pillow reads. Pixels are uint8
# [height, width, channels] with 3, 4 or 1 channels, or [height, width].
Photo = Union["npt.NDArray[np.uint8]", "PillowImage", str, "os.PathLike[str]"]

_UINT8 = np.dtype(np.uint8)
_FORMATS = {3: 0, 4: 1, 1: 2}  # channels: vit_pixel
MOST_PHOTOS, MOST_BYTES = 32, 64 << 20  # decoded at once


def is_one(photos: object) -> bool:
    """True for one photo, False for a collection of photos."""
    if isinstance(photos, np.ndarray):
        return photos.ndim != 4
    return isinstance(photos, (str, bytes, os.PathLike)) or hasattr(photos, "getexif")


def _decoded(path: Union[str, "os.PathLike[str]"]) -> npt.NDArray[np.uint8]:
    try:
        pillow = import_module("PIL.Image")
    except ImportError as error:
        raise ImportError("%s: reading image files needs Pillow: pip install pillow; or pass the "
                          "pixels as a uint8 array" % os.fspath(path)) from error
    name = os.fspath(path)
    try:
        with pillow.open(name) as image:
            return _from_pillow(image)
    except (OSError, SyntaxError, TypeError, ValueError, pillow.DecompressionBombError) as error:
        if name in str(error):
            raise
        kind = TypeError if isinstance(error, TypeError) else OSError
        raise kind("%s: %s" % (name, error)) from error


def _from_pillow(image: Any) -> npt.NDArray[np.uint8]:
    if image.mode in ("I", "F") or image.mode.startswith("I;"):
        raise TypeError("an image of 8 bits a channel expected, found Pillow's mode %s" % image.mode)
    upright = import_module("PIL.ImageOps").exif_transpose(image)  # as the camera was held
    return np.asarray(upright.convert("L" if upright.mode in ("1", "L", "LA") else "RGB"))


def pixels_of(photo: object) -> npt.NDArray[np.uint8]:
    """Returns the pixels of a photo, each row without gaps."""
    if isinstance(photo, bytes):
        photo = os.fsdecode(photo)
    if isinstance(photo, np.ndarray):
        pixels = photo
    elif isinstance(photo, (str, os.PathLike)):
        pixels = _decoded(photo)
    elif hasattr(photo, "getexif"):
        pixels = _from_pillow(photo)
    else:
        raise TypeError("a photo is a NumPy array, an image of Pillow or a path, found %s" %
                        type(photo).__name__)
    if pixels.dtype != _UINT8:
        hint = "; for values from 0 to 1: (255 * x).round().astype(np.uint8)"
        raise TypeError("a photo of uint8 expected, found %s%s" %
                        (pixels.dtype, hint if pixels.dtype.kind == "f" else ""))
    shape = pixels.shape
    if pixels.ndim not in (2, 3) or pixels.ndim == 3 and shape[2] not in _FORMATS:
        raise ValueError("a photo of shape [height, width, 3] expected (or 4, 1, or no channels), "
                         "found %s" % (shape,))
    if not 1 <= shape[0] <= 1 << 20 or not 1 <= shape[1] <= 1 << 20:
        raise ValueError("a photo of 1 to 1048576 pixels a side expected, found %s" % (shape,))
    channels = shape[2] if pixels.ndim == 3 else 1
    strides = pixels.strides
    whole = strides[1] == channels and (pixels.ndim == 2 or strides[2] == 1 or channels == 1)
    if not whole or not shape[1] * channels <= strides[0] < 1 << 31:
        pixels = np.ascontiguousarray(pixels)
    return pixels


def image_of(pixels: npt.NDArray[np.uint8]) -> Tuple[int, int, int, int, int]:
    """Returns the members of a vit_image, which the array must outlive."""
    shape = pixels.shape
    return (pixels.__array_interface__["data"][0], shape[1], shape[0],
            pixels.strides[0] if shape[0] > 1 else 0, _FORMATS[shape[2] if len(shape) == 3 else 1])


def images_of(arrays: List[npt.NDArray[np.uint8]]) -> Any:
    """Returns an array of vit_image, which the arrays must outlive."""
    return array_of(Image, len(arrays))(*map(image_of, arrays))


def batches(photos: object) -> Iterator[List[npt.NDArray[np.uint8]]]:
    """Gives the photos in their order, a few at a time, so a long list needs little memory."""
    if not isinstance(photos, Iterable):
        raise TypeError("a photo or a collection of photos expected, found %s" % type(photos).__name__)
    group: List[npt.NDArray[np.uint8]] = []
    size = 0
    for i, photo in enumerate(photos):
        try:
            group.append(pixels_of(photo))
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind("photo %d: %s" % (i, error)) from error
        size += group[-1].nbytes
        if len(group) == MOST_PHOTOS or size >= MOST_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def row_major(shape: Tuple[int, ...]) -> Tuple[npt.NDArray[np.float32], int]:
    """Returns an array for floats, and its address."""
    array = np.empty(shape, np.float32)
    return array, array.__array_interface__["data"][0]
