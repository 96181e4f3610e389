"""Files that are whole or not there: written beside their place, flushed to disk, then renamed; checked when read.

A process killed at any moment leaves the old file or the new one, never half of one. What is damaged all the same (a
full disk, a copy that stopped) is met with one sentence that says which file and what to do.
"""

import errno
import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recombine.errors import UserError

if TYPE_CHECKING:  # torch takes seconds to import: only the functions that hold tensors do it
    import torch
    from torch import Tensor

AGAIN = "delete it and give the same command again: what it held will be computed again"


def canonical_json(thing: Any) -> str:
    """The one JSON text of `thing`: keys sorted, no spaces, no NaN. Equal things have equal text."""
    return json.dumps(thing, sort_keys=True, separators=(",", ":"), allow_nan=False)


def content_hash(thing: Any) -> str:
    """16 hex digits that name anything JSON can hold."""
    return hashlib.sha256(canonical_json(thing).encode()).hexdigest()[:16]


def write_atomic(path: Path, data: bytes | str) -> None:
    """Puts `data` at `path`, whole or not at all, whenever the process or the machine stops."""
    path = Path(path)
    partial = partial_name(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(partial, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
        sync_folder(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        with suppress(OSError):  # where nothing can be written, nothing can be removed, and the first error is told
            partial.unlink()


def save_json_atomic(path: Path, thing: Any) -> None:
    """`thing` as JSON for people: indented, in its own order."""
    write_atomic(path, json.dumps(thing, indent=2, allow_nan=False) + "\n")


def load_json(path: Path, fix: str = AGAIN) -> Any:
    """What `save_json_atomic` wrote."""
    try:
        return json.loads(Path(path).read_bytes())
    except FileNotFoundError as error:
        raise UserError(f"{path} is missing; {fix}.") from error
    except OSError as error:
        raise UserError(f"cannot read {path} ({error.strerror}); check its permissions.") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged (not the JSON that was written); {fix}.") from error


def save_tensors_atomic(path: Path, tensors: Mapping[str, "Tensor"]) -> None:
    """Tensors by name as safetensors, compressed where the name ends in .gz. Each is copied first, so views of one
    storage are welcome; equal tensors make equal files."""
    data = tensor_bytes(tensors)
    write_atomic(path, gzip.compress(data, mtime=0) if Path(path).suffix == ".gz" else data)


def tensor_bytes(tensors: Mapping[str, "Tensor"]) -> bytes:
    """The safetensors file of these tensors."""
    from safetensors.torch import save

    return save({name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()})


def load_tensors(path: Path, device: "torch.device | str" = "cpu", fix: str = AGAIN) -> "dict[str, Tensor]":
    """What `save_tensors_atomic` wrote; a file cut short is refused, since its header says how long it should be."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        tensors = load(unpacked(Path(path)))
    except FileNotFoundError as error:
        raise UserError(f"{path} is missing; {fix}.") from error
    except OSError as error:
        raise UserError(f"cannot read {path} ({error.strerror}); check its permissions.") from error
    except (SafetensorError, ValueError, KeyError) as error:
        raise UserError(f"{path} is damaged or cut short; {fix}.") from error
    return {name: tensor.to(device) for name, tensor in tensors.items()}


def unpacked(path: Path) -> bytes:
    """What a file holds; where its name ends in .gz, what was compressed. ValueError where that is not whole."""
    data = path.read_bytes()
    if path.suffix != ".gz":
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"it is damaged or cut short: {error}") from error


def partial_name(path: Path) -> Path:
    """Where `path` grows before it is whole: beside it, hidden, one per process."""
    return path.with_name(f".{path.name}.{os.getpid()}.partial")


def sync_folder(folder: Path) -> None:
    """Makes a rename inside `folder` outlast a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def cannot_write(path: Path, error: OSError) -> UserError:
    """The sentence for a full disk, a read-only folder and the like."""
    reason = error.strerror or str(error)
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    advice = "make room or choose another folder" if full else "choose another folder, or let this one be written to"
    return UserError(f"cannot write {path} ({reason}); {advice}, then give the same command.")
