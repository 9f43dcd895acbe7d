// The way back from the last page: the last answer is taken back, and its picture is asked again.

import { ask } from "./client.js";

const button = document.getElementById("undo");

button?.addEventListener("click", async () => {
  button.disabled = true;
  try {
    await ask("/api/undo", { body: { done: Number(button.dataset.done) } });
    location.assign("/");
  } catch (error) {
    const alarm = document.getElementById("alarm");
    alarm.textContent = error.message;
    alarm.hidden = false;
  }
});
