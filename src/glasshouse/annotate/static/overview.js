// The owner's overview: asked for every few seconds, drawn from what comes back.

import { ask } from "./client.js";

const EVERY = 3000; // milliseconds
const $ = (id) => document.getElementById(id);
const percent = (share) => (share === null ? "–" : `${Math.round(100 * share)} %`);

function make(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

/** Seconds in the unit that people would use. */
function duration(seconds) {
  const units = [[86400, "d"], [3600, "h"], [60, "min"]];
  const [size, unit] = units.find(([size]) => seconds >= size) ?? [1, "s"];
  return `${Math.round(seconds / size)} ${unit}`;
}

function drawFigures(found) {
  $("items").textContent = `${found.complete} of ${found.items}`;
  $("progress").max = Math.max(found.items, 1);
  $("progress").value = found.complete;
  $("votes").textContent = found.votes.toLocaleString("en");
  $("left").textContent = `of ${found.wanted.toLocaleString("en")} wanted`;
  $("hour").textContent = found.votes_last_hour.toLocaleString("en");
  const left = found.wanted - found.votes;
  if (found.missing) $("end").textContent = `invite ${found.missing} more ${found.missing === 1 ? "person" : "people"} for all items`; // no pace gets there without them
  else $("end").textContent = found.votes_last_hour && left > 0 ? `about ${duration((3600 * left) / found.votes_last_hour)} left at this pace` : "";
}

/** Krippendorff's alpha in large, what else is known beside it in small. */
function drawAgreement(reports) {
  const known = reports.filter((report) => report.krippendorff_alpha);
  $("agreement").textContent = known.map(({ krippendorff_alpha: alpha }) => alpha.mean.toFixed(2)).join(" · ") || "–";
  $("agreement-words").textContent = known
    .map(({ task, krippendorff_alpha: alpha }) => `${task}: α ${alpha.low.toFixed(2)} to ${alpha.high.toFixed(2)}`)
    .join(" · ") || "needs items with two votes";
}

const SVG = "http://www.w3.org/2000/svg";

function drawHours(hours) {
  const most = Math.max(...hours, 1);
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${hours.length * 10} 60`);
  svg.setAttribute("preserveAspectRatio", "none");
  hours.forEach((count, place) => {
    const height = count ? Math.max((58 * count) / most, 1.5) : 1;
    const bar = document.createElementNS(SVG, "rect");
    const sizes = { x: place * 10 + 1, y: 60 - height, width: 8, height };
    for (const [name, value] of Object.entries(sizes)) bar.setAttribute(name, value);
    if (!count) bar.setAttribute("class", "none");
    const title = document.createElementNS(SVG, "title");
    const ago = hours.length - 1 - place;
    title.textContent = `${count} votes, ${ago ? `${ago} h ago` : "this hour"}`;
    bar.append(title);
    svg.append(bar);
  });
  const axis = make("div", { className: "axis" }, make("span", { textContent: "24 h ago" }), make("span", { textContent: `at most ${most} an hour` }), make("span", { textContent: "now" }));
  $("hours").replaceChildren(svg, axis);
  $("hours").setAttribute("aria-label", `Votes per hour of the last day, the present hour last: ${hours.join(", ")}`);
}

function drawAnnotators(people) {
  const number = (text) => make("td", { className: "number", textContent: text });
  const rows = people.map((one) =>
    make(
      "tr",
      {},
      make("th", { scope: "row", textContent: one.name }),
      number(one.votes),
      number(percent(one.none)),
      number(percent(one.checks)),
      number(one.median_seconds === null ? "–" : `${one.median_seconds.toFixed(1)} s`),
      make("td", { textContent: one.last_answer === null ? "none yet" : `${duration(one.last_answer)} ago` }),
      make("td", {}, ...[...one.flags, ...(one.revoked ? ["link withdrawn"] : [])].map((flag) => make("span", { className: "flag", textContent: flag }))),
    ),
  );
  $("annotators").replaceChildren(...rows);
}

function drawDisputed(items) {
  const cards = items.map(({ pictures, condition, truth, given }) => {
    const images = pictures.map((address) => make("img", { src: address, alt: "", loading: "lazy" }));
    const lines = given.map(({ answer, votes }) => {
      const words = answer ?? "none of these";
      return make("li", { className: answer === truth ? "right" : "" }, make("span", { textContent: words }), make("span", { className: "count", textContent: votes }));
    });
    return make("figure", { className: "dispute" }, make("div", { className: "pictures" }, ...images), make("figcaption", { className: "soft", textContent: condition }), make("ul", {}, ...lines));
  });
  $("disputed").replaceChildren(...(cards.length ? cards : [make("p", { className: "empty", textContent: "Nobody disagrees yet." })]));
}

let drawn = "";

async function refresh() {
  const found = await ask("/api/overview", { trouble: (there) => fresh(!there) });
  drawFigures(found);
  drawAgreement(found.agreement);
  drawHours(found.hours);
  drawAnnotators(found.annotators);
  const now = JSON.stringify(found.disputed);
  if (now !== drawn) drawDisputed(found.disputed); // pictures that did not change do not flicker
  drawn = now;
  fresh(true);
}

function fresh(is) {
  $("fresh").textContent = is ? "Live" : "The server does not answer";
  $("fresh").classList.toggle("stale", !is);
}

async function keepFresh() {
  for (;;) {
    if (!document.hidden) await refresh();
    await new Promise((resolve) => setTimeout(resolve, EVERY));
  }
}

keepFresh().catch(() => location.reload()); // the link was withdrawn: the server's own page says so
