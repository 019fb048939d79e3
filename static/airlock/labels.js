// Names search fields (select2) for screen readers: an empty one has no accessible name.
"use strict";

function nameSearchFields() {
  for (const select of document.querySelectorAll("select.admin-autocomplete")) {
    const box = select.nextElementSibling && select.nextElementSibling.querySelector(".select2-selection");
    if (!box || box.dataset.named) continue;
    const label = document.querySelector(`label[for="${select.id}"]`);
    const name = select.getAttribute("aria-label") || (label && label.textContent.trim()) || "Search";
    const shown = box.textContent.trim();
    box.removeAttribute("aria-labelledby");
    box.setAttribute("aria-label", shown ? `${name}: ${shown}` : name);
    const inner = box.querySelector(".select2-selection__rendered");
    if (inner) inner.setAttribute("aria-label", name);
    box.dataset.named = "1";
  }
}

window.addEventListener("load", () => {
  nameSearchFields();
  new MutationObserver(nameSearchFields).observe(document.body, { childList: true, subtree: true });
});
