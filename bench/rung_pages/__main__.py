"""Write every page and figure, and remove those of files that are gone."""

from __future__ import annotations

from bench.rung_pages.page import FOLDER, INDEX, compiled, files, index, page
from bench.rung_pages.records import load_records, load_tunings
from ladder.report.text import plural
from ladder.report.tile_figure import draw


def main() -> None:
    """Everything is made before anything is written."""
    records, tunings = load_records(), load_tunings()
    made = {INDEX: index(records)}
    for file in files():
        made[f"{file.stem}.md"] = page(file, records, tunings, compiled(file))
        made[f"{file.stem}.svg"] = draw(file.shown).svg
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in made.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    for path in FOLDER.iterdir():
        if path.name not in made:
            path.unlink()
    print(f"wrote {plural(len(files()), 'page')} to {FOLDER}")


if __name__ == "__main__":
    main()
