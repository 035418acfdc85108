"""The rules, once: the API and every other surface call these."""
