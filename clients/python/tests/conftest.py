"""A real server for the tests. RATEKEEPER_BIN names the program; the default is that of a debug build of the repository."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROGRAM = os.environ.get("RATEKEEPER_BIN", str(HERE.parents[2] / "target/debug/ratekeeper"))


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of a server on a free port."""
    options = ["--http", "0", "--grpc", "off", "--resp", "off", "--admin", "off", "--rules", str(HERE / "rules.yaml")]
    with subprocess.Popen([PROGRAM, "serve", *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search(r"http://[0-9.:]+", line):
                break
        else:
            pytest.fail("the server did not start")
        yield found[0]
        process.terminate()
        process.stdout.read()


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    """A key of this test alone."""
    return request.node.name
