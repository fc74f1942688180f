"use strict";
// Sorting: by data-order where a cell has one, else by its text; empty cells stay last.
function key(row, column) {
  const cell = row.cells[column];
  const text = "order" in cell.dataset ? cell.dataset.order : cell.textContent.trim();
  const value = Number(text);
  return text === "" ? null : Number.isNaN(value) ? text.toLowerCase() : value;
}
function compare(a, b) {
  if (typeof a === typeof b) return a < b ? -1 : a > b ? 1 : 0;
  return typeof a === "number" ? -1 : 1;
}
function sort(heading) {
  const table = heading.closest("table"), column = heading.cellIndex, down = heading.getAttribute("aria-sort") === "ascending";
  table.querySelectorAll("thead th").forEach(other => other.removeAttribute("aria-sort"));
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  const rows = Array.from(table.tBodies[0].rows, row => [key(row, column), row]);
  rows.sort(([a], [b]) => a === null || b === null ? (a === null) - (b === null) : down ? compare(b, a) : compare(a, b));
  table.tBodies[0].append(...rows.map(([, row]) => row));
}
document.querySelectorAll("table.sortable thead th").forEach(heading => heading.addEventListener("click", () => sort(heading)));

// A number's link shows the runs behind it, and only those.
const list = document.getElementById("run-list"), note = document.getElementById("filter");
function show(groups) {
  for (const row of list.tBodies[0].rows) row.hidden = groups !== null && !groups.includes(row.dataset.group);
  note.hidden = groups === null;
}
document.querySelectorAll("a[data-groups]").forEach(link => link.addEventListener("click", () => show(link.dataset.groups.split(" "))));
note.querySelector("button").addEventListener("click", () => show(null));
