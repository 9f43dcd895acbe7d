// A slider between an original and what was made of it.
for (const slider of document.querySelectorAll(".pairs input")) {
  const over = slider.parentElement.querySelector(".over");
  const move = () => {
    if (over) over.style.clipPath = `inset(0 0 0 ${slider.value}%)`;
    slider.setAttribute("aria-valuetext", `${slider.value} % of the private image`);
  };
  slider.addEventListener("input", move);
  move();
}
