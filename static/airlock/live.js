// Reloads every <img data-live-src> once a second while the page is visible, and greys out images that are outdated.
"use strict";

const STALE_AFTER_MS = 5000;

function refreshStills() {
  if (document.hidden) return;
  for (const image of document.querySelectorAll("img[data-live-src]")) {
    if (image.dataset.loading) continue;
    const next = new Image();
    image.dataset.loading = "1";
    next.onload = () => {
      image.src = next.src;
      image.dataset.freshAt = String(Date.now());
      image.classList.remove("is-stale");
      delete image.dataset.loading;
    };
    next.onerror = () => { delete image.dataset.loading; };
    next.src = `${image.dataset.liveSrc}?t=${Date.now()}`;
    const age = Date.now() - Number(image.dataset.freshAt || 0);
    image.classList.toggle("is-stale", age > STALE_AFTER_MS);
  }
}

setInterval(refreshStills, 1000);
document.addEventListener("DOMContentLoaded", refreshStills);
