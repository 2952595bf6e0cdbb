"""The README's examples run, on a server with the sample rules."""

import contextlib
import io
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import PROGRAM

README = Path(__file__).parent.parent / "README.md"


@pytest.fixture(scope="module")
def sample() -> Iterator[str]:
    options = ["--http", "0", "--grpc", "off", "--resp", "off", "--admin", "off"]
    with subprocess.Popen([PROGRAM, "serve", *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        found = next(found for line in process.stdout if (found := re.search(r"http://[0-9.:]+", line)))
        yield found[0]
        process.terminate()
        process.stdout.read()


@pytest.mark.skipif(not README.exists(), reason="the README is not part of an installed package")
def test_every_example(sample: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    names: dict[str, object] = {"__name__": "readme"}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for block in blocks:
            exec(block.replace("http://127.0.0.1:8080", sample), names)
    assert len(blocks) == 6
    assert re.fullmatch(r"199 of 200 left\nlease \d+\nallow\n", printed.getvalue()), printed.getvalue()
