// Every table can be taken along as CSV, every figure as SVG and PNG; the page reads without it.
const heading = (part) => {
  const heads = [...document.querySelectorAll("h1, h2, h3")];
  const above = heads.filter((head) => head.compareDocumentPosition(part) & Node.DOCUMENT_POSITION_FOLLOWING);
  return above.length ? above[above.length - 1].textContent : document.title;
};
const fileName = (part, number, suffix) => {
  const words = heading(part).toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
  return `${words || "glasshouse"}-${number}.${suffix}`;
};
const save = (blob, name) => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
};
// a spreadsheet takes a text that begins so for a formula, and it may come from a file of somebody else
const FORMULA = /^[=+\-@\uFF1D\uFF0B\uFF0D\uFF20\t\r]/;
const NUMBER = /^[+-]?\d[\d.,]*(e[+-]?\d+)?( ?(%|x|s|dB|MB))?( to [+-]?\d[\d.,]*(e[+-]?\d+)?( ?%)?)?$/i;
const quoted = (text) => {
  const flat = text.replace(/\s+/g, " ").trim();
  return `"${(FORMULA.test(flat) && !NUMBER.test(flat) ? `'${flat}` : flat).replaceAll('"', '""')}"`;
};
// what stands small below a value, an interval mostly, becomes a column of its own
const plain = (cell) => [...cell.childNodes].filter((one) => one.nodeName !== "SMALL").map((one) => one.textContent).join(" ");
const small = (cell) => [...cell.querySelectorAll("small")].map((one) => one.textContent).join(" ");
const csv = (table) => {
  const rows = [...table.rows];
  const split = new Set(rows.slice(1).flatMap((row) => [...row.cells].filter(small).map((cell) => cell.cellIndex)));
  const line = (row) => [...row.cells].flatMap((cell) => {
    const beside = row.parentElement.nodeName === "THEAD" ? `${plain(cell)}: interval or note` : small(cell);
    return split.has(cell.cellIndex) ? [quoted(plain(cell)), quoted(beside)] : [quoted(cell.textContent)];
  });
  return rows.map((row) => line(row).join(",")).join("\r\n");
};
const svgText = (figure) => {
  const copy = figure.cloneNode(true);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("style", "color: #1c2733; background: #ffffff");
  return new XMLSerializer().serializeToString(copy);
};
const savePng = (figure, name) => {
  const { width, height } = figure.getBoundingClientRect();
  const picture = new Image();
  picture.onload = () => {
    const canvas = Object.assign(document.createElement("canvas"), { width: 2 * width, height: 2 * height });
    const context = canvas.getContext("2d");
    context.fillStyle = "#ffffff";
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(picture, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => save(blob, name));
  };
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgText(figure))}`;
};
const offer = (part, number, ways) => {
  const line = document.createElement("p");
  line.className = "export";
  for (const [suffix, act] of Object.entries(ways)) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = suffix.toUpperCase();
    button.setAttribute("aria-label", `Save “${heading(part)}” as ${suffix.toUpperCase()}`);
    button.addEventListener("click", () => act(fileName(part, number, suffix)));
    line.append(button);
  }
  part.after(line);
};
[...document.querySelectorAll(".scroll:not(.gallery)")].forEach((box, at) => {
  const table = box.querySelector("table:not(.gallery)");
  if (table) offer(box, at + 1, { csv: (name) => save(new Blob(["\ufeff", csv(table)], { type: "text/csv" }), name) });
});
[...document.querySelectorAll(".figure")].forEach((box, at) => {
  const figure = box.querySelector("svg");
  const pictures = [...box.querySelectorAll("img")];
  if (figure) {
    offer(box, at + 1, {
      svg: (name) => save(new Blob([svgText(figure)], { type: "image/svg+xml" }), name),
      png: (name) => savePng(figure, name),
    });
  } else if (pictures.length) {
    offer(box, at + 1, {
      png: async (name) => {
        for (const [number, picture] of pictures.entries()) {
          const own = pictures.length > 1 ? name.replace(/\.png$/, `-${number + 1}.png`) : name;
          save(await (await fetch(picture.src)).blob(), own);
        }
      },
    });
  }
});
