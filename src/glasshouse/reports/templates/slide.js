// A slider between an original and what was made of it.
for (const slider of document.querySelectorAll(".pairs input")) {
  const over = slider.parentElement.querySelector(".over");
  slider.addEventListener("input", () => { over.style.clipPath = `inset(0 0 0 ${slider.value}%)`; });
}
