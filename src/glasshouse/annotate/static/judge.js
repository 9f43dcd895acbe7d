// One picture after another: choose an answer, say how sure, and the next picture is there.
//
// A choice needs a second press for how sure one is, because a default would be what most people record. Only after
// "none" is there a default, "guess": who could not tell is guessing, so the forced choice saves with one press. Two
// answers times three grades make a scale of six, which needs one press altogether.

import { ask } from "./client.js";
import { fit, keepOnly, stagePictures } from "./pictures.js";

const KEYS = "123456789abcdefghijk";
const GRADES = ["certain", "likely", "guess"];
const TOO_FAST = 120; // milliseconds; a press this early was meant for the picture before

const $ = (id) => document.getElementById(id);
const stage = $("stage");
const answers = $("answers");
const sure = $("sure");

let queue = []; // what is on stage, then what comes next
let sending = Promise.resolve(); // writes go out one after another
let unsaved = 0; // writes that the server has not answered
const answered = new Set(); // sent or being sent, so that an older reply does not show them again
let chosen = null; // the answer that waits for a grade
let isForced = false; // the answer was "none", and a choice is asked all the same
let forcedGrade = "guess";
let done = 0; // answers that are saved
let seenFor = 0; // milliseconds for which the picture was visible before it was last hidden
let seenSince = null;

/* what is remembered in this browser: two habits, no answers */
const remembered = {
  get grade() { return localStorage.getItem("grade") ?? "likely"; },
  set grade(value) { localStorage.setItem("grade", value); },
  get smooth() { return localStorage.getItem("smooth") === "yes"; },
  set smooth(value) { localStorage.setItem("smooth", value ? "yes" : "no"); },
};

function element(tag, { text, keys, ...properties } = {}) {
  const made = Object.assign(document.createElement(tag), properties);
  if (keys) {
    const key = document.createElement("kbd");
    key.textContent = keys;
    key.setAttribute("aria-hidden", "true");
    made.append(key);
    made.setAttribute("aria-keyshortcuts", keys);
  }
  if (text) made.append(Object.assign(document.createElement("span"), { textContent: text }));
  return made;
}

const button = (text, keys, onclick, className = "answer") => element("button", { type: "button", text, keys, onclick, className });
const say = (words) => { $("status").textContent = words; };
const current = () => queue[0];
const isAsked = () => chosen !== null; // how sure
const isScale = (item) => item.answers.length === 2 && !item.none;
const elapsed = () => Math.round(seenFor + (seenSince === null ? 0 : performance.now() - seenSince));
const isReady = () => current() !== undefined && elapsed() >= TOO_FAST;

/* ---- work from the server ---- */

async function take(work) {
  const before = current()?.id;
  done = work.done;
  queue = work.items.filter((item) => !answered.has(item.id));
  $("progress").max = Math.max(work.total, 1);
  $("progress").value = work.done;
  $("count").textContent = `${work.done} of ${work.total}`;
  $("undo").disabled = !work.undoable;
  keepOnly(queue);
  if (!queue.length && !work.items.length) location.replace("/thanks");
  else if (queue.length && current().id !== before) await show();
}

async function show() {
  const item = current();
  try {
    await stagePictures(stage, item);
  } catch {
    alarm("The picture did not load. Reload the page to try again.");
    return;
  }
  if (item !== current()) return;
  $("explanation").textContent = item.explanation;
  $("none-key").textContent = noneKey(item);
  askAgain(false);
  stage.setAttribute("aria-label", `Picture ${$("progress").value + 1} of ${$("progress").max}`);
  stage.focus({ preventScroll: true });
  seenSince = document.hidden ? null : performance.now();
}

const trouble = (there) => (there ? alarm("The server does not answer. Your answer is kept here and sent again.") : alarm(null));

function alarm(words) {
  $("alarm").hidden = !words;
  $("alarm").textContent = words ?? "";
}

/** Send a write after those before it; what comes back is the work that is left. */
function send(path, body) {
  unsaved += 1;
  const sent = sending.then(() => ask(path, { body, trouble }));
  sending = sent.then((work) => { unsaved -= 1; return take(work); }).catch(refused);
  return sending;
}

function refused(error) {
  if (error.status === 403) location.reload(); // the link was withdrawn: the server's own page says so
  else alarm(`${error.message} Your last answer was not saved: reload the page to go on.`);
}

/* ---- an answer ---- */

/** Back to the question, or on to the choice that is asked after "none". */
function askAgain(forced) {
  chosen = null;
  isForced = forced;
  forcedGrade = "guess";
  $("question").textContent = forced ? current().forced : current().question;
  drawAnswers(current());
  drawGrades();
}

function pick(answer) {
  if (!isReady()) return;
  if (isForced) save(null, forcedGrade, answer);
  else if (answer === chosen) grade(remembered.grade); // pressed twice: as sure as last time
  else {
    chosen = answer;
    for (const one of answers.children) one.setAttribute("aria-pressed", one.dataset.answer === answer);
    drawGrades();
    sure.querySelector(".last").focus();
    say("How sure are you?");
  }
}

function pickNone() {
  if (!isReady()) return;
  askAgain(true);
  stage.focus({ preventScroll: true });
  say(current().forced);
}

function reconsider() {
  askAgain(false);
  stage.focus({ preventScroll: true });
}

function grade(word) {
  if (isForced) {
    forcedGrade = word;
    drawGrades();
  } else if (isAsked()) {
    remembered.grade = word;
    save(chosen, word, null);
  }
}

function save(answer, confidence, forced) {
  const item = queue.shift();
  const vote = { item: item.id, answer, confidence, forced, milliseconds: elapsed() };
  answered.add(item.id);
  chosen = null; // from here on no press counts until the next picture is there
  isForced = false;
  seenFor = 0;
  seenSince = null;
  alarm(null);
  if (current()) show();
  else waiting();
  send("/api/votes", vote).then(() => say(`Saved. ${$("count").textContent}.`));
}

/** Faster than the server: nothing can be answered until the next picture is there. */
function waiting() {
  stage.replaceChildren();
  answers.replaceChildren();
  sure.replaceChildren();
}

async function undo() {
  if ($("undo").disabled) return;
  $("undo").disabled = true;
  await sending;
  const before = done;
  answered.clear();
  chosen = null;
  queue = [];
  await send("/api/undo", { done });
  if (done < before) say("Taken back. Answer again.");
  else alarm("That answer cannot be taken back any more: you have seen more of the same since.");
}

/* ---- drawing ---- */

function drawAnswers(item) {
  document.body.classList.toggle("forced", isForced);
  answers.className = isScale(item) ? "answers scale" : "answers";
  document.body.classList.toggle("asks-scale", isScale(item));
  answers.replaceChildren(...(isScale(item) ? scale(item) : list(item)));
}

/** A key for each answer: a digit is its own key, all others take the next one that is free. */
function keysOf(item) {
  const free = [...KEYS].filter((key) => !item.answers.includes(key));
  return item.answers.map((answer) => (/^\d$/.test(answer) ? answer : free.shift()));
}

const noneKey = (item) => (item.answers.includes("0") ? "n" : "0");

function list(item) {
  const keys = keysOf(item);
  const buttons = item.answers.map((answer, place) => {
    const made = button(answer, keys[place], () => pick(answer));
    made.dataset.answer = answer;
    made.setAttribute("aria-pressed", "false");
    return made;
  });
  if (isForced) buttons.push(button("Choose again", "Esc", reconsider, "answer wide"));
  else if (item.none) buttons.push(button(item.none, noneKey(item), pickNone, "answer wide"));
  return buttons;
}

/** Certainly this ... perhaps this, perhaps that ... certainly that. */
function scale(item) {
  return item.answers.map((answer, side) => {
    const group = element("fieldset");
    const grades = side ? [...GRADES].reverse() : GRADES;
    const buttons = grades.map((word, place) => button(word, String(3 * side + place + 1), () => isReady() && save(answer, word, null)));
    buttons.forEach((one, place) => one.setAttribute("aria-label", `${answer}, ${grades[place]}`));
    group.append(element("legend", { text: answer }), ...buttons);
    return group;
  });
}

function drawGrades() {
  const last = isForced ? forcedGrade : remembered.grade;
  sure.hidden = isScale(current());
  sure.classList.toggle("asked", isAsked());
  const buttons = GRADES.map((word, place) => {
    const made = button(word, isForced ? "" : String(place + 1), () => grade(word), word === last ? "answer last" : "answer");
    made.disabled = !isAsked() && !isForced;
    if (isForced) made.setAttribute("aria-pressed", word === last);
    return made;
  });
  sure.replaceChildren(element("span", { className: "what", textContent: "How sure?" }), ...buttons);
}

/* ---- keyboard ---- */

const enabled = (room) => [...room.querySelectorAll("button:not(:disabled)")];

function move(key) {
  const buttons = enabled(isAsked() ? sure : answers);
  const at = buttons.indexOf(document.activeElement);
  const columns = isAsked() || isScale(current()) ? 1 : getComputedStyle(answers).gridTemplateColumns.split(" ").length;
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[key];
  const to = at < 0 ? 0 : Math.min(Math.max(at + step, 0), buttons.length - 1);
  buttons[to]?.focus();
}

function press(key) {
  if (isAsked() && "123".includes(key)) return grade(GRADES[key - 1]);
  const wanted = isScale(current()) ? enabled(answers)[key - 1] : [...answers.children].find((one) => one.getAttribute("aria-keyshortcuts") === key);
  return wanted?.click();
}

const COMMANDS = {
  Backspace: undo,
  u: undo,
  s: () => smooth(!remembered.smooth),
  "?": () => $("guide").showModal(),
  Escape: () => current() && reconsider(),
  "+": () => isForced && grade(GRADES[Math.max(GRADES.indexOf(forcedGrade) - 1, 0)]),
  "-": () => isForced && grade(GRADES[Math.min(GRADES.indexOf(forcedGrade) + 1, 2)]),
  " ": () => isAsked() && grade(remembered.grade),
};

document.addEventListener("keydown", (event) => {
  if ($("guide").open || event.altKey || event.metaKey || event.repeat) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const onButton = document.activeElement instanceof HTMLButtonElement;
  if (event.ctrlKey) {
    if (key === "z") undo();
  } else if (key.startsWith("Arrow") && current()) {
    event.preventDefault();
    move(key);
  } else if (key in COMMANDS && !(key === " " && onButton)) {
    event.preventDefault();
    COMMANDS[key]();
  } else if (current() && key.length === 1) {
    press(key);
  }
});

/* ---- the rest of the page ---- */

function smooth(on) {
  remembered.smooth = on;
  document.body.classList.toggle("smooth", on);
  $("smooth").setAttribute("aria-pressed", on);
}

$("undo").onclick = undo;
$("smooth").onclick = () => smooth(!remembered.smooth);
$("help").onclick = () => $("guide").showModal();
$("guide").addEventListener("close", () => {
  $("begin").textContent = "Go on";
  seenFor = 0; // time spent reading is not time spent looking
  seenSince = performance.now();
  stage.focus({ preventScroll: true });
});
new ResizeObserver(() => fit(stage)).observe(stage);
document.addEventListener("visibilitychange", () => {
  seenFor = elapsed();
  seenSince = document.hidden ? null : performance.now();
});
addEventListener("beforeunload", (event) => {
  if (unsaved) event.preventDefault();
});

smooth(remembered.smooth);
const first = await ask("/api/work", { trouble }).catch(refused);
if (first) {
  await take(first); // the guide explains the first picture, and does not grow under the pointer
  if (!first.done && first.items.length) $("guide").showModal();
}
