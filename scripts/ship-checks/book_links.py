"""Links of the book.

    book_links.py check        every page is in docs/SUMMARY.md, and every relative link and anchor of docs exists;
                               with RATEKEEPER_RENEW=1 missing pages are added to the summary
    book_links.py supports X   mdBook asks whether this preprocessor supports a renderer
    book_links.py              a preprocessor for mdBook: links that leave docs/ lead to the repository
"""

import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def repository() -> str:
    with open(os.path.join(ROOT, "Cargo.toml"), encoding="utf-8") as manifest:
        return re.search(r'^repository = "(.*)"', manifest.read(), re.MULTILINE)[1]


def outside(page: str, target: str) -> str | None:
    """The path in the repository of a link that leaves docs/."""
    path = os.path.normpath(os.path.join("docs", os.path.dirname(page), target.split("#")[0]))
    return None if "://" in target or target.startswith("#") or path.startswith("docs" + os.sep) else path


def preprocess() -> None:
    _, book = json.load(sys.stdin)
    base = repository() + "/blob/main/"

    def rewrite(items: list) -> None:
        for item in items:
            if chapter := item.get("Chapter") if isinstance(item, dict) else None:
                page = chapter["path"] or ""
                chapter["content"] = LINK.sub(
                    lambda found: found[1] + (base + path if (path := outside(page, found[2])) else found[2]) + found[3],
                    chapter["content"],
                )
                rewrite(chapter["sub_items"])

    rewrite(book["sections"] if "sections" in book else book["items"])
    json.dump(book, sys.stdout)


def anchors(text: str) -> set[str]:
    """The anchors of headings, as GitHub and mdBook make them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.*)", FENCE.sub("", text), re.MULTILINE):
        heading = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        number = 1
        while (anchor if number == 1 else f"{anchor}-{number - 1}") in found:
            number += 1
        found.add(anchor if number == 1 else f"{anchor}-{number - 1}")
    return found


def with_missing(texts: dict[str, str]) -> str:
    """The summary with the pages that it lacks: decisions at their place, others at the end of the guides."""
    lines = texts["SUMMARY.md"].rstrip("\n").split("\n")
    for page in sorted(texts):
        if page == "SUMMARY.md" or any(f"]({page})" in line for line in lines):
            continue
        title = texts[page].split("\n", 1)[0].strip("# ")
        if page.startswith("decisions/"):
            lines.append(f"  - [{title}]({page})")
        else:
            lines.insert(lines.index("# Reference") - 1, f"- [{title}]({page})")
    return "\n".join(lines) + "\n"


def check() -> None:
    pages = sorted(
        os.path.relpath(os.path.join(directory, name), os.path.join(ROOT, "docs"))
        for directory, _, names in os.walk(os.path.join(ROOT, "docs"))
        for name in names
        if name.endswith(".md")
    )
    texts = {page: open(os.path.join(ROOT, "docs", page), encoding="utf-8").read() for page in pages}
    if os.environ.get("RATEKEEPER_RENEW"):
        texts["SUMMARY.md"] = with_missing(texts)
        with open(os.path.join(ROOT, "docs/SUMMARY.md"), "w", encoding="utf-8") as summary:
            summary.write(texts["SUMMARY.md"])
    problems = []
    listed = set(re.findall(r"\]\(([^)]+)\)", texts["SUMMARY.md"]))
    for page in pages:
        if page != "SUMMARY.md" and page not in listed:
            problems.append(f"docs/SUMMARY.md does not have {page}; RATEKEEPER_RENEW=1 adds it")
        for target in (found[2] for found in LINK.finditer(FENCE.sub("", texts[page]))):
            if "://" in target or target.startswith("mailto:"):
                continue
            path, _, anchor = target.partition("#")
            file = os.path.normpath(os.path.join(ROOT, "docs", os.path.dirname(page), path)) if path else os.path.join(ROOT, "docs", page)
            if not os.path.exists(file):
                problems.append(f"docs/{page}: {target} does not exist")
            elif anchor and file.endswith(".md") and anchor not in anchors(open(file, encoding="utf-8").read()):
                problems.append(f"docs/{page}: {target} has no such heading")
    if problems:
        sys.exit("\n".join(problems))
    print(f"ok    links of {len(pages)} pages")


if sys.argv[1:2] == ["check"]:
    check()
elif sys.argv[1:2] == ["supports"]:
    pass
else:
    preprocess()
