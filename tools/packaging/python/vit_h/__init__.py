"""vit_h - Vision Transformers on the CPU, by vit.h. It takes and returns NumPy arrays.

    model = vit_h.Model("model.vit")
    for best in model.classify("photo.jpg"):
        print(f"{100 * best.score:5.1f} %  {best.label}")
    vectors = model.embed(["a.jpg", "b.jpg"])  # [2, model.embedding_dim]
"""
from ._model import Model, Prediction
from ._native import Error, __version__
from ._photos import Photo

__all__ = ["Error", "Model", "Photo", "Prediction", "__version__"]
