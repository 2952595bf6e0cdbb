"""Prints fenced blocks of a page: snippet.py PAGE HEADING LANGUAGE [NUMBER]. The number counts from 1 below the heading."""

import sys

page, heading, language, number = *sys.argv[1:4], int(sys.argv[4]) if len(sys.argv) > 4 else 1
inside, block = heading == "", None
for line in open(page, encoding="utf-8"):
    if block is None and line.startswith("#"):
        inside = line.strip("# \n") == heading
    elif block is None and line.startswith("```"):
        block = [] if inside and line.strip() == f"```{language}" else False
    elif line.startswith("```"):
        if block is not False:
            number -= 1
            if number == 0:
                sys.stdout.writelines(block)
                sys.exit()
        block = None
    elif block:
        block.append(line)
    elif block == []:
        block = [line]
sys.exit(f"{page}: no block {language} below {heading!r}")
