"""The API of the contract's tests."""

from tests.contract.conftest import api, shared

__all__ = ["api", "shared"]
