"""The original to compare with: protoc, and protobuf's own classes made from our .proto file."""

from __future__ import annotations

import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final

from stage.needs import skip_without

PROTO: Final = Path(__file__).parents[3] / "examples" / "dwork" / "TaskMsg.proto"
GOLDEN: Final = Path(__file__).parent / "golden"
"""Messages as text, NAME.textproto; all their bytes are in messages.hex."""
GOLDEN_BYTES: Final = {
    name: bytes.fromhex(digits)
    for name, digits in map(str.split, (GOLDEN / "messages.hex").read_text().splitlines())
}


def protoc(*arguments: str, stdin: bytes = b"") -> bytes:
    """What protoc prints when it is told to do something with our .proto file."""
    skip_without("protoc")
    command = ["protoc", f"-I{PROTO.parent}", *arguments, PROTO.name]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@cache
def query_class() -> Any:
    """Protobuf's QueryMsg with bytes in place of strings: the same on the wire, and it takes any name."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]

    with tempfile.TemporaryDirectory() as folder:
        described = Path(folder) / "described"
        protoc(f"--descriptor_set_out={described}")
        files = descriptor_pb2.FileDescriptorSet.FromString(described.read_bytes())
    (file,) = files.file
    for message in file.message_type:
        for field in message.field:
            if field.type == field.TYPE_STRING:
                field.type = field.TYPE_BYTES
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("dwork.QueryMsg"))
