// Sorting and sliders; the page reads without them.
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
for (const slider of document.querySelectorAll(".pairs input")) {
  const over = slider.parentElement.querySelector(".over");
  slider.addEventListener("input", () => { over.style.clipPath = `inset(0 0 0 ${slider.value}%)`; });
}
