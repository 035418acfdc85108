"""Signing in by OpenID Connect: the provider that the settings name, what it says, and whom that lets in."""
