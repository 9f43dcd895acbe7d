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
const cellText = (cell) => {
  const parts = [...cell.childNodes].map((one) => one.textContent.trim()).filter(Boolean);
  const text = parts.join(" ").replace(/\s+/g, " ");
  // a spreadsheet takes such a text for a formula, and it may come from a file of somebody else
  return /^([=+@]|-(?![\d.]))/.test(text) ? `'${text}` : text;
};
const csv = (table) => [...table.rows]
  .map((row) => [...row.cells].map((cell) => `"${cellText(cell).replaceAll('"', '""')}"`).join(","))
  .join("\r\n");
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
  const table = box.querySelector("table");
  if (table) offer(box, at + 1, { csv: (name) => save(new Blob(["\ufeff", csv(table)], { type: "text/csv" }), name) });
});
[...document.querySelectorAll(".figure")].forEach((box, at) => {
  const figure = box.querySelector("svg");
  const picture = box.querySelector("img");
  if (figure) {
    offer(box, at + 1, {
      svg: (name) => save(new Blob([svgText(figure)], { type: "image/svg+xml" }), name),
      png: (name) => savePng(figure, name),
    });
  } else if (picture) {
    offer(box, at + 1, { png: async (name) => save(await (await fetch(picture.src)).blob(), name) });
  }
});
