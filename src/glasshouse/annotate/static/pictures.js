// Pictures: fetched ahead and kept decoded, shown as large as the stage allows.

const GAP = 8; // pixels between a picture and the words under it
const kept = new Map();

/** An image element that is loading or loaded; asked for twice it is the same one. */
export function picture(address) {
  if (!kept.has(address)) {
    const image = new Image();
    image.draggable = false;
    image.src = address;
    kept.set(address, image);
  }
  return kept.get(address);
}

/** Load what is coming, and let go of everything else. */
export function keepOnly(items) {
  const wanted = new Set(items.flatMap((item) => item.pictures.map(({ address }) => address)));
  for (const address of kept.keys()) if (!wanted.has(address)) kept.delete(address);
  for (const address of wanted) picture(address).decode().catch(() => {}); // a failure shows when the picture is put on stage
}

/** Put the pictures of an item on stage; resolves when all can be seen. */
export async function stagePictures(stage, item) {
  const figures = item.pictures.map(({ address, caption }) => figure(picture(address), caption));
  await Promise.all(item.pictures.map(({ address }) => picture(address).decode()));
  stage.replaceChildren(...figures);
  fit(stage);
}

function figure(image, caption) {
  const whole = document.createElement("figure");
  const words = document.createElement("figcaption");
  image.alt = caption || "The picture to judge";
  words.textContent = caption;
  whole.append(image, ...(caption ? [words] : []));
  return whole;
}

/** Enlarge every picture on stage to its place; whole screen pixels per picture pixel keep the squares equal. */
export function fit(stage) {
  for (const image of stage.querySelectorAll("img")) {
    const { clientWidth, clientHeight } = image.parentElement;
    const below = image.nextElementSibling ? image.nextElementSibling.offsetHeight + GAP : 0;
    const factor = Math.min(clientWidth / image.naturalWidth, (clientHeight - below) / image.naturalHeight);
    const whole = Math.floor(factor * devicePixelRatio) / devicePixelRatio || factor;
    image.width = image.naturalWidth * whole;
    image.height = image.naturalHeight * whole;
  }
}
