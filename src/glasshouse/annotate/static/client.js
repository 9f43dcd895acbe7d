// Talking to the server: every write carries the page's own token, and is tried again until it is answered.

const csrf = document.querySelector('meta[name="csrf"]')?.content ?? "";
const PAUSES = [300, 700, 1500, 3000, 5000];

export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** One request; a body makes it a write. */
async function once(path, body) {
  const write = { method: "POST", headers: { "Content-Type": "application/json", "X-CSRF-Token": csrf }, body: JSON.stringify(body) };
  const response = await fetch(path, body === undefined ? {} : write);
  if (response.ok) return response.json();
  throw new Refused(response.status, await explain(response));
}

/** What the server says about a refusal, else its number. */
async function explain(response) {
  const type = response.headers.get("Content-Type") ?? "";
  const found = type.includes("json") ? await response.json() : {};
  return typeof found.detail === "string" ? found.detail : `The server answered ${response.status}.`;
}

/** A server that is away, busy or restarting may take the request later; one that refuses it will not. */
const mayPass = (error) => !(error instanceof Refused) || error.status === 429 || error.status >= 500;

/** Ask until the server answers; `trouble(true)` while it does not, `trouble(false)` when it does again. */
export async function ask(path, { body, trouble = () => {} } = {}) {
  for (let tries = 0; ; tries += 1) {
    try {
      const answer = await once(path, body);
      if (tries) trouble(false);
      return answer;
    } catch (error) {
      if (!mayPass(error)) throw error;
      if (tries) trouble(true); // one failure may be a hiccup: say nothing yet
      await pause(PAUSES[Math.min(tries, PAUSES.length - 1)]);
    }
  }
}
