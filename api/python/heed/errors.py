"""The exceptions that heed raises."""


class Error(Exception):
    """Whatever heed refuses or cannot do, with a message that says why."""


class ArgumentError(Error, ValueError):
    """An argument, or an environment variable of heed's, makes no sense."""


class UnsupportedError(Error, NotImplementedError):
    """It makes sense, but not in this library or on this CPU."""


class OutOfMemoryError(Error, MemoryError):
    """There is no memory left."""


class BusyError(Error, BlockingIOError):
    """Another call uses it; nothing has changed, and the call may be tried again."""


class FileError(Error, OSError):
    """A file, pipe or socket could not be opened, read or written, as the system says."""


class CorruptError(Error, ValueError):
    """A file or saved bytes are cut short, altered or malformed."""
