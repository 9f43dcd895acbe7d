// Sorting and choices; the page reads without them.
const value = (row, column) => {
  const cell = row.cells[column];
  return "order" in cell.dataset ? Number(cell.dataset.order.replace("inf", "Infinity")) : cell.textContent;
};
for (const button of document.querySelectorAll("#leaderboard thead button")) {
  button.addEventListener("click", () => {
    const head = button.closest("th");
    const down = head.getAttribute("aria-sort") !== "descending";
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const body = document.querySelector("#leaderboard tbody");
    const rows = [...body.rows].sort((one, two) => {
      const [a, b] = [value(one, head.cellIndex), value(two, head.cellIndex)];
      return (a > b ? 1 : a < b ? -1 : 0) * (down ? -1 : 1);
    });
    body.append(...rows);
  });
}
// the gallery opens with as many as a reader takes in, and shows what is chosen
const STEP = 24;
const every = [...document.querySelectorAll("#every figure")].map((figure) => [figure, JSON.parse(figure.dataset.facets)]);
const choices = [...document.querySelectorAll(".choices select")];
const more = document.getElementById("more");
let room = STEP;
const hang = () => {
  const wanted = choices.map((one) => [Number(one.dataset.facet), one.value]).filter(([, chosen]) => chosen);
  const chosen = every.filter(([, facets]) => wanted.every(([place, value]) => facets[place] === value));
  const shown = new Set(chosen.slice(0, room).map(([figure]) => figure));
  for (const [figure] of every) figure.hidden = !shown.has(figure);
  more.hidden = chosen.length <= room;
  document.querySelector(".choices output").textContent = `${shown.size} of ${chosen.length} reconstructions`;
};
if (every.length) {
  for (const one of choices) one.addEventListener("change", () => { room = STEP; hang(); });
  more.addEventListener("click", () => {
    const shown = every.filter(([figure]) => !figure.hidden).length;
    room += STEP;
    hang();
    every.filter(([figure]) => !figure.hidden)[shown]?.[0].querySelector("input").focus();
  });
  hang();
}
