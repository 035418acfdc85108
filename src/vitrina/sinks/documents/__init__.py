"""Marts outside of the warehouse, as documents: written ahead into a shadow, sent, confirmed."""
