"""What make_modules.py and make_checkpoints.py need of PyTorch's older format to write the same bytes
twice."""


class TextType(type):
    def __instancecheck__(cls, value):
        return isinstance(value, str)


class KeyText(metaclass=TextType):
    """Stands in for str() inside torch.serialization, which makes storage keys of addresses."""
    seen = {}

    def __new__(cls, value):
        if isinstance(value, int):
            value = cls.seen.setdefault(value, 1000 + len(cls.seen))
        return "%s" % (value,)
