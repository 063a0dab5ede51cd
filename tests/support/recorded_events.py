"""Event files as real writers left them, and a small writer of such files.

`PYTORCH`: `torch.utils.tensorboard.SummaryWriter` of PyTorch 2.13: for each step 0, 1, 2 `train/loss` (1, 1/2, 1/3) and
`eval/loss` (2, 1, 2/3); then at step 2 `lr` 0.1 in the newer form (a tensor), and a text.
`KERAS`: what `keras.callbacks.TensorBoard` of Keras 3.15 wrote into `validation/`, three epochs of four steps.
"""

import base64
import struct

PYTORCH = base64.b64decode(
    "SAAAAAAAAAD+kkidCUzuJeeXwNpBGg1icmFpbi5FdmVudDoyUi4KLHRlbnNvcmJvYXJkLnN1bW1hcnkud3JpdGVyLmV2ZW50X2ZpbGVfd3Jp"
    "dGVy9wAabh4AAAAAAAAA2dwSMgnwASbnl8DaQSoTChEKCnRyYWluL2xvc3MVAACAPw2FueUdAAAAAAAAAGAv3yMJjgIm55fA2kEqEgoQCgll"
    "dmFsL2xvc3MVAAAAQDijwBogAAAAAAAAACntqVAJ6gIm55fA2kEQASoTChEKCnRyYWluL2xvc3MVAAAAPzffNMUfAAAAAAAAAFFLRBgJRwMm"
    "55fA2kEQASoSChAKCWV2YWwvbG9zcxUAAIA/U6kqWSAAAAAAAAAAKe2pUAmVAybnl8DaQRACKhMKEQoKdHJhaW4vbG9zcxWrqqo+EyF0jB8A"
    "AAAAAAAAUUtEGAnhAybnl8DaQRACKhIKEAoJZXZhbC9sb3NzFauqKj9BcMqKKgAAAAAAAACujZH1Cc8EJueXwNpBEAIqHQobCgJsckIICAEq"
    "BM3MzD1KCwoJCgdzY2FsYXJztcTPB0EAAAAAAAAAAKnCqwmZBibnl8DaQRACKjQKMgoRbm90ZS90ZXh0X3N1bW1hcnlCEwgHEgQSAggBQglz"
    "b21lIHRleHRKCAoGCgR0ZXh047m02g=="
)
KERAS = base64.b64decode(
    "PgAAAAAAAADZ0kDnCQAAwA2XwNpBGg1icmFpbi5FdmVudDoyUiQKInRlbnNvcmZsb3cuY29yZS51dGlsLmV2ZW50c193cml0ZXLYwI2sSwAA"
    "AAAAAACHCZmWCWqI7g2XwNpBEAQqPgo8CiFldmFsdWF0aW9uX2FjY3VyYWN5X3ZzX2l0ZXJhdGlvbnNCCggBEgAiBAAAwD5KCwoJCgdzY2Fs"
    "YXJzM8XCDEcAAAAAAAAAusP7mwkgm+4Nl8DaQRAEKjoKOAodZXZhbHVhdGlvbl9sb3NzX3ZzX2l0ZXJhdGlvbnNCCggBEgAiBLmmsj9KCwoJ"
    "CgdzY2FsYXJz/kNPlDYAAAAAAAAAT1eM7wm06e4Nl8DaQSorCikKDmVwb2NoX2FjY3VyYWN5QgoIARIAIgQAAMA+SgsKCQoHc2NhbGFyc6op"
    "e90yAAAAAAAAACQZVuwJlfPuDZfA2kEqJwolCgplcG9jaF9sb3NzQgoIARIAIgS5prI/SgsKCQoHc2NhbGFyc6UfiutLAAAAAAAAAIcJmZYJ"
    "FJj1DZfA2kEQCCo+CjwKIWV2YWx1YXRpb25fYWNjdXJhY3lfdnNfaXRlcmF0aW9uc0IKCAESACIEAADAPkoLCgkKB3NjYWxhcnMBuBQnRwAA"
    "AAAAAAC6w/ubCQWn9Q2XwNpBEAgqOgo4Ch1ldmFsdWF0aW9uX2xvc3NfdnNfaXRlcmF0aW9uc0IKCAESACIEZMKxP0oLCgkKB3NjYWxhcnME"
    "6rlbOAAAAAAAAACjeX1XCYDv9Q2XwNpBEAEqKwopCg5lcG9jaF9hY2N1cmFjeUIKCAESACIEAADAPkoLCgkKB3NjYWxhcnM+796cNAAAAAAA"
    "AABeMxdcCS/59Q2XwNpBEAEqJwolCgplcG9jaF9sb3NzQgoIARIAIgRkwrE/SgsKCQoHc2NhbGFyc27toT5LAAAAAAAAAIcJmZYJhBH9DZfA"
    "2kEQDCo+CjwKIWV2YWx1YXRpb25fYWNjdXJhY3lfdnNfaXRlcmF0aW9uc0IKCAESACIEAADAPkoLCgkKB3NjYWxhcnP4ZSTBRwAAAAAAAAC6"
    "w/ubCY4g/Q2XwNpBEAwqOgo4Ch1ldmFsdWF0aW9uX2xvc3NfdnNfaXRlcmF0aW9uc0IKCAESACIE8N6wP0oLCgkKB3NjYWxhcnOgA6QWOAAA"
    "AAAAAACjeX1XCSpv/Q2XwNpBEAIqKwopCg5lcG9jaF9hY2N1cmFjeUIKCAESACIEAADAPkoLCgkKB3NjYWxhcnMSSXG3NAAAAAAAAABeMxdc"
    "CeJ4/Q2XwNpBEAIqJwolCgplcG9jaF9sb3NzQgoIARIAIgTw3rA/SgsKCQoHc2NhbGFyc0PeM4Y="
)


def scalar_record(tag: str, value: float, step: int, time: float = 1_700_000_000.0) -> bytes:
    """Return a record with one `simple_value`, as PyTorch writes it."""
    inner = field(1, tag.encode()) + b"\x15" + struct.pack("<f", value)
    return framed(b"\x09" + struct.pack("<d", time) + b"\x10" + varint(step) + field(5, field(1, inner)))


def tensor_record(tag: str, tensor: bytes, step: int) -> bytes:
    """Return a record with a tensor, a serialised `TensorProto`."""
    return framed(b"\x10" + varint(step) + field(5, field(1, field(1, tag.encode()) + field(8, tensor))))


def field(number: int, data: bytes) -> bytes:
    """Encode bytes as a field in protobuf's encoding."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(number: int) -> bytes:
    """Encode an integer of up to 64 bits as in protobuf."""
    number &= 2**64 - 1
    written = b""
    while number >= 128:
        written += bytes([number & 127 | 128])
        number >>= 7
    return written + bytes([number])


def framed(record: bytes) -> bytes:
    """Return a record with its length and checksums."""
    size = struct.pack("<Q", len(record))
    return size + stored_crc(size) + record + stored_crc(record)


def stored_crc(data: bytes) -> bytes:
    """Return the masked CRC-32C of bytes, computed bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
