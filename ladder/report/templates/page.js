"use strict";
// Tables that a click on a column's name sorts, and links that open the folded part they lead into.
(() => {
  const text = cell => cell.textContent.trim();
  const key = cell => cell.dataset.value !== undefined ? Number(cell.dataset.value) : text(cell) === "–" ? null : text(cell);
  const compare = (a, b) => typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));

  function sort(table, index) {
    const heads = [...table.tHead.rows[0].cells], head = heads[index];
    const order = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
    for (const each of heads) each.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1, body = table.tBodies[0];
    // Cells without a number end below, whichever way the others go.
    const rows = [...body.rows].map(row => [key(row.cells[index]), row]);
    rows.sort(([a], [b]) => (a === null) - (b === null) || (a === null ? 0 : sign * compare(a, b)));
    body.append(...rows.map(([, row]) => row));
  }

  for (const table of document.querySelectorAll("table.runs")) {
    [...table.tHead.rows[0].cells].forEach((head, index) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => sort(table, index));
    });
  }
  for (const note of document.querySelectorAll(".sorting")) note.hidden = false;

  function unfold() {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let part = target.parentElement; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    target.scrollIntoView();
  }
  addEventListener("hashchange", unfold);
  unfold();
})();
