"""Executes a page: run_page.py PAGE DIRECTORY [FROM=TO …].

Fenced yaml and java blocks that follow "Save as `NAME`" are written to that file in the directory. The commands ("$ …") of
console blocks are run in order and must print the lines below them; "…" stands for any text. A command that ends in " &"
is started and ended with this program. FROM=TO replaces text on the page, such as ports.
"""

import os
import re
import signal
import subprocess
import sys
import time

page, directory = sys.argv[1:3]
text = open(page, encoding="utf-8").read()
for replacement in sys.argv[3:]:
    text = text.replace(*replacement.split("=", 1))

for name, block in re.findall(r"[Ss]ave (?:this )?as\s+`([\w.-]+)`:\n\n```\w+\n(.*?)```", text, re.DOTALL):
    with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
        file.write(block)

started, executed, starting = [], 0, False


def run(command: str, expected: list[str]) -> str | None:
    """The difference between what is printed and expected, if there is one."""
    if command.endswith(" &"):
        started.append(subprocess.Popen(command[:-2], shell=True, cwd=directory, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        return None
    done = subprocess.run(command, shell=True, cwd=directory, capture_output=True, text=True, timeout=300)
    printed = (done.stdout + done.stderr).replace("\r", "").splitlines()
    patterns = [re.escape(line).replace("…", ".*") for line in expected]
    if len(printed) == len(patterns) and all(map(re.fullmatch, patterns, printed)):
        return None
    return f"{page}: $ {command}\nexpected:\n" + "\n".join(expected) + "\nprinted:\n" + "\n".join(printed)


try:
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *expected = part.rstrip("\n").split("\n")
            starting = starting or command.endswith(" &")
            difference = run(command, expected)
            # The servers that were started need a moment: a first command is tried again while one of them is not ready.
            deadline = time.monotonic() + 30
            while difference and starting and time.monotonic() < deadline:
                time.sleep(0.2)
                difference = run(command, expected)
            if difference:
                sys.exit(difference)
            executed += 1
            starting = starting and command.endswith(" &")
    if not executed:
        sys.exit(f"{page}: no command was found")
    print(f"ok    {page}: {executed} commands")
finally:
    for process in started:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
