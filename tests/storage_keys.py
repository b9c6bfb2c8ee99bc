"""Lets make_modules.py and make_checkpoints.py write the same bytes in each run in PyTorch's older
format."""


class TextType(type):
    def __instancecheck__(cls, value):
        return isinstance(value, str)


class KeyText(metaclass=TextType):
    """Replaces str() inside torch.serialization, which makes storage keys from addresses."""
    seen = {}

    def __new__(cls, value):
        if isinstance(value, int):
            value = cls.seen.setdefault(value, 1000 + len(cls.seen))
        return "%s" % (value,)
