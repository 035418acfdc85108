"""A guard is proven by taking it out."""
