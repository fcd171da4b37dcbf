"""``python -m bench.quoted``: write the quoted numbers of the pages again."""

from __future__ import annotations

from bench.quoted.pages import PAGES, quoted

if __name__ == "__main__":
    for page in PAGES:
        page.write_text(quoted(page.read_text(encoding="utf-8")), encoding="utf-8")
        print(page)
