"""Who can reach an address."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether only this machine can; no proxy of the environment gets there either."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
