"""The error that stops an emulated kernel."""


class Fault(Exception):
    """A kernel did something that is wrong on the machine, or that this emulator does not know."""
