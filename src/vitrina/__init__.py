"""Write a SELECT, name its key, and Vitrina keeps a mart equal to it."""

from vitrina.transforms import Row, transform

__version__ = "0.1.0"
__all__ = ["Row", "__version__", "transform"]
